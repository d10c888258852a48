"""The window of one input of a join: its tuples, what a probe may see of them, and their expiry.

The window stores every tuple of the stream, whatever the predicate: count windows count them all,
outer joins pad them, and a changed predicate may need them. Tuples are in sequence order, so the
part of a window that one probe may see is an index range. The keys, which kernels read, are stored
apart (:mod:`penstock.blocks.window.keys`): for each predicate anew, and where the search is.

Where several cores divide a stream, each takes all of it and stores its share: the window of a core
is then an ordinary window of the tuples that are at home there, under numbers of its own. What
depends on the others is how many have arrived, which is counted, and of each tuple at home the
number that it arrived with, which is stored: the last ``w`` arrivals begin at a number, and so at
a tuple at home. Tuples that are at home elsewhere are *guests*: they can be read until the batch
is done, as they probe, and are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import Share
from penstock.blocks.state import BlockState
from penstock.blocks.window.live_ranges import Ranges, expired
from penstock.blocks.window.punctuator import Clock, Lag, Punctuator, Ticks
from penstock.blocks.window.stored_columns import Buffer, RowStore
from penstock.kernels.merging import is_sorted, row_ranges, time_ranges
from penstock.streams.batches import opened, take
from penstock.streams.windows import Range, Rows, TimeAttribute, Unbounded, Window
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
NO_NUMBERS = np.empty(0, np.int64)


def _letter(index: int) -> str:
    """The name of an input in saved state: R, S, S2, S3, ..."""
    return "RS"[index] if index < 2 else f"S{index}"


class StoredWindow:
    """A window with its tuples. ``index`` 0 is that of the left input (R), 1 of the right (S)."""

    def __init__(self, index: int, schema: pa.Schema, clock: Clock) -> None:
        self.index = index
        self.clock = clock
        self.rows = RowStore(schema)
        self.punctuator = Punctuator(clock)
        self.window: Window = Unbounded()
        self.time: TimeAttribute | None = None
        self.ended = False
        self.in_order = True
        self.numbering = 0
        self.lag: Lag | None = None
        """How much longer than its window a tuple can be met, where a combination may be decided
        later than its members expire; None: no longer."""
        self.share: Share | None = None
        self.part: Share | None = None
        """Of a whole window, the tuples that are processed here; None: all of them."""
        self._takes_guests = False
        self.origin: Buffer | None = None
        """Where a share divides the stream: the number that each tuple arrived with."""
        self._came = [0, 0]
        """How many tuples of a divided stream had arrived before this batch, and have by now."""
        self.places: Indices | None = None
        """Where there are guests: the place of each tuple of the batch, from the first one at home
        on; those at home come first, in their order, and guests after them."""
        self.home: Indices | None = None
        """Of a divided stream without guests: which tuples of the batch are at home."""
        self.newest = 0
        """How many of the tuples are of this batch."""
        self.times = Buffer(clock.dtype)
        self.expiry = Buffer(clock.dtype)
        self.matched: Buffer | None = None
        self.arrived: Buffer | None = None

    # -- programming ------------------------------------------------------------------------

    def track(self, matches: bool, arrivals: bool) -> None:
        """Store which tuples are matched, and when they arrived."""
        if matches and self.matched is None:
            self.matched = Buffer(np.dtype(np.bool_))
        if arrivals and self.arrived is None:
            self.arrived = Buffer(np.dtype(np.int64))

    def divide(self, share: Share | None, takes_guests: bool = False) -> None:
        """Store the tuples of this share alone. The window is empty.

        ``takes_guests``: the others can be read until the batch is done.
        """
        self.share, self._takes_guests = share, takes_guests
        self.origin = None if share is None else Buffer(np.dtype(np.int64))
        self.append_none()

    @property
    def probing(self) -> int:
        """How many tuples have probed the other windows."""
        return self.arrivals if self._takes_guests else self.rows.next

    @property
    def arrivals(self) -> int:
        """How many tuples have arrived in time."""
        return self.rows.next if self.share is None else self._came[1]

    def set_window(self, window: Window, time: TimeAttribute | None) -> None:
        """Take a window of this size. What has expired stays expired."""
        if self.time is not None and time is not None and self.time.factor != time.factor:
            window, time = self._rescale(window, time)
        self.window, self.time = window, time
        self.punctuator.program(window)
        if isinstance(window, Range) and len(self.expiry):
            expiry = self.clock.expiry(self.times.view(), window)
            gone = self.expiry.view() == self.clock.lowest
            self.expiry.replace(np.where(gone, self.clock.lowest, expiry))

    def _rescale(self, window: Window, time: TimeAttribute) -> tuple[Window, TimeAttribute]:
        """Let the clock tick in the finer of the old and the new ticks, so that nothing is rounded.

        Returns the window and the attribute in those ticks.
        """
        assert self.time is not None
        old, new = int(self.time.factor), int(time.factor)
        if new < old:
            if isinstance(window, Range):
                slack = None if window.slack is None else window.slack * (old // new)
                window = replace(window, size=window.size * (old // new), slack=slack)
            return window, replace(time, factor=old)
        ratio = new // old
        for column in (self.times, self.expiry):
            column.replace(self.clock.scaled(column.view(), ratio))
        ends = np.array([self.punctuator.seen, self.punctuator.punctuation], self.clock.dtype)
        self.punctuator.seen, self.punctuator.punctuation = self.clock.scaled(ends, ratio).tolist()
        return window, time

    # -- arrival ----------------------------------------------------------------------------

    def append_none(self) -> None:
        """Note a batch without a tuple of this input."""
        self.newest = 0
        self._came[0] = self._came[1]
        self.home = None if self.share is None or self._takes_guests else NO_NUMBERS

    def append(self, batch: pa.RecordBatch, times: Ticks | None, arrived: Indices) -> None:
        """Store arriving tuples, or those at home, at the end of the window."""
        guests: pa.RecordBatch | None = None
        if self.share is not None:
            home, away = self._shared_out(self.share, batch.num_rows)
            guests = take(batch, away) if self._takes_guests else None
            batch, arrived = opened(take(batch, home)), arrived[home]
            times = None if times is None else times[home]
        self._store(batch, times, arrived)
        if guests is not None:
            self.rows.add_guests(guests)

    def _shared_out(self, share: Share, count: int) -> tuple[Indices, Indices]:
        """Which of a batch's tuples are at home, and which are not."""
        assert self.origin is not None
        before = self._came[1]
        self._came = [before, before + count]
        numbers = np.arange(before, before + count)
        owned = share.owns(numbers)
        home, away = np.flatnonzero(owned), np.flatnonzero(~owned)
        self.origin.append(numbers[home])
        if self._takes_guests:
            self.places = np.empty(count, np.int64)
            self.places[home] = np.arange(len(home))
            self.places[away] = np.arange(len(home), count)
        else:
            self.home = home
        return home, away

    def _store(self, batch: pa.RecordBatch, times: Ticks | None, arrived: Indices) -> None:
        self.newest = count = batch.num_rows
        self.rows.append(batch)
        if times is not None:
            known = self.times.view()
            if count and self.in_order:
                after_last = not len(known) or bool(times[0] >= known[-1])
                self.in_order = after_last and is_sorted(times)
            self.times.append(times)
            if isinstance(self.window, Range):
                self.expiry.append(self.clock.expiry(times, self.window))
        if self.matched is not None:
            self.matched.append(np.zeros(count, np.bool_))
        if self.arrived is not None:
            self.arrived.append(arrived)

    def arrival_numbers(self, seqs: Indices) -> Indices:
        """The numbers that tuples of the window arrived with, on all cores the same."""
        if self.origin is None:
            return seqs
        numbers: Indices = self.origin.view()[seqs - self.rows.first]
        return numbers

    def _stored_of(self, share: Share, seen: Indices) -> Indices:
        """How many of the first tuples of a batch are at home."""
        first = self._came[0]
        return share.before(seen + first) - share.before(np.array([first]))

    # -- the live range of a probe ------------------------------------------------------------

    def numbered_ranges(self, seen: Indices) -> Ranges:
        """The candidates of probes by their numbers alone, as indices of tuples.

        ``seen`` are how many of the batch's tuples each probe may see.
        """
        before = len(self.rows) - self.newest
        if self.share is not None:
            return self._ranges_at_home(self.share, seen, before)
        if isinstance(self.window, Rows):
            lo, hi = np.empty_like(seen), np.empty_like(seen)
            row_ranges(seen, before, self.window.size, lo, hi)
            return Ranges(lo, hi)
        return Ranges(np.zeros_like(seen), before + seen)

    def _ranges_at_home(self, share: Share, seen: Indices, before: int) -> Ranges:
        """As :meth:`numbered_ranges`: a count window begins with a number of arrival."""
        hi = self._stored_of(share, seen) + before
        if not isinstance(self.window, Rows):
            return Ranges(np.zeros_like(hi), hi)
        return Ranges(self._first_at_home(seen + (self._came[0] - self.window.size)), hi)

    def _first_at_home(self, numbers: Indices) -> Indices:
        """The index of the first tuple at home that has arrived with one of these, or later."""
        assert self.origin is not None
        return self.origin.view().searchsorted(numbers)

    def ranges(
        self, seen: Indices, reach: Callable[[], tuple[Ticks | None, Ticks | None]]
    ) -> Ranges:
        """The candidates of probes, as indices of tuples.

        ``seen`` as for :meth:`numbered_ranges`; ``reach`` gives, for a time window, what the expiry
        of a tuple must be above and what its time must be below, or None for each that has no
        bound.
        """
        if not isinstance(self.window, Range):
            return self.numbered_ranges(seen)
        lower, upper = reach()
        if lower is None:
            return self.numbered_ranges(seen)
        if self.share is not None:
            seen = self._stored_of(self.share, seen)
        before = len(self.rows) - self.newest
        expiry, times = self.expiry.view(), self.times.view()
        if self.in_order:
            lo, hi = np.empty_like(seen), np.empty_like(seen)
            bound = self.clock.nothing if upper is None else upper
            time_ranges(seen, before, lower, bound, (expiry, times), lo, hi)
            return Ranges(lo, hi)
        # Of times out of order, the range is bounded by running extremes.
        hi = before + seen
        lo = np.searchsorted(np.maximum.accumulate(expiry), lower, side="right")
        if upper is not None:
            earliest = np.minimum.accumulate(times[::-1])[::-1]
            hi = np.minimum(hi, np.searchsorted(earliest, upper))
        return Ranges(lo, np.maximum(lo, hi), lower, upper)

    # -- expiry -----------------------------------------------------------------------------

    def cut(self, *others: StoredWindow) -> int:
        """The first sequence number that is still in the window, after all that has arrived.

        ``others`` are all other inputs of the join.
        """
        if all(other.ended for other in others):
            return self.rows.next
        if isinstance(self.window, Rows):
            return self.rows.first + self.pushed_out(self.window)
        if isinstance(self.window, Range):
            expiry, punctuation = self.expiry.view(), self.passed(others)
            return self.rows.first + expired(expiry, punctuation, self.in_order)
        return self.rows.first

    def pushed_out(self, window: Rows) -> int:
        """How many of the stored tuples newer ones have pushed out of a count window."""
        if self.share is not None:
            return self._first_at_home(np.array([self.arrivals - window.size])).item(0)
        return max(0, len(self.rows) - window.size)

    def passed(self, others: Sequence[StoredWindow]) -> int | float:
        """The time up to which tuples are met no more.

        That is the smallest punctuation, less the lag; a stream that has ended has the highest.
        """
        least = min(other.punctuator.punctuation for other in others)
        if self.lag is None:
            return least
        return self.clock.number(self.lag.before(np.array([least], self.clock.dtype))[0])

    def forget(self, *others: StoredWindow, needed: int | None = None) -> int:
        """Drop expired tuples, but none from number ``needed`` on; returns how many.

        The batch is done: guests go too.
        """
        if self._takes_guests:
            self.rows.drop_guests()
        first, oldest = self.cut(*others), self.rows.first
        if needed is not None:
            first = max(oldest, min(first, needed))
        count = first - oldest
        if isinstance(self.window, Range) and not self.in_order:
            expiry = self.expiry.view()
            expiry[expiry <= self.passed(others)] = self.clock.lowest
        if count:
            self._drop(first, count)
        return count

    def is_mostly_expired(self) -> bool:
        """Whether times are out of order and more stored tuples are expired than live."""
        if (
            self.in_order
            or not isinstance(self.window, Range)
            or len(self.rows) < TUNING.tuples_to_pack
        ):
            return False
        expired = int(np.count_nonzero(self.expiry.view() == self.clock.lowest))
        return 2 * expired > len(self.rows)

    def pack(self) -> Indices:
        """Keep only the live tuples, under new sequence numbers; their keys must be recomputed.

        Gives the new number of each tuple, -1 for those that are gone.
        """
        self.numbering += 1
        before = len(self.rows)
        live = np.flatnonzero(self.expiry.view() != self.clock.lowest)
        seqs = live + self.rows.first
        packed = RowStore(self.rows.schema)
        packed.start_at(self.rows.next - len(live))
        packed.append(self.rows.take(seqs, range(len(self.rows.schema))))
        self.rows = packed
        for column in (self.times, self.expiry, self.matched, self.arrived, self.origin):
            if column is not None:
                column.replace(column.view()[live])
        times = self.times.view()
        self.in_order = is_sorted(times)
        renumbered = np.full(before, -1, np.int64)
        renumbered[live] = np.arange(packed.first, packed.next)
        return renumbered

    def _drop(self, first: int, count: int) -> None:
        for column in (self.times, self.expiry, self.matched, self.arrived, self.origin):
            if column is not None and len(column):
                column.drop(count)
        self.rows.drop_before(first)
        if not len(self.rows):
            self.in_order = True

    def fit(self) -> None:
        """Give back memory that a smaller window does not need."""
        self.rows.fit()
        for buffer in self._saved_columns().values():
            buffer.fit()

    # -- state ------------------------------------------------------------------------------

    def _saved_columns(self) -> dict[str, Buffer]:
        named = {
            "times": self.times,
            "expiry": self.expiry,
            "matched": self.matched,
            "arrived": self.arrived,
            "origin": self.origin,
        }
        return {name: buffer for name, buffer in named.items() if buffer is not None}

    def save(self, state: BlockState) -> None:
        """Add the window and the punctuation to the block's state; keys follow from the tuples."""
        name = _letter(self.index)
        state.rows[name] = (self.rows.schema, self.rows.batches())
        for key, buffer in self._saved_columns().items():
            state.columns[f"{name}.{key}"] = buffer.view().copy()
        state.values[name] = {
            "arrivals": self.arrivals,
            "first": self.rows.first,
            "ended": self.ended,
            "in_order": self.in_order,
            "numbering": self.numbering,
            "seen": self.punctuator.seen,
            "punctuation": self.punctuator.punctuation,
            "has_source": self.punctuator.has_source,
            "factor": None if self.time is None else self.time.factor,
        }

    def load(self, state: BlockState) -> None:
        """Restore the window and the punctuation from saved state."""
        name = _letter(self.index)
        saved = state.values[name]
        if self.time is not None and saved["factor"] not in (None, self.time.factor):
            # The saved clock ticks finer than the program asks, since a change once needed it.
            window, time = self.window, self.time
            self.time = replace(time, factor=saved["factor"])
            self.set_window(window, time)
        self.rows.start_at(saved["first"])
        for batch in state.rows[name][1]:
            self.rows.append(batch)
        if self.share is not None:
            self._came = [saved["arrivals"]] * 2
        for key, buffer in self._saved_columns().items():
            buffer.replace(state.columns[f"{name}.{key}"])
        self.ended, self.in_order = saved["ended"], saved["in_order"]
        self.numbering = saved.get("numbering", 0)
        self.punctuator.seen = saved["seen"]
        self.punctuator.punctuation = saved["punctuation"]
        self.punctuator.has_source = saved["has_source"]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(buffer.nbytes for buffer in self._saved_columns().values())
