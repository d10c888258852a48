"""Signals in the middle of the engine's work: nothing is lost, or the query says that it failed."""

from __future__ import annotations

import ctypes
import decimal
import errno
import os
import random
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.campaigns.interrupts import Call, Interrupts, threads_left
from tests.conftest import SEED

import penstock as ps
from penstock import signals, tuning
from penstock.blocks.join.matcher import Matcher
from penstock.blocks.multiway.block import MultiwayBlock
from penstock.blocks.multiway.stretch_search import StretchSearch
from penstock.cli.run import bounded as run
from penstock.engines.local import single_pushes
from penstock.engines.local.engine import Engine
from penstock.engines.shared import query as query_module
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.program.isa.instructions import CreateStream
from penstock.signals import uninterrupted
from penstock.streams.events import Tuples
from penstock.streams.schema import Stream

ROOT = Path(__file__).parents[2]
JOIN = "SELECT r.id AS r, s.id AS s FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON r.x = s.x"
FLOWS: tuple[dict[str, Any], ...] = (
    {},
    {"flow": "three-step"},
    {"flow": "shared", "cores": 2},
    {"flow": "splitjoin", "cores": 2},
    {"flow": "celljoin", "cores": 2},
    {"flow": "handshake", "cores": 2},
    {"flow": "low-latency-handshake", "cores": 2},
)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever other tests have made of it."""
    with handled_by(signal.SIGINT, signal.default_int_handler):
        yield


def connected(**options: Any) -> Engine:
    engine = Engine(compile_predicates=False, **options)
    engine.sql("CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (id BIGINT, x BIGINT)")
    return engine


def tuples(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": i, "x": i % 3} for i in range(first, first + count)]


def rows(query: Any) -> list[tuple[int, int]]:
    return sorted((row["r"], row["s"]) for row in query.rows().to_pylist())


@contextmanager
def signals_in(owner: Any, method: str, numbers: list[int]) -> Iterator[None]:
    """The first call of a method comes with these signals."""
    waiting = list(numbers)
    original = getattr(owner, method)

    def interrupted(*given: Any) -> Any:
        while waiting:
            signal.raise_signal(waiting.pop(0))
        return original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, interrupted)
        yield


@contextmanager
def handled_by(number: int, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def leave(number: int, frame: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_an_interrupted_push_is_taken_whole(flow: dict[str, Any]) -> None:
    found = []
    for interrupted in (False, True):
        with connected() as engine:
            query = engine.install(JOIN, "q", **flow)
            engine.push("R", tuples(0, 9))
            if interrupted:
                with (
                    signals_in(Query, "_take_run", [signal.SIGINT]),
                    pytest.raises(KeyboardInterrupt),
                ):
                    engine.push("S", tuples(0, 9))
            else:
                engine.push("S", tuples(0, 9))
            engine.push("S", tuples(9, 1))
            engine.end()
            found.append((rows(query), query.metrics()["tuples_in"], engine.position))
    assert found[0] == found[1]
    assert len(found[0][0]) == 30


MANY = """SELECT a.id AS a, b.id AS b FROM A [ROWS 9] AS a, B [ROWS 9] AS b, C [ROWS 9] AS c,
    D [ROWS 9] AS d WHERE a.x + b.x + c.x + d.x < {}"""


@contextmanager
def full_windows(limit: int, **asked: Any) -> Iterator[tuple[Engine, Any]]:
    """A join of which an arrival of D has 729 combinations to look at."""
    with Engine(compile_predicates=False) as engine, pytest.warns(UserWarning):
        for name in "ABCD":
            engine.sql(f"CREATE STREAM {name} (id BIGINT, x BIGINT)")
        query = engine.install(MANY.format(limit), "q", **asked)
        for name in "ABC":
            engine.push(name, tuples(0, 9))
        yield engine, query


SMALL_STEPS = {"longest_step": 0.0, "pairs_per_step": 4, "comparisons_per_call": 8}


@pytest.mark.parametrize(("limit", "found"), [(0, 0), (99, 729)], ids=["no rows", "rows"])
@pytest.mark.parametrize("design", [{}, {"design": "shared", "cores": 2}], ids=str)
def test_an_arrival_with_many_combinations_is_broken_off_before_it_has_them(
    design: dict[str, Any], limit: int, found: int
) -> None:
    calls, extended = [0], StretchSearch._extended

    def counted(*given: Any) -> Any:
        calls[0] += 1
        if calls[0] == 5:
            signal.raise_signal(signal.SIGINT)
        return extended(*given)

    with tuning.given(**SMALL_STEPS), full_windows(limit, **design) as (engine, query):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StretchSearch, "_extended", counted)
            with pytest.raises(KeyboardInterrupt):
                engine.push("D", [{"id": 1, "x": 1}])
            assert calls[0] <= 5 + 4, "of some hundreds"
            assert engine.position == 27 + 1 + 5
            engine.wait()
            assert calls[0] > 100
        assert query.rows().num_rows == found


@pytest.mark.parametrize("design", ["circular", "linear", "parallel-circular"])
def test_an_engine_that_waits_for_cores_is_broken_off(design: str) -> None:
    """A core is in the middle of a search, and goes on when it is asked for."""
    released, extend = threading.Event(), MultiwayBlock._extend
    waiting: list[int] = []
    released.set()

    def slow(*given: Any) -> Any:
        while waiting:
            os.kill(os.getpid(), waiting.pop())
        assert released.wait(20)
        return extend(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiwayBlock, "_extend", slow)
        with tuning.given(longest_step=0.01), full_windows(99, design=design) as (engine, query):
            released.clear()
            waiting.append(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                engine.push("D", [{"id": 1, "x": 1}])
            assert not released.is_set()
            released.set()
            engine.wait()
            assert query.rows().num_rows == 729


def test_the_rest_of_an_interrupted_push_is_done_by_the_next_call() -> None:
    with connected(batch_rows=2) as engine:
        query = engine.install("SELECT id FROM R", "q")
        with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.push("R", tuples(0, 7))
        assert query.metrics()["rows_out"] == 2
        engine.wait()
        assert query.metrics()["rows_out"] == 7
        assert [row["id"] for row in query.rows().to_pylist()] == [*range(7)]


def test_the_position_says_whether_an_interrupted_push_is_taken() -> None:
    """It counts what is left of the push before, so that doing the rest of that moves nothing."""
    engine = connected(batch_rows=2)
    query = engine.install("SELECT id FROM R")
    first = engine.position
    with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
        engine.push("R", tuples(0, 10))
    assert engine.position == first + 10
    with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
        engine.push("R", tuples(10, 10))
    assert engine.position == first + 10
    engine.wait()
    assert engine.position == first + 10
    assert query.rows()["id"].to_pylist() == [*range(10)]


def test_the_rest_of_an_interrupted_push_is_done_when_rows_are_taken_or_the_engine_closes() -> None:
    for closes in (False, True):
        engine = connected(batch_rows=2)
        query = engine.install("SELECT id FROM R", "q")
        with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.push("R", tuples(0, 7))
        if closes:
            engine.close()
        found = query.rows().to_pylist() + query.rows().to_pylist()
        assert [row["id"] for row in found] == [*range(7)]
        engine.close()


def test_a_tuple_that_two_interrupts_left_is_taken_when_rows_are_or_the_engine_closes() -> None:
    for closes in (False, True):
        engine = connected()
        engine._single_pushes.patience = 0
        query = engine.install(JOIN)
        engine.push("S", tuples(0, 1))
        first, once = engine.position, [signal.SIGINT]
        with (
            signals_in(Query, "_take_pairs", once),
            signals_in(single_pushes, "uninterrupted", once),
            pytest.raises(KeyboardInterrupt),
        ):
            engine.push("R", tuples(0, 1))
        assert engine.position == first + 1
        if closes:
            engine.close()
        assert rows(query) + rows(query) == [(0, 0)]
        assert engine.position == first + 1
        engine.close()


def test_a_push_that_is_interrupted_while_it_waits_for_room_goes_on_later() -> None:
    with connected(buffer_rows=2, batch_rows=2, push_timeout=60.0) as engine:
        query = engine.install("SELECT id FROM R", "q")
        with signals_in(Query, "_wait_for_room", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.push("R", tuples(0, 7))
        found = []
        for _ in range(4):
            found += [row["id"] for row in query.rows().to_pylist()]
        engine.push("R", tuples(7, 1))
        found += [row["id"] for row in query.rows().to_pylist()]
        assert found == [*range(8)]


def test_two_interrupts_of_one_step_stop_the_query_and_it_says_so() -> None:
    with connected(batch_rows=2) as engine:
        torn = engine.install("SELECT id FROM R", "torn")
        whole = engine.install("SELECT id FROM R", "whole")
        twice = [signal.SIGINT, signal.SIGINT]
        with signals_in(Query, "_take_run", twice), pytest.raises(KeyboardInterrupt):
            engine.push("R", tuples(0, 4))
        said = (
            "query 'torn' was broken off by KeyboardInterrupt in the middle of its work and is "
            "stopped: what its windows hold is not whole\n"
            "Drop it and install it again, or restore an engine that was saved before."
        )
        assert torn.metrics()["failure"] == said
        assert whole.metrics()["failure"] is None
        with pytest.raises(ps.QueryFailed) as caught:
            engine.push("R", tuples(4, 1))
        assert str(caught.value) == said
        assert [row["id"] for row in whole.rows().to_pylist()] == [*range(5)]
        engine.push("R", tuples(5, 1))
        torn.drop()
        assert [row["id"] for row in whole.rows().to_pylist()] == [5]


def test_two_interrupts_of_a_change_leave_other_queries_to_single_pushes() -> None:
    """The predicate is another one by then, and the stored keys are still those of the old one."""
    with connected() as engine:
        engine._single_pushes.patience = 0
        torn = engine.install(JOIN, "torn")
        whole = engine.install(JOIN, "whole")
        twice = [signal.SIGINT, signal.SIGINT]
        with signals_in(Matcher, "rebuild", twice), pytest.raises(KeyboardInterrupt):
            torn.change(JOIN + " AND r.id = s.id")
        assert torn.metrics()["failure"] is not None
        with pytest.raises(ps.QueryFailed):
            engine.wait()
        for stream in ("R", "S"):
            for number in range(4):
                engine.push(stream, tuples(number, 1))
        assert rows(whole) == [(0, 0), (0, 3), (1, 1), (2, 2), (3, 0), (3, 3)]
        assert rows(torn) == []
        torn.drop()
        engine.push("S", tuples(6, 1))
        assert rows(whole) == [(0, 6), (3, 6)]
        assert engine._single_pushes.fast_tuples == 1


def test_system_exit_of_a_handler_ends_a_push_as_ctrl_c_does() -> None:
    with connected() as engine, handled_by(signal.SIGTERM, leave):
        query = engine.install("SELECT id FROM R", "q")
        with signals_in(Query, "_take_run", [signal.SIGTERM]), pytest.raises(SystemExit):
            engine.push("R", tuples(0, 2))
        engine.push("R", tuples(2, 1))
        assert [row["id"] for row in query.rows().to_pylist()] == [0, 1, 2]
        assert signal.getsignal(signal.SIGTERM) is leave


def test_memory_that_runs_out_stops_the_query_alone() -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    with connected() as engine:
        query = engine.install("SELECT id FROM R", "q")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Query, "_take_run", exhausted)
            with pytest.raises(ps.QueryFailed) as caught:
                engine.push("R", tuples(0, 2))
        assert isinstance(caught.value.__cause__, MemoryError)
        assert query.failure is caught.value


def test_the_engine_cannot_be_used_in_the_middle_of_a_call() -> None:
    with connected() as engine:
        query = engine.install("SELECT id FROM R", "q")
        with (
            handled_by(signal.SIGALRM, lambda *_: engine.push("R", tuples(9, 1))),
            signals_in(Query, "_take_run", [signal.SIGALRM, signal.SIGALRM]),
            pytest.raises(ps.QueryFailed) as caught,
        ):
            engine.push("R", tuples(0, 2))
        assert str(caught.value.__cause__) == (
            "the engine is in the middle of a call that this one interrupts\n"
            "Do not use the engine in the handler of a signal; let the handler set a flag, and "
            "look at it after the call."
        )
        assert query.failure is caught.value


def test_a_handler_that_uses_the_engine_is_called_after_the_step() -> None:
    with connected() as engine:
        query = engine.install("SELECT id FROM R", "q")
        with (
            handled_by(signal.SIGALRM, lambda *_: engine.push("R", tuples(9, 1))),
            signals_in(Query, "_take_run", [signal.SIGALRM]),
        ):
            engine.push("R", tuples(0, 2))
        assert [row["id"] for row in query.rows().to_pylist()] == [0, 1, 9]


# -- steps that are not interrupted -------------------------------------------------------------


def test_a_step_is_done_before_the_handler_is_called() -> None:
    said = []

    def step() -> int:
        signal.raise_signal(signal.SIGALRM)
        said.append("step")
        return 1

    with handled_by(signal.SIGALRM, lambda number, _: said.append(number)):
        assert uninterrupted(step) == 1
    assert said == ["step", signal.SIGALRM]


def test_the_second_signal_of_a_kind_is_not_held_back() -> None:
    said = []

    def step() -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGALRM)
            said.append("step")

    with handled_by(signal.SIGALRM, lambda *_: said.append("handler")):
        uninterrupted(step)
    assert said == ["step", "handler", "handler", "step", "step", "handler"]


def test_handlers_are_restored_after_any_exception() -> None:
    def step() -> None:
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGTERM)
        raise KeyError("step")

    with handled_by(signal.SIGALRM, leave), handled_by(signal.SIGTERM, leave):
        before = [signal.getsignal(number) for number in signal.valid_signals()]
        with pytest.raises(SystemExit) as caught:
            uninterrupted(step)
        assert isinstance(caught.value.__context__, SystemExit | KeyError)
        assert [signal.getsignal(number) for number in signal.valid_signals()] == before


def test_steps_within_steps_let_a_signal_wait_for_the_outer_one() -> None:
    said = []

    def inner() -> None:
        signal.raise_signal(signal.SIGALRM)
        said.append("inner")

    def outer() -> None:
        uninterrupted(inner)
        said.append("outer")

    with handled_by(signal.SIGALRM, lambda *_: said.append("handler")):
        uninterrupted(outer)
    assert said == ["inner", "outer", "handler"]


def test_a_handler_that_is_set_during_a_step_stays() -> None:
    def step() -> None:
        signal.signal(signal.SIGALRM, leave)

    with handled_by(signal.SIGALRM, lambda *_: None):
        uninterrupted(step)
        assert signal.getsignal(signal.SIGALRM) is leave


def test_other_threads_leave_the_handlers_alone() -> None:
    found = []

    def step() -> None:
        found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=lambda: uninterrupted(step))
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


# -- saving -------------------------------------------------------------------------------------


def saved(folder: Path, **options: Any) -> tuple[Engine, Path]:
    """An engine that has been saved, and has gone on since."""
    engine = connected(**options)
    engine.install(JOIN, "q")
    engine.push("R", tuples(0, 3))
    path = folder / "state.penstock"
    engine.save(path)
    engine.push("R", tuples(3, 3))
    return engine, path


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_save_is_done_whole_or_the_file_that_was_there_stays(
    tmp_path: Path, signals: int
) -> None:
    """One signal waits until the file is there; who insists gets out at once."""
    engine, path = saved(tmp_path)
    before = path.read_bytes()
    engine.push("R", tuples(6, 1))
    with (
        signals_in(zipfile.ZipFile, "writestr", [signal.SIGINT] * signals),
        pytest.raises(KeyboardInterrupt),
    ):
        engine.save(path)
    assert (path.read_bytes() == before) == (signals == 2)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    tuples_in = ps.restore(path).queries["q"].metrics()["tuples_in"]
    assert tuples_in == {"R": 7 if signals == 1 else 3}


@pytest.mark.parametrize("there", [True, False])
def test_a_save_that_finds_no_room_names_the_file(tmp_path: Path, there: bool) -> None:
    engine, path = saved(tmp_path)
    before = path.read_bytes()
    if not there:
        path.unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ps.StateError) as caught:
        patch.setattr(zipfile.ZipFile, "writestr", full)
        engine.save(path)
    stays = "the file that was there stays" if there else "there is no such file"
    assert str(caught.value) == (
        f"the engine cannot be saved to {path}: No space left on device; {stays}\n"
        "Make room on the disk, or save where there is room and you may write."
    )
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([before] if there else [])


def test_a_query_that_has_failed_is_restored_as_failed(tmp_path: Path) -> None:
    engine, path = saved(tmp_path)
    twice = [signal.SIGINT, signal.SIGINT]
    with signals_in(Query, "_take_run", twice), pytest.raises(KeyboardInterrupt):
        engine.push("S", tuples(0, 3))
    with pytest.raises(ps.QueryFailed) as caught:
        engine.save(path)
    engine.save(path)
    again = ps.restore(path)
    assert str(again.queries["q"].failure) == str(caught.value)
    again.push("S", tuples(3, 3))
    assert again.queries["q"].rows().num_rows == 0


# -- an interrupt at every place ----------------------------------------------------------------

TYPED = "CREATE STREAM {} (id BIGINT, k INT, s VARCHAR, d DECIMAL(9,2), b BOOLEAN)"
PAIRS = "FROM R [ROWS 5] AS r JOIN S [ROWS 7] AS s ON r.k = s.k"
CHANGING = {
    PAIRS: ("r.id AS rid, r.s, s.s AS ss, s.d, r.b, s.id AS sid", "s.d, r.s, s.b"),
    f"{PAIRS} JOIN R [ROWS 2] AS q ON q.k = s.k": ("r.id AS rid, r.s, s.s AS ss, q.d", "q.s, r.d"),
    "FROM R WHERE k > 0": ("id, s, d", "s || '!' AS s, id + 1 AS n, b, d"),
}
"""What is read, and two lists of columns between which the query changes."""


def until(is_done: Callable[[], bool], call: Callable[[], Any], place: int) -> bool:
    """Repeat a call, interrupted at a place the first time (0: nowhere); whether that came."""
    interrupts, came = Interrupts([place]), False
    while not is_done():
        try:
            with interrupts.during(Call("push")):
                call()
        except KeyboardInterrupt:
            came = True
    return came


def push_one(engine: Engine, number: int, place: int) -> bool:
    row = {
        "id": number,
        "k": number // 2 % 3,
        "s": None if number % 11 == 0 else "x" * (number % 5),
        "d": None if number % 7 == 0 else decimal.Decimal(number),
        "b": number % 3 == 0,
    }
    before = engine.position
    return until(
        lambda: engine.position > before, lambda: engine.push("RS"[number % 2], [row]), place
    )


def drain(query: Any, place: int) -> list[Any]:
    """The rows with their positions; a result of unequal length is an error."""
    taken: list[Any] = []
    until(lambda: bool(taken), lambda: taken.append(query.drain()), place)
    return [
        row
        for result in taken[0]
        for row in zip(result.positions.tolist(), result.batch.to_pylist(), strict=True)
    ]


def change(query: Any, text: str, place: int) -> None:
    until(lambda: bool(query.text == text), lambda: query.change(text), place)


@pytest.mark.parametrize(
    ("clauses", "topology"), [*((one, None) for one in CHANGING), (PAIRS, "fqp:chain:6:40")]
)
def test_an_interrupt_at_any_place_of_a_push_divides_no_row(
    clauses: str, topology: str | None
) -> None:
    """The n-th push and the n-th drain are interrupted at their n-th places; changes, somewhere."""
    texts = [f"SELECT {columns} {clauses}" for columns in CHANGING[clauses]]
    found: dict[bool, list[Any]] = {}
    for interrupted in (False, True):
        rows = found[interrupted] = []
        came = 0
        with Engine(compile_predicates=False, topology=topology) as engine:
            engine._single_pushes.patience = 0
            engine.sql("; ".join(map(TYPED.format, "RS")))
            query = engine.install(texts[0])
            for number in range(240):
                came += push_one(engine, number, interrupted * number)
                if number % 5 == 4:
                    rows += drain(query, interrupted * (number // 5))
                if number % 60 == 59:
                    change(query, texts[number // 60 % 2 - 1], interrupted * 17 * number)
            rows += drain(query, 0)
            assert query.failure is None
            fast = engine._single_pushes.fast_tuples
        assert came > 150 or not interrupted
        assert fast > 40 or "JOIN" not in clauses or topology is not None
    assert len(found[False]) > 60
    assert found[True] == found[False]


# -- accounts -----------------------------------------------------------------------------------


def is_even(account: dict[str, Any]) -> bool:
    kinds = ("stored", "expired", "passed", "late", "dead", "shed")
    return bool(account["in"] == sum(account[kind] for kind in kinds))


def test_accounts_count_every_tuple_once() -> None:
    with Engine(compile_predicates=False, buffer_rows=6) as engine:
        engine.sql("CREATE STREAM R (t BIGINT, x INT); CREATE STREAM S (t BIGINT, x INT)")
        window = "[RANGE 3 WATTR t]"
        texts = {
            "join": f"SELECT r.x FROM R {window} AS r JOIN S [ROWS 2] AS s ON r.x > s.x",
            "itself": f"SELECT r.x FROM R {window} AS r JOIN R [ROWS 2] AS s ON r.x > s.x",
            "all": "SELECT x FROM R UNION ALL SELECT x FROM S WHERE FALSE",
            "sums": "SELECT SUM(x) AS n FROM R [RANGE 2 SLIDE 2 WATTR t START AT 2]",
        }
        queries = [engine.install(sql, name, admission="shed") for name, sql in texts.items()]
        engine.push("R", [{"t": 1, "y": 0}])
        for time in (1, 5, None, 3, 9, 2, 10, 11):
            engine.push("R", [{"t": time, "x": 1}])
        engine.push("S", [{"t": 1, "x": 2}, {"t": 2, "x": 2}, {"t": 3, "x": 2}])
        found = {
            query.name: [
                (a["stream"], {kind: n for kind, n in a.items() if kind != "stream" and n})
                for a in query.metrics()["accounts"]
            ]
            for query in queries
        }
        for query in queries:
            assert all(map(is_even, query.metrics()["accounts"]))
    timed = {"in": 9, "stored": 5, "late": 2, "dead": 2}
    assert found == {
        "join": [("R", timed), ("S", {"in": 3, "stored": 2, "expired": 1})],
        "itself": [("R", timed), ("R", {"in": 9, "stored": 2, "expired": 5, "dead": 2})],
        "all": [("R", {"in": 9, "passed": 6, "dead": 1, "shed": 2}), ("S", {"in": 3, "shed": 3})],
        "sums": [("R", {"in": 9, "passed": 4, "late": 2, "dead": 3})],
    }


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_accounts_are_even_while_another_thread_pushes(flow: dict[str, Any]) -> None:
    uneven: list[Any] = []
    done = threading.Event()
    with connected(batch_rows=16) as engine:
        query = engine.install(JOIN, "q", **flow)

        def look() -> None:
            while not done.is_set():
                uneven.extend(a for a in query.metrics()["accounts"] if not is_even(a))

        watcher = threading.Thread(target=look)
        watcher.start()
        for _ in range(20):
            engine.push("R", tuples(0, 40))
            engine.push("S", tuples(0, 40))
            query.rows()
        done.set()
        watcher.join()
        assert [a["in"] for a in query.metrics()["accounts"]] == [800, 800]
    assert uneven == []


def test_accounts_are_even_while_another_thread_pushes_single_tuples() -> None:
    uneven: list[Any] = []
    done = threading.Event()
    engine = Engine()
    engine.sql("CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (id BIGINT, x BIGINT)")
    query = engine.install(JOIN, "q")
    engine._single_pushes.patience = 0

    def look() -> None:
        while not done.is_set():
            uneven.extend(a for a in query.metrics()["accounts"] if not is_even(a))

    watcher = threading.Thread(target=look)
    watcher.start()
    for i in range(400):
        engine.push("R", tuples(i, 1))
        engine.push("S", tuples(i, 1))
    done.set()
    watcher.join()
    engine.close()
    assert engine._single_pushes.fast_tuples > 0
    assert uneven == []


def test_accounts_of_a_query_that_was_broken_off_are_those_from_before(tmp_path: Path) -> None:
    with connected() as engine:
        query = engine.install(JOIN, "q")
        engine.push("R", tuples(0, 3))
        before = query.metrics()["accounts"]
        twice = [signal.SIGINT, signal.SIGINT]
        with signals_in(Query, "_take_run", twice), pytest.raises(KeyboardInterrupt):
            engine.push("S", tuples(0, 3))
        assert query.metrics()["accounts"] == before
        assert all(map(is_even, before))
        with pytest.raises(ps.QueryFailed):
            engine.wait()
        engine.save(tmp_path / "state")
        assert ps.restore(tmp_path / "state").queries["q"].metrics()["accounts"] == before
        query.drop()
        assert query.metrics()["accounts"] == before


@pytest.mark.parametrize("sharing", FLOWS[2:], ids=str)
def test_a_restore_that_is_interrupted_leaves_no_thread(
    tmp_path: Path, sharing: dict[str, Any]
) -> None:
    state, known = tmp_path / "state", threading.enumerate()
    with connected() as engine:
        engine.install(JOIN, **sharing)
        engine.save(state)
    counting = Interrupts([])
    with counting.during(Call("restore")):
        ps.restore(state).close()
    chance = random.Random(os.environ[SEED])
    for place in chance.sample(range(1, counting.count), 80):
        with suppress(KeyboardInterrupt), Interrupts([place]).during(Call("restore")):
            ps.restore(state)
    assert threads_left(known) == []


@pytest.mark.long
def test_interrupts_at_random_moments_lose_nothing() -> None:
    """In a process of its own, which no thread of another test is in."""
    command = [sys.executable, "-m", "tests.campaigns", "interrupts", "--seed", "3"]
    done = subprocess.run(
        [*command, "--count", "40"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "interrupts: 40 cases, 0 wrong")


def raise_in_this_thread(*_: object) -> None:
    """As a watchdog does from another thread."""
    thread = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeoutError))


def test_an_exception_set_by_another_thread_stops_the_query_that_is_at_work() -> None:
    with connected() as engine:
        torn = engine.install("SELECT id FROM R", "torn")
        whole = engine.install("SELECT id FROM R", "whole")
        original, calls = Query._take_run, [0]

        def interrupted(query: Any, run: Any) -> None:
            calls[0] += 1
            if calls[0] == 1:
                raise_in_this_thread()
            original(query, run)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(ps.QueryFailed) as caught:
            patch.setattr(Query, "_take_run", interrupted)
            engine.push("R", tuples(0, 3))
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert torn.failure is caught.value
        assert [row["id"] for row in whole.rows().to_pylist()] == [0, 1, 2]


def threads_of_flows() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("penstock")}


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_no_thread_is_left_after_a_query_was_broken_off(flow: dict[str, Any]) -> None:
    before = threads_of_flows()
    engine = connected()
    query = engine.install(JOIN, "q", **flow)
    engine.push("R", tuples(0, 9))
    twice = [signal.SIGINT, signal.SIGINT]
    with signals_in(Query, "_take_run", twice), pytest.raises(KeyboardInterrupt):
        engine.push("S", tuples(0, 9))
    assert query.metrics()["failure"] is not None
    engine.close()
    assert threads_of_flows() - before == set()


def test_no_thread_is_left_after_a_query_over_tables_was_interrupted() -> None:
    before = threads_of_flows()
    streams: dict[str, Any] = {"R": tuples(0, 9), "S": tuples(0, 9)}
    for owner, method in ((run, "_warm_up"), (Query, "_take_run")):
        with signals_in(owner, method, [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            ps.sql(JOIN, **streams, order_by="id", flow="splitjoin", cores=2)
    assert threads_of_flows() - before == set()


def test_the_rest_of_an_interrupted_push_that_passes_the_memory_limit_is_an_error() -> None:
    with connected(batch_rows=2, window_memory=6000) as engine:
        engine.install("SELECT r.id FROM R [ROWS 999] AS r JOIN S [ROWS 999] AS s ON TRUE", "q")
        with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.push("R", tuples(0, 400))
        with pytest.raises(ps.MemoryLimit) as caught:
            engine.wait()
        lost = 403 - engine.position
        assert caught.value.what.endswith(
            "what arrives is the rest of a push that was interrupted, and the "
            f"{lost} tuples that are left of it are given up"
        )
        assert lost > 0
        engine.wait()


def test_a_refused_event_after_an_interrupt_is_refused_once() -> None:
    with connected(batch_rows=1) as engine:
        query = engine.install("SELECT id FROM R", "q")
        batch = pa.RecordBatch.from_pylist(tuples(0, 1))
        events = [Tuples("R", batch), Tuples("T", batch), Tuples("R", batch)]
        with signals_in(Query, "_take_run", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.feed(events)
        with pytest.raises(ps.InputError, match="unknown stream 'T'"):
            engine.wait()
        engine.wait()
        assert query.rows().num_rows == 1


@pytest.mark.parametrize("method", ["rows", "drain", "late", "dead_letters", "drain_letters"])
def test_a_second_interrupt_while_results_are_given_back_loses_none(method: str) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (id BIGINT)")
        query = engine.install("SELECT COUNT(*) AS n FROM R [RANGE 9 SLIDE 9 WATTR id]", "q")
        engine.push("R", [{"id": 1}, {"id": 10}, {"id": 1}, {"id": None}])
        once = [signal.SIGINT]
        with (
            signals_in(Engine, "_go_on", once),
            signals_in(query_module, "uninterrupted", once),
            pytest.raises(KeyboardInterrupt),
        ):
            getattr(query, method)()
        assert query.undrained == 3
        assert (len(query.rows()), len(query.late()), len(query.dead_letters())) == (1, 1, 1)
        assert query.undrained == 0


@pytest.mark.long
def test_an_engine_with_a_query_that_was_broken_off_is_saved_and_restored(tmp_path: Path) -> None:
    """Wherever in the step that was: what the blocks hold then need not be whole."""
    text = (
        "SELECT x, COUNT(DISTINCT id) AS a, MIN(id) AS b, window_end AS e "
        "FROM R [ROWS 2 SLIDE 2] GROUP BY x"
    )
    with connected() as engine:  # compiles what an exception must not come into the middle of
        engine.install(text)
        engine.push("R", tuples(0, 3))
        engine.push("R", tuples(3, 4))
        engine.save(tmp_path / "state")
    ps.restore(tmp_path / "state").close()
    broken = 0
    for place in range(1, 1500, 3):
        with connected() as engine:
            query = engine.install(text, "q")
            engine.push("R", tuples(0, 3))
            interrupts = Interrupts([place, place + 2])
            with suppress(KeyboardInterrupt, ps.QueryFailed), interrupts.during(Call("push")):
                engine.push("R", tuples(3, 4))
            if query.failure is None:
                continue
            broken += 1
            with suppress(ps.QueryFailed):
                engine.wait()  # says it once
            engine.save(tmp_path / "state")
            before = query.metrics()["accounts"]
        with ps.restore(tmp_path / "state") as after:
            assert after.queries["q"].metrics()["accounts"] == before
            assert "was broken off" in str(after.queries["q"].metrics()["failure"])
    assert broken > 50


def test_a_push_finds_a_stream_that_the_rest_of_an_interrupted_call_creates() -> None:
    for call in ("push", "punctuate"):
        engine = Engine(batch_rows=1)
        streams = [Stream.of(name, pa.schema({"id": pa.int64()})) for name in "RS"]
        with signals_in(Registry, "create", [signal.SIGINT]), pytest.raises(KeyboardInterrupt):
            engine.feed([CreateStream(stream) for stream in streams])
        assert [stream.name for stream in engine._registry.streams] == ["R"]
        if call == "push":
            engine.push("S", [{"id": 1}])
        else:
            engine.punctuate("S", 1, "id")
        assert engine.position == 3
        engine.close()


def test_two_signals_at_one_place_leave_the_handlers_as_they_were() -> None:
    """Wherever that is: before the step, in it, and while the handlers are put back."""
    interrupted = 0
    for place in range(1, 500):
        calls = 0

        def look(frame: Any, event: str, _: Any, place: int = place) -> None:
            nonlocal calls
            if event in ("call", "c_return") and frame.f_code.co_filename == signals.__file__:
                calls += 1
                if calls == place:
                    signal.raise_signal(signal.SIGINT)
                    signal.raise_signal(signal.SIGINT)

        sys.setprofile(look)
        try:
            uninterrupted(int)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(None)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if calls < place:
            break
    assert interrupted > 10
