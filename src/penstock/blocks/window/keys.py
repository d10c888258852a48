"""The stored keys of one side of a predicate, and an index of them: what a probe searches.

:class:`StoredKeys` has keys in their order, whatever they are keys of: the tuples of a window, a
core's part of a window, or combinations. :class:`WindowKeys` are those of the tuples of a window.
They know which tuple an entry belongs to: where every tuple has one, by its number alone; where a
filter or a share leaves some out, by a column of numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import Share
from penstock.blocks.window.live_ranges import Ranges
from penstock.blocks.window.stored_columns import Buffer
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.evaluate import evaluate_each, select
from penstock.kernels.expressions.vector import Failures, null_vector
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.keys import comparison_key, native_values
from penstock.kernels.predicate.predicate import Key, Predicate
from penstock.kernels.probe.entry_index import EntryIndex, SearchStats
from penstock.kernels.probe.nested_loop import Columns
from penstock.kernels.probe.single_search import BufferTypes
from penstock.sql.expressions import TRUE, Expression
from penstock.streams.batches import opened, read_rows, take
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bounds = tuple[int, int]
"""The least and the largest of integers."""
LONGEST_WORDS = 1 << 22
"""Bytes that the values of a dictionary may have, whatever the size of the windows."""
NO_NUMBERS = np.empty(0, np.int64)


def most_words(windows: Sequence[StoredWindow], arriving: int = 0) -> tuple[int, int]:
    """How many values a dictionary of the tuples of windows may have, and how many bytes."""
    stored = sum(len(window.rows) for window in windows) + arriving
    stored_bytes = sum(window.rows.nbytes for window in windows)
    return max(TUNING.smallest_dictionary, 4 * stored), max(LONGEST_WORDS, 4 * stored_bytes)


def is_outgrown(words: Dictionary, windows: Sequence[StoredWindow], arriving: int = 0) -> bool:
    """Whether most values of a dictionary are of tuples that have expired."""
    if len(words) <= TUNING.smallest_dictionary and words.nbytes <= LONGEST_WORDS:
        return False
    most, longest = most_words(windows, arriving)
    return len(words) > most or words.nbytes > longest


def key_dtype(key: Key) -> np.dtype[Any]:
    """The machine type of a key's column: that of the key of no value at all."""
    if key.kind == "code":
        return np.dtype(np.int32)
    nothing = null_vector(key.expression.type, 0)
    values = native_values(nothing) if key.kind == "native" else comparison_key(nothing)
    return values.dtype


def key_values(
    keys: Sequence[Key],
    inputs: Sequence[pa.RecordBatch],
    dictionary: Dictionary,
    failures: Failures,
) -> tuple[list[Array], list[Mask | None]]:
    """The values of keys, as kernels compare them, and which of them are not NULL."""
    values: list[Array] = []
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


def key_bounds(key: Key, values: Array, valid: Mask | None) -> Bounds | None:
    """Those of native integers; None for other keys, or if there is none."""
    if key.kind != "native" or values.dtype.kind != "i":
        return None
    known = values if valid is None else values[valid]
    return (int(known.min()), int(known.max())) if len(known) else None


@dataclass(frozen=True)
class KeyValues:
    """The keys of arriving tuples: those that pass the filter, by index in their run."""

    passed: Indices | None
    values: list[Array]
    valid: list[Mask | None]

    def only(self, chosen: Indices) -> KeyValues:
        """The keys of the tuples at these indices."""
        passed = None if self.passed is None else self.passed[chosen]
        valid = [None if mask is None else mask[chosen] for mask in self.valid]
        return KeyValues(passed, [values[chosen] for values in self.values], valid)

    def stored(self, places: Indices, count: int) -> KeyValues:
        """The keys of the tuples at the first ``count`` places, by place."""
        at = places if self.passed is None else places[self.passed]
        home = np.flatnonzero(at < count)
        return replace(self.only(home), passed=None if self.passed is None else at[home])


NO_KEYS = KeyValues(None, [], [])


class KeyColumn:
    """A stored key: its values, its validity once it has had a NULL, its bounds if native."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.values = Buffer(key_dtype(key))
        self.valid: Buffer | None = None
        self.limits: Indices = np.array([1, 0], np.int64)
        """The least and the largest integer so far, swapped if there is none; compiled code moves
        these too."""

    @property
    def bounds(self) -> Bounds | None:
        """The least and the largest integer that has been stored; None if there is none."""
        low, high = self.limits.tolist()
        return (low, high) if low <= high else None

    def append(self, values: Array, valid: Mask | None) -> None:
        """Store keys at the end."""
        if valid is not None and self.valid is None:
            self.valid = Buffer(np.dtype(np.bool_))
            self.valid.append(np.ones(len(self.values), np.bool_))
        self.values.append(values)
        if self.valid is not None:
            self.valid.append(valid if valid is not None else np.ones(len(values), np.bool_))

    def widen(self, values: Array, valid: Mask | None) -> None:
        """Extend the bounds to those of native integers."""
        found, known = key_bounds(self.key, values, valid), self.bounds
        if found is not None:
            low, high = found
            if known is not None:
                low, high = min(low, known[0]), max(high, known[1])
            self.limits[:] = low, high


class StoredKeys:
    """The keys of one side of a predicate, in their order, and an index of them.

    Keys are dropped at the front; ``dropped`` has the number of those, which compiled code moves
    too. Several threads may search at the same time, while none stores or drops; ``changing`` lets
    one at a time bring the index up to date. ``one_partner``: probes stop at a partner, or pass
    over entries that had one.
    """

    def __init__(
        self, predicate: Predicate, side: int, kernel: str, one_partner: bool = False
    ) -> None:
        self.side = side
        self.columns = [KeyColumn(key) for key in predicate.keys[side]]
        self.dropped: Indices = np.zeros(1, np.int64)
        self.changing = threading.Lock()
        self._one_partner = one_partner
        self.index = self._index(predicate, kernel)

    def _index(self, predicate: Predicate, kernel: str) -> EntryIndex | None:
        """An index for a predicate, without entries; None if there is nothing to index by."""
        if kernel == "nested-loop" or not self.columns or not predicate.keys[1 - self.side]:
            return None
        index = EntryIndex(predicate, self.side, kernel, self._one_partner)
        return index if index.usable else None

    def serve(self, predicate: Predicate) -> bool:
        """Whether all keys of a predicate are stored."""
        known = {column.key for column in self.columns}
        return all(key in known for key in predicate.keys[self.side])

    def program(self, predicate: Predicate, kernel: str) -> None:
        """Take another predicate, over keys that are stored; what there is to index is known."""
        known = {column.key: column for column in self.columns}
        self.columns = [known[key] for key in predicate.keys[self.side]]
        self.index = self._index(predicate, kernel)

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock: a copy has one of its own."""
        return {name: value for name, value in vars(self).items() if name != "changing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.changing = threading.Lock()

    @property
    def first(self) -> int:
        """The number of the oldest entry."""
        return self.dropped.item(0)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of the keys: first those of values, then those of validities."""
        valid = [column.valid for column in self.columns if column.valid is not None]
        return [*(column.values for column in self.columns), *valid]

    @property
    def shape(self) -> BufferTypes:
        """The types of the buffers, for generated code."""
        return BufferTypes(
            tuple(column.values.array.dtype for column in self.columns),
            tuple(column.valid is not None for column in self.columns),
        )

    def append(self, values: Sequence[Array], valid: Sequence[Mask | None]) -> None:
        """Store keys at the end."""
        for column, some, known in zip(self.columns, values, valid, strict=True):
            column.append(some, known)

    def widen(self, values: Sequence[Array], valid: Sequence[Mask | None]) -> None:
        """Extend the bounds to those of these keys, stored here or elsewhere."""
        for column, some, known in zip(self.columns, values, valid, strict=True):
            column.widen(some, known)

    def drop(self, count: int) -> None:
        """Drop the oldest keys."""
        self.dropped += count
        for column in self.columns:
            column.values.drop(count)
            if column.valid is not None:
                column.valid.drop(count)

    def read(self, lower: Array | None = None, upper: Array | None = None) -> Columns:
        """The columns that a kernel reads, with the times that say what is live, if needed."""
        keys = [column.values.view() for column in self.columns]
        valid = [None if c.valid is None else c.valid.view() for c in self.columns]
        return Columns(keys, valid, lower, upper)

    def learn(self, stats: SearchStats) -> None:
        """Let the index learn from a search that had probes."""
        if self.index is not None and stats.probes:
            with self.changing:
                self.index.learn(stats, self.first, len(self.columns[0].values))

    @property
    def nbytes(self) -> int:
        index = 0 if self.index is None else self.index.nbytes
        return index + sum(buffer.nbytes for buffer in self.buffers)

    @property
    def kernel(self) -> str:
        """The kernel that searches them, as chosen by now."""
        return "nested-loop" if self.index is None else self.index.choice.name


class WindowKeys:
    """The keys of a window's tuples for one predicate.

    They begin with the tuples that the window has, or with ``tuples``: a number, and the tuples
    from that number on. Tuples that do not pass the ``condition`` have no entry. With a ``share``,
    there are those of the tuples of a whole window that it owns. ``jumps`` are there if one partner
    of a left tuple is enough: for each entry 0 or, if its tuple is matched, a distance; see
    :mod:`penstock.kernels.predicate.generate_first`.
    """

    def __init__(
        self,
        predicate: Predicate,
        kernel: str,
        window: StoredWindow,
        dictionary: Dictionary,
        tuples: tuple[int, Sequence[pa.RecordBatch]] | None = None,
        share: Share | None = None,
        side: int = 1,
        condition: Expression = TRUE,
        one_partner: bool = False,
    ) -> None:
        self.keys = StoredKeys(predicate, side, kernel, one_partner)
        self.condition, self._filters = condition, condition != TRUE
        self._window = window
        self._dictionary = dictionary
        self._share = share
        self.numbers: Buffer | None = None
        """Of each entry, the number of its tuple, where that does not follow from its own."""
        if share is not None or self._filters:
            self.numbers = Buffer(np.dtype(np.int64))
        self.jumps: Buffer | None = None
        first, batches = tuples or (window.rows.first, window.rows.batches())
        self._base = self._oldest = self._next = first
        for batch in batches:
            self.append(batch, Failures())  # these tuples were counted when they arrived
        if one_partner and side == 0:
            self._begin_jumps()

    def _begin_jumps(self) -> None:
        assert self._window.matched is not None
        matched = self._window.matched.view()
        if self.numbers is not None:
            matched = matched[self.numbers.view() - self._window.rows.first]
        self.jumps = Buffer(np.dtype(np.int32))
        self.jumps.replace(matched.astype(np.int32))

    def program(self, predicate: Predicate, kernel: str) -> None:
        """Take another predicate over the same keys, and with the same condition."""
        self.keys.program(predicate, kernel)

    # -- storing ----------------------------------------------------------------------------

    def keyed(self, batch: pa.RecordBatch, failures: Failures) -> KeyValues:
        """Filter tuples and compute their keys."""
        passed: Indices | None = None
        if self._filters:
            passed = np.flatnonzero(select((batch, batch), self.condition, failures))
            batch = read_rows(batch, passed)
        keys = [column.key for column in self.keys.columns]
        return KeyValues(passed, *key_values(keys, (batch, batch), self._dictionary, failures))

    def append(self, batch: pa.RecordBatch, failures: Failures) -> None:
        """Store the keys of the tuples that come next."""
        numbers: Indices | None = None
        if self.numbers is not None:
            numbers = np.arange(self._next, self._next + batch.num_rows)
        self._next += batch.num_rows
        if self._share is not None and numbers is not None:
            mine = np.flatnonzero(self._share.owns(numbers))
            batch, numbers = opened(take(batch, mine)), numbers[mine]
        keyed = self.keyed(batch, failures)
        if keyed.passed is not None and numbers is not None:
            numbers = numbers[keyed.passed]
        self._store(keyed, numbers, batch.num_rows)

    def store(self, keyed: KeyValues, first: int, count: int) -> None:
        """Store the keys of ``count`` tuples, from number ``first`` on; :meth:`keyed` has them."""
        numbers: Indices | None = None
        if self.numbers is not None:
            numbers = np.arange(first, first + count)
            numbers = numbers if keyed.passed is None else numbers[keyed.passed]
        self._next = first + count
        self._store(keyed, numbers, count)

    def _store(self, keyed: KeyValues, numbers: Indices | None, count: int) -> None:
        if self.numbers is not None and numbers is not None:
            self.numbers.append(numbers)
            count = len(numbers)
        if self.jumps is not None:
            self.jumps.repeat(0, count)
        self.keys.append(keyed.values, keyed.valid)
        self.keys.widen(keyed.values, keyed.valid)

    def drop_before(self, first: int) -> None:
        """Drop the keys of the tuples with smaller numbers."""
        count = first - self._base - self.keys.dropped.item(0)
        if self.numbers is not None:
            count = int(self.numbers.view().searchsorted(first))
            self.numbers.drop(count)
        self._oldest = first
        if count:
            self.keys.drop(count)
            if self.jumps is not None:
                self.jumps.drop(count)

    @property
    def first(self) -> int:
        """The number of the tuple of the oldest entry, where every tuple has one."""
        return self._base + self.keys.first

    # -- entries and tuples -------------------------------------------------------------------

    def candidates(self, ranges: Ranges, first: int = 0, after: int | None = None) -> Ranges:
        """Ranges of the window's tuples, as ranges of entries; only ``first .. after - 1`` count.

        What is counted from is the oldest tuple that the window has.
        """
        lo, hi = ranges.lo, ranges.hi
        if first or after is not None:
            lo = np.maximum(lo, first)
            hi = np.maximum(hi if after is None else np.minimum(hi, after), lo)
        oldest = self._window.rows.first
        if self.numbers is not None or self.first != oldest:
            lo, hi = self._place(lo, oldest), self._place(hi, oldest)
        return ranges if lo is ranges.lo else replace(ranges, lo=lo, hi=hi)

    def _place(self, tuples: Indices, oldest: int) -> Indices:
        """How many entries are before these tuples, which are counted from the oldest one."""
        if self.numbers is None:
            return tuples - (self.first - oldest)
        if self._share is None or self._filters:
            return self.numbers.view().searchsorted(tuples + oldest)
        before: Indices = self._share.before(tuples + oldest)
        return before - int(self._share.before(np.array([self._oldest]))[0])

    def tuples_of(self, entries: Indices) -> Indices:
        """The numbers of the tuples of entries, which are given by their own numbers."""
        if self.numbers is None:
            return entries + self._base
        found: Indices = self.numbers.view()[entries - self.keys.first]
        return found

    def numbers_of(self, entries: Indices) -> Indices:
        """The numbers of the tuples of entries, which are counted from the oldest."""
        if self.numbers is None:
            return entries + self.first
        found: Indices = self.numbers.view()[entries]
        return found

    def numbering(self) -> tuple[Indices, int]:
        """The numbers of all entries' tuples; none, and the first, if they follow one another."""
        return (NO_NUMBERS if self.numbers is None else self.numbers.view()), self.first

    def read(self, by_time: bool, bounded_above: bool) -> Columns:
        """The columns that a kernel reads; ``by_time``: times too, for which tuples are live."""
        if not by_time:
            return self.keys.read()
        times = self._of_entries(self._window.times.view()) if bounded_above else None
        return self.keys.read(self._of_entries(self._window.expiry.view()), times)

    def _of_entries(self, column: Array) -> Array:
        """What a column of the window has for the entries."""
        oldest = self._window.rows.first
        if self.numbers is None:
            return column[self.first - oldest :]
        found: Array = column[self.numbers.view() - oldest]
        return found

    # -- memory -----------------------------------------------------------------------------

    @property
    def _more(self) -> list[Buffer]:
        return [buffer for buffer in (self.numbers, self.jumps) if buffer is not None]

    def fit(self) -> None:
        """Give back memory that a smaller window does not need."""
        for buffer in (*self.keys.buffers, *self._more):
            buffer.fit()

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + sum(buffer.nbytes for buffer in self._more)

    @property
    def kernel(self) -> str:
        """The kernel that searches them, as chosen by now."""
        return self.keys.kernel
