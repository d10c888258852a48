"""The counts of a run, and its late tuples and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.cli.run.setup import RESULT
from penstock.engines.shared.running_query import LETTERS as QUERY_LETTERS
from penstock.engines.shared.running_query import Letter, letter_batch

SHOWN_LETTERS = 10
SHARED = ("core", "stored", "probed", "matched")
"""The metrics of every core in ``--summary``, which show how the work was shared."""


@dataclass
class Summary:
    """The counts of a run. :meth:`as_json` has the keys of ``--summary``."""

    engine: str
    kernel: str | None
    flow: str | None
    design: str | None
    tuples_in: int = 0
    rows_out: int = 0
    late: int = 0
    dead_letters: int = 0
    shed: int = 0
    expression_failures: int = 0
    cores: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    tuples_before: int = 0
    batches: int | None = None
    spark_version: str | None = None
    letters: list[RunLetter] = field(default_factory=list)

    def revise_design(self, said: Sequence[str]) -> None:
        """Take the design in use from the ``designs`` of ``metrics()``, if there are any."""
        if said:
            self.design = said[0].removeprefix("design ").partition(":")[0]

    @property
    def tuples_per_second(self) -> float | None:
        """The rate; None if the run continued a checkpoint: some tuples were processed before."""
        if self.tuples_before or not self.seconds:
            return None
        return self.tuples_in / self.seconds

    def count(self, letters: Iterable[RunLetter]) -> None:
        """Count letters, and keep the first few to show."""
        for found in letters:
            if found.letter.kind == "late":
                self.late += 1
            else:
                self.dead_letters += 1
            if len(self.letters) < SHOWN_LETTERS:
                self.letters.append(found)

    def as_json(self) -> dict[str, object]:
        """The counts, without the letters."""
        spark = {"batches": self.batches, "spark_version": self.spark_version}
        return {
            "engine": self.engine,
            "kernel": self.kernel,
            "flow": self.flow,
            "design": self.design,
            "cores": [{name: core.get(name) for name in SHARED} for core in self.cores],
            "tuples_in": self.tuples_in,
            "rows_out": self.rows_out,
            "late": self.late,
            "dead_letters": self.dead_letters,
            "shed": self.shed,
            "expression_failures": self.expression_failures,
            "seconds": self.seconds,
            "tuples_per_second": self.tuples_per_second,
            **(spark if self.spark_version is not None else {}),
        }


@dataclass(frozen=True)
class RunLetter:
    """A letter of ``query``: the name of a derived stream, or ``RESULT`` for the SELECT itself.

    As text it is a line as in ``penstock replay``, without a name for the SELECT, which has none.
    """

    query: str
    letter: Letter

    def __str__(self) -> str:
        letter = self.letter
        derived = "" if self.query == RESULT else f"{self.query}: "
        reason = f" ({letter.reason})" if letter.reason else ""
        return f"{letter.kind} {derived}{letter.stream}: {letter.text}{reason}"


@dataclass(frozen=True)
class Sinks:
    """Where the rows and letters of a run go, and are counted, and its progress in tuples."""

    summary: Summary
    write: Callable[[pa.RecordBatch], None]
    write_letters: Callable[[list[RunLetter]], None]
    progress: Callable[[int], None]

    def take_rows(self, batch: pa.RecordBatch) -> None:
        """Write and count rows."""
        self.summary.rows_out += batch.num_rows
        self.write(batch)

    def take_letters(self, letters: list[RunLetter]) -> None:
        """Write and count letters."""
        self.write_letters(letters)
        self.summary.count(letters)


_QUERY = pa.field("query", pa.string())
LETTERS = QUERY_LETTERS.insert(1, _QUERY)
"""The columns of ``--letters``."""


def letters_batch(letters: Sequence[RunLetter]) -> pa.RecordBatch:
    """The rows of ``--letters``."""
    queries = pa.array([one.query for one in letters], _QUERY.type)
    return letter_batch([one.letter for one in letters]).add_column(1, _QUERY, queries)
