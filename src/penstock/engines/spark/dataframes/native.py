"""Selections and projections that Spark computes itself: rows do not leave the JVM.

Only expressions for which Spark's answer is the one that ``docs/expressions.md`` gives are written
for Spark: columns, constants, comparisons and arithmetic of numbers of one type. NULL is neither
true nor false, NaN is larger than all other numbers and equal to itself, and what overflows or is
divided by zero is NULL: that is what Spark's ``try_`` functions give, under any settings. The
blocks compute everything else.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type

from penstock.sql.expressions import Call, Column, Expression, Literal, conjuncts
from penstock.sql.plan import Plan

_COMPARISONS: dict[str, Any] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_LOGIC: dict[str, Any] = {"and": operator.and_, "or": operator.or_}
_ARITHMETIC: dict[str, Any] = {
    "add": F.try_add,
    "sub": F.try_subtract,
    "mul": F.try_multiply,
    "div": F.try_divide,
}


def computed(frame: DataFrame, plan: Plan, columns: spark_types.StructType) -> DataFrame | None:
    """The result of a query of one select, computed by Spark; None if Spark cannot."""
    select = plan.selects[0]
    if len(plan.selects) != 1 or len(columns) != len(select.columns):
        return None  # a union, or a result with tags
    tests = [native(term) for term in conjuncts(select.where)]
    made = [native(output.expression) for output in select.columns]
    if any(one is None for one in (*tests, *made)):
        return None
    named = [one.alias(field.name) for one, field in zip(made, columns, strict=True)]
    kept = sifted(frame, tests).select(*named)
    same = [field.dataType for field in kept.schema] == [field.dataType for field in columns]
    return kept if same else None


def sifted(frame: DataFrame, tests: Sequence[Any]) -> DataFrame:
    """The rows for which every test is true; None tests are skipped."""
    known = [test for test in tests if test is not None]
    return frame.where(reduce(operator.and_, known)) if known else frame


def native(expression: Expression) -> Any:
    """The expression as Spark's; None if it has no equivalent there."""
    if isinstance(expression, Column):
        return F.col("`" + expression.name.replace("`", "``") + "`")
    if isinstance(expression, Literal):
        if not _is_number(expression.type) or expression.value is None:
            return None
        return F.lit(expression.value).cast(from_arrow_type(expression.type))
    if not isinstance(expression, Call) or len(expression.args) != 2:
        return None
    args = [native(arg) for arg in expression.args]
    if any(arg is None for arg in args):
        return None
    if expression.op in _LOGIC:
        return _LOGIC[expression.op](*args)
    one, other = (arg.type for arg in expression.args)
    if not _is_number(one) or not one.equals(other):
        return None
    if expression.op in _COMPARISONS:
        return _COMPARISONS[expression.op](*args)
    if expression.op in _ARITHMETIC and expression.type.equals(one):
        # Spark adds up the constants of a chain first, and then other steps overflow.
        chained = any(isinstance(a, Call) and a.op == expression.op for a in expression.args)
        return None if chained else _ARITHMETIC[expression.op](*args)
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_floating(kind))
