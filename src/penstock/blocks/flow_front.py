"""Between a join block and a flow: tuples become arrivals, and pairs come back.

What the flow must know of a tuple is worked out here once: its keys, and whom it may meet. What
it does not need stays here, and is attached to the pairs again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted
from penstock.blocks.join_side import JoinSide
from penstock.blocks.keyed import Keyed
from penstock.blocks.latency import Latency
from penstock.blocks.matcher import Matcher
from penstock.blocks.meeting import Arrivals, Chunk, Meeting, Met, is_light
from penstock.blocks.ranks import Ranks
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
MOST_ENTRIES = 4096
"""Chunks whose times of entry are remembered, for the latency of pairs found late."""


class FlowFront:
    """A join block's end of a flow.

    ``stale``: the flow has to be programmed before it takes anything more.
    """

    def __init__(
        self,
        meeting: Meeting,
        sides: tuple[JoinSide, JoinSide],
        matcher: Matcher,
        latency: Latency,
    ) -> None:
        self.meeting = meeting
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

    def use(self, meeting: Meeting) -> None:
        """Let another flow take the place of this one, of which everything has been completed."""
        self.meeting.close()
        self.meeting, self.stale, self._is_programmed = meeting, True, False

    # -- input ------------------------------------------------------------------------------

    def restart(self) -> None:
        """Program the flow with the block's rule and windows. All who may have met."""
        windows = [side.window for side in self._sides]
        left, right = (w.size if isinstance(w, Rows) else None for w in windows)
        rule = self._matcher.rule((left, right), self._sides[0].clock.lowest)
        keyed = [self._held_keys(side) for side in self._sides]
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
        held = [
            self._held(side, *keyed[side.index], ranks[:cut] if side.index == 0 else ranks[cut:])
            for side in self._sides
        ]
        self.meeting.program(rule, (held[0], held[1]), self._rank)
        self._left = [side.rows.first for side in self._sides]
        for side, inside in zip(self._sides, self._inside, strict=True):
            inside.clear()
            inside.append((side.rows.next, time.monotonic_ns()))
        self._compiled = self._is_programmed = True
        self.stale = False

    def _held_keys(self, side: JoinSide) -> tuple[Indices, Keyed]:
        """The numbers of the live tuples that can match, and their keys."""
        seqs, parts = [], []
        first = side.rows.first
        counted = side.failures.count
        for batch in side.rows.batches():
            keyed = side.keyed(batch, self._matcher.dictionary)
            here = np.arange(batch.num_rows) if keyed.passed is None else keyed.passed
            seqs.append(here + first)
            parts.append(keyed)
            first += batch.num_rows
        side.failures.count = counted  # these have been counted when they arrived
        if not parts:
            nothing = np.empty(0, np.int64)
            return nothing, Keyed(None, [c.values.view()[:0] for c in side.columns], _none(side))
        numbers, keys = np.concatenate(seqs), _joined(parts)
        live = np.ones(len(numbers), np.bool_)
        live &= numbers >= side.cut(self._sides[1 - side.index])
        if isinstance(side.window, Range):
            live &= side.expiry.view()[numbers - side.rows.first] != side.clock.lowest
        picked = np.flatnonzero(live)
        return numbers[picked], keys.only(picked)

    def _held(self, side: JoinSide, seqs: Indices, keyed: Keyed, ranks: Indices) -> Arrivals:
        other = self._sides[1 - side.index]
        there = np.full(len(seqs), other.rows.next, np.int64)
        where = seqs - side.rows.first
        times = side.times.view()[where] if side.time is not None else None
        return self._arrivals(side, seqs, ranks, (there, there), keyed, times, times)

    def chunk(
        self, admitted: tuple[Admitted, Admitted], keyed: tuple[Keyed, Keyed], ranks: Ranks
    ) -> Chunk:
        """What has just been appended to the block's sides, for the flow."""
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
        promises = (r.punctuator.promise, s.punctuator.promise)
        light = is_light((left, right), ranks_here)
        entered = time.monotonic_ns()
        self._entered.append((self._rank, entered))
        return Chunk(
            (left, right), ranks_here, seen, live, promises, self._compiled, entered, light
        )

    def _new(
        self, side: JoinSide, admitted: Admitted, keyed: Keyed, ranks: Ranks, first: int
    ) -> Arrivals:
        other = self._sides[1 - side.index]
        count = admitted.batch.num_rows
        if not count:
            keyed = Keyed(None, [c.values.view()[:0] for c in side.columns], _none(side))
        hi = (other.rows.next - other.newest) + ranks.seen[side.index]
        lo = np.full(len(hi), other.rows.first, np.int64)
        if isinstance(other.window, Rows):
            lo = np.maximum(hi - other.window.size, lo)
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
        side: JoinSide,
        seqs: Indices,
        ranks: Indices,
        numbers: tuple[Indices, Indices],
        keyed: Keyed,
        low: Any,
        times: Any,
    ) -> Arrivals:
        other = self._sides[1 - side.index]
        upper = expiry = own_times = None
        if isinstance(side.window, Range) and times is not None:
            expiry, own_times = side.clock.later(times, side.window.size), times
            upper = expiry if isinstance(other.window, Range) else None
        if not isinstance(other.window, Range):
            low = None
        keys, valid = tuple(keyed.values), tuple(keyed.valid)
        return Arrivals(
            side.index, seqs, ranks, *numbers, keys, valid, low, upper, expiry, own_times
        )

    # -- output -----------------------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[Met]:
        """The pairs that the flow has found by now, the whole predicate being true of them."""
        for met in self.meeting.take(chunk):
            if len(met):
                yield from self._passed(met)
        if self.meeting.complete_at_once:
            tuples = len(chunk.arrivals[0]) + len(chunk.arrivals[1])
            self._latency.processing.add(time.monotonic_ns() - chunk.entered, tuples)
        else:
            self._note_departures(chunk)

    def _note_departures(self, chunk: Chunk) -> None:
        """A tuple that is in no core any more has met all it could."""
        now = time.monotonic_ns()
        for side in self._sides:
            inside = self._inside[side.index]
            inside.append((chunk.seen[side.index], chunk.entered))
            oldest = self.meeting.oldest(side.index)
            oldest = side.rows.next if oldest is None else oldest
            while inside and self._left[side.index] < oldest:
                after, entered = inside[0]
                gone = min(after, oldest) - self._left[side.index]
                self._latency.processing.add(now - entered, gone)
                self._left[side.index] += gone
                if after <= oldest:
                    inside.popleft()

    def complete(self) -> Iterator[Met]:
        """Make everybody meet who may."""
        if not self._is_programmed:
            return
        for met in self.meeting.complete():
            if len(met):
                yield from self._passed(met)

    def _passed(self, met: Met) -> Iterator[Met]:
        self._note_latency(met)
        kept = self._matcher.passing(met.left, met.right, self._compiled)
        if kept is None:
            yield met
        elif len(kept):
            yield Met(met.left[kept], met.right[kept], met.ranks[kept], met.entries[kept], met.at)

    def _note_latency(self, met: Met) -> None:
        """From the arrival of the younger of two tuples until they were found to match."""
        if not met.at:
            return
        _, entered = self._entered[-1]
        start = self._entered[-2][0] if len(self._entered) > 1 else 0
        if met.ranks.min() >= start:
            self._latency.visiting.add(met.at - entered, len(met))
            return
        ends, times = np.array(self._entered).T
        which = np.searchsorted(ends, met.ranks, side="right")
        self._latency.visiting.add_many(met.at - times[np.minimum(which, len(times) - 1)])

    def positions(self, met: Met) -> Indices:
        """The positions that pairs belong to: those of their younger tuples."""
        arrived = [
            self._arrived(side)[seqs - side.rows.first]
            for side, seqs in zip(self._sides, (met.left, met.right), strict=True)
        ]
        positions: Indices = np.maximum(*arrived) // 4
        return positions

    @staticmethod
    def _arrived(side: JoinSide) -> Indices:
        assert side.arrived is not None
        arrived: Indices = side.arrived.view()
        return arrived


def _none(side: JoinSide) -> list[npt.NDArray[np.bool_] | None]:
    return [None for _ in side.columns]


def _joined(parts: list[Keyed]) -> Keyed:
    """Keys one after another."""
    if len(parts) == 1:
        return Keyed(None, parts[0].values, parts[0].valid)
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
    return Keyed(None, values, valid)
