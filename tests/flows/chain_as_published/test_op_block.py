"""The OP-Block: buffers, controllers, the Bypass Unit, and which pairs any schedule gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.chain_as_published.plain_chains import (
    EVERY,
    RULE,
    arrival,
    blocks_of,
    pushed,
)

from penstock.blocks.join.partner_search import FoundPairs
from penstock.flows.chain_as_published.buffer_manager import BufferManager, BypassUnit
from penstock.flows.chain_as_published.controller import Controller
from penstock.flows.chain_as_published.instructions import (
    Grant,
    Instruction,
    JoinInstruction,
    Request,
    Reset,
)
from penstock.flows.chain_as_published.op_block import OPBlock
from penstock.flows.chain_as_published.window_buffer import WindowBuffer
from penstock.flows.handshake.chain import chain_network
from penstock.flows.handshake.core import Tuples
from penstock.flows.network.network import Sent, run
from penstock.flows.network.threads import Threads
from penstock.testing.explore import pairs_in
from penstock.testing.plain_window import PlainGroup, PlainTuple, PlainWindow, plain_parts
from penstock.testing.schedule import Schedule

Move = tuple[str, int, int]
"""Whether it came into the chain or left it, and the stream and number of a tuple."""


class NotesMoves(OPBlock):
    """Notes which tuples come into the chain, and which leave it."""

    blocks: int
    moves: list[Move]

    def _receive(self, run: Tuples) -> Iterator[Sent]:
        side, first = run.group.side, 1 if run.group.side == 0 else self.blocks
        if self.number == first:
            self.moves += [("in", side, number) for number in run.group.seqs]
        before = {tuple_.seq for tuple_ in self.window(side)} | set(run.group.seqs)
        yield from super()._receive(run)
        gone = before - {tuple_.seq for tuple_ in self.window(side)}
        self.moves += [("out", side, number) for number in sorted(gone)]

    def window(self, side: int) -> tuple[PlainTuple, ...]:
        there = self._managers[side].window
        assert there is not None and isinstance(there.tuples, PlainWindow)
        return there.tuples.oldest(0, EVERY).tuples


def noting(count: int, capacities: tuple[int, int]) -> tuple[list[OPBlock], list[Move]]:
    blocks, moves = blocks_of(count, capacities, NotesMoves), list[Move]()
    for block in blocks:
        assert isinstance(block, NotesMoves)
        block.moves, block.blocks = moves, count
    return blocks, moves


@examples(200)
@given(
    st.lists(st.integers(0, 1), max_size=24),
    st.integers(1, 5),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
def test_two_tuples_meet_once_if_both_are_in_the_chain_and_pass_each_other(
    sides: list[int], count: int, capacities: tuple[int, int], room: int, seed: int
) -> None:
    """By any schedule, and with tuples that leave the chain."""
    blocks, moves = noting(count, capacities)
    driver = Schedule(chain_network(blocks), seed, room)
    numbers = [sides[:place].count(side) for place, side in enumerate(sides)]
    sent = [arrival(side, number) for side, number in zip(sides, numbers, strict=True)]
    found = sorted(pair for _, message in run(driver, sent) for pair in pairs_in(message))
    when = {move: place for place, move in enumerate(moves)}
    never, last = len(moves), pushed(count, capacities, sides)
    expected = []
    for r in range(sides.count(0)):
        for s in range(sides.count(1)):
            together = (
                when["in", 0, r] < when.get(("out", 1, s), never)
                and when["in", 1, s] < when.get(("out", 0, r), never)
            )  # fmt: skip
            if together and last[0][r] >= last[1][s]:
                expected.append((r, s))
    assert found == expected
    ends = {(side, n) for side in (0, 1) for n, place in enumerate(last[side])
            if place == (count, -1)[side]}  # fmt: skip
    assert {(side, number) for kind, side, number in moves if kind == "out"} == ends


@examples(20)
@given(st.lists(st.integers(0, 1), max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_on_threads_a_chain_that_no_tuple_leaves_gives_every_pair_that_has_met(
    sides: list[int], count: int, room: int
) -> None:
    r, s = (-(-sides.count(side) // count) for side in (0, 1))
    driver = Threads(chain_network(blocks_of(count, (r, s))), room)
    numbers = [sides[:place].count(side) for place, side in enumerate(sides)]
    sent = [arrival(side, number) for side, number in zip(sides, numbers, strict=True)]
    try:
        found = sorted(pair for _, message in run(driver, sent) for pair in pairs_in(message))
    finally:
        driver.close()
    left, right = (list(enumerate(places)) for places in pushed(count, (r, s), sides))
    assert found == [(a, b) for a, here in left for b, there in right if here >= there]


# -- states -----------------------------------------------------------------------------------


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every state that a controller enters, but those of Processing Units."""
    entered: list[str] = []
    enter = Controller.enter

    def noted(controller: Controller, state: str) -> None:
        enter(controller, state)
        if state.islower():
            entered.append(state)

    monkeypatch.setattr(Controller, "enter", noted)
    return entered


def named(sent: list[Sent]) -> list[tuple[str, str]]:
    return [
        (port, "pairs" if isinstance(message, FoundPairs) else str(message))
        for port, message in sent
    ]


def given_to(block: OPBlock, port: str, message: Any) -> list[tuple[str, str]]:
    assert block.needs(port) == ("result",)
    return named(list(block.step(port, message)))


def test_a_run_is_received_after_a_grant_and_sent_on_after_another(states: list[str]) -> None:
    _, middle, _ = blocks_of(3, (1, 1))
    assert given_to(middle, "left", Request()) == [("left", "a grant")]
    assert states == ["granted"]
    assert given_to(middle, "left", arrival(0, 0)[1]) == []
    assert states == ["granted", "receiving", "idle"]
    states.clear()
    assert given_to(middle, "left", Request()) == [("left", "a grant")]
    assert given_to(middle, "left", arrival(0, 1)[1]) == [("right", "a request")]
    assert states == ["granted", "receiving", "idle", "requesting"]
    # There is no room for a third tuple before the first one has gone.
    assert given_to(middle, "left", Request()) == []
    states.clear()
    assert given_to(middle, "right", Grant()) == [("right", "R 0"), ("left", "a grant")]
    assert states == ["transmitting", "idle", "granted"]


def test_at_the_end_of_the_chain_tuples_leave_it_without_a_request(states: list[str]) -> None:
    _, last = blocks_of(2, (1, 1))
    for number in (0, 1):
        assert given_to(last, "left", Request()) == [("left", "a grant")]
        assert given_to(last, "left", arrival(0, number)[1]) == []
    one_tuple = ["granted", "receiving", "idle"]
    assert states == [*one_tuple, *one_tuple, "transmitting", "idle"]
    assert last.oldest(0) == 1


def test_at_the_entries_a_run_waits_for_room_and_needs_no_grant(states: list[str]) -> None:
    first, _ = blocks_of(2, (1, 1))
    assert given_to(first, "left", arrival(0, 0)[1]) == []
    assert given_to(first, "left", arrival(0, 1)[1]) == [("right", "a request")]
    assert first.needs("left") is None
    assert given_to(first, "right", Grant()) == [("right", "R 0")]
    assert first.needs("left") == ("result",)
    assert states == [
        *("receiving", "idle"),
        *("receiving", "idle", "requesting"),
        *("transmitting", "idle"),
    ]


def test_a_new_run_is_compared_before_the_oldest_tuples_go() -> None:
    """They are still there for a tuple of the other stream that has been granted before."""
    _, middle, _ = blocks_of(3, (1, 1))
    given_to(middle, "right", Request())
    given_to(middle, "right", arrival(1, 0)[1])
    for number in (0, 1):
        given_to(middle, "left", Request())
        sent = given_to(middle, "left", arrival(0, number)[1])
        assert sent == [("result", "pairs"), ("right", "a request")][: number + 1]
    assert middle.measures() == {
        "core": 1,
        "stored": [2, 1],
        "probed": [2, 1],
        "matched": 2,
        "comparisons": 2,
        "window": [2, 1],
        "kernels": ["nested-loop", "nested-loop"],
    }


# -- instructions -----------------------------------------------------------------------------


def test_instructions_pass_by_the_blocks_that_they_are_not_for(states: list[str]) -> None:
    blocks = [OPBlock(number, 3, lambda rule: plain_parts()) for number in (1, 2, 3)]
    driver = Schedule(chain_network(blocks), 1)
    join = JoinInstruction(RULE, (1, 1))
    sent = [("right", Instruction(number, join)) for number in (1, 2, 3)]
    assert list(run(driver, sent)) == []
    assert all(block.oldest(0) is None and block.measures()["window"] == [0, 0] for block in blocks)
    passing = [str(step) for step in driver.steps if "join for OP-Block 1" in step.message]
    assert passing == [
        "OP-Block 3 takes a join for OP-Block 1 from right",
        "OP-Block 2 takes a join for OP-Block 1 from right",
        "OP-Block 1 takes a join for OP-Block 1 from right",
    ]
    # Three hops: each is written, requested, read, and granted and let pass on the other side.
    assert [states.count(state) for state in ("writing", "reading", "granted")] == [3, 3, 3]
    assert states.count("receiving") == states.count("transmitting") == 0


def test_an_instruction_for_no_block_comes_out_at_the_end() -> None:
    blocks = blocks_of(3, (1, 1))
    lost = Instruction(9, Reset())
    came = list(run(Schedule(chain_network(blocks), 3), [("right", lost)]))
    assert came == [("OP-Block 1", lost)]
    assert str(lost) == "a reset for OP-Block 9"


def test_instructions_go_before_tuples() -> None:
    _, middle, _ = blocks_of(3, (1, 1))
    for number in (0, 1):
        given_to(middle, "right", Request())
        given_to(middle, "right", arrival(1, number)[1])
    reset = Instruction(1, Reset())
    assert given_to(middle, "right", Request()) == []
    assert given_to(middle, "left", Grant()) == [("left", "S 0"), ("right", "a grant")]
    assert given_to(middle, "right", reset) == [("left", "a request")]
    assert given_to(middle, "left", Grant()) == [("left", "a reset for OP-Block 1")]


def test_the_bypass_unit_has_room_for_four_instructions() -> None:
    unit, relayed = BypassUnit(), [Instruction(number, Reset()) for number in range(4)]
    for instruction in relayed:
        assert unit.has_room
        unit.put(instruction)
    assert not unit.has_room
    assert [unit.get() for _ in relayed] == relayed
    assert unit.has_room


def test_a_reset_empties_the_query_buffer_and_the_windows() -> None:
    [block] = blocks_of(1, (2, 2))
    given_to(block, "left", arrival(0, 0)[1])
    assert given_to(block, "right", arrival(1, 0)[1]) == [("result", "pairs")]
    assert given_to(block, "right", Instruction(1, Reset())) == []
    assert block.measures()["window"] == [0, 0]
    given_to(block, "left", arrival(0, 1)[1])
    assert given_to(block, "right", arrival(1, 1)[1]) == []  # there is no operator
    assert given_to(block, "right", Instruction(1, JoinInstruction(RULE, (2, 2)))) == []
    assert (block.measures()["window"], block.comparisons) == ([0, 0], 1)


def test_a_block_that_is_not_programmed_takes_no_tuples() -> None:
    block = OPBlock(1, 1, lambda rule: plain_parts())
    with pytest.raises(AssertionError, match="the block has not been programmed"):
        list(block.step("left", arrival(0, 0)[1]))
    with pytest.raises(AssertionError, match="the block has not been programmed"):
        BufferManager(0).transmit()


def test_a_window_buffer_lets_its_oldest_tuples_go() -> None:
    window = WindowBuffer(PlainWindow(0), 2)
    assert (window.surplus, window.oldest) == (0, None)
    run_: Any = PlainGroup(0, tuple(PlainTuple(n, n, 0, EVERY, 0) for n in range(5)))
    window.push(run_)
    assert (window.surplus, window.oldest) == (3, 0)
    assert window.pop().seqs == (0, 1, 2)
    assert (window.surplus, window.oldest) == (0, 3)
    window.clear()
    assert window.oldest is None
