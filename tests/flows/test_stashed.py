"""Stashed-MJ: the nine cases of its stages, the access lock, and every state of the stash."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.flows.designs import DRIVERS, always_partial, by_seed, using
from tests.flows.test_circular import (
    ALL_LINKED,
    BUSY,
    CHAIN_OF_THREE,
    STREAMS,
    WINDOWS,
    meant,
    query,
    run,
    tuples,
)
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.blocks.multiway.combination_search import Arrived, Combinations
from penstock.blocks.window.punctuator import Clock
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.flows.circular.stage import JoinCore
from penstock.flows.make import DESIGNS
from penstock.flows.multi_flow import MakeUnits, NewTuples
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import Threads
from penstock.flows.stashed import stashed as stashed_module
from penstock.flows.stashed.recomputing_stash import Direction, RecomputingStash, SortedStash
from penstock.flows.stashed.stash import Live, Pairs, Stash
from penstock.flows.stashed.stashed import published_stash, recomputing_stash, stashed_units
from penstock.flows.stashed.storage import WindowAccessLock
from penstock.program.choose.stash import StashPlan
from penstock.program.isa.flow import Flow
from penstock.streams.events import Merged, Tuples

A, B, C = 0, 1, 2
INTEGERS = Clock(floating=False)
NO_STASH = StashPlan(A, B, C, None, "disabled")
Access = tuple[str, str, int, int]
"""Stage, unit, window, and the rank of the arrival."""


@pytest.fixture(autouse=True)
def single_tuples() -> Iterator[None]:
    """Chunks of one tuple, as in the publication."""
    with low_thresholds(ranks_per_set=1, pairs_per_message=9):
        yield


def plan(size: int | None) -> StashPlan:
    """A stash for A and B."""
    return StashPlan(A, B, C, size, "in a test")


# -- Table 6.3.1 --------------------------------------------------------------------------------


class TracedCore(JoinCore):
    """A window that notes which unit has access to it.

    They are made in the order W_S1 and W_S2 of the first stage, W_S2 and W_S3 of the second.
    """

    made: int
    trace: list[Access]

    def store(self, tuples: NewTuples) -> None:
        if self._input in tuples.origins:
            stage = "stage 2" if self._input == C else "stage 1"
            self.trace.append((stage, "SEU", self._input, tuples.ranks[0]))
        super().store(tuples)

    def lookup(self, arrived: Arrived, origin: int, given: Combinations, *more: Any) -> Any:
        if len(given):
            stage = "stage 1" if self.made < 2 else "stage 2"
            self.trace.append((stage, "PU", self._input, int(given.ranks[0])))
        return super().lookup(arrived, origin, given, *more)


def traced_units(trace: list[Access], given: StashPlan) -> MakeUnits:
    made: list[TracedCore] = []

    def core(*parts: Any) -> JoinCore:
        one = TracedCore(*parts)
        one.made, one.trace = len(made) % 4, trace
        made.append(one)
        return one

    return stashed_units(given, make_stash=published_stash, make_core=core)


TABLE = {
    # The tuple in stage 1: PU, SEU; the tuple in stage 2: PU, SEU.
    "AA": ((B, A), (C, None)),
    "AB": ((B, A), (C, None)),
    "AC": ((B, A), (B, C)),
    "BA": ((A, B), (C, None)),
    "BB": ((A, B), (C, None)),
    "BC": ((A, B), (B, C)),
    "CA": ((A, None), (C, None)),
    "CB": ((A, None), (C, None)),
    "CC": ((A, None), (B, C)),
}


def accesses(trace: Sequence[Access], stage: str, rank: int) -> tuple[int | None, int | None]:
    """The windows of the processing unit and of the storage and expiration unit."""
    found = {unit: window for at, unit, window, of in trace if (at, of) == (stage, rank)}
    return found.get("PU"), found.get("SEU")


@pytest.mark.parametrize("case", TABLE)
def test_the_stages_have_access_to_the_windows_of_the_nine_cases(case: str) -> None:
    """The first letter is in stage 1 while the second, which came before it, is in stage 2."""
    text, events = query(("ROWS 2",) * 3, ALL_LINKED), tuples("ABC" + case[1] + case[0])
    at_once = 0
    for seed in range(20):
        trace: list[Access] = []
        with using(traced_units(trace, NO_STASH), by_seed(seed, capacity=4)):
            assert run(text, events) == meant(text, events)
        assert (accesses(trace, "stage 1", 4), accesses(trace, "stage 2", 3)) == TABLE[case]
        ahead = [place for place, access in enumerate(trace) if access[::3] == ("stage 1", 4)]
        behind = [place for place, access in enumerate(trace) if access[::3] == ("stage 2", 3)]
        at_once += min(ahead) < max(behind)
    assert at_once > 0


@pytest.mark.parametrize("case", ["AC", "BC", "CC"])
def test_a_valid_stash_leaves_window_s2_to_the_first_stage(case: str) -> None:
    """Then there is neither a read nor a write conflict."""
    text, events = query(("ROWS 2",) * 3, ALL_LINKED), tuples("ABC" + case[1] + case[0])
    trace: list[Access] = []
    with using(traced_units(trace, plan(9)), Inline):
        assert run(text, events) == meant(text, events)
    assert accesses(trace, "stage 2", 3) == (None, C)
    assert {window for stage, _, window, _ in trace if stage == "stage 2"} == {C}


class Signals:
    """What the threads of a test wait for."""

    def __init__(self) -> None:
        self.first_stage_stalls = threading.Event()
        self.first_stage_reads = threading.Event()
        self.second_stage_reads = threading.Event()


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Signals:
    signals = Signals()

    class SignallingLock(WindowAccessLock):
        @property
        def stalls(self) -> int:
            return self._stalls

        @stalls.setter
        def stalls(self, count: int) -> None:
            self._stalls = count
            if count:
                signals.first_stage_stalls.set()

    monkeypatch.setattr(stashed_module, "WindowAccessLock", SignallingLock)
    return signals


def waiting_units(before: Callable[[TracedCore, str, int], None]) -> MakeUnits:
    """Stages without a stash that call a function before a unit has access to a window.

    It is told of the unit and the rank of the arrival.
    """

    class Waiting(TracedCore):
        def store(self, tuples: NewTuples) -> None:
            before(self, "SEU", tuples.ranks[0])
            super().store(tuples)

        def lookup(self, arrived: Arrived, origin: int, given: Combinations, *more: Any) -> Any:
            for rank in given.ranks.tolist():
                before(self, "PU", rank)
            return super().lookup(arrived, origin, given, *more)

    made: list[TracedCore] = []

    def core(*parts: Any) -> JoinCore:
        one = Waiting(*parts)
        one.made, one.trace = len(made), []
        made.append(one)
        return one

    return stashed_units(NO_STASH, make_core=core)


def test_to_write_window_s2_the_first_stage_waits_while_the_second_reads_it(
    signals: Signals,
) -> None:
    def before(core: TracedCore, unit: str, rank: int) -> None:
        if (core.made, unit, rank) == (0, "SEU", 3):
            assert signals.second_stage_reads.wait(60)
        if (core.made, unit, rank) == (2, "PU", 2):
            signals.second_stage_reads.set()
            assert signals.first_stage_stalls.wait(60)

    text, events = query(("ROWS 1",) * 3, ALL_LINKED), tuples("ABCB")
    with using(waiting_units(before), Threads):
        rows, metrics = measured(text, events)
    assert rows == meant(text, events)
    assert metrics["cores"][1]["stalls"] == [0, 1, 0]


def test_both_stages_read_window_s2_at_once(signals: Signals) -> None:
    def before(core: TracedCore, unit: str, rank: int) -> None:
        if (core.made, unit, rank) == (1, "PU", 3):
            assert signals.second_stage_reads.wait(60)
            signals.first_stage_reads.set()
        if (core.made, unit, rank) == (2, "PU", 2):
            signals.second_stage_reads.set()
            assert signals.first_stage_reads.wait(60)

    text, events = query(("ROWS 1",) * 3, ALL_LINKED), tuples("ABCA")
    with using(waiting_units(before), Threads):
        rows, metrics = measured(text, events)
    assert rows == meant(text, events)
    assert metrics["cores"][1]["stalls"] == [0, 0, 0]


# -- the stash ----------------------------------------------------------------------------------


def pairs(*numbers: tuple[int, int], expiry: Sequence[int] | None = None) -> Pairs:
    first, second = (np.array([pair[i] for pair in numbers], np.int64) for i in (0, 1))
    ends = [INTEGERS.highest] * len(numbers) if expiry is None else expiry
    return Pairs((first, second), np.array(ends, np.int64))


def live(first: int, second: int, time: int = 0) -> Live:
    return Live((first, second), (100, 100), time)


def content(found: Pairs) -> list[tuple[int, int]]:
    first, second = found.numbers
    return list(zip(first.tolist(), second.tolist(), strict=True))


def test_a_pair_expires_with_the_first_of_its_tuples() -> None:
    stash = Stash(4, INTEGERS)
    stash.store(0, pairs((1, 5), (2, 3), (4, 4)))
    stash.expire(live(2, 0))
    assert stash.valid_bits.tolist() == [False, True, True, False]
    stash.expire(live(2, 4))
    assert stash.valid_bits.tolist() == [False, False, True, False]
    assert content(stash.known(live(2, 4))) == [(4, 4)]
    assert stash.is_valid


def test_a_valid_stash_stores_in_empty_slots() -> None:
    stash = Stash(4, INTEGERS)
    stash.store(0, pairs((1, 9), (7, 9), (2, 9)))
    stash.expire(live(3, 0))
    stash.store(0, pairs((8, 9), (9, 9), (10, 9)))
    # The search goes on from the last slot, and passes over the one that is not empty.
    assert content(stash.known(live(3, 0))) == [(9, 9), (7, 9), (10, 9), (8, 9)]
    assert stash.is_valid and stash.overwrites == 0


def test_an_overwrite_makes_it_invalid() -> None:
    stash = Stash(2, INTEGERS)
    stash.store(0, pairs((1, 1), (2, 1)))
    assert stash.missing(live(0, 0)) == ()
    stash.store(0, pairs((3, 1)))
    assert not stash.is_valid and stash.overwrites == 1
    assert stash.missing(live(0, 0)) is None
    assert content(stash.known(live(0, 0))) == []


def test_an_invalid_stash_stores_slot_after_slot() -> None:
    stash = Stash(3, INTEGERS)
    stash.store(0, pairs((5, 5), (6, 1), (7, 5), (8, 5)))
    stash.expire(live(0, 2))
    assert stash.valid_bits.tolist() == [True, False, True] and not stash.is_valid
    stash.store(0, pairs((9, 5), (10, 5)))
    # The first one finds its slot empty, the second one does not.
    assert stash.overwrites == 2 and stash.fill == 3
    # More pairs at once than slots: some overwrite each other.
    stash.store(0, pairs(*((n, 5) for n in range(11, 16))))
    assert stash.overwrites == 2 + 5
    stash.expire(live(13, 5))
    assert content(stash._slots.take(stash.valid_bits)) == [(13, 5), (14, 5), (15, 5)]


@pytest.mark.parametrize(
    ("now", "recovers"),
    [
        (live(2, 7, 29), False),
        (live(3, 0, 0), True),
        (live(0, 8, 0), True),
        (live(0, 0, 30), True),
    ],
)
def test_it_recovers_once_no_overwritten_pair_can_be_live(now: Live, recovers: bool) -> None:
    """The youngest overwritten tuples are 2 and 7, and the last overwritten pair ends at 30."""
    stash = Stash(2, INTEGERS)
    stash.store(0, pairs((1, 7), (2, 6), expiry=(30, 20)))
    stash.store(0, pairs((50, 50), (51, 50), expiry=(90, 90)))
    assert not stash.is_valid and stash.overwrites == 2
    stash.expire(now)
    assert stash.is_valid == recovers
    assert stash.recoveries == recovers
    assert content(stash.known(now)) == [(50, 50), (51, 50)] * recovers


def test_another_overwrite_puts_off_the_recovery() -> None:
    stash = Stash(1, INTEGERS)
    stash.store(0, pairs((1, 1), (2, 2), (3, 3)))
    stash.expire(live(2, 2))
    assert not stash.is_valid
    stash.store(0, pairs((4, 4)))
    stash.expire(live(3, 3))
    assert not stash.is_valid
    stash.expire(live(4, 4))
    assert stash.is_valid and stash.recoveries == 1


# -- the stash with recomputation -----------------------------------------------------------------


def sorted_stash(size: int, rows: int | None = None) -> SortedStash:
    return SortedStash(size, INTEGERS, Direction(younger=0, indexed=1, rows=rows))


def test_pairs_are_inserted_by_the_index_of_their_window() -> None:
    stash = sorted_stash(9, rows=10)
    stash.store(pairs((1, 25), (2, 21)))
    stash.store(pairs((3, 19), (4, 23), (5, 25)))
    assert content(stash.pairs) == [(2, 21), (4, 23), (1, 25), (5, 25), (3, 19)]


def test_storage_reclamation_leaves_no_gap() -> None:
    stash = sorted_stash(9)
    stash.store(pairs((1, 1), (9, 2), (2, 3), (9, 4)))
    stash.expire(live(5, 0))
    assert content(stash.pairs) == [(9, 2), (9, 4)]


def test_the_lowest_indexes_are_overwritten_and_their_interval_is_recomputed() -> None:
    stash = sorted_stash(3, rows=10)
    stash.store(pairs((50, 92), (50, 94), (50, 95)))
    stash.store(pairs((51, 93), (51, 96), (51, 94)))
    # Of 92, 93, 94, 94, 95, 96 three are left; one pair of 94 is among them.
    assert content(stash.pairs) == [(51, 94), (50, 95), (51, 96)]
    assert stash.overwrites == 3
    now = Live((40, 90), (52, 100), 0)
    assert stash.interval(now).spans == ((92, 95),)
    # What is inside the interval comes from recomputation alone.
    assert content(stash.known(now)) == [(50, 95), (51, 96)]


def test_an_interval_goes_round_the_end_of_the_window_if_that_is_shorter() -> None:
    stash = sorted_stash(2, rows=10)
    # Indexes 1, 0, 5, 9: the numbers 91 and 90, overwritten, are the oldest of the window; 89 left.
    stash.store(pairs((50, 91), (50, 90), (50, 95), (50, 99)))
    assert stash.interval(Live((40, 90), (60, 100), 0)).spans == ((90, 92),)
    stash.lose(pairs((50, 98)))
    assert stash.interval(Live((40, 90), (60, 100), 0)).spans == ((98, 100), (90, 92))


@pytest.mark.parametrize("now", [live(51, 0), live(0, 93), live(0, 0, 30)])
def test_it_recovers_when_all_overwritten_pairs_have_expired(now: Live) -> None:
    directions = Direction(0, 1, None), Direction(1, 0, None)
    stash = RecomputingStash(2, INTEGERS, directions)
    stash.store(0, pairs((49, 92), (60, 95), expiry=(20, 99)))
    stash.lose(0, pairs((50, 92), expiry=[30]))
    assert not stash.is_valid and stash.overwrites == 2
    (interval,) = stash.missing(live(0, 90)) or ()
    assert (interval.younger, interval.indexed, interval.spans) == (0, 1, ((92, 93),))
    stash.expire(live(50, 92, 29))
    assert not stash.is_valid
    stash.expire(now)
    assert stash.is_valid and stash.recoveries == 1
    assert stash.missing(now) == []
    assert content(stash.known(now)) == [(60, 95)]


def test_an_interval_that_is_no_smaller_than_the_window_is_not_worth_it() -> None:
    directions = Direction(0, 1, None), Direction(1, 0, None)
    stash = RecomputingStash(2, INTEGERS, directions)
    stash.lose(0, pairs((50, 92), (50, 96)))
    stash.store(0, pairs((51, 98)))
    # Five tuples of the interval and a pair, or the window of S1.
    assert stash.missing(Live((43, 90), (50, 100), 0)) is not None
    assert stash.missing(Live((44, 90), (50, 100), 0)) is None


# -- in an engine ---------------------------------------------------------------------------------


def measured(text: str, events: Sequence[Tuples]) -> tuple[list[Any], dict[str, Any]]:
    """The rows and the metrics of the engine, which takes all in one batch."""
    with Engine(compile_predicates=False) as engine:
        for stream in STREAMS:
            engine.stream(stream.name, stream.schema)
        handle = engine.install(text, name="q")
        engine.feed(events)
        rows = [tuple(row.values()) for row in handle.rows().to_pylist()]
        return rows, handle.metrics()


class Session:
    """A query whose stash is looked at after every push."""

    def __init__(self, engine: Engine, text: str) -> None:
        self._engine = engine
        for stream in STREAMS:
            engine.stream(stream.name, stream.schema)
        self.query = engine.install(text, name="q")

    def push(self, arrivals: str, key: int = 1, time: int | None = None) -> dict[str, Any]:
        for name in arrivals:
            row = {"t": [time], "k": [key]}
            schema = STREAMS[0].schema
            self._engine.feed([Tuples(name, pa.RecordBatch.from_pydict(row, schema=schema))])
        return self.stash

    @property
    def stash(self) -> dict[str, Any]:
        (figures,) = self.query.metrics()["cores"][0]["stash"]
        assert isinstance(figures, dict)
        return figures

    def states(self, *names: str) -> tuple[Any, ...]:
        return tuple(self.stash[name] for name in names)


@pytest.fixture
def session() -> Iterator[Callable[[MakeUnits, str], Session]]:
    with ExitStack() as stack:

        def begin(units: MakeUnits, text: str) -> Session:
            stack.enter_context(using(units, Inline))
            return Session(stack.enter_context(Engine(compile_predicates=False)), text)

        yield begin


EVERY_KIND = pytest.mark.parametrize("kind", [published_stash, recomputing_stash, always_partial])
KINDS = pytest.mark.parametrize("kind", [published_stash, recomputing_stash])
Begin = Callable[[MakeUnits, str], Session]


def test_it_is_valid_then_invalid_then_valid_again(session: Begin) -> None:
    text = query(("ROWS 3",) * 3, ALL_LINKED)
    one = session(stashed_units(plan(2), make_stash=published_stash), text)
    one.push("AAB")
    assert one.states("state", "fill", "overwrites") == ("valid", 2, 0)
    one.push("C")
    assert one.states("hits", "partial", "misses") == (1, 0, 0)
    one.push("B")
    assert one.states("state", "fill", "overwrites") == ("invalid", 2, 2)
    one.push("C")
    assert one.states("hits", "partial", "misses") == (1, 0, 1)
    # The overwritten pairs have the two tuples of A. These leave the window.
    one.push("AA", key=2)
    assert one.states("state", "recoveries") == ("invalid", 0)
    one.push("A", key=2)
    assert one.states("state", "fill", "recoveries") == ("valid", 0, 1)
    one.push("C")
    assert one.states("hits", "partial", "misses") == (2, 0, 1)
    assert one.query.rows().num_rows == 2 + 2 + 4


def test_with_recomputation_it_is_of_use_while_it_is_invalid(session: Begin) -> None:
    """Pairs that tuples of B have found have half of the slots."""
    one = session(stashed_units(plan(4)), query(("ROWS 6",) * 3, ALL_LINKED))
    one.push("AAAA", key=2)
    one.push("AABC")
    assert one.states("state", "fill", "overwrites") == ("valid", 2, 0)
    one.push("B")
    assert one.states("state", "fill", "overwrites") == ("invalid", 2, 2)
    one.push("C")
    assert one.states("hits", "partial", "misses") == (1, 1, 0)
    # The overwritten pairs are those of one tuple of A, which leaves the window.
    one.push("AAAA", key=2)
    assert one.states("state", "recoveries") == ("invalid", 0)
    one.push("A", key=2)
    assert one.states("state", "fill", "recoveries") == ("valid", 2, 1)
    one.push("C")
    assert one.states("hits", "partial", "misses") == (2, 1, 0)
    assert one.query.rows().num_rows == 2 + 2 + 4 + 2


def test_a_part_of_a_window_is_recomputed(session: Begin) -> None:
    one = session(stashed_units(plan(4)), query(("ROWS 9",) * 3, ALL_LINKED))
    one.push("A", key=1)
    one.push("AAAA", key=2)
    one.push("A", key=1)
    one.push("A", key=3)
    one.push("B", key=1)
    one.push("B", key=3)
    # Three pairs, two slots: the one of the first tuple of A is overwritten.
    assert one.states("state", "fill", "overwrites") == ("invalid", 2, 1)
    before = one.query.metrics()["comparisons"]
    one.push("C", key=1)
    assert one.states("hits", "partial", "misses") == (0, 1, 0)
    assert one.query.rows().num_rows == 2
    # The tuple was compared with the two pairs, the tuple in the interval, and two of B.
    assert one.query.metrics()["comparisons"] - before <= 2 + 1 + 2


@KINDS
def test_equal_keys_do_not_expire_together(session: Begin, kind: Any) -> None:
    """By key, as published, the second pair would go with the first tuple of A."""
    one = session(stashed_units(plan(8), make_stash=kind), query(("ROWS 2",) * 3, ALL_LINKED))
    one.push("ABA")
    assert one.states("fill") == (2,)
    one.push("A", key=2)
    assert one.states("fill") == (1,)
    one.push("C")
    assert one.states("hits") == (1,)
    assert one.query.rows().num_rows == 1


@KINDS
def test_out_of_time_order_it_recovers_when_no_overwritten_pair_can_be_live(
    session: Begin, kind: Any
) -> None:
    text = query(("RANGE 10 WATTR t SLACK 5",) * 3, ALL_LINKED)
    one = session(stashed_units(plan(1), make_stash=kind), text)
    one.push("A", time=8)
    one.push("A", time=4)
    one.push("B", time=7)
    assert one.states("state") == ("invalid",)
    # One of the two pairs was overwritten; they end at 14 and 17. A younger tuple of A stays live.
    one.push("AB", key=2, time=11)
    one.push("C", time=18)
    assert one.states("state") == ("invalid",)
    one.push("C", time=22)
    assert one.states("state", "fill", "recoveries") == ("valid", 1, 1)


def test_a_stash_that_is_too_small_costs_comparisons_and_no_rows() -> None:
    text, events = query(("ROWS 8",) * 3), tuples(BUSY * 4)
    found = {}
    for size in (1, 4, 4096):
        with using(stashed_units(plan(size), make_stash=published_stash), Inline):
            rows, metrics = measured(text, events)
        assert rows == meant(text, events)
        (figures,) = metrics["cores"][0]["stash"]
        found[size] = figures["misses"], figures["overwrites"]
    assert found[1][0] > found[4096][0] == 0
    assert found[1][1] > found[4][1] > found[4096][1] == 0


@pytest.mark.product(16, by="kind")
@pytest.mark.parametrize("size", [1, 2, 7, 4096])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("driver", DRIVERS)
@EVERY_KIND
def test_rows_never_depend_on_the_size(size: int, windows: str, driver: str, kind: Any) -> None:
    text, events = query(WINDOWS[windows]), tuples(BUSY)
    for ranks in (1, 5, 100):
        with (
            low_thresholds(ranks_per_set=ranks, pairs_per_message=9),
            using(stashed_units(size=size, make_stash=kind), DRIVERS[driver](ranks)),
        ):
            assert run(text, events) == meant(text, events)


@KINDS
def test_more_pairs_than_the_result_storage_unit_holds_count_as_overwritten(
    session: Begin, kind: Any
) -> None:
    text, events = query(("ROWS 9",) * 3, ALL_LINKED), tuples("AAAAABBBBBC")
    with (
        low_thresholds(ranks_per_set=100, pairs_per_message=3),
        using(stashed_units(plan(4), make_stash=kind), Inline),
    ):
        rows, metrics = measured(text, events)
    assert rows == meant(text, events)
    (figures,) = metrics["cores"][0]["stash"]
    assert (figures["state"], figures["misses"]) == ("invalid", 1)
    assert figures["overwrites"] == 25 - figures["fill"]


# -- changes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "state", "fill"),
    [
        ("SELECT a.t AS t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
         "JOIN C [ROWS 9] AS c ON b.k + 0 = c.k", "valid", 2),
        ("SELECT a.t AS t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
         "JOIN C [ROWS 5] AS c ON b.k + 0 <= c.k", "valid", 2),
        ("SELECT a.t AS t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k <= b.k "
         "JOIN C [ROWS 9] AS c ON b.k + 0 = c.k", "invalid", 0),
        ("SELECT a.t AS t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
         "JOIN C [ROWS 9] AS c ON b.k + 0 = c.k WHERE a.t IS NULL", "invalid", 0),
        ("SELECT a.t AS t FROM A [ROWS 8] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
         "JOIN C [ROWS 9] AS c ON b.k + 0 = c.k", "invalid", 0),
    ],
    ids=["columns", "of S3", "condition of the pair", "filter of the pair", "window of the pair"],
)  # fmt: skip
@KINDS
def test_a_change_of_the_pair_invalidates_the_stash_and_no_other_does(
    session: Begin, changed: str, state: str, fill: int, kind: Any
) -> None:
    one = session(stashed_units(plan(64), make_stash=kind), query(("ROWS 9",) * 3, CHAIN_OF_THREE))
    one.push("AABC")
    assert one.states("state", "fill") == ("valid", 2)
    assert one.query.rows().num_rows == 2
    one.query.change(changed)
    one.push("C")
    assert one.states("state", "fill") == (state, fill)
    assert one.query.rows().num_rows == 2
    # Once the tuples that it knew nothing of have left, it is valid.
    one.push("A" * 9, key=3)
    assert one.states("state", "fill") == ("valid", 0)
    one.push("B", key=3)
    one.push("C", key=3)
    assert one.query.rows().num_rows == (8 if "ROWS 8" in changed else 9)
    assert one.states("state", "hits") == ("valid", 1 + (state == "valid"))


# -- large batches --------------------------------------------------------------------------------

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "v": pa.int64(), "w": pa.string()})
LARGE = {
    "counts": ("ROWS 400", "ROWS 300", "ROWS 500"),
    "times": ("RANGE 500 WATTR t SLACK 20",) * 3,
    "both": ("ROWS 400", "RANGE 500 WATTR t SLACK 20", "ROWS 300"),
    "count of S3": ("RANGE 400 WATTR t SLACK 20", "RANGE 500 WATTR t SLACK 20", "ROWS 300"),
}
CONDITIONS = {
    "chain": "a.v = b.k AND b.v = c.k",
    "star": "a.k = b.k AND a.k = c.k AND c.v < b.v + 40",
    "words": "a.v = b.k AND b.w = c.w AND c.k BETWEEN b.v - 1 AND b.v + 1",
}


def large_batches(stream: str) -> Iterator[pa.RecordBatch]:
    chance = np.random.default_rng(ord(stream))
    for start in range(0, 3000, 500):
        times = np.arange(start, start + 500) - chance.integers(0, 20, 500)
        keys, values = chance.integers(0, 150, (2, 500))
        words = [f"w{number}" for number in chance.integers(0, 5, 500)]
        columns = {"t": times, "k": keys, "v": values, "w": words}
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def on_large_batches(windows: str, on: str) -> tuple[list[Any], dict[str, Any]]:
    text = "SELECT a.t AS a, b.t AS b, c.t AS c FROM A [{}] AS a, B [{}] AS b, C [{}] AS c WHERE "
    with Engine(batch_rows=4000, buffer_rows=1 << 24) as engine:
        for stream in "ABC":
            engine.stream(stream, SCHEMA)
        one = engine.install(text.format(*LARGE[windows]) + CONDITIONS[on])
        for together in zip(*map(large_batches, "ABC"), strict=True):
            engine.feed([Tuples(s, batch) for s, batch in zip("ABC", together, strict=True)])
        return one.rows().to_pylist(), one.metrics()


@pytest.mark.product(1, by="windows")
@pytest.mark.parametrize("windows", LARGE)
@pytest.mark.parametrize("on", CONDITIONS)
def test_large_batches_give_the_rows_of_mjoin_in_order(windows: str, on: str) -> None:
    """With compiled predicates, on threads; with room for all pairs, S3 needs the stash alone."""
    with tuning.given(
        ranks_per_set=150, pairs_per_message=1 << 18, longest_tail=64, tuples_to_pack=4096
    ):
        expected, _ = on_large_batches(windows, on)
        assert len(expected) > 100
        for size, kind in ((1 << 16, recomputing_stash), (1500, recomputing_stash),
                           (40, always_partial), (1 << 16, published_stash)):  # fmt: skip
            with using(stashed_units(plan(size), make_stash=kind), Threads):
                found, metrics = on_large_batches(windows, on)
            assert found == expected
            (figures,) = metrics["cores"][0]["stash"]
            assert figures["hits"] + figures["partial"] + figures["misses"] == 3000
            if size > 1500:
                assert figures["hits"] == 3000
    assert metrics["comparisons"] == sum(core["comparisons"] for core in metrics["cores"])
    stored = np.sum([core["stored"] for core in metrics["cores"]], axis=0)
    assert stored.tolist() == list(metrics["tuples_in"].values()) == [3000] * 3
    assert all(core["busy"] > 0 for core in metrics["cores"])


# -- the pair and the size, as measured -----------------------------------------------------------

MEASURED = """SELECT a.t AS a, b.t AS b, c.t AS c FROM A [ROWS 400] AS a
    JOIN B [ROWS 400] AS b ON a.k = b.k JOIN C [ROWS 400] AS c ON b.k = c.k"""


class Shifting:
    """The join MEASURED with a stash, beside the same one without."""

    def __init__(self, engine: Engine, **asked: Any) -> None:
        self._engine = engine
        for stream in STREAMS:
            engine.stream(stream.name, stream.schema)
        options: dict[str, Any] = {"kernel": "nested-loop", **asked}
        self.query = engine.install(MEASURED, design="stashed", **options)
        self._plain = engine.install(MEASURED, design="mjoin", kernel="nested-loop")
        self._chance = np.random.default_rng(7)

    def push(self, shares: tuple[float, float, float], values: int, count: int = 2000) -> None:
        """Push ``count`` arrivals with the given share of each stream and number of keys."""
        which = self._chance.choice(3, count, p=shares).astype(np.int8)
        batches = tuple(
            pa.RecordBatch.from_pydict(
                {"t": mine, "k": self._chance.integers(0, values, len(mine))},
                schema=STREAMS[0].schema,
            )
            for mine in (np.flatnonzero(which == i) for i in range(3))
        )
        self._engine.feed([Merged(tuple("ABC"), batches, which)])
        assert self.query.rows() == self._plain.rows()

    def told(self, *names: str) -> tuple[Any, ...]:
        """Figures of the stash; its streams in the order of FROM."""
        (figures,) = self.query.metrics()["cores"][0]["stash"]
        return tuple(
            sorted(found) if type(found := figures[name]) is list else found for name in names
        )


@pytest.fixture
def shifting() -> Iterator[Callable[..., Shifting]]:
    with (
        tuning.given(
            first_order_revision=1000,
            last_order_revision=2000,
            smallest_order_sample=8,
            order_sample=64,
        ),
        Engine(buffer_rows=1 << 20) as engine,
    ):
        yield lambda **asked: Shifting(engine, **asked)


@pytest.mark.long
def test_the_busiest_stream_comes_to_be_the_one_that_the_stash_answers(
    shifting: Callable[..., Shifting],
) -> None:
    one = shifting()
    static = (
        "stash of 400 pairs of A (1) and B (2): without estimates, the pair that the closest "
        "condition links"
    )
    assert static in one.query.explain().splitlines()
    assert one.query.metrics()["designs"] == []
    for _ in range(4):
        one.push((0.8, 0.1, 0.1), 10**6)
    assert one.told("streams", "state") == ([1, 2], "valid")
    [why] = one.query.metrics()["designs"]
    assert re.fullmatch(
        r"design stashed: a stash of \d+ pairs of [BC \(\d\)and]+: a tuple of A \(1\) is "
        r"compared with \d+ pairs instead of 400 tuples; \d+ comparisons of an arrival instead of "
        r"\d+ \(measured with 384 tuples\)",
        why,
    )
    assert why in one.query.explain().splitlines()
    for _ in range(4):
        one.push((0.1, 0.1, 0.8), 10**6)
    assert one.told("streams", "state") == ([0, 1], "valid")


@pytest.mark.long
def test_with_too_many_pairs_there_is_no_stash_until_there_are_few(
    shifting: Callable[..., Shifting],
) -> None:
    one = shifting()
    for _ in range(2):
        one.push((0.3, 0.3, 0.4), 50)
    assert one.told("state") == ("disabled",)
    [why] = one.query.metrics()["designs"]
    assert re.fullmatch(
        r"design stashed: no stash: the [\d,]+ pairs of \w \(\d\) and \w \(\d\) that are live need "
        r"more room than a window \(measured with 384 tuples\)",
        why,
    )
    for _ in range(3):
        one.push((0.3, 0.3, 0.4), 10**6)
    assert one.told("state") == ("valid",)


@pytest.mark.long
def test_a_number_of_pairs_that_is_asked_for_stays(shifting: Callable[..., Shifting]) -> None:
    one = shifting(stash=7)
    for _ in range(3):
        one.push((0.8, 0.1, 0.1), 50)
    assert one.told("streams", "size") == ([1, 2], 7)


# -- failures -------------------------------------------------------------------------------------


class BrokenCore(JoinCore):
    def lookup(self, *given: Any) -> Combinations | None:
        raise ZeroDivisionError("boom")


@pytest.mark.parametrize("driver", [Inline, Threads])
def test_a_stage_that_fails_stops_the_query(driver: Callable[[Network], Driver]) -> None:
    with (
        using(stashed_units(make_core=BrokenCore), driver),
        pytest.raises(QueryFailed, match="ZeroDivisionError: boom"),
    ):
        run(query(WINDOWS["of one"]), tuples("A"))


def test_four_streams_are_refused() -> None:
    text = "SELECT a.t AS t FROM A [ROWS 1] AS a, B [ROWS 1] AS b, C [ROWS 1] AS c, A [ROWS 1] AS d"
    with (
        using(stashed_units(), Inline),
        pytest.raises(QueryFailed, match="the design stashed joins three streams, and the query "),
    ):
        run(text, tuples("A"))


def test_it_is_among_the_designs() -> None:
    search = DESIGNS["stashed"](Flow("three-step", 2, 2, "inner", 1, "wait"))
    assert search.measures() == {"cores": []}
    search.close()
