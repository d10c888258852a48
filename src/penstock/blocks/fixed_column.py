"""A stored column of a type whose values all take the same number of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.buffer import Buffer
from penstock.kernels.buckets import gathered
from penstock.kernels.vector import physical_dtype, valid_of, vector_of

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DECIMAL = np.dtype("V16")
"""Decimals are moved about and never computed with: sixteen bytes, as Arrow has them."""


def has_fixed_width(kind: pa.DataType) -> bool:
    """Whether a :class:`FixedColumn` can hold values of this type."""
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_decimal128(kind)
    )


class FixedColumn:
    """Values one after another, and their validity once there has been a NULL."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._is_boolean = pa.types.is_boolean(kind)
        self._is_decimal = pa.types.is_decimal(kind)
        self.values = Buffer(DECIMAL if pa.types.is_decimal(kind) else physical_dtype(kind))
        self.valid: Buffer | None = None

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def append(self, array: pa.Array[Any]) -> None:
        """Add the values of an Arrow array."""
        self._append_valid(valid_of(array), len(array))
        self.values.append(self._raw(array))

    def extend(self, source: FixedColumn, indices: Indices) -> None:
        """Add the values that a column of the same type has at these indices."""
        valid = None if source.valid is None else source.valid.view().take(indices)
        self._append_valid(valid, len(indices))
        self.values.append(source.values.view().take(indices))

    def repeat(self, value: object, count: int) -> None:
        """Add a physical value, which is not NULL, several times; a decimal is its unscaled int."""
        self._append_valid(None, count)
        if self._is_decimal and isinstance(value, int):
            self.values.append(np.frombuffer(value.to_bytes(16, "little", signed=True), DECIMAL))
            self.values.append(np.broadcast_to(self.values.view()[-1:], (count - 1,)))
        else:
            self.values.repeat(value, count)

    def _append_valid(self, valid: Mask | None, count: int) -> None:
        if valid is not None and self.valid is None:
            self.valid = Buffer(np.dtype(np.bool_))
            self.valid.append(np.ones(len(self.values), np.bool_))
        if self.valid is not None:
            self.valid.append(valid if valid is not None else np.ones(count, np.bool_))

    def _raw(self, array: Any) -> npt.NDArray[Any]:
        if not self._is_decimal:
            return np.asarray(vector_of(array).values)
        return np.frombuffer(array.buffers()[1], DECIMAL, len(array), array.offset * 16)

    def drop(self, count: int) -> None:
        """Forget the first ``count`` values."""
        self.values.drop(count)
        if self.valid is not None:
            self.valid.drop(count)

    def fit(self) -> None:
        """Give back memory that what is held does not need."""
        self.values.fit()
        if self.valid is not None:
            self.valid.fit()

    def take(self, indices: Indices, padding: Mask | None = None) -> pa.Array[Any]:
        """The values at these indices as a new Arrow array; NULL where there is ``padding``."""
        valid = None if self.valid is None else self.valid.view().take(indices)
        if padding is not None:
            valid = ~padding if valid is None else valid & ~padding
        return self._arrow(self._taken(indices), valid)

    def _taken(self, indices: Indices) -> npt.NDArray[Any]:
        if self._is_decimal:
            return self.values.view().take(indices)
        return gathered(self.values.view(), indices)

    def flush(self) -> pa.Array[Any]:
        """All values as a new Arrow array; from here on there are none."""
        valid = None if self.valid is None else self.valid.flush()
        return self._arrow(self.values.flush(), valid)

    def slice(self, start: int, stop: int) -> pa.Array[Any]:
        """A range of the values as an Arrow array that is good until the next change."""
        valid = None if self.valid is None else self.valid.view()[start:stop]
        return self._arrow(self.values.view()[start:stop], valid)

    def _arrow(self, values: npt.NDArray[Any], valid: Mask | None) -> pa.Array[Any]:
        mask = None if valid is None or valid.all() else _bits(valid)
        data = _bits(values) if self._is_boolean else _bytes(values)
        return pa.Array.from_buffers(self.kind, len(values), [mask, data])


def _bytes(values: Any) -> pa.Buffer:
    return pa.py_buffer(values)


def _bits(values: Any) -> pa.Buffer:
    bits: Any = np.packbits(values, bitorder="little")
    return pa.py_buffer(bits)
