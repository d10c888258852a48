"""Tuples that are folded in parts, and merged, make the windows that they make in one piece."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.blocks.aggregate.block import AggregateBlock
from penstock.blocks.aggregate.folding import Folding, owners
from penstock.blocks.contract import Batch, Partials, program
from penstock.blocks.run import Run
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import AggregateRows
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64())])
SQL = (
    "SELECT k, COUNT(*), SUM(x), MIN(x), VAR_SAMP(x), COUNT(DISTINCT x), window_end "
    "FROM r [RANGE 10 SLIDE 4 WATTR t SLACK 3] WHERE x > 0.1 GROUP BY k"
)


def instruction(sql: str) -> AggregateRows:
    plan = bind(parse_query(sql), Catalog([Stream.of("r", SCHEMA)]))
    found = [i for i in compile_plan(plan).instructions if isinstance(i, AggregateRows)]
    return found[0]


def batch(seed: int, size: int) -> pa.RecordBatch:
    chance = np.random.default_rng(seed)
    columns = [
        pa.array(chance.permutation(np.arange(size) // 5)),
        pa.array([None if i == 3 else f"k{i}" for i in chance.integers(0, 7, size)]),
        pa.array(chance.random(size)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def aggregate(body: AggregateRows) -> AggregateBlock:
    block = AggregateBlock(body.block)
    program(block, body)
    return block


def made(block: AggregateBlock, message: Batch | Partials) -> tuple[list[Run], dict[str, int]]:
    """The runs that a message leads to, and how many tuples it could not take."""
    sent = list(block.step("in", message))
    runs = [one.run for port, one in sent if port == "out"]
    return runs, {one.kind: one.count for port, one in sent if port == "letters"}


def rows(runs: list[Run]) -> list[tuple[object, ...]]:
    found = [run.inputs[0] for run in runs if len(run)]
    return [tuple(row.values()) for one in found for row in one.to_pylist()]


@pytest.mark.parametrize("cores", [1, 3])
def test_parts_make_the_rows_of_the_whole(cores: int) -> None:
    body, tuples = instruction(SQL), batch(1, 200)
    order = pa.compute.sort_indices(tuples, [("t", "ascending")])
    whole = aggregate(body)
    run = Run((tuples.take(order),), np.arange(200))
    expected = rows(made(whole, Batch(0, 200, (run,)))[0])
    blocks = [aggregate(body) for _ in range(cores)]
    foldings = [Folding(body, "r") for _ in range(2)]
    for start in range(0, 200, 40):
        foldings[start // 40 % 2].take(tuples.slice(start, 40))
    parts = [folding.parts(cores) for folding in foldings]
    found = []
    for core, block in enumerate(blocks):
        runs, missed = made(block, Partials(0, tuple(part[core] for part in parts)))
        assert missed["late"] == 0
        assert None not in [part[core].highest for part in parts]
        found += rows(runs)
    key = [str(row) for row in expected]
    assert sorted(map(str, found)) == sorted(key)
    assert len(expected) > 50


def test_tuples_that_missed_a_window_are_counted_and_count_in_the_others() -> None:
    block, folding = aggregate(instruction(SQL)), Folding(instruction(SQL), "r")
    columns = [pa.array([1, 9, 30]), pa.array(["a"] * 3), pa.array([1.0] * 3)]
    folding.take(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    [part] = folding.parts(1)
    assert (part.tuples, part.highest, part.seen.tolist()) == (3, 30, [0, 4, 15])
    runs, missed = made(block, Partials(0, (part,)))
    assert missed == {"late": 0, "dead": 0}
    assert [row[-1] for row in rows(runs)] == [2, 6, 10, 14, 18]
    columns = [pa.array([21, 20, None]), pa.array(["a"] * 3), pa.array([1.0, 0.0, 1.0])]
    folding.take(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    [part] = folding.parts(1)
    assert (part.tuples, part.dead, part.highest) == (3, 1, 21)
    runs, missed = made(block, Partials(1, (part, replace(part, tuples=0, dead=0, highest=100))))
    assert missed == {"late": 4, "dead": 1}, "of each part, one that WHERE would have dropped"
    assert [row[-1] for row in rows(runs)] == [30, 34, 38]


def test_a_group_is_of_one_core_everywhere() -> None:
    keys = pa.record_batch({"k0": ["a", "b", None, "a"], "k1": pa.array([1, 2, 3, 1])})
    found = owners(keys, 5).tolist()
    assert found[0] == found[3]
    # These numbers are in checkpoints: a state is divided by them.
    assert found == owners(keys.slice(0, 4), 5).tolist()
    assert len(set(owners(pa.record_batch({"k": pa.array(range(100))}), 4).tolist())) == 4
