"""What a block is: ports, messages in one order, and no other way to configure it.

Why a live change is exact. Tuples, punctuations, ends and instructions come to a block in one
order, that of their positions. A block takes the instruction addressed to it and passes the message
on; before that, every row of an earlier position has left it, and the rows that the instruction
itself brings out leave after it. So no row is overtaken by an instruction and none overtakes it, in
this block and, by induction along the wires, in every block of a network: what is computed under
the old program is of earlier positions, and all of it; what a change makes expire is a row of the
change's position, and meets blocks that have the new program already. It does not matter where the
input was cut into batches, nor when a block works.

A message of instructions addressed to no block is a *barrier*. It ends a program, and closes its
position: what is due by then leaves before it. Where several paths meet, a message goes on once,
when it has come over all of them (:mod:`penstock.blocks.synchroniser`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.aggregate.clock import Closings
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.join.latency import Latency
from penstock.blocks.loose_rows import ColumnSources
from penstock.blocks.run import Letters, MissedTuples, Run, Share
from penstock.blocks.state import BlockState
from penstock.program.isa.flow import Flow

Port = str
BlockId = int
IN: Port = "in"
OUT: Port = "out"
LETTERS: Port = "letters"


@dataclass(frozen=True, slots=True)
class Batch:
    """The input at the positions ``first`` to ``next - 1``, with no instruction among them.

    Parameters
    ----------
    first, next
        The positions; of rows that an instruction brings out, its position and the same again.
    runs
        One slot per input of the block that takes it, with the rows and the punctuations and ends
        between them; None where an input has nothing.
    is_last
        Whether it is the last part of these positions; False: more follows.
    """

    first: int
    next: int
    runs: tuple[Run | None, ...]
    is_last: bool = True

    def __str__(self) -> str:
        """Its positions, for an error to say where."""
        return f"positions {self.first}..{self.next - 1}"

    @property
    def run(self) -> Run:
        """The one run of a block with one input."""
        [run] = self.runs
        assert run is not None
        return run

    def made(self, run: Run, is_last: bool) -> Batch:
        """Rows that this batch has led to; ``is_last``: it leads to no more."""
        return Batch(self.first, self.next, (run,), is_last and self.is_last)


@dataclass(frozen=True, slots=True)
class Partials:
    """Tuples that were folded before they came here, at the position ``first`` and after it.

    Parameters
    ----------
    parts
        The partial results.
    closings
        The windows that they close, where they were folded in their order; None: they are judged
        by the punctuations before ``first``, and what they close is at that position.
    is_disordered
        Whether some are late because of others among them, if punctuations follow the tuples.
    update
        Whether all rows that they change come out, and not those of windows that close.
    """

    first: int
    parts: tuple[PartialBatch, ...]
    closings: Closings | None = None
    is_disordered: bool = False
    update: bool = False

    def __str__(self) -> str:
        """Its position, for an error to say where."""
        return f"partial results at position {self.first}"


@dataclass(frozen=True)
class Site:
    """Where a block stands; it travels with every instruction.

    Parameters
    ----------
    flow
        How cores share a join, and threads an aggregate; None: the block works alone.
    share
        The part of the work that is this block's, where blocks on several cores share it.
    compiles
        Whether predicates are compiled.
    is_read
        Whether its rows are read as a stream, so that punctuations of them matter.
    """

    flow: Flow | None = None
    share: Share | None = None
    compiles: bool = True
    is_read: bool = True


ALONE = Site()


@dataclass(frozen=True)
class Instructions:
    """Instructions on their way, all at one position.

    ``bodies`` are, by the block that each is addressed to, instructions of
    :mod:`penstock.program.isa.block_instructions`; none: a barrier.
    """

    position: int
    bodies: Mapping[BlockId, Any] = field(default_factory=dict)
    site: Site = ALONE

    def __str__(self) -> str:
        """Its position, for an error to say where."""
        return f"{'instructions' if self.bodies else 'a barrier'} at position {self.position}"

    def made(self, run: Run) -> Batch:
        """Rows that it brings out."""
        return Batch(self.position, self.position, (run,), False)


Message = Batch | Partials | Instructions
Sent = tuple[Port, Any]
"""A message and the output port it leaves by; by the port ``letters``, letters."""
Letter = Letters | MissedTuples


class Account(NamedTuple):
    """The tuples of one input that did not merely pass, by what became of them.

    ``window`` says whether it is one of a join. ``stored`` counts the tuples in the window,
    ``expired`` those that have left it; ``late`` and ``dead`` those that could not be taken.
    """

    window: bool = False
    stored: int = 0
    expired: int = 0
    late: int = 0
    dead: int = 0


class CompiledStep(Protocol):
    """A compiled function that takes single tuples of one input of a block, over its own buffers.

    It refuses what it does not support, having changed nothing; the tuple then goes through a
    batch. It is good until the block takes an instruction.
    """

    mended: int
    """How often it made room, or updated an index."""

    @property
    def latency(self) -> Latency:
        """Where to note how long it took."""

    @property
    def stored(self) -> int:
        """How many tuples have ever been stored by this input."""

    @property
    def sources(self) -> ColumnSources:
        """Where the columns of the rows that it makes come from."""

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Whether the tuple would be taken; nothing is changed."""

    def take(self, position: int, values: tuple[Any, ...]) -> int:
        """Take a tuple of physical values; gives how many rows it makes, negative: refused."""

    def repair(self) -> None:
        """Restore its buffers and indexes after an interruption, before anything else is asked."""

    def resume(self, position: int, values: tuple[Any, ...], is_stored: bool) -> int:
        """Take a tuple, or the rest of it, after an interruption."""

    def partners(self, found: int) -> Sequence[npt.NDArray[np.int64]]:
        """For each other input, where the partner of each row is stored, in inner order."""

    def rows(self, position: int, values: tuple[Any, ...], found: int) -> Run:
        """The rows of a tuple that has found partners."""


@dataclass(frozen=True)
class Traits:
    """The properties of a block that a driver needs, under the instruction in force.

    Parameters
    ----------
    holds
        ``tuples`` that arrive, or ``groups`` of them; None: nothing that grows.
    account
        The account of an input, by its slot.
    takes_partials
        Whether tuples that were folded elsewhere may be taken as :class:`Partials`; None: never.
    compiled_step
        Offers a compiled function that takes single tuples of an input, by its slot; None now if
        the instruction in force asks for too much.
    fuses
        Offered by a block that may follow a compiled step: each of its rows depends on one row
        alone, and nothing is remembered. Maps the sources of its input's columns to
        those of its own, if it merely copies them; None if it computes.
    """

    holds: Literal["tuples", "groups"] | None = None
    account: Callable[[int], Account] | None = None
    takes_partials: Callable[[Partials], bool] | None = None
    compiled_step: Callable[[int], CompiledStep | None] | None = None
    fuses: Callable[[ColumnSources], ColumnSources | None] | None = None


PASSIVE = Traits()
Measures = dict[str, Any]
"""Counts by name: numbers that are added up over the blocks of a query, and lists that are joined.

``expression_failures`` and ``window_bytes`` are known of every query.
"""


class Unit(Protocol):
    """A step function with ports, which any driver runs. It has no thread and knows no other."""

    name: str
    """Its name in errors and metrics."""

    @property
    def inputs(self) -> Sequence[Port]:
        """Its input ports; where several have messages, in this order."""

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take one message; gives those that it causes."""

    def measures(self) -> Measures:
        """Its counts, and the size of its state."""


class Block(Unit, Protocol):
    """A unit of a query's network. It is made unprogrammed, with its number, from a table by kind.

    Until it is programmed it passes everything on.
    """

    @property
    def number(self) -> BlockId:
        """The address of its instructions; unique in a network."""

    @property
    def outputs(self) -> Sequence[Port]:
        """Its output ports: ``out``, and ``letters`` if it may set tuples aside."""

    @property
    def nbytes(self) -> int:
        """The memory of its state."""

    def traits(self) -> Traits:
        """Its properties, for a driver."""

    def save(self) -> BlockState:
        """Its state; every row of what it was given has left it, after a barrier."""

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state, under the instruction that the block has."""

    def close(self) -> None:
        """Let go of threads, if it has any."""


class Paced(Unit, Protocol):
    """A unit as drivers run it: it may decline input, and act of its own accord.

    Units inside flows and the synchroniser are paced. A block is made so by
    :class:`penstock.flows.network.network.Steady`.
    """

    def needs(self, port: Port) -> Sequence[Port] | None:
        """The outputs that must have room before a message is taken from this input.

        A message from this input may leave by other outputs too; those must always take it. None:
        nothing is to be taken from it now.
        """

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Messages of the unit's own accord, one step's worth; none if there is nothing to do."""


class Passing(Paced, Protocol):
    """A unit that may have nothing to do with a message; the inline driver then goes past it."""

    def passes(self, port: Port, message: Any) -> Port | None:
        """The output by which the message would leave unchanged, and alone; None: a step is due.

        It changes nothing, and holds for units that are not in a step.
        """


def program(block: Block, body: Any, site: Site = ALONE) -> None:
    """Give a block that stands in no network its first instruction."""
    for _ in block.step(IN, Instructions(0, {block.number: body}, site)):
        pass
