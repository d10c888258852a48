"""Random input for flows, its pairs by definition, and the chunks that a join block would send."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.meeting import Arrivals, Chunk, Meeting, Rule
from penstock.flows.plain_window import PlainGroup, PlainTuple
from penstock.kernels.predicate import Predicate
from penstock.sql.expressions import TRUE, Call, Column, Expression, Literal

Pair = tuple[int, int]
LOWEST = -(2**63)
X, Y = Column(0, 0, "x", pa.int64()), Column(1, 0, "y", pa.int64())


@dataclass(frozen=True)
class Window:
    """So many rows, or so much time."""

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
        """The first number of each stream that may still find a partner after so many arrivals."""
        found = []
        for side, window in enumerate(self.windows):
            seen = [a for a in self.arrivals[:until] if a.side == side]
            if window.rows is not None:
                found.append(max(0, len(seen) - window.rows))
                continue
            assert window.span is not None
            later = [a.time for a in self.arrivals[until:] if a.side != side]
            promise = min(later, default=0)
            live = (n for n, a in enumerate(seen) if a.time + window.span > promise)
            found.append(next(live, len(seen)) if later else 0)
        return found[0], found[1]

    def plain_chunks(self) -> Iterator[Chunk]:
        """The pieces, as plain groups."""
        tuples, start = self.tuples(), 0
        for end in (*self.cuts, len(tuples)):
            groups: Any = tuple(
                PlainGroup(side, tuple(t for s, t in tuples[start:end] if s == side))
                for side in (0, 1)
            )
            seen = tuple(sum(s == side for s, _ in tuples[:end]) for side in (0, 1))
            yield Chunk(groups, (start, end), (seen[0], seen[1]), self.live(end), None)
            start = end

    def chunks(self) -> Iterator[Chunk]:
        """The pieces, as a block sends them."""
        for chunk in self.plain_chunks():
            groups: Any = chunk.arrivals
            yield replace(chunk, arrivals=(self.columns(groups[0]), self.columns(groups[1])))

    def columns(self, group: PlainGroup) -> Arrivals:
        """The same tuples as a block has them."""
        return as_arrivals(group, keys=0 if self.predicate == "any" else 1)

    def rule(self, kernel: str = "nested-loop") -> Rule:
        """What a block would program."""
        predicate = Predicate.of(PREDICATES[self.predicate])
        constants = tuple(np.int64(c.value) for c in predicate.constants)  # type: ignore[call-overload]
        rows = (self.windows[0].rows, self.windows[1].rows)
        return Rule(predicate, constants, kernel, True, rows, LOWEST)


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


def random_script(seed: int, most: int = 40) -> Script:
    """A script from a seed: windows of rows or time, times in or out of order, any cuts."""
    rng = random.Random(seed)
    count = rng.randrange(most + 1)
    bias = rng.choice([0.5, 0.5, 0.1, 1.0, 0.0])
    jitter = rng.choice([0, 0, 3])
    arrivals = tuple(
        Arrival(int(rng.random() >= bias), rng.randrange(4), i + rng.randint(-jitter, jitter))
        for i in range(count)
    )
    windows = tuple(
        Window(rows=rng.choice([0, 1, 2, 5, 100]))
        if rng.random() < 0.6
        else Window(span=rng.choice([1, 4, 15, 1000]))
        for _ in range(2)
    )
    cuts = sorted(rng.randrange(count + 1) for _ in range(rng.randrange(6)))
    return Script(
        arrivals, (windows[0], windows[1]), tuple(cuts), rng.choice(["any", "equi", "band"])
    )


def met_by(meeting: Meeting, script: Script) -> list[Pair]:
    """All pairs that a flow finds, sorted."""
    found: list[Pair] = []
    empty = (script.columns(PlainGroup(0, ())), script.columns(PlainGroup(1, ())))
    meeting.program(script.rule(), empty, 0)
    for chunk in script.chunks():
        for met in meeting.take(chunk):
            found += zip(map(int, met.left), map(int, met.right), strict=True)
    for met in meeting.complete():
        found += zip(map(int, met.left), map(int, met.right), strict=True)
    return sorted(found)
