"""The partial results of all calls of an aggregate, in the same cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.blocks.aggregate.functions import aggregate_of
from penstock.blocks.aggregate.functions.cells import (
    Aggregate,
    Array,
    Cells,
    DoesNotFit,
    Indices,
    Lifting,
    Part,
    part_of,
    rows_of,
)
from penstock.blocks.aggregate.functions.count import Counts
from penstock.blocks.aggregate.functions.count_distinct import Distincts
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.kernels.expressions.vector import Mask, Vector
from penstock.sql.expressions import TRUE, Expression
from penstock.sql.plan import Call

TUPLES_PER_CELL = 4
"""Tuples for each cell from which on it pays to give every thread cells of its own."""


@dataclass(frozen=True)
class Arrivals:
    """Tuples that passed WHERE, and what the calls want to know of them.

    Parameters
    ----------
    length, start
        How many there are, and the number of the first; see :class:`Lifting`.
    arguments
        The values of each argument.
    filters
        Where each FILTER condition is true.
    times
        As in :class:`Lifting`.
    """

    length: int
    start: int
    arguments: Mapping[Expression, Vector]
    filters: Mapping[Expression, Mask]
    times: Indices | None

    def only(self, rows: Indices, start: int) -> Arrivals:
        """Some of them, numbered anew."""
        return Arrivals(
            len(rows),
            start,
            {argument: rows_of(vector, rows) for argument, vector in self.arguments.items()},
            {condition: mask[rows] for condition, mask in self.filters.items()},
            None if self.times is None else self.times[rows],
        )

    def part(self, start: int, stop: int) -> Arrivals:
        """Neighbouring ones of them, with the numbers that they have."""
        return Arrivals(
            stop - start,
            self.start + start,
            {argument: part_of(vector, start, stop) for argument, vector in self.arguments.items()},
            {condition: mask[start:stop] for condition, mask in self.filters.items()},
            None if self.times is None else self.times[start:stop],
        )

    def lifting(self, call: Call | None, cells: Indices | int) -> Lifting:
        """Those that the call takes (None: all, without an argument), into these cells."""
        if call is None:
            return Lifting(cells, self.length, None, None, None, self.start)
        vector = None if call.argument is None else self.arguments[call.argument]
        mask = None if call.condition == TRUE else self.filters[call.condition]
        return Lifting(cells, self.length, vector, mask, self.times, self.start)


class Layout:
    """The calls of an aggregate, and the parts that they share.

    Parameters
    ----------
    calls
        The calls, over the columns of the input.
    counted
        The identity of each call; see
        :class:`penstock.program.isa.block_instructions.AggregateRows`.
    since
        The program that each call came with. A call counts from its own program on, so it shares
        no part with one that came before.
    """

    def __init__(
        self, calls: Sequence[Call], counted: Sequence[Call], since: Sequence[int]
    ) -> None:
        self.calls = tuple(calls)
        self.counted = tuple(counted) or self.calls
        self.since = tuple(since)
        self.aggregates: list[Aggregate] = [aggregate_of(call) for call in calls]
        self.parts: list[Part] = []
        self.keys: list[tuple[object, ...]] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._places: list[tuple[int, ...]] = []
        parts_of_calls = zip(self.aggregates, self.counted, self.since, strict=True)
        for aggregate, call, program in parts_of_calls:
            self._places.append(tuple(self._place(part, call, program) for part in aggregate.parts))

    def _place(self, part: Part, call: Call, program: int) -> int:
        key = (part.kind, call.argument, call.condition, program)
        if key not in self._known:
            self._known[key] = len(self.keys)
            self.keys.append(key)
            self.parts.append(part)
        return self._known[key]

    def changed(self, calls: Sequence[Call], counted: Sequence[Call], program: int) -> Layout:
        """The layout of other calls; those that stay keep the program that they came with."""
        known = dict(zip(self.counted, self.since, strict=True))
        return Layout(calls, counted, [known.get(call, program) for call in counted or calls])

    @property
    def counts_alone(self) -> bool:
        """Whether no call asks for more than the number of tuples."""
        plain = (part.call.argument is None and part.call.condition == TRUE for part in self.parts)
        return all(call.name == "count" for call in self.calls) and all(plain)

    def lower(self, parts: Sequence[Cells]) -> list[Any]:
        """The results of every call; :class:`DoesNotFit` with the first cell of all."""
        results, failures = [], []
        for i, (aggregate, places) in enumerate(zip(self.aggregates, self._places, strict=True)):
            try:
                results.append(aggregate.lower(tuple(parts[place] for place in places)))
            except DoesNotFit as error:
                failures.append((error.cell, i, error.value))
        if failures:
            cell, call, value = min(failures)
            raise CallDoesNotFit(cell, self.calls[call], value)
        return results


class CallDoesNotFit(Exception):
    """A result that its type cannot hold, in which cell, and of which call."""

    def __init__(self, cell: int, call: Call, value: str) -> None:
        super().__init__(f"{call}: {value}")
        self.cell = cell
        self.call = call
        self.value = value


class Bundle:
    """Cells of several parts that are moved together."""

    def __init__(self, members: Iterable[Any]) -> None:
        self.members: list[Any] = list(members)

    def like(self, count: int) -> Bundle:
        """As many empty cells."""
        return Bundle(cells.like(count) for cells in self.members)

    def take(self, cells: Indices) -> Bundle:
        """Copies of these cells."""
        return Bundle(part.take(cells) for part in self.members)

    def put(self, cells: Indices, other: Bundle) -> None:
        """Let these cells, all different, be the others."""
        for mine, theirs in zip(self.members, other.members, strict=True):
            mine.put(cells, theirs)

    def combine(self, other: Bundle) -> None:
        """Add the tuples of the same cells of others."""
        for mine, theirs in zip(self.members, other.members, strict=True):
            mine.combine(theirs)

    def invert(self, other: Bundle) -> None:
        """Take off the tuples of the same cells of others; of invertible parts alone."""
        for mine, theirs in zip(self.members, other.members, strict=True):
            mine.invert(theirs)

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Bundle:
        """A cell for each of ``count`` rows; see :meth:`Cells.of_intervals`."""
        if len(begins) == count and bool(
            (begins + 1 == ends).all() and (np.diff(begins) > 0).all()
        ):
            return self  # each row has one cell of its own
        return Bundle(part.of_intervals(begins, ends, count) for part in self.members)

    def only(self, places: Sequence[int]) -> Bundle:
        """Some of the parts; the cells are the same."""
        return Bundle(self.members[place] for place in places)


def stacked(first: Bundle, rows: Bundle, count: int, width: int) -> Bundle:
    """A row of ``width`` cells, and ``count`` rows after it."""
    made = first.like((count + 1) * width)
    made.put(np.arange(width), first)
    if count:
        made.put(np.arange(width, (count + 1) * width), rows)
    return made


def scan(rows: Bundle, count: int, width: int, backwards: bool = False) -> None:
    """Let every one of ``count`` rows be all rows up to it (``backwards``: from it on) as one.

    In a logarithmic number of steps, each of which combines every row with one twice as far off.
    """
    if count < 2:
        return
    rest = []
    for cells in rows.members:
        if hasattr(cells, "accumulate"):
            cells.accumulate(count, backwards)
        else:
            rest.append(cells)
    rows = Bundle(rest)
    step = 1
    while rest and step < count:
        near, far = np.arange((count - step) * width), np.arange(step * width, count * width)
        sums = rows.take(near)
        sums.combine(rows.take(far))
        rows.put(near if backwards else far, sums)
        step *= 2


def total(rows: Bundle, count: int, width: int) -> Bundle:
    """All rows as one; there is one at least."""
    while count > 1:
        half = count // 2
        upper = rows.take(np.arange((count - half) * width, count * width))
        rows = rows.take(np.arange((count - half) * width))
        sums = rows.take(np.arange(half * width))
        sums.combine(upper)
        rows.put(np.arange(half * width), sums)
        count -= half
    return rows


def cells_of_rows(rows: Indices, width: int) -> Indices:
    """The cells of rows, one row after another."""
    return (rows[:, None] * width + np.arange(width)).reshape(-1)


class Partials:
    """Cells with the number of tuples in each, and a partial result of every part."""

    def __init__(self, layout: Layout, count: int) -> None:
        self.layout = layout
        self.all = Bundle([Counts(count), *(part.make(count) for part in layout.parts)])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> Counts:
        counts: Counts = self.all.members[0]
        return counts

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in self.all.members)

    @property
    def invertible(self) -> list[int]:
        """The parts from which what was combined can be taken again."""
        return [i for i, cells in enumerate(self.all.members) if hasattr(cells, "invert")]

    @property
    def costs_per_value(self) -> bool:
        """Whether cells of some part are as large as they have different values."""
        return any(isinstance(cells, Distincts) for cells in self.all.members)

    def of(self, bundle: Bundle) -> Partials:
        """Other cells of the same parts."""
        made = Partials.__new__(Partials)
        made.layout, made.all = self.layout, bundle
        return made

    def clear(self, cells: Indices) -> None:
        """Take everything out of these cells, all different."""
        self.all.put(cells, self.all.like(len(cells)))

    def spread(self, count: int, new: Indices, old: Indices) -> None:
        """Have ``count`` cells, of which ``new[i]`` is what ``old[i]`` was."""
        wider = self.all.like(count)
        wider.put(new, self.all.take(old))
        self.all = wider

    def lift(
        self, cells: Indices | int, arrivals: Arrivals, threads: CoreThreads | None = None
    ) -> None:
        """Fold arrivals into their cells; threads divide them, if they are many beside the cells.

        Each of it has cells of its own, which become one in the end.
        """
        every = range(len(self.all.members))
        shared = threads is not None and all(
            getattr(c, "can_share", False) for c in self.all.members
        )
        if threads is None or not shared or arrivals.length < TUPLES_PER_CELL * len(self):
            self.lift_into(self.all, every, cells, arrivals)
            return
        cuts = [arrivals.length * i // threads.cores for i in range(threads.cores + 1)]

        def task(bundle: Bundle, start: int, stop: int) -> Callable[[int], None]:
            mine = cells if isinstance(cells, int) else cells[start:stop]
            return lambda _: self.lift_into(bundle, every, mine, arrivals.part(start, stop))

        others = [self.all.like(len(self)) for _ in cuts[2:]]
        parts = zip([self.all, *others], cuts, cuts[1:], strict=False)
        threads.share([task(*part) for part in parts])
        for other in others:
            self.all.combine(other)

    def lift_into(
        self, bundle: Bundle, places: Iterable[int], cells: Indices | int, arrivals: Arrivals
    ) -> None:
        """Fold arrivals into cells of the parts at these places."""
        everything: list[Counts] = []
        for place, mine in zip(places, bundle.members, strict=True):
            call = None if place == 0 else self.layout.parts[place - 1].call
            lifting = arrivals.lifting(call, cells)
            if isinstance(mine, Counts) and lifting.valid is None:
                everything.append(mine)
            else:
                mine.lift(lifting)
        if len(everything) > 1 and arrivals.length >= len(everything[0]):
            # The number of tuples is the same for all of them, so they are counted once.
            counted = everything[0].like(len(everything[0]))
            counted.lift(arrivals.lifting(None, cells))
            for mine in everything:
                mine.combine(counted)
        else:
            for mine in everything:
                mine.lift(arrivals.lifting(None, cells))

    def program(self, layout: Layout) -> None:
        """Change to the parts of other calls; parts that stay keep their values."""
        self._have(layout, [part.make(len(self)) for part in layout.parts])

    def follow(self, model: Partials) -> None:
        """Have the parts that others have been given, so that they can be combined."""
        self._have(model.layout, [cells.like(len(self)) for cells in model.all.members[1:]])

    def _have(self, layout: Layout, fresh: Sequence[Cells]) -> None:
        rows, *parts = self.all.members
        known = dict(zip(self.layout.keys, parts, strict=True))
        parts = [known.get(key, new) for key, new in zip(layout.keys, fresh, strict=True)]
        self.all, self.layout = Bundle([rows, *parts]), layout

    def results(self) -> list[Any]:
        """The results of every call."""
        return self.layout.lower(self.all.members[1:])

    def save(self) -> dict[str, Array]:
        """All cells as arrays of numbers."""
        return {
            f"{i}.{name}": np.asarray(column)
            for i, cells in enumerate(self.all.members)
            for name, column in cells.save().items()
        }

    def load(self, columns: Mapping[str, Array]) -> None:
        """Be the cells that were saved under the same layout."""
        for i, cells in enumerate(self.all.members):
            prefix = f"{i}."
            cells.load({n[len(prefix) :]: c for n, c in columns.items() if n.startswith(prefix)})
