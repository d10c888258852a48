"""A join over a chain of OP-Blocks as published, which is inexact (Najafi 2019 §4.2, Fig. 4.2.2).

A window of *w* tuples is divided among *k* blocks, each with room for *w* / *k* of a stream,
rounded up. A tuple goes on to the next block when the window buffer is full, and leaves the chain
after the last one. So the rows are not those of ``[ROWS w]``, in three ways:

- A pair is found when its tuples meet, which younger tuples must push them to. Two tuples that have
  not met when the streams end, when the query is changed, or when its state is saved, never do.
- Of windows that the blocks do not divide evenly, more tuples are in the chain than in the window.
- The two streams come in at two ends, a run at a time, and a run has up to as many tuples as a
  window buffer has room for. What is in the chain when a tuple comes depends on where runs end.

:mod:`penstock.flows.low_latency_handshake` is a chain with the rows of the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.blocks.join.partner_search import Arrivals, Change, Chunk, FoundPairs, Rule
from penstock.flows.chain_as_published.instructions import Instruction, JoinInstruction, Reset
from penstock.flows.chain_as_published.op_block import IN, OPBlock
from penstock.flows.handshake.chain import chain_network
from penstock.flows.handshake.core import GROUP, R, S, Tuples
from penstock.flows.network.network import Driver, Network, run, with_loads
from penstock.flows.splitjoin.gathering import select_pairs
from penstock.flows.sub_window import MakePart, SubWindow

EVERY = 1 << 62
"""Above every number of a tuple."""


class ChainAsPublished:
    """The flow, as a join block uses it.

    Parameters
    ----------
    cores
        The number of OP-Blocks in the chain.
    driver
        Runs a network.
    part
        Makes the memory of window buffers by the rule of the query.
    """

    complete_at_once = False
    keeps_tuples = False

    def __init__(
        self,
        cores: int,
        driver: Callable[[Network], Driver],
        part: Callable[[Rule], MakePart] = lambda rule: lambda side: SubWindow(side, rule),
    ) -> None:
        self._blocks = [OPBlock(number, cores, part) for number in range(1, cores + 1)]
        self._driver = driver(chain_network(self._blocks))
        self._capacities = (0, 0)
        self._window_starts: tuple[int, ...] = (0, 0)
        self._let_go: tuple[int, ...] = (0, 0)

    # -- programming ------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Program every block by instructions, and fill the windows.

        The only way to give a block another program is a reset, which empties its window buffers.
        So the live tuples come again. They take their places in the chain by the same rule as
        others, and their bounds let them meet only what arrives from here on.
        """
        cores, rule = len(self._blocks), change.rule
        r, s = (capacity(rows, cores) for rows in rule.window_rows)
        self._capacities = (r, s)
        self._let_go = self._window_starts = (0, 0)
        for body in (Reset(), JoinInstruction(rule, self._capacities)):
            for block in self._blocks:
                self._pass(IN[S], Instruction(block.number, body))
        for sent in change.sent or ():
            arrivals = sent.arrivals
            stored = replace(arrivals, lo=arrivals.hi, hi=np.full(len(arrivals), EVERY))
            for part in self._runs(stored):
                self._pass(IN[arrivals.side], Tuples(part))

    def _pass(self, entry: str, message: Instruction | Tuples) -> None:
        """Let a message in of which nothing comes out."""
        for _, came in run(self._driver, [(entry, message)]):
            raise AssertionError(f"{came} has come out")

    # -- the driver process -----------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in at both ends, run by run; yields the pairs that meet.

        The next run comes when nothing moves any more, so that the rows follow from the input.
        """
        self._window_starts = chunk.live
        runs = [part for arrivals in chunk.arrivals for part in self._runs(_unbounded(arrivals))]
        for part in sorted(runs, key=lambda part: int(part.ranks[0])):
            for _, pairs in run(self._driver, [(IN[part.side], Tuples(part, chunk.compiled))]):
                yield from self._known(pairs)

    def _runs(self, arrivals: Arrivals) -> Iterator[Arrivals]:
        """The tuples in runs; none has more than a window buffer has room for."""
        size = max(1, min(GROUP, self._capacities[arrivals.side]))
        for start in range(0, len(arrivals), size):
            yield arrivals.part(start, start + size)

    def _known(self, pairs: FoundPairs) -> Iterator[FoundPairs]:
        """The pairs of tuples that the join block has not forgotten."""
        known = (pairs.left >= self._let_go[R]) & (pairs.right >= self._let_go[S])
        if known.all():
            yield pairs
        elif known.any():
            yield select_pairs(pairs, known)

    def complete(self) -> Iterator[FoundPairs]:
        """Let go of the tuples that have left their windows, for the join block forgets them.

        It finds no pairs: tuples that have not met are not brought together.
        """
        self._let_go = self._window_starts
        return iter(())

    # -- figures ----------------------------------------------------------------------------

    def oldest(self, side: int) -> int | None:
        """The first number that is still in the chain."""
        numbers = [block.oldest(side) for block in self._blocks]
        here = [number for number in numbers if number is not None]
        return max(min(here), self._let_go[side]) if here else None

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(block.comparisons for block in self._blocks)

    def measures(self) -> dict[str, Any]:
        """The figures of each block."""
        driver = self._driver
        return {"cores": [with_loads(b.measures(), b.name, driver) for b in self._blocks]}

    def close(self) -> None:
        """Let the blocks go."""
        self._driver.close()


def capacity(rows: int | None, blocks: int) -> int:
    """The room for a stream in each of the blocks that its window spans.

    >>> capacity(1536, 3), capacity(10, 4)
    (512, 3)
    """
    assert rows is not None, "a chain of full buffers has count windows"
    return -(-rows // blocks)


def _unbounded(arrivals: Arrivals) -> Arrivals:
    """The same tuples, which are compared with whatever is in the window buffers."""
    count = len(arrivals)
    return replace(arrivals, lo=np.zeros(count, np.int64), hi=np.full(count, EVERY))
