"""The interface between a multiway join block and a design: arrivals in, combinations out.

The block has the windows: it decides which tuples are late, numbers and stores the others, and says
which tuples are live for a combination. A design decides where and in which order windows are
probed. While a design works on a batch, the block changes nothing, so that the units of a design
may read the block's tuples on several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.lateness import Admitted
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.ranks import Ranks
from penstock.blocks.run import Share
from penstock.blocks.window.keys import WindowKeys
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.merging import ranked_order
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.probe.buckets import gathered
from penstock.program.choose.probe_order import JoinTerms, ProbeOrder, ProbeStage
from penstock.program.isa.flow import Flow

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
class Part:
    """What one of several searches side by side has of a join.

    Parameters
    ----------
    stores, processes
        Of each input, the tuples that its windows have, and the arrivals that begin here; None:
        all.
    counts
        Whether it counts the expressions that fail in work which all of them do.
    """

    stores: tuple[Share | None, ...]
    processes: tuple[Share | None, ...]
    counts: bool


@dataclass(frozen=True)
class SearchProgram:
    """A join as a search sees it: the windows, the terms of the predicate, and how to probe.

    ``order`` gives the probe order that ``mjoin`` has for an origin, which it may revise or not;
    ``stage`` makes its stages. ``part`` is what the search has of the join; None: all of it.
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
    part: Part | None = None

    def of_part(self, part: Part) -> SearchProgram:
        """The join for a search that has a part of it."""

        def begin(
            arrived: Arrived, order: ProbeOrder, start: int, stop: int, failures: Failures
        ) -> Combinations:
            # Every part asks this of all arrivals.
            counted = failures if part.counts or self._is_own(order.origin) else Failures()
            begun = self.begin(arrived, order, start, stop, counted)
            share = part.processes[order.origin]
            if share is None:
                return begun
            seqs = known(begun.members[order.origin])
            mine = np.flatnonzero(share.owns(seqs))
            return begun.extended(mine, order.origin, seqs[mine])

        return replace(self, begin=begin, part=part)

    def keys(
        self,
        stage: Stage,
        dictionary: Dictionary,
        kernel: str | None = None,
        tuples: tuple[int, Sequence[pa.RecordBatch]] | None = None,
    ) -> WindowKeys:
        """The keys that a stage searches: of the tuples stored here, or of those of ``tuples``.

        Without a ``kernel``, by that of the join.
        """
        side, share = self.sides[stage.input], self._stores(stage.input)
        return WindowKeys(stage.predicate, kernel or self.kernel, side, dictionary, tuples, share)

    def _is_own(self, input: int) -> bool:
        """Whether the tuples of an input come to no other search."""
        return self.sides[input].share is not None

    def _stores(self, input: int) -> Share | None:
        return None if self.part is None else self.part.stores[input]

    def counting(self, input: int, failures: Failures) -> Failures:
        """What counts expressions that fail when tuples of an input are stored."""
        part = self.part
        is_elsewhere = part is not None and part.stores[input] is None and not part.counts
        is_elsewhere = is_elsewhere and not self._is_own(input)
        return Failures() if is_elsewhere else failures

    def stored(self, input: int, first: int, following: int) -> int:
        """How many of the tuples ``first .. following - 1`` of a window are stored here."""
        return self._count(self._stores(input), input, first, following)

    def processed(self, input: int, first: int, following: int) -> int:
        """How many arrivals of those numbers begin here."""
        share = None if self.part is None else self.part.processes[input]
        return self._count(share, input, first, following)

    def _count(self, share: Share | None, input: int, first: int, following: int) -> int:
        if share is None or following <= first:
            return following - first
        side = self.sides[input]
        numbers = np.arange(max(first, side.rows.first), following)
        return int(np.count_nonzero(share.owns(side.arrival_numbers(numbers))))

    def share_stored(self, input: int) -> float:
        """Which part of a window is stored here."""
        share = self._stores(input)
        return 1.0 if share is None else 1 / share.cores

    def share_processed(self, input: int) -> float:
        """Which part of the arrivals of an input begin here."""
        share = None if self.part is None else self.part.processes[input]
        return 1.0 if share is None else 1 / share.cores


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
        Makes the search of one of them, with the design of a flow. It divides the input whose side
        has a share.
    """

    stream: Callable[[SearchProgram], int]
    search: Callable[[Flow | None], CombinationSearch]


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
