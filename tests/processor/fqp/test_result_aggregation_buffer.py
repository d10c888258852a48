"""The Result Aggregation Buffer: every message once, in the order of its block, by every driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock.blocks.contract import Port, Sent
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network, run
from penstock.flows.network.threads import Threads
from penstock.processor.fqp.result_aggregation_buffer import BufferNode
from penstock.processor.topology.parts import UnitPort
from penstock.processor.topology.presets import aggregation_tree
from penstock.testing.explore import Units, explore
from penstock.testing.schedule import Schedule

Result = tuple[int, int]
"""The number of a block, and of its message."""


class Source:
    """Stands for a block: gives as many results as it is told."""

    inputs: Sequence[Port] = ("in",)

    def __init__(self, number: int) -> None:
        self.name = f"block {number}"
        self._number = number
        self._made = 0

    def needs(self, port: Port) -> Sequence[Port]:
        return ("final",)

    def step(self, port: Port, count: int) -> Iterable[Sent]:
        for _ in range(count):
            yield "final", (self._number, self._made)
            self._made += 1

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        return ()

    def measures(self) -> dict[str, Any]:
        return {}


def processor(blocks: int) -> Network:
    """Blocks with an entry each, whose results leave by one exit, as presets have it."""
    sources = [Source(number) for number in range(blocks)]
    nodes, wires, root = aggregation_tree([UnitPort(source.name, "final") for source in sources])
    merging = [BufferNode(node.name) for node in nodes]
    units: dict[str, Any] = {unit.name: unit for unit in (*sources, *merging)}
    network = Network(list(units.values()), steady={node.name for node in merging})
    for number, source in enumerate(sources):
        network.enter(str(number), source, "in")
    for wire in wires:
        network.wire(units[wire.source.unit], wire.source.port,
                     units[wire.target.unit], wire.target.port)  # fmt: skip
    network.leave(units[root.unit], root.port, "result")
    return network


def results(driver: Driver, counts: Sequence[Sequence[int]]) -> list[Result]:
    """What comes out when each block is told each of its counts, in turns."""
    turns = [
        (str(number), one)
        for place in range(max(map(len, counts)))
        for number, told in enumerate(counts)
        for one in told[place : place + 1]
    ]
    try:
        came = list(run(driver, turns))
    finally:
        driver.close()
    assert {name for name, _ in came} <= {"result"}
    return [result for _, result in came]


def check(came: Sequence[Result], counts: Sequence[Sequence[int]]) -> None:
    for number, told in enumerate(counts):
        own = [made for block, made in came if block == number]
        assert own == list(range(sum(told)))
    assert len(came) == sum(map(sum, counts))


TOLD = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=9)


@examples(100)
@given(TOLD, st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.5]))
def test_by_any_schedule(counts: list[list[int]], seed: int, capacity: int, resting: float) -> None:
    driver = Schedule(processor(len(counts)), seed, capacity, resting=resting)
    check(results(driver, counts), counts)


@examples(30)
@given(TOLD, st.integers(1, 3))
def test_by_threads(counts: list[list[int]], capacity: int) -> None:
    check(results(Threads(processor(len(counts)), capacity), counts), counts)


@examples(50)
@given(TOLD)
def test_inline(counts: list[list[int]]) -> None:
    check(results(Inline(processor(len(counts))), counts), counts)


def test_in_every_order_of_three_blocks() -> None:
    counts = [[2, 1], [2], [1, 1]]
    orders = set()

    def note(came: list[Any], steps: list[Any]) -> None:
        check(came, counts)
        orders.add(tuple(came))

    told = [(str(number), one) for number, each in enumerate(counts) for one in each]
    explored = explore(Units(processor(3), lambda message: [message]), [told], note)
    print(f"three blocks, seven messages: {explored}")
    # Every shuffle of the blocks' messages: 7! / (3! 2! 2!).
    assert len(orders) == 210


@pytest.mark.parametrize("blocks", range(1, 18))
def test_the_tree_is_as_flat_as_it_can_be(blocks: int) -> None:
    network = processor(blocks)
    nodes = [unit for unit in network.units if isinstance(unit, BufferNode)]
    assert len(nodes) == blocks - 1
    assert len({unit.name for unit in network.units}) == len(network.units)
    leads = {source[0]: target for source, (target, _) in network.wires.items()}
    for number in range(blocks):
        place, hops = f"block {number}", 0
        while place in leads:
            place, hops = leads[place], hops + 1
        assert (place, "out" if blocks > 1 else "final") in network.exits
        assert hops <= (blocks - 1).bit_length()


def test_a_node_counts_what_it_merges() -> None:
    network = processor(2)
    [node] = [unit for unit in network.units if isinstance(unit, BufferNode)]
    results(Inline(network), [[2], [3]])
    assert node.measures() == {"merged": [2, 3]}
