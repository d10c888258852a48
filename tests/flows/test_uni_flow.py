"""SplitJoin and CellJoin at random schedules: pairs, their order, and rows as of the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.inputs import Script, continued, pairs_of, scripts
from tests.flows.one_way import OrderedPairs
from tests.flows.test_random_flows import any_order, for_way, on_cores
from tests.flows.ways import ORDERS, Way
from tests.random_scripts import Step
from tests.random_scripts import scripts as whole_scripts
from tests.test_random_scripts import BATCHES, SIZES, check, on_oracle
from tests.thresholds import low_thresholds

from penstock.flows import make
from penstock.flows.celljoin import celljoin
from penstock.flows.network.network import Driver, Network
from penstock.flows.splitjoin.gathering import Stars
from penstock.flows.splitjoin.splitjoin import splitjoin
from penstock.flows.uni_flow import UniFlow
from penstock.testing.schedule import Schedule

FEW = examples(20)
FLOWS = pytest.mark.parametrize("flow", ["splitjoin", "celljoin"])
SLOW = (
    "core 0",
    "core 1",
    "coordinator",
    "combiner",
    "collector",
    "merger R0.0",
    "distributor 0.0",
)


@pytest.fixture(scope="module", autouse=True)
def in_small_pieces() -> Iterator[None]:
    """Indexes come early, chunks are cut where stars are not, windows are divided often."""
    with low_thresholds(ranks_per_chunk=5, celljoin_k=3):
        yield


class Lively:
    """A schedule that would rather fail than be waited for in vain."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)

    def wait(self) -> None:
        taken = len(self._schedule.steps)
        self._schedule.wait()
        assert len(self._schedule.steps) > taken, "nothing moves, and not all has come"


Drive = Callable[[Network], Driver]


@st.composite
def drives(draw: st.DrawFn) -> Drive:
    """Any order of steps, with rests or without, little room or much, and some unit slower."""
    seed, capacity = draw(st.integers(0, 10**6)), draw(st.integers(1, 3))
    slow = {name: 9 for name in draw(st.lists(st.sampled_from(SLOW), max_size=2))}
    resting = draw(st.sampled_from((0, 0.3, 1)))
    return lambda network: Lively(Schedule(network, seed, capacity, slow, resting))


def made(flow: str, cores: int, stars: Stars, drive: Drive) -> UniFlow:
    return (
        splitjoin(cores, 2, stars, drive) if flow == "splitjoin" else celljoin(cores, stars, drive)
    )


CORES = st.integers(1, 5)
PRECISION = st.sampled_from([1, 1, 3])


@FLOWS
@FEW
@given(scripts(), CORES, st.sampled_from(ORDERS), PRECISION, drives())
def test_every_schedule_gives_the_pairs_of_the_definition_in_order(
    flow: str, script: Script, cores: int, order: str, precision: int, drive: Drive
) -> None:
    search = made(flow, cores, Stars(order, precision), drive)
    mixed = precision * cores if order == "inner" else precision
    search.change(script.program())
    found = []
    for chunk in script.chunks():
        found += pairs_of(search, search.take(chunk))
        # All pairs of what has been taken have come, and no others.
        so_far = Script(script.arrivals[: chunk.ranks[1]], script.windows, (), script.predicate)
        assert sorted(found) == so_far.pairs()
    OrderedPairs(script, order, mixed).check_order(found)


@FLOWS
@FEW
@given(scripts(), CORES, drives(), st.floats(0, 1))
def test_a_flow_that_is_programmed_anew_goes_on_where_it_was(
    flow: str, script: Script, cores: int, drive: Drive, where: float
) -> None:
    cut = round(where * len(script.arrivals))
    search = made(flow, cores, Stars("inner", 1), drive)
    assert continued(search, script, cut) == script.pairs()


@FLOWS
@FEW
@given(whole_scripts(multiway=False), SIZES, BATCHES, CORES, st.sampled_from(ORDERS), drives())
def test_rows_are_the_oracles_at_every_schedule(
    flow: str,
    steps: list[Step],
    sizes: list[int],
    batch_rows: int,
    cores: int,
    order: str,
    drive: Drive,
) -> None:
    way = Way(flow, cores, 2 if flow == "splitjoin" else None)
    steps = for_way(steps, way, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "Threads", drive)
        found = on_cores(steps, sizes, way, order, batch_rows)
    meant = on_oracle(steps)
    if order != "none":
        for rows in found[0].values():
            positions = [position for position, _ in rows]
            assert positions == sorted(positions)
    if order != "inner":
        meant, found = any_order(meant), any_order(found)
    check(steps, meant, found)
