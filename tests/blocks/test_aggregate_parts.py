"""Parts of aggregates: lifting, combining and inverting agree, whatever the type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock import tuning
from penstock.blocks.aggregate.functions import aggregate_of
from penstock.blocks.aggregate.functions.cells import DoesNotFit, Lifting
from penstock.blocks.aggregate.functions.sum import shown
from penstock.kernels.expressions.vector import vector_of
from penstock.sql.expressions import Column
from penstock.sql.plan import Call

FLOATS = st.floats(width=64)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float64": (pa.float64(), FLOATS),
    "decimal": (pa.decimal128(9, 2), st.decimals(-99999, 99999, places=2)),
    "wide": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "string": (pa.string(), st.text(max_size=2)),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "bool": (pa.bool_(), st.booleans()),
}
NUMBERS = ("int32", "uint64", "float64", "decimal", "wide")
NAMES = {
    **dict.fromkeys(("count", "min", "max", "first", "last", "distinct"), tuple(TYPES)),
    **dict.fromkeys(("sum", "avg", "var_pop", "stddev_samp"), NUMBERS),
}
CASES = [(name, kind) for name, kinds in NAMES.items() for kind in kinds]
RESULTS = {
    ("sum", "int32"): pa.int64(),
    ("sum", "uint64"): pa.decimal128(20, 0),
    ("sum", "decimal"): pa.decimal128(19, 2),
    ("sum", "wide"): pa.decimal128(38, 0),
    ("avg", "decimal"): pa.decimal128(13, 6),
    ("avg", "wide"): pa.decimal128(38, 0),
}


def call_of(name: str, kind: str) -> Call:
    argument = Column(0, 0, "x", TYPES[kind][0])
    if name in ("min", "max", "first", "last"):
        return Call(name, argument, argument.type)
    if name in ("count", "distinct"):
        return Call("count", argument, pa.int64(), distinct=name == "distinct")
    return Call(name, argument, RESULTS.get((name, kind), pa.float64()))


def lifting(kind: str, tuples: list[tuple[int, int, Any]], start: int) -> Lifting:
    cells = np.array([cell for cell, _, _ in tuples], np.int32)
    times = np.array([time for _, time, _ in tuples], np.int64)
    vector = vector_of(pa.array([value for *_, value in tuples], TYPES[kind][0]))
    return Lifting(cells, len(tuples), vector, None, times, start)


def results(call: Call, parts: list[Any]) -> list[Any]:
    try:
        return [str(v) for v in aggregate_of(call).lower(tuple(parts)).to_pylist()]
    except DoesNotFit as error:
        return [error.cell, error.value]


@pytest.mark.parametrize(("name", "kind"), CASES)
@examples(15)
@given(st.data())
def test_parts_combine_invert_move_and_are_saved(name: str, kind: str, data: Any) -> None:
    value = st.one_of(st.none(), TYPES[kind][1])
    tuples = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), value), max_size=5)
    one, other = data.draw(tuples), data.draw(tuples)
    call = call_of(name, kind)
    whole = [part.make(3) for part in aggregate_of(call).parts]
    first, second = ([cells.like(3) for cells in whole] for _ in range(2))
    for all_, left, right in zip(whole, first, second, strict=True):
        all_.lift(lifting(kind, one + other, 0))
        left.lift(lifting(kind, one, 0))
        right.lift(lifting(kind, other, len(one)))
    alone = results(call, first)
    for left, right in zip(first, second, strict=True):
        left.combine(right)
    assert results(call, first) == results(call, whole)
    moved = []
    for left in first:
        wider, cells = left.like(5), left.like(3)
        wider.put(np.array([4, 0, 2]), left.take(np.array([1, 2, 0])))
        cells.load(wider.take(np.array([2, 4, 0])).save())
        moved.append(cells)
    assert results(call, moved) == results(call, whole)
    if all(hasattr(cells, "invert") for cells in first):
        for left, right in zip(first, second, strict=True):
            left.invert(right)
        assert results(call, first) == alone


SOME: dict[str, list[Any]] = {
    "string": ["b", "a", "c"],
    "binary": [b"b", b"a", b"c"],
    "bool": [True, False, True],
    "decimal": [Decimal(2), Decimal("-1.5"), Decimal(3)],
    "wide": [Decimal(2), Decimal(-(10**30)), Decimal(3)],
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"), [case for case in CASES if case[0] not in ("first", "last", "distinct")]
)
def test_rows_accumulate(name: str, kind: str, backwards: bool) -> None:
    call, values = call_of(name, kind), SOME.get(kind, [2, 1, 3])
    parts = [part.make(3) for part in aggregate_of(call).parts]
    meant = [cells.like(3) for cells in parts]
    reach = [(i, j) for i in range(3) for j in range(3) if i == j or (j > i) == backwards]
    for cells, other in zip(parts, meant, strict=True):
        cells.lift(lifting(kind, [(i, 0, value) for i, value in enumerate(values)], 0))
        cells.accumulate(3, backwards)  # type: ignore[attr-defined]
        other.lift(lifting(kind, [(i, 0, values[j]) for i, j in reach], 0))
    assert results(call, parts) == results(call, meant)


@tuning.given(distinct_values=8)
def test_values_that_no_cell_holds_are_dropped() -> None:
    call = call_of("distinct", "string")
    [part] = aggregate_of(call).parts
    cells = part.make(2)
    for batch in range(20):
        words = [f"{batch} {i}" for i in range(6)]
        cells.lift(lifting("string", [(batch % 2, 0, word) for word in words], 0))
        assert results(call, [cells])[batch % 2] == "6"
        cells.put(np.array([1 - batch % 2]), cells.like(1))
    assert len(cells._codes._known) <= 30
    assert cells._codes.values(cells.codes_in_use()).to_pylist() == words


def test_a_sum_that_does_not_fit_says_which_and_how_large() -> None:
    call = call_of("sum", "int32")
    parts = [part.make(3) for part in aggregate_of(call).parts]
    large = pa.array([2**62, 2**62, -5], pa.int64())
    for cells in parts:
        cells.lift(Lifting(np.array([1, 1, 2], np.int32), 3, vector_of(large), None, None, 0))
    with pytest.raises(DoesNotFit) as caught:
        aggregate_of(call).lower(tuple(parts))
    assert (caught.value.cell, caught.value.value) == (1, "9223372036854775808")


def test_decimals_are_shown_as_they_are_written() -> None:
    assert [shown(-5, 2), shown(10**20, 0), shown(1, 3)] == ["-0.05", str(10**20), "0.001"]
