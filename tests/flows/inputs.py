"""Random input for flows, its pairs by definition, and the chunks that a join block would send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.blocks.join.partner_search import (
    Arrivals,
    Change,
    Chunk,
    FoundPairs,
    LiveTuples,
    PartnerSearch,
    Rule,
)
from penstock.kernels.compiled import load_plain
from penstock.kernels.predicate.predicate import Predicate
from penstock.sql.expressions import TRUE, Call, Column, Expression, Literal
from penstock.testing.plain_window import PlainGroup, PlainTuple

Pair = tuple[int, int]
X, Y = Column(0, 0, "x", pa.int64()), Column(1, 0, "y", pa.int64())


@dataclass(frozen=True)
class Window:
    """A number of rows, or a span of time."""

    rows: int | None = None
    span: int | None = None


@dataclass(frozen=True)
class Arrival:
    side: int
    key: int
    time: int


@dataclass(frozen=True)
class Script:
    """Arrivals, windows, where the input is cut, and the predicate: any, equi or band."""

    arrivals: tuple[Arrival, ...]
    windows: tuple[Window, Window]
    cuts: tuple[int, ...]
    predicate: str = "any"

    def matches(self, left: int, right: int) -> bool:
        return {"any": True, "equi": left == right, "band": abs(left - right) <= 1}[self.predicate]

    # -- by definition ----------------------------------------------------------------------

    def pairs(self) -> list[Pair]:
        """Every pair by the definition: the later arrival finds the earlier one live."""
        found = []
        seqs = self._seqs()
        for i, p in enumerate(self.arrivals):
            for j, q in enumerate(self.arrivals[:i]):
                if q.side == p.side or not self._live(i, j):
                    continue
                (left, at), (right, then) = ((p, i), (q, j)) if p.side == 0 else ((q, j), (p, i))
                if self.matches(left.key, right.key):
                    found.append((seqs[at], seqs[then]))
        return sorted(found)

    def _live(self, i: int, j: int) -> bool:
        p, q = self.arrivals[i], self.arrivals[j]
        window = self.windows[q.side]
        if window.rows is not None:
            return sum(a.side == q.side for a in self.arrivals[j:i]) <= window.rows
        assert window.span is not None
        if p.time >= q.time + window.span:
            return False
        own = self.windows[p.side].span
        return own is None or p.time >= q.time or q.time < p.time + own

    def _seqs(self) -> list[int]:
        counts, seqs = [0, 0], []
        for arrival in self.arrivals:
            seqs.append(counts[arrival.side])
            counts[arrival.side] += 1
        return seqs

    # -- as a join block sends it -----------------------------------------------------------

    def tuples(self) -> list[tuple[int, PlainTuple]]:
        """Each arrival with its side, and the bounds that a block gives it."""
        made, counts = [], [0, 0]
        for rank, arrival in enumerate(self.arrivals):
            side, other = self.windows[arrival.side], self.windows[1 - arrival.side]
            hi = counts[1 - arrival.side]
            expiry = None if side.span is None else arrival.time + side.span
            made.append(
                PlainTuple(
                    counts[arrival.side],
                    rank,
                    0 if other.rows is None else max(0, hi - other.rows),
                    hi,
                    arrival.key,
                    None if other.span is None else arrival.time,
                    None if other.span is None else expiry,
                    expiry,
                    None if side.span is None else arrival.time,
                )
            )
            counts[arrival.side] += 1
        return [(a.side, t) for a, t in zip(self.arrivals, made, strict=True)]

    def live(self, until: int) -> tuple[int, int]:
        """The first number of each stream that may still find a partner after ``until``."""
        found = []
        for side, window in enumerate(self.windows):
            seen = [a for a in self.arrivals[:until] if a.side == side]
            if window.rows is not None:
                found.append(max(0, len(seen) - window.rows))
                continue
            assert window.span is not None
            later = [a.time for a in self.arrivals[until:] if a.side != side]
            punctuation = min(later, default=0)
            live = (n for n, a in enumerate(seen) if a.time + window.span > punctuation)
            found.append(next(live, len(seen)) if later else 0)
        return found[0], found[1]

    def punctuations(self, until: int) -> tuple[float, float]:
        """The punctuation of each stream after ``until``."""
        r, s = (
            min((a.time for a in self.arrivals[until:] if a.side == side), default=float("inf"))
            for side in (0, 1)
        )
        return r, s

    def plain_chunks(self) -> Iterator[Chunk]:
        """The pieces, as plain groups."""
        tuples, start = self.tuples(), 0
        for end in (*self.cuts, len(tuples)):
            groups: Any = tuple(
                PlainGroup(side, tuple(t for s, t in tuples[start:end] if s == side))
                for side in (0, 1)
            )
            seen = tuple(sum(s == side for s, _ in tuples[:end]) for side in (0, 1))
            live, punctuations = self.live(end), self.punctuations(end)
            yield Chunk(groups, (start, end), (seen[0], seen[1]), live, punctuations)
            start = end

    def chunks(self) -> Iterator[Chunk]:
        """The pieces, as a block sends them."""
        for chunk in self.plain_chunks():
            groups: Any = chunk.arrivals
            yield replace(chunk, arrivals=(self.columns(groups[0]), self.columns(groups[1])))

    def columns(self, group: PlainGroup) -> Arrivals:
        """The same tuples as a block has them."""
        return as_arrivals(group, keys=0 if self.predicate == "any" else 1)

    def no_arrivals(self) -> tuple[Arrivals, Arrivals]:
        """Empty windows."""
        return self.columns(PlainGroup(0, ())), self.columns(PlainGroup(1, ()))

    def rule(self, kernel: str = "nested-loop") -> Rule:
        """What a block would program."""
        predicate = Predicate.of(PREDICATES[self.predicate], load_plain)
        rows = (self.windows[0].rows, self.windows[1].rows)
        return Rule(predicate, kernel, rows)

    def program(self) -> Change:
        """The first program, before any tuple."""
        r, s = self.no_arrivals()
        return Change(self.rule(), (0, 0), (0, 0), None, (all_new(r), all_new(s)))


def _call(op: str, *args: Expression) -> Call:
    return Call(op, args, pa.bool_() if op in ("eq", "le", "ge", "and") else pa.int64())


_APART = _call("sub", X, Y)
PREDICATES: dict[str, Expression] = {
    "any": TRUE,
    "equi": _call("eq", X, Y),
    "band": _call(
        "and",
        _call("le", _APART, Literal(1, pa.int64())),
        _call("ge", _APART, Literal(-1, pa.int64())),
    ),
}


def as_arrivals(group: PlainGroup, keys: int) -> Arrivals:
    """The same tuples in columns."""

    def column(name: str) -> Any:
        values = [getattr(t, name) for t in group.tuples]
        if not values or values[0] is None:
            return None
        return np.array(values, np.int64)

    def numbers(name: str) -> Any:
        return np.array([getattr(t, name) for t in group.tuples], np.int64)

    fixed = [numbers(name) for name in ("seq", "rank", "lo", "hi")]
    times = [column(name) for name in ("low", "upper", "expiry", "time")]
    return Arrivals(group.side, *fixed, (numbers("key"),) * keys, (None,) * keys, *times)


@st.composite
def scripts(draw: st.DrawFn, most: int = 30) -> Script:
    """Windows of rows or time, times in or out of order, any cuts, one stream silent or not."""
    sides = draw(st.sampled_from(["RS", "RS", "RS", "RRRRRS", "R", "S"]))
    jitter = draw(st.sampled_from([0, 0, 3]))
    tuples = st.tuples(st.sampled_from(sides), st.integers(0, 3), st.integers(-jitter, jitter))
    drawn = draw(st.lists(tuples, max_size=most))
    arrivals = tuple(
        Arrival("RS".index(side), key, place + late)
        for place, (side, key, late) in enumerate(drawn)
    )
    rows = st.sampled_from([0, 1, 2, 5, 100]).map(lambda count: Window(rows=count))
    spans = st.sampled_from([1, 4, 15, 1000]).map(lambda span: Window(span=span))
    windows = draw(st.tuples(rows | spans, rows | spans))
    cuts = draw(st.lists(st.integers(0, len(arrivals)), max_size=5))
    predicate = draw(st.sampled_from(["any", "equi", "band"]))
    return Script(arrivals, windows, tuple(sorted(cuts)), predicate)


def pairs_found_by(search: PartnerSearch, script: Script) -> list[Pair]:
    """All pairs that a flow finds, sorted."""
    search.change(script.program())
    found: list[Pair] = []
    for chunk in script.chunks():
        found += pairs_of(search, search.take(chunk))
    found += pairs_of(search, search.complete())
    return sorted(found)


def pairs_of(search: PartnerSearch, met: Iterator[FoundPairs]) -> Iterator[Pair]:
    """The pairs; none of them may be of a tuple that the flow has reported gone."""
    for some in met:
        oldest = [search.oldest(side) or 0 for side in (0, 1)]
        for left, right in zip(map(int, some.left), map(int, some.right), strict=True):
            assert left >= oldest[0], (
                f"R {left} turned up, but the flow let go all before {oldest[0]}"
            )
            assert right >= oldest[1], (
                f"S {right} turned up, but the flow let go all before {oldest[1]}"
            )
            yield left, right


def all_new(arrivals: Arrivals) -> LiveTuples:
    """Tuples that no core has."""
    return LiveTuples(arrivals, arrivals.seqs, arrivals.seqs)


def given_at(script: Script, chunk: Chunk) -> Change:
    """A program with all tuples of a chunk, for cores that have none."""
    r, s = chunk.arrivals
    before = len(r), len(s)
    given = [
        replace(a, lo=np.zeros(len(a), np.int64), hi=np.full(len(a), before[1 - a.side]))
        for a in (r, s)
    ]
    return Change(script.rule(), before, (0, 0), None, (all_new(given[0]), all_new(given[1])))


def continued(search: PartnerSearch, script: Script, cut: int) -> list[Pair]:
    """The pairs before the cut, and those that a flow finds that starts there with the windows."""
    chunk, rest = next(replace(script, cuts=()).chunks()).until(cut)
    search.change(given_at(script, chunk))
    found = replace(script, arrivals=script.arrivals[:cut], cuts=()).pairs()
    found += pairs_of(search, search.take(rest))
    found += pairs_of(search, search.complete())
    return sorted(found)
