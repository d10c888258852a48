"""Binds window clauses of scans and joins: each tuple's time, and the clock of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

import pyarrow as pa
from pyarrow import types as arrow

from penstock.errors import SqlError
from penstock.sql.arrow_types import digits_of, is_time, unit_of, zone_of
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.scope import AGGREGATED_COUNTS, AGGREGATED_JOIN
from penstock.sql.bind.window_examples import join_examples, likely_time, name_text, step_of
from penstock.sql.parse.dialect import Span, span
from penstock.sql.parse.literals import MONTHS, UNITS_PER_SECOND, seconds
from penstock.sql.parse.syntax import Quantity, StreamReference, WindowClause
from penstock.sql.plan import Scan, Through
from penstock.streams.schema import TIME_TYPES, Stream, is_time_type, type_name
from penstock.streams.windows import Range, Rows, TimeAttribute, Unbounded, Window

MOST_ROWS = 2**62


@dataclass(frozen=True)
class Side:
    """A stream of FROM with its window clause, and the query's text.

    ``through`` is the block of the user's own that the stream is the rows of, if it is.
    """

    source: str
    reference: StreamReference
    stream: Stream
    through: Through | None = None

    @property
    def clause(self) -> WindowClause | None:
        return self.reference.window

    def fail(self, at: Span, what: str, remedy: str) -> SqlError:
        """An error at a place of the query's text."""
        return SqlError.at(self.source, *at, what, remedy)

    def text(self, at: Span) -> str:
        """The text at this place."""
        return self.source[at[0] : at[1]]

    def scan(self, window: Window | None = None, time: TimeAttribute | None = None) -> Scan:
        """The scan of the stream, with its window and its time attribute."""
        return Scan(self.stream, self.reference.alias.text, window, time, self.through)

    @property
    def has_range(self) -> bool:
        return self.clause is not None and self.clause.kind == "RANGE"


@dataclass(frozen=True)
class Clock:
    """The unit in which the times of both sides are measured.

    ``per_unit`` is the number of ticks in one unit of a quantity: in the number 1 for numbers, in a
    second for dates and timestamps. Zero stands for float ticks.
    """

    per_unit: Fraction

    def ticks(self, amount: Fraction) -> int | float:
        """The amount in ticks; :meth:`holds` says whether that is a whole number."""
        return int(amount * self.per_unit) if self.per_unit else float(amount)

    def holds(self, amount: Fraction) -> bool:
        """Whether the amount is a whole number of ticks."""
        return not self.per_unit or (amount * self.per_unit).denominator == 1


def bind_scan(side: Side, order_column: str | None) -> Scan:
    """Bind a stream that is not joined: its window clause must be valid, and has no effect."""
    if side.clause is None:
        return side.scan()
    if side.clause.slide is not None:
        raise side.fail(
            side.clause.at,
            "a window with SLIDE, but nothing is aggregated",
            "Select an aggregate, for instance COUNT(*), or leave SLIDE out.",
        )
    check_clause(side)
    window: Window
    if side.has_range:
        column = time_column(side, (), order_column)
        window = range_window(side, column, clock_of(((side, column),)))
    else:
        window = plain_window(side)
    return side.scan(window)


def bind_join_scans(
    sides: Sequence[Side], catalog: Catalog, order_column: str | None
) -> tuple[tuple[Scan, ...], bool]:
    """Bind the inputs of a join; also returns whether their clock has float ticks."""
    for side in sides:
        if side.clause is not None and side.clause.slide is not None:
            raise side.fail(
                side.clause.at,
                f"a window with SLIDE on the joined stream {side.stream.name}",
                AGGREGATED_JOIN if any(one.has_range for one in sides) else AGGREGATED_COUNTS,
            )
        check_clause(side)
    if not any(side.has_range for side in sides):
        return tuple(side.scan(joined_window(side, catalog)) for side in sides), False
    columns = [
        time_column(side, [other for other in sides if other is not side], order_column)
        for side in sides
    ]
    clock = clock_of(tuple(zip(sides, columns, strict=True)))
    scans = []
    for side, column in zip(sides, columns, strict=True):
        field = side.stream.schema.field(column)
        window: Window = (
            range_window(side, column, clock)
            if side.has_range
            else joined_window(side, catalog, field.name)
        )
        time = TimeAttribute(column, field.name, factor(field.type, clock))
        scans.append(side.scan(window, time))
    return tuple(scans), not clock.per_unit


def check_clause(side: Side) -> None:
    """Check what does not depend on the clock."""
    clause = side.clause
    if clause is None:
        return
    check_attribute(side)
    if clause.start is not None:
        raise side.fail(
            span(clause.start),
            "START AT in a window without SLIDE",
            "Leave START AT out; the window moves with every tuple.",
        )
    if clause.kind == "UNBOUNDED" and not side.stream.bounded:
        raise side.fail(
            clause.at,
            f"[UNBOUNDED] on stream {side.stream.name}, which has no end",
            "Write [ROWS n] or [RANGE t].",
        )
    if clause.kind == "ROWS":
        check_rows(side)
    check_range(side)
    if clause.slack is not None and clause.slack.number < 0:
        raise side.fail(
            clause.slack.at,
            f"SLACK {side.text(clause.slack.at)} is below 0",
            "Write SLACK 0 for a stream in order, or how far it may be out of order.",
        )


def check_range(side: Side) -> None:
    """Check ``[RANGE T]``: the length is above 0; with INCLUSIVE it may be 0."""
    clause = side.clause
    if clause is None or clause.kind != "RANGE" or clause.size is None:
        return
    number, text = clause.size.number, side.text(clause.size.at)
    if number > 0 or (number == 0 and clause.inclusive):
        return
    remedy = "Write a length above 0, for instance RANGE 10 SECONDS, or [NOW] to keep nothing."
    if number == 0:
        remedy = (
            f"Write RANGE {text} INCLUSIVE for tuples of the same time, a length above 0, or [NOW] "
            "to keep nothing."
        )
    raise side.fail(clause.size.at, f"RANGE {text} is not a length of time", remedy)


def check_attribute(side: Side) -> None:
    """Check that a WATTR is a column."""
    clause = side.clause
    if clause is None or clause.attribute is None:
        return
    written, names = clause.attribute.text, side.stream.schema.names
    if side.stream.index_of(written) is None:
        close = get_close_matches(written.lower(), [name.lower() for name in names], 3)
        near = [name for name in names if name.lower() in close]
        remedy = f"Write WATTR and one of: {', '.join(names)}."
        raise side.fail(
            clause.attribute.at,
            f"unknown column '{written}' of {side.stream.name}",
            f"Did you mean {' or '.join(near)}?" if near else remedy,
        )


def check_rows(side: Side) -> None:
    """Check ``[ROWS w]``: a whole number of tuples."""
    size = side.clause.size if side.clause else None
    assert size is not None
    if size.unit is not None:
        raise side.fail(
            size.at, "ROWS counts tuples", f"Write [RANGE {side.text(size.at)}] for a time window."
        )
    if size.number < 0 or size.number != int(size.number) or size.number > MOST_ROWS:
        raise side.fail(
            size.at,
            f"ROWS {side.text(size.at)} is not a number of tuples",
            "Write a whole number, 0 or more, for instance [ROWS 1000].",
        )


def plain_window(side: Side) -> Window:
    """A window without a clock."""
    clause = side.clause
    assert clause is not None
    if clause.kind == "UNBOUNDED":
        return Unbounded()
    return Rows(int(clause.size.number) if clause.size else 0)


def joined_window(side: Side, catalog: Catalog, time: str | None = None) -> Window:
    """The window of a joined stream, also without a clause.

    ``time`` is the column of its times, if the other side has determined it.
    """
    if side.clause is not None:
        return plain_window(side)
    if catalog.windows_required or not side.stream.bounded:
        name, bounded = side.stream.name, side.stream.bounded
        everything = f", or {name} [UNBOUNDED] to keep all of it" if bounded else ""
        raise side.fail(
            side.reference.at,
            f"join without a window on stream {name}{'' if bounded else ', which has no end'}",
            f"Write {join_examples(side.stream, time)}{everything}.",
        )
    return Unbounded()


def time_column(
    side: Side, others: Sequence[Side], order_column: str | None, types: str = TIME_TYPES
) -> int:
    """The column with the time of the side's tuples.

    It is its own WATTR; else its declared time attribute; else its column with the name of another
    side's WATTR, the first in FROM; else the order column. ``types`` describes the types that a
    time can have.
    """
    own = side.clause.attribute if side.clause else None
    candidates = [own.text if own else None, side.stream.time]
    candidates += [
        other.clause.attribute.text for other in others if other.clause and other.clause.attribute
    ]
    candidates.append(order_column)
    for name in candidates:
        index = side.stream.index_of(name) if name is not None else None
        if index is not None:
            check_time_type(side, index, types)
            return index
    alias = side.stream.name
    kind = next((kind for kind in map(range_type, others) if kind is not None), None)
    column = fitting_column(side, kind, exact=types != TIME_TYPES)
    if column is None:
        count = COUNT_WINDOWS if others else "a count window, [ROWS n]"
        remedy = f"No column of {alias} can be that time: give it one, or write {count}."
        raise side.fail(
            side.reference.at, f"the time attribute of stream {alias} is not known", remedy
        )
    example = f"[RANGE 10 SECONDS WATTR {name_text(column)}]"
    if side.clause is not None:
        example = with_time(side, column)
    if side.clause is not None and not side.has_range:
        raise side.fail(
            side.reference.at,
            f"the time attribute of stream {alias} is not known",
            f"Write {alias} {example} (or another column with its time), or {COUNT_WINDOWS}.",
        )
    declare = f", or declare it: CREATE STREAM {alias} (...) TIMESTAMP BY "
    declare += name_text(column)
    if side.stream.derived:
        declare = "; a derived stream has no declaration"
    raise side.fail(
        side.reference.at,
        f"the time attribute of stream {alias} is not known",
        f"Write {alias} {example} (or another column with its time){declare}.",
    )


COUNT_WINDOWS = "count windows, [ROWS n], on all streams of the join"
"""What needs no time."""


def with_time(side: Side, column: str) -> str:
    """The window clause of a side, with a WATTR."""
    assert side.clause is not None
    start, end = side.clause.at
    if side.clause.attribute is not None:
        return f"{side.text((start, side.clause.attribute.at[0]))}{name_text(column)}]"
    return f"{side.text((start, end - 1)).rstrip()} WATTR {name_text(column)}]"


def range_type(side: Side) -> pa.DataType | None:
    """The type of the times of a time window, as far as its own stream tells; else None."""
    if not side.has_range:
        return None
    own = side.clause.attribute if side.clause else None
    name = own.text if own else side.stream.time
    index = None if name is None else side.stream.index_of(name)
    return None if index is None else side.stream.schema.field(index).type


def fitting_column(side: Side, kind: pa.DataType | None, exact: bool = False) -> str | None:
    """A column for the times of a side that can be compared with ``kind``; the likeliest first."""
    fits = [
        field.name
        for field in side.stream.schema
        if is_time_type(field.type)
        and (kind is None or family(field.type) == family(kind))
        and not (exact and arrow.is_floating(field.type))
    ]
    likely = likely_time(side.stream, exact)
    return likely if likely in fits else next(iter(fits), None)


def family(kind: pa.DataType) -> str:
    """Times of one family can be compared."""
    return ("zoned" if zone_of(kind) else "time") if is_time(kind) else "number"


def check_time_type(side: Side, index: int, types: str) -> None:
    """Refuse a column of a type that cannot be a time."""
    field = side.stream.schema.field(index)
    kind = field.type
    if is_time_type(kind):
        return
    raise side.fail(
        attribute_place(side),
        f"column {field.name} of {side.stream.name} is {type_name(kind)} and cannot be a time "
        "attribute",
        types,
    )


def attribute_place(side: Side) -> Span:
    """The place of the WATTR, or of the stream without one."""
    if side.clause is not None and side.clause.attribute is not None:
        return side.clause.attribute.at
    return side.reference.at


def clock_of(sides: tuple[tuple[Side, int], ...]) -> Clock:
    """The clock on which every column's values and every length are whole numbers of ticks."""
    kinds = [side.stream.schema.field(column).type for side, column in sides]
    check_comparable(sides, kinds)
    if any(arrow.is_floating(kind) for kind in kinds):
        return Clock(Fraction(0))
    if not is_time(kinds[0]):
        return Clock(Fraction(10 ** max(scale_of(kind) for kind in kinds)))
    clock = Clock(max(map(units_per_second, kinds)))
    for (side, _), kind in zip(sides, kinds, strict=True):
        for length in lengths(side):
            needed = amount(side, length, kind)
            for ticks in UNITS_PER_SECOND.values():
                if not clock.holds(needed):
                    clock = Clock(max(clock.per_unit, Fraction(ticks)))
    return clock


def scale_of(kind: pa.DataType) -> int:
    """The digits after the decimal point."""
    return digits_of(kind)[1] if arrow.is_decimal(kind) else 0


def units_per_second(kind: pa.DataType) -> Fraction:
    """The number of the type's units in a second: a fraction for dates."""
    return Fraction(1, 86400) if arrow.is_date(kind) else Fraction(UNITS_PER_SECOND[unit_of(kind)])


def lengths(side: Side) -> list[Quantity]:
    """The quantities of a RANGE clause."""
    if side.clause is None or not side.has_range:
        return []
    return [q for q in (side.clause.size, side.clause.slack) if q is not None]


def check_comparable(sides: tuple[tuple[Side, int], ...], kinds: list[pa.DataType]) -> None:
    """Refuse times of different kinds."""
    families = [family(kind) for kind in kinds]
    odd = next((i for i, family in enumerate(families) if family != families[0]), None)
    if odd is not None:
        (left, _), (right, _) = sides[0], sides[odd]
        names = [f"{s.stream.name}.{s.stream.schema.field(c).name}" for s, c in sides]
        remedy = "Derive a stream that casts one of them: CREATE STREAM t AS SELECT CAST(...) ...."
        for one, kind in ((right, kinds[0]), (left, kinds[odd])):
            column = fitting_column(one, kind)
            if one.clause is not None and not one.has_range and column is not None:
                remedy = f"Write {one.stream.name} {with_time(one, column)}, or {COUNT_WINDOWS}."
                break
        raise right.fail(
            attribute_place(right if right.clause else left),
            f"cannot compare the time attributes {names[0]} ({type_name(kinds[0])}) and "
            f"{names[odd]} ({type_name(kinds[odd])})",
            remedy,
        )
    scale = max(scale_of(kind) for kind in kinds)
    for (side, _), kind in zip(sides, kinds, strict=True):
        if arrow.is_decimal(kind) and digits_of(kind)[0] + scale - scale_of(kind) > 18:
            raise side.fail(
                attribute_place(side),
                f"{type_name(kind)} with {scale} digits after the point has more than 18 digits",
                "Derive a stream that casts the time attribute to a shorter decimal.",
            )


def range_window(side: Side, column: int, clock: Clock) -> Range:
    """``[RANGE T SLACK L]`` in ticks."""
    kind = side.stream.schema.field(column).type
    found: list[int | float] = []
    for length in lengths(side):
        needed = amount(side, length, kind)
        if not clock.holds(needed):
            raise finer(side, length, kind, clock)
        found.append(clock.ticks(needed))
    text = " ".join(side.text(side.clause.at).split()) if side.clause is not None else ""
    slack = found[1] if len(found) > 1 else stream_slack(side, column, clock)
    inclusive = side.clause is not None and side.clause.inclusive is not None
    return Range(found[0], slack, text, side.stream.derived, inclusive)


def finer(side: Side, length: Quantity, kind: pa.DataType, clock: Clock) -> SqlError:
    """The error for a length that is finer than the attribute's unit."""
    return side.fail(
        length.at,
        f"{side.text(length.at)} is finer than the time attribute, which is {type_name(kind)}",
        f"Write it in steps of {step_of(kind, clock.per_unit)}.",
    )


def stream_slack(side: Side, column: int, clock: Clock) -> int | float | None:
    """The stream's own slack in ticks, rounded up."""
    stream = side.stream
    if stream.slack is None or stream.time is None or stream.index_of(stream.time) != column:
        return None
    return -int(-stream.slack * clock.per_unit // 1) if clock.per_unit else float(stream.slack)


def amount(side: Side, length: Quantity, kind: pa.DataType) -> Fraction:
    """The length as a number, or in seconds if it has a unit."""
    text = side.text(length.at)
    if length.unit is None:
        if is_time(kind) and length.number:  # 0 needs no unit
            raise side.fail(
                length.at,
                f"{text} of what? The time attribute is {type_name(kind)}",
                f"Write a unit, for instance {text} SECONDS.",
            )
        needed = Fraction(length.number)
        whole = f"Write a whole number; the time attribute is {type_name(kind)}."
    else:
        if length.unit in MONTHS:
            raise side.fail(
                length.at,
                f"{text}: {length.unit.lower()}s differ in length",
                "Write it in DAYS, for instance 30 DAYS.",
            )
        in_seconds = seconds(length.number, length.unit)
        assert in_seconds is not None
        needed = in_seconds
        whole = "Write whole seconds; a unit on an integer attribute counts seconds."
    if arrow.is_integer(kind) and needed.denominator != 1:
        raise side.fail(length.at, f"{text} is not whole", whole)
    if is_time(kind) and (needed * UNITS_PER_SECOND["ns"]).denominator != 1:
        raise side.fail(length.at, f"{text} is finer than a nanosecond", "Write a longer time.")
    return needed


def factor(kind: pa.DataType, clock: Clock) -> int | float:
    """The factor from a column's physical value to ticks."""
    if not clock.per_unit:
        return float(10.0 ** -scale_of(kind))
    if is_time(kind):
        return int(clock.per_unit / units_per_second(kind))
    return int(clock.per_unit / 10 ** scale_of(kind))
