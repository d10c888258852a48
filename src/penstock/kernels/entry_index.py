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
from penstock.kernels.nested_loop import Columns, pairs, shape_of
from penstock.kernels.predicate import Predicate

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

LONGEST_TAIL = 1024
YOUNG_SHARE = 2
SAMPLE = 256
TOO_MANY = 0.25
"""If a probe would have to look at a larger share of the entries, the nested loop is faster."""
SORT_PROBES = 256
CHOOSE_EVERY = 8
REGIONS = 2048


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
        self._known_widths: list[float] = []

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
        """Index what has been stored, but for a short tail."""
        following = first + len(stored.keys[0])
        signature = (tuple(v is None for v in stored.valid), stored.lower is None)
        if signature != self._signature:
            self.clear()
            self._signature = signature
        self._segments = [segment for segment in self._segments if segment.last > first]
        done = self._segments[-1].last if self._segments else first
        if following - done <= LONGEST_TAIL or following < self._hopeless_until:
            return
        old = self._segments[0] if self._segments else None
        if old is not None and (following - old.last) * YOUNG_SHARE <= old.last - first:
            self._segments = [old, self._make(old.last, first, stored)]
            return
        if self._made % CHOOSE_EVERY == 0 or not self._segments:
            self.choice = self._choose(stored, probe)
        self._made += 1
        if not self.choice.equal and not self.choice.dims:
            # Look again once the window has changed.
            self._segments = []
            self._hopeless_until = following + max(LONGEST_TAIL, (following - first) // 2)
            return
        self._segments = [self._make(first, first, stored, probe)]

    def _make(
        self, start: int, first: int, stored: Columns, probe: Columns | None = None
    ) -> Segment:
        """A segment of the entries from ``start`` on; laid out anew where probes are given."""
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
            if probe is not None:
                self._known_widths = self._widths(_sample_of(values), probe)
            widths = self._known_widths
            layout = Grid(self.choice.dims, values, widths)
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

    def _widths(self, values: Mapping[int, Array], probe: Columns) -> list[float]:
        """How wide a range probes ask for, in each chosen dimension."""
        asked = {c.probe for d in self.choice.dims for c in (d.lower, d.upper) if c is not None}
        probes = self._numbers(1 - self._side, asked, _sample(probe.keys))
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
    ) -> tuple[tuple[Indices, Indices] | None, int]:
        """The matching (probe, stored index) pairs, by both, and how many candidates were met.

        None instead of pairs if there are more than ``capacity``.
        """
        probe_side = 1 - self._side
        parts: list[Indices] = []
        met = 0
        for segment in self._segments:
            found, candidates = self._look_into(
                segment, lo + (first - segment.first), hi + (first - segment.first),
                probe, stored, constants, capacity,
            )  # fmt: skip
            met += candidates
            if found is None:
                return None, met
            parts.append(found + (segment.first - first))
            capacity -= len(found)
        done = self._segments[-1].last - first if self._segments else 0
        tail_lo, tail_hi = np.maximum(lo, done), hi
        met += int(np.maximum(tail_hi - tail_lo, 0).sum())
        tail = pairs(
            self._predicate, probe_side, tail_lo, np.maximum(tail_lo, tail_hi), probe, stored,
            constants, capacity,
        )  # fmt: skip
        if tail is None:
            return None, met
        parts.append((tail[0] << 32) | tail[1])
        joined = np.concatenate(parts)
        joined.sort()
        return (joined >> 32, joined & 0xFFFFFFFF), met

    def _look_into(
        self,
        segment: Segment,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Indices | None, int]:
        last = segment.last - segment.first
        lo, hi = np.clip(lo, 0, last), np.clip(hi, 0, last)
        if not (lo < hi).any():
            return np.empty(0, np.int64), 0
        side = 1 - self._side
        asked = {c.probe for d in self.choice.dims for c in (d.lower, d.upper) if c is not None}
        ranges = segment.layout.ranges(self._numbers(side, asked, probe.keys), probe.keys)
        order = np.arange(len(lo), dtype=np.int32)
        given = [lo, hi, ranges.x0, ranges.x1, ranges.y0, ranges.y1, *probe.flat()]
        if len(lo) > SORT_PROBES and segment.layout.buckets > 1:
            # Probes of one region one after another: what they look at is in the cache.
            rows = segment.layout.buckets // segment.layout.columns
            step = -(-rows // REGIONS)
            offsets = np.empty(rows // step + 2, np.uint32)
            buckets.group(ranges.x0 // np.int32(step), rows // step + 1, offsets, order)
            given = [column.take(order) for column in given]
        lo, hi, x0, x1, y0, y1, *columns = given
        shape = shape_of(side, probe, stored)
        function = self._predicate.kernels.get(("bucket", shape))
        if function is None:
            function = load(generate_bucket(self._predicate, shape))
            self._predicate.kernels["bucket", shape] = function
        out = np.empty(capacity, np.int64)
        found, candidates = function(
            lo, hi, order, x0, x1, y0, y1, segment.layout.columns,
            segment.offsets, segment.order, *columns, *segment.columns, *constants, out,
        )  # fmt: skip
        return (None if found < 0 else out[:found]), int(candidates)


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
