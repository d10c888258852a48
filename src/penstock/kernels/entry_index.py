"""The index that one stored side of a join has for its predicate: what to index by, and when.

What to index by is decided from what is stored and what probes, each time the old segment is made:
of several conditions the one that lets the fewest tuples through, and none at all if none lets few
through. Then every probe looks into the old segment, the young one and the tail; see
:mod:`penstock.kernels.bucket_index`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels import buckets
from penstock.kernels.bucket_index import (
    Grid,
    Hash,
    Segment,
    limits,
    make_segment,
    numbers,
    slack_of,
)
from penstock.kernels.compiled import load
from penstock.kernels.constraints import Constraint, Dimension, constraints, dimensions
from penstock.kernels.generate import generate_bucket
from penstock.kernels.nested_loop import Columns, Pairs, pairs, shape_of
from penstock.kernels.predicate import Predicate

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

LONGEST_TAIL = 1024
SAMPLE = 256
TOO_MANY = 0.25
"""If a probe would have to look at a larger share of the entries, the nested loop is faster."""
CHOOSE_EVERY = 4
IN_CACHE = 1 << 16
"""Entries of a segment that a second-level cache holds most of."""


@dataclass(frozen=True)
class Choice:
    """What a segment is laid out by."""

    equal: tuple[tuple[int, int], ...] = ()
    dims: tuple[Dimension, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name."""
        if self.equal:
            return "hash"
        if not self.dims:
            return "nested-loop"
        both = any(d.lower is not None and d.upper is not None for d in self.dims)
        return "band" if both else "sorted"


class EntryIndex:
    """Segments over the entries of one side, which the other side's probes look into.

    Entries have absolute numbers, which never change; ``first`` is the number of the oldest that
    the side still holds, at index 0 of its columns.
    """

    def __init__(self, predicate: Predicate, stored_side: int, kernel: str) -> None:
        self._predicate = predicate
        self._side = stored_side
        found = constraints(predicate, stored_side)
        text = {"code", "truth"}
        keys = predicate.keys[stored_side]
        equal = tuple((c.stored, c.probe) for c in found if c.equal)
        ranges = [c for c in found if keys[c.stored].kind not in text]
        self._equal = equal if kernel in ("auto", "hash") else ()
        dims = dimensions(ranges) if kernel != "hash" else []
        if kernel == "sorted":
            dims = [Dimension(c.stored, *_halves(c)) for c in ranges]
        self._dims = dims
        self.choice = Choice()
        self._segments: list[Segment] = []
        self._signature: object = None
        self._hopeless_until = 0
        self._made = 0
        self._widths: list[float] = []

    @property
    def usable(self) -> bool:
        """Whether the predicate offers anything to index by."""
        return bool(self._equal or self._dims)

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments)

    def clear(self) -> None:
        """Forget everything; the next update indexes all that is stored."""
        self._segments = []
        self._hopeless_until = 0

    # -- keeping up -------------------------------------------------------------------------

    def update(self, first: int, stored: Columns, probe: Columns) -> None:
        """Index what has been stored, but for a short tail.

        What is new becomes a segment, together with every younger segment that is not larger: so
        sizes at least halve from old to young, there are few, and an entry is copied a logarithmic
        number of times.
        """
        following = first + len(stored.keys[0])
        signature = (tuple(v is None for v in stored.valid), stored.lower is None)
        if signature != self._signature:
            self.clear()
            self._signature = signature
        self._segments = [segment for segment in self._segments if segment.last > first]
        start = self._segments[-1].last if self._segments else first
        if following - start <= LONGEST_TAIL or following < self._hopeless_until:
            return
        while self._segments:
            before = max(first, self._segments[-1].first)
            if start - before > following - start:
                break
            self._segments.pop()
            start = before
        if not self._segments:
            self._choose_again(stored, probe)
            if self.choice == Choice():
                # Look again once the window has changed.
                self._hopeless_until = following + max(LONGEST_TAIL, (following - first) // 2)
                return
        self._segments.append(self._make(start, first, stored))

    def _choose_again(self, stored: Columns, probe: Columns) -> None:
        if self._made % CHOOSE_EVERY == 0 or self.choice == Choice():
            self.choice = self._choose(stored, probe)
            self._widths = self._widths_of(stored, probe)
        self._made += 1

    def _make(self, start: int, first: int, stored: Columns) -> Segment:
        """A segment of the entries from ``start`` on."""
        part = slice(start - first, None)
        keys = [key[part] for key in stored.keys]
        used = {number for number, _ in self.choice.equal}
        used |= {d.stored for d in self.choice.dims}
        used |= {d.other for d in self.choice.dims if d.other is not None}
        values = {} if self.choice.equal else self._numbers(self._side, used, keys)
        layout: Grid | Hash
        if self.choice.equal:
            equal = self.choice.equal
            layout = Hash([s for s, _ in equal], [p for _, p in equal], len(keys[0]))
        else:
            layout = Grid(self.choice.dims, values, self._widths)
        unknown = None
        for number in used:
            valid = stored.valid[number]
            if valid is not None:
                gone = ~valid[part]
                unknown = gone if unknown is None else unknown | gone
        columns = [column[part] for column in stored.flat()]
        return make_segment(start, layout, values, keys, unknown, columns)

    def _numbers(self, side: int, used: set[int], keys: Sequence[Array]) -> dict[int, Array]:
        return {n: numbers(self._predicate.keys[side][n], keys[n]) for n in used}

    # -- choosing ---------------------------------------------------------------------------

    def _choose(self, stored: Columns, probe: Columns) -> Choice:
        """What lets the fewest tuples through, judged by a sample of both sides."""
        ours, theirs = _sample(stored.keys), _sample(probe.keys)
        if not len(theirs[0]):
            return self.choice
        best: tuple[float, Choice] = (TOO_MANY, Choice())
        if self._equal:
            same = np.ones((len(theirs[0]), len(ours[0])), np.bool_)
            for s, p in self._equal:
                same &= theirs[p][:, None] == ours[s]
            best = (max(float(same.mean()) - 1e-9, 0.0), Choice(self._equal))
            if best[0] > TOO_MANY:
                best = (TOO_MANY, Choice())
        shares = sorted(self._shares(ours, theirs), key=lambda pair: pair[0])
        for share, dim in shares[:1]:
            both = [
                d
                for _, d in shares[1:]
                if d.stored != dim.stored and (d.stored, d.other) != (dim.other, dim.stored)
            ]
            dims = (dim, *both[:1])
            total = share * min((s for s, d in shares if d in both[:1]), default=1.0)
            if total < best[0]:
                best = (total, Choice(dims=dims))
        return best[1]

    def _shares(
        self, ours: Sequence[Array], theirs: Sequence[Array]
    ) -> list[tuple[float, Dimension]]:
        """For each dimension, the share of entries that a probe must look at."""
        used = {n for d in self._dims for n in (d.stored, d.other) if n is not None}
        values = self._numbers(self._side, used, ours)
        asked = {c.probe for d in self._dims for c in (d.lower, d.upper) if c is not None}
        probes = self._numbers(1 - self._side, asked, theirs)
        found = []
        for dim in self._dims:
            low, high = limits(dim, probes, slack_of(dim, values))
            inside = np.ones((len(theirs[0]), len(ours[0])), np.bool_)
            with np.errstate(invalid="ignore"):
                if low is not None:
                    inside &= values[dim.stored] >= low[:, None]
                if high is not None:
                    inside &= values[dim.stored] <= high[:, None]
            found.append((float(inside.mean()), dim))
        return found

    def _widths_of(self, stored: Columns, probe: Columns) -> list[float]:
        """How wide a range probes ask for, in each chosen dimension."""
        asked = {c.probe for d in self.choice.dims for c in (d.lower, d.upper) if c is not None}
        probes = self._numbers(1 - self._side, asked, _sample(probe.keys))
        used = {n for d in self.choice.dims for n in (d.stored, d.other) if n is not None}
        values = self._numbers(self._side, used, _sample(stored.keys))
        widths = []
        for dim in self.choice.dims:
            low, high = limits(dim, probes, slack_of(dim, values))
            with np.errstate(invalid="ignore", over="ignore"):
                width = np.inf if low is None or high is None else float(np.median(high - low))
            widths.append(width if width == width else np.inf)
        return widths

    # -- probing ----------------------------------------------------------------------------

    def find(
        self,
        first: int,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        """The matching pairs, by both, and how many candidates were met.

        None instead of pairs if there are more than ``capacity``.
        """
        parts: list[Pairs] = []
        met = 0
        asked = set().union(*(segment.layout.asked for segment in self._segments))
        given = self._numbers(1 - self._side, asked, probe.keys)
        probes = _Probes(np.arange(len(lo), dtype=np.int32), lo, hi, probe, given)
        largest = max(self._segments, key=len, default=None)
        if largest is not None and len(largest) > IN_CACHE and len(lo) > 1:
            # Probes of one region one after another: what they look at is in the cache.
            probes = self._by_region(largest.layout, probes)
        for segment in self._segments:
            found, candidates = self._look_into(segment, first, probes, stored, constants, capacity)
            met += candidates
            if found is None:
                return None, met
            parts.append(found)
            capacity -= len(found)
        done = self._segments[-1].last - first if self._segments else 0
        if done < len(stored.keys[0]):
            tail_lo, tail_hi = np.maximum(lo, done), np.maximum(hi, done)
            met += int((tail_hi - tail_lo).sum())
            tail = pairs(
                self._predicate,
                1 - self._side,
                tail_lo,
                tail_hi,
                probe,
                stored,
                constants,
                capacity,
            )
            if tail is None:
                return None, met
            parts.append(tail)
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        joined.sort()
        return joined, met

    def _by_region(self, layout: Grid | Hash, probes: _Probes) -> _Probes:
        """The probes in the order of the regions in which they look."""
        where, regions = layout.regions(probes.numbers, probes.columns.keys)
        order = np.empty(len(where), np.int32)
        buckets.group(where, np.empty(regions + 2, np.uint32), order)
        return probes.take(order)

    def _look_into(
        self,
        segment: Segment,
        first: int,
        probes: _Probes,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        ranges = segment.layout.ranges(probes.numbers, probes.columns.keys)
        shape = shape_of(1 - self._side, probes.columns, stored)
        function = self._predicate.kernels.get(("bucket", shape))
        if function is None:
            function = load(generate_bucket(self._predicate, shape))
            self._predicate.kernels["bucket", shape] = function
        out = np.empty(capacity, np.int64)
        found, candidates = function(
            probes.names, probes.lo, probes.hi, segment.first - first, segment.last - first,
            ranges.x0, ranges.x1, ranges.y0, ranges.y1, segment.layout.columns,
            segment.offsets, segment.order, *probes.columns.flat(), *segment.columns, *constants,
            out,
        )  # fmt: skip
        return (None if found < 0 else out[:found]), int(candidates)


@dataclass(frozen=True)
class _Probes:
    """Probes in the order in which they are to look.

    ``names`` are what they are known by, ``numbers`` the keys that layouts ask for, as floats.
    """

    names: Array
    lo: Indices
    hi: Indices
    columns: Columns
    numbers: dict[int, Array]

    def take(self, order: Array) -> _Probes:
        """In another order."""
        given = self.columns
        columns = Columns(
            [key.take(order) for key in given.keys],
            [None if valid is None else valid.take(order) for valid in given.valid],
            None if given.lower is None else given.lower.take(order),
            None if given.upper is None else given.upper.take(order),
        )
        numbers = {number: values.take(order) for number, values in self.numbers.items()}
        lo, hi = self.lo.take(order), self.hi.take(order)
        return _Probes(self.names.take(order), lo, hi, columns, numbers)


def _halves(constraint: Constraint) -> tuple[Constraint | None, Constraint | None]:
    """The constraint as an upper and as a lower bound, where it is one."""
    upper = constraint if constraint.high < float("inf") else None
    return upper, constraint if constraint.low > float("-inf") else None


def _sample(keys: Sequence[Array]) -> list[Array]:
    """Evenly spread elements of each column."""
    return list(_sample_of(dict(enumerate(keys))).values())


def _sample_of(columns: Mapping[int, Array]) -> dict[int, Array]:
    count = len(next(iter(columns.values()))) if columns else 0
    picked = np.linspace(0, max(count - 1, 0), min(count, SAMPLE)).astype(np.int64)
    return {number: column[picked] for number, column in columns.items()}
