"""The memories of an OP-Block: Window Buffer-R and -S, and the Query Buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.flows.chain_as_published.processing_unit import Operator
from penstock.flows.sub_window import Group, Part


@dataclass
class WindowBuffer:
    """The tuples of one stream in a block, oldest first.

    In the circuit a full buffer lets its oldest tuple go before it takes another. Here it takes a
    run, and has as many tuples too many until those have been transmitted.

    Parameters
    ----------
    tuples
        The tuples, and the search for partners among them.
    capacity
        How many it has room for.
    """

    tuples: Part
    capacity: int

    @property
    def surplus(self) -> int:
        """How many of the oldest tuples have to go on."""
        return max(0, len(self.tuples) - self.capacity)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest tuple; None if it is empty."""
        return int(self.tuples.oldest(0, 1).seqs[0]) if len(self.tuples) else None

    def push(self, run: Group) -> None:
        """Store a run, which is younger than all that is stored."""
        self.tuples.append(run)

    def pop(self) -> Group:
        """Let the surplus go."""
        count = self.surplus
        run: Group = self.tuples.oldest(0, count)
        self.tuples.drop(count)
        return run

    def clear(self) -> None:
        """Forget every tuple."""
        self.tuples.drop(len(self.tuples))


@dataclass
class QueryBuffer:
    """The instruction region of Window Buffer-S; it grows with every operator."""

    operators: list[Operator] = field(default_factory=list)

    def insert(self, operator: Operator) -> None:
        """Add an operator, which is executed after the others."""
        self.operators.append(operator)

    def clear(self) -> None:
        """Forget every operator."""
        self.operators.clear()

    @property
    def programmed(self) -> Sequence[Operator]:
        """The operators, in the order in which they are executed."""
        return self.operators
