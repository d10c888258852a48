"""Explores every order in which the units of a network can take their steps.

Each unit takes its messages one at a time, and steps of different units commute: one only appends
to FIFOs where the other only takes from the front. So two things can be left out without losing an
outcome:

- Orders that differ only in steps of different units. If a unit has a message at each of its
  inputs, no other unit can change what it may do next, so only its steps need be tried (a
  persistent set). All messages from outside are put in at the beginning: waiting in the first FIFO
  is equivalent to not having been sent.
- States that were already reached in another order.

FIFOs are unbounded here: a full one only delays, and every delay is tried anyhow. What a unit
forwards on its own is tried with room in each single one of its outputs.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.join.partner_search import FoundPairs
from penstock.flows.network.network import Network, Paced, Port, Sent
from penstock.testing.schedule import Step

Phase = Sequence[tuple[str, Any]]
"""Messages from outside, with their entries; the next phase waits for a standstill."""
Check = Callable[[list[Any], "list[Step]"], None]
"""Called with the output, exit by exit, and the steps that led to it; raises if it is wrong."""
Observe = Callable[[Any], Iterable[Hashable]]
"""The part of an output message that counts."""
FIGURES = frozenset(
    {
        "comparisons",
        "counts",
        "following_buffers",
        "found_at",
        "kernels",
        "stage_buffer",
        "stars",
    }
)
"""Attributes that count or time something, or cache it: two states that differ in nothing else are
equal.
"""


@dataclass
class Exploration:
    """The size of an exploration: distinct states, steps between them, ends, and orders of steps.

    ``orders`` counts the paths from the start to an end, without those left out.
    """

    states: int = 0
    steps: int = 0
    ends: int = 0
    orders: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.steps} steps, {self.ends} ends, {self.orders} schedules"
        )


State = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[tuple[Hashable, ...], ...], int]
"""Units and messages in FIFOs, by number; the output by exit; and the number of phases begun."""


@dataclass(frozen=True)
class _Move:
    """A step of a unit: its next state, the messages it sends, by FIFO, and its output, by exit."""

    step: Step
    unit: int
    sent: tuple[tuple[int, int], ...]
    output: tuple[tuple[int, Hashable], ...]


class _Interner:
    """Gives equal things the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.things: list[Any] = []

    def number(self, thing: Any, key: Hashable) -> int:
        number = self._numbers.setdefault(key, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class Units:
    """The units of a network as functions of their states.

    What a unit does depends on its state and the message alone, so each decision is computed once,
    whatever the input. A unit that declines an input is asked again in its next state.

    Parameters
    ----------
    network
        The network in its initial state; it is not changed.
    observe
        The part of an output message that counts, in order of output, exit by exit: steps of units
        with different exits commute. Without it, the sorted pairs of all exits count.
    """

    def __init__(self, network: Network, observe: Observe | None = None) -> None:
        self.in_order = observe is not None
        self._observe = observe or pairs_in
        numbers = {unit.name: number for number, unit in enumerate(network.units)}
        self.names = tuple(numbers)
        self.inputs: list[dict[Port, int]] = [{} for _ in numbers]
        self._outputs: list[dict[Port, int]] = [{} for _ in numbers]
        self._exits: list[dict[Port, int]] = [{} for _ in numbers]
        self.entries: dict[str, int] = {}
        self.fifos = 0
        for (source, output), (target, port) in network.wires.items():
            self._outputs[numbers[source]][output] = self.fifos
            self.inputs[numbers[target]][port] = self.fifos
            self.fifos += 1
        for name, (target, port) in network.entries.items():
            self.entries[name] = self.inputs[numbers[target]][port] = self.fifos
            self.fifos += 1
        for number, (source, output) in enumerate(network.exits):
            self._exits[numbers[source]][output] = number if self.in_order else 0
        self.no_output: tuple[tuple[Hashable, ...], ...] = ((),) * len(network.exits)
        self._states = [_Interner() for _ in network.units]
        self._messages = _Interner()
        self._steps_by_message: dict[tuple[int, int, Port, int], _Move | None] = {}
        self._own_steps: dict[tuple[int, int], list[_Move]] = {}
        self.first = tuple(self._number(n, unit, None) for n, unit in enumerate(network.units))

    def message(self, message: Any) -> int:
        """The number of a message."""
        return self._messages.number(message, value_key(message))

    def takes(self, place: int, state: int, port: Port, message: int) -> _Move | None:
        """The step of a unit with a message; None if it declines it now."""
        key = (place, state, port, message)
        if key not in self._steps_by_message:
            unit, given = self._states[place].things[state], self._messages.things[message]
            self._steps_by_message[key] = None
            if unit.needs(port) is not None:
                unit = fork(unit)
                sent = list(unit.step(port, given))
                step = Step(unit.name, port, str(given))
                self._steps_by_message[key] = self._move(place, step, unit, sent, (state, message))
        return self._steps_by_message[key]

    def gives(self, place: int, state: int) -> list[_Move]:
        """The steps that a unit may take on its own."""
        key = (place, state)
        if key not in self._own_steps:
            self._own_steps[key] = []
            unit: Paced | None = None
            for room in (*self._outputs[place], *self._exits[place]):
                # A unit that had nothing to send is unchanged.
                unit = unit or fork(self._states[place].things[state])
                sent = list(unit.forward(room.__eq__))
                if sent:
                    named = " and ".join(str(message) for _, message in sent)
                    step = Step(unit.name, None, named)
                    self._own_steps[key].append(self._move(place, step, unit, sent, (state, room)))
                    unit = None
        return self._own_steps[key]

    def _move(
        self, place: int, step: Step, unit: Paced, messages: Iterable[Sent], after: Hashable
    ) -> _Move:
        sent: list[tuple[int, int]] = []
        results: list[tuple[int, Hashable]] = []
        for output, message in messages:
            fifo = self._outputs[place].get(output)
            if fifo is None:
                number = self._exits[place][output]
                results += [(number, seen) for seen in self._observe(message)]
            else:
                sent.append((fifo, self.message(message)))
        return _Move(step, self._number(place, unit, after), tuple(sent), tuple(results))

    def _number(self, place: int, unit: Paced, after: Hashable) -> int:
        # The inputs of a unit with one input determine its state. Its attributes need not be
        # compared, which may have spare capacity or uninitialised memory.
        key = after if len(self.inputs[place]) == 1 else unit_key(unit)
        return self._states[place].number(unit, key)


@dataclass
class _Frame:
    """A state on the current path, and which step from it comes next."""

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
) -> Exploration:
    """Try every order of steps; ``check`` is called at every end.

    Parameters
    ----------
    units
        The units of a network, from its start on; they may have been explored before.
    phases
        The input. The end comes after the last phase and a standstill.
    check
        Called with the output, and one order of steps that leads to it.
    most_states
        The limit at which the exploration gives up.
    leave_out
        Whether to leave out orders that differ only in commuting steps.
    """
    return _Explorer(units, phases, check, most_states, leave_out).run()


@dataclass
class _Explorer:
    units: Units
    phases: Sequence[Phase]
    check: Check
    most_states: int
    leave_out: bool
    explored: Exploration = field(default_factory=Exploration)
    orders: dict[State, int] = field(default_factory=dict)

    def run(self) -> Exploration:
        start: State = (self.units.first, ((),) * self.units.fifos, self.units.no_output, 0)
        self.explored.orders = self._visit(self._fill(start))
        self.explored.states = len(self.orders)
        return self.explored

    def _visit(self, first: State) -> int:
        """Search depth first, without recursion; returns the number of orders from here."""
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
            self.check([one for output in frame.state[2] for one in output], path)
            frame.orders = 1
        self.orders[frame.state] = frame.orders
        return frame.orders

    def _next(self, state: State) -> list[tuple[Step, State]]:
        """The steps that must be tried, with the states they lead to."""
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
        """Put in the next phase."""
        units, fifos, output, phase = state
        filled = list(fifos)
        for entry, message in self.phases[phase]:
            filled[self.units.entries[entry]] += (self.units.message(message),)
        return units, tuple(filled), output, phase + 1

    def _after(self, state: State, place: int, move: _Move, fifo_read: int | None) -> State:
        units, fifos, output, phase = state
        messages = list(fifos)
        if fifo_read is not None:
            messages[fifo_read] = messages[fifo_read][1:]
        for fifo, message in move.sent:
            messages[fifo] += (message,)
        if move.output:
            output = self._with_output(output, move)
        return (*units[:place], move.unit, *units[place + 1 :]), tuple(messages), output, phase

    def _with_output(
        self, output: tuple[tuple[Hashable, ...], ...], move: _Move
    ) -> tuple[tuple[Hashable, ...], ...]:
        came = list(output)
        for number, one in move.output:
            came[number] += (one,)
        if not self.units.in_order:
            came = [tuple(sorted(ones)) for ones in came]  # type: ignore[type-var]
        return tuple(came)


# -- units and messages as values -------------------------------------------------------------


def pairs_in(message: Any) -> list[Hashable]:
    """The pairs of an output message."""
    pairs = message if isinstance(message, FoundPairs) else getattr(message, "pairs", None)
    if not isinstance(pairs, FoundPairs):
        return []
    return [(int(left), int(right)) for left, right in zip(pairs.left, pairs.right, strict=True)]


def fork(unit: Paced) -> Paced:
    """An independent copy of a unit."""
    made: Paced = _copied(unit, whole=True)
    return made


_SHARED = (int, str, float, bytes, type(None), type, frozenset)


def _copied(value: Any, whole: bool = False) -> Any:
    if isinstance(value, _SHARED) or callable(value):
        return value
    if isinstance(value, tuple):
        # Named tuples are messages or rows, which are immutable.
        return value if hasattr(value, "_fields") else tuple(map(_copied, value))
    if isinstance(value, (list, deque)):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if hasattr(value, "fork"):
        return value.fork()
    if is_dataclass(value) and getattr(value, "__dataclass_params__").frozen:  # noqa: B009
        return value
    if whole or is_dataclass(value):
        made = copy.copy(value)
        vars(made).update({name: _copied(item) for name, item in vars(value).items()})
        return made
    return copy.deepcopy(value)


def unit_key(unit: Paced) -> Hashable:
    """The state of a unit as a key, without its counters."""
    return tuple(value_key(item) for name, item in vars(unit).items() if name not in FIGURES)


def value_key(value: Any) -> Hashable:
    """A key that is equal for equal values."""
    if isinstance(value, (int, str, float, bytes, type(None))):
        return value
    if isinstance(value, (tuple, list, deque)):
        return tuple(map(value_key, value))
    if isinstance(value, dict):
        return tuple((key, value_key(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(value_key, value))
    if isinstance(value, pa.RecordBatch):
        return value.schema, str(value.to_pydict())
    if hasattr(value, "key") and hasattr(value, "fork"):
        return value.key()  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if callable(value):
        return id(value)
    if not is_dataclass(value) and not hasattr(value, "__dict__"):
        return value  # type: ignore[no-any-return]
    names = [f.name for f in fields(value)] if is_dataclass(value) else list(vars(value))
    return type(value), *(value_key(getattr(value, name)) for name in names if name not in FIGURES)
