"""The Processing Unit: the states of Figure 4.1.5 that it goes through, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.flows.chain_as_published.controller import Controller
from penstock.flows.chain_as_published.op_block import Join
from penstock.flows.chain_as_published.processing_unit import (
    EXECUTION_CONTROL,
    TRANSMISSION_CONTROL,
    ProcessingUnit,
)
from penstock.flows.handshake.core import Tuples
from penstock.testing.plain_window import PlainGroup, PlainTuple, PlainWindow


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every state that a controller enters."""
    entered: list[str] = []
    enter = Controller.enter

    def noted(controller: Controller, state: str) -> None:
        enter(controller, state)
        entered.append(state)

    monkeypatch.setattr(Controller, "enter", noted)
    return entered


@dataclass(frozen=True)
class Giving:
    """An operator that gives some results, whatever it is given."""

    chunks: int
    results: Sequence[Any]
    result_chunks: int = 1

    def execute(self, run: Any, opposite: Any) -> Iterator[Any]:
        return iter(self.results)


def some(side: int, *numbers: int) -> Any:
    return PlainGroup(side, tuple(PlainTuple(n, n, 0, 1 << 62, 0) for n in numbers))


def test_a_join_that_finds_pairs(states: list[str]) -> None:
    unit, window = ProcessingUnit(), PlainWindow(1)
    window.append(some(1, 0, 1))
    found = []
    for pairs in unit.process([Join()], Tuples(some(0, 7, 8)), window):
        assert unit.execution.state == "Execution"
        assert unit.transmission.state == "Trans Second-Chunk"
        found += list(zip(pairs.left, pairs.right, strict=True))
    assert found == [(7, 0), (7, 1), (8, 0), (8, 1)]
    assert states == [
        "Opr-Addr",
        "Opr-Read",
        "Tuples-Addr",
        "Execution",
        "Trans First-Chunk",
        "Trans Second-Chunk",
        "Exe-Wait",
        "Update-Addr-Ptrs",
        "Tuples-Addr",
        "Execution",
        "Update-Addr-Ptrs",
        "Exe-Idle",
    ]


def test_an_operator_that_finds_nothing(states: list[str]) -> None:
    assert list(ProcessingUnit().process([Join()], Tuples(some(0, 7)), PlainWindow(1))) == []
    assert states == [
        "Opr-Addr",
        "Opr-Read",
        "Tuples-Addr",
        "Execution",
        "Update-Addr-Ptrs",
        "Exe-Idle",
    ]


def test_a_selection_reads_its_third_chunk_and_gives_one(states: list[str]) -> None:
    assert list(ProcessingUnit().process([Giving(3, ["passed"])], None, None)) == ["passed"]
    assert states[:4] == ["Opr-Addr", "Opr-Read", "Opr-Sec-Read", "Tuples-Addr"]
    assert states[5:7] == ["Trans First-Chunk", "Exe-Wait"]


def test_operators_are_executed_one_after_another(states: list[str]) -> None:
    operators = [Giving(3, "a"), Giving(2, ""), Giving(2, "bc", 2)]
    assert list(ProcessingUnit().process(operators, None, None)) == ["a", "b", "c"]
    assert states.count("Opr-Addr") == states.count("Exe-Idle") == 1
    reads = [place for place, state in enumerate(states) if state == "Opr-Read"]
    assert len(reads) == 3
    assert [states[place - 1] for place in reads] == [
        "Opr-Addr",
        "Update-Addr-Ptrs",
        "Update-Addr-Ptrs",
    ]
    assert states.count("Opr-Sec-Read") == 1
    assert states.count("Trans Second-Chunk") == 2


def test_a_unit_without_operators_stays_idle(states: list[str]) -> None:
    assert list(ProcessingUnit().process([], Tuples(some(0, 7)), PlainWindow(1))) == []
    assert states == []


@pytest.mark.parametrize("transitions", [EXECUTION_CONTROL, TRANSMISSION_CONTROL])
def test_no_state_but_those_of_the_figure_follows(transitions: dict[str, tuple[str, ...]]) -> None:
    for state, following in transitions.items():
        for other in transitions:
            controller = Controller({state: following, **transitions})
            assert controller.state == state
            if other in following:
                controller.enter(other)
                continue
            with pytest.raises(AssertionError, match=f"'{other}' does not follow '{state}'"):
                controller.enter(other)
