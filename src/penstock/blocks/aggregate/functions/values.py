"""Values of any type as arrays of numbers, to be stored in cells and saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Array, Columns
from penstock.kernels.expressions.vector import Mask, Vector, is_text, physical_dtype, vector_of


def is_wide(kind: pa.DataType) -> bool:
    """Whether values are Python objects: strings, binaries, decimals of more than 64 bits."""
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


def vector_from(values: Array, valid: Mask, kind: pa.DataType) -> Vector:
    """Values of a type as a vector; NULL where they are not valid."""
    if is_text(kind):
        texts = values.copy()
        texts[~valid] = None
        return vector_of(pa.array(texts, kind))
    if is_wide(kind):
        values = np.where(valid, values, 0)
    return Vector(values, None if valid.all() else valid, kind)


def pack(array: Any) -> Columns:
    """An Arrow array as arrays of numbers; :func:`unpack` reads them back."""
    vector = vector_of(array)
    valid = np.ones(len(array), np.bool_) if vector.valid is None else vector.valid
    if not is_wide(array.type):
        return {"valid": valid, "value": np.asarray(vector.values)}
    values, known = values_of(vector).tolist(), valid.tolist()
    texts = [_bytes(v) if ok else b"" for v, ok in zip(values, known, strict=True)]
    return {
        "valid": valid,
        "length": np.array([len(text) for text in texts], np.int64),
        "bytes": np.frombuffer(b"".join(texts), np.uint8),
    }


def unpack(columns: Columns, kind: pa.DataType) -> Vector:
    """The values that were packed."""
    valid = np.array(columns["valid"], np.bool_)
    if not is_wide(kind):
        return vector_from(np.array(columns["value"], dtype_of(kind)), valid, kind)
    data = np.asarray(columns["bytes"], np.uint8).tobytes()
    ends = np.cumsum(columns["length"])
    starts = ends - columns["length"]
    values = np.empty(len(ends), object)
    values[:] = [
        _object(data[a:b], kind) if ok else None
        for a, b, ok in zip(starts.tolist(), ends.tolist(), valid.tolist(), strict=True)
    ]
    return vector_from(values, valid, kind)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _object(data: bytes, kind: pa.DataType) -> object:
    if pa.types.is_binary(kind):
        return data
    return data.decode() if pa.types.is_string(kind) else int(data)
