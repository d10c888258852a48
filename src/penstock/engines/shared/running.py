"""What the engines' common code asks of a query, whoever keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.blocks.run import Letters, Run
from penstock.engines.shared.pipeline import Pipeline
from penstock.errors import QueryFailed
from penstock.program.blocks import Program
from penstock.program.flow_choice import FlowChoice
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


class Known(Protocol):
    """A query as a registry knows it."""

    name: str
    derived: bool
    order: str | None
    kernel: str | None
    flow: FlowChoice

    @property
    def program(self) -> Program: ...

    @property
    def schema(self) -> pa.Schema: ...


class Running(Known, Protocol):
    """A query whose blocks are here, or would be: ``here`` is False where another core has them."""

    here: bool
    failure: QueryFailed | None
    pipeline: Pipeline

    @property
    def undrained(self) -> int:
        """How much of its output nobody has taken."""

    def _take_run(self, run: Run) -> None:
        """Rows that it has made."""

    def _take_letters(self, letters: Iterable[Letter | Letters]) -> None:
        """Tuples that it could not take."""

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        """Records that are no tuples."""

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        """The input that it takes, in parts: all of it at once, unless it sheds some."""

    def _is_full(self) -> bool:
        """Whether somebody has to take its output before it makes more."""

    def _saw(self, stream: str, tuples: int) -> None:
        """Count the tuples of a stream that reach it."""

    def _retire(self) -> None:
        """It has been dropped."""


def count(letter: Letter | Letters) -> int:
    """How many tuples the letter has."""
    return len(letter.positions) if isinstance(letter, Letters) else 1


def written(letter: Letter | Letters) -> list[Letter]:
    """One letter per tuple, with the tuple as text."""
    if isinstance(letter, Letter):
        return [letter]
    rows = zip(
        letter.positions.tolist(), format_rows(plain(letter.batch)), letter.reasons, strict=True
    )
    return [Letter(letter.kind, position, letter.stream, text, why) for position, text, why in rows]
