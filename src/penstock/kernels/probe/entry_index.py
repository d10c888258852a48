"""The index that one stored side of a join has for its predicate: what to index by, and when.

What to index by is chosen from a sample of what is stored and what probes, when there is no segment
yet and again after some windows: of several conditions the most selective one, or none if no
condition is selective. Then every probe searches all segments and the tail; see
:mod:`penstock.kernels.probe.buckets`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.merging import ranges_from
from penstock.kernels.predicate.constraints import Constraint, Dimension, constraints, dimensions
from penstock.kernels.predicate.generate import generate_bucket
from penstock.kernels.predicate.predicate import Key, Predicate
from penstock.kernels.probe.band_index import GridLayout, limits, slack_of
from penstock.kernels.probe.buckets import (
    KeyColumns,
    Layout,
    Segment,
    gathered,
    group,
    make_segment,
)
from penstock.kernels.probe.chains import Chains
from penstock.kernels.probe.hash_index import HashLayout
from penstock.kernels.probe.nested_loop import Columns, Pairs, pairs, shape_of
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

MANY_CANDIDATES = 64
"""With more candidates per probe than this, check whether the index is selective enough."""
MERGE_FACTOR = 2
"""Segments of about one size that become one: a trade of segments to search for entries to copy."""
MOST_FAILURES = 3
"""After this many failures in a row an index is tried again every eight windows only."""
CHOICE_LASTS = 8
"""After this many windows, what to index by is chosen again."""

SAMPLE = 256
"""Tuples of each side that the choice of an index is based on."""


@dataclass(frozen=True)
class SearchStats:
    """The result of a search, and what it tells about the index.

    Parameters
    ----------
    pairs
        By probe and then by stored index; None if there are too many.
    candidates
        Entries that the predicate was evaluated on.
    indexed
        Those of them that were in segments.
    most_pairs
        The most pairs that one segment had.
    probes
        Number of probes.
    live
        Live entries of all probes together; 0 if that does not matter.
    """

    pairs: Pairs | None
    candidates: int
    indexed: int
    most_pairs: int
    probes: int
    live: int


class EntryIndex:
    """Segments over the entries of one side, which the other side's probes search.

    Entries have absolute numbers, which never change; ``first`` is the number of the oldest entry
    that the side still holds, at index 0 of its columns.
    """

    def __init__(
        self, predicate: Predicate, stored_side: int, kernel: str, one_partner: bool = False
    ) -> None:
        """``one_partner``: its probes stop at a partner, or pass over entries that had one."""
        self._predicate = predicate
        self.side = stored_side
        self._kinds = predicate.keys[1 - stored_side]
        self._options = IndexOptions(predicate, stored_side, kernel, one_partner)
        self.choice = IndexChoice()
        self.segments: tuple[Segment, ...] = ()
        """Oldest first; another tuple whenever they change, so that readers can tell."""
        self._chains: tuple[object, Chains | None] = ((), None)
        self._signature: object = None
        self._no_index_until = 0
        self._failures = 0
        self._chosen = False
        self._chosen_at = 0
        self._widths: list[float] = []
        self._found = 0

    @property
    def usable(self) -> bool:
        """Whether the predicate offers anything to index by."""
        return self._options.any

    @property
    def nbytes(self) -> int:
        chains = self._chains[1]
        chained = 0 if chains is None else chains.nbytes
        return chained + sum(segment.nbytes for segment in self.segments)

    def chains(self) -> Chains | None:
        """The chains behind the newest segment; None if there is none."""
        segments, chains = self._chains
        if segments is not self.segments:
            chains = Chains(self.segments[-1]) if self.segments else None
            self._chains = self.segments, chains
        return chains

    def clear(self) -> None:
        """Forget everything; the next update indexes all that is stored."""
        self.segments = ()
        self._chosen = False
        self._no_index_until = 0
        self._failures = 0

    # -- maintenance ------------------------------------------------------------------------

    def update(self, first: int, stored: Columns, probe: Columns) -> None:
        """Index what has been stored, except for a short tail, as one more segment.

        As soon as ``MERGE_FACTOR`` segments are of about one size they become one. So there are few
        segments, and an entry is copied a logarithmic number of times.
        """
        following = first + len(stored.keys[0])
        bounds = (stored.lower is None, stored.upper is None)
        signature = (tuple(v is None for v in stored.valid), bounds)
        if signature != self._signature:
            self.clear()
            self._signature = signature
        if self.segments and self.segments[0].last <= first:
            self.segments = tuple(segment for segment in self.segments if segment.last > first)
        start = self.segments[-1].last if self.segments else first
        if following - start <= TUNING.longest_tail:
            return
        if self.decide(first, stored, probe):
            start = self._absorb(first, start, following)
            self.segments = (*self.segments, self._make(start, first, stored))

    def decide(self, first: int, stored: Columns, probe: Columns) -> bool:
        """Choose what to index by, if a choice is due; False if no index is worth it now."""
        following = first + len(stored.keys[0])
        if following < self._no_index_until:
            return False
        if not self._chosen or following - self._chosen_at > CHOICE_LASTS * (following - first):
            choice = self._options.choose(stored, probe, self.choice)
            widths = self._options.widths(choice, stored, probe)
            # No call comes between these, so a signal does not either: widths are of the choice.
            self.choice, self._widths = choice, widths
            self._chosen, self._chosen_at = True, following
            if choice == IndexChoice():
                self._give_up(first, following)
        return self.choice != IndexChoice()

    def _absorb(self, first: int, start: int, following: int) -> int:
        """Remove the segments to merge with the entries from ``start`` on.

        Returns the first entry of the merged segment.
        """
        while True:
            alike = 0
            for segment in reversed(self.segments):
                if segment.last - max(first, segment.first) > following - start:
                    break
                alike += 1
            if alike < MERGE_FACTOR - 1:
                return start
            start = max(first, self.segments[-alike].first)
            self.segments = self.segments[:-alike]

    def _give_up(self, first: int, following: int) -> None:
        """Use no index until the window has changed; after repeated failures, for some windows."""
        self.choice, self.segments, self._chosen = IndexChoice(), (), False
        self._no_index_until = following + (
            max(TUNING.longest_tail, following - first) << self._failures
        )

    def _make(self, start: int, first: int, stored: Columns) -> Segment:
        """A segment of the entries from ``start`` on."""
        return self.segment(start, stored.part(start - first, len(stored.keys[0])))

    def segment(self, start: int, stored: Columns) -> Segment:
        """A segment of these entries, the first of which is ``start``; it is not added here."""
        entries = self._key_columns(self.side, stored.keys)
        layout = LAYOUTS[self.choice.name](self.choice, entries, self._widths)
        unknown: Array | None = None
        for number in self.choice.stored_keys:
            valid = stored.valid[number]
            if valid is not None:
                unknown = ~valid if unknown is None else unknown | ~valid
        return make_segment(start, layout, entries, unknown, stored.flat())

    def _key_columns(self, side: int, keys: Sequence[Array]) -> KeyColumns:
        return KeyColumns(self._predicate.keys[side], keys)

    # -- probing ----------------------------------------------------------------------------

    def search(
        self,
        first: int,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> SearchStats:
        """The matching pairs, by probe and stored index, and what the search tells.

        None instead of pairs if there are more than ``capacity``. Nothing is changed: threads may
        search at the same time.
        """
        parts: list[Pairs] = []
        segments, candidates, most = self.segments, 0, 0
        probes = ordered_probes(self._kinds, segments, lo, hi, probe)
        kernel = self._kernel(probe, stored) if segments else None
        for segment in segments:
            found, more = self._search_segment(kernel, segment, first, probes, constants, capacity)
            candidates += more
            if found is None:
                return SearchStats(None, candidates, candidates, most, len(lo), 0)
            parts.append(found)
            most = max(most, len(found))
            capacity -= len(found)
        indexed = candidates
        done = segments[-1].last - first if segments else 0
        if done < len(stored.keys[0]):
            tail_lo, tail_hi = np.empty_like(lo), np.empty_like(hi)
            candidates += int(ranges_from(done, lo, hi, (tail_lo, tail_hi)))
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
                return SearchStats(None, candidates, indexed, most, len(lo), 0)
            parts.append(tail)
        live = int(np.maximum(hi - lo, 0).sum()) if indexed > MANY_CANDIDATES * len(lo) else 0
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        joined.sort()
        return SearchStats(joined, candidates, indexed, most, len(lo), live)

    def learn(self, stats: SearchStats, first: int, count: int) -> None:
        """Draw conclusions from a search, while no thread searches; there are ``count`` entries.

        The index is given up if its buckets turn out less selective than the sample was.
        """
        if stats.pairs is None or not self.segments:
            return
        self._found = max(stats.most_pairs, self._found // 2)
        if stats.indexed <= max(
            MANY_CANDIDATES * stats.probes, TUNING.candidate_share * stats.live
        ):
            self._failures = 0
            return
        self._give_up(first, first + count)
        self._failures = min(self._failures + 1, MOST_FAILURES)

    def search_segment(
        self,
        segment: Segment,
        lo: Indices,
        hi: Indices,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        """As :meth:`search`, in one segment only: the pairs, in any order, and the candidates."""
        probes = ordered_probes(self._kinds, [segment], lo, hi, probe)
        kernel = self._kernel(probe, stored)
        return self._search_segment(kernel, segment, 0, probes, constants, capacity)

    def _kernel(self, probe: Columns, stored: Columns) -> Any:
        """The function that searches a segment."""
        shape = shape_of(1 - self.side, probe, stored)
        return self._predicate.kernel(
            ("bucket", shape), lambda: generate_bucket(self._predicate, shape)
        )

    def _search_segment(
        self,
        function: Any,
        segment: Segment,
        first: int,
        probes: OrderedProbes,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        ranges = segment.layout.ranges(probes.keys)
        # Room for somewhat more than last time: even memory that is never written is not free.
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
class OrderedProbes:
    """Probes in the order in which they search; ``names`` are their indices in the batch."""

    names: Array
    lo: Indices
    hi: Indices
    columns: Columns
    keys: KeyColumns


def ordered_probes(
    kinds: Sequence[Key], segments: Sequence[Segment], lo: Indices, hi: Indices, probe: Columns
) -> OrderedProbes:
    """The probes in the order in which they search the segments; ``kinds`` are their keys."""
    largest = max(segments, key=len, default=None)
    order = np.arange(len(lo), dtype=np.int32)
    if largest is not None and len(largest) > TUNING.entries_in_cache and len(lo) > 1:
        # Probes of one region one after another, so that its entries stay in the cache.
        where, regions = largest.layout.regions(KeyColumns(kinds, probe.keys))
        group(where, np.empty(regions + 2, np.uint32), order)
        lo, hi = gathered(lo, order), gathered(hi, order)
        probe = probe.take(order)
    return OrderedProbes(order, lo, hi, probe, KeyColumns(kinds, probe.keys))


# -- what to index by --------------------------------------------------------------------


@dataclass(frozen=True)
class IndexChoice:
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

    @property
    def stored_keys(self) -> set[int]:
        """The keys of the stored side that it is laid out by."""
        dims = {n for d in self.dims for n in (d.stored, d.other) if n is not None}
        return dims | {stored for stored, _ in self.equal}


def _hashed(choice: IndexChoice, entries: KeyColumns, widths: Sequence[float]) -> Layout:
    stored, probe = [s for s, _ in choice.equal], [p for _, p in choice.equal]
    return HashLayout(stored, probe, len(entries))


def _grid(choice: IndexChoice, entries: KeyColumns, widths: Sequence[float]) -> Layout:
    return GridLayout(choice.dims, entries, widths)


LAYOUTS: dict[str, Callable[[IndexChoice, KeyColumns, Sequence[float]], Layout]] = {
    "hash": _hashed,
    "band": _grid,
    "sorted": _grid,
}
"""What lays out the entries of a segment, by kernel; the nested loop needs no layout."""


class IndexOptions:
    """What one stored side can be indexed by, given the predicate and the ``kernel`` asked for."""

    def __init__(
        self, predicate: Predicate, stored_side: int, kernel: str, one_partner: bool
    ) -> None:
        self._predicate = predicate
        self._side = stored_side
        self._one_partner = one_partner
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

    @property
    def any(self) -> bool:
        """Whether there is anything to index by."""
        return bool(self._equal or self._dims)

    def choose(self, stored: Columns, probe: Columns, before: IndexChoice) -> IndexChoice:
        """The most selective choice, judged by a sample of both sides.

        Without probes it stays what it was ``before``.
        """
        ours, theirs = _sample(stored.keys), _sample(probe.keys)
        if not len(theirs[0]):
            return before
        best: tuple[float, IndexChoice] = (TUNING.candidate_share, IndexChoice())
        if self._equal:
            same = np.ones((len(theirs[0]), len(ours[0])), np.bool_)
            for s, p in self._equal:
                same &= theirs[p][:, None] == ours[s]
            best = (max(float(same.mean()) - 1e-9, 0.0), IndexChoice(self._equal))
            # Equal entries cost nothing if one partner is enough; the others of a scan would.
            if best[0] > TUNING.candidate_share and not self._one_partner:
                best = (TUNING.candidate_share, IndexChoice())
        shares = sorted(self._shares(ours, theirs), key=lambda pair: pair[0])
        for share, dim in shares[:1]:
            both = [
                d
                for _, d in shares[1:]
                if d.stored != dim.stored and (d.stored, d.other) != (dim.other, dim.stored)
            ]
            if dim.lower is None or dim.upper is None:
                both = []  # a one-sided range has no width to make rows of
            dims = (dim, *both[:1])
            total = share * min((s for s, d in shares if d in both[:1]), default=1.0)
            if total < best[0]:
                best = (total, IndexChoice(dims=dims))
        return best[1]

    def _shares(
        self, ours: Sequence[Array], theirs: Sequence[Array]
    ) -> list[tuple[float, Dimension]]:
        """For each dimension, the share of entries that are candidates of a probe."""
        values, probes = (
            self._key_columns(self._side, ours),
            self._key_columns(1 - self._side, theirs),
        )
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

    def widths(self, choice: IndexChoice, stored: Columns, probe: Columns) -> list[float]:
        """The width of the probes' ranges, in each chosen dimension."""
        probes = self._key_columns(1 - self._side, _sample(probe.keys))
        values = self._key_columns(self._side, _sample(stored.keys))
        widths = []
        for dim in choice.dims:
            low, high = limits(dim, probes, slack_of(dim, values))
            with np.errstate(invalid="ignore", over="ignore"):
                width = np.inf if low is None or high is None else float(np.median(high - low))
            widths.append(width if width == width else np.inf)
        return widths

    def _key_columns(self, side: int, keys: Sequence[Array]) -> KeyColumns:
        return KeyColumns(self._predicate.keys[side], keys)


def _halves(constraint: Constraint) -> tuple[Constraint | None, Constraint | None]:
    """The constraint as an upper and as a lower bound; None where it is not one."""
    upper = constraint if constraint.high < float("inf") else None
    return upper, constraint if constraint.low > float("-inf") else None


def _sample(keys: Sequence[Array]) -> list[Array]:
    """Evenly spread elements of each column."""
    count = len(keys[0]) if keys else 0
    picked = np.linspace(0, max(count - 1, 0), min(count, SAMPLE)).astype(np.int64)
    return [key[picked] for key in keys]
