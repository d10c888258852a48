"""What may go wrong in a flow: a core that fails, one that is slow, windows too small, no room."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.flows.ways import WAYS, Way
from tests.thresholds import low_thresholds

import penstock as ps
from penstock import tuning
from penstock.errors import BufferFull, PenstockError
from penstock.flows.splitjoin.splitjoin import JoinCore
from penstock.flows.sub_window import SubWindow

STREAMS = "CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, x INT)"
JOIN = "SELECT r.id AS r, s.id AS s FROM R [ROWS {}] r JOIN S [ROWS {}] s ON r.x = s.x"
ONE_WAY = [Way("splitjoin", 2, 2), Way("celljoin", 2)]
CHAINS = [Way("handshake", 2), Way("low-latency-handshake", 2)]
SHARED_OUT = [way for way in WAYS if way.cores > 1]

IN_STEPS = [way for way in SHARED_OUT if way.flow != "handshake"]
"""The flows that give rows a few at a time; the handshake's last come all together."""


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


known: set[threading.Thread] = set()
"""The threads before a test: cores that a test on Spark's double left in memory may have some."""


def flow_threads() -> list[str]:
    alive = [thread for thread in threading.enumerate() if thread not in known]
    return [thread.name for thread in alive if thread.name.startswith("penstock ")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    known.clear()
    known.update(threading.enumerate())
    yield
    assert flow_threads() == []


def records(first: int, count: int, keys: int = 1) -> list[dict[str, int]]:
    return [{"id": i, "x": i % keys} for i in range(first, first + count)]


def pairs(query: Any) -> list[tuple[int, int]]:
    return sorted((row["r"], row["s"]) for row in query.rows().to_pylist())


on_threads = tuning.given(light_probe=-1)
"""No push is so light that the thread that makes it steps the cores itself."""


def fail_in_core_1(patch: pytest.MonkeyPatch, method: str) -> None:
    """Let core 1 fail when it compares number 3 of R, on a thread of its own."""
    search = getattr(SubWindow, method)

    def failing(self: SubWindow, probes: Any, *more: Any) -> Any:
        here = threading.current_thread().name == "penstock core 1"
        if here and probes.side == 0 and 3 in probes.seqs:
            raise ValueError("the core is too hot")
        return search(self, probes, *more)

    patch.setattr(SubWindow, method, failing)


def push_until_it_fails(engine: Any) -> PenstockError:
    with pytest.raises(PenstockError) as error:
        for number in range(6):
            engine.push("R", records(number, 1))
            engine.push("S", records(number, 1))
        engine.wait()
    return error.value


@pytest.mark.parametrize("way", ONE_WAY, ids=str)
@on_threads
def test_a_core_that_fails_stops_its_query_alone(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_in_core_1(monkeypatch, "older_at_once")
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), "hot", **way.options())
        other = engine.install(JOIN.format(9, 9), "cool")
        error = push_until_it_fails(engine)
        assert str(error) == (
            "query 'hot' has failed and is stopped (CoreFailed: core 1 failed at tuples R 3: "
            "ValueError: the core is too hot); every other query has taken the input\n"
            "Drop it, and install it again once its cause is mended; this is a defect of Penstock."
        )
        # What the other core found for the same tuple may have come out before.
        assert set(pairs(query)) - {(3, s) for s in range(3)} == {
            (r, s) for r in range(3) for s in range(3)
        }
        engine.push("S", records(3, 1))
        engine.wait()
        assert pairs(other) == [(r, s) for r in range(4) for s in range(4)]
        assert len(query.metrics()["cores"]) == 2
        query.drop()
        assert flow_threads() == []
        engine.push("S", records(4, 1))
        assert pairs(other) == [(r, 4) for r in range(4)]


def test_a_core_that_fails_at_a_single_tuple_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single-tuple push wakes no thread, and yet the error names the core."""
    step = JoinCore.step

    def failing(self: JoinCore, port: str, message: Any) -> Any:
        if self.name == "core 1" and str(message) == "tuples R 3":
            raise ValueError("the core is too hot")
        return step(self, port, message)

    monkeypatch.setattr(JoinCore, "step", failing)
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), "hot", flow="splitjoin", cores=2)
        error = push_until_it_fails(engine)
        assert str(error) == (
            "query 'hot' has failed and is stopped (CoreFailed: core 1 failed at tuples R 3: "
            "ValueError: the core is too hot); every other query has taken the input\n"
            "Drop it, and install it again once its cause is mended; this is a defect of Penstock."
        )
        assert pairs(query) == [(r, s) for r in range(3) for s in range(3)]


@pytest.mark.parametrize("way", CHAINS, ids=str)
@on_threads
def test_a_core_of_a_chain_that_fails_is_named(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a chain, timing decides whether a tuple comes to a core by itself or with others."""
    fail_in_core_1(monkeypatch, "both" if way.flow == "low-latency-handshake" else "older")
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), "hot", **way.options())
        error = push_until_it_fails(engine)
        assert re.fullmatch(
            r"query 'hot' has failed and is stopped \(CoreFailed: core 1 failed at "
            r"(mark of a flush|(flush with )?R (3|[0-3]\.\.[3-5])): ValueError: the core is "
            r"too hot\); every other query has taken the input\nDrop it, and install it again once "
            r"its cause is mended; this is a defect of Penstock\.",
            str(error),
        )
        query.drop()
        assert flow_threads() == []


@pytest.mark.parametrize("way", ONE_WAY, ids=str)
@pytest.mark.parametrize("order", ["none", "outer", "inner"])
def test_a_slow_core_changes_nothing(way: Way, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core 1 begins a comparison when core 0 has ended it, every time."""
    search, ended = SubWindow.older_at_once, threading.Semaphore(0)

    def slow(self: SubWindow, *given: Any) -> Any:
        name = threading.current_thread().name
        assert name != "penstock core 1" or ended.acquire(timeout=20)
        met = search(self, *given)
        if name == "penstock core 0":
            ended.release()
        return met

    monkeypatch.setattr(SubWindow, "older_at_once", slow)
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), order=order, **way.options())
        plain = engine.install(JOIN.format(9, 9), order=order)
        for start in range(0, 40, 10):
            engine.push("R", records(start, 10, 3))
            engine.push("S", records(start, 10, 3))
        found = pairs(query)
        assert found == pairs(plain)
        assert found


@pytest.mark.parametrize("way", SHARED_OUT, ids=str)
@pytest.mark.parametrize("sizes", [(0, 1), (1, 1), (2, 0), (2, 3)])
def test_windows_smaller_than_the_number_of_cores(way: Way, sizes: tuple[int, int]) -> None:
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(*sizes), **{**way.options(), "cores": 5})
        plain = engine.install(JOIN.format(*sizes))
        for number in range(0, 12, 3):
            engine.push("R", records(number, 2, 2))
            engine.push("S", records(number, 3, 2))
        engine.end()
        assert pairs(query) == pairs(plain)


@pytest.mark.parametrize("way", SHARED_OUT, ids=str)
def test_results_that_wait_outlive_their_query(way: Way) -> None:
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), **way.options())
        engine.push("R", records(0, 5))
        engine.push("S", records(0, 5))
        query.drop()
        assert flow_threads() == []
        assert query.metrics()["undrained_rows"] == 25
        assert pairs(query) == [(r, s) for r in range(5) for s in range(5)]


few_pairs_at_a_time = tuning.given(pairs_per_step=16, pairs_per_message=16, pairs_per_run=16)
"""So few that cores fill what is between them, and must wait for room."""


def push_more_than_fits(engine: Any) -> None:
    """Make 3,600 rows where there is room for ten; the run waits half-way."""
    engine.push("R", records(0, 60))
    with pytest.raises(BufferFull):
        engine.push("S", records(0, 60))
        engine.wait()


@pytest.mark.parametrize("way", IN_STEPS, ids=str)
@few_pairs_at_a_time
def test_an_engine_that_is_closed_in_the_middle_of_a_run_leaves_no_threads(way: Way) -> None:
    with ps.connect("local", compile_predicates=False, buffer_rows=10, push_timeout=0) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(60, 60), **way.options())
        push_more_than_fits(engine)
        assert flow_threads() != []
        engine.close()
        assert flow_threads() == []
        assert query.rows().num_rows > 10


@pytest.mark.parametrize("way", IN_STEPS, ids=str)
@few_pairs_at_a_time
def test_a_run_that_waited_for_room_loses_nothing(way: Way) -> None:
    with ps.connect("local", compile_predicates=False, buffer_rows=10, push_timeout=0) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(60, 60), **way.options())
        push_more_than_fits(engine)
        found: list[tuple[int, int]] = []
        while came := pairs(query):
            found += came
        assert sorted(found) == [(r, s) for r in range(60) for s in range(60)]


# -- conservation -------------------------------------------------------------------------------

TIMED = pa.schema({"t": pa.int64(), "x": pa.int32()})


def check_conservation(metrics: dict[str, Any]) -> None:
    """in = live + expired + late + dead + shed."""
    taken = sum(metrics["window_tuples"]) + sum(metrics["expired_tuples"])
    lost = metrics["late"] + metrics["dead_letters"] + sum(metrics["shed"].values())
    assert sum(metrics["tuples_in"].values()) == taken + lost


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("admission", ["wait", "shed"])
def test_every_tuple_is_live_expired_late_dead_or_shed(way: Way, admission: str) -> None:
    chance = random.Random(11)
    text = (
        "SELECT r.t AS r, s.t AS s FROM R [RANGE 20 WATTR t SLACK 2] r "
        "JOIN S [ROWS 15] s ON r.x = s.x AND r.x > 0"
    )
    with ps.connect("local", compile_predicates=False, buffer_rows=400) as engine:
        for name in "RS":
            engine.stream(name, TIMED)
        query = engine.install(text, **way.options(admission=admission))
        for now in range(0, 200, 10):
            for name in "RS":
                times = [chance.choice((now + i, now - 5, None)) for i in range(10)]
                rows = [{"t": time, "x": chance.randrange(4)} for time in times]
                engine.push(name, rows)
                check_conservation(query.metrics())
            engine.wait()
            if admission == "wait":
                query.drain()
        engine.end()
        metrics = query.metrics()
        check_conservation(metrics)
        assert metrics["late"] and metrics["dead_letters"] and sum(metrics["expired_tuples"])
        assert bool(metrics["shed"]) == (admission == "shed")


@pytest.mark.parametrize("way", [way for way in WAYS if way.flow == "splitjoin"], ids=str)
def test_every_tuple_is_stored_in_one_core_and_compared_in_all(way: Way) -> None:
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(9, 9), **way.options())
        engine.push("R", records(0, 31))
        engine.push("S", records(0, 20))
        cores = query.metrics()["cores"]
        assert [sum(core["stored"][side] for core in cores) for side in (0, 1)] == [31, 20]
        assert [core["probed"] for core in cores] == [[31, 20]] * way.cores
        assert max(core["stored"][0] for core in cores) - min(c["stored"][0] for c in cores) <= 1


@tuning.given(celljoin_k=5)
def test_windows_are_fetched_anew_for_every_few_arrivals() -> None:
    """CellJoin, k = 5: each part of ten arrivals is compared with a copy of the whole window."""
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(JOIN.format(8, 8), **Way("celljoin", 2).options())
        engine.push("R", records(0, 8))
        engine.push("S", records(0, 10))
        cores = query.metrics()["cores"]
        assert [core["stored"] for core in cores] == [[8, 0], [8, 0]]
        assert [core["window"] for core in cores] == [[4, 0], [4, 0]]
        assert [core["matched"] for core in cores] == [40, 40]


@pytest.mark.parametrize("flow", ["splitjoin", "celljoin"])
def test_a_change_of_the_order_is_kept_by_the_cores(flow: str) -> None:
    text = "SELECT r.id AS r, s.id AS s FROM R [ROWS 40] r JOIN S [ROWS 40] s ON r.x = s.x"
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, x INT)")
        q = engine.install(f"{text} EMIT ORDER none", flow=flow, cores=3)
        q.change(f"{text} EMIT ORDER inner")
        for start in range(0, 60, 20):
            for stream in "RS":
                engine.push(stream, [{"id": i, "x": i % 2} for i in range(start, start + 20)])
        rows = [(row["s"] // 20, row["s"], row["r"]) for row in q.rows().to_pylist()]
        by_s = [row for row in rows if row[2] <= row[1] // 20 * 20 + 19]
        assert by_s == sorted(by_s) and len(by_s) > 100


def test_tuples_that_can_match_nobody_are_not_kept_for_the_chain() -> None:
    text = "SELECT r.id AS r, s.id AS s FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x = s.x"
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, x INT)")
        q = engine.install(f"{text} WHERE r.x > 100", flow="handshake", cores=2)
        for _ in range(4):
            engine.push("R", [{"id": i, "x": 1} for i in range(100)])
        assert q.metrics()["window_tuples"][0] == 5
