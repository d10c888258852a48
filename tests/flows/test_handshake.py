"""Handshake join: the pairs of the definition, whatever the schedule; what its cores can know."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.inputs import Arrival, Script, Window, continued, pairs_found_by, pairs_of, scripts

from penstock.blocks.join.partner_search import Arrivals, FoundPairs
from penstock.flows.handshake.chain import chain_network, signals
from penstock.flows.handshake.core import Expire, Gone, HandshakeCore, Tuples
from penstock.flows.handshake.handshake import Handshake
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import CoreFailed, Threads
from penstock.flows.sub_window import SubWindow
from penstock.testing.plain_window import plain_parts
from penstock.testing.schedule import Schedule

ROWS = (Window(rows=5), Window(rows=5))


def scheduled(seed: int, capacity: int = 2, **slow: int) -> Callable[[Network], Driver]:
    pace = {name.replace("_", " "): turns for name, turns in slow.items()}
    return lambda network: Schedule(network, seed, capacity, pace)


def turns(count: int, side: str = "RS") -> tuple[Arrival, ...]:
    """R and S in turn, all with the same key."""
    return tuple(Arrival("RS".index(side[i % len(side)]), 0, i) for i in range(count))


@examples(200)
@given(scripts(), st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_every_schedule_gives_the_pairs_of_the_definition(
    script: Script, cores: int, capacity: int, seed: int
) -> None:
    assert pairs_found_by(Handshake(cores, scheduled(seed, capacity)), script) == script.pairs()


@examples(25)
@given(scripts(), st.integers(1, 4), st.integers(1, 3))
def test_threads_give_the_pairs_of_the_definition(
    script: Script, cores: int, capacity: int
) -> None:
    handshake = Handshake(cores, lambda network: Threads(network, capacity))
    try:
        assert pairs_found_by(handshake, script) == script.pairs()
    finally:
        handshake.close()


@pytest.mark.parametrize("rows", [(0, 0), (0, 3), (1, 0), (1, 1), (2, 3)])
def test_windows_smaller_than_the_number_of_cores(rows: tuple[int, int]) -> None:
    script = Script(turns(40), (Window(rows=rows[0]), Window(rows=rows[1])), (7, 20))
    for seed in range(5):
        assert pairs_found_by(Handshake(7, scheduled(seed)), script) == script.pairs()


@pytest.mark.parametrize("silent", ["R", "S"])
def test_a_stream_that_is_silent_for_ever(silent: str) -> None:
    """The other one goes on, finds those that came before, and is let go when it expires."""
    speaking = "S" if silent == "R" else "R"
    first = turns(6, silent)
    script = Script(first + turns(60, speaking), ROWS, tuple(range(5, 60, 5)))
    handshake = Handshake(3, scheduled(1))
    assert pairs_found_by(handshake, script) == script.pairs()
    stored = np.sum([core["window"] for core in handshake.measures()["cores"]], axis=0)
    assert stored.tolist() == [5, 5]
    assert handshake.oldest("RS".index(speaking)) == 55


@pytest.mark.parametrize("slow", ["core_0", "core_1", "core_2"])
def test_a_core_slower_than_the_others(slow: str) -> None:
    script = Script(turns(80), ROWS, tuple(range(10, 80, 10)))
    for seed in range(5):
        handshake = Handshake(3, scheduled(seed, 2, **{slow: 9}))
        assert pairs_found_by(handshake, script) == script.pairs()


@examples(40)
@given(scripts(), st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 1))
def test_a_chain_that_is_programmed_anew_goes_on_where_it_was(
    script: Script, cores: int, seed: int, where: float
) -> None:
    """Its windows are given to it; the tuples in them have met."""
    cut = round(where * len(script.arrivals))
    assert continued(Handshake(cores, scheduled(seed)), script, cut) == script.pairs()


def test_old_ones_meet_new_ones_after_it_was_programmed_anew() -> None:
    """However far the new ones look back: old ones have no candidates."""
    windows = (Window(rows=40), Window(rows=40))
    script = Script(turns(160), windows, ())
    for seed in range(4):
        handshake = Handshake(3, scheduled(seed))
        assert continued(handshake, script, 100) == script.pairs()


def test_a_tuple_is_gone_only_when_its_last_pairs_have_come_out() -> None:
    """One core's news may overtake another core's pairs by a turn."""
    nothing = np.empty(0, np.int64)
    pair = FoundPairs(np.array([3]), np.array([7]), np.array([9]), nothing)
    driver = ScriptedDriver([[("core 0", Gone(0, 5))], [("core 1", pair)], [], []])
    handshake = Handshake(2, lambda network: driver)
    script = Script((), ROWS, ())
    handshake.change(script.program())
    (chunk,) = script.chunks()
    oldest = []
    handshake._next[0] = 9  # as if nine had been sent
    for _ in range(3):
        for met in handshake.take(chunk):
            assert met is pair
            oldest.append(handshake.oldest(0))
        oldest.append(handshake.oldest(0))
    assert oldest == [0, 0, 5, 5]


class ScriptedDriver:
    """A driver that gives prepared messages."""

    def __init__(self, came: list[list[tuple[str, Any]]]) -> None:
        self._came = came

    def send(self, entry: str, message: Any) -> bool:
        return True

    def received(self) -> list[tuple[str, Any]]:
        return self._came.pop(0)

    def wait(self) -> None: ...

    def settled(self) -> bool:
        return True

    def depths(self) -> dict[str, int]:
        return {}

    def busy(self) -> dict[str, float]:
        return {}

    def close(self) -> None: ...


def test_it_can_be_completed_at_any_time() -> None:
    script = Script(turns(60), ROWS, tuple(range(6, 60, 6)), "equi")
    handshake = Handshake(4, scheduled(3))
    handshake.change(script.program())
    found: list[Any] = []
    for number, chunk in enumerate(script.chunks()):
        found += pairs_of(handshake, handshake.take(chunk))
        if number % 2:
            found += pairs_of(handshake, handshake.complete())
            assert sorted(found) == Script(script.arrivals[: chunk.ranks[1]], ROWS, ()).pairs()
    found += pairs_of(handshake, handshake.complete())
    assert sorted(found) == script.pairs()


def test_where_the_compiled_predicate_does_not_hold_good_all_live_pairs_are_given() -> None:
    """Those whose younger tuple is in such a chunk, and no others."""
    arrivals = tuple(Arrival(i % 2, i, i) for i in range(20))
    script = Script(arrivals, ROWS, (8, 14), "equi")
    handshake = Handshake(3, scheduled(5))
    handshake.change(script.program())
    found: list[Any] = []
    for chunk, compiled in zip(script.chunks(), (True, False, True), strict=True):
        found += pairs_of(handshake, handshake.take(replace(chunk, compiled=compiled)))
    found += pairs_of(handshake, handshake.complete())
    live = replace(script, predicate="any").pairs()
    assert sorted(found) == [(r, s) for r, s in live if 8 <= max(2 * r, 2 * s + 1) < 14]


def test_the_cores_share_the_windows_and_the_work() -> None:
    script = Script(turns(400), (Window(rows=60), Window(rows=60)), tuple(range(20, 400, 20)))
    handshake = Handshake(4, scheduled(2))
    pairs_found_by(handshake, script)
    cores = handshake.measures()["cores"]
    assert [core["core"] for core in cores] == [0, 1, 2, 3]
    assert np.sum([core["window"] for core in cores], axis=0).tolist() == [60, 60]
    assert all(10 <= stored <= 20 for core in cores for stored in core["window"])
    assert sum(core["matched"] for core in cores) == len(script.pairs())
    assert sum(core["comparisons"] for core in cores) == handshake.comparisons
    assert handshake.comparisons == len(script.pairs())
    assert cores[0]["stored"][0] == cores[3]["stored"][1] == 200


def test_figures_are_kept_at_a_change() -> None:
    script = Script(turns(20), ROWS, ())
    handshake = Handshake(2, scheduled(0))
    pairs_found_by(handshake, script)
    once = handshake.measures()["cores"]
    handshake.change(replace(script.program(), before=(10, 10), live=(5, 5), sent=None))
    assert list(handshake.complete()) == []
    assert handshake.measures()["cores"] == once
    assert handshake.comparisons == len(script.pairs())


def test_fifos_stay_within_their_room() -> None:
    """Tuples wait outside if a core is slow; what may exceed the room is acknowledgements."""
    script = Script(turns(300), (Window(rows=50), Window(rows=50)), tuple(range(10, 300, 10)))
    made: list[Schedule] = []

    def driver(network: Network) -> Schedule:
        made.append(Schedule(network, 4, 2, {"core 1": 7}))
        return made[-1]

    handshake = Handshake(3, driver)
    handshake.change(script.program())
    for chunk in script.chunks():
        for _ in handshake.take(chunk):
            pass
        assert max(made[0].waiting(Tuples).values()) <= 2


def test_expiry_is_sent_behind_the_other_stream_and_before_those_who_cannot_see_it() -> None:
    script = Script(turns(8), (Window(rows=1), Window(rows=2)), ())
    (chunk,) = script.plain_chunks()
    sent = [(entry, str(message)) for entry, message in signals(chunk, 1)]
    assert sent == [
        ("left", "R 0"),
        ("right", "S 0"),
        ("left", "R 1"),
        ("right", "expiry of R before 1"),
        ("right", "S 1"),
        ("left", "R 2"),
        ("right", "expiry of R before 2"),
        ("right", "S 2"),
        ("left", "expiry of S before 1"),
        ("left", "R 3"),
        ("right", "expiry of R before 3"),
        ("right", "S 3"),
        ("left", "expiry of S before 2"),
    ]


class BrokenWindow(SubWindow):
    """A window in which nothing can be looked for."""

    def older(self, probes: Arrivals, compiled: bool = True) -> Iterator[FoundPairs]:
        raise ZeroDivisionError("no such key")


def test_a_core_that_fails_is_named_with_what_it_was_given() -> None:
    script = Script(turns(6, "RRS"), ROWS, ())
    handshake = Handshake(1, Threads, BrokenWindow)
    handshake.change(script.program())
    with pytest.raises(CoreFailed) as raised:
        for chunk in script.chunks():
            list(handshake.take(chunk))
        list(handshake.complete())
    handshake.close()
    assert str(raised.value) == (
        "core 0 failed at R 0..3: ZeroDivisionError: no such key\n"
        "The query is stopped, since rows would be missing; install it again."
    )


# -- what a core can reach --------------------------------------------------------------------


def reachable(start: object) -> list[object]:
    """All objects that can be come by from one; modules, classes and code lead everywhere."""
    seen, waiting = {id(start): start}, [start]
    while waiting:
        for found in gc.get_referents(waiting.pop()):
            ends = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
            if id(found) not in seen and not isinstance(found, ends):
                seen[id(found)] = found
                waiting.append(found)
    return list(seen.values())


def test_a_core_knows_nobody_and_is_wired_to_its_neighbours_only() -> None:
    cores = [HandshakeCore(number, 5, plain_parts()) for number in range(5)]
    network = chain_network(cores)
    driver = Schedule(network, 1)
    script = Script(turns(40), ROWS, ())
    for chunk in script.plain_chunks():
        for entry, message in signals(chunk, 1):
            while not driver.send(entry, message):
                driver.received()
                driver.wait()
    for core in cores:
        others = [o for o in reachable(core) if isinstance(o, (HandshakeCore, Network, Schedule))]
        assert others == [core]
    neighbours: dict[str, set[str]] = {core.name: set() for core in cores}
    for (source, _), (target, _) in network.wires.items():
        neighbours[source].add(target)
    assert neighbours == {
        "core 0": {"core 1"},
        "core 1": {"core 0", "core 2"},
        "core 2": {"core 1", "core 3"},
        "core 3": {"core 2", "core 4"},
        "core 4": {"core 3"},
    }
    assert sorted(network.entries.values()) == [("core 0", "left"), ("core 4", "right")]


def test_a_tuple_that_expires_before_it_has_arrived_at_the_end_is_pulled_there() -> None:
    cores = [HandshakeCore(number, 3, plain_parts()) for number in range(3)]
    driver = Schedule(chain_network(cores), 3)
    script = Script(turns(12), (Window(rows=0), Window(rows=0)), ())
    (chunk,) = script.plain_chunks()
    for number in (0, 1):
        driver.send(("right", "left")[number], Expire(number, 6))
    group = chunk.arrivals[1].part(0, 6)
    driver.send("right", Tuples(group))  # type: ignore[arg-type]
    while not driver.settled():
        driver.received()
        driver.wait()
    assert [core.measures()["window"] for core in cores] == [[0, 0]] * 3
    assert [core.measures()["stored"] for core in cores] == [[0, 6]] * 3
