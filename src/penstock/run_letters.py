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


def letters_schema() -> pa.Schema:
    """The columns of ``--letters``."""
    from penstock.engines.shared.running import LETTERS

    return LETTERS.insert(1, pa.field("query", pa.string()))


def letters_batch(letters: Sequence[RunLetter]) -> pa.RecordBatch:
    """The rows of ``--letters``."""
    from penstock.engines.shared.running import letter_batch

    plain = letter_batch([found.letter for found in letters])
    queries = pa.array([found.query for found in letters], pa.string())
    columns = [plain.column(0), queries, *plain.columns[1:]]
    return pa.RecordBatch.from_arrays(columns, schema=letters_schema())
