"""What every kind of block does with messages, whatever it computes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.own_blocks.dedup import DedupBlock

from penstock.blocks.contract import ALONE, Batch, Block, Instructions
from penstock.blocks.run import Run
from penstock.blocks.synchroniser import Synchroniser
from penstock.flows.make import KINDS, register_block
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program
from penstock.sql import own_blocks
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.own_blocks import registered
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream

SCHEMA = pa.schema({"id": pa.int64(), "x": pa.int32()})
QUERIES = {
    "join": "SELECT r.id FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.x",
    "multiway": "SELECT r.id FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.x "
    "JOIN R [ROWS 2] AS q ON s.id < q.id",
    "aggregate": "SELECT COUNT(*) AS n FROM R [ROWS 4 SLIDE 2]",
    "select": "SELECT id FROM R WHERE x > 3",
    "project": "SELECT id + 1 AS next FROM R",
    "union": "SELECT id FROM R UNION ALL SELECT id FROM S",
    "order": "SELECT id FROM B ORDER BY id",
    "screen": "SELECT COUNT(*) AS n FROM dedup(R, key => id) [RANGE 4 SLIDE 2 WATTR x]",
}


@pytest.fixture(autouse=True)
def dedup() -> Iterator[None]:
    register_block("dedup", DedupBlock)
    yield
    del KINDS["dedup"], own_blocks._REGISTERED["dedup"]


def program_of(sql: str) -> Program:
    streams = [Stream.of(name, SCHEMA) for name in "RS"]
    return compile_plan(
        bind(parse_query(sql), Catalog([*streams, Stream.of("B", SCHEMA, bounded=True)]))
    )


def run(*ids: int, at: int = 0) -> Run:
    batch = pa.record_batch([pa.array(ids, pa.int64()), pa.array(ids, pa.int32())], schema=SCHEMA)
    return Run((batch,), np.arange(at, at + len(ids)))


def a_block(kind: str) -> tuple[Block, object]:
    """A block of a kind, unprogrammed, and an instruction for it."""
    body = next(i for i in program_of(QUERIES[kind]).instructions if i.kind_of_block == kind)
    return KINDS[kind](body.block), body


def test_there_is_a_query_for_every_kind() -> None:
    assert QUERIES.keys() == {kind for kind in KINDS if registered(kind) is None}


@pytest.mark.parametrize("kind", QUERIES)
def test_a_block_without_a_program_passes_everything_on(kind: str) -> None:
    block, _ = a_block(kind)
    runs: tuple[Run, ...] = (run(1, 2),) * {"join": 2, "union": 2, "multiway": 3}.get(kind, 1)
    for message in (Batch(0, 2, runs), Instructions(2)):
        made = list(block.step("in", message))
        if kind == "select" and isinstance(message, Batch):
            [(port, passed)] = made
            assert port == "out" and passed.run.inputs == runs[0].inputs
        else:
            assert made == [("out", message)]


@pytest.mark.parametrize("kind", QUERIES)
def test_a_block_hands_every_instruction_on_once(kind: str) -> None:
    block, body = a_block(kind)
    others = Instructions(0, {99: object()})
    own = Instructions(0, {block.number: body, 99: object()}, ALONE)
    for message in (others, own, own, others, Instructions(0)):
        made = list(block.step("in", message))
        assert [one for _, one in made if isinstance(one, Instructions)] == [message]


@pytest.mark.parametrize("kind", QUERIES)
def test_a_block_that_is_programmed_can_be_asked_everything(kind: str) -> None:
    block, body = a_block(kind)
    list(block.step("in", Instructions(0, {block.number: body})))
    again, _ = a_block(kind)
    list(again.step("in", Instructions(0, {block.number: body})))
    again.restore(block.save())
    assert again.save().values == block.save().values
    assert again.measures().keys() == block.measures().keys()
    assert again.nbytes == block.nbytes
    assert block.traits().holds in ("tuples", "groups", None)
    assert set(block.outputs) <= {"out", "letters"}
    block.close()


def test_what_a_change_lets_expire_leaves_after_the_instruction() -> None:
    large, small = (
        program_of(
            f"SELECT r.id FROM R [ROWS {size}] AS r LEFT JOIN S [ROWS 4] AS s ON r.x = s.x"
        ).joins[0]
        for size in (4, 1)
    )
    block = KINDS["join"](large.block)
    list(block.step("in", Instructions(0, {large.block: large})))
    list(block.step("in", Batch(0, 3, (run(1, 2, 3), run()))))
    change = Instructions(3, {small.block: small})
    made = [one for _, one in block.step("in", change)]
    assert made[0] is change
    assert [one.run.positions.tolist() for one in made[1:]] == [[3, 3]]


# -- the synchroniser -----------------------------------------------------------------------


def ids(batch: Batch) -> list[list[int] | None]:
    """Of each slot the first column."""
    return [None if one is None else one.inputs[0].column(0).to_pylist() for one in batch.runs]


def test_batches_go_on_once_every_input_has_come_to_their_end() -> None:
    both = Synchroniser("both", [None, None])
    assert list(both.step("0", Batch(0, 4, (run(1),), is_last=False))) == []
    assert both.needs("0") == ("out",)
    assert list(both.step("0", Batch(0, 4, (run(2),)))) == []
    assert both.needs("0") is None, "the next batch may come before the other input has had this"
    assert list(both.step("1", Batch(0, 4, (run(3),), is_last=False))) == []
    [(port, made)] = both.step("1", Batch(0, 4, (run(),)))
    assert (port, made.first, made.next, ids(made)) == ("out", 0, 4, [[1, 2], [3]])


def test_instructions_go_on_once_between_what_came_before_and_after_them() -> None:
    both = Synchroniser("both", [None, None])
    change = Instructions(4, {7: object()})
    assert list(both.step("0", change.made(run(1)))) == []
    assert list(both.step("0", change)) == []
    assert both.needs("0") is None, "what it brings out there has to wait for the other input"
    assert list(both.step("1", change.made(run(3)))) == []
    (_, before), (_, passed) = both.step("1", change)
    assert ids(before) == [[1], [3]] and passed is change
    assert both.needs("0") == both.needs("1") == ("out",)
    assert list(both.step("0", change.made(run(2)))) == []
    barrier = Instructions(4)
    assert list(both.step("1", barrier)) == []
    (_, after), (_, closed) = both.step("0", barrier)
    assert ids(after) == [[2], None] and closed is barrier
