"""Between a join block and a flow: tuples become arrivals, and pairs come back.

The keys and the candidate range of a tuple are computed here once, for the flow. Whole tuples stay
here, and the pairs of numbers that come back become rows here.

A change of the program is sent between the tuples (:class:`Change`). Cores cut and compare what
they store by themselves. Only where the predicate reads other keys, or tuples become candidates
that did not pass the filter before, are the live tuples sent, with their keys.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join.latency import Latency
from penstock.blocks.join.matcher import Matcher
from penstock.blocks.join.partner_search import (
    Arrivals,
    Change,
    Chunk,
    FoundPairs,
    Lifetimes,
    LiveTuples,
    PartnerSearch,
    concatenated,
    is_light,
)
from penstock.blocks.lateness import INPUT_BITS, Admitted
from penstock.blocks.ranks import Ranks
from penstock.blocks.window.keys import KeyValues, WindowKeys
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures
from penstock.streams.windows import Range, Rows, Window
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MOST_ENTRIES = 4096
"""Chunks whose times of entry are stored, for the latency of pairs found late."""


@dataclass(frozen=True)
class Before:
    """What a change has to know of the program before it.

    Parameters
    ----------
    windows, factors
        The windows, and the factors of their time attributes.
    passed
        The times up to which the tuples of each window have expired.
    """

    windows: tuple[Window, ...]
    factors: tuple[int | float | None, ...]
    passed: tuple[int | float, ...]


class FlowFront:
    """A join block's end of a flow."""

    def __init__(
        self,
        search: PartnerSearch,
        sides: Sequence[StoredWindow],
        matcher: Matcher,
        latency: Latency,
    ) -> None:
        self.search = search
        self.order: tuple[str, int] | None = None
        """The order in which pairs are asked for, with its precision; None: the flow knows."""
        self._latency = latency
        self._sides = sides
        self._matcher = matcher
        self._rank = 0
        self._sent: tuple[WindowKeys, WindowKeys] | None = None
        self._known: list[Indices | None] = [None] * len(sides)
        self._compiled = True
        self._inside: tuple[deque[tuple[int, int]], ...] = tuple(deque() for _ in sides)
        self._left = [0] * len(sides)
        self._entered: deque[tuple[int, int]] = deque(maxlen=MOST_ENTRIES)

    # -- a change ---------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether the cores have the keys that the block computes, by the block's numbers."""
        return self._matcher.keys is self._sent and not self._is_renumbered

    @property
    def _is_renumbered(self) -> bool:
        return any(known is not None for known in self._known)

    def before(self) -> Before:
        """What the next change has to know of the program so far."""
        sides = self._sides
        return Before(
            tuple(side.window for side in sides),
            tuple(None if side.time is None else side.time.factor for side in sides),
            tuple(side.passed(self._others(side)) for side in sides),
        )

    def _others(self, side: StoredWindow) -> list[StoredWindow]:
        return [other for other in self._sides if other is not side]

    def _cuts(self) -> tuple[int, ...]:
        """Of each stream, the first number that is in its window."""
        return tuple([side.cut(*self._others(side)) for side in self._sides])

    def load(self) -> None:
        """Send the block's program and windows to cores that have none."""
        self._sent = None
        self.change(None)

    def change(self, before: Before | None) -> None:
        """Send what has changed behind all arrivals so far, whose pairs have been found."""
        windows = [side.window for side in self._sides]
        sent = None
        if not self.is_current or not self.search.keeps_tuples:
            sent = tuple(self._live(side) for side in self._sides)
        self.search.change(
            Change(
                self._matcher.rule(
                    tuple(w.size if isinstance(w, Rows) else None for w in windows), self.order
                ),
                tuple(side.rows.next for side in self._sides),
                self._cuts(),
                None if sent is not None or before is None else self._lifetimes(before),
                sent,
            )
        )
        if self._sent is None or self._is_renumbered:
            self._begin_latencies()
        self._sent, self._known = self._matcher.keys, [None] * len(self._sides)
        self._compiled = True

    def _begin_latencies(self) -> None:
        self._left = [side.rows.first for side in self._sides]
        for side, inside in zip(self._sides, self._inside, strict=True):
            inside.clear()
            inside.append((side.rows.next, time.monotonic_ns()))

    def renumber(self, side: int, known: Indices) -> None:
        """The live tuples of a window have other numbers; these are those that cores know."""
        self._known[side] = known

    def _lifetimes(self, before: Before) -> Lifetimes | None:
        """How stored times become expiries; None if they stay as they are."""
        now = self.before()
        if now.factors == before.factors and now.windows == before.windows:
            return None
        ratios = [
            1 if then is None or factor is None else int(factor) // int(then)
            for then, factor in zip(before.factors, now.factors, strict=True)
        ]
        return Lifetimes(self._sides[0].clock, now.windows, max(ratios), before.passed)

    def _live(self, side: StoredWindow) -> LiveTuples:
        """The live tuples of a side that can match, with their keys."""
        seqs, keyed, is_known = self._window_keys(side)
        next_of_other = self._sides[1 - side.index].rows.next
        bounds = np.zeros(len(seqs), np.int64), np.full(len(seqs), next_of_other)
        where = seqs - side.rows.first
        times = side.times.view()[where] if side.time is not None else None
        # Any rank will do that is before those of later tuples.
        arrivals = self._arrivals(side, seqs, np.zeros_like(seqs), bounds, keyed, times, times)
        numbers = self._known[side.index]
        known = seqs if numbers is None else numbers[where]
        return LiveTuples(arrivals, known, seqs[~is_known])

    def _window_keys(self, side: StoredWindow) -> tuple[Indices, KeyValues, Mask]:
        """The numbers of the live tuples that can match, their keys, and which ones cores have."""
        seqs, parts, known = [], [], []
        first, stored = side.rows.first, self._matcher.keys[side.index]
        held = self._sent[side.index] if self._sent and self.search.keeps_tuples else None
        for batch in side.rows.batches():
            keyed = stored.keyed(batch, Failures())  # these were counted when they arrived
            here = np.arange(batch.num_rows) if keyed.passed is None else keyed.passed
            seqs.append(here + first)
            parts.append(keyed)
            known.append(_stored_in_cores(batch, held, stored)[here])
            first += batch.num_rows
        if not parts:
            return np.empty(0, np.int64), self._no_keys(side), np.empty(0, np.bool_)
        numbers, keys = np.concatenate(seqs), _joined(parts)
        live = np.ones(len(numbers), np.bool_)
        live &= numbers >= side.cut(self._sides[1 - side.index])
        if isinstance(side.window, Range):
            live &= side.expiry.view()[numbers - side.rows.first] != side.clock.lowest
        chosen = np.flatnonzero(live)
        return numbers[chosen], keys.only(chosen), np.concatenate(known)[chosen]

    def _no_keys(self, side: StoredWindow) -> KeyValues:
        """The keys of no tuples."""
        columns = self._matcher.keys[side.index].keys.columns
        return KeyValues(None, [c.values.view()[:0] for c in columns], [None] * len(columns))

    def chunk(
        self, admitted: Sequence[Admitted], keyed: Sequence[KeyValues], ranks: Ranks
    ) -> Chunk:
        """The tuples just appended to the block's sides, for the flow."""
        self._compiled = self._compiled and self._matcher.in_range()
        first = self._rank
        self._rank += ranks.count
        sides, ranks_here = self._sides, (first, self._rank)
        arrivals = tuple(
            [self._new(s, admitted[s.index], keyed[s.index], ranks, first) for s in sides]
        )
        seen = tuple([side.rows.next for side in sides])
        punctuations = tuple([side.punctuator.punctuation for side in sides])
        light = is_light(arrivals, ranks_here)
        entered = time.monotonic_ns()
        self._entered.append((self._rank, entered))
        return Chunk(
            arrivals, ranks_here, seen, self._cuts(), punctuations, self._compiled, entered, light
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
        for pairs in self._together(self.search.take(chunk)):
            yield from self._passed(pairs)
        if self.search.complete_at_once:
            tuples = sum(map(len, chunk.arrivals))
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
        for pairs in self._together(self.search.complete()):
            yield from self._passed(pairs)

    def _together(self, found: Iterable[FoundPairs]) -> Iterator[FoundPairs]:
        """The pairs in their order, several messages of few at once: each becomes a run of rows."""
        waiting: list[FoundPairs] = []
        count = 0
        for pairs in found:
            if not len(pairs):
                continue
            self._note_latency(pairs)
            waiting.append(pairs)
            count += len(pairs)
            if count >= TUNING.pairs_per_run:
                yield concatenated(waiting)
                waiting, count = [], 0
        if waiting:
            yield concatenated(waiting)

    def _passed(self, pairs: FoundPairs) -> Iterator[FoundPairs]:
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


def _stored_in_cores(batch: pa.RecordBatch, held: WindowKeys | None, keys: WindowKeys) -> Mask:
    """Which of these tuples cores have: those that passed the condition of what they were sent."""
    if held is None:
        return np.zeros(batch.num_rows, np.bool_)
    if held.condition == keys.condition:
        return np.ones(batch.num_rows, np.bool_)
    return select((batch, batch), held.condition, Failures())


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
