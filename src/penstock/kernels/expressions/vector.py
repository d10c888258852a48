"""Columns as the evaluator computes with them: physical values and a mask of what is not NULL."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams.schema import is_text as is_text

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]
Texts: TypeAlias = Any
"""A ``pa.Array`` of strings or binaries; pyarrow's stubs have too many types for them."""

SMALL_DECIMAL = 18
"""Decimals of up to this many digits are kept in 64 bits, others as Python integers."""

_WORD = (1 << 64) - 1


@dataclass
class Failures:
    """The count of expression failures: rows where an operation has no result and gives NULL."""

    count: int = 0


@dataclass
class Vector:
    """The values of an expression over a batch.

    Parameters
    ----------
    values
        Physical: bool, integers and floats as they are; a date as int32 days; a timestamp or an
        interval as int64 units; a decimal as its unscaled integer, int64 up to 18 digits, else an
        object array of Python integers; a string or binary as the Arrow array. Undefined where the
        value is NULL. Never written to: it may be Arrow's memory or a constant repeated with a
        stride of 0.
    valid
        The mask of values that are not NULL; None if there are no NULLs.
    type
        The Arrow type of the values.

    >>> vector_of(pa.array([1, None, 3])).valid
    array([ True, False,  True])
    """

    values: Any
    valid: Mask | None
    type: pa.DataType
    arrow: Any = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.values)

    def to_arrow(self) -> Any:
        """The Arrow array, without a copy where the memory has Arrow's layout."""
        if self.arrow is not None:
            return self.arrow
        if is_text(self.type):
            return self.values
        if pa.types.is_null(self.type):
            return pa.nulls(len(self))
        mask = None if self.valid is None else _packed(self.valid)
        if pa.types.is_boolean(self.type):
            data = _packed(self.values)
        elif pa.types.is_decimal(self.type):
            data = _buffer(_decimal_words(self.values))
        else:
            data = _buffer(self.values)
        return pa.Array.from_buffers(self.type, len(self), [mask, data])


def _buffer(values: Any) -> pa.Buffer:
    contiguous: Any = np.ascontiguousarray(values)
    return pa.py_buffer(contiguous)


def _packed(bits: Mask) -> pa.Buffer:
    return _buffer(np.packbits(np.ascontiguousarray(bits), bitorder="little"))


def _decimal_words(values: Numbers) -> Numbers:
    words = np.empty((len(values), 2), dtype=np.int64)
    if values.dtype == object:
        # Both words as bits, so that the undefined value of a NULL cannot overflow.
        words[:, 0] = (values & _WORD).astype(np.uint64).view(np.int64)
        words[:, 1] = ((values >> 64) & _WORD).astype(np.uint64).view(np.int64)
    else:
        words[:, 0] = values
        words[:, 1] = values >> 63
    return words


PLAIN_TYPES: dict[int, np.dtype[Any]] = {
    kind.id: np.dtype(kind.to_pandas_dtype())
    for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(),
        pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(),
    )
}  # fmt: skip
"""By Arrow's number of a type, what NumPy has for it, where the memory is the same."""
PLAIN_TYPES[pa.date32().id] = np.dtype(np.int32)
PLAIN_TYPES[pa.timestamp("us").id] = PLAIN_TYPES[pa.duration("us").id] = np.dtype(np.int64)


def physical_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of a type's physical values, except for strings and binaries."""
    known = PLAIN_TYPES.get(kind.id)
    if known is not None:
        return known
    if pa.types.is_decimal(kind):
        return np.dtype(np.int64 if kind.precision <= SMALL_DECIMAL else object)
    if pa.types.is_null(kind):
        return np.dtype(np.bool_)
    return np.dtype(kind.to_pandas_dtype())


def valid_of(array: Any) -> Mask | None:
    """The mask of an Arrow array; None if it has no NULLs."""
    nulls = array.null_count
    if nulls == 0:
        return None
    if nulls == len(array):
        return np.zeros(len(array), dtype=np.bool_)
    return _bits(array.buffers()[0], array.offset, len(array))


def _bits(buffer: Any, offset: int, length: int) -> Mask:
    first = offset // 8
    raw = np.frombuffer(buffer, dtype=np.uint8)[first : (offset + length + 7) // 8]
    bits = np.unpackbits(raw, bitorder="little")[offset - 8 * first :][:length]
    return bits.view(np.bool_)


def vector_of(array: Any, type: pa.DataType | None = None) -> Vector:
    """The vector of an Arrow array; its memory is shared where the type allows it."""
    kind: pa.DataType = array.type if type is None else type
    valid = valid_of(array)
    known, length = PLAIN_TYPES.get(kind.id), len(array)
    if known is not None and length:
        start = array.offset * known.itemsize
        return Vector(np.frombuffer(array.buffers()[1], known, length, start), valid, kind, array)
    if is_text(kind):
        return Vector(array, valid, kind, array)
    offset = array.offset
    if length == 0 or pa.types.is_null(kind):
        dtype = physical_dtype(kind)
        return Vector(np.zeros(length, dtype), np.zeros(length, np.bool_) if length else None, kind)
    buffer = array.buffers()[1]
    if pa.types.is_boolean(kind):
        return Vector(_bits(buffer, offset, length), valid, kind, array)
    if pa.types.is_decimal(kind):
        words = np.frombuffer(buffer, dtype=np.int64)[2 * offset : 2 * (offset + length)]
        return Vector(_decimal_values(words.reshape(-1, 2), kind), valid, kind, array)
    dtype = physical_dtype(kind)
    return Vector(np.frombuffer(buffer, dtype, length, offset * dtype.itemsize), valid, kind, array)


def _decimal_values(words: Numbers, kind: Any) -> Numbers:
    low, high = words[:, 0], words[:, 1]
    if kind.precision <= SMALL_DECIMAL:
        return np.ascontiguousarray(low)
    unsigned = np.ascontiguousarray(low).view(np.uint64).astype(object)
    return cast(Numbers, (high.astype(object) << 64) + unsigned)


def text_vector(array: Any, valid: Mask | None = None) -> Vector:
    """A vector of strings or binaries, NULL where the array is or ``valid`` says so."""
    if valid is not None and not valid.all():
        array = pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))
    return Vector(array, valid_of(array), array.type, array)


def boolean_vector(array: Any) -> Vector:
    """A vector of an Arrow boolean array, as Arrow's own functions return it."""
    return vector_of(array, pa.bool_())


def null_vector(kind: Any, length: int) -> Vector:
    """A vector of NULLs."""
    if is_text(kind):
        return vector_of(pa.nulls(length, kind))
    return Vector(np.zeros(length, physical_dtype(kind)), np.zeros(length, np.bool_), kind)


def constant_vector(value: object, kind: pa.DataType, length: int) -> Vector:
    """A literal repeated for every row; numbers take the memory of one."""
    if value is None:
        return null_vector(kind, length)
    known = PLAIN_TYPES.get(kind.id)
    if known is not None:
        return Vector(repeated(np.array([value], known), length), None, kind)
    if is_text(kind):
        scalar: Any = pa.scalar(value, kind)
        return vector_of(pa.repeat(scalar, length))
    if pa.types.is_decimal(kind):
        value = unscaled(value, kind.scale)
    dtype = physical_dtype(kind)
    one = np.empty(1, dtype)
    one[0] = value
    return Vector(repeated(one, length), None, kind)


def repeated(one: Numbers, length: int) -> Numbers:
    """The only element of an array, as often as asked for, in the memory of one."""
    if one.dtype == object:
        return np.broadcast_to(one, (length,))
    return np.ndarray((length,), one.dtype, one.tobytes(), 0, (0,))


def unscaled(value: object, scale: int) -> int:
    """The integer a decimal is kept as.

    >>> unscaled(Decimal("-1.5"), 2)
    -150
    """
    exact = Fraction(value if isinstance(value, int | Decimal) else str(value)) * 10**scale
    if exact.denominator != 1:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return int(exact.numerator)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Valid where both are."""
    if left is None:
        return right
    return left if right is None else left & right


def is_constant(values: Numbers) -> bool:
    """Whether an array is one value repeated, as literals are."""
    return values.strides == (0,)


def bounds(values: Numbers) -> tuple[int, int]:
    """The smallest and the largest of an array of integers; zeros if it is empty."""
    if len(values) == 0:
        return 0, 0
    if is_constant(values):
        return int(values[0]), int(values[0])
    return int(values.min()), int(values.max())
