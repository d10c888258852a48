"""The driver on the caller's thread: depth first, and no faster than it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penstock.blocks.contract import Port, Sent
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Network, run


class Repeating:
    """Sends every message on several times, and notes when."""

    inputs: Sequence[Port] = ("in",)

    def __init__(self, name: str, times: int, steps: list[str]) -> None:
        self.name = name
        self._times = times
        self._steps = steps

    def needs(self, port: Port) -> Sequence[Port] | None:
        return ("out",)

    def step(self, port: Port, message: Any) -> Iterator[Sent]:
        for number in range(self._times):
            self._steps.append(f"{self.name}{number} of {message}")
            yield "out", f"{message}.{number}"

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        return ()

    def measures(self) -> dict[str, Any]:
        return {}


class Alternating(Repeating):
    """Takes messages of two ports by turns, and declines the others."""

    inputs: Sequence[Port] = ("0", "1")
    _next = "0"

    def needs(self, port: Port) -> Sequence[Port] | None:
        return ("out",) if port == self._next else None

    def step(self, port: Port, message: Any) -> Iterator[Sent]:
        self._next = "1" if port == "0" else "0"
        return super().step(port, message)


class Echoing(Repeating):
    """Answers every message to the port it came by; says three things of its own accord."""

    said = 0

    def step(self, port: Port, message: Any) -> Iterator[Sent]:
        self._steps.append(f"{self.name} begins {message}")
        if len(message) < 4:
            yield "out", message + self.name
        self._steps.append(f"{self.name} ends {message}")

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        if self.name == "a" and self.said < 3 and has_room("out"):
            self.said += 1
            return [("own", self.said)]
        return ()


def inline(steps: list[str]) -> Inline:
    first, second = Repeating("a", 2, steps), Repeating("b", 2, steps)
    network = Network([first, second])
    network.enter("in", first, "in")
    network.wire(first, "out", second, "in")
    network.leave(second, "out", "rows")
    return Inline(network)


def test_what_a_unit_makes_goes_all_the_way_before_it_makes_more() -> None:
    steps: list[str] = []
    came = list(run(inline(steps), [("in", "x")]))
    assert came == [("rows", f"x.{i}.{j}") for i in range(2) for j in range(2)]
    assert steps == ["a0 of x", "b0 of x.0", "b1 of x.0", "a1 of x", "b0 of x.1", "b1 of x.1"]


def test_nothing_is_made_before_it_is_asked_for() -> None:
    steps: list[str] = []
    driver = inline(steps)
    assert driver.send("in", "x")
    assert not driver.settled()
    assert not driver.send("in", "y")
    assert steps == []
    assert next(driver.received()) == ("rows", "x.0.0")
    assert steps == ["a0 of x", "b0 of x.0"]
    assert [made for _, made in driver.received()] == ["x.0.1", "x.1.0", "x.1.1"]
    assert driver.settled()


def test_a_message_that_is_declined_is_taken_in_its_turn() -> None:
    steps: list[str] = []
    left, right, both = Repeating("a", 2, steps), Repeating("b", 2, steps), Alternating("c", 1, [])
    network = Network([left, right, both])
    network.enter("left", left, "in")
    network.enter("right", right, "in")
    network.wire(left, "out", both, "0")
    network.wire(right, "out", both, "1")
    network.leave(both, "out", "rows")
    driver = Inline(network)
    first = list(run_until_still(driver, "left", "x"))
    assert first == [("rows", "x.0.0")]
    assert driver.depths() == {"a": 0, "b": 0, "c": 1} and not driver.settled()
    assert list(run_until_still(driver, "right", "y")) == [
        ("rows", made) for made in ("y.0.0", "x.1.0", "y.1.0")
    ]
    assert driver.settled()


def run_until_still(driver: Inline, entry: str, message: Any) -> Iterator[tuple[str, Any]]:
    assert driver.send(entry, message)
    yield from driver.received()


def test_a_unit_takes_one_step_at_a_time_and_what_it_does_of_its_own_accord() -> None:
    """Also where wires lead back to it."""
    steps: list[str] = []
    first, second = Echoing("a", 1, steps), Echoing("b", 1, steps)
    network = Network([first, second])
    network.enter("in", first, "in")
    network.wire(first, "out", second, "in")
    network.wire(second, "out", first, "back")
    network.leave(first, "own", "own")
    assert list(run(Inline(network), [("in", "x")])) == [("own", 1), ("own", 2), ("own", 3)]
    assert steps == [
        "a begins x",
        "b begins xa",
        "b ends xa",
        "a ends x",
        "a begins xab",
        "b begins xaba",
        "b ends xaba",
        "a ends xab",
    ]
