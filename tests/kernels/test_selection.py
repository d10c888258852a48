"""Conditions as sets of values, and values by their place among constants."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.kernels.test_evaluate_against_oracle import BOOL, COMPARABLE, INT64, array_of, physical

from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import vector_of
from penstock.kernels.selection.places import Constants, physical_keys, rows_by_place
from penstock.kernels.selection.value_sets import AFTER, Term, ValueSet, terms_of
from penstock.sql.expressions import COMPARISONS, Call, Column, Expression, Literal

ORDERED = [kind for kind in COMPARABLE if not (pa.types.is_decimal(kind) and kind.precision > 18)]


@st.composite
def conditions(draw: Any, column: Column, depth: int = 3) -> Expression:
    """A condition on one column."""
    constant = physical(column.type).map(lambda value: Literal(value, column.type))
    constants = st.one_of(constant, constant, constant, st.just(Literal(None, column.type)))
    if depth and draw(st.integers(0, 2)):
        op = draw(st.sampled_from(("and", "or", "not")))
        count = 1 if op == "not" else draw(st.integers(2, 3))
        below = tuple(draw(conditions(column, depth - 1)) for _ in range(count))
        return Call(op, below, BOOL)
    op = draw(st.sampled_from((*sorted(COMPARISONS), "in", "is_null")))
    if op == "is_null":
        return Call(op, (column,), BOOL)
    if op == "in":
        choices = draw(st.lists(constants, min_size=1, max_size=6))
        return Call(op, (column, *choices), BOOL)
    pair = draw(st.permutations((column, draw(constants))))
    return Call(op, tuple(pair), BOOL)


def inside(terms: list[Term], batch: pa.RecordBatch) -> np.ndarray:
    """For which rows the sets of all terms have the values."""
    found = []
    for expression, values, _ in terms:
        assert isinstance(expression, Column)
        ends = list(values.ends())
        kinds = np.array([kind for _, kind in ends], np.int64)
        keys = physical_keys([key for key, _ in ends], expression.type)
        cuts = [cut.key for cut in values.cuts]
        separate = values.lowest == values.highest and cuts[::2] == cuts[1::2]
        constants = Constants(np.unique(keys[kinds <= AFTER]), expression.type, separate)
        bounds = constants.bounds(keys, kinds)
        places = constants.places(vector_of(batch.column(expression.index), expression.type))
        order, starts = rows_by_place(places, constants.count)
        assert order[np.argsort(places[order], kind="stable")].tolist() == order.tolist()
        assert starts.tolist() == np.searchsorted(np.sort(places), range(len(starts))).tolist()
        found.append(np.searchsorted(bounds, places, "right") % 2 == 1)
    return np.logical_and.reduce(found)


@pytest.mark.parametrize("kind", ORDERED, ids=str)
@examples(60)
@given(st.data())
def test_sets_have_the_values_that_satisfy_a_condition(kind: Any, data: st.DataObject) -> None:
    column = Column(0, 0, "x", kind)
    condition = data.draw(conditions(column))
    known = sorted(
        {node.value for node in _literals(condition) if node.value is not None}, key=repr
    )
    value = st.one_of(st.none(), physical(kind), *([st.sampled_from(known)] if known else []))
    rows = data.draw(st.lists(value, max_size=20))
    batch = pa.record_batch([array_of(rows, kind)], names=["x"])
    terms = terms_of(condition)
    assert terms is not None
    assert inside(list(terms), batch).tolist() == select(batch, condition).tolist()


def _literals(condition: Expression) -> list[Literal]:
    if isinstance(condition, Literal):
        return [condition]
    if not isinstance(condition, Call):
        return []
    return [found for one in condition.args for found in _literals(one)]


@examples(100)
@given(st.data())
def test_conjunctions_of_conditions_on_several_columns(data: st.DataObject) -> None:
    columns = [Column(0, i, f"c{i}", kind) for i, kind in enumerate((INT64, pa.float64()))]
    terms = [data.draw(conditions(data.draw(st.sampled_from(columns)))) for _ in range(3)]
    condition = reduce(lambda one, other: Call("and", (one, other), BOOL), terms)
    if data.draw(st.booleans()):  # the same by NOT and OR
        negated = [Call("not", (one,), BOOL) for one in terms]
        either = reduce(lambda one, other: Call("or", (one, other), BOOL), negated)
        condition = Call("not", (either,), BOOL)
    values = [data.draw(st.lists(st.none() | physical(c.type), max_size=12)) for c in columns]
    count = min(map(len, values))
    arrays = [array_of(v[:count], c.type) for v, c in zip(values, columns, strict=True)]
    batch = pa.record_batch(arrays, names=["c0", "c1"])
    found = terms_of(condition)
    assert found is not None
    assert len({term.expression for term in found}) == len(found)
    assert inside(list(found), batch).tolist() == select(batch, condition).tolist()


X, Y = Column(0, 0, "x", INT64), Column(0, 1, "y", INT64)
FIVE = Literal(5, INT64)


@pytest.mark.parametrize(
    "condition",
    [
        Call("lt", (X, Y), BOOL),
        Call("or", (Call("eq", (X, FIVE), BOOL), Call("eq", (Y, FIVE), BOOL)), BOOL),
        Call("eq", (FIVE, FIVE), BOOL),
        Call("in", (X, FIVE, Y), BOOL),
        Literal(None, BOOL),
        Call(
            "eq", (Column(0, 0, "d", pa.decimal128(38, 0)), Literal(1, pa.decimal128(38, 0))), BOOL
        ),
    ],
    ids=str,
)
def test_a_condition_that_is_no_conjunction_of_sets(condition: Expression) -> None:
    assert terms_of(condition) is None


def test_a_set_counts_how_often_its_expression_is_evaluated() -> None:
    between = Call("and", (Call("ge", (X, FIVE), BOOL), Call("le", (X, FIVE), BOOL)), BOOL)
    both = Call("and", (between, Call("in", (X, FIVE), BOOL)), BOOL)
    [term] = terms_of(both) or ()
    assert term.times == 3
    assert term.values == ValueSet(False, term.values.cuts)
    assert [cut.key for cut in term.values.cuts] == [5, 5]


@pytest.mark.parametrize(
    "constants",
    [
        np.array([-(2**63), -1, 0, 2**63 - 1]),
        np.arange(-50_000, 50_000, 7),
        np.array([2**40 + i * i for i in range(5000)]),
        np.array([0, 1, 2**64 - 1], np.uint64),
        np.array([-128, 127], np.int8),
    ],
    ids=len,
)
def test_places_of_integers(constants: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    info = np.iinfo(constants.dtype)
    near = constants.astype(object)[:, None] + np.array([-1, 0, 1], object)
    values = [v for v in near.ravel() if info.min <= v <= info.max] + [info.min, info.max]
    values += rng.integers(info.min, info.max, 1000, constants.dtype, endpoint=True).tolist()
    column = pa.array(np.array(values, constants.dtype))
    found = Constants(constants, column.type, False).places(vector_of(column))
    array = np.array(values, constants.dtype)
    expected = np.searchsorted(constants, array) + np.searchsorted(constants, array, "right")
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "constants",
    [
        [-np.inf, -1.5, 0.0, 1e30, np.inf, np.nan],
        [-1.7e308, 1.7e308],
        [5e-324, 1e-323],
        [np.inf],
        [np.nan],
        [-np.inf, np.nan],
        list(np.linspace(-3, 1e6, 5000)),
    ],
    ids=len,
)
def test_places_of_floats(dtype: type, constants: list[float]) -> None:
    with np.errstate(over="ignore"):
        ends = np.unique(np.array(constants).astype(dtype))
    values = np.concatenate(
        [
            ends,
            np.nextafter(ends, dtype(-np.inf)),
            np.nextafter(ends, dtype(np.inf)),
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], dtype),
            np.random.default_rng(2).normal(0, 1e5, 1000).astype(dtype),
        ]
    )
    found = Constants(ends, pa.from_numpy_dtype(dtype), False).places(vector_of(pa.array(values)))
    expected = np.searchsorted(ends, values) + np.searchsorted(ends, values, "right")
    assert found.tolist() == expected.tolist()
