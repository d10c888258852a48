"""The late tuples and dead letters of a run, each with the query that could not take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.run_setup import RESULT

if TYPE_CHECKING:
    from penstock.engines.shared.running import Letter


@dataclass(frozen=True)
class RunLetter:
    """A letter of ``query``: the name of a derived stream, or ``RESULT`` for the SELECT itself.

    As text it is a line as of ``penstock replay``, without the name of the SELECT, which has none.
    """

    query: str
    letter: Letter

    def __str__(self) -> str:
        letter = self.letter
        derived = "" if self.query == RESULT else f"{self.query}: "
        reason = f" ({letter.reason})" if letter.reason else ""
        return f"{letter.kind} {derived}{letter.stream}: {letter.text}{reason}"


WriteLetters = Callable[[list[RunLetter]], None]


_FIELDS: list[tuple[str, pa.DataType]] = [
    ("kind", pa.string()),
    ("query", pa.string()),
    ("stream", pa.string()),
    ("position", pa.int64()),
    ("reason", pa.string()),
    ("tuple", pa.string()),
]
LETTERS = pa.schema(_FIELDS)
"""The columns of ``--letters``."""


def letters_batch(letters: Sequence[RunLetter]) -> pa.RecordBatch:
    """The rows of ``--letters``."""
    rows = [
        (one.letter.kind, one.query, one.letter.stream, one.letter.position, one.letter.reason,
         one.letter.text)
        for one in letters
    ]  # fmt: skip
    columns = [[row[place] for row in rows] for place in range(len(LETTERS))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LETTERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LETTERS)
