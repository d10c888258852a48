"""Every schedule of small chains: what they must give, and what they find if it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from tests.flows.chains import (
    OnePhaseCore,
    explore_chain,
    handshake_chain,
    low_latency_chain,
    orders,
    phases,
    small_script,
)
from tests.flows.inputs import Script, Window

from penstock.flows.handshake.core import Ack, Size, Tuples
from penstock.flows.network.network import Network, Sent
from penstock.testing.explore import Exploration, Units, explore, fork
from penstock.testing.schedule import Step

COUNT = (Window(rows=2), Window(rows=1))
TIME = (Window(span=2), Window(span=3))
MIXED = (Window(rows=0), Window(span=2))
EVERY = pytest.mark.parametrize(
    ("cores", "each", "windows"),
    [
        pytest.param(cores, each, windows, id=f"{cores}-{each}-{name}")
        for cores, each in ((2, 3), (3, 2))
        for name, windows in (("count", COUNT), ("time", TIME), ("mixed", MIXED))
    ],
)


def explore_all(
    chain: Callable[[int], Network], cores: int, scripts: Iterable[Script], flush: bool
) -> Exploration:
    total, units = Exploration(), Units(chain(cores))
    for script in scripts:
        explored = explore_chain(units, script, flush)
        total.states += explored.states
        total.steps += explored.steps
        total.ends += explored.ends
        total.orders += explored.orders
    return total


@pytest.mark.long
@EVERY
def test_no_schedule_of_a_handshake_chain_misses_or_repeats_a_pair(
    cores: int, each: int, windows: tuple[Window, Window]
) -> None:
    # Of a count and a time window together some of the arrival orders will do: they take long.
    every = 4 if windows == MIXED else 1
    scripts = [small_script(order, windows) for order in list(orders(each))[::every]]
    total = explore_all(handshake_chain, cores, scripts, flush=True)
    print(f"handshake, {cores} cores, {each} tuples a stream: {total}")
    assert total.orders > 10**9


@EVERY
def test_no_schedule_of_a_low_latency_chain_misses_or_repeats_a_pair(
    cores: int, each: int, windows: tuple[Window, Window]
) -> None:
    scripts = [small_script(order, windows) for order in orders(each)]
    total = explore_all(low_latency_chain, cores, scripts, flush=False)
    print(f"low-latency handshake, {cores} cores, {each} tuples a stream: {total}")
    assert total.orders > 10**6


@pytest.mark.parametrize("order", ["RSR", "SRSR", "RRSS"])
@pytest.mark.parametrize("windows", [COUNT, TIME], ids=["count", "time"])
def test_leaving_out_commuting_steps_leads_to_the_same_ends(
    order: str, windows: tuple[Window, Window]
) -> None:
    script = small_script(order, windows)
    units = Units(handshake_chain(2))
    some = explore_chain(units, script, flush=True)
    all_of_them = explore_chain(units, script, flush=True, leave_out=False)
    assert some.ends == all_of_them.ends
    assert some.orders < all_of_them.orders
    assert some.states <= all_of_them.states


def test_without_two_phase_forwarding_a_schedule_misses_a_pair() -> None:
    """Both tuples are on their way between the two cores (Teubner & Mueller 2011, Fig. 7)."""
    script = small_script("RS", (Window(rows=1), Window(rows=1)))
    missed: list[list[str]] = []

    def check(came: list[Any], steps: list[Step]) -> None:
        if came != script.pairs():
            assert came == []
            missed.append([str(step) for step in steps if "size" not in step.message])

    explore(Units(handshake_chain(2, OnePhaseCore)), phases(script, flush=True), check)
    print("\n".join(missed[0]))
    assert missed[0] == [
        "core 0 takes R 0 from left",
        "core 0 forwards R 0",
        "core 1 takes S 0 from right",
        "core 1 forwards S 0",
        "core 0 takes S 0 from right",
        "core 1 takes R 0 from left",
        "core 0 takes flush with 0 R from left",
        "core 1 takes flush with 0 R from left",
        "core 1 takes mark of a flush from right",
    ]


def test_acknowledgements_in_a_fifo_of_their_own_would_not_do() -> None:
    """Why acknowledgements share a FIFO with tuples: in front of r, they let s go too early."""
    script = small_script("RS", (Window(rows=1), Window(rows=1)))
    network = handshake_chain(2)
    network.units[1] = HastyCore(network.units[1])
    missed: list[Any] = []

    def check(came: list[Any], steps: list[Step]) -> None:
        missed.extend([steps] if came != script.pairs() else [])

    explore(Units(network), phases(script, flush=True), check)
    assert missed


class HastyCore:
    """A core that lets go of its copies as soon as it has sent them."""

    inputs = ("left", "right")

    def __init__(self, core: Any) -> None:
        self.name = core.name
        self.core = core

    def fork(self) -> HastyCore:
        return HastyCore(fork(self.core))

    def needs(self, port: str) -> Sequence[str]:
        return ("result",)

    def step(self, port: str, message: Any) -> Iterable[Sent]:
        return () if isinstance(message, Ack) else self.core.step(port, message)

    def forward(self, has_room: Callable[[str], bool]) -> Iterable[Sent]:
        for port, message in list(self.core.forward(has_room)):
            yield port, message
            if port == "left" and isinstance(message, Tuples):
                self.core.step("left", Ack(len(message.group), Size(1, 0, 0)))

    def measures(self) -> dict[str, Any]:
        return {}


def test_it_gives_up_when_there_is_too_much() -> None:
    script = small_script("RSRS", COUNT)
    with pytest.raises(RuntimeError) as raised:
        units = Units(handshake_chain(2))
        explore(units, phases(script, flush=True), lambda came, steps: None, 50)
    assert str(raised.value) == "more than 50 states"
