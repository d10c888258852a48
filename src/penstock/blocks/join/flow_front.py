"""Between a join block and a flow: tuples become arrivals, and pairs come back.

The keys and the candidate range of a tuple are computed here once, for the flow. Whole tuples stay
here, and the pairs of numbers that come back become rows here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.latency import Latency
from penstock.blocks.join.matcher import Matcher
from penstock.blocks.join.partner_search import Arrivals, Chunk, FoundPairs, PartnerSearch, is_light
from penstock.blocks.lateness import INPUT_BITS, Admitted
from penstock.blocks.ranks import Ranks
from penstock.blocks.window.keys import KeyValues
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.vector import Failures
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
MOST_ENTRIES = 4096
"""Chunks whose times of entry are stored, for the latency of pairs found late."""


class FlowFront:
    """A join block's end of a flow.

    ``stale``: the flow has to be programmed before it takes anything more.
    """

    def __init__(
        self,
        search: PartnerSearch,
        sides: tuple[StoredWindow, StoredWindow],
        matcher: Matcher,
        latency: Latency,
    ) -> None:
        self.search = search
        self._latency = latency
        self.stale = True
        self._sides = sides
        self._matcher = matcher
        self._rank = 0
        self._is_programmed = False
        self._compiled = True
        self._inside: tuple[deque[tuple[int, int]], ...] = (deque(), deque())
        self._left = [0, 0]
        self._entered: deque[tuple[int, int]] = deque(maxlen=MOST_ENTRIES)

    def use(self, search: PartnerSearch) -> None:
        """Replace the flow by another; all pairs so far have been found."""
        self.search.close()
        self.search, self.stale, self._is_programmed = search, True, False

    # -- input ------------------------------------------------------------------------------

    def restart(self) -> None:
        """Program the flow with the block's rule and windows; their pairs have been found."""
        windows = [side.window for side in self._sides]
        left, right = (w.size if isinstance(w, Rows) else None for w in windows)
        rule = self._matcher.rule((left, right), self._sides[0].clock.lowest)
        keyed = [self._window_keys(side) for side in self._sides]
        arrived = [
            self._arrived(side)[seqs - side.rows.first]
            for side, (seqs, _) in zip(self._sides, keyed, strict=True)
        ]
        order = np.argsort(np.concatenate(arrived), kind="stable")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        self._rank = max(self._rank, len(order))
        ranks += self._rank - len(order)
        cut = len(arrived[0])
        stored = [
            self._window_arrivals(
                side, *keyed[side.index], ranks[:cut] if side.index == 0 else ranks[cut:]
            )
            for side in self._sides
        ]
        self.search.program(rule, (stored[0], stored[1]), self._rank)
        self._left = [side.rows.first for side in self._sides]
        for side, inside in zip(self._sides, self._inside, strict=True):
            inside.clear()
            inside.append((side.rows.next, time.monotonic_ns()))
        self._compiled = self._is_programmed = True
        self.stale = False

    def _window_keys(self, side: StoredWindow) -> tuple[Indices, KeyValues]:
        """The numbers of the live tuples that can match, and their keys."""
        seqs, parts = [], []
        first, stored = side.rows.first, self._matcher.keys[side.index]
        for batch in side.rows.batches():
            keyed = stored.keyed(batch, Failures())  # these were counted when they arrived
            here = np.arange(batch.num_rows) if keyed.passed is None else keyed.passed
            seqs.append(here + first)
            parts.append(keyed)
            first += batch.num_rows
        if not parts:
            return np.empty(0, np.int64), self._no_keys(side)
        numbers, keys = np.concatenate(seqs), _joined(parts)
        live = np.ones(len(numbers), np.bool_)
        live &= numbers >= side.cut(self._sides[1 - side.index])
        if isinstance(side.window, Range):
            live &= side.expiry.view()[numbers - side.rows.first] != side.clock.lowest
        chosen = np.flatnonzero(live)
        return numbers[chosen], keys.only(chosen)

    def _window_arrivals(
        self, side: StoredWindow, seqs: Indices, keyed: KeyValues, ranks: Indices
    ) -> Arrivals:
        other = self._sides[1 - side.index]
        there = np.full(len(seqs), other.rows.next, np.int64)
        where = seqs - side.rows.first
        times = side.times.view()[where] if side.time is not None else None
        return self._arrivals(side, seqs, ranks, (there, there), keyed, times, times)

    def _no_keys(self, side: StoredWindow) -> KeyValues:
        """The keys of no tuples."""
        columns = self._matcher.keys[side.index].keys.columns
        return KeyValues(None, [c.values.view()[:0] for c in columns], [None] * len(columns))

    def chunk(
        self, admitted: tuple[Admitted, Admitted], keyed: tuple[KeyValues, KeyValues], ranks: Ranks
    ) -> Chunk:
        """The tuples just appended to the block's sides, for the flow."""
        self._compiled = self._compiled and self._matcher.in_range()
        first = self._rank
        self._rank += ranks.count
        left, right = (
            self._new(side, admitted[side.index], keyed[side.index], ranks, first)
            for side in self._sides
        )
        r, s = self._sides
        ranks_here, seen = (first, self._rank), (r.rows.next, s.rows.next)
        live = (r.cut(s), s.cut(r))
        punctuations = (r.punctuator.punctuation, s.punctuator.punctuation)
        light = is_light((left, right), ranks_here)
        entered = time.monotonic_ns()
        self._entered.append((self._rank, entered))
        return Chunk(
            (left, right), ranks_here, seen, live, punctuations, self._compiled, entered, light
        )

    def _new(
        self, side: StoredWindow, admitted: Admitted, keyed: KeyValues, ranks: Ranks, first: int
    ) -> Arrivals:
        other = self._sides[1 - side.index]
        count = admitted.batch.num_rows
        if not count:
            keyed = self._no_keys(side)
        ranges = other.numbered_ranges(ranks.others_before(side.index))
        lo, hi = ranges.lo + other.rows.first, ranges.hi + other.rows.first
        seqs = np.arange(side.rows.next - count, side.rows.next)
        own_ranks = ranks.tuples[side.index] + first
        low, times = admitted.low, admitted.times
        if keyed.passed is not None:
            passed = keyed.passed
            seqs, own_ranks, lo, hi = seqs[passed], own_ranks[passed], lo[passed], hi[passed]
            low = None if low is None else low[passed]
            times = None if times is None else times[passed]
        return self._arrivals(side, seqs, own_ranks, (lo, hi), keyed, low, times)

    def _arrivals(
        self,
        side: StoredWindow,
        seqs: Indices,
        ranks: Indices,
        numbers: tuple[Indices, Indices],
        keyed: KeyValues,
        low: Any,
        times: Any,
    ) -> Arrivals:
        other = self._sides[1 - side.index]
        upper = expiry = own_times = None
        if isinstance(side.window, Range) and times is not None:
            expiry, own_times = side.clock.expiry(times, side.window), times
            upper = expiry if isinstance(other.window, Range) else None
        if not isinstance(other.window, Range):
            low = None
        keys, valid = tuple(keyed.values), tuple(keyed.valid)
        return Arrivals(
            side.index, seqs, ranks, *numbers, keys, valid, low, upper, expiry, own_times
        )

    # -- output -----------------------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """The pairs that the flow has found by now, the whole predicate being true of them."""
        for pairs in self.search.take(chunk):
            if len(pairs):
                yield from self._passed(pairs)
        if self.search.complete_at_once:
            tuples = len(chunk.arrivals[0]) + len(chunk.arrivals[1])
            self._latency.processing.add(time.monotonic_ns() - chunk.entered, tuples)
        else:
            self._note_departures(chunk)

    def _note_departures(self, chunk: Chunk) -> None:
        """Record the latency of tuples that have left all cores."""
        now = time.monotonic_ns()
        for side in self._sides:
            inside = self._inside[side.index]
            inside.append((chunk.seen[side.index], chunk.entered))
            oldest = self.search.oldest(side.index)
            oldest = side.rows.next if oldest is None else oldest
            while inside and self._left[side.index] < oldest:
                after, entered = inside[0]
                gone = min(after, oldest) - self._left[side.index]
                self._latency.processing.add(now - entered, gone)
                self._left[side.index] += gone
                if after <= oldest:
                    inside.popleft()

    def complete(self) -> Iterator[FoundPairs]:
        """Find all remaining pairs."""
        if not self._is_programmed:
            return
        for pairs in self.search.complete():
            if len(pairs):
                yield from self._passed(pairs)

    def _passed(self, pairs: FoundPairs) -> Iterator[FoundPairs]:
        self._note_latency(pairs)
        passing = self._matcher.passing(pairs.left, pairs.right, self._compiled)
        if passing is None:
            yield pairs
        elif len(passing):
            yield FoundPairs(
                pairs.left[passing],
                pairs.right[passing],
                pairs.ranks[passing],
                pairs.entries[passing],
                pairs.found_at,
            )

    def _note_latency(self, pairs: FoundPairs) -> None:
        """From the arrival of the younger of two tuples until they were found to match."""
        if not pairs.found_at:
            return
        _, entered = self._entered[-1]
        start = self._entered[-2][0] if len(self._entered) > 1 else 0
        if pairs.ranks.min() >= start:
            self._latency.visiting.add(pairs.found_at - entered, len(pairs))
            return
        ends, times = np.array(self._entered).T
        which = np.searchsorted(ends, pairs.ranks, side="right")
        self._latency.visiting.add_many(pairs.found_at - times[np.minimum(which, len(times) - 1)])

    def positions(self, pairs: FoundPairs) -> Indices:
        """The positions that pairs belong to: those of their younger tuples."""
        arrived = [
            self._arrived(side)[seqs - side.rows.first]
            for side, seqs in zip(self._sides, (pairs.left, pairs.right), strict=True)
        ]
        positions: Indices = np.maximum(*arrived) >> INPUT_BITS
        return positions

    @staticmethod
    def _arrived(side: StoredWindow) -> Indices:
        assert side.arrived is not None
        arrived: Indices = side.arrived.view()
        return arrived


def _joined(parts: list[KeyValues]) -> KeyValues:
    """Keys one after another."""
    if len(parts) == 1:
        return KeyValues(None, parts[0].values, parts[0].valid)
    values = [np.concatenate(column) for column in zip(*(p.values for p in parts), strict=True)]
    valid: list[npt.NDArray[np.bool_] | None] = []
    for number in range(len(values)):
        masks = [part.valid[number] for part in parts]
        if all(mask is None for mask in masks):
            valid.append(None)
            continue
        sizes = [len(part.values[number]) for part in parts]
        whole = [
            np.ones(size, np.bool_) if mask is None else mask
            for size, mask in zip(sizes, masks, strict=True)
        ]
        valid.append(np.concatenate(whole))
    return KeyValues(None, values, valid)
