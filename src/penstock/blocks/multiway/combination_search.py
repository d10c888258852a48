"""The interface between a multiway join block and a design: arrivals in, combinations out.

The block has the windows: it decides which tuples are late, numbers and stores the others, and says
which tuples are live for a combination. A design decides where and in which order windows are
probed. While a design works on a batch, the block changes nothing, so that the units of a design
may read the block's tuples on several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.lateness import Admitted
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.ranks import Ranks
from penstock.blocks.window.keys import WindowKeys
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.merging import ranked_order
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.probe.buckets import gathered
from penstock.program.choose.probe_order import JoinTerms, ProbeOrder, ProbeStage

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations that began with tuples of one origin: ranks, and members by input.

    ``members`` has sequence numbers; None for an input that is not bound yet.
    """

    ranks: Indices
    members: tuple[Indices | None, ...]

    def __len__(self) -> int:
        return len(self.ranks)

    def part(self, start: int, stop: int) -> Combinations:
        """Neighbouring combinations."""
        members = tuple(None if m is None else m[start:stop] for m in self.members)
        return Combinations(self.ranks[start:stop], members)

    def extended(self, chosen: Indices, input: int, seqs: Indices) -> Combinations:
        """Those at the indices ``chosen``, each with one more member."""
        members = [None if m is None else m[chosen] for m in self.members]
        members[input] = seqs
        return Combinations(self.ranks[chosen], tuple(members))


def one_after_another(parts: Sequence[Combinations], inputs: int) -> Combinations:
    """Combinations of all inputs, one part behind the other."""
    if len(parts) == 1:
        return parts[0]
    ranks, members = _concatenated(parts, inputs)
    return Combinations(ranks, tuple(members))


def in_output_order(parts: Sequence[Combinations], inputs: int) -> Combinations:
    """Combinations by rank, then by the members' numbers in the order of FROM."""
    ranks, members = _concatenated(parts, inputs)
    order = ranked_order(ranks, members)
    return Combinations(gathered(ranks, order), tuple(gathered(m, order) for m in members))


def _concatenated(
    parts: Sequence[Combinations], inputs: int
) -> tuple[Indices, npt.NDArray[np.int64]]:
    """Ranks, and a table of members with a row for each input."""
    nothing = np.empty(0, np.int64)
    ranks = np.concatenate([nothing, *(part.ranks for part in parts)])
    members = np.empty((inputs, len(ranks)), np.int64)
    for i, column in enumerate(members):
        np.concatenate([nothing, *(known(part.members[i]) for part in parts)], out=column)
    return ranks, members


def known(seqs: Indices | None) -> Indices:
    """The members of an input that is bound."""
    assert seqs is not None
    return seqs


@dataclass(frozen=True, eq=False)
class Arrived:
    """A batch that has been stored: what was admitted, its order, and what it began with."""

    admitted: Sequence[Admitted]
    ranks: Ranks
    punctuations_before: Sequence[int | float]
    ended_before: Sequence[bool]


class WindowView(NamedTuple):
    """A window as a stage sees it when combinations probe it.

    Parameters
    ----------
    entries, dictionary
        The keys of the window's tuples, and what encodes them.
    seen
        For each combination, how many of the batch's tuples of the window it may see.
    first, after
        The first tuple that can be seen, and the one after the last if there are more; by index
        among all that the block has, and among the entries.
    failures, note
        What counts failed expressions, and what takes the number of comparisons.
    """

    entries: WindowKeys
    dictionary: Dictionary
    seen: Indices
    first: int
    failures: Failures
    note: Callable[[int], None]
    after: int | None = None


class NewcomersView(NamedTuple):
    """New tuples of a window, as combinations of older tuples see them.

    Parameters
    ----------
    entries, dictionary
        The keys of these tuples, and what encodes them.
    span
        Where these tuples begin and end among those of the batch.
    failures, note
        What counts failed expressions, and what takes the number of comparisons.
    """

    entries: WindowKeys
    dictionary: Dictionary
    span: tuple[int, int]
    failures: Failures
    note: Callable[[int], None]


Begin = Callable[[Arrived, ProbeOrder, int, int, Failures], Combinations]
"""The arrivals of an origin in a stretch of ranks that pass what is asked of them alone."""
Extend = Callable[[Arrived, int, Stage, Combinations, int | None, WindowView], Combinations | None]
"""Combinations of an origin with a member of one more input; None if there are more than asked."""
Meet = Callable[[Arrived, Stage, Combinations, int | None, NewcomersView], Combinations | None]
"""Combinations with a new tuple as their youngest member; None if there are more than asked.

The rank of a given combination is that of its youngest member, or -1 if it is from an earlier
batch; afterwards it is that of the new tuple, the origin.
"""


@dataclass(frozen=True)
class SearchProgram:
    """A join as a design sees it: the windows, the terms of the predicate, and how to probe.

    ``order`` gives the probe order that ``mjoin`` has for an origin, which it may revise or not;
    ``stage`` makes its stages.
    """

    sides: Sequence[StoredWindow]
    terms: JoinTerms
    order: Callable[[int], ProbeOrder]
    revises_orders: bool
    kernel: str
    stage: Callable[[ProbeStage], Stage]
    begin: Begin
    extend: Extend
    meet: Meet


class TooManyCombinations(Exception):
    """A design would have to store more combinations than it may.

    It has given all combinations of the arrivals before ``rank``.
    """

    def __init__(self, rank: int) -> None:
        super().__init__(f"too many combinations to store from rank {rank} on")
        self.rank = rank


@dataclass(frozen=True)
class Division:
    """How blocks on several cores, which have only their input in common, divide a join.

    Parameters
    ----------
    stream
        The input whose tuples they divide, by the program and windows that are empty.
    search
        Makes the search of one of them. It divides the input whose side has a share.
    """

    stream: Callable[[SearchProgram], int]
    search: Callable[[], CombinationSearch]


class CombinationSearch(Protocol):
    """A design, as a multiway join block uses it."""

    def program(self, program: SearchProgram) -> None:
        """Start with this program and with the tuples that the windows have.

        All combinations within them have been found.
        """

    def take(self, arrived: Arrived) -> Iterator[Combinations]:
        """All combinations of a batch, in output order, in several pieces."""

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""

    @property
    def is_wasteful(self) -> bool:
        """Whether to be programmed anew would free much memory, or save much work."""

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""

    def close(self) -> None:
        """Stop the threads."""
