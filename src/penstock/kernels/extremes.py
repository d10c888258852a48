"""The smallest or the largest values of many cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels import folding as loops
from penstock.kernels.keys import comparison_key, float_values, unsigned_values
from penstock.kernels.memory import alias
from penstock.kernels.ordered_words import OrderedWords
from penstock.kernels.vector import Vector, is_text, physical_dtype, vector_of

Array = npt.NDArray[Any]
Cells = npt.NDArray[np.int32]

_ALL = np.empty(0, np.bool_)
_TOP = np.iinfo(np.int64).max


class Extremes:
    """An array of minima, or of maxima if ``largest``, called cells, which start without a value.

    Values are of any type that has an order. NaN is the largest number and -0.0 is 0.0. What they
    are compared by are 64-bit keys; of a maximum their bits are flipped, so that the smallest is
    always what is looked for.

    >>> from penstock.kernels.vector import vector_of
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
        """So many cells without a value, that can be merged with these."""
        return Extremes(self._type, self._flip == -1, cells, self._words)

    def encode(self, vector: Vector) -> Array:
        """The values as :meth:`add` takes them.

        For all that is like these at once, and before any of them takes the values: of strings,
        new ones move the keys of others.
        """
        if self._words is not None:
            return self._words.encode(vector)
        values = np.asarray(vector.values)
        if values.dtype.kind == "f":
            return alias(np.ascontiguousarray(values, np.float64))
        return alias(np.asarray(comparison_key(vector), np.int64))

    def _mask(self, encoded: Array, valid: Array | None) -> Array:
        if self._words is not None:
            # The dictionary of a column may have a NULL that its mask knows nothing of.
            valid = encoded >= 0 if valid is None else valid & (encoded >= 0)
        return _ALL if valid is None else alias(valid)

    def add(self, cells: Cells, encoded: Array, valid: Array | None = None) -> None:
        """Take each value into its cell. Behind the mask may stand any value and any cell."""
        cells = np.ascontiguousarray(cells, np.int32)
        mask = self._mask(encoded, valid)
        into = mask, cells, self._flip, self._keys, self._has
        if encoded.dtype.kind == "f":
            loops.lower_floats(encoded.view(np.int64), *into)
        else:
            loops.lower(encoded, *into)

    def add_at(self, cell: int, encoded: Array, valid: Array | None = None) -> None:
        """Take all values into one cell; several times faster than :meth:`add`."""
        mask = self._mask(encoded, valid)
        if len(encoded) == 0 or (len(mask) > 0 and not mask.any()):
            return
        if encoded.dtype.kind == "f":
            key = loops.lowest_float(encoded.view(np.int64), mask, self._flip)
        else:
            key = loops.lowest(encoded, mask, self._flip)
        self._keys[cell] = min(int(self._keys[cell]), int(key))
        self._has[cell] = 1

    def merge(self, into: Cells, other: Extremes, from_: Cells) -> None:
        """Take cells of others, which were made by :meth:`like`, into cells of these."""
        into, from_ = np.ascontiguousarray(into, np.int32), np.ascontiguousarray(from_, np.int32)
        theirs = other._keys, other._has, from_
        loops.lower_cells(self._keys, self._has, into, *theirs)

    def merge_row(self, into: int, other: Extremes, from_: int, count: int) -> None:
        """As :meth:`merge`, for ``count`` cells that follow one another in both."""
        ours, theirs = slice(into, into + count), slice(from_, from_ + count)
        np.minimum(self._keys[ours], other._keys[theirs], out=self._keys[ours])
        self._has[ours] |= other._has[theirs]

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Let each of ``rows`` rows of cells have what all up to it have, or all from it on."""
        step = -1 if backwards else 1
        for table, extreme in ((self._keys, np.minimum), (self._has, np.maximum)):
            ordered = table.reshape(rows, -1)[::step]
            extreme.accumulate(ordered, axis=0, out=ordered)

    def clear(self, cells: Any) -> None:
        """Cells, an array of them or a slice, without a value again."""
        self._keys[cells] = _TOP
        self._has[cells] = 0

    def rearrange(self, cells: int, new: Any, old: Any) -> None:
        """Have ``cells`` cells, of which ``new[i]`` is what ``old[i]`` was; the rest has no value.

        ``new`` and ``old`` are arrays of numbers or slices.
        """
        keys, has = np.full(cells, _TOP, np.int64), np.zeros(cells, np.uint8)
        keys[new], has[new] = self._keys[old], self._has[old]
        self._keys, self._has = keys, has

    def resize(self, cells: int) -> None:
        """Have more cells, or fewer."""
        kept = slice(0, min(cells, len(self)))
        self.rearrange(cells, kept, kept)

    def values(self, cells: Array) -> pa.Array[Any]:
        """What the cells have; NULL where they have nothing."""
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
        """The keys of strings have moved."""
        has = self._has > 0
        self._keys[has] = mapping[self._keys[has] ^ self._flip] ^ self._flip

    def state(self) -> pa.RecordBatch:
        """The value of each cell, in a column: what :meth:`load` takes."""
        return pa.RecordBatch.from_arrays([self.values(np.arange(len(self)))], names=["value"])

    def load(self, state: pa.RecordBatch) -> None:
        """Become the cells whose state this is."""
        vector = vector_of(state.column(0))
        self._keys = np.full(len(vector), _TOP, np.int64)
        self._has = np.zeros(len(vector), np.uint8)
        self.add(np.arange(len(vector), dtype=np.int32), self.encode(vector), vector.valid)
