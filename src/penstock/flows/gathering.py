"""Gathering what the cores find: stars, n-ary mergers, the combiner (Najafi 2019 §5.2).

Every core gives its results in the order in which it makes them, and after some of them a star: so
many arrivals (outer order) or comparisons (inner order) are done with. A merger takes from its
inputs in turn, from each until a star, and then gives one star of its own. So what lies between two
stars, a *section*, comes out in the order of the cores, and sections come in theirs.

A message holds many results. Each result has the number of its section, counted from the beginning
of its chunk and the same in every core; the message says before which section nothing more comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.blocks.meeting import Met, nobody
from penstock.flows.network import Port, Sent
from penstock.kernels.merging import merge_ranked, merge_sections

Indices = npt.NDArray[np.int64]
ENTRY_BITS = 43
"""Bits of a section that number the comparisons of one arrival; above them, the arrival."""
ALL_SECTIONS = (1 << 63) - 1
STREAMS = ("R", "S")


@dataclass(frozen=True, eq=False)
class Results:
    """Pairs by section, and the section before which all have come.

    ``until`` is ALL_SECTIONS at the end of a chunk, whose last rank is before ``rank``.
    """

    met: Met
    sections: Indices
    until: int
    rank: int

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        last = f", the last before rank {self.rank}" if self.until == ALL_SECTIONS else ""
        return f"{len(self.met)} pairs{last}"


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

    def sections(self, met: Met, first_rank: int) -> Indices:
        """The section of each pair of a chunk that begins with this rank."""
        if self.by_rank:
            return met.ranks
        arrivals = met.ranks - first_rank
        sections: Indices
        if self.order == "inner":
            entries = met.entries if self.precision == 1 else met.entries // self.precision
            sections = (arrivals << ENTRY_BITS) + entries
        elif self.order == "outer":
            sections = arrivals // self.precision
        else:
            sections = np.zeros(len(met), np.int64)
        return sections

    def sections_of_one(self, met: Met) -> Indices:
        """The same for a chunk of one arrival."""
        sections: Indices
        if self.by_rank:
            return met.ranks
        if self.order == "inner":
            sections = met.entries // self.precision
        else:
            sections = np.zeros(len(met), np.int64)
        return sections

    def reached(self, rank: int, first_rank: int) -> int:
        """The section before which all is done, once every arrival before ``rank`` is."""
        if self.by_rank:
            return rank
        if self.order == "inner":
            return (rank - first_rank) << ENTRY_BITS
        return (rank - first_rank) // self.precision if self.order == "outer" else 0


def joined(parts: Sequence[Met]) -> Met:
    """Pairs one after another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return nobody()
    columns = [
        np.concatenate(column)
        for column in zip(*((m.left, m.right, m.ranks, m.entries) for m in parts), strict=True)
    ]
    return Met(columns[0], columns[1], columns[2], columns[3], max(m.at for m in parts))


def picked(met: Met, which: Any) -> Met:
    """Some of the pairs."""
    return Met(met.left[which], met.right[which], met.ranks[which], met.entries[which], met.at)


def _part(met: Met, sections: Indices, which: slice) -> tuple[Met, Indices]:
    """Some of the pairs, with their sections; sections that are ranks still are."""
    part = picked(met, which)
    return part, part.ranks if sections is met.ranks else sections[which]


class Merger:
    """An n-ary merger; the combiner at the root of both trees is one with two inputs.

    With ``waits`` it keeps the order of sections (Algorithm 5), and takes from the input that is
    behind; without, it hands on what comes, and only the end of a chunk waits for all.
    """

    def __init__(self, name: str, inputs: int, waits: bool, inner: bool = True) -> None:
        self.name = name
        self.inputs = [f"in{i}" for i in range(inputs)]
        self._waits = waits
        # Of the section of arrivals that somebody is still in, any order will do. A section of
        # comparisons has one of each core, and the order of the cores is theirs.
        self._side: Literal["left", "right"] = "left" if inner else "right"
        self._until = [0] * inputs
        self._held: list[list[tuple[Met, Indices]]] = [[] for _ in range(inputs)]
        self.stars = 0

    def needs(self, port: Port) -> Sequence[Port] | None:
        """Nothing is taken from an input that is ahead of others, or beyond the chunk."""
        until = self._until[self.inputs.index(port)]
        if until == ALL_SECTIONS or (self._waits and until > min(self._until)):
            return None
        return ("out",)

    def step(self, port: Port, message: Results) -> Iterable[Sent]:
        """Hold a message, and give what all inputs have come past."""
        number = self.inputs.index(port)
        before = min(self._until)
        self._until[number] = message.until
        self._held[number].append((message.met, message.sections))
        after = min(self._until)
        ready = self._ready(after)
        ends = after == ALL_SECTIONS
        if not ends and not len(ready[0]) and (not self._waits or after == before):
            return []
        if ends:
            self._until = [0] * len(self.inputs)
        # A star goes on without results too: whoever waits for it holds up the other stream.
        self.stars += 1
        return [("out", Results(*ready, after, message.rank))]

    def _ready(self, until: int) -> tuple[Met, Indices]:
        """Take the results of the sections that are complete, in order."""
        parts: list[tuple[Met, Indices]] = []
        for held in self._held:
            kept = []
            for met, sections in held:
                cut = len(sections)
                if self._waits and until != ALL_SECTIONS:
                    cut = int(np.searchsorted(sections, until, side=self._side))
                if cut == len(sections):
                    parts += [(met, sections)] if cut else []
                    continue
                if cut:
                    parts.append(_part(met, sections, slice(0, cut)))
                kept.append(_part(met, sections, slice(cut, None)))
            held[:] = kept
        if not parts:
            return nobody(), nobody().ranks
        if len(parts) == 1:
            return parts[0]
        if not self._waits:
            return joined([met for met, _ in parts]), np.concatenate([part for _, part in parts])
        at = max(met.at for met, _ in parts)
        # Which entries they were has been told by the sections.
        if all([sections is met.ranks for met, sections in parts]):
            ranked = [(met.ranks, met.left, met.right) for met, _ in parts]
            ranks, left, right = reduce(merge_ranked, ranked)
            return Met(left, right, ranks, ranks, at), ranks
        columns = [(sections, met.left, met.right, met.ranks) for met, sections in parts]
        sections, left, right, ranks = reduce(merge_sections, columns)
        return Met(left, right, ranks, ranks, at), sections

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A merger does nothing of its own accord."""
        return ()

    def measures(self) -> dict[str, Any]:
        """How many stars it has given."""
        return {"stars": self.stars}
