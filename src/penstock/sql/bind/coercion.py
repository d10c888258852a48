"""Type coercion: the type in which an operation is computed, and the conversions to it.

The rules are those of ``docs/expressions.md``. The binder turns a :class:`TypeProblem` into an
error that points at a piece of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    digits_of,
    finer,
    is_number,
    is_time,
    timestamp_type,
    unit_of,
    zone_of,
)
from penstock.sql.expressions import Cast, Expression, Literal
from penstock.sql.parse.literals import NUMBER, UNITS_PER_SECOND, WIDE, near_number, read_time
from penstock.streams.schema import type_name

SIGNED = {8: pa.int8(), 16: pa.int16(), 32: INT32, 64: INT64}
NOT_FINITE = re.compile("[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
TRUTHS = frozenset(["true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"])
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


@dataclass(frozen=True)
class Argument:
    """A bound argument and its text."""

    expression: Expression
    text: str

    @property
    def type(self) -> pa.DataType:
        return self.expression.type


class TypeProblem(Exception):
    """An operation that is not defined for the types of its arguments.

    ``argument`` is the index of the argument to point at, or None for the whole operation.
    """

    def __init__(self, what: str, remedy: str, argument: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.argument = argument


def type_text(kind: pa.DataType) -> str:
    """The type's name in messages."""
    return "NULL" if arrow.is_null(kind) else type_name(kind)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """A decimal result type by Spark's rule: beyond 38 digits, the scale is reduced."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return pa.decimal128(max(precision, 1), scale)


def as_decimal(expression: Expression) -> pa.DataType:
    """The decimal type that holds an integer or decimal expression."""
    kind = expression.type
    if arrow.is_decimal(kind):
        return kind
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        return pa.decimal128(len(str(abs(expression.value))), 0)
    return pa.decimal128(INTEGER_DIGITS[kind.bit_width], 0)


def common_type(left: Expression, right: Expression) -> pa.DataType | None:
    """The type to which both are converted before an operation, or None."""
    a, b = left.type, right.type
    if a == b or arrow.is_null(b):
        return a
    if arrow.is_null(a):
        return b
    if is_number(a) and is_number(b):
        return common_number(left, right)
    if is_time(a) and is_time(b):
        return common_time(a, b)
    return None


def common_number(left: Expression, right: Expression) -> pa.DataType:
    """The common type of two numbers of different types."""
    a, b = left.type, right.type
    if arrow.is_floating(a) or arrow.is_floating(b):
        exact = arrow.is_decimal(a) or arrow.is_decimal(b)
        return DOUBLE if exact or DOUBLE in (a, b) else FLOAT
    if arrow.is_integer(a) and arrow.is_integer(b):
        return common_integer(a, b)
    (p1, s1), (p2, s2) = digits_of(as_decimal(left)), digits_of(as_decimal(right))
    scale, whole = max(s1, s2), max(p1 - s1, p2 - s2)
    return pa.decimal128(min(38, max(1, whole + scale)), min(scale, max(0, 38 - whole)))


def common_integer(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The common type of two integers of different types."""
    if arrow.is_signed_integer(a) == arrow.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    signed, unsigned = (a, b) if arrow.is_signed_integer(a) else (b, a)
    if unsigned.bit_width == 64:
        return pa.decimal128(20, 0)
    return SIGNED[max(signed.bit_width, 2 * unsigned.bit_width)]


def common_time(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The common type of two dates or timestamps of different types."""
    if arrow.is_date(a) or arrow.is_date(b):
        stamp = b if arrow.is_date(a) else a
        return stamp if zone_of(stamp) is None else None
    if (zone_of(a) is None) != (zone_of(b) is None):
        return None
    return timestamp_type(finer(unit_of(a), unit_of(b)), zone_of(a))


def convert(expression: Expression, kind: pa.DataType) -> Expression:
    """The expression as ``kind``: itself, a literal of that type, or a Cast."""
    if expression.type == kind:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None:
            return Literal(None, kind)
        folded = literal_as(expression, kind)
        if folded is not None:
            return folded
    return Cast(expression, kind)


def literal_as(literal: Literal, kind: pa.DataType) -> Literal | None:
    """The literal in another type, if that is certain to equal what a Cast gives."""
    value = literal.value
    if is_time(literal.type):
        return time_as(literal, kind)
    if not (is_number(literal.type) and is_number(kind) and isinstance(value, int | Decimal)):
        return None
    if isinstance(value, int) and integer_fits(value, kind):
        return Literal(value, kind)
    if kind == DOUBLE:
        return Literal(float(value), kind)
    if kind == FLOAT and -(2**24) <= value <= 2**24 and value == int(value):
        return Literal(float(value), kind)
    if arrow.is_decimal(kind):
        precision, scale = digits_of(kind)
        scaled = Decimal(value).scaleb(scale, WIDE)
        if scaled == int(scaled) and abs(int(scaled)) < int("1" + "0" * precision):
            return Literal(Decimal(int(scaled)).scaleb(-scale, WIDE), kind)
    return None


def time_as(literal: Literal, kind: pa.DataType) -> Literal | None:
    """A date or timestamp as a timestamp of the same zone in a unit at least as fine."""
    value, source = literal.value, literal.type
    if not isinstance(value, int) or not arrow.is_timestamp(kind):
        return None
    ticks = UNITS_PER_SECOND[unit_of(kind)]
    if arrow.is_date(source):
        return Literal(value * 86400 * ticks, kind)
    if zone_of(source) != zone_of(kind) or finer(unit_of(source), unit_of(kind)) != unit_of(kind):
        return None
    return Literal(value * (ticks // UNITS_PER_SECOND[unit_of(source)]), kind)


def integer_fits(value: int, kind: pa.DataType) -> bool:
    """Whether the integer type holds the value."""
    if not arrow.is_integer(kind):
        return False
    width = int(kind.bit_width)
    if arrow.is_signed_integer(kind):
        return value.bit_length() < width if value >= 0 else (~value).bit_length() < width
    return value >= 0 and value.bit_length() <= width


def unify(arguments: Sequence[Argument], verb: str, joint: str) -> tuple[Expression, ...]:
    """Convert all arguments to one type; a TypeProblem says what to cast.

    ``verb`` and ``joint`` make its sentence: "cannot compare int32 with string".
    """
    arguments = strings_as_times(arguments)
    kind_of: Expression = arguments[0].expression
    for argument in arguments[1:]:
        kind = common_type(kind_of, argument.expression)
        if kind is None:
            first = next(a for a in arguments if not arrow.is_null(a.type))
            raise TypeProblem(
                f"cannot {verb} {type_text(kind_of.type)} {joint} {type_text(argument.type)}",
                cast_remedy(first, argument),
            )
        kind_of = wider(kind_of, argument.expression, kind)
    return tuple(convert(argument.expression, kind_of.type) for argument in arguments)


def wider(left: Expression, right: Expression, kind: pa.DataType) -> Expression:
    """An expression of type ``kind`` with at least as many digits as either of the two."""
    if arrow.is_null(left.type) or arrow.is_null(right.type):
        return left if arrow.is_null(right.type) else right
    of_kind = [expression for expression in (left, right) if expression.type == kind]
    numbers = [
        e.value for e in (left, right) if isinstance(e, Literal) and isinstance(e.value, int)
    ]
    if len(of_kind) == 2 and len(numbers) == 2:
        return Literal(max(numbers, key=abs), kind)
    return next((e for e in of_kind if not isinstance(e, Literal)), Literal(None, kind))


def unify_compared(arguments: Sequence[Argument]) -> tuple[Expression, ...]:
    """Convert the arguments of a comparison to one type, as :func:`unify` does.

    An integer literal that fits the other side's integer type takes that type. The comparison means
    the same, and the column needs no conversion.
    """
    plain = {a.type for a in arguments if not isinstance(a.expression, Literal)}
    if len(plain) == 1 and arrow.is_integer(kind := plain.pop()):
        literals = [a.expression for a in arguments if isinstance(a.expression, Literal)]
        if all(is_integer_of(literal, kind) for literal in literals):
            return tuple(convert(a.expression, kind) for a in arguments)
    unified = unify(arguments, "compare", "with")
    if arrow.is_null(unified[0].type):
        return tuple(Literal(None, INT32) for _ in unified)
    return unified


def is_integer_of(literal: Literal, kind: pa.DataType) -> bool:
    """Whether the literal is NULL, or an integer that fits ``kind``."""
    value = literal.value
    if arrow.is_integer(literal.type) and isinstance(value, int):
        return integer_fits(value, kind)
    return arrow.is_null(literal.type)


def strings_as_times(arguments: Sequence[Argument]) -> Sequence[Argument]:
    """String literals as dates or timestamps, if all other arguments are such."""
    kinds = [a.type for a in arguments if is_time(a.type)]
    if not kinds:
        return arguments
    return [
        Argument(literal_time(argument, kinds[0], place), argument.text)
        for place, argument in enumerate(arguments)
    ]


def literal_time(argument: Argument, kind: pa.DataType, place: int) -> Expression:
    """A string literal as a date or timestamp; any other argument unchanged."""
    literal = argument.expression
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return literal
    value = read_time(literal.value, kind)
    if value is None:
        example = "2024-01-31" if arrow.is_date(kind) else "2024-01-31 12:00:00"
        zone = "+00:00" if zone_of(kind) else ""
        raise TypeProblem(
            f"{argument.text} cannot be read as {type_text(kind)}",
            f"Write it as '{example}{zone}'.",
            place,
        )
    return Literal(value, kind)


def cast_remedy(first: Argument, second: Argument) -> str:
    """The CAST that makes the two types equal, as a remedy."""
    a, b = first.type, second.type
    for source, target in ((second, a), (first, b)):
        kind = source.type
        to_other = (
            (arrow.is_string(kind) and castable(kind, target))
            or (arrow.is_boolean(kind) and is_number(target))
            or (arrow.is_timestamp(kind) and is_number(target))
            or (is_time(kind) and zone_of(target) is not None)
            or (arrow.is_duration(kind) and arrow.is_integer(target))
        )
        if to_other:
            if not reads_as(source, target):
                other = first if source is second else second
                return (
                    f"{source.text} is no {type_name(target)}. Write a value that is one, or "
                    f"CAST({other.text} AS string) for strings on both sides."
                )
            if arrow.is_timestamp(kind) and arrow.is_integer(target):
                target = INT64
            return f"Write CAST({source.text} AS {type_name(target)})."
    for source, target in ((second, a), (first, b)):
        if castable(source.type, target):
            return f"Write CAST({source.text} AS {type_name(target)})."
    return f"No CAST leads from {type_text(b)} to {type_text(a)}; use columns of one type."


def reads_as(argument: Argument, kind: pa.DataType) -> bool:
    """Whether a CAST to a number or boolean keeps a string literal's value; true for the rest."""
    literal = argument.expression
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return True
    text = literal.value.strip()
    if arrow.is_boolean(kind):
        return text.lower() in TRUTHS
    if not is_number(kind):
        return True
    if NUMBER.fullmatch(text) is None:
        return arrow.is_floating(kind) and NOT_FINITE.fullmatch(text) is not None
    value = near_number(text)
    if not arrow.is_integer(kind):
        return True
    return value is not None and value == int(value) and integer_fits(int(value), kind)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the table of casts has a conversion."""
    if source == target or arrow.is_null(source):
        return True
    if is_number(source):
        exact_time = arrow.is_timestamp(target) and not arrow.is_decimal(source)
        return is_number(target) or target in (BOOL, STRING) or exact_time
    if arrow.is_boolean(source):
        return is_number(target) or target == STRING
    if arrow.is_string(source):
        return not arrow.is_duration(target)
    if arrow.is_binary(source):
        return bool(target == STRING)
    if arrow.is_date(source):
        return bool(arrow.is_timestamp(target) or target == STRING)
    if arrow.is_timestamp(source):
        return is_time(target) or is_number(target) or target == STRING
    return bool(arrow.is_duration(source) and arrow.is_integer(target))
