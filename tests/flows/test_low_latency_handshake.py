"""Low-latency handshake join: the pairs of the definition, whatever the schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.inputs import Arrival, Script, Window, continued, pairs_found_by, pairs_of, scripts

from penstock.flows.low_latency_handshake.core import LowLatencyCore
from penstock.flows.low_latency_handshake.low_latency_handshake import LowLatencyHandshake
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import Threads
from penstock.testing.plain_window import plain_parts
from penstock.testing.schedule import Schedule

ROWS = (Window(rows=5), Window(rows=5))


def scheduled(
    seed: int, capacity: int = 2, slow: dict[str, int] | None = None
) -> Callable[[Network], Driver]:
    return lambda network: Schedule(network, seed, capacity, slow)


def turns(count: int, sides: str = "RS") -> tuple[Arrival, ...]:
    return tuple(Arrival("RS".index(sides[i % len(sides)]), 0, i) for i in range(count))


@examples(200)
@given(scripts(), st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_every_schedule_gives_the_pairs_of_the_definition(
    script: Script, cores: int, capacity: int, seed: int
) -> None:
    assert (
        pairs_found_by(LowLatencyHandshake(cores, scheduled(seed, capacity)), script)
        == script.pairs()
    )


@examples(25)
@given(scripts(), st.integers(1, 4), st.integers(1, 3))
def test_threads_give_the_pairs_of_the_definition(
    script: Script, cores: int, capacity: int
) -> None:
    flow = LowLatencyHandshake(cores, lambda network: Threads(network, capacity))
    try:
        assert pairs_found_by(flow, script) == script.pairs()
    finally:
        flow.close()


def test_all_pairs_of_a_chunk_are_found_at_once() -> None:
    script = Script(turns(60), ROWS, tuple(range(6, 60, 6)))
    flow = LowLatencyHandshake(4, scheduled(3))
    flow.change(script.program())
    found: list[Any] = []
    for chunk in script.chunks():
        found += pairs_of(flow, flow.take(chunk))
        assert sorted(found) == Script(script.arrivals[: chunk.ranks[1]], ROWS, ()).pairs()
    assert list(flow.complete()) == []
    assert flow.oldest(0) is None


@pytest.mark.parametrize("rows", [(0, 0), (0, 3), (1, 0), (1, 1), (2, 3)])
def test_windows_smaller_than_the_number_of_cores(rows: tuple[int, int]) -> None:
    script = Script(turns(40), (Window(rows=rows[0]), Window(rows=rows[1])), (7, 20))
    for seed in range(5):
        assert pairs_found_by(LowLatencyHandshake(7, scheduled(seed)), script) == script.pairs()


@pytest.mark.parametrize("silent", ["R", "S"])
def test_a_stream_that_is_silent_for_ever(silent: str) -> None:
    speaking = "S" if silent == "R" else "R"
    script = Script(turns(6, silent) + turns(60, speaking), ROWS, tuple(range(5, 60, 5)))
    flow = LowLatencyHandshake(3, scheduled(1))
    assert pairs_found_by(flow, script) == script.pairs()
    stored = np.sum([core["window"] for core in flow.measures()["cores"]], axis=0)
    assert stored.tolist() == [5, 5]


@pytest.mark.parametrize("slow", ["core 0", "core 1", "core 2"])
def test_a_core_slower_than_the_others(slow: str) -> None:
    script = Script(turns(80), ROWS, tuple(range(10, 80, 10)))
    for seed in range(5):
        flow = LowLatencyHandshake(3, scheduled(seed, 2, {slow: 9}))
        assert pairs_found_by(flow, script) == script.pairs()


@examples(40)
@given(scripts(), st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 1))
def test_a_chain_that_is_programmed_anew_goes_on_where_it_was(
    script: Script, cores: int, seed: int, where: float
) -> None:
    cut = round(where * len(script.arrivals))
    assert continued(LowLatencyHandshake(cores, scheduled(seed)), script, cut) == script.pairs()


def test_every_tuple_is_stored_at_one_core_and_visits_all() -> None:
    script = Script(turns(400), (Window(rows=60), Window(rows=60)), tuple(range(20, 400, 20)))
    flow = LowLatencyHandshake(4, scheduled(2))
    pairs_found_by(flow, script)
    cores = flow.measures()["cores"]
    assert [core["window"] for core in cores] == [[15, 15]] * 4
    assert [core["stored"] for core in cores] == [[50, 50]] * 4
    assert [core["probed"] for core in cores] == [[200, 200]] * 4
    assert sum(core["matched"] for core in cores) == flow.comparisons == len(script.pairs())


def test_messages_wait_for_room_on_their_way_only() -> None:
    ends = [LowLatencyCore(number, 3, plain_parts()) for number in range(3)]
    needs = [[core.needs(port) for port in core.inputs] for core in ends]
    assert needs == [
        [("result", "right"), ("result",)],
        [("result", "right"), ("result", "left")],
        [("result",), ("result", "left")],
    ]
