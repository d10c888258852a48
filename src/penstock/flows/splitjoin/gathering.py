"""Gathering what the cores find: stars, n-ary mergers, the combiner (Najafi 2019 §5.2).

Every core gives its results in the order in which it makes them. A star after some of them says
that ``precision`` more arrivals (outer order) or comparisons (inner order) are done. A merger takes
from its inputs in turn, from each until a star, and then gives one star of its own. So the results
between two stars, a *section*, come out in the order of the cores, and sections in theirs.

A message holds many results. Each result has the number of its section, counted from the beginning
of its chunk and the same in every core; the message says before which section all have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.partner_search import FoundPairs, no_pairs
from penstock.flows.network.network import Port, Sent
from penstock.kernels.merging import merge_ranked, merge_sections

Indices = npt.NDArray[np.int64]
ENTRY_BITS = 43
"""Bits of a section that number the comparisons of one arrival; above them, the arrival."""
ALL_SECTIONS = (1 << 63) - 1
STREAMS = ("R", "S")


@dataclass(frozen=True, eq=False)
class Results:
    """Pairs by section, and the section before which all have come.

    ``until`` is ALL_SECTIONS at the end of a chunk, whose last rank is before ``rank``. ``order``
    is that of its sections.
    """

    pairs: FoundPairs
    sections: Indices
    until: int
    rank: int
    order: str

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        last = f", the last before rank {self.rank}" if self.until == ALL_SECTIONS else ""
        return f"{len(self.pairs)} pairs{last}"


@dataclass(frozen=True)
class Stars:
    """How often a star is given: which section a result is in.

    Where every arrival is a section, its rank is the section's number, and nothing is computed.
    """

    order: str
    precision: int

    @property
    def by_rank(self) -> bool:
        """Whether every arrival is a section."""
        return self.order == "outer" and self.precision == 1

    def sections(self, pairs: FoundPairs, first_rank: int) -> Indices:
        """The section of each pair of a chunk that begins with this rank."""
        if self.by_rank:
            return pairs.ranks
        arrivals = pairs.ranks - first_rank
        sections: Indices
        if self.order == "inner":
            entries = pairs.entries if self.precision == 1 else pairs.entries // self.precision
            sections = (arrivals << ENTRY_BITS) + entries
        elif self.order == "outer":
            sections = arrivals // self.precision
        else:
            sections = np.zeros(len(pairs), np.int64)
        return sections

    def sections_of_one(self, pairs: FoundPairs) -> Indices:
        """The same for a chunk of one arrival."""
        sections: Indices
        if self.by_rank:
            return pairs.ranks
        if self.order == "inner":
            sections = pairs.entries // self.precision
        else:
            sections = np.zeros(len(pairs), np.int64)
        return sections

    def reached(self, rank: int, first_rank: int) -> int:
        """The section before which all is done, once every arrival before ``rank`` is."""
        if self.by_rank:
            return rank
        if self.order == "inner":
            return (rank - first_rank) << ENTRY_BITS
        return (rank - first_rank) // self.precision if self.order == "outer" else 0


def concatenated(parts: Sequence[FoundPairs]) -> FoundPairs:
    """The pairs of all parts, one part after another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_pairs()
    columns = [
        np.concatenate(column)
        for column in zip(*((m.left, m.right, m.ranks, m.entries) for m in parts), strict=True)
    ]
    return FoundPairs(
        columns[0], columns[1], columns[2], columns[3], max(m.found_at for m in parts)
    )


def select_pairs(pairs: FoundPairs, which: Any) -> FoundPairs:
    """Some of the pairs."""
    return FoundPairs(
        pairs.left[which],
        pairs.right[which],
        pairs.ranks[which],
        pairs.entries[which],
        pairs.found_at,
    )


def _part(pairs: FoundPairs, sections: Indices, which: slice) -> tuple[FoundPairs, Indices]:
    """Some of the pairs, with their sections; sections that are ranks still are."""
    part = select_pairs(pairs, which)
    return part, part.ranks if sections is pairs.ranks else sections[which]


class Merger:
    """An n-ary merger; the combiner at the root of both trees is one with two inputs.

    If an order is asked for, it keeps that of sections (Algorithm 5), and takes from the input that
    is behind; if none is, it passes results on at once, and only the end of a chunk waits for all.
    The results say which: those of a chunk have one order, and one chunk follows another.
    """

    def __init__(self, name: str, inputs: int) -> None:
        self.name = name
        self.inputs = [f"in{i}" for i in range(inputs)]
        self._waits = False
        self._side: Literal["left", "right"] = "left"
        self._until = [0] * inputs
        self._waiting: list[list[tuple[FoundPairs, Indices]]] = [[] for _ in range(inputs)]
        self.stars = 0

    def needs(self, port: Port) -> Sequence[Port] | None:
        """Nothing is taken from an input that is ahead of others, or beyond the chunk."""
        until = self._until[self.inputs.index(port)]
        if until == ALL_SECTIONS or (self._waits and until > min(self._until)):
            return None
        return ("out",)

    def step(self, port: Port, message: Results) -> Iterable[Sent]:
        """Queue a message, and give the sections that all inputs have completed."""
        number = self.inputs.index(port)
        if not any(self._until) and not any(self._waiting):
            self._begin(message.order)
        before = min(self._until)
        self._until[number] = message.until
        self._waiting[number].append((message.pairs, message.sections))
        after = min(self._until)
        ready = self._ready(after)
        ends = after == ALL_SECTIONS
        if not ends and not len(ready[0]) and (not self._waits or after == before):
            return []
        if ends:
            self._until = [0] * len(self.inputs)
        # A star is passed on without results too: a merger below that waits for it holds up the
        # other stream.
        self.stars += 1
        return [("out", Results(*ready, after, message.rank, message.order))]

    def _begin(self, order: str) -> None:
        """Begin with a chunk whose results have this order."""
        self._waits = order != "none"
        # Within an unfinished section of arrivals any order will do. The section of comparisons
        # that has been reached is of an arrival to come.
        self._side = "left" if order == "inner" else "right"

    def _ready(self, until: int) -> tuple[FoundPairs, Indices]:
        """Take the results of the complete sections, in order."""
        parts: list[tuple[FoundPairs, Indices]] = []
        for waiting in self._waiting:
            later = []
            for pairs, sections in waiting:
                cut = len(sections)
                if self._waits and until != ALL_SECTIONS:
                    cut = int(np.searchsorted(sections, until, side=self._side))
                if cut == len(sections):
                    parts += [(pairs, sections)] if cut else []
                    continue
                if cut:
                    parts.append(_part(pairs, sections, slice(0, cut)))
                later.append(_part(pairs, sections, slice(cut, None)))
            waiting[:] = later
        if not parts:
            return no_pairs(), no_pairs().ranks
        if len(parts) == 1:
            return parts[0]
        if not self._waits:
            return concatenated([pairs for pairs, _ in parts]), np.concatenate(
                [part for _, part in parts]
            )
        at = max(pairs.found_at for pairs, _ in parts)
        # The sections have used the entries already.
        if all([sections is pairs.ranks for pairs, sections in parts]):
            ranked = [(pairs.ranks, pairs.left, pairs.right) for pairs, _ in parts]
            ranks, left, right = reduce(merge_ranked, ranked)
            return FoundPairs(left, right, ranks, ranks, at), ranks
        columns = [(sections, pairs.left, pairs.right, pairs.ranks) for pairs, sections in parts]
        sections, left, right, ranks = reduce(merge_sections, columns)
        return FoundPairs(left, right, ranks, ranks, at), sections

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A merger does nothing of its own accord."""
        return ()

    def measures(self) -> dict[str, Any]:
        """How many stars it has given."""
        return {"stars": self.stars}
