"""The part of a selection that Spark can do itself, before its rows leave the JVM.

The blocks evaluate the whole selection on what is left, so this may let too much through but must
never stop a tuple that they would keep. It is therefore only comparisons of a number with a
constant of the same type, where Spark's answer is the one that ``docs/expressions.md`` gives: NULL
is neither true nor false, and NaN is larger than all other numbers and equal to itself.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from penstock.sql.expressions import Call, Column, Expression, Literal, conjuncts
from penstock.sql.plan import Plan

_COMPARE: dict[str, Any] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def sifted(frame: DataFrame, plan: Plan) -> DataFrame:
    """The frame without rows that a query of one selection is sure to drop."""
    if len(plan.selects) != 1:
        return frame
    tests = [test for term in conjuncts(plan.selects[0].where) for test in _test(term)]
    return frame.where(reduce(operator.and_, tests)) if tests else frame


def _test(term: Expression) -> list[Any]:
    if not isinstance(term, Call) or term.op not in _COMPARE:
        return []
    sides = [_side(arg) for arg in term.args]
    constants = sum(isinstance(arg, Literal) for arg in term.args)
    if any(side is None for side in sides) or constants != 1:
        return []
    return [_COMPARE[term.op](*sides)]


def _side(arg: Expression) -> Any:
    if not (pa.types.is_signed_integer(arg.type) or pa.types.is_floating(arg.type)):
        return None
    if isinstance(arg, Column):
        return F.col("`" + arg.name.replace("`", "``") + "`")
    if isinstance(arg, Literal) and arg.value is not None:
        return F.lit(arg.value).cast(from_arrow_type(arg.type))
    return None
