"""The evaluator as a whole: lengths, NULLs, sides, memory, errors; and the selection."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.kernels.expressions.evaluate import OPERATIONS, evaluate, select
from penstock.kernels.expressions.vector import Failures, vector_of
from penstock.sql.expressions import Call, Column, Literal

INT32, INT64, BOOL = pa.int32(), pa.int64(), pa.bool_()
X = Column(0, 0, "x", INT64)
EVERY_TYPE: list[tuple[Any, list[Any]]] = [
    (BOOL, [True, None, False]),
    (pa.int8(), [-128, None, 127]),
    (pa.uint64(), [0, None, 2**64 - 1]),
    (pa.float32(), [1.5, None, -0.0]),
    (pa.decimal128(5, 2), [Decimal("-1.50"), None, Decimal("999.99")]),
    (pa.decimal128(38, 3), [Decimal("-1.500"), None, Decimal("9" * 35 + ".999")]),
    (pa.date32(), [0, None, -1]),
    (pa.timestamp("ns", "Europe/Berlin"), [0, None, 2**62]),
    (pa.string(), ["", None, "é🎉"]),
    (pa.binary(), [b"", None, b"\xff\x00"]),
    (pa.null(), [None, None, None]),
]


@pytest.mark.parametrize(("kind", "values"), EVERY_TYPE, ids=lambda part: str(part)[:20])
def test_every_type_survives_the_way_through_a_vector(kind: Any, values: list[Any]) -> None:
    array = pa.array([*values, *values], kind)
    for part in (array, array.slice(1, 4), array.slice(2, 1), array.slice(3, 0), array.slice(0, 1)):
        vector = vector_of(part)
        vector.arrow = None
        assert vector.to_arrow().equals(part)
        assert len(vector) == len(part)
        assert (vector.valid is None) == (part.null_count == 0)


def test_a_column_without_nulls_shares_its_memory() -> None:
    array = pa.array(np.arange(100), INT64).slice(10, 50)
    values = vector_of(array).values
    assert values.ctypes.data == array.buffers()[1].address + 80
    assert values.tolist() == list(range(10, 60))


@pytest.mark.parametrize(("kind", "values"), EVERY_TYPE, ids=lambda part: str(part)[:20])
def test_a_literal_is_as_long_as_the_batch(kind: Any, values: list[Any]) -> None:
    batch = pa.record_batch({"x": pa.array([1, 2, 3])})
    for value in values:
        result = evaluate(Literal(value, kind), [batch], Failures())
        assert len(result) == 3
        assert result.to_arrow().equals(pa.array([value] * 3, kind))


def test_every_operation_takes_an_empty_batch(run: Any) -> None:
    ints, texts = (INT32, []), (pa.string(), [])
    for op in ("eq", "lt", "in", "least", "greatest", "null_if", "coalesce"):
        assert run(op, BOOL if op in ("eq", "lt", "in") else INT32, ints, ints) == ([], 0)
    for op in ("add", "sub", "mul", "mod", "int_div"):
        assert run(op, INT64, (INT64, []), (INT64, [])) == ([], 0)
    for op in ("upper", "trim"):
        assert run(op, pa.string(), texts) == ([], 0)
    wide = (pa.decimal128(38, 2), [])
    for op in ("add", "mul", "div", "mod"):
        assert run(op, pa.decimal128(38, 6), wide, wide) == ([], 0)
    times = (pa.timestamp("us", "Europe/Berlin"), [])
    assert run("date_trunc", times[0], Literal("day", pa.string()), times) == ([], 0)
    assert run("round", pa.float64(), (pa.float64(), []), Literal(1, INT32)) == ([], 0)


def test_garbage_under_a_null_neither_raises_nor_counts() -> None:
    garbage = np.array([2**63 - 1, 0, -(2**63)], np.int64)
    mask = pa.py_buffer(np.zeros(1, np.uint8))
    nulls = pa.Array.from_buffers(INT64, 3, [mask, pa.py_buffer(garbage)])
    floats = pa.Array.from_buffers(pa.float64(), 3, [mask, pa.py_buffer(garbage)])
    wide = pa.Array.from_buffers(
        pa.decimal128(38, 2), 3, [mask, pa.py_buffer(np.tile(np.int64(-(2**63)), 6))]
    )
    batch = pa.record_batch([nulls, floats, wide], names=["x", "f", "d"])
    failures = Failures()
    f, d = Column(0, 1, "f", pa.float64()), Column(0, 2, "d", pa.decimal128(38, 2))
    for op in ("add", "sub", "mul", "mod", "int_div"):
        result = evaluate(Call(op, (X, X), INT64), [batch], failures)
        assert result.to_arrow().to_pylist() == [None] * 3
    for op in ("add", "mul", "div", "mod"):
        result = evaluate(Call(op, (d, d), pa.decimal128(38, 2)), [batch], failures)
        assert result.to_arrow().to_pylist() == [None] * 3
    for call in (
        Call("floor", (f,), INT64),
        Call("neg", (d,), d.type),
        Call("abs", (X,), INT64),
        Call("year", (X,), INT32),
    ):
        if call.op == "year":
            batch = pa.record_batch([nulls.view(pa.timestamp("s"))], names=["x"])
            call = Call("year", (Column(0, 0, "x", pa.timestamp("s")),), INT32)
        assert evaluate(call, [batch], failures).to_arrow().to_pylist() == [None] * 3
    assert failures.count == 0


def test_columns_of_two_sides() -> None:
    left = pa.record_batch({"x": pa.array([1, 2, 3])})
    right = pa.record_batch({"a": pa.array(["", "", ""]), "b": pa.array([10, None, 30])})
    total = Call("add", (X, Column(1, 1, "b", INT64)), INT64)
    assert evaluate(total, [left, right], Failures()).to_arrow().to_pylist() == [11, None, 33]


def test_selection_takes_what_is_true_and_not_null() -> None:
    batch = pa.record_batch({"x": pa.array([5, None, 7, 8])})
    predicate = Call("gt", (X, Literal(6, INT64)), BOOL)
    assert select(batch, predicate).tolist() == [False, False, True, True]
    assert select([batch], Literal(True, BOOL)).tolist() == [True] * 4
    assert select([batch], Literal(None, BOOL)).tolist() == [False] * 4


def test_selection_counts_failures() -> None:
    batch = pa.record_batch({"x": pa.array([5, 0, None])})
    inverse = Call("div", (Literal(1, INT64), X), pa.float64())
    failures = Failures()
    mask = select(batch, Call("gt", (inverse, Literal(0.0, pa.float64())), BOOL), failures)
    assert mask.tolist() == [True, False, False]
    assert failures.count == 1


def test_an_unknown_operation_is_an_error() -> None:
    batch = pa.record_batch({"x": pa.array([1])})
    with pytest.raises(PenstockError) as caught:
        evaluate(Call("cube", (X,), INT64), [batch], Failures())
    known = ", ".join(sorted(OPERATIONS))
    assert str(caught.value) == (
        f"no operation 'cube' in the expression cube(x)\nUse one of: {known}."
    )


def test_a_cast_that_does_not_exist_is_an_error(cast: Any) -> None:
    with pytest.raises(PenstockError) as caught:
        cast(INT32, (pa.date32(), [1]))
    assert str(caught.value) == (
        "no cast from date to int32\n"
        "Convert the value another way; docs/expressions.md lists the casts there are."
    )
