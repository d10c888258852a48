"""The scalar functions with their types. ``docs/expressions.md`` defines their meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import (
    BOOL,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    STRING,
    TIMESTAMP,
    digits_of,
    is_number,
    is_time,
)
from penstock.sql.bind.coercion import (
    Argument,
    TypeProblem,
    convert,
    decimal_type,
    type_text,
    unify,
    unify_compared,
)
from penstock.sql.bind.operators import arithmetic, boolean, string
from penstock.sql.expressions import Call, Expression, Literal

Build = Callable[[str, Sequence[Argument]], Expression]

TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def number(argument: Argument, place: int) -> Expression:
    """An argument that must be a number."""
    if is_number(argument.type):
        return argument.expression
    if arrow.is_null(argument.type):
        return Literal(None, INT32)
    remedy = "Use a number."
    if arrow.is_string(argument.type) or arrow.is_timestamp(argument.type):
        remedy = f"Write CAST({argument.text} AS double)."
    raise TypeProblem(
        f"a number is needed, but {argument.text} is {type_text(argument.type)}", remedy, place
    )


def integer(argument: Argument, place: int) -> Expression:
    """An argument that must be an integer in the range of int32."""
    if arrow.is_null(argument.type):
        return Literal(None, INT32)
    if not arrow.is_integer(argument.type):
        raise TypeProblem(
            f"an integer is needed, but {argument.text} is {type_text(argument.type)}",
            f"Write CAST({argument.text} AS int32).",
            place,
        )
    return convert(argument.expression, INT32)


def same_number(op: str, args: Sequence[Argument]) -> Expression:
    """A function of one number (or interval) with a result of the same type."""
    if op == "abs" and arrow.is_duration(args[0].type):
        return Call(op, (args[0].expression,), args[0].type)
    value = number(args[0], 0)
    return Call(op, (value,), value.type)


def to_double(op: str, args: Sequence[Argument]) -> Expression:
    """A function computed in double."""
    return Call(op, (convert(number(args[0], 0), DOUBLE),), DOUBLE)


def sign(op: str, args: Sequence[Argument]) -> Expression:
    """SIGN keeps its argument's type and gives a double."""
    return Call(op, (number(args[0], 0),), DOUBLE)


def whole(op: str, args: Sequence[Argument]) -> Expression:
    """FLOOR and CEIL."""
    value = number(args[0], 0)
    kind = value.type
    if arrow.is_decimal(kind):
        precision, scale = digits_of(kind)
        return Call(op, (value,), decimal_type(precision - scale + 1, 0))
    return Call(op, (value,), INT64)


def round_to_digits(op: str, args: Sequence[Argument]) -> Expression:
    """ROUND to a constant number of digits."""
    value = number(args[0], 0)
    digits = args[1].expression if len(args) > 1 else Literal(0, INT32)
    known = digits.value if isinstance(digits, Literal) else None
    if not isinstance(known, int) or not arrow.is_integer(digits.type) or abs(known) > 400:
        raise TypeProblem(
            f"ROUND needs a number of digits, but {args[1].text} is none",
            "Write a whole number, for instance ROUND(x, 2).",
            1,
        )
    kind = value.type
    if arrow.is_decimal(kind):
        precision, scale = digits_of(kind)
        digits_left = max(0, min(scale, known))
        kind = pa.decimal128(min(38, precision - scale + 1 + digits_left), digits_left)
    return Call(op, (value, Literal(known, INT32)), kind)


def one_type(op: str, args: Sequence[Argument]) -> Expression:
    """COALESCE, LEAST, GREATEST: arguments and result of one type."""
    unified = unify(args, "combine", "with")
    return Call(op, unified, unified[0].type)


def null_if(op: str, args: Sequence[Argument]) -> Expression:
    """NULLIF(a, b) has the type of a, whatever type the two are compared in."""
    value = args[0].expression
    if arrow.is_null(value.type):
        raise TypeProblem("NULL has no type here", "Write CAST(NULL AS type).", 0)
    left, right = unify_compared(args)
    if left.type == value.type:
        return Call(op, (left, right), left.type)
    equal = Call("eq", (left, right), BOOL)
    return Call("case", (equal, Literal(None, value.type), value), value.type)


def choice(op: str, args: Sequence[Argument]) -> Expression:
    """IF(c, v, e)."""
    condition = boolean(args[0], 0)
    unified = unify(args[1:], "combine", "with")
    return Call(op, (condition, *unified), unified[0].type)


def modulo(op: str, args: Sequence[Argument]) -> Expression:
    """MOD(a, b)."""
    return arithmetic(op, "%", args[0], args[1])


def strings(result: pa.DataType) -> Build:
    """A function of strings only."""

    def build(op: str, args: Sequence[Argument]) -> Expression:
        return Call(op, tuple(string(arg, place) for place, arg in enumerate(args)), result)

    return build


def length(op: str, args: Sequence[Argument]) -> Expression:
    """LENGTH of a string or a binary."""
    if arrow.is_binary(args[0].type):
        return Call(op, (args[0].expression,), INT32)
    return Call(op, (string(args[0], 0),), INT32)


def substring(op: str, args: Sequence[Argument]) -> Expression:
    """SUBSTRING(x, start [, n])."""
    count = integer(args[2], 2) if len(args) > 2 else Literal(None, INT32)
    if len(args) > 2 and count == Literal(None, INT32):
        # A NULL literal as n means "to the end"; a NULL in the text gives NULL.
        return Literal(None, STRING)
    return Call(op, (string(args[0], 0), integer(args[1], 1), count), STRING)


def end_piece(op: str, args: Sequence[Argument]) -> Expression:
    """LEFT(x, n) and RIGHT(x, n)."""
    return Call(op, (string(args[0], 0), integer(args[1], 1)), STRING)


def time(argument: Argument, place: int) -> Expression:
    """An argument that must be a date or a timestamp."""
    if is_time(argument.type):
        return argument.expression
    if arrow.is_null(argument.type):
        return Literal(None, TIMESTAMP)
    remedy = "Use a date or a timestamp."
    if arrow.is_string(argument.type) or arrow.is_integer(argument.type):
        remedy = f"Write CAST({argument.text} AS timestamp)."
    raise TypeProblem(
        f"a date or timestamp is needed, but {argument.text} is {type_text(argument.type)}",
        remedy,
        place,
    )


def part_of_time(op: str, args: Sequence[Argument]) -> Expression:
    """YEAR(t) and other parts of a time."""
    return Call(op, (time(args[0], 0),), INT32)


def date_trunc(op: str, args: Sequence[Argument]) -> Expression:
    """DATE_TRUNC('unit', t)."""
    unit = args[0].expression
    name = unit.value.lower() if isinstance(unit, Literal) and isinstance(unit.value, str) else ""
    if name not in TRUNCATIONS:
        raise TypeProblem(
            f"DATE_TRUNC does not know {args[0].text}",
            f"Write one of: {', '.join(repr(unit) for unit in TRUNCATIONS)}.",
            0,
        )
    value = time(args[1], 1)
    kind = TIMESTAMP if arrow.is_date(value.type) else value.type
    return Call(op, (Literal(name, STRING), value), kind)


MANY = 1 << 30
"""No limit on the number of arguments."""

FUNCTIONS: dict[str, tuple[str, int, int, Build]] = {
    "ABS": ("abs", 1, 1, same_number),
    "SIGN": ("sign", 1, 1, sign),
    "SQRT": ("sqrt", 1, 1, to_double),
    "FLOOR": ("floor", 1, 1, whole),
    "CEIL": ("ceil", 1, 1, whole),
    "CEILING": ("ceil", 1, 1, whole),
    "ROUND": ("round", 1, 2, round_to_digits),
    "MOD": ("mod", 2, 2, modulo),
    "LEAST": ("least", 1, MANY, one_type),
    "GREATEST": ("greatest", 1, MANY, one_type),
    "COALESCE": ("coalesce", 1, MANY, one_type),
    "IFNULL": ("coalesce", 2, 2, one_type),
    "NVL": ("coalesce", 2, 2, one_type),
    "NULLIF": ("null_if", 2, 2, null_if),
    "IF": ("case", 3, 3, choice),
    "CONCAT": ("concat", 1, MANY, strings(STRING)),
    "UPPER": ("upper", 1, 1, strings(STRING)),
    "LOWER": ("lower", 1, 1, strings(STRING)),
    "LENGTH": ("length", 1, 1, length),
    "CHAR_LENGTH": ("length", 1, 1, length),
    "SUBSTRING": ("substring", 2, 3, substring),
    "SUBSTR": ("substring", 2, 3, substring),
    "LEFT": ("left", 2, 2, end_piece),
    "RIGHT": ("right", 2, 2, end_piece),
    "TRIM": ("trim", 1, 1, strings(STRING)),
    "LTRIM": ("ltrim", 1, 1, strings(STRING)),
    "RTRIM": ("rtrim", 1, 1, strings(STRING)),
    "REPLACE": ("replace", 3, 3, strings(STRING)),
    "STARTSWITH": ("starts_with", 2, 2, strings(BOOL)),
    "STARTS_WITH": ("starts_with", 2, 2, strings(BOOL)),
    "ENDSWITH": ("ends_with", 2, 2, strings(BOOL)),
    "ENDS_WITH": ("ends_with", 2, 2, strings(BOOL)),
    "CONTAINS": ("contains", 2, 2, strings(BOOL)),
    "YEAR": ("year", 1, 1, part_of_time),
    "MONTH": ("month", 1, 1, part_of_time),
    "DAY": ("day", 1, 1, part_of_time),
    "HOUR": ("hour", 1, 1, part_of_time),
    "MINUTE": ("minute", 1, 1, part_of_time),
    "SECOND": ("second", 1, 1, part_of_time),
    "DAYOFWEEK": ("day_of_week", 1, 1, part_of_time),
    "DATE_TRUNC": ("date_trunc", 2, 2, date_trunc),
}
"""By name: the op, the least and the most arguments, and the function that builds the call."""


def call(name: str, args: Sequence[Argument]) -> Expression:
    """The bound call of a known function."""
    op, fewest, most, build = FUNCTIONS[name]
    if not fewest <= len(args) <= most:
        needed = f"{fewest}" if fewest == most else f"{fewest} or more"
        if fewest < most < MANY:
            needed = f"{fewest} to {most}"
        raise TypeProblem(
            f"{name} takes {needed} argument{'' if needed == '1' else 's'}, not {len(args)}",
            f"Write {name} with {needed} argument{'' if needed == '1' else 's'}.",
        )
    result = build(op, args)
    if result.type == NULL:
        raise TypeProblem("NULL has no type here", "Write CAST(NULL AS type) for one of them.")
    return result
