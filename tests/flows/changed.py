"""Small input with a change between two tuples, its pairs by definition, and what a block sends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from tests.flows.inputs import Arrival, Pair, Window, all_new, as_arrivals

from penstock.blocks.join.partner_search import Change, Chunk, Lifetimes, LiveTuples, Rule
from penstock.blocks.window.punctuator import Clock
from penstock.kernels.compiled import load_plain
from penstock.kernels.predicate.predicate import Predicate
from penstock.sql.expressions import Call, Column
from penstock.streams.windows import Range
from penstock.testing.plain_window import (
    NEVER,
    Matches,
    PlainChange,
    PlainGroup,
    PlainLive,
    PlainTuple,
)

CLOCK = Clock(floating=False)


def equal(left: Any, right: Any) -> bool:
    return bool(left == right)


def unequal(left: Any, right: Any) -> bool:
    return bool(left != right)


@dataclass(frozen=True)
class Program:
    """Windows, a comparison of the first or of the second column, and perhaps a filter.

    The filter lets every second tuple of R pass, from the first on. ``order``: that of the pairs.
    """

    windows: tuple[Window, Window]
    matches: Matches = equal
    column: int = 0
    filters: bool = False
    order: str | None = None

    def passes(self, side: int, seq: int) -> bool:
        return side == 1 or not self.filters or seq % 2 == 0

    def key(self, side: int, seq: int) -> int:
        """The first column repeats; the second does so too, but begins with 1 in S."""
        return (seq + side * self.column) % 2

    def rule(self) -> Rule:
        op = "eq" if self.matches is equal else "ne"
        x, y = (Column(side, self.column, f"c{side}", pa.int64()) for side in (0, 1))
        predicate = Predicate.of(Call(op, (x, y), pa.bool_()), load_plain)
        rows = self.windows[0].rows, self.windows[1].rows
        return Rule(predicate, "nested-loop", rows, self.order and (self.order, 1))


@dataclass(frozen=True)
class Changed:
    """Arrivals, R or S, one for each tick of time; the program changes before one of them."""

    order: str
    at: int
    before: Program
    after: Program

    def __str__(self) -> str:
        return f"{self.order[: self.at]} | {self.order[self.at :]}"

    @property
    def arrivals(self) -> tuple[Arrival, ...]:
        return tuple(Arrival("RS".index(one), 0, place) for place, one in enumerate(self.order))

    @property
    def cuts(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.order)))

    def program(self, place: int) -> Program:
        return self.after if place >= self.at else self.before

    def seq(self, place: int) -> int:
        return self.order[:place].count(self.order[place])

    def seen(self, until: int) -> tuple[int, int]:
        return self.order[:until].count("R"), self.order[:until].count("S")

    # -- by definition ----------------------------------------------------------------------

    def pairs(self) -> list[Pair]:
        """Of every two tuples, the younger one's program decides."""
        found = []
        for j, i in combinations(range(len(self.order)), 2):
            if self.order[i] == self.order[j] or not self._live(i, j):
                continue
            (r, s), program = ((i, j) if self.order[i] == "R" else (j, i)), self.program(i)
            left, right = self.seq(r), self.seq(s)
            if program.passes(0, left) and program.matches(
                program.key(0, left), program.key(1, right)
            ):
                found.append((left, right))
        return sorted(found)

    def _live(self, i: int, j: int) -> bool:
        """Whether tuple j is live for tuple i; what has expired before the change stays expired."""
        side = "RS".index(self.order[j])
        if j < self.at <= i and self._is_gone(j):
            return False
        window = self.program(i).windows[side]
        if window.rows is not None:
            return self.order[j:i].count(self.order[j]) <= window.rows
        assert window.span is not None
        return i < j + window.span

    def _is_gone(self, j: int) -> bool:
        """Whether a tuple from before the change has expired by then, in the smaller window."""
        side = "RS".index(self.order[j])
        for program in (self.before, self.after):
            window = program.windows[side]
            if window.rows is not None:
                if self.order[j : self.at].count(self.order[j]) > window.rows:
                    return True
            elif window.span is not None and j + window.span <= self._passed(side, self.at):
                return True
        return False

    def is_new(self, pair: Pair) -> bool:
        """Whether the younger tuple of a pair came after the change."""
        left, right = self.seen(self.at)
        return pair[0] >= left or pair[1] >= right

    # -- as a join block sends it -----------------------------------------------------------

    def _passed(self, side: int, until: int) -> float:
        """The punctuation of the other stream: the time of its last tuple."""
        return float(last) if (last := self.order[:until].rfind("SR"[side])) >= 0 else NEVER

    def _first_live(self, side: int, until: int, changed: bool) -> int:
        """The first number of a stream that is still in its window, by the program in force."""
        places = [p for p in range(until) if self.order[p] == "RS"[side]]
        window = (self.after if changed else self.before).windows[side]
        live = len(places)
        for number, place in reversed(list(enumerate(places))):
            if window.rows is not None:
                stays = len(places) - number <= window.rows
            else:
                assert window.span is not None
                stays = place + window.span > self._passed(side, until)
            if changed and place < self.at and self._is_gone(place):
                stays = False
            if not stays:
                break
            live = number
        return live

    def _tuple(self, place: int, program: Program, changed: bool = False) -> PlainTuple:
        """A tuple as it arrives; ``changed``: as it is sent with the change, for later tuples."""
        side = "RS".index(self.order[place])
        mine, other = program.windows[side], program.windows[1 - side]
        hi, lo = self.seen(self.at if changed else place)[1 - side], 0
        if other.rows is not None and not changed:
            first = self._first_live(1 - side, self.at, True) if place >= self.at else 0
            lo = max(first, hi - other.rows, 0)
        expiry = None if mine.span is None else place + mine.span
        return PlainTuple(
            self.seq(place),
            0 if changed else place,
            lo,
            hi,
            program.key(side, self.seq(place)),
            None if other.span is None else place,
            None if other.span is None else expiry,
            expiry,
            None if mine.span is None else place,
        )

    def tuples(self) -> list[tuple[int, PlainTuple]]:
        """Each arrival with its side, whether it passes the filter or not."""
        return [
            ("RS".index(one), self._tuple(place, self.program(place)))
            for place, one in enumerate(self.order)
        ]

    def plain_chunk(self, place: int) -> Chunk:
        """One arrival, if it passes the filter, and what it makes expire."""
        side, program, after = "RS".index(self.order[place]), self.program(place), place + 1
        own = (self._tuple(place, program),) if program.passes(side, self.seq(place)) else ()
        groups: Any = tuple(PlainGroup(s, own if s == side else ()) for s in (0, 1))
        changed = place >= self.at
        live = self._first_live(0, after, changed), self._first_live(1, after, changed)
        # The punctuation of R lets S expire, and the other way round.
        punctuations = self._passed(1, after), self._passed(0, after)
        return Chunk(groups, (place, after), self.seen(after), live, punctuations)

    def plain_change(self) -> PlainChange:
        """The change: with the live tuples if these have other keys, or more of them pass."""
        r, s = (window.span for window in self.after.windows)
        live = self._first_live(0, self.at, True), self._first_live(1, self.at, True)
        passed = self._passed(0, self.at), self._passed(1, self.at)
        sent = (self._sent(0, live[0]), self._sent(1, live[1])) if self._sends else None
        return PlainChange(
            self.after.matches, self.seen(self.at), live, (r, s), passed, sent
        )  # fmt: skip

    @property
    def _sends(self) -> bool:
        return (self.before.column, self.before.filters) != (self.after.column, self.after.filters)

    def _sent(self, side: int, first: int) -> PlainLive:
        places = [p for p in range(self.at) if self.order[p] == "RS"[side]][first:]
        given = [p for p in places if self.after.passes(side, self.seq(p))]
        numbers = tuple(map(self.seq, given))
        new = tuple(n for n in numbers if not self.before.passes(side, n))
        tuples = tuple(self._tuple(p, self.after, changed=True) for p in given)
        return PlainLive(tuples, numbers, new)

    # -- with columns -----------------------------------------------------------------------

    def messages(self) -> Iterator[Change | Chunk]:
        """The first program, the arrivals, and the change between them, for cores with kernels."""
        r, s = (as_arrivals(PlainGroup(side, ()), 1) for side in (0, 1))
        yield Change(self.before.rule(), (0, 0), (0, 0), None, (all_new(r), all_new(s)))
        for place in range(len(self.order) + 1):
            if place == self.at:
                yield self._change()
            if place < len(self.order):
                chunk = self.plain_chunk(place)
                groups: Any = tuple(as_arrivals(g, 1) for g in chunk.arrivals)  # type: ignore[arg-type]
                yield replace(chunk, arrivals=groups)

    def _change(self) -> Change:
        plain, lifetimes, sent = self.plain_change(), None, None
        if plain.sent is not None:
            r, s = (_columns(side, live) for side, live in enumerate(plain.sent))
            sent = (r, s)
        elif self.before.windows != self.after.windows and None not in plain.spans:
            windows = tuple(Range(span, 0) for span in plain.spans)  # type: ignore[arg-type]
            passed = [CLOCK.lowest if p == NEVER else int(p) for p in plain.passed]
            lifetimes = Lifetimes(CLOCK, windows, 1, (passed[0], passed[1]))  # type: ignore[arg-type]
        return Change(self.after.rule(), plain.before, plain.live, lifetimes, sent)


def _columns(side: int, live: PlainLive) -> LiveTuples:
    arrivals = as_arrivals(PlainGroup(side, live.tuples), 1)
    return LiveTuples(arrivals, arrivals.seqs, np.array(live.new, np.int64))
