"""MIN and MAX of many cells.

Values are compared by 64-bit keys (:mod:`penstock.kernels.predicate.keys`). Strings, binaries and
wide decimals have no such key of their own: their key is their rank among all values that a cell
holds (:class:`OrderedWords`).
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate.intervals import first_of_intervals
from penstock.kernels.expressions.vector import Vector, is_text, physical_dtype, vector_of
from penstock.kernels.machine_code import njit
from penstock.kernels.predicate.keys import comparison_key, float_values, unsigned_values
from penstock.kernels.probe.buckets import gathered

Array = npt.NDArray[Any]
Cells = npt.NDArray[np.int32]

_ALL = np.empty(0, np.bool_)
_TOP = np.iinfo(np.int64).max
Word = Any
"""An integer: of NumPy, of Python, or compiled."""
_NAN = 0x7FF << 52


class Extremes:
    """An array of minima, or of maxima if ``largest``, called cells, which start without a value.

    Values are of any type that has an order. NaN is the largest number and -0.0 is 0.0. They are
    compared by 64-bit keys; for maxima the keys' bits are flipped, so that the loops always search
    the smallest.

    >>> from penstock.kernels.expressions.vector import vector_of
    >>> prices = Extremes(pa.float64(), largest=True, cells=2)
    >>> prices.add(np.array([0, 0]), prices.encode(vector_of(pa.array([1.5, 2.5]))))
    >>> prices.values(np.array([0, 1])).to_pylist()
    [2.5, None]
    """

    def __init__(
        self,
        kind: pa.DataType,
        largest: bool,
        cells: int = 0,
        words: OrderedWords | None = None,
    ) -> None:
        self._type = kind.value_type if pa.types.is_dictionary(kind) else kind
        self._flip = -1 if largest else 0
        self._keys = np.full(cells, _TOP, np.int64)
        self._has = np.zeros(cells, np.uint8)
        if words is None and (is_text(self._type) or physical_dtype(self._type).kind == "O"):
            words = OrderedWords(self._type)
        self._words = words
        if words is not None:
            words.holders.add(self)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        words = 0 if self._words is None else self._words.nbytes
        return self._keys.nbytes + self._has.nbytes + words

    def like(self, cells: int) -> Extremes:
        """``cells`` cells without a value, which can be merged with these."""
        return Extremes(self._type, self._flip == -1, cells, self._words)

    def encode(self, vector: Vector) -> Array:
        """The values as :meth:`add` expects them.

        Encode once for all objects made by :meth:`like`, before any of them adds the values: new
        strings change the keys of others.
        """
        if self._words is not None:
            return self._words.encode(vector)
        values = np.asarray(vector.values)
        if values.dtype.kind == "f":
            return alias(np.ascontiguousarray(values, np.float64))
        return alias(np.asarray(comparison_key(vector), np.int64))

    def _mask(self, encoded: Array, valid: Array | None) -> Array:
        if self._words is not None:
            # The dictionary of a column may contain a NULL that the column's mask does not show.
            valid = encoded >= 0 if valid is None else valid & (encoded >= 0)
        return _ALL if valid is None else alias(valid)

    def add(self, cells: Cells, encoded: Array, valid: Array | None = None) -> None:
        """Add each value to its cell. Where the mask is false, value and cell may be anything."""
        cells = np.ascontiguousarray(cells, np.int32)
        mask = self._mask(encoded, valid)
        into = mask, cells, self._flip, self._keys, self._has
        if encoded.dtype.kind == "f":
            lower_floats(encoded.view(np.int64), *into)
        else:
            lower(encoded, *into)

    def add_at(self, cell: int, encoded: Array, valid: Array | None = None) -> None:
        """Add all values to one cell; several times faster than :meth:`add`."""
        mask = self._mask(encoded, valid)
        if len(encoded) == 0 or (len(mask) > 0 and not mask.any()):
            return
        if encoded.dtype.kind == "f":
            key = lowest_float(encoded.view(np.int64), mask, self._flip)
        else:
            key = lowest(encoded, mask, self._flip)
        self._keys[cell] = min(int(self._keys[cell]), int(key))
        self._has[cell] = 1

    def merge(self, into: Cells, other: Extremes, from_: Cells) -> None:
        """Merge cells of others, which were made by :meth:`like`, into cells of these."""
        into, from_ = np.ascontiguousarray(into, np.int32), np.ascontiguousarray(from_, np.int32)
        theirs = other._keys, other._has, from_
        lower_cells(self._keys, self._has, into, *theirs)

    def merge_row(self, into: int, other: Extremes, from_: int, count: int) -> None:
        """As :meth:`merge`, for ``count`` consecutive cells of both."""
        ours, theirs = slice(into, into + count), slice(from_, from_ + count)
        np.minimum(self._keys[ours], other._keys[theirs], out=self._keys[ours])
        self._has[ours] |= other._has[theirs]

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Replace each of ``rows`` rows of cells by the extreme of all up to it, or from it on."""
        step = -1 if backwards else 1
        for table, extreme in ((self._keys, np.minimum), (self._has, np.maximum)):
            ordered = table.reshape(rows, -1)[::step]
            extreme.accumulate(ordered, axis=0, out=ordered)

    def of_intervals(self, begins: Array, ends: Array, count: int) -> Extremes:
        """For each of ``count`` rows the extreme of the cells in whose intervals it is.

        The interval of a cell is the rows from its ``begins``, which rise, to before its ``ends``.
        """
        found = np.empty(count, np.int64)
        first_of_intervals((self._keys, self._keys, self._has), begins, ends, found)
        made = self.like(count)
        known = np.flatnonzero(found >= 0)
        made._keys[known], made._has[known] = self._keys[found[known]], 1
        return made

    def clear(self, cells: Any) -> None:
        """Remove the values of cells, an array of numbers or a slice."""
        self._keys[cells] = _TOP
        self._has[cells] = 0

    def rearrange(self, cells: int, new: Any, old: Any) -> None:
        """Resize to ``cells`` cells and move cell ``old[i]`` to ``new[i]``; the rest has no value.

        ``new`` and ``old`` are arrays of numbers or slices.
        """
        keys, has = np.full(cells, _TOP, np.int64), np.zeros(cells, np.uint8)
        keys[new], has[new] = self._keys[old], self._has[old]
        self._keys, self._has = keys, has

    def resize(self, cells: int) -> None:
        """Change the number of cells."""
        kept = slice(0, min(cells, len(self)))
        self.rearrange(cells, kept, kept)

    def values(self, cells: Array) -> pa.Array[Any]:
        """The values of cells; NULL where there is none."""
        keys, has = self._keys[cells] ^ self._flip, self._has[cells] > 0
        if self._words is not None:
            found: pa.Array[Any] = self._words.values(np.where(has, keys, -1))
            return found
        array: pa.Array[Any] = Vector(self._physical(keys), has, self._type).to_arrow()
        return array

    def _physical(self, keys: Array) -> Array:
        dtype = physical_dtype(self._type)
        if dtype.kind == "f":
            return float_values(keys, np.dtype(np.float64)).astype(dtype)
        return unsigned_values(keys) if dtype == np.uint64 else keys.astype(dtype)

    def held(self) -> Array:
        """The keys of strings that cells have."""
        return self._keys[self._has > 0] ^ self._flip

    def moved(self, mapping: Array) -> None:
        """The keys of strings have changed: ``k`` is now ``mapping[k]``."""
        has = self._has > 0
        self._keys[has] = mapping[self._keys[has] ^ self._flip] ^ self._flip

    def state(self) -> pa.RecordBatch:
        """The state that :meth:`load` restores: the value of each cell, in a column."""
        return pa.RecordBatch.from_arrays([self.values(np.arange(len(self)))], names=["value"])

    def load(self, state: pa.RecordBatch) -> None:
        """Restore from :meth:`state`."""
        vector = vector_of(state.column(0))
        self._keys = np.full(len(vector), _TOP, np.int64)
        self._has = np.zeros(len(vector), np.uint8)
        self.add(np.arange(len(vector), dtype=np.int32), self.encode(vector), vector.valid)


# -- values without a key of their own ---------------------------------------------------


class Holder(Protocol):
    """An object that holds keys of :class:`OrderedWords`."""

    def held(self) -> Array:
        """The keys it holds, possibly with duplicates."""

    def moved(self, mapping: Array) -> None:
        """A key ``k`` is now ``mapping[k]``."""


class OrderedWords:
    """Comparison keys for values of any length: the rank of a value among all that are held.

    A new value changes the ranks of larger ones, and holders of ranks are called back. Values that
    no holder has are dropped. Strings order by code point, which is the order of their UTF-8 bytes.

    >>> words = OrderedWords(pa.string())
    >>> words.encode(Vector(pa.array(["b", None, "a", "b"]), None, pa.string())).tolist()
    [1, -1, 0, 1]
    >>> words.values(np.array([0, 1])).to_pylist()
    ['a', 'b']
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._words: Any = pa.array([], kind)
        self.holders: WeakSet[Holder] = WeakSet()
        """The objects to tell when keys change."""

    def __len__(self) -> int:
        return len(self._words)

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)

    def encode(self, vector: Vector) -> npt.NDArray[np.int64]:
        """The key of each value; -1 for NULL. Keys of holders may change."""
        text = isinstance(vector.values, pa.Array)
        array: Any = vector.values if text else vector.to_arrow()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        words = array.dictionary
        if len(words) > len(array):
            array = array.dictionary_decode().dictionary_encode()
            words = array.dictionary
        keys = self._find(words)
        new = words.filter(pa.array(keys < 0)).drop_null()
        if len(new):
            self._enter(new.unique(), keys[keys >= 0])
            keys = self._find(words)
        indices = array.indices.cast(pa.int32())
        if indices.null_count:
            indices = indices.fill_null(len(words))
        known = np.append(keys, -1)
        return gathered(known, alias(np.asarray(indices)))

    def _find(self, words: Any) -> npt.NDArray[np.int64]:
        found: Any = pc.index_in(words, value_set=self._words, skip_nulls=True)
        return np.asarray(found.cast(pa.int64()).fill_null(-1))

    def _enter(self, new: Any, used: Array) -> None:
        """Add new values; keep those that are held, or whose keys are ``used``."""
        held = np.zeros(len(self._words), np.bool_)
        held[used] = True
        for holder in self.holders:
            held[holder.held()] = True
        kept = np.flatnonzero(held)
        mapping = np.full(len(held), -1, np.int64)
        both = pa.concat_arrays([self._words.take(pa.array(kept)), new])
        order = np.asarray(pc.sort_indices(both))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        mapping[kept] = places[: len(kept)]
        self._words = both.take(pa.array(order))
        for holder in self.holders:
            holder.moved(mapping)

    def values(self, keys: Array) -> Any:
        """The values that have these keys, NULL for -1."""
        return self._words.take(pa.array(keys, mask=keys < 0))


# -- compiled loops ----------------------------------------------------------------------


@njit(inline="always")
def _key(bits: Word) -> Word:
    """The comparison key of a float, given by its bits."""
    size = bits & _TOP
    turned = bits ^ ((bits >> 63) & _TOP)
    turned = turned if size <= _NAN else _TOP
    return turned if size > 0 else 0


@njit()
def lower_floats(
    bits: Array, valid: Array, cells: Array, flip: Word, keys: Array, has: Array
) -> None:
    """As :func:`lower`, for floats given by their bits."""
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        if every or valid[i]:
            key, cell = _key(bits[i]) ^ flip, np.uint64(cells[i])
            has[cell] = 1
            # Rarely true after a while, and predicted: then no load waits for a store.
            if key < keys[cell]:
                keys[cell] = key


@njit()
def lower(values: Array, valid: Array, cells: Array, flip: Word, keys: Array, has: Array) -> None:
    """Lower each cell's key to the smallest of its values' keys, XORed with ``flip``.

    ``flip`` is 0, or -1 for maxima. ``has`` becomes 1 where there is a value.
    """
    every = valid.shape[0] == 0
    for i in range(values.shape[0]):
        if every or valid[i]:
            key, cell = np.int64(values[i]) ^ flip, np.uint64(cells[i])
            has[cell] = 1
            if key < keys[cell]:
                keys[cell] = key


@njit()
def lowest_float(bits: Array, valid: Array, flip: Word) -> Word:
    """The smallest flipped key of floats, given by their bits."""
    best: Word = _TOP
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        key = _key(bits[i]) ^ flip
        best = min(best, key if every or valid[i] else _TOP)
    return best


@njit()
def lowest(values: Array, valid: Array, flip: Word) -> Word:
    """The smallest flipped key."""
    best: Word = _TOP
    every = valid.shape[0] == 0
    for i in range(values.shape[0]):
        key = np.int64(values[i]) ^ flip
        best = min(best, key if every or valid[i] else _TOP)
    return best


@njit()
def lower_cells(
    keys: Array, has: Array, into: Array, other_keys: Array, other_has: Array, from_: Array
) -> None:
    """Merge pairs of cells: keep the smaller key. Both have the same flip."""
    for i in range(into.shape[0]):
        cell, other = into[i], from_[i]
        # A cell without a value has the largest key there is.
        keys[cell] = min(keys[cell], other_keys[other])
        has[cell] |= other_has[other]
