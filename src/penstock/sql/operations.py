"""The operations of expressions: what each takes and gives, and the SQL functions that call it.

``docs/expressions.md`` defines their meaning. The binder looks functions up here, and the calls in
a decoded program are checked here: the binder makes no other calls, so a call that breaks a rule
does not come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import (
    BOOL,
    DOUBLE,
    INT32,
    INT64,
    INTERVAL,
    STRING,
    is_number,
    is_time,
)

Kinds = Sequence[pa.DataType]


@dataclass(frozen=True)
class Signature:
    """The arguments of a call, and the type that it gives.

    Parameters
    ----------
    name
        By this name the binder finds how to convert the arguments of a function:
        ``BUILDERS`` in ``sql/bind/functions.py``.
    fewest, most
        How many arguments; ``most`` None: any number.
    allows
        Whether types of arguments and a type of the result belong together.
    takes
        The same for people.
    """

    name: str
    fewest: int
    most: int | None
    allows: Callable[[Kinds, pa.DataType], bool]
    takes: str


@dataclass(frozen=True)
class Function:
    """A SQL function; ``fewest`` and ``most`` arguments where they differ from the signature's."""

    name: str
    fewest: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Operation:
    """An operation, and the functions that call it; none: operators do."""

    signature: Signature
    functions: tuple[Function, ...] = ()


def _alike(kinds: Kinds) -> bool:
    return all(kind == kinds[0] for kind in kinds)


def _compares(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike(kinds) and result == BOOL


def _is_logic(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike([*kinds, BOOL]) and result == BOOL


def _keeps(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike([*kinds, result])


def _chooses(kinds: Kinds, result: pa.DataType) -> bool:
    conditions, values = kinds[:-1:2], [*kinds[1::2], kinds[-1]]
    odd = len(kinds) % 2 == 1
    return odd and _alike([*conditions, BOOL]) and _alike([*values, result])


def _computes(kinds: Kinds, result: pa.DataType) -> bool:
    if arrow.is_decimal(result):
        return all(map(arrow.is_decimal, kinds))
    return _alike([*kinds, result]) and (is_number(result) or arrow.is_duration(result))


def _multiplies(kinds: Kinds, result: pa.DataType) -> bool:
    return list(kinds) == [INTERVAL, INT64] if result == INTERVAL else _computes(kinds, result)


def _divides(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike(kinds) and arrow.is_integer(kinds[0]) and result == INT64


def _keeps_number(kinds: Kinds, result: pa.DataType) -> bool:
    return _keeps(kinds, result) and (is_number(result) or arrow.is_duration(result))


def _gives(*results: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, result: is_number(kinds[0]) and result in results


def _cuts(kinds: Kinds, result: pa.DataType) -> bool:
    decimal = arrow.is_decimal(kinds[0]) and arrow.is_decimal(result)
    return is_number(kinds[0]) and (decimal or result == INT64)


def _rounds(kinds: Kinds, result: pa.DataType) -> bool:
    decimal = arrow.is_decimal(kinds[0]) and arrow.is_decimal(result)
    same = kinds[0] == result and is_number(result)
    return (decimal or same) and kinds[1] == INT32


def _of_strings(result: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, found: _alike([*kinds, STRING]) and found == result


def _measures(kinds: Kinds, result: pa.DataType) -> bool:
    return (arrow.is_string(kinds[0]) or arrow.is_binary(kinds[0])) and result == INT32


def _slices(kinds: Kinds, result: pa.DataType) -> bool:
    return kinds[0] == STRING and _alike([*kinds[1:], INT32]) and result == STRING


def _part_of_time(kinds: Kinds, result: pa.DataType) -> bool:
    return is_time(kinds[0]) and result == INT32


def _truncates(kinds: Kinds, result: pa.DataType) -> bool:
    return kinds[0] == STRING and is_time(kinds[1]) and arrow.is_timestamp(result)


def _subtracts_times(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike(kinds) and is_time(kinds[0]) and result == INTERVAL


def _adds(*kind: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, result: (
        is_time(kinds[0]) and kinds[0] == result and tuple(kinds[1:]) == kind
    )


def _named(signature: Signature, *names: str) -> Operation:
    return Operation(signature, tuple(map(Function, names)))


_COMPARISON = Signature(
    "comparison", 2, 2, _compares, "two values of one type, and gives a boolean"
)
_LOGIC = Signature("logic", 2, None, _is_logic, "booleans, and gives one")
_NOT = Signature("not", 1, 1, _is_logic, "a boolean, and gives one")
_TEST = Signature("test", 1, 1, lambda _, result: result == BOOL, "a value, and gives a boolean")
_MEMBER = Signature("member", 2, None, _compares, "values of one type, and gives a boolean")
_PATTERN = Signature("pattern", 3, 3, _of_strings(BOOL), "three strings, and gives a boolean")
_CASE = Signature("case", 3, None, _chooses, "conditions, each with a value, and one more value")
_SAME = Signature("one type", 1, None, _keeps, "values of one type, and gives that type")
_NULL_IF = Signature("null if", 2, 2, _keeps, "two values of one type, and gives that type")
_ARITHMETIC = Signature(
    "arithmetic", 2, 2, _computes, "two numbers of the type that it gives, or decimals"
)
_REMAINDER = replace(_ARITHMETIC, name="remainder")
_PRODUCT = Signature("product", 2, 2, _multiplies, "two numbers, or an interval and an int64")
_QUOTIENT = Signature("quotient", 2, 2, _divides, "two integers of one type, and gives an int64")
_SIGNED = Signature("signed", 1, 1, _keeps_number, "a number or interval, and gives that type")
_SIGN = Signature("sign", 1, 1, _gives(DOUBLE), "a number, and gives a double")
_OF_DOUBLE = replace(_SIGN, name="of a double")
_CUT = Signature("cut", 1, 1, _cuts, "a number, and gives an int64 or a decimal")
_ROUND = Signature("round", 2, 2, _rounds, "a number and an int32, and gives a number")
_STRINGS = Signature("strings", 1, None, _of_strings(STRING), "strings, and gives one")
_STRING = Signature("strings", 1, 1, _of_strings(STRING), "a string, and gives one")
_THREE_STRINGS = Signature("strings", 3, 3, _of_strings(STRING), "three strings, and gives one")
_SEARCH = Signature("search", 2, 2, _of_strings(BOOL), "two strings, and gives a boolean")
_LENGTH = Signature("length", 1, 1, _measures, "a string or binary, and gives an int32")
_SLICE = Signature("slice", 3, 3, _slices, "a string and two int32, and gives a string")
_END = Signature("end", 2, 2, _slices, "a string and an int32, and gives a string")
_PART = Signature("part of time", 1, 1, _part_of_time, "a date or timestamp, and gives an int32")
_TRUNCATION = Signature("truncation", 2, 2, _truncates, "a unit and a time, and gives a timestamp")
_DISTANCE = Signature(
    "distance", 2, 2, _subtracts_times, "two times of one type, gives an interval"
)
_LATER = Signature("later", 2, 2, _adds(INTERVAL), "a time and an interval, gives the time")
_NEXT = Signature("next", 2, 2, _adds(INT32), "a time and an int32, and gives the time")

OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), Operation(_COMPARISON)),
    **dict.fromkeys(("and", "or"), Operation(_LOGIC)),
    "not": Operation(_NOT),
    "is_null": Operation(_TEST),
    "in": Operation(_MEMBER),
    "like": Operation(_PATTERN),
    "case": Operation(_CASE, (Function("IF", 3, 3),)),
    "coalesce": Operation(
        _SAME, (Function("COALESCE"), Function("IFNULL", 2, 2), Function("NVL", 2, 2))
    ),
    "least": _named(_SAME, "LEAST"),
    "greatest": _named(_SAME, "GREATEST"),
    "null_if": _named(_NULL_IF, "NULLIF"),
    **dict.fromkeys(("add", "sub", "div"), Operation(_ARITHMETIC)),
    "mod": _named(_REMAINDER, "MOD"),
    "mul": Operation(_PRODUCT),
    "int_div": Operation(_QUOTIENT),
    "neg": Operation(_SIGNED),
    "abs": _named(_SIGNED, "ABS"),
    "sign": _named(_SIGN, "SIGN"),
    "sqrt": _named(_OF_DOUBLE, "SQRT"),
    "floor": _named(_CUT, "FLOOR"),
    "ceil": _named(_CUT, "CEIL", "CEILING"),
    "round": Operation(_ROUND, (Function("ROUND", 1, 2),)),
    "concat": _named(_STRINGS, "CONCAT"),
    "upper": _named(_STRING, "UPPER"),
    "lower": _named(_STRING, "LOWER"),
    "trim": _named(_STRING, "TRIM"),
    "ltrim": _named(_STRING, "LTRIM"),
    "rtrim": _named(_STRING, "RTRIM"),
    "length": _named(_LENGTH, "LENGTH", "CHAR_LENGTH"),
    "substring": Operation(_SLICE, (Function("SUBSTRING", 2, 3), Function("SUBSTR", 2, 3))),
    "left": _named(_END, "LEFT"),
    "right": _named(_END, "RIGHT"),
    "replace": _named(_THREE_STRINGS, "REPLACE"),
    "starts_with": _named(_SEARCH, "STARTSWITH", "STARTS_WITH"),
    "ends_with": _named(_SEARCH, "ENDSWITH", "ENDS_WITH"),
    "contains": _named(_SEARCH, "CONTAINS"),
    "year": _named(_PART, "YEAR"),
    "month": _named(_PART, "MONTH"),
    "day": _named(_PART, "DAY"),
    "hour": _named(_PART, "HOUR"),
    "minute": _named(_PART, "MINUTE"),
    "second": _named(_PART, "SECOND"),
    "day_of_week": _named(_PART, "DAYOFWEEK"),
    "date_trunc": _named(_TRUNCATION, "DATE_TRUNC"),
    "sub_times": Operation(_DISTANCE),
    "add_duration": Operation(_LATER),
    **dict.fromkeys(("add_days", "add_months"), Operation(_NEXT)),
}
"""By the name of the operation. The kernels have code for exactly these, and the oracle for those
that it does not evaluate by itself."""
