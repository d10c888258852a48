"""CASE, COALESCE, NULLIF, LEAST, GREATEST, and their failures."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.sql.expressions import Call, Column, Expression, Literal

BOOL, INT32, DOUBLE, STRING = pa.bool_(), pa.int32(), pa.float64(), pa.string()
X, Y = Column(0, 0, "x", INT32), Column(0, 1, "y", INT32)
REMAINDER = Call("mod", (X, Y), INT32)
BATCH = pa.record_batch(
    {"x": pa.array([7, 8, 9, None], INT32), "y": pa.array([0, 3, None, 0], INT32)}
)


def result_of(expression: Expression) -> tuple[list[Any], int]:
    failures = Failures()
    return evaluate(expression, [BATCH], failures).to_arrow().to_pylist(), failures.count


def is_zero(argument: Expression) -> Call:
    return Call("eq", (argument, Literal(0, INT32)), BOOL)


def test_a_failure_counts_once_and_is_null() -> None:
    assert result_of(REMAINDER) == ([None, 2, None, None], 1)


def test_a_branch_that_is_not_taken_does_not_fail() -> None:
    case = Call("case", (is_zero(Y), Literal(-1, INT32), REMAINDER), INT32)
    assert result_of(case) == ([-1, 2, None, -1], 0)
    other = Call("case", (is_zero(Y), REMAINDER, Literal(-1, INT32)), INT32)
    assert result_of(other) == ([None, -1, -1, None], 1)


def test_a_later_condition_is_asked_only_where_no_earlier_one_held() -> None:
    remainder_is_two = Call("eq", (REMAINDER, Literal(2, INT32)), BOOL)
    null = Literal(None, INT32)
    case = Call("case", (is_zero(Y), Y, remainder_is_two, X, null), INT32)
    assert result_of(case) == ([0, 8, None, 0], 0)


def test_a_nested_case_sees_only_the_rows_of_its_branch() -> None:
    never = Call("case", (Literal(False, BOOL), X, REMAINDER), INT32)
    case = Call("case", (is_zero(Y), Y, never), INT32)
    assert result_of(case) == ([0, 2, None, 0], 0)


def test_case_without_else_gives_null_of_its_type() -> None:
    case = Call("case", (is_zero(Y), Literal("zero", STRING), Literal(None, STRING)), STRING)
    assert result_of(case) == (["zero", None, None, "zero"], 0)
    untyped = Call("case", (is_zero(Y), Literal("zero", STRING), Literal(None, pa.null())), STRING)
    assert result_of(untyped) == (["zero", None, None, "zero"], 0)


def test_coalesce_does_not_evaluate_what_it_does_not_need() -> None:
    assert result_of(Call("coalesce", (X, REMAINDER), INT32)) == ([7, 8, 9, None], 0)
    # Row 0 has failed already when its replacement fails too; row 3 fails nowhere.
    assert result_of(Call("coalesce", (REMAINDER, Y, REMAINDER), INT32)) == ([0, 2, None, 0], 1)


def test_null_if(run: Any) -> None:
    left, right = (INT32, [1, 2, None, 4]), (INT32, [1, 3, 5, None])
    assert run("null_if", INT32, left, right) == ([None, 2, None, 4], 0)
    floats = (DOUBLE, [math.nan, -0.0]), (DOUBLE, [math.nan, 0.0])
    assert run("null_if", DOUBLE, *floats) == ([None, None], 0)
    names = (STRING, ["a", "b", None]), (STRING, ["a", None, "c"])
    assert run("null_if", STRING, *names) == ([None, "b", None], 0)


def test_least_and_greatest_pass_over_nulls(run: Any) -> None:
    columns = (INT32, [1, None, None]), (INT32, [2, 5, None]), (INT32, [0, None, None])
    assert run("least", INT32, *columns) == ([0, 5, None], 0)
    assert run("greatest", INT32, *columns) == ([2, 5, None], 0)
    names = (STRING, ["b", None]), (STRING, ["a", "z"])
    assert run("least", STRING, *names) == (["a", "z"], 0)


def test_nan_is_the_greatest_and_of_equals_the_first_is_taken(run: Any) -> None:
    columns = (DOUBLE, [math.nan, 1.0, -0.0]), (DOUBLE, [math.inf, math.nan, 0.0])
    assert [repr(v) for v in run("least", DOUBLE, *columns)[0]] == ["inf", "1.0", "-0.0"]
    assert [repr(v) for v in run("greatest", DOUBLE, *columns)[0]] == ["nan", "nan", "-0.0"]
