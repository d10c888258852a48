"""What travels between OP-Blocks: slices of the input, instructions and their tokens, and results.

A *slice* is the input of all streams at some positions, so that one message tells a block how far a
port has come. Streams are numbered, since several queries share the wires. Slices that flow right
collect the streams that blocks make on their way (intermediate results, Najafi 2019 §4.1.1), and
later blocks read them as any other stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.blocks.contract import Port, Site
from penstock.blocks.run import Run


@dataclass(frozen=True, slots=True)
class Slice:
    """The input at the positions ``first`` to ``next - 1``, with no instruction among them.

    ``runs`` has the run of each stream that has any, by the stream's number. ``only``: it is for
    one query alone, which has just come.
    """

    first: int
    next: int
    runs: Mapping[int, Run]
    only: int | None = None

    def __str__(self) -> str:
        """Its positions, for an error to say where."""
        return f"positions {self.first}..{self.next - 1}"

    def joined_by(self, made: Mapping[int, Run]) -> Slice:
        """The slice with streams that a block has made."""
        return Slice(self.first, self.next, {**self.runs, **made}, self.only) if made else self


@dataclass(frozen=True, slots=True)
class Programming:
    """Instructions that take effect at a position; they enter with S.

    Parameters
    ----------
    serial
        Their number, since several may be of one position.
    position
        The position.
    words
        The instructions (:mod:`penstock.program.isa.words`), of any of the blocks.
    site
        How the blocks inside OP-Blocks work.
    """

    serial: int
    position: int
    words: bytes
    site: Site

    def __str__(self) -> str:
        """Its position, for an error to say where."""
        return f"instructions at position {self.position}"


@dataclass(frozen=True, slots=True)
class Token:
    """All blocks have the instructions with this number: R may go on behind it."""

    serial: int

    def __str__(self) -> str:
        """Its number, for an error to say where."""
        return f"token {self.serial}"


@dataclass(frozen=True, slots=True)
class ForCore:
    """A message of a join that spans blocks, from one of its cores to the next."""

    query: int
    message: Any

    def __str__(self) -> str:
        """What it is, for an error to say where."""
        return f"{self.message} of query {self.query}"


@dataclass(frozen=True, slots=True)
class QueryOutput:
    """What a block has made for a query: rows, letters, pairs of a spanning join, or a failure.

    ``port`` is that of the query's last block, or ``pairs``, or ``failed``.
    """

    query: int
    port: Port
    message: Any


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of several queries, which are results of each, one query's after another's.

    ``bounds`` has where the rows of each query begin, and the end.
    """

    queries: Sequence[int]
    bounds: Sequence[int]
    run: Run

    def each(self) -> Iterator[tuple[int, Run]]:
        """Every query with its rows, by reference."""
        start, take = 0, self.run.slice
        for query, stop in zip(self.queries, self.bounds[1:], strict=True):
            yield query, take(start, stop)
            start = stop


@dataclass(frozen=True, slots=True)
class Results:
    """What a block has made of one message, for any of its queries."""

    outputs: tuple[QueryOutput | SharedRows, ...]


OnTheWay = Slice | Programming | Token | ForCore
"""What travels by the ports of the streams."""
PAIRS: Port = "pairs"
FAILED: Port = "failed"
