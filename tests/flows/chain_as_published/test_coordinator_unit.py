"""The Coordinator Unit: what its rules prevent, found by trying every schedule of small chains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from tests.flows.chain_as_published.plain_chains import arrival, chain, pushed

from penstock.blocks.join.partner_search import no_pairs
from penstock.flows.chain_as_published.coordinator_unit import (
    FREE,
    LEFT,
    RECEPTION,
    RIGHT,
    TRANSMISSION,
    CoordinatorUnit,
)
from penstock.flows.chain_as_published.op_block import OPBlock
from penstock.flows.handshake.core import Tuples
from penstock.flows.network.network import Port, Sent
from penstock.testing.explore import Exploration, Units, explore
from penstock.testing.schedule import Step

CHAINS = [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (5, 1)]


def all_schedules(
    blocks: int, capacity: int, block: Callable[..., OPBlock] = OPBlock
) -> tuple[Exploration, list[tuple[list[Any], list[Step]]]]:
    """Fill a chain with both streams; gives the ends that have other pairs than those that met.

    No tuple leaves the chain. So the tuples end in the same places whatever the schedule, and two
    have met if the one of R is as far to the right as the one of S, or further.
    """
    count = blocks * capacity
    arrivals = [arrival(side, number) for number in range(count) for side in (0, 1)]
    r, s = pushed(blocks, (capacity, capacity), [0, 1] * count)
    met = [(a, b) for a in range(count) for b in range(count) if r[a] >= s[b]]
    wrong: list[tuple[list[Any], list[Step]]] = []

    def check(came: list[Any], steps: list[Step]) -> None:
        if came != met:
            wrong.append((sorted(set(met) - set(came)), list(steps)))

    units = Units(chain(blocks, (capacity, capacity), block))
    return explore(units, [arrivals], check), wrong


@pytest.mark.parametrize(("blocks", "capacity"), CHAINS)
def test_in_every_schedule_two_tuples_meet_once_if_they_pass_each_other(
    blocks: int, capacity: int
) -> None:
    explored, wrong = all_schedules(blocks, capacity)
    print(f"{blocks} blocks, room for {capacity}: {explored}")
    assert wrong == []
    assert explored.orders > 40


class BothAtOnce(CoordinatorUnit):
    """Lets reception and transmission of a side work at the same time."""

    def grant_reception(self, side: Port, has_room: bool) -> bool:
        granted, self.asked[side] = self.asked[side] and has_room, self.asked[side] and not has_room
        return granted

    def received(self, side: Port) -> None:
        pass


class WithoutRule(OPBlock):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._coordinator = BothAtOnce()


def test_without_its_rule_two_tuples_pass_each_other_between_neighbours() -> None:
    """Figure 4.1.3: r is on its way to the right while s is on its way to the left."""
    explored, wrong = all_schedules(2, 1, WithoutRule)
    print(f"without the rule: {explored}, {len(wrong)} ends lose pairs")
    assert {tuple(missed) for missed, _ in wrong} == {((0, 0),)}
    _, steps = min(wrong, key=lambda end: len(end[1]))
    moves = [str(step) for step in steps if "R 0" in step.message or "S 0" in step.message]
    print("\n".join(map(str, steps)))
    assert sorted(moves) == [
        "OP-Block 1 takes R 0 from left",
        "OP-Block 1 takes S 0 from right",
        "OP-Block 2 takes R 0 from left",
        "OP-Block 2 takes S 0 from right",
    ]
    places = {str(step): place for place, step in enumerate(steps)}
    # Both are granted before either has come.
    granted = [place for place, step in enumerate(steps) if step.message == "a grant"]
    assert max(granted) < places["OP-Block 1 takes S 0 from right"]
    assert max(granted) < places["OP-Block 2 takes R 0 from left"]


@pytest.mark.parametrize(("blocks", "capacity"), CHAINS[1:4])
def test_without_its_rule_longer_chains_lose_pairs_too(blocks: int, capacity: int) -> None:
    explored, wrong = all_schedules(blocks, capacity, WithoutRule)
    print(f"without the rule, {blocks} blocks, room for {capacity}: {explored}")
    assert all(missed for missed, _ in wrong) and wrong


class LaterProcessing(OPBlock):
    """Its Processing Unit runs on its own, some time after a run has come."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.waiting: list[Tuples] = []

    def _process(self, run: Tuples, opposite: Any) -> Iterator[Sent]:
        self.waiting.append(run)
        return iter(())

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        if not self.waiting:
            return
        run = self.waiting.pop(0)
        other = self._managers[1 - run.group.side].window
        assert other is not None
        yield "result", no_pairs()  # so that every run of the unit gives something
        yield from super()._process(run, other.tuples)
        yield from self._coordinate()


class KeepsWindows(LaterProcessing):
    """And nothing changes its windows until then."""

    def needs(self, port: Port) -> Sequence[Port] | None:
        return None if self.waiting else super().needs(port)

    def _coordinate(self) -> Iterator[Sent]:
        return iter(()) if self.waiting else super()._coordinate()


def test_a_window_that_changes_while_the_processing_unit_runs_loses_pairs() -> None:
    explored, wrong = all_schedules(2, 1, LaterProcessing)
    losing = [missed for missed, _ in wrong if missed]
    print(f"windows change during processing: {explored}, {len(losing)} ends lose pairs")
    assert losing


@pytest.mark.parametrize(("blocks", "capacity"), CHAINS[:4])
def test_a_window_that_waits_for_the_processing_unit_loses_none(blocks: int, capacity: int) -> None:
    explored, wrong = all_schedules(blocks, capacity, KeepsWindows)
    print(f"windows wait, {blocks} blocks, room for {capacity}: {explored}")
    assert wrong == []


def test_a_side_is_for_one_of_reception_and_transmission() -> None:
    unit = CoordinatorUnit()
    assert unit.grant_transmission(RIGHT)
    unit.ask(RIGHT)
    assert not unit.grant_reception(RIGHT, has_room=True)
    assert unit.use == {LEFT: FREE, RIGHT: TRANSMISSION}
    unit.transmitted(RIGHT)
    assert unit.grant_reception(RIGHT, has_room=True)
    assert not unit.grant_transmission(RIGHT)
    assert unit.use == {LEFT: FREE, RIGHT: RECEPTION}
    unit.received(RIGHT)
    assert unit.use == {LEFT: FREE, RIGHT: FREE}


def test_of_two_requests_that_cross_the_one_to_the_right_goes_first() -> None:
    left, right = CoordinatorUnit(), CoordinatorUnit()
    assert left.grant_transmission(RIGHT) and right.grant_transmission(LEFT)
    left.ask(RIGHT)
    right.ask(LEFT)
    assert not left.grant_reception(RIGHT, has_room=True)
    assert right.grant_reception(LEFT, has_room=True)
    assert right.use[LEFT] == RECEPTION
    left.transmitted(RIGHT)
    right.received(LEFT)
    assert right.use[LEFT] == TRANSMISSION  # its own request is still to be granted
    assert left.grant_reception(RIGHT, has_room=True)


def test_nothing_is_granted_without_a_request_or_without_room() -> None:
    unit = CoordinatorUnit()
    assert not unit.grant_reception(LEFT, has_room=True)
    unit.ask(LEFT)
    assert not unit.grant_reception(LEFT, has_room=False)
    assert unit.grant_reception(LEFT, has_room=True)


def test_what_was_not_granted_must_not_come() -> None:
    unit = CoordinatorUnit()
    with pytest.raises(AssertionError, match="the left side was not granted"):
        unit.received(LEFT)
    with pytest.raises(AssertionError, match="the right side has asked for nothing"):
        unit.transmitted(RIGHT)
