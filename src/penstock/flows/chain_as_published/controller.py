"""A controller of an OP-Block: the states it has, and from which to which it goes."""

from __future__ import annotations

from collections.abc import Mapping

Transitions = Mapping[str, tuple[str, ...]]
"""For each state, those that may follow."""


class Controller:
    """A state machine. It starts in the first state of its transitions.

    >>> door = Controller({"open": ("shut",), "shut": ("open",)})
    >>> door.enter("shut")
    >>> door.state
    'shut'
    >>> door.enter("shut")
    Traceback (most recent call last):
    AssertionError: 'shut' does not follow 'shut'
    """

    __slots__ = ("_transitions", "state")

    def __init__(self, transitions: Transitions) -> None:
        self._transitions = transitions
        self.state = next(iter(transitions))

    def enter(self, state: str) -> None:
        """Go to a state that may follow."""
        assert state in self._transitions[self.state], f"{state!r} does not follow {self.state!r}"
        self.state = state

    def fork(self) -> Controller:
        """An independent copy, for schedules that are explored."""
        copy = Controller(self._transitions)
        copy.state = self.state
        return copy

    def key(self) -> str:
        """The state, to compare controllers with the same transitions."""
        return self.state
