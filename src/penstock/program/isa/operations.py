"""The signature of each operation, against which the calls in a program are checked.

The binder makes no other calls (``docs/expressions.md`` defines their meaning), so a call that
breaks a rule does not come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow

Kinds = Sequence[pa.DataType]
BOOL, INT32, INT64, DOUBLE, STRING = (
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.string(),
)
INTERVAL = pa.duration("us")


@dataclass(frozen=True)
class Operation:
    """The fewest and most arguments, and whether their types give the type of the result."""

    fewest: int
    most: int | None
    allows: Callable[[Kinds, pa.DataType], bool]
    takes: str


def _is_number(kind: Any) -> bool:
    return bool(arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_decimal(kind))


def _is_time(kind: Any) -> bool:
    return bool(arrow.is_date(kind) or arrow.is_timestamp(kind))


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
    return _alike([*kinds, result]) and (_is_number(result) or arrow.is_duration(result))


def _multiplies(kinds: Kinds, result: pa.DataType) -> bool:
    return list(kinds) == [INTERVAL, INT64] if result == INTERVAL else _computes(kinds, result)


def _divides(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike(kinds) and arrow.is_integer(kinds[0]) and result == INT64


def _keeps_number(kinds: Kinds, result: pa.DataType) -> bool:
    return _keeps(kinds, result) and (_is_number(result) or arrow.is_duration(result))


def _gives(*results: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, result: _is_number(kinds[0]) and result in results


def _cuts(kinds: Kinds, result: pa.DataType) -> bool:
    decimal = arrow.is_decimal(kinds[0]) and arrow.is_decimal(result)
    return _is_number(kinds[0]) and (decimal or result == INT64)


def _rounds(kinds: Kinds, result: pa.DataType) -> bool:
    decimal = arrow.is_decimal(kinds[0]) and arrow.is_decimal(result)
    same = kinds[0] == result and _is_number(result)
    return (decimal or same) and kinds[1] == INT32


def _of_strings(result: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, found: _alike([*kinds, STRING]) and found == result


def _measures(kinds: Kinds, result: pa.DataType) -> bool:
    return (arrow.is_string(kinds[0]) or arrow.is_binary(kinds[0])) and result == INT32


def _slices(kinds: Kinds, result: pa.DataType) -> bool:
    return kinds[0] == STRING and _alike([*kinds[1:], INT32]) and result == STRING


def _part_of_time(kinds: Kinds, result: pa.DataType) -> bool:
    return _is_time(kinds[0]) and result == INT32


def _truncates(kinds: Kinds, result: pa.DataType) -> bool:
    return kinds[0] == STRING and _is_time(kinds[1]) and arrow.is_timestamp(result)


def _subtracts_times(kinds: Kinds, result: pa.DataType) -> bool:
    return _alike(kinds) and _is_time(kinds[0]) and result == INTERVAL


def _adds(*kind: pa.DataType) -> Callable[[Kinds, pa.DataType], bool]:
    return lambda kinds, result: (
        _is_time(kinds[0]) and kinds[0] == result and tuple(kinds[1:]) == kind
    )


_COMPARISON = Operation(2, 2, _compares, "two values of one type, and gives a boolean")
_LOGIC = Operation(2, None, _is_logic, "booleans, and gives one")
_SAME = Operation(1, None, _keeps, "values of one type, and gives that type")
_ARITHMETIC = Operation(2, 2, _computes, "two numbers of the type that it gives, or decimals")
_STRINGS = Operation(1, None, _of_strings(STRING), "strings, and gives one")
_ONE_STRING = Operation(1, 1, _of_strings(STRING), "a string, and gives one")
_SEARCH = Operation(2, 2, _of_strings(BOOL), "two strings, and gives a boolean")
_END = Operation(2, 2, _slices, "a string and an int32, and gives a string")
_PART = Operation(1, 1, _part_of_time, "a date or timestamp, and gives an int32")
_CUT = Operation(1, 1, _cuts, "a number, and gives an int64 or a decimal")
_SIGNED = Operation(1, 1, _keeps_number, "a number or interval, and gives that type")

OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _COMPARISON),
    **dict.fromkeys(("and", "or"), _LOGIC),
    "not": Operation(1, 1, _is_logic, "a boolean, and gives one"),
    "is_null": Operation(1, 1, lambda _, result: result == BOOL, "a value, and gives a boolean"),
    "in": Operation(2, None, _compares, "values of one type, and gives a boolean"),
    "like": Operation(3, 3, _of_strings(BOOL), "three strings, and gives a boolean"),
    "case": Operation(3, None, _chooses, "conditions, each with a value, and one more value"),
    **dict.fromkeys(("coalesce", "least", "greatest"), _SAME),
    "null_if": Operation(2, 2, _keeps, "two values of one type, and gives that type"),
    **dict.fromkeys(("add", "sub", "div", "mod"), _ARITHMETIC),
    "mul": Operation(2, 2, _multiplies, "two numbers, or an interval and an int64"),
    "int_div": Operation(2, 2, _divides, "two integers of one type, and gives an int64"),
    **dict.fromkeys(("neg", "abs"), _SIGNED),
    "sign": Operation(1, 1, _gives(DOUBLE), "a number, and gives a double"),
    "sqrt": Operation(1, 1, _gives(DOUBLE), "a number, and gives a double"),
    **dict.fromkeys(("floor", "ceil"), _CUT),
    "round": Operation(2, 2, _rounds, "a number and an int32, and gives a number"),
    "concat": _STRINGS,
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim"), _ONE_STRING),
    "length": Operation(1, 1, _measures, "a string or binary, and gives an int32"),
    "substring": Operation(3, 3, _slices, "a string and two int32, and gives a string"),
    **dict.fromkeys(("left", "right"), _END),
    "replace": Operation(3, 3, _of_strings(STRING), "three strings, and gives one"),
    **dict.fromkeys(("starts_with", "ends_with", "contains"), _SEARCH),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "day_of_week"), _PART),
    "date_trunc": Operation(2, 2, _truncates, "a unit and a time, and gives a timestamp"),
    "sub_times": Operation(2, 2, _subtracts_times, "two times of one type, gives an interval"),
    "add_duration": Operation(2, 2, _adds(INTERVAL), "a time and an interval, gives the time"),
    **dict.fromkeys(
        ("add_days", "add_months"),
        Operation(2, 2, _adds(INT32), "a time and an int32, and gives the time"),
    ),
}
"""By the name of the operation; the kernels have code for exactly these."""
