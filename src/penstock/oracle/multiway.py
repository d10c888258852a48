"""A window join of three and more streams, one tuple at a time, by nested loops.

When a tuple arrives it is combined with the stored tuples of all other inputs of the inner join,
one of each. A combination is formed if ON holds and every two of its members meet the condition of
a two-way join, the later arrival of the two as the probe (:meth:`MultiwayRun._together`). Without
outer, semi and anti joins it is a row.

With such a join, and to the right of it, each step joins the combinations of what stands to its
left with one more input, and gives what it makes of them to the next step. A combination is live
until the first of its members expires. To the right of such a step, a tuple of a right or full join
is unmatched only when nothing that is still to be decided to its left can meet it. The rows of what
one event makes expire come oldest first, by the youngest member; those of its arrival by the
members' numbers in the order of FROM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.join import PADDED, Record, Side, is_past, selected, within
from penstock.oracle.stream_state import StreamState
from penstock.oracle.values import Row, Value
from penstock.sql.expressions import Column, Expression
from penstock.sql.plan import Join, Output, Select
from penstock.streams.windows import Range, Rows

Members = tuple[Record | None, ...]
"""A member of each input, in the order of FROM; None for NULLs."""


@dataclass(eq=False)
class Combination:
    """What stands to the left of a step; ``matched``: it has met a partner."""

    members: Members
    matched: bool = False

    @property
    def real(self) -> list[Record]:
        """The members that are tuples."""
        return [member for member in self.members if member is not None]


class MultiwayRun:
    """A running join of three and more inputs with the WHERE and the select list above it.

    ``late`` is called for each late tuple with its position, stream, row and reason.
    """

    def __init__(
        self,
        select: Select,
        sources: tuple[StreamState, ...],
        failures: Failures,
        late: Callable[[int, str, Row, str], None],
    ) -> None:
        assert isinstance(select.source, Join)
        self.select = select
        self.join = select.source
        self.failures = failures
        self.late = late
        self.sides = [
            Side(scan, source) for scan, source in zip(self.join.inputs, sources, strict=True)
        ]
        for side in self.sides:
            side.read_source()
        self.waiting: list[list[Combination]] = [[] for _ in self.join.steps]
        self.found: list[Members] = []

    @property
    def ended(self) -> bool:
        return all(side.source.ended for side in self.sides)

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event: of its tuples, by input, then of its punctuations."""
        out: list[Row] = []
        for number, side in enumerate(self.sides):
            for row in arrivals.get(side.source.key, []):
                out += self._arrive(position, number, row)
        for side in self.sides:
            side.read_source()
        return out + self._expire()

    def change(self, select: Select) -> list[Row]:
        """Change the program; returns the rows of what a smaller window makes expire."""
        assert isinstance(select.source, Join)
        self.select, self.join = select, select.source
        for side, scan in zip(self.sides, self.join.inputs, strict=True):
            side.reprogram(scan)
            side.punctuate()
        return self._expire()

    def output_punctuations(self) -> list[Value]:
        """For each output column its punctuation, or None."""
        return [self._output_punctuation(column) for column in self.select.columns]

    def _output_punctuation(self, column: Output) -> Value:
        """The smallest of the input's own punctuation and those of the others, less its window.

        To the right of an outer, semi or anti join a row may be decided later: when the window of
        another member has passed too.
        """
        reference = column.expression
        if not isinstance(reference, Column):
            return None
        side = self.sides[reference.side]
        time, window = side.scan.time, side.window
        if time is None or time.column != reference.index or not isinstance(window, Range):
            return None
        found: list[Value] = []
        waits = self._waits(reference.side)
        for other in self.sides:
            # The end of a stream is a punctuation of infinity.
            punctuation = math.inf if other.ended else other.punctuation
            if punctuation is None:
                return None
            if other is not side or waits:
                if (
                    window.inclusive
                    and isinstance(punctuation, float)
                    and math.isfinite(punctuation)
                ):
                    # A sum of floats may be rounded up to it: the float below it is safe.
                    punctuation = math.nextafter(punctuation, -math.inf)
                punctuation -= window.size
                if waits:
                    punctuation = self._decided(punctuation, reference.side)
            found.append(punctuation)
        least = min(found)
        if least == math.inf:
            return None
        # On a clock that ticks between two values, round up to the later one.
        step = time.factor
        return side.value_at(least if isinstance(step, float) else -(-least // step) * step)

    def _arrive(self, position: int, number: int, row: Row) -> list[Row]:
        """Take a tuple: expire others, give the rows of its combinations, and its own at once."""
        side = self.sides[number]
        record = side.admit(position, number, row, self.late)
        if record is None:
            return []
        out = self._expire()
        if number < self.join.core:
            for members in self._combinations([record], 0):
                ordered = tuple(sorted(members, key=lambda one: one.side))
                if self._holds(self.join.on, ordered):
                    self._formed(ordered)
        else:
            for combination in list(self.waiting[number - self.join.core]):
                self._meet(combination, record)
        side.records.append(record)
        out += self._rows(_in_order_of_from)
        return out + self._expire()

    def _combinations(self, members: list[Record], number: int) -> Iterator[list[Record]]:
        """Add a member of each input from ``number`` on, oldest first; the arrival is there."""
        if number == self.join.core:
            yield members
        elif number == members[0].side:
            yield from self._combinations(members, number + 1)
        else:
            for stored in list(self.sides[number].records):
                if all(self._together(stored, member) for member in members):
                    yield from self._combinations([*members, stored], number + 1)

    def _formed(self, members: Members) -> None:
        """Take a combination of the first inputs to the next step; after the last it is a row."""
        if len(members) == len(self.sides):
            self.found.append(members)
            return
        combination = Combination(members)
        for stored in list(self.sides[len(members)].records):
            self._meet(combination, stored)
        # If a member has expired already, the next _expire() settles it.
        self.waiting[len(members) - self.join.core].append(combination)

    def _meet(self, combination: Combination, record: Record) -> None:
        """Join a combination with a tuple of the next input, if they fit."""
        step = self.join.steps[record.side - self.join.core]
        together = (*combination.members, record)
        if not all(self._together(member, record) for member in combination.real):
            return
        if not self._holds(step.on, together):
            return
        first = not combination.matched
        combination.matched = record.matched = True
        if step.kind in ("inner", "left", "right", "full"):
            self._formed(together)
        elif step.kind == "semi" and first:
            self._formed((*combination.members, None))

    def _together(self, one: Record, other: Record) -> bool:
        """Whether two members may be in one combination."""
        stored, probe = sorted((one, other), key=lambda r: (r.position, r.side, r.seq))
        window, probe_window = self.sides[stored.side].window, self.sides[probe.side].window
        if not isinstance(window, Range):
            return True
        return within(probe.time, stored.time, window) and (
            probe.time >= stored.time
            or not isinstance(probe_window, Range)
            or within(stored.time, probe.time, probe_window)
        )

    def _holds(self, condition: Expression, members: Members) -> bool:
        return evaluate(condition, self._tuples(members), self.failures) is True

    def _tuples(self, members: Members) -> tuple[Row, ...]:
        """The tuples of members, with NULLs for those that are missing."""
        return tuple(
            tuple([None] * len(side.scan.stream.schema)) if member is None else member.row
            for side, member in zip(self.sides, members, strict=False)
        )

    def _rows(self, order: Callable[[Members], tuple[object, ...]]) -> list[Row]:
        """The rows that have been found, in this order."""
        found, self.found = sorted(self.found, key=order), []
        select, out = self.select, []
        for members in found:
            tuples = self._tuples(members)
            out += selected(select.where, select.columns, tuples, self.failures)
        return out

    def _expired(self, record: Record) -> bool:
        """Whether no further tuple of another input can join a stored tuple."""
        side = self.sides[record.side]
        others = [other for other in self.sides if other is not side]
        window = side.window
        if isinstance(window, Rows) and record.seq < side.count - window.size:
            return True
        return all(
            other.ended
            or (
                isinstance(window, Range)
                and other.punctuation is not None
                and is_past(other.punctuation, record.time, window)
            )
            for other in others
        )

    def _waits(self, number: int) -> bool:
        """Whether a tuple may be met after it has expired.

        That is to the right of an outer, semi or anti join: what stands to the left may be decided
        later.
        """
        return number > self.join.core

    def _decided(self, punctuation: Value, number: int) -> Value:
        """A time before which all is decided that stands to the left of an input.

        A combination is decided by when a window of its members has passed. An unmatched tuple of
        a right or full join that waits itself is decided when its window has passed after that.
        """
        found = []
        for left, side in enumerate(self.sides[:number]):
            padded = left > 0 and 1 in PADDED[self._kind(left)]
            size = side.window.size if isinstance(side.window, Range) else math.inf
            waits = padded and self._waits(left)
            found.append(_behind(self._decided(punctuation, left) if waits else punctuation, size))
        return min(found)

    def _kind(self, number: int) -> str:
        """The kind of the join that an input stands to the right of."""
        core = self.join.core
        return "inner" if number < core else self.join.steps[number - core].kind

    def _forgotten(self, record: Record) -> bool:
        """Whether nothing can meet a stored tuple any more."""
        window = self.sides[record.side].window
        if not self._waits(record.side):
            return self._expired(record)
        return all(
            side.ended
            or (
                isinstance(window, Range)
                and side.punctuation is not None
                and is_past(self._decided(side.punctuation, record.side), record.time, window)
            )
            for side in self.sides
        )

    def _expire(self) -> list[Row]:
        """Settle the combinations that are no longer live, and drop tuples that nothing can meet.

        A step takes what the step before it has settled.
        """
        for number, step in enumerate(self.join.steps):
            right = self.sides[self.join.core + number]
            padded = PADDED[step.kind]
            waiting, self.waiting[number] = self.waiting[number], []
            for combination in waiting:
                if not any(map(self._expired, combination.real)):
                    self.waiting[number].append(combination)
                elif not combination.matched and 0 in padded:
                    self._formed((*combination.members, None))
            # All that stands to the left and may meet such a tuple has been decided above.
            for record in right.records:
                if 1 in padded and not record.matched and self._forgotten(record):
                    self._formed((*[None] * record.side, record))
        for side in self.sides:
            side.records = [record for record in side.records if not self._forgotten(record)]
        return self._rows(_oldest_first)


def _behind(punctuation: Value, size: Value) -> Value:
    """The punctuation less a window; of floats, the number below, since differences are rounded."""
    less = punctuation - size
    if isinstance(less, float) and math.isfinite(less):
        return math.nextafter(less, -math.inf)
    return less


def _in_order_of_from(members: Members) -> tuple[object, ...]:
    return tuple(-1 if member is None else member.seq for member in members)


def _oldest_first(members: Members) -> tuple[object, ...]:
    youngest = max((member.position, member.side) for member in members if member is not None)
    return (*youngest, *_in_order_of_from(members))
