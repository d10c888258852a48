"""Binds window clauses of aggregates: ``[RANGE T SLIDE D …]`` and ``[ROWS w SLIDE d]``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa
from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql.arrow_types import STRING, is_time, zone_of
from penstock.sql.bind.coercion import type_text
from penstock.sql.bind.expression import bind_expression
from penstock.sql.bind.join_window import (
    MOST_ROWS,
    Clock,
    Side,
    amount,
    attribute_place,
    check_attribute,
    check_time_type,
    finer,
    scale_of,
    stream_slack,
    time_column,
    units_per_second,
)
from penstock.sql.bind.scope import Scope
from penstock.sql.expressions import Literal
from penstock.sql.parse.clauses import NOT_INCLUSIVE
from penstock.sql.parse.dialect import TypedLiteral, span
from penstock.sql.parse.literals import read_time
from penstock.sql.parse.syntax import Quantity, WindowClause
from penstock.streams.schema import type_name
from penstock.streams.windows import AggregateWindow, Sliding, SlidingRows, TimeAttribute

MOST_TICKS = 2**62
"""The limit of ticks in both directions, so that no time plus a window overflows."""

EXAMPLES = "[RANGE 10 MINUTES SLIDE 1 MINUTE{}] or {} [ROWS 1000 SLIDE 100]"


@dataclass(frozen=True)
class Windows:
    """The windows of an aggregate. ``time`` also orders tuples for FIRST and LAST."""

    side: Side
    window: AggregateWindow | None = None
    time: TimeAttribute | None = None


def bind_sliding(side: Side, order_column: str | None, clause_text: str) -> Windows:
    """Bind the windows of an aggregate over a single stream.

    ``clause_text`` is the clause that needs them, for errors: ``GROUP BY`` or ``an aggregate``.
    """
    clause = side.clause
    check_attribute(side)
    if clause is None or clause.kind == "UNBOUNDED":
        if not side.stream.bounded:
            raise side.fail(
                side.reference.at,
                f"{clause_text} over stream {side.stream.name}, which has no end, needs windows",
                f"Write {example(side)}.",
            )
        return Windows(side, None, declared_time(side))
    if clause.slide is None:
        raise side.fail(
            clause.at,
            f"{clause_text} over a window without SLIDE",
            f"Say how often it answers: {with_slide(side, clause)}.",
        )
    if clause.kind == "ROWS":
        return Windows(side, rows_window(side, clause, clause.slide), declared_time(side))
    column = window_attribute(side, order_column)
    window = range_windows(side, clause, clause.slide, column)
    time = TimeAttribute(column, side.stream.schema.field(column).name, 1)
    return Windows(side, window, time)


def example(side: Side) -> str:
    """Window clauses that the stream could have."""
    name = side.stream.name
    wattr = "" if side.stream.time else " WATTR t"
    end = "" if side.stream.time else f", with t the time attribute of {name}"
    return f"{name} {EXAMPLES.format(wattr, name)}{end}"


def with_slide(side: Side, clause: WindowClause) -> str:
    """The clause with a SLIDE, as SQL."""
    if clause.size is None:
        return f"write {example(side)}"
    text = " ".join(side.text(clause.at).split())
    size = " ".join(side.text(clause.size.at).split())
    return f"write {text.replace(size, f'{size} SLIDE {size}', 1)}"


def declared_time(side: Side) -> TimeAttribute | None:
    """The column that orders tuples for FIRST and LAST if the windows have no attribute.

    It is the WATTR, else the declared time attribute, else None: then arrival order counts.
    """
    written = side.clause.attribute if side.clause else None
    name = written.text if written else side.stream.time
    column = side.stream.index_of(name) if name is not None else None
    if column is None:
        return None
    return TimeAttribute(column, side.stream.schema.field(column).name, 1)


def rows_window(side: Side, clause: WindowClause, slide: Quantity) -> SlidingRows:
    """``[ROWS w SLIDE d]``: whole numbers of tuples."""
    assert clause.size is not None
    sizes = []
    for word, length in (("ROWS", clause.size), ("SLIDE", slide)):
        text = side.text(length.at)
        if length.unit is not None:
            raise side.fail(
                length.at,
                f"{word} {text}: a window of ROWS counts tuples",
                "Write numbers without units, for instance [ROWS 1000 SLIDE 100], or [RANGE "
                "10 MINUTES SLIDE 1 MINUTE] for windows of time.",
            )
        if not 1 <= length.number <= MOST_ROWS or length.number != int(length.number):
            raise side.fail(
                length.at,
                f"{word} {text} is not a number of tuples",
                "Write a whole number, 1 or more, for instance [ROWS 1000 SLIDE 100].",
            )
        sizes.append(int(length.number))
    return SlidingRows(*sizes)


SLIDING_TIME_TYPES = (
    "Use an integer up to int64, a decimal of at most 18 digits, a date or a timestamp."
)


def window_attribute(side: Side, order_column: str | None) -> int:
    """The column of the window's times; its type must be exact."""
    column = time_column(side, (), order_column, SLIDING_TIME_TYPES)
    check_exact(side, column, "windows that slide need exact borders")
    return column


def check_first(side: Side, time: TimeAttribute) -> None:
    """Check the attribute by which FIRST and LAST order tuples."""
    check_time_type(side, time.column, SLIDING_TIME_TYPES)
    check_exact(side, time.column, "FIRST and LAST go by exact times")


def check_exact(side: Side, column: int, why: str) -> None:
    """Refuse a float as the time attribute of an aggregate."""
    field = side.stream.schema.field(column)
    if arrow.is_floating(field.type):
        name = side.stream.name
        raise side.fail(
            attribute_place(side),
            f"column {field.name} of {name} is {type_name(field.type)}, and {why}",
            "Cast it to a decimal in a derived stream: CREATE STREAM t AS SELECT "
            f"CAST({field.name} AS decimal(18, 3)) AS {field.name}, ... FROM {name}.",
        )


def range_windows(side: Side, clause: WindowClause, slide: Quantity, column: int) -> Sliding:
    """``[RANGE T SLIDE D START AT v SLACK L]`` in the units of the attribute."""
    kind = side.stream.schema.field(column).type
    clock = Clock(units_per_second(kind) if is_time(kind) else Fraction(10 ** scale_of(kind)))
    assert clause.size is not None
    if clause.inclusive is not None:
        raise side.fail(
            clause.inclusive,
            "INCLUSIVE in a window with SLIDE",
            NOT_INCLUSIVE,
        )
    size = ticks(side, "RANGE", clause.size, kind, clock)
    step = ticks(side, "SLIDE", slide, kind, clock)
    start = None if clause.start is None else start_ticks(side, clause, column, clock)
    if clause.slack is None:
        given = stream_slack(side, column, clock)
        slack = None if given is None else int(given)
    else:
        slack = ticks(side, "SLACK", clause.slack, kind, clock)
    text = " ".join(side.text(clause.at).split())
    return Sliding(size, step, start, slack, text, side.stream.derived)


def ticks(side: Side, word: str, length: Quantity, kind: pa.DataType, clock: Clock) -> int:
    """A length in ticks: above 0, or at least 0 for SLACK."""
    text = side.text(length.at)
    if word == "SLACK" and length.number < 0:
        raise side.fail(
            length.at,
            f"SLACK {text} is below 0",
            "Write SLACK 0 for a stream in order, or how far it may be out of order.",
        )
    if word != "SLACK" and length.number <= 0:
        remedy = "Write a length above 0, for instance RANGE 10 MINUTES SLIDE 1 MINUTE."
        if not is_time(kind):
            remedy = "Write a length above 0, for instance RANGE 600 SLIDE 60."
        raise side.fail(length.at, f"{word} {text} is not a length of time", remedy)
    needed = amount(side, length, kind)
    if not clock.holds(needed):
        raise finer(side, length, kind, clock)
    found = int(clock.ticks(needed))
    if found >= MOST_TICKS:
        raise side.fail(
            length.at, f"{word} {text} is longer than any clock shows", "Write a shorter time."
        )
    return found


def start_ticks(side: Side, clause: WindowClause, column: int, clock: Clock) -> int:
    """``START AT v`` in ticks."""
    node = clause.start
    assert node is not None
    field = side.stream.schema.field(column)
    at, text, kind = span(node), side.text(span(node)), type_name(field.type)
    remedy = f"Write {start_example(field.type)}."
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal | TypedLiteral):
        raise side.fail(at, f"START AT {text}, which is no literal", remedy)
    value = bind_expression(node, Scope(side.source, ()))
    exact = units(value, field.type, clock) if isinstance(value, Literal) else None
    if exact is None and is_time(field.type) and value.type == STRING:
        raise side.fail(at, f"{text} cannot be read as {kind}", remedy)
    if exact is None:
        raise side.fail(
            at,
            f"START AT {text} is {type_text(value.type)}, but the time attribute {field.name} is "
            f"{kind}",
            remedy,
        )
    if exact.denominator != 1 or abs(exact) >= MOST_TICKS:
        raise side.fail(
            at,
            f"START AT {text} is no value of the time attribute {field.name}, which is {kind}",
            remedy,
        )
    return int(exact)


def units(value: Literal, kind: pa.DataType, clock: Clock) -> Fraction | None:
    """A literal in units of the attribute; None if it is of another kind."""
    if isinstance(value.value, str):
        read = read_time(value.value, kind) if is_time(kind) else None
        return None if read is None else Fraction(read)
    if is_time(kind) and is_time(value.type) and isinstance(value.value, int):
        if (zone_of(kind) is None) != (zone_of(value.type) is None):
            return None
        return value.value / units_per_second(value.type) * clock.per_unit
    exact = arrow.is_integer(value.type) or arrow.is_decimal(value.type)
    if is_time(kind) or not exact or value.value is None:
        return None
    return Fraction(str(value.value)) * clock.per_unit


def start_example(kind: pa.DataType) -> str:
    """An example value of the type, as SQL."""
    if arrow.is_date(kind):
        return "DATE '2024-01-31'"
    if arrow.is_timestamp(kind):
        zone = "+00:00" if zone_of(kind) else ""
        return f"TIMESTAMP '2024-01-31 12:00:00{zone}'"
    if arrow.is_integer(kind):
        return "a whole number"
    return f"a number with at most {scale_of(kind)} digits after the point"
