"""The driver with an order of steps drawn from a seed, and the driver in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from tests.flows.chains import handshake_chain, phases, small_script
from tests.flows.inputs import Window

from penstock.flows.network.network import Network, Port, Sent
from penstock.testing.latency_laws import handshake_latency, low_latency_handshake_latency
from penstock.testing.schedule import Schedule

ROWS = (Window(rows=1), Window(rows=1))


class Relay:
    """Passes messages on."""

    inputs: Sequence[Port] = ("in",)

    def __init__(self, name: str) -> None:
        self.name = name

    def needs(self, port: Port) -> Sequence[Port]:
        return ("out",)

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        return [("out", message)]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        return ()

    def measures(self) -> dict[str, Any]:
        return {}


def relays() -> Network:
    first, second = Relay("first"), Relay("second")
    network = Network([first, second])
    network.wire(first, "out", second, "in")
    network.enter("in", first, "in")
    network.leave(second, "out", "out")
    return network


def feed(schedule: Schedule, messages: Iterable[tuple[str, Any]]) -> list[Any]:
    came: list[Any] = []
    for entry, message in messages:
        while not schedule.send(entry, message):
            came += schedule.received()
            schedule.wait()
    while not schedule.settled():
        came += schedule.received()
        schedule.wait()
    return came + schedule.received()


def test_the_same_seed_takes_the_same_steps() -> None:
    script = small_script("RSRSRSRS", ROWS)
    taken = []
    for seed in (1, 1, 2):
        schedule = Schedule(handshake_chain(3), seed)
        feed(schedule, phases(script, flush=False)[0])
        taken.append([str(step) for step in schedule.steps])
    assert taken[0] == taken[1]
    assert taken[0] != taken[2]


def test_messages_stay_in_order_and_are_counted() -> None:
    schedule = Schedule(relays(), 3, capacity=1)
    assert feed(schedule, [("in", number) for number in range(20)]) == [
        ("out", number) for number in range(20)
    ]
    assert len(schedule.steps) == schedule.messages == 40


def test_a_full_fifo_takes_no_more_until_it_is_emptied() -> None:
    schedule = Schedule(relays(), 0, capacity=1)
    sent = 0
    while schedule.send("in", sent):
        sent += 1
        schedule.wait()
    assert sent == 3  # one before each unit, and one that has come out
    assert schedule.depths() == {"first": 1, "second": 1}
    assert not schedule.settled()
    assert schedule.received() == [("out", 0)]
    schedule.wait()
    assert schedule.received() == [("out", 1)]


def test_steps_can_be_read() -> None:
    schedule = Schedule(handshake_chain(2), 0)
    feed(schedule, phases(small_script("R", ROWS), flush=True)[0])
    assert [str(step) for step in schedule.steps] == [
        "core 0 takes R 0 from left",
        "core 0 forwards R 0",
        "core 1 takes R 0 from left",
        "core 0 takes size of R: 1 from right",
    ]


class Doubling(Relay):
    """Passes each message on twice, and then notes it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.noted: list[Any] = []

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        yield "out", message
        yield "out", message
        self.noted.append(message)


def test_a_step_may_rest_after_every_message() -> None:
    unit = Doubling("only")
    network = Network([unit])
    network.enter("in", unit, "in")
    network.leave(unit, "out", "out")
    schedule = Schedule(network, resting=1)
    assert schedule.send("in", 7)
    schedule.wait()
    assert schedule.received() == [("out", 7)]
    schedule.wait()
    assert schedule.received() == [("out", 7)]
    assert unit.noted == [] and not schedule.settled()
    schedule.wait()
    assert unit.noted == [7] and schedule.settled()
    assert [str(step) for step in schedule.steps] == [
        "only takes 7 from in",
        "only forwards 7",
        "only forwards nothing more",
    ]


@pytest.mark.parametrize("cores", [2, 8, 32])
def test_low_latency_handshake_needs_as_many_rounds_as_there_are_cores(cores: int) -> None:
    """Najafi 2019, equation 5.3.2: half of the chain on average, and all of it at most."""
    latency = low_latency_handshake_latency(cores, window=64)
    assert latency.most == cores
    assert latency.mean == pytest.approx((cores + 1) / 2, rel=0.15)


def test_handshake_needs_rounds_in_proportion_to_its_windows() -> None:
    small, large = (handshake_latency(4, window) for window in (32, 128))
    assert 2.5 < large.mean / small.mean < 5.5
    assert large.most > 128 / 2


def test_expired_tuples_are_pulled_to_the_end_of_a_long_chain() -> None:
    """Cores that hold one tuple more than the next would otherwise keep many for ever."""
    assert handshake_latency(16, window=32).most <= 32 + 16
