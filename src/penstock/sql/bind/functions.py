"""The scalar functions: how their arguments are converted, by the signature of the operation.

``penstock.sql.operations`` has the table of functions, ``docs/expressions.md`` their meaning.
"""

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
from penstock.sql.operations import OPERATIONS, Function

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


BUILDERS: dict[str, Build] = {
    "signed": same_number,
    "sign": sign,
    "of a double": to_double,
    "cut": whole,
    "round": round_to_digits,
    "remainder": modulo,
    "one type": one_type,
    "null if": null_if,
    "case": choice,
    "strings": strings(STRING),
    "search": strings(BOOL),
    "length": length,
    "slice": substring,
    "end": end_piece,
    "part of time": part_of_time,
    "truncation": date_trunc,
}
"""By the name of the signature: what converts the arguments of a function and builds the call."""

FUNCTIONS: dict[str, tuple[str, Function]] = {
    function.name: (op, function)
    for op, operation in OPERATIONS.items()
    for function in operation.functions
}
"""By name: the operation, and the function."""


def call(name: str, args: Sequence[Argument]) -> Expression:
    """The bound call of a known function."""
    op, function = FUNCTIONS[name]
    signature = OPERATIONS[op].signature
    fewest = signature.fewest if function.fewest is None else function.fewest
    most = signature.most if function.most is None else function.most
    if len(args) < fewest or (most is not None and len(args) > most):
        needed = f"{fewest}" if fewest == most else f"{fewest} or more"
        if most is not None and fewest < most:
            needed = f"{fewest} to {most}"
        raise TypeProblem(
            f"{name} takes {needed} argument{'' if needed == '1' else 's'}, not {len(args)}",
            f"Write {name} with {needed} argument{'' if needed == '1' else 's'}.",
        )
    result = BUILDERS[signature.name](op, args)
    if result.type == NULL:
        raise TypeProblem("NULL has no type here", "Write CAST(NULL AS type) for one of them.")
    return result
