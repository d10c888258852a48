"""Every order in which the units of a network can take their steps.

Each unit takes its messages one at a time, and steps of different units commute: one only appends
to FIFOs where the other only takes from the front. So two things are left out, and nothing is lost:

- Orders that differ in steps of different units only. If a unit has a message at each of its
  inputs, nothing that others do can change what it may do next, so that the steps of this unit
  alone need be tried (a persistent set). Messages from outside are all put in at the beginning: one
  that waits in the first FIFO is as good as one that has not been sent.
- States that have been seen before, reached in another order.

FIFOs are not bounded here: a full one only delays, and every delay is tried anyhow. What a unit
forwards of its own accord is tried with room in each single one of its outputs.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from penstock.blocks.meeting import Met
from penstock.flows.network import Network, Port, Sent, Unit
from penstock.flows.schedule import Step

Phase = Sequence[tuple[str, Any]]
"""Messages from outside, with the entries they come in by; the next ones wait for a standstill."""
Check = Callable[[list[Any], "list[Step]"], None]
"""Is given what came out, and the steps that led there; raises if that is wrong."""
Observe = Callable[[Any], Iterable[Hashable]]
"""What counts of a message that came out."""
FIGURES = frozenset({"counts", "comparisons", "stars", "at", "kernels"})
"""Attributes that say how often, or when, something happened, or what has been made ready for it:
two states that differ in nothing else are equal."""


@dataclass
class Explored:
    """How much was explored: different states, steps between them, ends, and orders of steps.

    ``orders`` counts the ways from the beginning to an end, those left out not included.
    """

    states: int = 0
    steps: int = 0
    ends: int = 0
    orders: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.steps} steps, {self.ends} ends, {self.orders} schedules"
        )


State = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[Hashable, ...], int]
"""Units and messages on their way, by number; what came out; and the phases begun."""


@dataclass(frozen=True)
class _Move:
    """What a unit does: its next state, the messages that it sends, by FIFO, and what comes out."""

    step: Step
    unit: int
    sent: tuple[tuple[int, int], ...]
    came: tuple[Hashable, ...]


class _Numbered:
    """Things that are equal get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.things: list[Any] = []

    def number(self, thing: Any, key: Hashable) -> int:
        number = self._numbers.setdefault(key, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class Units:
    """The units of a network as functions: what each of them does in each of its states.

    A unit decides by its state and the message alone, so that each decision is worked out once,
    whatever is put in. One that takes nothing from an input now is asked again in its next state.

    Parameters
    ----------
    network
        As it is at the beginning; it is not changed.
    observe
        What counts of a message that came out; all of it is given as it came. Not for networks of
        which several units have exits: their steps commute. Without it, pairs count, sorted.
    """

    def __init__(self, network: Network, observe: Observe | None = None) -> None:
        self.in_order = observe is not None
        self._observe = observe or observed
        numbers = {unit.name: number for number, unit in enumerate(network.units)}
        self.names = tuple(numbers)
        self.inputs: list[dict[Port, int]] = [{} for _ in numbers]
        self._outputs: list[dict[Port, int | None]] = [{} for _ in numbers]
        self.entries: dict[str, int] = {}
        self.fifos = 0
        for (source, output), (target, port) in network.wires.items():
            self._outputs[numbers[source]][output] = self.fifos
            self.inputs[numbers[target]][port] = self.fifos
            self.fifos += 1
        for name, (target, port) in network.entries.items():
            self.entries[name] = self.inputs[numbers[target]][port] = self.fifos
            self.fifos += 1
        for source, output in network.exits:
            self._outputs[numbers[source]][output] = None
        self._states = [_Numbered() for _ in network.units]
        self._messages = _Numbered()
        self._taken: dict[tuple[int, int, Port, int], _Move | None] = {}
        self._given: dict[tuple[int, int], list[_Move]] = {}
        self.first = tuple(self._number(n, unit, None) for n, unit in enumerate(network.units))

    def message(self, message: Any) -> int:
        """The number of a message."""
        return self._messages.number(message, frozen(message))

    def takes(self, place: int, state: int, port: Port, message: int) -> _Move | None:
        """What a unit does with a message; None if it does not take it now."""
        key = (place, state, port, message)
        if key not in self._taken:
            unit, given = self._states[place].things[state], self._messages.things[message]
            self._taken[key] = None
            if unit.needs(port) is not None:
                unit = fork(unit)
                sent = list(unit.step(port, given))
                step = Step(unit.name, port, str(given))
                self._taken[key] = self._move(place, step, unit, sent, (state, message))
        return self._taken[key]

    def gives(self, place: int, state: int) -> list[_Move]:
        """What a unit may do of its own accord."""
        key = (place, state)
        if key not in self._given:
            self._given[key] = []
            unit: Unit | None = None
            for room in self._outputs[place]:
                # One that had nothing to send is as it was.
                unit = unit or fork(self._states[place].things[state])
                sent = list(unit.forward(room.__eq__))
                if sent:
                    named = " and ".join(str(message) for _, message in sent)
                    step = Step(unit.name, None, named)
                    self._given[key].append(self._move(place, step, unit, sent, (state, room)))
                    unit = None
        return self._given[key]

    def _move(
        self, place: int, step: Step, unit: Unit, messages: Iterable[Sent], after: Hashable
    ) -> _Move:
        sent: list[tuple[int, int]] = []
        came: list[Hashable] = []
        for output, message in messages:
            fifo = self._outputs[place][output]
            if fifo is None:
                came += self._observe(message)
            else:
                sent.append((fifo, self.message(message)))
        return _Move(step, self._number(place, unit, after), tuple(sent), tuple(came))

    def _number(self, place: int, unit: Unit, after: Hashable) -> int:
        # What a unit with one input has taken says all about it, and nobody need look inside, where
        # there may be room for more, or memory that is written before it is read.
        key = after if len(self.inputs[place]) == 1 else unit_key(unit)
        return self._states[place].number(unit, key)


@dataclass
class _Frame:
    """A state on the way, and which of the steps from it comes next."""

    state: State
    following: list[tuple[Step, State]]
    number: int = 0
    orders: int = 0


def explore(
    units: Units,
    phases: Sequence[Phase],
    check: Check,
    most_states: int = 2_000_000,
    leave_out: bool = True,
) -> Explored:
    """Try every order of steps; ``check`` is called at every end.

    Parameters
    ----------
    units
        Those of a network, from its beginning on; they may have been explored before.
    phases
        What is put in. After the last one, and a standstill, comes the end.
    check
        Is given what came out, and one order of steps that leads there.
    most_states
        Gives up beyond that.
    leave_out
        Whether orders are left out that differ in commuting steps only.
    """
    return _Explorer(units, phases, check, most_states, leave_out).run()


@dataclass
class _Explorer:
    units: Units
    phases: Sequence[Phase]
    check: Check
    most_states: int
    leave_out: bool
    explored: Explored = field(default_factory=Explored)
    orders: dict[State, int] = field(default_factory=dict)

    def run(self) -> Explored:
        start: State = (self.units.first, ((),) * self.units.fifos, (), 0)
        self.explored.orders = self._visit(self._fill(start))
        self.explored.states = len(self.orders)
        return self.explored

    def _visit(self, first: State) -> int:
        """Depth first, without recursion; gives the number of orders from here."""
        path: list[Step] = []
        stack = [_Frame(first, self._next(first))]
        while True:
            frame = stack[-1]
            if frame.number == len(frame.following):
                orders = self._leave(frame, path)
                stack.pop()
                if not stack:
                    return orders
                stack[-1].orders += orders
                path.pop()
                continue
            step, state = frame.following[frame.number]
            frame.number += 1
            self.explored.steps += 1
            known = self.orders.get(state)
            if known is not None:
                frame.orders += known
                continue
            if len(self.orders) > self.most_states:
                raise RuntimeError(f"more than {self.most_states} states")
            path.append(step)
            stack.append(_Frame(state, self._next(state)))

    def _leave(self, frame: _Frame, path: list[Step]) -> int:
        if not frame.following:
            self.explored.ends += 1
            self.check(list(frame.state[2]), path)
            frame.orders = 1
        self.orders[frame.state] = frame.orders
        return frame.orders

    def _next(self, state: State) -> list[tuple[Step, State]]:
        """The steps that must be tried, with what they lead to."""
        found: list[tuple[Step, State]] = []
        for place, inputs in enumerate(self.units.inputs):
            of_unit = self._of_unit(state, place)
            if self.leave_out and of_unit and all(state[1][fifo] for fifo in inputs.values()):
                return of_unit
            found += of_unit
        if not found and state[3] < len(self.phases):
            return self._next(self._fill(state))
        return found

    def _of_unit(self, state: State, place: int) -> list[tuple[Step, State]]:
        units, fifos, _, _ = state
        found = []
        for port, fifo in self.units.inputs[place].items():
            if fifos[fifo]:
                move = self.units.takes(place, units[place], port, fifos[fifo][0])
                if move is not None:
                    found.append((move.step, self._after(state, place, move, fifo)))
        for move in self.units.gives(place, units[place]):
            found.append((move.step, self._after(state, place, move, None)))
        return found

    def _fill(self, state: State) -> State:
        """The next phase is put in."""
        units, fifos, came, phase = state
        filled = list(fifos)
        for entry, message in self.phases[phase]:
            filled[self.units.entries[entry]] += (self.units.message(message),)
        return units, tuple(filled), came, phase + 1

    def _after(self, state: State, place: int, move: _Move, taken: int | None) -> State:
        units, fifos, came, phase = state
        messages = list(fifos)
        if taken is not None:
            messages[taken] = messages[taken][1:]
        for fifo, message in move.sent:
            messages[fifo] += (message,)
        if move.came:
            came += move.came
            came = came if self.units.in_order else tuple(sorted(came))  # type: ignore[type-var]
        return (*units[:place], move.unit, *units[place + 1 :]), tuple(messages), came, phase


# -- units and messages as values -------------------------------------------------------------


def observed(message: Any) -> list[Hashable]:
    """What counts of a message that came out: its pairs, if it has any."""
    met = message if isinstance(message, Met) else getattr(message, "met", None)
    if not isinstance(met, Met):
        return []
    return [(int(left), int(right)) for left, right in zip(met.left, met.right, strict=True)]


def fork(unit: Unit) -> Unit:
    """A copy that goes its own way."""
    made: Unit = _forked(unit, whole=True)
    return made


_SHARED = (int, str, float, bytes, type(None), type, frozenset)


def _forked(value: Any, whole: bool = False) -> Any:
    if isinstance(value, _SHARED) or callable(value):
        return value
    if isinstance(value, tuple):
        # Named tuples are messages or rows, which nobody changes.
        return value if hasattr(value, "_fields") else tuple(map(_forked, value))
    if isinstance(value, (list, deque)):
        return type(value)(map(_forked, value))
    if isinstance(value, dict):
        return {key: _forked(item) for key, item in value.items()}
    if hasattr(value, "fork"):
        return value.fork()
    if is_dataclass(value) and getattr(value, "__dataclass_params__").frozen:  # noqa: B009
        return value
    if whole or is_dataclass(value):
        made = copy.copy(value)
        vars(made).update({name: _forked(item) for name, item in vars(value).items()})
        return made
    return copy.deepcopy(value)


def unit_key(unit: Unit) -> Hashable:
    """What makes a unit differ from itself at other times; what it has counted does not."""
    return tuple(frozen(item) for name, item in vars(unit).items() if name not in FIGURES)


def frozen(value: Any) -> Hashable:
    """A value that equals another's if the two things are the same."""
    if isinstance(value, (int, str, float, bytes, type(None))):
        return value
    if isinstance(value, (tuple, list, deque)):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple((key, frozen(item)) for key, item in value.items())
    if hasattr(value, "key") and hasattr(value, "fork"):
        return value.key()  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if callable(value):
        return id(value)
    if not is_dataclass(value) and not hasattr(value, "__dict__"):
        return value  # type: ignore[no-any-return]
    names = [f.name for f in fields(value)] if is_dataclass(value) else list(vars(value))
    return type(value), *(frozen(getattr(value, name)) for name in names if name not in FIGURES)
