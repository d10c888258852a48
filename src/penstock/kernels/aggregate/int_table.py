"""Dense numbers for integers: a table by the integers themselves, or a hash table.

Each integer gets the next number when it is first seen. While all of them lie close together, they
are indices of a table; else they are hashed, with open addressing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.machine_code import njit
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

_ALL = np.empty(0, np.bool_)
_SPARSE = 16
"""A larger table is worth it if at least one in this many entries is used."""
_GOLDEN = 0x9E3779B97F4A7C15
_OTHER = 0xC4CEB9FE1A85EC53


@njit()
def _extent(keys: Array, valid: Array) -> tuple[Word, Word]:
    """The smallest and the largest of the keys; low is above high if there are none."""
    low: Word = np.iinfo(np.int64).max
    high: Word = np.iinfo(np.int64).min
    if valid.shape[0] == 0:
        for i in range(keys.shape[0]):
            low = min(low, keys[i])
            high = max(high, keys[i])
    else:
        for i in range(keys.shape[0]):
            low = min(low, keys[i] if valid[i] else low)
            high = max(high, keys[i] if valid[i] else high)
    return low, high


@njit()
def _look(keys: Array, valid: Array, null: Word, low: Word, table: Array, out: Array) -> Word:
    """The numbers of keys, by a table that starts at key ``low``; returns how many have none."""
    missing = 0
    if valid.shape[0] == 0:
        for i in range(keys.shape[0]):
            number = table[np.uint64(keys[i] - low)]
            out[i] = number
            missing += number < 0
    else:
        for i in range(keys.shape[0]):
            # The key of a NULL may be outside the table.
            number = null
            if valid[i]:
                number = table[np.uint64(keys[i] - low)]
            out[i] = number
            missing += number < 0
    return missing


@njit()
def _enter(keys: Array, low: Word, table: Array, out: Array, store: Array, count: Word) -> Word:
    """Number the keys that have no number yet; returns the new count of numbers."""
    for i in range(keys.shape[0]):
        if out[i] < 0:
            key = keys[i]
            place = key - low
            if table[place] < 0:
                table[place] = count
                store[count] = key
                count += 1
            out[i] = table[place]
    return count


@njit(inline="always")
def _slot(key: Word, shift: Word) -> Word:
    # A product carries lower bits into the upper ones; after the shift, a second product carries
    # the upper ones too. Keys may differ in few bits: pairs of small numbers, or whole floats.
    word = np.uint64(key) * np.uint64(_GOLDEN)
    return ((word ^ (word >> np.uint64(32))) * np.uint64(_OTHER)) >> np.uint64(shift)


@njit()
def _hash(
    keys: Array,
    valid: Array,
    null: Word,
    slots: tuple[Array, Array, Word],
    store: Array,
    count: Word,
    start: Word,
    out: Array,
) -> tuple[Word, Word]:
    """The numbers of keys from ``start`` on, by hashing; new keys are added.

    ``slots`` are keys, numbers and the shift of a hash. Returns where it stopped because ``store``
    was full, and the new count of numbers.
    """
    held, numbers, shift = slots
    last = np.uint64(held.shape[0] - 1)
    for i in range(start, keys.shape[0]):
        if valid.shape[0] > 0 and not valid[i]:
            out[i] = null
            continue
        key = keys[i]
        at = _slot(key, shift)
        while numbers[at] >= 0 and held[at] != key:
            at = (at + np.uint64(1)) & last
        if numbers[at] < 0:
            if count == store.shape[0]:
                return i, count
            held[at], numbers[at], store[count] = key, count, key
            count += 1
        out[i] = numbers[at]
    return keys.shape[0], count


@njit()
def _rehash(store: Array, count: Word, null: Word, slots: tuple[Array, Array, Word]) -> None:
    held, numbers, shift = slots
    last = np.uint64(held.shape[0] - 1)
    numbers[:] = -1
    for number in range(count):
        if number != null:
            at = _slot(store[number], shift)
            while numbers[at] >= 0:
                at = (at + np.uint64(1)) & last
            held[at], numbers[at] = store[number], number


class IntTable:
    """Numbers 0, 1, 2, … for integers of up to 64 bits, and one for NULL if it occurs.

    >>> table = IntTable()
    >>> table.numbers(np.array([50, 7, 50, 8])).tolist(), len(table)
    ([0, 1, 0, 2], 3)
    """

    def __init__(self) -> None:
        self._store = np.zeros(64, np.int64)
        self._count = 0
        self._null = -1
        self._extent: tuple[int, int] | None = None
        """The smallest and the largest key."""
        self._low = 0
        self._table: Array = np.empty(0, np.int32)
        """Numbers by key, from ``_low`` on; empty while keys are hashed."""
        self._slots: tuple[Array, Array, int] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def null(self) -> int:
        """The number of NULL; -1 if it has none."""
        return self._null

    @property
    def nbytes(self) -> int:
        slots = self._slots[0].nbytes + self._slots[1].nbytes if self._slots else 0
        return self._store.nbytes + self._table.nbytes + slots

    def keys(self) -> Array:
        """The integer of each number; undefined for that of NULL. Not a copy."""
        return self._store[: self._count]

    def numbers(self, keys: Array, valid: Array | None = None) -> npt.NDArray[np.int32]:
        """The number of each key or of NULL; new keys are added."""
        keys = alias(np.ascontiguousarray(keys, np.int64))
        out = np.empty(len(keys), np.int32)
        if valid is not None and self._null < 0 and not valid.all():
            # NULL gets its number when it is first seen, like everything else.
            first = int(np.argmin(valid))
            self._number(keys[:first], _ALL, out[:first])
            self._reserve(1)
            self._null, self._count = self._count, self._count + 1
        self._number(keys, _ALL if valid is None else alias(valid), out)
        return out

    def _number(self, keys: Array, mask: Array, out: Array) -> None:
        low, high = _extent(keys, mask)
        if low > high:
            out[:] = self._null
        elif self._spans(int(low), int(high)):
            self._look(keys, mask, out)
        else:
            self._hash(keys, mask, out)

    def _look(self, keys: Array, mask: Array, out: Array) -> None:
        where = self._low, self._table, out
        missing = _look(keys, mask, self._null, *where)
        if missing:
            self._reserve(min(missing, len(self._table)))
            self._count = int(_enter(keys, *where, self._store, self._count))

    def _hash(self, keys: Array, mask: Array, out: Array) -> None:
        done = 0
        while done < len(keys):
            if self._slots is None or self._count == len(self._store):
                self._reserve(1)
                self._slots = self._rehash()
            known = self._store, self._count, done, out
            found = _hash(keys, mask, self._null, self._slots, *known)
            done, self._count = int(found[0]), int(found[1])

    def _rehash(self) -> tuple[Array, Array, int]:
        bits = (4 * len(self._store)).bit_length() - 1
        slots = np.empty(1 << bits, np.int64), np.empty(1 << bits, np.int32), 64 - bits
        _rehash(self._store, self._count, self._null, slots)
        return slots

    def _reserve(self, more: int) -> None:
        """Make room for more numbers, by doubling, so that slots are half empty."""
        size = len(self._store)
        while size < self._count + more:
            size *= 2
        if size > len(self._store):
            store = np.zeros(size, np.int64)
            store[: self._count] = self._store[: self._count]
            self._store, self._slots = store, None

    def _spans(self, low: int, high: int) -> bool:
        """Extend the table to keys from ``low`` to ``high``; False if a table is not worth it."""
        if self._extent is not None:
            low, high = min(low, self._extent[0]), max(high, self._extent[1])
        self._extent = low, high
        if self._low <= low and high < self._low + len(self._table):
            return True
        size = high - low + 1
        if size > max(TUNING.small_int_table, _SPARSE * self._count):
            self._table = np.empty(0, np.int32)
            return False
        # Some room on both sides, so that growing keys do not need a new table each time.
        room = size // 2
        limits = np.iinfo(np.int64)
        self._low = max(low - room, limits.min)
        self._table = np.full(min(high + room, limits.max) - self._low + 1, -1, np.int32)
        self._fill()
        self._slots = None
        return True

    def _fill(self) -> None:
        numbers = np.arange(self._count, dtype=np.int32)
        if self._null >= 0:
            numbers = np.delete(numbers, self._null)
        self._table[self._store[numbers] - self._low] = numbers
