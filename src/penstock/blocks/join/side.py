"""One input of a join: its window, whole tuples and keys, and which tuples are unmatched.

The window stores every tuple of the stream, whatever the predicate: count windows count them all,
outer joins pad them, and a changed predicate may need them. The keys, which kernels read, are
stored only for tuples that pass the side's filter. Both are contiguous in sequence order, so
the part of a window that one probe may see is an index range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import Share
from penstock.blocks.state import BlockState
from penstock.blocks.window.live_ranges import expired
from penstock.blocks.window.punctuator import Clock, Lag, Punctuator, Ticks
from penstock.blocks.window.stored_columns import Buffer, RowStore
from penstock.kernels.expressions.evaluate import evaluate_each, select
from penstock.kernels.expressions.vector import Failures, null_vector
from penstock.kernels.merging import is_sorted
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.keys import comparison_key, native_values
from penstock.kernels.predicate.predicate import Key
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.nested_loop import Columns
from penstock.sql.expressions import TRUE, Expression
from penstock.streams.batches import opened, take
from penstock.streams.windows import Range, Rows, TimeAttribute, Unbounded, Window
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NO_NUMBERS = np.empty(0, np.int64)


class KeyColumn:
    """A stored key: its values, its validity once it has had a NULL, its bounds if native."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.values = Buffer(key_dtype(key))
        self.valid: Buffer | None = None
        self.bounds: Indices = np.array([1, 0], np.int64)
        """The least and the largest integer so far, swapped if there is none; compiled code moves
        these too."""

    @property
    def low(self) -> int | None:
        """The least integer that has been stored."""
        return int(self.bounds[0]) if self.bounds[0] <= self.bounds[1] else None

    @property
    def high(self) -> int | None:
        """The largest integer that has been stored."""
        return int(self.bounds[1]) if self.bounds[0] <= self.bounds[1] else None

    def append(self, values: npt.NDArray[Any], valid: Mask | None) -> None:
        """Store keys at the end."""
        if valid is not None and self.valid is None:
            self.valid = Buffer(np.dtype(np.bool_))
            self.valid.append(np.ones(len(self.values), np.bool_))
        self.values.append(values)
        if self.valid is not None:
            self.valid.append(valid if valid is not None else np.ones(len(values), np.bool_))

    def widen(self, low: int, high: int) -> None:
        """Extend the bounds to ``low .. high``."""
        if self.bounds[0] <= self.bounds[1]:
            low, high = min(low, int(self.bounds[0])), max(high, int(self.bounds[1]))
        self.bounds[:] = low, high


@dataclass(frozen=True)
class KeyValues:
    """The keys of arriving tuples: those that pass the filter, by index in their run."""

    passed: Indices | None
    values: list[npt.NDArray[Any]]
    valid: list[Mask | None]

    def only(self, chosen: Indices) -> KeyValues:
        """The keys of the tuples at these indices."""
        passed = None if self.passed is None else self.passed[chosen]
        valid = [None if mask is None else mask[chosen] for mask in self.valid]
        return KeyValues(passed, [values[chosen] for values in self.values], valid)


def key_values(
    keys: Sequence[Key],
    inputs: Sequence[pa.RecordBatch],
    dictionary: Dictionary,
    failures: Failures,
) -> tuple[list[npt.NDArray[Any]], list[Mask | None]]:
    """The values of keys, as kernels compare them, and which of them are not NULL."""
    values: list[npt.NDArray[Any]] = []
    valid: list[Mask | None] = []
    vectors = evaluate_each([key.expression for key in keys], inputs, failures)
    for key, vector in zip(keys, vectors, strict=True):
        if key.kind == "code":
            values.append(dictionary.encode(vector.to_arrow()))
        elif key.kind == "native":
            values.append(native_values(vector))
        else:
            values.append(comparison_key(vector))
        valid.append(vector.valid)
    return values, valid


NO_KEYS = KeyValues(None, [], [])


def key_dtype(key: Key) -> np.dtype[Any]:
    """The machine type of a key's column: that of the key of no value at all."""
    if key.kind == "code":
        return np.dtype(np.int32)
    nothing = null_vector(key.expression.type, 0)
    values = native_values(nothing) if key.kind == "native" else comparison_key(nothing)
    return values.dtype


def _letter(index: int) -> str:
    """The name of an input in saved state: R, S, S2, S3, ..."""
    return "RS"[index] if index < 2 else f"S{index}"


class JoinSide:
    """The state of one input. ``index`` 0 is the left (R), 1 the right (S), 2 a third one."""

    def __init__(self, index: int, schema: pa.Schema, clock: Clock, failures: Failures) -> None:
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
        self.stores_keys = True
        """Whether keys are stored here; where a flow's cores store them, only their bounds are."""
        self.origin: Buffer | None = None
        self.newest = 0
        self.entry_index: EntryIndex | None = None
        self.dropped: Indices = np.zeros(1, np.int64)
        self.times = Buffer(clock.dtype)
        self.expiry = Buffer(clock.dtype)
        self.matched: Buffer | None = None
        self.arrived: Buffer | None = None
        self.jumps: Buffer | None = None
        """Of the left side of semi and anti joins, for each key: 0 or, if its tuple is matched, a
        distance; see :mod:`penstock.kernels.predicate.generate_first`."""
        self.filter: Expression = TRUE
        self._filters = False
        self.columns: list[KeyColumn] = []
        self.seqs: Buffer | None = None
        self.failures = failures

    # -- programming ------------------------------------------------------------------------

    def track(self, matches: bool, arrivals: bool) -> None:
        """Store which tuples are matched, and when they arrived."""
        if matches and self.matched is None:
            self.matched = Buffer(np.dtype(np.bool_))
        if arrivals and self.arrived is None:
            self.arrived = Buffer(np.dtype(np.int64))

    def pass_over_matched(self) -> None:
        """Let probes pass over tuples that are matched."""
        self.jumps = Buffer(np.dtype(np.int32))

    def set_window(self, window: Window, time: TimeAttribute | None) -> None:
        """Take a window of this size. What has expired stays expired."""
        if self.time is not None and time is not None and self.time.factor != time.factor:
            window, time = self._rescale(window, time)
        self.window, self.time = window, time
        if self.entry_index is not None:
            self.entry_index.clear()
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

    def set_keys(
        self,
        condition: Expression,
        keys: list[Key],
        dictionary: Dictionary,
        index: EntryIndex | None = None,
    ) -> None:
        """Change the keys; those of the stored tuples are recomputed."""
        self.filter, self._filters = condition, condition != TRUE
        self.entry_index = index
        self.dropped[0] = 0
        self.seqs = None if condition == TRUE and self.share is None else Buffer(np.dtype(np.int64))
        self.columns = [KeyColumn(key) for key in keys]
        if self.jumps is not None:
            self.pass_over_matched()
        seq = self.rows.first
        counted = self.failures.count
        for batch in self.rows.batches():
            self._store(self.keyed(batch, dictionary), seq, batch.num_rows)
            seq += batch.num_rows
        self.failures.count = counted  # these tuples were counted when they arrived
        if self.jumps is not None and self.matched is not None:
            matched = self.matched.view()
            if self.seqs is not None:
                matched = matched[self.seqs.view() - self.rows.first]
            self.jumps.replace(matched.astype(np.int32))

    # -- arrival ----------------------------------------------------------------------------

    def keyed(self, batch: pa.RecordBatch, dictionary: Dictionary) -> KeyValues:
        """Filter arriving tuples and compute their keys."""
        inputs = (batch,) if self.index == 0 else (batch, batch)
        passed: Indices | None = None
        if self._filters:
            passed = np.flatnonzero(select(inputs, self.filter, self.failures))
            batch = opened(take(batch, passed))
            inputs = (batch,) if self.index == 0 else (batch, batch)
        keys = [column.key for column in self.columns]
        return KeyValues(passed, *key_values(keys, inputs, dictionary, self.failures))

    def append(
        self, batch: pa.RecordBatch, times: Ticks | None, arrived: Indices, keyed: KeyValues
    ) -> None:
        """Store arriving tuples, at the end of the window."""
        self.newest = count = batch.num_rows
        first = self.rows.next
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
        if self.origin is not None:
            self.origin.append(np.arange(first, first + count))
        self._store(keyed, first, count)

    def _store(self, keyed: KeyValues, first: int, count: int) -> None:
        if self.seqs is not None and self.stores_keys:
            passed = keyed.passed if keyed.passed is not None else np.arange(count, dtype=np.int64)
            if self.share is not None:
                mine = np.flatnonzero(self.share.owns(self.arrival_numbers(passed + first)))
                keyed, passed = keyed.only(mine), passed[mine]
            self.seqs.append(passed + first)
            count = len(passed)
        if self.jumps is not None:
            self.jumps.append(np.zeros(count, np.int32))
        for column, values, valid in zip(self.columns, keyed.values, keyed.valid, strict=True):
            if self.stores_keys:
                column.append(values, valid)
            if column.key.kind == "native" and values.dtype.kind == "i" and len(values):
                known = values if valid is None else values[valid]
                if len(known):
                    column.widen(int(known.min()), int(known.max()))

    def arrival_numbers(self, seqs: Indices) -> Indices:
        """The numbers that tuples of the window arrived with; :meth:`pack` gives them others."""
        if self.origin is None:
            return seqs
        numbers: Indices = self.origin.view()[seqs - self.rows.first]
        return numbers

    def owned(self, share: Share) -> Mask:
        """Which tuples of the window are a core's, by the numbers that they arrived with."""
        return share.owns(self.arrival_numbers(np.arange(self.rows.first, self.rows.next)))

    # -- candidates of a probe ---------------------------------------------------------------

    @property
    def first_entry(self) -> int:
        """The absolute number of the oldest entry."""
        return int(self.dropped[0])

    def entry_range(self, lo: Indices, hi: Indices) -> tuple[Indices, Indices]:
        """From indices of tuples to indices of keys."""
        if self.seqs is None:
            return lo, hi
        lo, hi = lo + self.rows.first, hi + self.rows.first
        if self.share is not None and self.filter == TRUE and self.origin is None:
            first = int(self.share.before(np.array([self.rows.first]))[0])
            return self.share.before(lo) - first, self.share.before(hi) - first
        seqs = self.seqs.view()
        return np.searchsorted(seqs, lo), np.searchsorted(seqs, hi)

    def entry_numbers(self) -> tuple[Indices, int]:
        """The sequence numbers of the keys; none, and the first, if they follow one another."""
        return (NO_NUMBERS if self.seqs is None else self.seqs.view()), self.rows.first

    def stored_columns(self, by_time: bool, bounded_above: bool) -> Columns:
        """The columns that a kernel reads; ``by_time``: times too, for which tuples are live."""
        keys = [column.values.view() for column in self.columns]
        valid = [None if c.valid is None else c.valid.view() for c in self.columns]
        if not by_time:
            return Columns(keys, valid)
        expiry, times = self.expiry.view(), self.times.view()
        if self.seqs is not None:
            where = self.seqs.view() - self.rows.first
            expiry, times = expiry[where], times[where]
        return Columns(keys, valid, expiry, times if bounded_above else None)

    # -- expiry -----------------------------------------------------------------------------

    def cut(self, *others: JoinSide) -> int:
        """The first sequence number that is still in the window, after all that has arrived.

        ``others`` are all other inputs of the join.
        """
        if all(other.ended for other in others):
            return self.rows.next
        if isinstance(self.window, Rows):
            return max(self.rows.first, self.rows.next - self.window.size)
        if isinstance(self.window, Range):
            expiry, punctuation = self.expiry.view(), self.passed(others)
            return self.rows.first + expired(expiry, punctuation, self.in_order)
        return self.rows.first

    def passed(self, others: Sequence[JoinSide]) -> int | float:
        """The time up to which tuples are met no more.

        That is the smallest punctuation, less the lag; a stream that has ended has the highest.
        """
        least = min(other.punctuator.punctuation for other in others)
        if self.lag is None:
            return least
        return self.clock.number(self.lag.before(np.array([least], self.clock.dtype))[0])

    def forget(self, *others: JoinSide, needed: int | None = None) -> int:
        """Drop expired tuples, but none from number ``needed`` on; returns how many."""
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
        if self.share is not None and self.origin is None:
            self.origin = Buffer(np.dtype(np.int64))
            self.origin.replace(np.arange(self.rows.first, self.rows.next))
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
        dropped = count if self.stores_keys else 0
        if self.seqs is not None:
            dropped = int(np.searchsorted(self.seqs.view(), first))
            self.seqs.drop(dropped)
        if self.jumps is not None:
            self.jumps.drop(dropped)
        self.dropped[0] += dropped
        for key in self.columns:
            key.values.drop(dropped)
            if key.valid is not None:
                key.valid.drop(dropped)
        self.rows.drop_before(first)
        if not len(self.rows):
            self.in_order = True

    def fit(self) -> None:
        """Give back memory that a smaller window does not need."""
        self.rows.fit()
        for buffer in self._buffers():
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
        if self.share is not None:
            state.columns[f"{name}.own"] = self.owned(self.share)
        state.values[name] = {
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
        if f"{name}.origin" in state.columns:
            self.origin = Buffer(np.dtype(np.int64))
        for key, buffer in self._saved_columns().items():
            buffer.replace(state.columns[f"{name}.{key}"])
        self.ended, self.in_order = saved["ended"], saved["in_order"]
        self.numbering = saved.get("numbering", 0)
        self.punctuator.seen = saved["seen"]
        self.punctuator.punctuation = saved["punctuation"]
        self.punctuator.has_source = saved["has_source"]

    @property
    def nbytes(self) -> int:
        index = 0 if self.entry_index is None else self.entry_index.nbytes
        return self.rows.nbytes + index + sum(buffer.nbytes for buffer in self._buffers())

    def _buffers(self) -> list[Buffer]:
        buffers = [self.times, self.expiry, self.matched, self.arrived, self.jumps, self.seqs]
        for column in self.columns:
            buffers += [column.values, column.valid]
        return [buffer for buffer in buffers if buffer is not None]
