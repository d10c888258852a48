"""Values of any type in NumPy arrays, to be kept in cells and given back.

Numbers, dates and timestamps are in arrays of their own type. Strings, binaries and decimals of
more than 64 bits are Python objects, which compare as SQL compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Columns
from penstock.kernels.keys import comparison_key
from penstock.kernels.vector import Mask, Vector, is_text, physical_dtype


def is_wide(kind: pa.DataType) -> bool:
    """Whether values of the type are kept as objects."""
    return is_text(kind) or physical_dtype(kind).kind == "O"


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """The type of an array of values."""
    return np.dtype(object) if is_wide(kind) else physical_dtype(kind)


def values_of(vector: Vector) -> Array:
    """The values; anything may stand for NULL."""
    if is_text(vector.type):
        texts: Array = vector.values.to_numpy(zero_copy_only=False)
        return texts
    return np.asarray(vector.values)


def arrow_of(values: Array, valid: Mask, kind: pa.DataType) -> Any:
    """The Arrow array of values; NULL where they are not valid."""
    if is_text(kind):
        texts = values.copy()
        texts[~valid] = None
        return pa.array(texts, kind)
    if is_wide(kind):
        values = np.where(valid, values, 0)
    return Vector(values, None if valid.all() else valid, kind).to_arrow()


def keys_of(vector: Vector) -> Array:
    """What orders the values: int64, or the values themselves if they are objects."""
    return values_of(vector) if is_wide(vector.type) else comparison_key(vector).astype(np.int64)


def values_of_keys(keys: Array, kind: pa.DataType) -> Array:
    """The values with these keys, which :func:`keys_of` gave."""
    if is_wide(kind):
        return keys
    if pa.types.is_uint64(kind):
        return keys.view(np.uint64) ^ np.uint64(1 << 63)
    if pa.types.is_float64(kind):
        turned: Array = np.where(keys < 0, keys ^ np.int64((1 << 63) - 1), keys)
        return turned.view(np.float64)
    if pa.types.is_float32(kind):
        narrow = keys.astype(np.int32)
        turned = np.where(narrow < 0, narrow ^ np.int32((1 << 31) - 1), narrow)
        return turned.view(np.float32)
    return keys.astype(physical_dtype(kind))


def pack(values: Array, valid: Mask, kind: pa.DataType) -> Columns:
    """Values as arrays of numbers; :func:`unpack` reads them back."""
    if not is_wide(kind):
        return {"value": values}
    texts = [
        _bytes(v) if ok else b"" for v, ok in zip(values.tolist(), valid.tolist(), strict=True)
    ]
    return {
        "length": np.array([len(text) for text in texts], np.int64),
        "bytes": np.frombuffer(b"".join(texts), np.uint8),
    }


def unpack(columns: Columns, valid: Mask, kind: pa.DataType) -> Array:
    """The values that were packed; None where they are not valid."""
    if not is_wide(kind):
        return np.array(columns["value"], dtype_of(kind))
    data, ends = np.asarray(columns["bytes"], np.uint8).tobytes(), np.cumsum(columns["length"])
    starts = ends - columns["length"]
    values = np.empty(len(ends), object)
    values[:] = [
        _object(data[a:b], kind) if ok else None
        for a, b, ok in zip(starts.tolist(), ends.tolist(), valid.tolist(), strict=True)
    ]
    return values


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(value).encode()


def _object(data: bytes, kind: pa.DataType) -> object:
    if pa.types.is_binary(kind):
        return data
    return data.decode() if pa.types.is_string(kind) else int(data)
