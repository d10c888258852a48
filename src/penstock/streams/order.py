"""The order column that files are merged by, and its values as keys comparable across streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.events import Punctuation
from penstock.streams.literals import format_array, physical_list
from penstock.streams.schema import Stream, type_name

UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class OrderColumn:
    """The order column of one stream.

    ``common`` is the Arrow type in which the values of all streams are compared, or None if no
    Arrow type holds them all and they are compared as Python numbers.
    """

    stream: str
    index: int
    name: str
    type: pa.DataType
    common: pa.DataType | None

    def keys(self, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        """A sort key for each row; the column has no NULLs."""
        array: Any = batch.column(self.index)
        if self.common is None:
            values = physical_list(array)
            keys = np.empty(len(values), dtype=object)
            keys[:] = values
            return keys
        if not array.type.equals(self.common):
            array = self._cast(array, self.common)
        if pa.types.is_timestamp(self.common):
            array = array.view(pa.int64())
        elif pa.types.is_date(self.common):
            array = array.view(pa.int32())
        result: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return result

    def _cast(self, array: Any, common: pa.DataType) -> Any:
        try:
            return array.cast(common)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"order column {self.name!r} of stream {self.stream} has a value that "
                f"{type_name(common)} does not hold: {error}",
                "Give the order columns of all streams the same type.",
            ) from error

    def text(self, batch: pa.RecordBatch, row: int) -> str:
        """The row's value as a literal."""
        return format_array(batch.column(self.index).slice(row, 1))[0]

    def punctuation(self, frontier: Any) -> Punctuation:
        """The punctuation for a frontier: no further tuple has a key below it."""
        value = frontier.item() if isinstance(frontier, np.generic) else frontier
        if self.common is not None and not self.type.equals(self.common):
            value = self._back(value)
        return Punctuation(self.stream, value, self.name)

    def _back(self, value: Any) -> object:
        """A value of the common type in the stream's own, rounded down: a lower value is safe."""
        own: Any = self.type
        common: Any = self.common
        if pa.types.is_timestamp(common):
            per_second = 1000 ** UNITS.index(common.unit)
            if pa.types.is_date(own):
                return value // (per_second * 86_400)
            return value * 1000 ** UNITS.index(own.unit) // per_second
        if pa.types.is_integer(self.type):
            return int(np.floor(value)) if np.isfinite(value) else value
        return Decimal(value) if pa.types.is_decimal(self.type) else value


def order_columns(streams: Sequence[Stream], name: str | Mapping[str, str]) -> list[OrderColumn]:
    """The order column of each stream. A missing or incomparable column is an error.

    ``name`` is the column's name in all streams, or a name for each stream.
    """
    found: list[tuple[Stream, int]] = []
    for stream in streams:
        own = name if isinstance(name, str) else name[stream.name]
        index = stream.index_of(own)
        if index is None:
            raise InputError(
                f"stream {stream.name} has no column {own!r} to order by",
                f"Order by a column that all streams have; {stream.name} has "
                f"{', '.join(stream.schema.names)}.",
            )
        found.append((stream, index))
    common = _common_type([(stream, stream.schema.field(i)) for stream, i in found])
    return [
        OrderColumn(s.name, i, s.schema.names[i], s.schema.field(i).type, common) for s, i in found
    ]


def _common_type(columns: list[tuple[Stream, pa.Field[Any]]]) -> pa.DataType | None:
    kinds: list[Any] = [field.type for _, field in columns]
    types = pa.types
    families = [_family(kind) for kind in kinds]
    (first, its), *_ = columns
    for (stream, field), family in zip(columns, families, strict=True):
        if family != families[0]:
            column = "" if field.name.lower() == its.name.lower() else f"{field.name!r} is "
            raise InputError(
                f"order column {its.name!r} is {type_name(kinds[0])} in stream {first.name} "
                f"and {column}{type_name(field.type)} in stream {stream.name}",
                "Declare both with CREATE STREAM as types that can be compared.",
            )
    if families[0] in ("time", "time with a zone"):
        if all(types.is_date(kind) for kind in kinds):
            return pa.date32()
        finest = max(UNITS.index(getattr(kind, "unit", "s")) for kind in kinds)
        zone = "UTC" if families[0] == "time with a zone" else None
        return pa.timestamp(UNITS[finest], zone)  # type: ignore[no-any-return,call-overload]
    if families[0] != "number":
        return None
    if all(types.is_signed_integer(kind) or _narrow(kind) for kind in kinds):
        return pa.int64()
    if all(types.is_unsigned_integer(kind) for kind in kinds):
        return pa.uint64()
    if all(types.is_floating(kind) or _narrow(kind) for kind in kinds):
        return pa.float64()
    return None


def _narrow(kind: Any) -> bool:
    """Whether int64 and float64 both hold every value of the type."""
    return bool(pa.types.is_integer(kind) and kind.bit_width <= 32)


def _family(kind: Any) -> str:
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None):
        return "time"
    return "time with a zone" if types.is_timestamp(kind) else str(kind)
