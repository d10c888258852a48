"""Run one operation over columns given as plain lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal

Run = Callable[..., tuple[list[Any], int]]


def _array(values: list[Any], kind: Any) -> Any:
    """Times may be given as numbers."""
    numbers = all(value is None or isinstance(value, int) for value in values)
    if numbers and pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if numbers and (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _plain(array: Any) -> list[Any]:
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _run(make: Callable[[tuple[Expression, ...]], Expression], args: Any) -> tuple[list[Any], int]:
    """Columns are ``(type, values)`` pairs, everything else is a literal expression."""
    expressions: list[Expression] = []
    arrays: list[Any] = []
    for arg in args:
        if isinstance(arg, Literal):
            expressions.append(arg)
            continue
        kind, values = arg
        expressions.append(Column(0, len(arrays), f"c{len(arrays)}", kind))
        arrays.append(_array(values, kind))
    batch = pa.record_batch(arrays, names=[f"c{place}" for place in range(len(arrays))])
    failures = Failures()
    result = evaluate(make(tuple(expressions)), [batch], failures).to_arrow()
    result.validate(full=True)
    return _plain(result), failures.count


@pytest.fixture
def run() -> Run:
    """``run(op, type of the result, *arguments)``: the values, times as numbers, and failures."""
    return lambda op, kind, *args: _run(lambda found: Call(op, found, kind), args)


@pytest.fixture
def cast() -> Run:
    """``cast(type, (source type, values))``: the values, times as numbers, and failures."""
    return lambda kind, arg: _run(lambda found: Cast(found[0], kind), [arg])
