"""A running query as the code that engines share sees it, and its letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.blocks.run import Letters, MissedTuples, Run
from penstock.engines.shared.pipeline import Pipeline
from penstock.errors import QueryFailed
from penstock.program.isa.block_instructions import Program
from penstock.streams.batches import plain
from penstock.streams.literals import format_rows


@dataclass(frozen=True)
class Letter:
    """A tuple or record that the query could not take. ``kind`` is late or dead."""

    kind: str
    position: int
    stream: str
    text: str
    reason: str


_LETTER_FIELDS: list[tuple[str, pa.DataType]] = [
    ("kind", pa.string()),
    ("stream", pa.string()),
    ("position", pa.int64()),
    ("reason", pa.string()),
    ("tuple", pa.string()),
]
LETTERS = pa.schema(_LETTER_FIELDS)


def letter_batch(letters: Sequence[Letter]) -> pa.RecordBatch:
    """Letters as rows."""
    columns: list[list[Any]] = [
        [letter.kind for letter in letters],
        [letter.stream for letter in letters],
        [letter.position for letter in letters],
        [letter.reason for letter in letters],
        [letter.text for letter in letters],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LETTERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LETTERS)


class RegisteredQuery(Protocol):
    """A query as a registry knows it."""

    name: str
    derived: bool
    order: str | None
    kernel: str | None

    @property
    def program(self) -> Program: ...

    @property
    def schema(self) -> pa.Schema: ...


class RunningQuery(RegisteredQuery, Protocol):
    """A query that is processed here; ``here`` is False if its blocks are on another core."""

    here: bool
    failure: QueryFailed | None
    pipeline: Pipeline

    @property
    def undrained(self) -> int:
        """The number of undrained rows and letters."""

    def _take_run(self, run: Run) -> None:
        """Take rows that its blocks have made."""

    def _take_letters(self, letters: Iterable[Letter | Letters | MissedTuples]) -> None:
        """Take late tuples and dead letters of its blocks."""

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        """Take malformed records as dead letters."""

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        """The admitted input, in parts: all of it at once, unless the query sheds."""

    def _is_full(self) -> bool:
        """Whether its output must be drained before it makes more rows."""

    def _begin_step(self) -> None:
        """Begin a step of its blocks; its counts are not consistent until the step ends."""

    def _end_step(self) -> None:
        """End a step: its blocks are done with their input, or the query has failed."""

    def _count_input(self, stream: str, tuples: int) -> None:
        """Count the tuples of a stream that reach it."""

    def _retire(self) -> None:
        """Release its blocks: it has been dropped."""


def count(letter: Letter | Letters | MissedTuples) -> int:
    """The number of tuples in a letter."""
    if isinstance(letter, MissedTuples):
        return letter.count
    return len(letter.positions) if isinstance(letter, Letters) else 1


def written(letter: Letter | Letters | MissedTuples) -> list[Letter]:
    """One letter per tuple, with the tuple as text; none for tuples that were only counted."""
    if isinstance(letter, MissedTuples):
        return []
    if isinstance(letter, Letter):
        return [letter]
    rows = zip(
        letter.positions.tolist(), format_rows(plain(letter.batch)), letter.reasons, strict=True
    )
    return [Letter(letter.kind, position, letter.stream, text, why) for position, text, why in rows]
