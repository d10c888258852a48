"""ORDER BY and LIMIT: rows come in order, as many as are wanted, when all have come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.blocks.contract import Batch, program
from penstock.blocks.order import OrderBlock
from penstock.blocks.run import EndOfStream, Run
from penstock.program.isa.block_instructions import OrderRows
from penstock.sql.expressions import Column
from penstock.sql.plan import SortKey

NAN = float("nan")


def key(column: int, kind: pa.DataType, **options: bool) -> SortKey:
    return SortKey(Column(0, column, f"c{column}", kind), **options)


def run(*columns: pa.Array[Any], end: int | None = None) -> Run:
    batch = pa.RecordBatch.from_arrays(list(columns), [f"c{i}" for i in range(len(columns))])
    controls = () if end is None else (EndOfStream(end),)
    return Run((batch,), np.arange(batch.num_rows), controls)


def order(*sort: SortKey, limit: int | None = None, window: int | None = None) -> OrderBlock:
    block = OrderBlock(1)
    program(block, OrderRows(1, 0, sort, limit, window))
    return block


def sort(block: OrderBlock, run: Run) -> Run:
    """What a block makes of a run."""
    [(port, made)] = block.step("in", Batch(0, 1, (run,)))
    assert port == "out"
    return made.run


@pytest.mark.parametrize(
    ("values", "options", "meant"),
    [
        (pa.array([2, None, 1]), {}, [None, 1, 2]),
        (pa.array([2, None, 1]), {"nulls_first": False}, [1, 2, None]),
        (pa.array([2, None, 1]), {"descending": True}, [None, 2, 1]),
        (pa.array([0.5, NAN, -1.0, float("inf")]), {}, [-1.0, 0.5, float("inf"), NAN]),
        (pa.array(["b", "ä", None, "B"]), {"descending": True}, [None, "ä", "b", "B"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), {}, [0, 2**64 - 1]),
        (pa.array([10**30, -1, None], pa.decimal128(38, 0)), {}, [None, -1, 10**30]),
        (pa.array([True, False]), {}, [False, True]),
        (pa.array([b"b", b"a\0"], pa.binary()), {}, [b"a\0", b"b"]),
    ],
)
def test_values_are_sorted_as_sql_compares_them(
    values: pa.Array[Any], options: dict[str, bool], meant: list[Any]
) -> None:
    made = sort(order(key(0, values.type, **options)), run(values, end=9))
    assert str(made.inputs[0].column(0).to_pylist()) == str(
        pa.array(meant, values.type).to_pylist()
    )
    assert set(made.positions.tolist()) == {9}


def test_equal_rows_stay_as_they_came_and_nothing_comes_before_the_end() -> None:
    block = order(key(0, pa.int64(), descending=True))
    first = sort(block, run(pa.array([1, 2, 1]), pa.array(["a", "b", "c"])))
    assert len(first) == 0
    made = sort(block, run(pa.array([2, 1]), pa.array(["d", "e"]), end=7))
    assert made.inputs[0].column(1).to_pylist() == ["b", "d", "a", "c", "e"]


def test_a_limit_keeps_no_more_than_may_come_first() -> None:
    block = order(key(0, pa.int64()), limit=3)
    for start in range(0, 20_000, 1000):
        sort(block, run(pa.array(np.arange(start, start + 1000)[::-1])))
    assert block.nbytes < 8 * 6000
    made = sort(block, run(pa.array([1, -1]), end=3))
    assert made.inputs[0].column(0).to_pylist() == [-1, 0, 1]


def test_each_window_is_sorted_and_cut_by_itself() -> None:
    block = order(key(0, pa.int64()), limit=2, window=1)
    values, windows = pa.array([3, 1, 2, 5, 4]), pa.array([10, 10, 10, 20, 20])
    made = sort(block, run(values, windows))
    assert made.inputs[0].column(0).to_pylist() == [1, 2, 4, 5]
    assert made.inputs[0].column(1).to_pylist() == [10, 10, 20, 20]
    assert made.positions.tolist() == [1, 2, 4, 3]


def test_without_keys_a_limit_takes_the_first_rows() -> None:
    made = sort(order(limit=2), run(pa.array([3, 1, 2]), end=0))
    assert made.inputs[0].column(0).to_pylist() == [3, 1]


def test_what_is_held_is_saved() -> None:
    block = order(key(0, pa.int64()))
    sort(block, run(pa.array([3, 1])))
    again = order(key(0, pa.int64()))
    again.restore(block.save())
    made = sort(again, run(pa.array([2]), end=5))
    assert made.inputs[0].column(0).to_pylist() == [1, 2, 3]
