"""The OP-Block: resets and their policies, result ports, and queries that fail beside others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.blocks.contract import Site
from penstock.blocks.run import Run
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.processor.fqp.processor import MadeStream, Processor
from penstock.processor.op_block.messages import QueryOutput, SharedRows
from penstock.processor.query_assigner.query_assigner import QueryAssigner
from penstock.processor.topology.load import load_topology
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.op_instructions import OPInstruction, ReadPorts, ResetBlock, ResultPort

JOIN = "SELECT r.x, s.a FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.a"
SELECTION = "SELECT r.x FROM R AS r WHERE r.x > 1"
NUMBERS = {"r": 0, "s": 1}
ASSIGNER = QueryAssigner(load_topology("fqp:chain:2:8"))


def program(query: str, block: int) -> Program:
    """A query's program, on a block."""
    engine = Engine(topology="fqp:chain:2:8", compile_predicates=False)
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
    if block == 2:
        engine.install(JOIN, name="before")
    return engine.install(query, name="q").program


def told(number: int, query: str, block: int = 1) -> list[OPInstruction]:
    """What a block is told when a query starts: a reset comes first."""
    found = ASSIGNER.instructions(
        number, program(query, block), None, NUMBERS.__getitem__, is_new=True
    )
    assert found[0] == OPInstruction(block, number, ResetBlock("final"))
    return found


class Sender:
    """Sends instructions and tuples to a topology of two blocks."""

    def __init__(self) -> None:
        self.processor = Processor(ASSIGNER.topology)
        for name in NUMBERS:
            self.processor.stream_number(name)
        self.position = 0

    def program(self, *instructions: OPInstruction) -> None:
        assert list(self.processor.program(instructions, self.position, Site())) == []

    def push(self, stream: str, *values: int) -> list[tuple[str, list[tuple[int, ...]]]]:
        """What leaves: the rows of queries by their numbers, and streams by their names."""
        column = {"r": "x", "s": "a"}[stream]
        batch = pa.record_batch({column: pa.array(values, pa.int32())})
        first, self.position = self.position, self.position + len(values)
        run = Run((batch,), range(first, self.position))
        sent = self.processor.take({stream: run}, first, self.position)
        return [(name, rows) for made in sent for name, rows in _rows(made) if rows]


def _rows(
    made: QueryOutput | SharedRows | MadeStream,
) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    if isinstance(made, SharedRows):
        named = [(f"query {query}", run) for query, run in made.each()]
    elif isinstance(made, MadeStream):
        named = [(f"stream {made.stream}", made.run)]
    else:
        named = [(f"query {made.query}", made.message.run)]
    for name, run in named:
        rows = run.plain.inputs[0].to_pylist()
        yield name, [tuple(row.values()) for row in rows]


def test_a_reset_empties_the_windows_of_its_query_and_no_others() -> None:
    sender = Sender()
    sender.program(*told(3, JOIN), *told(4, JOIN, 2))
    assert sender.push("r", 1, 2) == []
    sender.program(*told(3, JOIN))
    assert sender.push("s", 2) == [("query 4", [(2, 2)])]
    assert sender.push("r", 2) == [("query 3", [(2, 2)]), ("query 4", [(2, 2)])]


def test_a_reset_of_every_query_empties_the_query_buffer_of_its_block() -> None:
    sender = Sender()
    sender.program(*told(3, SELECTION), *told(4, JOIN, 2), *told(5, SELECTION))
    assert sender.push("r", 2) == [("query 3", [(2,)]), ("query 5", [(2,)])]
    sender.program(OPInstruction(1, 3, ResetBlock("final", every_query=True)))
    assert list(sender.processor.blocks[1].queries.parts) == [3]
    assert sender.push("r", 3) == []
    assert sender.push("s", 2) == [("query 4", [(2, 2)])]


@pytest.mark.parametrize(
    ("port", "leaves"),
    [("final", ["query 3"]), ("stream-r", ["stream d"]), ("both", ["query 3", "stream d"])],
)
@pytest.mark.parametrize("count", (1, 5))
def test_a_reset_sets_the_result_port(port: ResultPort, leaves: list[str], count: int) -> None:
    """By which rows leave: as a result, to the next block, or both; also if selections share."""
    sender = Sender()
    gives = None if port == "final" else sender.processor.stream_number("d")
    rest = told(3, SELECTION)[2:]
    sender.program(
        OPInstruction(1, 3, ResetBlock(port)), OPInstruction(1, 3, ReadPorts((0,), ("r",), gives)),
        *rest, *(one for number in range(4, 3 + count) for one in told(number, SELECTION)),
    )  # fmt: skip
    others = [f"query {number}" for number in range(4, 3 + count)]
    found = sender.push("r", 1, 2)
    assert sorted(name for name, _ in found) == sorted([*leaves, *others])
    assert all(rows == [(2,)] for _, rows in found)


def test_a_query_that_fails_leaves_the_others_of_its_blocks_alone() -> None:
    engine = Engine(topology="fqp:chain:4:40", compile_predicates=False)
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
    engine.sql("CREATE STREAM D AS SELECT r.x FROM R AS r WHERE r.x > 1")
    bad = engine.install(JOIN, name="bad")
    good = engine.install(JOIN.replace("FROM R", "FROM D"), name="good")
    few = engine.install(SELECTION, name="few")
    block = engine._processor.blocks[bad.program.flow.blocks[0]]  # type: ignore[union-attr,index]
    [part] = block.queries.parts.values()

    def broken(*given: object) -> Iterator[object]:
        raise RuntimeError("the join broke")

    for number in part.blocks:
        part.blocks[number].step = broken  # type: ignore[method-assign,assignment]
    with pytest.raises(QueryFailed) as caught:
        engine.push("R", [{"x": 2}, {"x": 1}])
    assert str(caught.value) == (
        "query 'bad' has failed and is stopped (RuntimeError: the join broke); every other query "
        "has taken the input\nDrop it, and install it again once its cause is mended; this is a "
        "defect of Penstock."
    )
    engine.push("S", [{"a": 2}, {"a": 1}])
    assert good.rows().to_pylist() == [{"x": 2, "a": 2}]
    assert few.rows().to_pylist() == [{"x": 2}]
    engine.drop("bad")
    assert [len(one.queries) for one in engine._processor.blocks.values()] == [2, 0, 1, 0]  # type: ignore[union-attr]
    again = engine.install(JOIN, name="again")
    assert again.program.flow.blocks == bad.program.flow.blocks
    engine.push("S", [{"a": 5}])
    engine.push("R", [{"x": 5}])
    assert again.rows().to_pylist() == [{"x": 5, "a": 5}]
    assert good.rows().to_pylist() == [{"x": 5, "a": 5}]
