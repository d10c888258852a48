"""Keys: integers that compare exactly as SQL values do.

Kernels compare keys, never values. A key of 32 or 64 bits orders the way its value does: NaN above
every other number and equal to itself, -0.0 equal to 0.0, unsigned numbers by size. So a kernel
needs no special case for any type, and its loop is plain integer comparisons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.expressions.vector import Vector
from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]

_SIGN_BIT = np.uint64(1 << 63)
LARGEST: dict[int, Any] = {4: np.int32(np.iinfo(np.int32).max), 8: np.int64(np.iinfo(np.int64).max)}
"""The largest keys, by how many bytes a key has."""


def comparison_key(vector: Vector) -> Array:
    """The key of each value; arbitrary where the value is NULL.

    >>> from penstock.kernels.expressions.vector import vector_of
    >>> floats = vector_of(pa.array([-1.5, -0.0, 0.0, float("inf"), float("nan")]))
    >>> key = comparison_key(floats)
    >>> bool((np.diff(key) >= 0).all()), bool(key[1] == key[2])
    (True, True)
    """
    values = np.asarray(vector.values)
    kind = vector.type
    if pa.types.is_float32(kind):
        return _float_key(values, np.dtype(np.float32), np.dtype(np.int32))
    if pa.types.is_float64(kind):
        return _float_key(values, np.dtype(np.float64), np.dtype(np.int64))
    if pa.types.is_uint64(kind):
        flipped: Array = (values ^ _SIGN_BIT).view(np.int64)
        return flipped
    wide = pa.types.is_uint32(kind) or values.dtype.itemsize == 8
    return np.ascontiguousarray(values, dtype=np.int64 if wide else np.int32)


def _float_key(values: Array, floating: np.dtype[Any], signed: np.dtype[Any]) -> Array:
    """The bits of floats, changed so that they order as the floats do."""
    clean = np.ascontiguousarray(values, dtype=floating)
    turned = np.empty(len(clean), signed)
    keys_of_floats(clean, clean.view(signed), LARGEST[signed.itemsize], turned)
    return turned


def native_values(vector: Vector) -> Array:
    """The values themselves, for kernels that compute with them: int64, float32 or float64."""
    values = np.asarray(vector.values)
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values)
    return np.ascontiguousarray(values, dtype=np.int64)


def float_values(keys: Array, kind: np.dtype[Any]) -> Array:
    """The floats whose comparison keys these are; keys are as wide as the floats.

    >>> floats = np.array([-1.5, 0.0, np.nan])
    >>> keys = comparison_key(Vector(floats, None, pa.float64()))
    >>> float_values(keys, floats.dtype).tolist()
    [-1.5, 0.0, nan]
    """
    bits, out = np.empty_like(keys), np.empty(len(keys), kind)
    floats_of_keys(keys, keys.dtype.type(np.iinfo(keys.dtype).max), bits, bits.view(kind), out)
    return out


def unsigned_values(keys: Array) -> npt.NDArray[np.uint64]:
    """The unsigned integers whose comparison keys these are."""
    return np.asarray(keys.view(np.uint64) ^ _SIGN_BIT)


@njit()
def keys_of_floats(values: Array, bits: Array, top: int, out: Array) -> None:
    """The comparison keys of floats and their bits; ``top`` is the largest integer."""
    for i in range(values.shape[0]):
        turned = bits[i] ^ top if bits[i] < 0 else bits[i]
        turned = turned if values[i] == values[i] else top
        out[i] = turned if values[i] != 0.0 else 0  # -0.0 equals 0.0


@njit()
def floats_of_keys(keys: Array, top: int, bits: Array, values: Array, out: Array) -> None:
    """The floats of comparison keys; ``bits`` and ``values`` share their memory."""
    for i in range(keys.shape[0]):
        bits[i] = keys[i] ^ top if keys[i] < 0 else keys[i]
    for i in range(keys.shape[0]):
        out[i] = values[i]
