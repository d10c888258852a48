"""A block that is defined outside the package: installed, changed and restarted on both engines."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.flows.make import KINDS
from penstock.oracle.oracle import Oracle
from penstock.sql import own_blocks
from penstock.streams.schema import Stream
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.own_blocks.dedup import DedupBlock

STREAM = "CREATE STREAM R (id BIGINT, x BIGINT)"
BY_ID = "SELECT id, x FROM dedup(R, key => id)"
BY_X = "SELECT id, x FROM dedup(R, key => x)"
ROWS = [(1, 5), (1, 6), (2, 6), (2, 6), (1, 6), (1, 7)]


@pytest.fixture(autouse=True)
def dedup() -> Iterator[None]:
    ps.register_block("dedup", DedupBlock)
    yield
    KINDS.pop("dedup", None)
    own_blocks._REGISTERED.pop("dedup", None)


def tuples(*rows: tuple[int, int]) -> list[dict[str, int]]:
    return [{"id": one, "x": x} for one, x in rows]


def found(query: Any) -> list[tuple[int, int]]:
    return [(row["id"], row["x"]) for row in query.rows().to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 6])
def test_it_runs_in_this_process(size: int) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID)
        for start in range(0, len(ROWS), size):
            engine.push("R", tuples(*ROWS[start : start + size]))
        assert found(query) == [(1, 5), (2, 6), (1, 6)]
        assert query.metrics()["duplicates"] == 3
        assert "#1 dedup #0: key => id" in str(query.explain())


def test_a_live_change_takes_effect_at_its_position() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID)
        engine.push("R", tuples(*ROWS[:3]))
        query.change(BY_X)
        engine.push("R", tuples(*ROWS[3:]))
        assert found(query) == [(1, 5), (2, 6), (2, 6), (1, 7)]


def test_a_saved_engine_goes_on(tmp_path: Path) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:4]))
        engine.save(tmp_path / "saved")
    with ps.restore(tmp_path / "saved") as again:
        again.push("R", tuples((2, 9), *ROWS[4:]))
        assert found(again.queries["q"]) == [(1, 5), (2, 6), (1, 6)]


def test_a_process_that_has_not_registered_it_finds_it_by_its_module(tmp_path: Path) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:4]))
        engine.save(tmp_path / "saved")
    del KINDS["dedup"], own_blocks._REGISTERED["dedup"]
    with ps.restore(tmp_path / "saved") as again:
        again.push("R", tuples(*ROWS[4:]))
        assert found(again.queries["q"]) == [(1, 5), (2, 6), (1, 6)]


def test_its_rows_can_be_named_and_joined() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.sql("CREATE STREAM D AS SELECT id, x FROM dedup(R, key => id)")
        query = engine.install(
            "SELECT a.id AS id, b.x AS x FROM D [ROWS 9] AS a JOIN D [ROWS 9] AS b ON a.x < b.x"
        )
        engine.push("R", tuples(*ROWS))
        assert found(query) == [(1, 6), (1, 6)]


def test_it_runs_in_cores_that_restart_and_fail(tmp_path: Path) -> None:
    cluster = Cluster(random.Random(5))
    with connected(cluster, checkpoint=tmp_path / "c", cores=2) as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:3]))
        finish(engine)
        made = found(query)
        query.change(BY_X)
        engine.push("R", tuples(ROWS[3]))
        finish(engine)
        made += found(query)
    with connected(cluster, checkpoint=tmp_path / "c", cores=2) as again:
        again.push("R", tuples(*ROWS[4:]))
        finish(again)
        made += found(again.queries["q"])
    assert made == [(1, 5), (2, 6), (2, 6), (1, 7)]


def test_the_oracle_says_that_it_does_not_know_it() -> None:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int64()})))
    with pytest.raises(ps.InputError, match=r"the oracle does not know what dedup\(\) means"):
        oracle.install("q", BY_ID)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT id FROM dedup(R)", "dedup lacks the argument key"),
        ("SELECT id FROM dedup(R, k => id)", "dedup has no argument k here"),
        ("SELECT id FROM dedup(R, key => id + 1)", "key => (id + 1) is neither a column nor a"),
        ("SELECT id FROM dedup(R, key id)", "syntax error: expected => but found 'id'"),
        ("SELECT id FROM dedup(R, key => id) [ROWS 4]", "a window over dedup(...) is not"),
        ("SELECT COUNT(*) FROM dedup(R, key => id)", "an aggregate over dedup(...) is not"),
        ("SELECT id FROM dedup(Q, key => id)", "unknown stream 'Q'"),
        ("SELECT id FROM dedupe(R, key => id)", "the function DEDUPE in FROM is not supported"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(sql: str, what: str) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        with pytest.raises(ps.SqlError) as caught:
            engine.install(sql)
    assert str(caught.value).startswith(what)


def test_a_name_is_of_one_block() -> None:
    class Other(DedupBlock):
        pass

    with pytest.raises(ps.InputError, match="there is a block named 'dedup' already"):
        ps.register_block("dedup", Other)
    with pytest.raises(ps.InputError, match="join is a kind of block that there is"):
        ps.register_block("join", Other)
