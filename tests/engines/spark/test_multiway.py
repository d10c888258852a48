"""Joins of three and more streams on the cores of the Spark engine: rows, state and changes."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.in_process import Cluster, DictStore, connected, finish
from tests.thresholds import low_thresholds

import penstock as ps
from penstock import tuning
from penstock.engines.spark.engine import Engine
from penstock.errors import InputError

STREAMS = "; ".join(f"CREATE STREAM {name} (id BIGINT, x INT, t BIGINT)" for name in "ABCDE")
QUERIES = {
    "three": (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [RANGE 20 WATTR t SLACK 6] AS a "
        "JOIN B [RANGE 30 WATTR t SLACK 6] AS b ON a.x = b.x "
        "JOIN C [ROWS 9] AS c ON c.x BETWEEN b.x - 1 AND b.x + 1"
    ),
    "five": (
        "SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d, e.id AS e FROM A [ROWS 5] AS a "
        "JOIN B [RANGE 20 WATTR t SLACK 6] AS b ON a.x = b.x "
        "JOIN C [RANGE 20 WATTR t SLACK 6] AS c ON b.x = c.x "
        "JOIN D [ROWS 6] AS d ON c.x = d.x JOIN E [ROWS 4] AS e ON d.x = e.x EMIT ORDER inner"
    ),
}


@pytest.fixture(autouse=True)
def early() -> Iterator[None]:
    """Indexes and packed windows early, and chunks of a few tuples."""
    with low_thresholds(full_chunk=8):
        yield


def tuples(count: int, seed: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tuples of five streams by turns, out of order, a few of them late."""
    chance = random.Random(seed)
    for number in range(count):
        late = chance.choice((0, 0, 0, 4, 9, 14))
        x = chance.randrange(3)
        yield "ABCDE"[number % 5], {"id": number, "x": x, "t": number - late}


def rows_of(query: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in query.rows().to_pylist()]


def letters_of(query: Any) -> list[tuple[Any, ...]]:
    return sorted((one.kind, one.stream, one.text, one.reason) for one in query.drain_letters())


def embedded(sql: str, given: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any], list[Any]]:
    """The rows and letters of the embedded engine."""
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        query = engine.install(sql)
        for stream, row in given:
            engine.push(stream, [row])
        return rows_of(query), letters_of(query)


@pytest.mark.long
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", QUERIES)
def test_an_engine_that_is_killed_goes_on_with_all_windows(name: str, cores: int) -> None:
    given = list(tuples(150))
    expected = embedded(QUERIES[name], given)
    assert len(expected[0]) > 100
    assert expected[1]
    cluster, chance = Cluster(random.Random(cores)), random.Random(name)
    rows: list[tuple[Any, ...]] = []
    letters: list[tuple[Any, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoint"
        while given:
            with connected(cluster, checkpoint=place, cores=cores) as engine:
                if engine.position == 0:
                    engine.sql(STREAMS)
                    engine.install(QUERIES[name], name="found")
                for stream, row in given[:20]:
                    engine.push(stream, [row])
                    if chance.random() < 0.3:
                        engine._resident.batch()
                given = given[20:]
                finish(engine)
                found = engine.queries["found"]
                rows += rows_of(found)
                letters += letters_of(found)
                engine._checkpoint.close()  # a process that is killed holds no lock any more
    assert (rows, sorted(letters)) == expected


@pytest.mark.long
def test_a_batch_writes_one_chunk_of_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = (
        "SELECT a.id FROM A [ROWS 300] AS a, B [ROWS 300] AS b, C [ROWS 300] AS c "
        "WHERE a.id = b.id AND b.id = c.id"
    )
    puts: list[str] = []
    put = DictStore.put

    def noted(self: Any, key: str, data: bytes) -> None:
        puts.append(key.split("/")[-2])
        put(self, key, data)

    monkeypatch.setattr(DictStore, "put", noted)
    with connected(Cluster()) as engine:
        engine.sql(STREAMS)
        query = engine.install(sql)
        for number in range(332):
            for stream in "ABC":
                engine.push(stream, [{"id": number, "x": 1, "t": number}])
            if number >= 300:
                puts.clear()
                finish(engine)
                chunks = 1 if number > 300 else len(puts) // 3
                assert sorted(puts) == sorted(["R", "S", "S2"] * chunks)
        assert query.metrics()["window_tuples"] == [300, 300, 300]
        assert len(rows_of(query)) == 332


CHANGES = (
    (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [ROWS 3] AS a, B [ROWS 3] AS b, "
        "C [ROWS 3] AS c WHERE a.x = b.x AND b.x = c.x",
        [("A", 1), ("A", 2), ("B", 3), ("C", 4)],
        [(1, 3, 4), (2, 3, 4)],
    ),
    (  # the windows are kept, A's is cut to its last tuple, and there is another column
        "SELECT c.id AS c, a.id + b.id AS both FROM A [ROWS 1] AS a, B [ROWS 3] AS b, "
        "C [ROWS 3] AS c WHERE a.x = b.x AND b.x = c.x",
        [("B", 5)],
        [(4, 7)],
    ),
    (  # a larger window fills up from here on: the tuple that was cut off does not return
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [ROWS 9] AS a, B [ROWS 3] AS b, "
        "C [ROWS 3] AS c WHERE a.x <= b.x AND b.x = c.x",
        [("A", 6), ("C", 7)],
        [(6, 3, 4), (6, 5, 4), (2, 3, 7), (2, 5, 7), (6, 3, 7), (6, 5, 7)],
    ),
)


@pytest.mark.parametrize("restart", [False, True])
def test_a_change_keeps_the_windows(restart: bool, tmp_path: Path) -> None:
    cluster = Cluster()
    engines: list[Any] = []

    def start() -> Engine:
        engines.append(connected(cluster, checkpoint=tmp_path / "checkpoint"))
        engine: Engine = engines[-1].__enter__()
        return engine

    engine = start()
    engine.sql(STREAMS)
    engine.install(CHANGES[0][0], name="found")
    for number, (sql, given, expected) in enumerate(CHANGES):
        if number:
            engine.change("found", sql)
        if restart:  # the instruction is in the log, and no core has seen it yet
            engine._checkpoint.close()
            cluster.memory.clear()
            engine = start()
        for stream, id in given:
            engine.push(stream, [{"id": id, "x": 1, "t": id}])
        finish(engine)
        assert rows_of(engine.queries["found"]) == expected
    for one in reversed(engines):
        one.__exit__(None, None, None)


def measured(engine: Any) -> dict[str, Any]:
    engine.sql(STREAMS)
    query = engine.install(QUERIES["five"])
    assert query.metrics()["window_tuples"] == [0] * 5
    for stream, row in tuples(100):
        engine.push(stream, [row])
    if isinstance(engine, Engine):
        finish(engine)
    found: dict[str, Any] = query.metrics()
    return found


def test_metrics_have_a_figure_for_each_window() -> None:
    with ps.connect("local") as local:
        expected = measured(local)
    assert len(expected["window_tuples"]) == len(expected["expired_tuples"]) == 5
    same = ("tuples_in", "rows_out", "late", "matches", "window_tuples", "expired_tuples")
    for cores in (1, 2):
        with connected(Cluster(random.Random(cores)), cores=cores) as engine:
            found = measured(engine)
        assert [found[name] for name in same] == [expected[name] for name in same]
        assert set(found) == set(expected) - {"accounts"}, "which only the embedded engine tells"
        [whole] = [core["stored"] for core in expected["cores"]]
        by_stream = list(zip(*(core["stored"] for core in found["cores"]), strict=True))
        every = [(count,) * cores == each for count, each in zip(whole, by_stream, strict=True)]
        divided = [sum(each) == count for count, each in zip(whole, by_stream, strict=True)]
        assert [sum(every), sum(divided)] == ([5, 5] if cores == 1 else [4, 1])


def test_a_flow_of_pairs_is_refused() -> None:
    with connected(Cluster()) as engine:
        engine.sql(STREAMS)
        with pytest.raises(InputError) as caught:
            engine.install(QUERIES["three"], flow="splitjoin")
        assert str(caught.value) == (
            "the flow splitjoin shares joins of two streams, and the query joins 3\n"
            "Leave the flow out: on Spark, the design parallel shares a join of three and more "
            "streams."
        )
        assert (
            "flow: none, since a join of three and more streams has a design\n"
            "design cascade: estimated cost of an arrival, in comparisons: 820,706 (mjoin), 5,992 "
            "(cascade, which stores 16,384 combinations); " in engine.explain(QUERIES["three"])
        )


@pytest.mark.parametrize("design", ["circular", "linear", "stashed"])
def test_the_threads_of_a_design_end_with_the_memory_of_the_worker(design: str) -> None:
    before = set(threading.enumerate())
    cluster = Cluster()
    with connected(cluster, compile_predicates=False) as engine:
        engine.sql(STREAMS)
        engine.install(QUERIES["three"], "q", design=design)
        engine.push("A", [{"id": 0, "x": 1, "t": 0}])
        finish(engine)
        running = set(threading.enumerate()) - before
        assert {thread.name.partition(" ")[0] for thread in running} == {"penstock"}
        cluster.stores[0].roll_back()
        cluster.memory.clear()
        assert set(threading.enumerate()) - before == set()
        engine.push("A", [{"id": 1, "x": 1, "t": 1}])
        finish(engine)
    cluster.memory.clear()
    assert set(threading.enumerate()) - before == set()


@tuning.given(first_order_revision=1 << 20)
def test_a_stash_is_made_anew_after_a_restart(tmp_path: Path) -> None:
    """EXPLAIN says so, and metrics: it is empty, and invalid while older tuples are live."""
    sql = (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b "
        "ON a.x = b.x JOIN C [ROWS 9] AS c ON b.x = c.x"
    )
    given = [("ABC"[n % 3], {"id": n, "x": n // 3, "t": n}) for n in range(90)]
    cluster = Cluster()
    stashes: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    for part in (given[:15], given[15:18], given[18:]):
        with connected(cluster, checkpoint=tmp_path / "checkpoint") as engine:
            if engine.position == 0:
                engine.sql(STREAMS)
                engine.install(sql, "found", design="stashed")
                assert "state: the windows; the stash is made anew after a restart" in (
                    engine.explain(sql, design="stashed")
                )
            for stream, row in part:
                engine.push(stream, [row])
            finish(engine)
            query = engine.queries["found"]
            rows += rows_of(query)
            [stash] = [s for core in query.metrics()["cores"] for s in core.get("stash", [])]
            stashes.append(stash)
            engine._checkpoint.close()
        if len(stashes) == 1:
            cluster.memory.clear()
    assert [one["state"] for one in stashes[:2]] == ["valid", "invalid"]
    assert [one["fill"] for one in stashes[:2]] == [5, 1]
    assert [one["hits"] for one in stashes[:2]] == [5, 0]
    assert stashes[2]["recoveries"] > 0
    assert rows == embedded(sql, given)[0]
    cluster.memory.clear()
