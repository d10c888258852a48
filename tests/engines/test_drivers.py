"""Every driver runs the network of any query, and all give the same rows, letters and positions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.networks import DRIVES, Drive, Recorded, Recorder, driven, output, seen
from tests.flows.test_random_flows import Sharing, compare, for_way, settled
from tests.flows.ways import WAYS, Way
from tests.own_blocks.dedup import DedupBlock
from tests.random_scripts import scripts
from tests.steps import Step
from tests.test_random_aggregates import LARGE
from tests.test_random_aggregates import SCRIPTS as AGGREGATES
from tests.test_random_aggregates import check as check_aggregates
from tests.test_random_aggregates import on_oracle as aggregates_on_oracle
from tests.test_random_aggregates import run_on as run_aggregates_on
from tests.test_random_scripts import BATCHES, SIZES, check, on_oracle, run_on

from penstock.blocks.contract import Batch, Message, Port, Sent
from penstock.blocks.synchroniser import Synchroniser
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.flows.make import KINDS, register_block
from penstock.flows.network.inline import Inline
from penstock.flows.network.threads import Threads
from penstock.program.isa.instructions import CreateStream, Install
from penstock.sql import own_blocks
from penstock.streams.events import Tuples
from penstock.testing.explore import Units, explore
from penstock.testing.schedule import Schedule
from penstock.testing.schedule import Step as Taken

SCRIPTS = st.booleans().flatmap(lambda derived: scripts(derived=derived))
SOME = examples(60)
FEW = examples(20)
BY_DRIVERS = pytest.mark.parametrize("driver", DRIVES)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t.name.startswith("penstock ")]
    assert [t.name for t in left if t not in before] == []


class WithEmptyBatches:
    """An engine that is given an empty batch before every one."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def feed(self, events: list[Any]) -> None:
        given: list[Any] = []
        for event in events:
            if isinstance(event, Tuples):
                given.append(Tuples(event.stream, event.batch.slice(0, 0)))
            given.append(event)
        self._engine.feed(given)


@BY_DRIVERS
@SOME
@given(steps=SCRIPTS, sizes=SIZES, batch_rows=BATCHES, data=st.data())
def test_rows_are_the_oracles_by_every_driver(
    driver: str, steps: list[Step], sizes: list[int], batch_rows: int, data: Any
) -> None:
    drive = data.draw(DRIVES[driver])
    with driven(drive, batch_rows=batch_rows, compile_predicates=False) as engine:
        check(steps, on_oracle(steps), run_on(WithEmptyBatches(engine), steps, sizes))


@BY_DRIVERS
@SOME
@given(steps=AGGREGATES, sizes=SIZES, batch_rows=BATCHES, data=st.data())
def test_aggregates_are_the_oracles_by_every_driver(
    driver: str, steps: list[Step], sizes: list[int], batch_rows: int, data: Any
) -> None:
    drive = data.draw(DRIVES[driver])
    with driven(drive, batch_rows=batch_rows, compile_predicates=False) as engine:
        found = run_aggregates_on(WithEmptyBatches(engine), steps, sizes)
        check_aggregates(steps, aggregates_on_oracle(steps), found)


@pytest.mark.parametrize("way", [way for way in WAYS if way.cores > 1], ids=str)
@FEW
@given(steps=scripts(multiway=False), sizes=SIZES, data=st.data())
def test_the_cores_of_a_flow_may_have_a_driver_of_their_own(
    way: Way, steps: list[Step], sizes: list[int], data: Any
) -> None:
    """A network in a block of a network: threads that wait for threads."""
    order = data.draw(st.sampled_from(way.orders))
    steps = for_way(steps, way, "")
    sharing = Sharing(way, order, 1000)
    sharing._engine._drive = data.draw(DRIVES["threads"])
    try:
        compare(steps, order, run_on(sharing, steps, sizes, settle=settled))
    finally:
        sharing.close()


# -- everything on its way at once ----------------------------------------------------------


def recorded(steps: list[Step], sizes: list[int], batch_rows: int) -> list[Recorded]:
    """What the queries of a script are sent; their rows are the oracle's."""
    with Recorder(batch_rows=batch_rows, compile_predicates=False) as engine:
        check(steps, on_oracle(steps), run_on(WithEmptyBatches(engine), steps, sizes))
    return engine.recorded


@BY_DRIVERS
@SOME
@given(steps=SCRIPTS, sizes=SIZES, batch_rows=BATCHES, data=st.data())
def test_messages_may_all_be_on_their_way_at_once(
    driver: str, steps: list[Step], sizes: list[int], batch_rows: int, data: Any
) -> None:
    """Data, instructions and barriers: what leaves is the same, message by message."""
    drive = data.draw(DRIVES[driver])
    for one in recorded(steps, sizes, batch_rows):
        assert one.again(drive) == output(one.came)


@BY_DRIVERS
@SOME
@given(steps=AGGREGATES, sizes=SIZES, batch_rows=BATCHES, data=st.data())
def test_messages_to_aggregates_may_all_be_on_their_way_at_once(
    driver: str, steps: list[Step], sizes: list[int], batch_rows: int, data: Any
) -> None:
    drive = data.draw(DRIVES[driver])
    with Recorder(batch_rows=batch_rows, compile_predicates=False) as engine:
        run_aggregates_on(engine, steps, sizes)
    for one in engine.recorded:
        assert one.again(drive) == output(one.came)


# -- every schedule -------------------------------------------------------------------------

SMALL = {
    "selection": "SELECT r.x + {} AS v FROM R AS r WHERE r.x > 0",
    "left join": (
        "SELECT r.x AS v, s.a AS a FROM R [ROWS {}] AS r LEFT JOIN S [RANGE 2 WATTR t] AS s "
        "ON r.x = s.a"
    ),
    "count": "SELECT window_end, COUNT(*) AS n FROM R [RANGE {} SLIDE 1 WATTR t]",
    "union of a join": (
        "SELECT r.x AS v FROM R [RANGE {} WATTR t] AS r ANTI JOIN S [RANGE 2 WATTR t] AS s "
        "ON r.x = s.a UNION ALL SELECT s.a FROM S AS s WHERE s.a > 0"
    ),
    "union of two joins": (
        "SELECT r.x AS v FROM R [ROWS {0}] AS r LEFT JOIN S [ROWS 2] AS s ON r.x = s.a "
        "UNION ALL SELECT r.x FROM R [RANGE {0} WATTR t] AS r JOIN S [RANGE 2 WATTR t] AS s ON TRUE"
    ),
    "sorted union": (
        "SELECT r.x AS v FROM R AS r WHERE r.x < {} UNION ALL SELECT s.a FROM S AS s ORDER BY v"
    ),
}
"""Queries with something in the place of a number that a change alters."""
DEDUPED = "SELECT x, t FROM dedup(R, key => {}) UNION ALL SELECT a, t FROM dedup(S, key => a)"


def of(stream: str, time: int, number: int) -> Step:
    return Step("tuple", stream, (time, number, 1.5, "a", None))


def small_script(text: str) -> list[Step]:
    """Two batches, a change that makes windows smaller, a late tuple, and the end."""
    return [
        Step("install", "found", text.format(2)),
        of("R", 1, 1),
        of("S", 2, 1),
        of("R", 4, 2),
        of("R", 1, 2),
        Step("change", "found", text.format(1)),
        of("S", 9, 2),
        Step("end"),
    ]


def sent_in(steps: list[Step], size: int) -> Recorded:
    """What the one query of a script is sent."""
    with Recorder(compile_predicates=False) as engine:
        run_on(engine, steps, [size])
    [one] = engine.recorded
    return one


def explore_every_schedule(one: Recorded, leave_out: bool) -> int:
    """The number of schedules, all of which lead to the same output."""
    expected = output(one.came)

    def check(came: list[Any], steps: list[Taken]) -> None:
        by_exit = [("letters" if message[0] == "letters" else "out", message) for message in came]
        rows = [message for name, message in by_exit if name == "out"]
        letters = sorted((m for name, m in by_exit if name == "letters"), key=repr)
        assert (rows, letters) == expected, "\n".join(map(str, steps))

    units = Units(one.network(), lambda message: [seen(message)])
    explored = explore(units, [one.sent], check, leave_out=leave_out)
    print(explored)
    return explored.orders


@pytest.fixture
def dedup() -> Iterator[None]:
    register_block("dedup", DedupBlock)
    yield
    KINDS.pop("dedup", None)
    own_blocks._REGISTERED.pop("dedup", None)


@pytest.mark.parametrize("name", SMALL)
def test_every_schedule_gives_the_oracles_rows(name: str) -> None:
    steps = small_script(SMALL[name])
    with Engine(compile_predicates=False) as engine:
        assert run_on(engine, steps, [3]) == on_oracle(steps)
    explore_every_schedule(sent_in(steps, 3), leave_out=True)


@FEW
@given(steps=SCRIPTS, size=st.sampled_from((1, 2, 5)))
def test_every_schedule_of_a_short_random_script_gives_the_oracles_rows(
    steps: list[Step], size: int
) -> None:
    for one in recorded(steps[:9], [size], 1000):
        explore_every_schedule(one, leave_out=True)


@pytest.mark.parametrize("name", ["selection", "left join", "count"])
def test_every_schedule_leads_to_the_same_also_if_no_order_is_left_out(name: str) -> None:
    assert explore_every_schedule(sent_in(small_script(SMALL[name]), 3), leave_out=False) > 10**9


def test_every_schedule_of_blocks_of_a_users_own_leads_to_the_same(dedup: None) -> None:
    install, *before, _, after, end = small_script("")
    steps = [
        replace(install, value=DEDUPED.format("x")),
        *before,
        Step("change", "found", DEDUPED.format("t")),
        after,
        of("R", 9, 2),
        of("R", 9, 3),
        end,
    ]
    one = sent_in(steps, 2)
    runs = [message.run for _, message in one.came if isinstance(message, Batch)]
    rows = [row for run in runs for row in run.inputs[0].to_pylist()]
    assert [(row["x"], row["t"]) for row in rows] == [(1, 1), (1, 2), (2, 4), (2, 9), (2, 9)]
    assert explore_every_schedule(one, leave_out=True) > 100


@pytest.mark.parametrize("name", ["union of a join", "union of two joins", "sorted union"])
def test_a_synchroniser_that_declined_nothing_would_mix_messages(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the schedules do let one path overtake the other."""
    one = sent_in(small_script(SMALL[name]), 1)
    monkeypatch.setattr(Synchroniser, "needs", lambda self, port: ("out",))
    came = [one.again(lambda network, seed=seed: Schedule(network, seed)) for seed in range(20)]
    assert any(each != output(one.came) for each in came)
    with pytest.raises(AssertionError):
        explore_every_schedule(one, leave_out=True)


# -- threads that are threads ---------------------------------------------------------------


class Meeting(DedupBlock):
    """Lets a batch of rows pass when the block at the other end of a barrier has one too."""

    barrier: threading.Barrier
    names: list[str]

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        if isinstance(message, Batch) and len(message.run):
            self.barrier.wait(30)
            self.names.append(threading.current_thread().name)
        return super().step(port, message)


def test_blocks_work_at_the_same_time_on_threads_of_their_own() -> None:
    Meeting.barrier, Meeting.names = threading.Barrier(2), []
    register_block("meeting", Meeting)
    try:
        with driven(Threads) as engine:
            engine.sql("CREATE STREAM R (x BIGINT)")
            query = engine.install(
                "SELECT x FROM meeting(R, key => x) UNION ALL SELECT x FROM meeting(R, key => x)"
            )
            engine.push("R", [{"x": 1}, {"x": 1}, {"x": 2}])
            assert query.rows().to_pylist() == [{"x": 1}, {"x": 1}, {"x": 2}, {"x": 2}]
    finally:
        KINDS.pop("meeting", None)
        own_blocks._REGISTERED.pop("meeting", None)
    assert len(set(Meeting.names)) == 2
    assert all(name.startswith("penstock dedup #") for name in Meeting.names)


# -- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("drive", [Inline, Threads, Schedule, lambda network: Threads(network, 1)])
def test_a_query_fails_with_the_same_rows_and_the_same_error(drive: Drive) -> None:
    """What was made before the failure comes out, however far the threads were ahead."""
    text = "SELECT window_start, SUM(x) AS s FROM R [RANGE 1 SLIDE 1 WATTR t] WHERE k"
    rows = [(time, 2**62, None, True) for time in (0, 1, 2, 3, 3, 4)]
    columns = [
        pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), LARGE.schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=LARGE.schema)
    with driven(drive) as engine:
        engine.feed([CreateStream(LARGE), Install("q", text), Install("other", "SELECT t FROM R")])
        with pytest.raises(QueryFailed) as caught:
            engine.feed([Tuples("R", batch)])
        assert str(caught.value).startswith(
            "query 'q' is stopped: SUM(x) of the window [3, 4) is 9223372036854775808, "
        )
        assert engine.queries["q"].rows().column(0).to_pylist() == [0, 1, 2]
        assert engine.queries["other"].rows().num_rows == 6
