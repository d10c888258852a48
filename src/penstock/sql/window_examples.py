"""Window clauses to suggest: such that the stream they are for takes them as they stand."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import is_time
from penstock.sql.literals import UNIT_SECONDS
from penstock.sql.words import WORDS
from penstock.streams.schema import Stream, is_time_type

TIME_NAME = re.compile(r"t|ts|at|when|.*(time|stamp|date|moment).*", re.IGNORECASE)
"""How people name the columns that tell when something happened."""


def likely_time(stream: Stream, exact: bool = False) -> str | None:
    """The column that most probably tells a tuple's time, of those that can; None: none can.

    ``exact``: a float cannot. The declared one, else by its type, else by its name, else the first.

    >>> columns = {"Symbol": pa.string(), "Price": pa.int32(), "Time": pa.int32()}
    >>> likely_time(Stream.of("Trades", pa.schema(columns)))
    'Time'
    """
    can = [field for field in stream.schema if is_time_type(field.type)]
    if exact:
        can = [field for field in can if not arrow.is_floating(field.type)]
    names = [field.name for field in can]
    likely = [name for name in names if _declared(stream, name)]
    likely += [field.name for field in can if is_time(field.type)]
    likely += [name for name in names if TIME_NAME.fullmatch(name)]
    return next(iter(likely + names), None)


def join_examples(stream: Stream, time: str | None = None) -> str:
    """Windows of a joined stream, with its name; ``time`` is the column to go by, if one must."""
    count = f"{stream.name} [ROWS 1000]"
    column = time or likely_time(stream)
    if column is None:
        return count
    return f"{count} or {stream.name} [RANGE 10 SECONDS{_wattr(stream, column)}]"


def sliding_example(stream: Stream) -> str:
    """Windows of a stream that is aggregated, with its name."""
    column = likely_time(stream, exact=True)
    if column is None:
        return f"{stream.name} [ROWS 1000 SLIDE 100]"
    lengths = "10 MINUTES SLIDE 1 MINUTE"
    if arrow.is_date(stream.schema.field(column).type):
        lengths = "7 DAYS SLIDE 1 DAY"
    return f"{stream.name} [RANGE {lengths}{_wattr(stream, column)}]"


def _wattr(stream: Stream, column: str) -> str:
    if _declared(stream, column):
        return ""
    plain = column.isidentifier() and column.upper() not in WORDS
    return f" WATTR {column}" if plain else f' WATTR "{column}"'


def _declared(stream: Stream, column: str) -> bool:
    return stream.time is not None and stream.time.lower() == column.lower()


def step_of(kind: pa.DataType, per_unit: Fraction) -> str:
    """The smallest length on a clock of so many ticks a second, or to the number 1.

    >>> step_of(pa.date32(), Fraction(1, 86400)), step_of(pa.decimal128(9, 2), Fraction(100))
    ('1 DAY', '0.01')
    """
    if not is_time(kind):
        return f"{Decimal(1) / int(per_unit):f}"
    return next(f"1 {unit}" for unit, long in UNIT_SECONDS.items() if long * per_unit == 1)
