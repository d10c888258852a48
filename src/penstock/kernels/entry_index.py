"""The index that one stored side of a join has for its predicate: what to index by, and when.

What to index by is decided from what is stored and what probes, when there is no segment yet and
again after some windows: of several conditions the one that lets the fewest tuples through, and
none at all if none lets few through. Then every probe looks into all segments and the tail; see
:mod:`penstock.kernels.bucket_index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels import buckets, choosing
from penstock.kernels.bucket_index import Grid, Hash, Numbers, Segment, make_segment
from penstock.kernels.choosing import Choice, Offers
from penstock.kernels.compiled import load
from penstock.kernels.generate import generate_bucket
from penstock.kernels.looked import Looked
from penstock.kernels.nested_loop import Columns, Pairs, pairs, shape_of
from penstock.kernels.predicate import Predicate

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

LONGEST_TAIL = 1024
CROWDED = 64
"""Candidates per probe from which on it is worth looking whether the index is of any use."""
ALIKE = 2
"""Segments of one size before they are merged: fewer to look into, or less to copy."""
MOST_FAILURES = 3
"""After so many in a row an index is tried again every eight windows."""
SETTLED = 8
"""Windows that may pass before what to index by is chosen anew."""
IN_CACHE = 1 << 16
"""Entries of a segment that a second-level cache holds most of."""


class EntryIndex:
    """Segments over the entries of one side, which the other side's probes look into.

    Entries have absolute numbers, which never change; ``first`` is the number of the oldest that
    the side still holds, at index 0 of its columns.
    """

    def __init__(self, predicate: Predicate, stored_side: int, kernel: str) -> None:
        self._predicate = predicate
        self.side = stored_side
        self._offers = Offers(predicate, stored_side, kernel)
        self.choice = Choice()
        self._segments: list[Segment] = []
        self._signature: object = None
        self._hopeless_until = 0
        self._failures = 0
        self._chosen = False
        self._chosen_at = 0
        self._widths: list[float] = []
        self._found = 0

    @property
    def usable(self) -> bool:
        """Whether the predicate offers anything to index by."""
        return self._offers.any

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments)

    def clear(self) -> None:
        """Forget everything; the next update indexes all that is stored."""
        self._segments = []
        self._chosen = False
        self._hopeless_until = 0
        self._failures = 0

    # -- keeping up -------------------------------------------------------------------------

    def update(self, first: int, stored: Columns, probe: Columns) -> None:
        """Index what has been stored, but for a short tail, as one more segment.

        As soon as there are ``ALIKE`` of about one size, they become one: so there are few, and an
        entry is copied a logarithmic number of times.
        """
        following = first + len(stored.keys[0])
        signature = (tuple(v is None for v in stored.valid), stored.lower is None)
        if signature != self._signature:
            self.clear()
            self._signature = signature
        self._segments = [segment for segment in self._segments if segment.last > first]
        start = self._segments[-1].last if self._segments else first
        if following - start <= LONGEST_TAIL:
            return
        if self.decide(first, stored, probe):
            start = self._absorb(first, start, following)
            self._segments.append(self._make(start, first, stored))

    def decide(self, first: int, stored: Columns, probe: Columns) -> bool:
        """Choose what to index by, when it is time to; False if by now nothing is worth it."""
        following = first + len(stored.keys[0])
        if following < self._hopeless_until:
            return False
        if not self._chosen or following - self._chosen_at > SETTLED * (following - first):
            self._chosen, self._chosen_at = True, following
            self.choice = self._offers.choose(stored, probe, self.choice)
            self._widths = self._offers.widths(self.choice, stored, probe)
            if self.choice == Choice():
                self._give_up(first, following)
        return self.choice != Choice()

    def _absorb(self, first: int, start: int, following: int) -> int:
        """Take away the segments that become one with the entries from ``start`` on.

        Returns from which entry on the new segment is.
        """
        while True:
            alike = 0
            for segment in reversed(self._segments):
                if segment.last - max(first, segment.first) > following - start:
                    break
                alike += 1
            if alike < ALIKE - 1:
                return start
            start = max(first, self._segments[-alike].first)
            del self._segments[-alike:]

    def _give_up(self, first: int, following: int) -> None:
        """Use no index until the window has changed; after failures in a row, for some windows."""
        self.choice, self._segments, self._chosen = Choice(), [], False
        self._hopeless_until = following + (max(LONGEST_TAIL, following - first) << self._failures)

    def _make(self, start: int, first: int, stored: Columns) -> Segment:
        """A segment of the entries from ``start`` on."""
        return self.segment(start, stored.part(start - first, len(stored.keys[0])))

    def segment(self, start: int, stored: Columns) -> Segment:
        """These entries, of which ``start`` is the first, as a segment that nobody keeps."""
        entries = self._numbers(self.side, stored.keys)
        layout: Grid | Hash
        if self.choice.equal:
            used = {number for number, _ in self.choice.equal}
            equal = self.choice.equal
            layout = Hash([s for s, _ in equal], [p for _, p in equal], len(entries))
        else:
            used = {n for d in self.choice.dims for n in (d.stored, d.other) if n is not None}
            layout = Grid(self.choice.dims, entries, self._widths)
        unknown: Array | None = None
        for number in used:
            valid = stored.valid[number]
            if valid is not None:
                unknown = ~valid if unknown is None else unknown | ~valid
        return make_segment(start, layout, entries, unknown, stored.flat())

    def _numbers(self, side: int, keys: Sequence[Array]) -> Numbers:
        return Numbers(self._predicate.keys[side], keys)

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
        looked = self.look(first, lo, hi, probe, stored, constants, capacity)
        self.learn(looked, first, len(stored.keys[0]))
        return looked.pairs, looked.met

    def look(
        self,
        first: int,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> Looked:
        """As :meth:`find`, but nothing is changed: threads may look at the same time."""
        parts: list[Pairs] = []
        segments, met, most = self._segments, 0, 0
        probes = self._probes(segments, lo, hi, probe)
        for segment in segments:
            found, candidates = self._look_into(segment, first, probes, stored, constants, capacity)
            met += candidates
            if found is None:
                return Looked(None, met, met, most, len(lo), 0)
            parts.append(found)
            most = max(most, len(found))
            capacity -= len(found)
        crowd = met
        done = segments[-1].last - first if segments else 0
        if done < len(stored.keys[0]):
            tail_lo, tail_hi = np.maximum(lo, done), np.maximum(hi, done)
            met += int((tail_hi - tail_lo).sum())
            tail = pairs(
                self._predicate,
                1 - self.side,
                tail_lo,
                tail_hi,
                probe,
                stored,
                constants,
                capacity,
            )
            if tail is None:
                return Looked(None, met, crowd, most, len(lo), 0)
            parts.append(tail)
        live = int(np.maximum(hi - lo, 0).sum()) if crowd > CROWDED * len(lo) else 0
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        joined.sort()
        return Looked(joined, met, crowd, most, len(lo), live)

    def learn(self, looked: Looked, first: int, count: int) -> None:
        """Draw conclusions from a look, now that nobody is looking; there are ``count`` entries.

        The index is given up if the sample promised better than its buckets can tell apart.
        """
        if looked.pairs is None or not self._segments:
            return
        self._found = max(looked.most, self._found // 2)
        if looked.crowd <= max(CROWDED * looked.probes, choosing.TOO_MANY * looked.live):
            self._failures = 0
            return
        self._give_up(first, first + count)
        self._failures = min(self._failures + 1, MOST_FAILURES)

    def look_into(
        self,
        segment: Segment,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        """As :meth:`find`, of one segment alone; pairs are in any order."""
        probes = self._probes([segment], lo, hi, probe)
        return self._look_into(segment, 0, probes, stored, constants, capacity)

    def _probes(
        self, segments: Sequence[Segment], lo: Indices, hi: Indices, probe: Columns
    ) -> _Probes:
        """The probes in the order in which they are to look into the segments."""
        side = 1 - self.side
        largest = max(segments, key=len, default=None)
        order = np.arange(len(lo), dtype=np.int32)
        if largest is not None and len(largest) > IN_CACHE and len(lo) > 1:
            # Probes of one region one after another: what they look at is in the cache.
            where, regions = largest.layout.regions(self._numbers(side, probe.keys))
            buckets.group(where, np.empty(regions + 2, np.uint32), order)
            lo, hi = buckets.gathered(lo, order), buckets.gathered(hi, order)
            probe = probe.take(order)
        return _Probes(order, lo, hi, probe, self._numbers(side, probe.keys))

    def _look_into(
        self,
        segment: Segment,
        first: int,
        probes: _Probes,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        ranges = segment.layout.ranges(probes.numbers)
        shape = shape_of(1 - self.side, probes.columns, stored)
        function = self._predicate.kernels.get(("bucket", shape))
        if function is None:
            function = load(generate_bucket(self._predicate, shape))
            self._predicate.kernels["bucket", shape] = function
        # Room for somewhat more than last time: memory that nobody writes to is not free either.
        room = min(capacity, max(2 * self._found, 4 * len(probes.lo), 1024))
        while True:
            out = np.empty(room + 1, np.int64)
            found, candidates = function(
                probes.names, probes.lo, probes.hi, segment.first - first, segment.last - first,
                ranges.x0, ranges.x1, ranges.y0, ranges.y1, segment.layout.columns,
                segment.offsets, segment.order, *probes.columns.flat(), *segment.columns,
                *constants, out,
            )  # fmt: skip
            if found >= 0:
                return out[:found], int(candidates)
            if room == capacity:
                return None, int(candidates)
            room = min(capacity, 8 * room)


@dataclass(frozen=True)
class _Probes:
    """Probes in the order in which they are to look.

    ``names`` are what they are known by.
    """

    names: Array
    lo: Indices
    hi: Indices
    columns: Columns
    numbers: Numbers
