"""Bounded buffers, bounded windows, bounded memory, and pushes from many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import as_events, on_oracle

import penstock as ps
from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.engines.shared import query as query_module
from penstock.engines.shared.query import Query
from penstock.errors import BufferFull, MemoryLimit

CROSS = "SELECT r.x, s.x AS y FROM R [ROWS {rows}] AS r JOIN S [ROWS {rows}] AS s ON TRUE"
A_WHILE = 60.0


def connect(**options: Any) -> Engine:
    engine = ps.connect("local", compile_predicates=False, **options)
    engine.sql("CREATE STREAM R (x BIGINT); CREATE STREAM S (x BIGINT)")
    return engine


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"x": pa.array(range(start, stop), pa.int64())})


def values(query: Query, column: str = "x") -> list[int]:
    return query.rows()[column].to_pylist()


# -- results --------------------------------------------------------------------------------


def test_a_push_waits_until_another_thread_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()
    wait = Query._wait_for_room

    def told(query: Query, seconds: float) -> bool:
        waiting.set()
        return wait(query, seconds)

    monkeypatch.setattr(query_module.Query, "_wait_for_room", told)
    engine = connect(buffer_rows=10, batch_rows=10, push_timeout=A_WHILE)
    q = engine.install("SELECT x FROM R")
    with ThreadPoolExecutor(1) as pool:
        push = pool.submit(engine.push, "R", numbers(0, 100))
        assert waiting.wait(A_WHILE)
        assert not push.done()
        drained: list[int] = []
        while not push.done():
            drained += values(q)
        push.result(A_WHILE)
    drained += values(q)
    assert drained == list(range(100))


def test_a_full_buffer_says_whom_to_drain_and_nothing_is_lost() -> None:
    engine = connect(buffer_rows=10, batch_rows=4, push_timeout=0.01)
    q = engine.install("SELECT x FROM R", name="slow")
    idle = engine.install("SELECT x FROM S", name="idle")
    with pytest.raises(BufferFull) as caught:
        engine.push("R", numbers(0, 100))
    assert str(caught.value) == (
        "query 'slow' holds 12 rows and 0 letters that nobody has drained in 0.01 seconds; "
        "12 tuples of this push were taken\n"
        "Call rows(), late() and dead_letters() of 'slow', then push the rest; or connect with a "
        "larger buffer_rows or push_timeout."
    )
    assert caught.value.taken == 12
    with pytest.raises(BufferFull) as again:
        engine.push("R", numbers(12, 100))
    assert again.value.taken == 0
    assert "; 0 tuples of this push were taken" in str(again.value)
    assert q.metrics()["undrained_rows"] == 12
    drained = push_all(engine, q, numbers(12, 100))
    assert drained == list(range(100))
    engine.push("S", numbers(0, 1))
    assert values(idle) == [0]


def push_all(engine: Engine, query: Query, table: pa.Table) -> list[int]:
    """Push the table, and drain only when the engine asks for it."""
    drained = values(query)
    while table.num_rows:
        try:
            engine.push("R", table)
        except BufferFull as full:
            table = table.slice(full.taken)
            drained += values(query)
        else:
            break
    return drained + values(query)


def test_taken_counts_records_that_were_no_tuples() -> None:
    engine = connect(buffer_rows=3, batch_rows=2, push_timeout=0.0)
    q = engine.install("SELECT x FROM R")
    rows: list[dict[str, object]] = [{"x": i if i % 5 else "?"} for i in range(20)]
    drained: list[int] = []
    while rows:
        try:
            engine.push("R", rows)
        except BufferFull as full:
            rows = rows[full.taken :]
            drained += values(q)
            q.dead_letters()
        else:
            break
    assert drained + values(q) == [i for i in range(20) if i % 5]
    assert q.metrics()["dead_letters"] == 4


@pytest.mark.parametrize("drains", ["rows", "drain"])
def test_one_push_may_make_more_rows_than_the_buffer_holds(drains: str) -> None:
    engine = connect(buffer_rows=500, batch_rows=64, push_timeout=0.0)
    q = engine.install(CROSS.format(rows=200))
    engine.push("S", numbers(0, 200))
    pairs: list[tuple[int, int]] = []
    most = 0

    def drain() -> None:
        nonlocal most
        most = max(most, q.metrics()["undrained_rows"])
        if drains == "rows":
            pairs.extend((row["x"], row["y"]) for row in q.rows().to_pylist())
        else:
            for result in q.drain():
                pairs.extend((row["x"], row["y"]) for row in result.batch.to_pylist())

    table = numbers(0, 300)
    while table.num_rows:
        try:
            engine.push("R", table)
        except BufferFull as full:
            table = table.slice(full.taken)
            drain()
        else:
            break
    while q.metrics()["undrained_rows"]:
        drain()
    assert pairs == [(x, y) for x in range(300) for y in range(200)]
    assert most < 500 + 64 * 200 + 1


@tuning.given(pairs_per_step=1000)
@pytest.mark.parametrize(
    "design", ["mjoin", "cascade", "shared", "parallel", "stashed", "circular"]
)
def test_rows_of_three_streams_that_explode_wait_and_none_is_lost(design: Any) -> None:
    engine = connect(buffer_rows=500, batch_rows=4, push_timeout=0.0)
    engine.sql("CREATE STREAM T (x BIGINT)")
    with pytest.warns(UserWarning, match="an arrival can make up to 1,200 rows"):
        q = engine.install(
            "SELECT r.x, s.x AS y, t.x AS z "
            "FROM R [ROWS 20] AS r, S [ROWS 30] AS s, T [ROWS 40] AS t EMIT ORDER inner",
            name="all",
            design=design,
        )
    engine.push("S", numbers(0, 30))
    engine.push("T", numbers(0, 40))
    table, found, most = numbers(0, 20), [], 0
    with pytest.raises(BufferFull) as caught:
        engine.push("R", table)
    taken = caught.value.taken
    waiting = q.metrics()["undrained_rows"]
    assert str(caught.value) == (
        f"query 'all' holds {waiting} rows and 0 letters that nobody has drained in 0 seconds; "
        f"{taken} tuples of this push were taken\n"
        "Call rows(), late() and dead_letters() of 'all', then push the rest; or connect with a "
        "larger buffer_rows or push_timeout."
    )
    table = table.slice(taken)
    while table.num_rows:
        most = max(most, q.metrics()["undrained_rows"])
        found += [tuple(row.values()) for row in q.rows().to_pylist()]
        try:
            engine.push("R", table)
            break
        except BufferFull as full:
            table = table.slice(full.taken)
    while q.metrics()["undrained_rows"]:
        found += [tuple(row.values()) for row in q.rows().to_pylist()]
    assert found == [(x, y, z) for x in range(20) for y in range(30) for z in range(40)]
    # A step has the rows of one tuple at least.
    assert 500 < most < 500 + 4 * 1200 + 1


@tuning.given(pairs_per_step=1000)
def test_pairs_are_made_in_steps_of_bounded_size() -> None:
    engine = connect(buffer_rows=2000, push_timeout=0.0)
    q = engine.install(CROSS.format(rows=300))
    engine.push("S", numbers(0, 300))
    with pytest.raises(BufferFull) as caught:
        engine.push("R", numbers(0, 300))
    assert caught.value.taken == 300
    count = 0
    while held := q.metrics()["undrained_rows"]:
        assert held <= 2000 + 1000
        table = q.rows()
        assert table["x"].to_pylist() == [n // 300 for n in range(count, count + held)]
        count += held
    assert count == 300 * 300


def test_a_push_that_is_wholly_taken_returns() -> None:
    engine = connect(buffer_rows=10, push_timeout=0.0)
    q = engine.install("SELECT x FROM R")
    engine.push("R", numbers(0, 100))
    with pytest.raises(BufferFull) as caught:
        engine.push("R", numbers(100, 101))
    assert caught.value.taken == 0
    assert values(q) == list(range(100))


@tuning.given(pairs_per_step=30)
def test_a_drained_query_goes_on_by_itself_and_saves_whole(tmp_path: Any) -> None:
    """What a refused push has left half-way is done as room is made, not only at the next push."""
    engine = connect(buffer_rows=10, batch_rows=50, push_timeout=0.0)
    q = engine.install(CROSS.format(rows=20))
    engine.push("S", numbers(0, 20))
    with pytest.raises(BufferFull):
        engine.push("R", numbers(0, 20))
    with pytest.raises(BufferFull):
        engine.save(tmp_path / "state")
    found = []
    while part := values(q):
        found += part
    assert found == [x for x in range(20) for _ in range(20)]
    engine.save(tmp_path / "state")


def test_a_full_query_can_be_drained_while_its_push_waits_in_another_thread() -> None:
    engine = connect(buffer_rows=1, batch_rows=1, push_timeout=A_WHILE)
    q = engine.install("SELECT x FROM R")
    other = engine.install("SELECT x + 1 AS y FROM R")
    found: list[int] = []
    others: list[int] = []
    done = threading.Event()

    def drain() -> None:
        while not done.is_set():
            found.extend(values(q))
            others.extend(values(other, "y"))

    drainer = threading.Thread(target=drain)
    drainer.start()
    try:
        engine.push("R", numbers(0, 200))
    finally:
        done.set()
        drainer.join(A_WHILE)
    assert found + values(q) == list(range(200))
    assert others + values(other, "y") == list(range(1, 201))


@examples(60)
@given(scripts(), st.sampled_from((1, 2, 5)), st.sampled_from((1, 3)))
def test_full_buffers_lose_nothing_in_any_script(
    steps: list[Step], buffer_rows: int, batch_rows: int
) -> None:
    engine = Engine(
        buffer_rows=buffer_rows, batch_rows=batch_rows, push_timeout=0.0, compile_predicates=False
    )
    positions: dict[str, list[int]] = {}
    letters: dict[str, int] = {}

    def drain() -> None:
        for query in (*engine.dropped, *engine.queries.values()):
            for result in query.drain():
                positions.setdefault(query.name, []).extend(result.positions.tolist())
            letters[query.name] = letters.get(query.name, 0) + len(query.drain_letters())

    for event in as_events(steps):
        before = engine.position
        try:
            engine.end() if event is None else engine.feed([event])
        except BufferFull:
            drain()
            if engine.position == before:
                engine.end() if event is None else engine.feed([event])
    while any(query.undrained for query in engine.queries.values()) or engine.dropped:
        drain()
    rows, late, dead = on_oracle(steps)
    for name, expected in rows.items():
        assert positions.get(name, []) == [position for position, _ in expected]
        assert letters.get(name, 0) == len(late[name]) + len(dead[name])


# -- letters --------------------------------------------------------------------------------


def full_of_letters(engine: Engine, push: Callable[[], None]) -> str:
    with pytest.raises(BufferFull) as caught:
        for _ in range(100):
            push()
    return str(caught.value)


def test_dead_letters_are_bounded() -> None:
    engine = connect(buffer_rows=10, push_timeout=0.0)
    q = engine.install("SELECT x FROM R", name="q")
    message = full_of_letters(engine, lambda: engine.push("R", [{"x": "?"}, {"x": "!"}]))
    assert message.startswith("query 'q' holds 0 rows and 12 letters that nobody has drained")
    assert q.dead_letters().num_rows == 12
    engine.push("R", [{"x": 1}])
    assert values(q) == [1]


LATE = "FROM R [RANGE 5 WATTR x] AS r JOIN S [RANGE 5 WATTR x] AS s ON TRUE"


def test_late_tuples_are_bounded() -> None:
    engine = connect(buffer_rows=10, push_timeout=0.0)
    q = engine.install(f"SELECT r.x {LATE}", name="q")
    engine.punctuate("R", 100)
    message = full_of_letters(engine, lambda: engine.push("R", numbers(0, 3)))
    assert message.startswith("query 'q' holds 0 rows and 12 letters that nobody has drained")
    assert q.late().num_rows == 12
    engine.push("R", numbers(0, 3))
    assert q.metrics()["late"] == 15


def test_late_tuples_of_a_derived_stream_are_bounded() -> None:
    engine = connect(buffer_rows=10, push_timeout=0.0)
    derived = engine.sql(f"CREATE STREAM D AS SELECT r.x {LATE}")
    engine.punctuate("R", 100)
    message = full_of_letters(engine, lambda: engine.push("R", numbers(0, 3)))
    assert message.startswith("query 'D' holds 0 rows and 12 letters that nobody has drained")
    assert derived.late().num_rows == 12


# -- threads --------------------------------------------------------------------------------


def test_pushes_from_several_threads_take_every_tuple_once() -> None:
    engine = connect(batch_rows=7)
    q = engine.install("SELECT x FROM R")
    pairs = engine.install("SELECT r.x FROM R [ROWS 1000] AS r JOIN S [ROWS 1000] AS s ON r.x=s.x")
    start = threading.Barrier(4)

    def push(worker: int) -> None:
        start.wait(A_WHILE)
        for i in range(worker * 100, worker * 100 + 100, 10):
            engine.push("R", numbers(i, i + 10))
            engine.push("S", numbers(i, i + 10))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(push, range(4)))
    found = values(q)
    assert sorted(found) == list(range(400))
    assert sorted(values(pairs)) == list(range(400))
    for worker in range(4):
        mine = [x for x in found if x // 100 == worker]
        assert mine == sorted(mine)
    assert engine.position == 4 + 800


# -- window memory --------------------------------------------------------------------------


def test_windows_that_would_grow_too_large_are_refused_before_the_push() -> None:
    engine = connect(window_memory=10_000)
    q = engine.install(CROSS.format(rows=100_000), name="wide")
    light = engine.install("SELECT x FROM R")
    engine.push("R", numbers(0, 10))
    held = q.metrics()["window_bytes"]
    with pytest.raises(MemoryLimit) as caught:
        engine.push("R", numbers(10, 2010))
    assert str(caught.value) == (
        f"the windows of query 'wide' hold {held} bytes; with the 16000 bytes that arrive they "
        "would pass the limit of 10000; 0 tuples of this push were taken\n"
        "Make its windows smaller with change(), or connect with a larger window_memory; then push "
        "the rest."
    )
    assert values(light) == list(range(10))
    engine.push("S", numbers(0, 1))
    assert values(q) == list(range(10))
    q.drop()
    engine.push("R", numbers(10, 2010))
    assert values(light) == list(range(10, 2010))


def test_a_smaller_window_makes_room_again() -> None:
    engine = connect(window_memory=20_000)
    q = engine.install(CROSS.format(rows=100_000))
    pushed = 0
    with pytest.raises(MemoryLimit):
        while True:
            engine.push("R", numbers(pushed, pushed + 100))
            pushed += 100
    assert 200 <= pushed < 2500
    with pytest.raises(MemoryLimit) as caught:
        narrow = connect(window_memory=20_000, batch_rows=100)
        narrow.install(CROSS.format(rows=100_000))
        narrow.push("R", numbers(0, 5000))
    assert 0 < caught.value.taken < 5000
    assert f"; {caught.value.taken} tuples of this push were taken\n" in str(caught.value)
    q.change(CROSS.format(rows=10))
    engine.push("R", numbers(pushed, pushed + 100))
    engine.push("S", numbers(0, 1))
    assert values(q) == list(range(pushed + 90, pushed + 100))


def test_windows_over_derived_streams_are_limited_too() -> None:
    engine = connect(window_memory=20_000)
    engine.sql("CREATE STREAM D AS SELECT x FROM R")
    engine.install("SELECT d.x FROM D [ROWS 100000] AS d JOIN S [ROWS 1] AS s ON TRUE", name="q")
    with pytest.raises(MemoryLimit):
        for start in range(0, 100_000, 100):
            engine.push("R", numbers(start, start + 100))


# -- memory of long streams -----------------------------------------------------------------


@tuning.given(smallest_dictionary=1000)
def test_memory_does_not_grow_with_the_length_of_the_stream() -> None:
    engine = ps.connect("local", batch_rows=256)
    engine.sql("CREATE STREAM R (k STRING, v STRING); CREATE STREAM S (k STRING, v STRING)")
    q = engine.install(
        "SELECT r.v FROM R [ROWS 100] AS r JOIN S [ROWS 100] AS s ON r.k = s.k", name="q"
    )
    (join,) = q.pipeline.of_kind("join")
    held, allocated, codes = [], [], []
    for number in range(300):
        keys = [f"key {number} {i}" for i in range(200)]
        batch = pa.table({"k": keys, "v": [key * 20 for key in keys]})
        engine.push("R", batch)
        engine.push("S", batch)
        del batch
        assert q.rows().num_rows == 100
        held.append(q.metrics()["window_bytes"])
        allocated.append(pa.total_allocated_bytes())
        codes.append(len(join.matcher.dictionary))
    assert max(held[50:]) <= 1.5 * max(held[:50])
    assert max(allocated[50:]) <= 1.5 * max(allocated[:50])
    assert max(codes) <= 1000 + 4 * 400 + 200
    assert q.metrics()["window_tuples"] == [100, 100]


def test_single_tuples_do_not_pile_up_in_time_windows() -> None:
    engine = connect()
    q = engine.install(
        "SELECT r.x FROM R [RANGE 20 WATTR x SLACK 5] AS r "
        "LEFT JOIN S [RANGE 20 WATTR x SLACK 5] AS s ON r.x = s.x"
    )
    held = []
    for start in range(0, 1200, 3):
        order = [start + 1, start, start + 2]
        for x in order:
            engine.push("R", [{"x": x}])
        engine.push("S", [{"x": start}])
        q.rows()
        held.append((q.metrics()["window_bytes"], *q.metrics()["window_tuples"]))
    assert max(held[150:]) <= max(held[:150])
    assert q.metrics()["window_tuples"][0] <= 60
