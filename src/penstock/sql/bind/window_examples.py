"""Window clauses for remedies, which are valid for the stream they are suggested for."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import is_time
from penstock.sql.parse.dialect import WORDS
from penstock.streams.lead import UNIT_SECONDS
from penstock.streams.schema import Stream, is_time_type

TIME_NAME = re.compile(r"t|ts|at|when|.*(time|stamp|date|moment).*", re.IGNORECASE)
"""Names that columns with times usually have."""


def likely_time(stream: Stream, exact: bool = False) -> str | None:
    """The column that most likely has a tuple's time, or None if no type fits.

    ``exact`` excludes floats. The declared column, else by type, else by name, else the first.

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
    """Windows for a joined stream, with its name; ``time`` is the column to use, if any."""
    count = f"{stream.name} [ROWS 1000]"
    column = time or likely_time(stream)
    if column is None:
        return count
    return f"{count} or {stream.name} [RANGE 10 SECONDS{_wattr(stream, column)}]"


def sliding_example(stream: Stream) -> str:
    """Windows for an aggregated stream, with its name."""
    column = likely_time(stream, exact=True)
    if column is None:
        return f"{stream.name} [ROWS 1000 SLIDE 100]"
    lengths = "10 MINUTES SLIDE 1 MINUTE"
    if arrow.is_date(stream.schema.field(column).type):
        lengths = "7 DAYS SLIDE 1 DAY"
    return f"{stream.name} [RANGE {lengths}{_wattr(stream, column)}]"


def _wattr(stream: Stream, column: str) -> str:
    return "" if _declared(stream, column) else f" WATTR {name_text(column)}"


def name_text(name: str) -> str:
    """A name as SQL: in quotes if necessary."""
    if name.isidentifier() and name.upper() not in WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _declared(stream: Stream, column: str) -> bool:
    return stream.time is not None and stream.time.lower() == column.lower()


def step_of(kind: pa.DataType, per_unit: Fraction) -> str:
    """The smallest length on a clock with ``per_unit`` ticks per second, or per 1 for numbers.

    >>> step_of(pa.date32(), Fraction(1, 86400)), step_of(pa.decimal128(9, 2), Fraction(100))
    ('1 DAY', '0.01')
    """
    if not is_time(kind):
        return f"{Decimal(1) / int(per_unit):f}"
    return next(f"1 {unit}" for unit, long in UNIT_SECONDS.items() if long * per_unit == 1)
