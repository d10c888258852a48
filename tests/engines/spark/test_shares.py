"""What a core stores of a join that cores share: its own tuples, and a batch while it lasts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.engines.spark.in_process import Cluster, connected, finish

from penstock.blocks.window.window import StoredWindow
from penstock.engines.spark.core.host import Host

WINDOW, BATCH = 900, 300
QUERIES = {
    "counts": f"r [ROWS {WINDOW}] JOIN s [ROWS {WINDOW}]",
    "times": f"r [RANGE {WINDOW} WATTR t] JOIN s [RANGE {WINDOW} WATTR t]",
    "left": f"r [ROWS {WINDOW}] LEFT JOIN s [ROWS 9]",
    "right": f"r [ROWS 9] RIGHT JOIN s [ROWS {WINDOW}]",
}
DIVIDED = {"left": (0,), "right": (1,)}
"""The windows that are divided, where not both are."""


def batch(first: int) -> pa.RecordBatch:
    numbers = range(first, first + BATCH)
    texts = [None if n % 7 == 0 else f"{n:0100}" for n in numbers]
    return pa.RecordBatch.from_pydict(
        {"t": pa.array(numbers, pa.int64()), "text": pa.array(texts, pa.string())}
    )


def windows(cluster: Cluster) -> list[list[StoredWindow]]:
    """The windows of the one join, core by core."""
    hosts: list[Any] = [core for _, core in cluster.memory._cores.values()]
    assert all(isinstance(host, Host) for host in hosts)
    [queries] = {len(host._all) for host in hosts}
    assert queries == 1
    blocks = [block for host in hosts for block in host._all[0].pipeline.blocks.values()]
    return [list(block.sides) for block in blocks if hasattr(block, "sides")]


def filled(text: str, cores: int) -> tuple[list[list[StoredWindow]], int, int]:
    """The windows of each core after six batches, and the number and the bytes of rows."""
    cluster = Cluster()
    with connected(cluster, cores=cores, compile_predicates=False) as engine:
        engine.sql(
            "CREATE STREAM r (t BIGINT, text STRING); CREATE STREAM s (t BIGINT, text STRING)"
        )
        query = engine.install(f"SELECT r.t, r.text, s.text AS other FROM {text} ON r.t = s.t")
        for first in range(0, 6 * BATCH, BATCH):
            for stream in "rs":
                engine.push(stream, batch(first))
            finish(engine)
        found = windows(cluster)
        rows = query.rows()
    return found, rows.num_rows, query.metrics()["window_bytes"]


@pytest.mark.long
@pytest.mark.parametrize("name", QUERIES)
def test_the_memory_of_a_core_is_its_part_of_the_windows(name: str) -> None:
    whole, rows, alone = filled(QUERIES[name], 1)
    assert rows > WINDOW
    cores = 3
    each, found, together = filled(QUERIES[name], cores)
    assert found == rows
    assert together < 1.5 * alone, "in all, as much as one core"
    for number, sides in enumerate(each):
        for side, one in zip(sides, whole[0], strict=True):
            if side.index not in DIVIDED.get(name, (0, 1)):
                assert side.origin is None and len(side.rows) == len(one.rows)
                continue
            assert side.origin is not None
            numbers = side.origin.view().tolist()
            assert numbers == sorted(numbers)
            assert {n % cores for n in numbers} == {number}
            assert len(side.rows) == len(numbers) == len(one.rows) // cores
            columns = [len(column.values) for column in side.rows.fixed.values()]
            assert columns == [len(numbers)], "guests have left"
            assert sum(b.num_rows for b in side.rows.batches()) == len(numbers)


@pytest.mark.parametrize(("kind", "other"), [("LEFT", "ROWS 1"), ("ANTI", "ROWS 0")])
def test_what_a_change_makes_expire_comes_in_order_from_all_cores(kind: str, other: str) -> None:
    text = "SELECT r.t FROM r [{}] " + kind + " JOIN s [ROWS 9] ON r.t = s.t"
    with connected(Cluster(), cores=3, compile_predicates=False) as engine:
        engine.sql("CREATE STREAM r (t BIGINT); CREATE STREAM s (t BIGINT)")
        query = engine.install(text.format("ROWS 8"))
        for t in range(10):
            engine.push("r", [{"t": t}])
        engine.push("s", [{"t": 4}])
        query.change(text.format(other))
        finish(engine)
        found = query.rows()["t"].to_pylist()
    size = int(other.split()[1])
    assert found == [0, 1] + [4] * (kind == "LEFT") + [t for t in range(2, 10 - size) if t != 4]


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("stored", ["r", "s"])
def test_a_sum_with_a_tuple_of_another_core_may_overflow(stored: str, cores: int) -> None:
    """The core that has the stored tuple does not store the probe that overflows with it."""
    probe, sign = ("s", -1) if stored == "r" else ("r", 1)
    largest = {"r": 2**31 - 1, "s": -(2**31)}[stored]
    with connected(Cluster(), cores=cores, compile_predicates=False) as engine:
        engine.sql("CREATE STREAM r (x INT); CREATE STREAM s (x INT)")
        query = engine.install(
            "SELECT r.x, s.x AS other FROM r [ROWS 9] JOIN s [ROWS 9] ON r.x - s.x > -2"
        )
        engine.push(stored, [{"x": largest}])
        for value in (-sign, sign):
            engine.push(probe, [{"x": value}])
        finish(engine)
        found = [(row["x"], row["other"]) for row in query.rows().to_pylist()]
    assert found == [(largest, 1) if stored == "r" else (-1, largest)]
