"""The window attribute of an aggregate: its values as ticks, and ticks as its values."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Indices
from penstock.kernels.vector import Vector, physical_dtype, vector_of
from penstock.streams.clock import DAY, UNITS_PER_SECOND
from penstock.streams.literals import format_array, format_value
from penstock.streams.schema import type_name
from penstock.streams.windows import TimeAttribute

_FIRST_SECOND, _SECONDS_END = -62_135_596_800, 253_402_300_800
"""Of the year 1, and after the year 9999, from the epoch: what a calendar of four digits shows."""
_LOWEST, _HIGHEST = (int(getattr(np.iinfo(np.int64), end)) for end in ("min", "max"))


class Attribute:
    """A column with an order, measured in ticks: its physical value times ``factor``."""

    def __init__(self, time: TimeAttribute, kind: pa.DataType) -> None:
        self.column = time.column
        self.name = time.name
        self.factor = int(time.factor)
        self.kind: Any = kind

    def ticks(self, batch: pa.RecordBatch) -> Indices:
        """The tick of each tuple; all of them fit, see :mod:`penstock.blocks.screen`.

        Ticks of 32 bits stay so: whoever computes with them makes them wider.
        """
        values = np.asarray(vector_of(batch.column(self.column)).values)
        if self.factor == 1 and values.dtype == np.int32:
            return values
        ticks = values.astype(np.int64, copy=False)
        return ticks * self.factor if self.factor != 1 else ticks

    @property
    def limits(self) -> tuple[int, int] | None:
        """The first and the last tick that a border of a window can be; None if all can.

        Of dates and timestamps, they are those of the years 1 to 9999: beyond is what neither
        Python nor Spark can make one of. Of a decimal, those that its digits can show.
        """
        if pa.types.is_decimal(self.kind):
            most = (10**self.kind.precision - 1) * self.factor
            return -most, most
        if pa.types.is_date(self.kind):
            unit = Fraction(1, DAY)
        elif pa.types.is_timestamp(self.kind):
            unit = Fraction(UNITS_PER_SECOND[self.kind.unit])
        else:
            return None
        first, end = (int(second * unit) for second in (_FIRST_SECOND, _SECONDS_END))
        return first * self.factor, (end - 1) * self.factor

    def tick(self, value: object) -> int:
        """The last tick that is not after a physical value."""
        number: Any = value
        if isinstance(number, float) and math.isinf(number):
            return _HIGHEST if number > 0 else _LOWEST
        scale = 10**self.kind.scale if pa.types.is_decimal(self.kind) else 1
        ticks = math.floor(Fraction(number) * scale * self.factor)
        return max(_LOWEST, min(_HIGHEST, ticks))

    def physical(self, tick: int) -> object:
        """A tick that is a value of the attribute, as a physical value."""
        value = tick // self.factor
        if pa.types.is_decimal(self.kind):
            return decimal.Decimal(value).scaleb(-self.kind.scale)
        return value

    def array(self, ticks: Indices) -> Any:
        """Ticks that are values of the attribute as an Arrow array of its type."""
        values = ticks // self.factor if self.factor != 1 else ticks
        dtype = physical_dtype(self.kind)
        if dtype.kind in "iu" and dtype != np.int64 and len(values):
            limits = np.iinfo(dtype)
            for border in (int(values.min()), int(values.max())):
                if not limits.min <= border <= limits.max:
                    raise BorderDoesNotFit(border, self.kind)
        return Vector(values.astype(dtype), None, self.kind).to_arrow()

    def beyond(self, end: bool) -> str:
        """What is wrong with a window whose end, or else its start, is beyond the limits."""
        if pa.types.is_decimal(self.kind):
            return f"whose {'end' if end else 'start'} does not fit {type_name(self.kind)}"
        return "that ends after the year 9999" if end else "that begins before the year 1"

    def show(self, tick: int) -> str:
        """A tick as a reader writes it."""
        whole = -(-tick // self.factor)
        value: object = whole
        if pa.types.is_decimal(self.kind):
            return f"{decimal.Decimal(whole).scaleb(-self.kind.scale):f}"
        if pa.types.is_integer(self.kind):
            return str(whole)
        return format_value(value, self.kind)

    def show_promise(self, tick: int) -> str:
        """A promise as a reader writes it."""
        return "at its end" if tick == _HIGHEST else self.show(tick)

    def shown(self, batch: pa.RecordBatch) -> list[str]:
        """The attribute of each tuple as a reader writes it."""
        return format_array(batch.column(self.column))


class BorderDoesNotFit(Exception):
    """The border of a window that the type of the window attribute cannot hold."""

    def __init__(self, border: int, kind: pa.DataType) -> None:
        super().__init__(f"{border} is no {kind}")
        self.border = border
        self.kind = kind
