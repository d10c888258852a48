"""Runs of tuples with their positions, and the controls between them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.streams.batches import concat, no_rows, plain, take_known

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnPunctuation:
    """A punctuation: from ``position`` on, a column is never below ``value`` (physical).

    ``column`` None: whatever column a window is on. After a join, ``side`` is the column's side.
    """

    position: int
    column: int | None
    value: object
    side: int = 0


@dataclass(frozen=True)
class EndOfStream:
    """The stream has no tuples after ``position``."""

    position: int


Control = ColumnPunctuation | EndOfStream


@dataclass(frozen=True)
class Letters:
    """Tuples that a query could not take: late ones, and dead ones. One reason each."""

    kind: str
    stream: str
    batch: pa.RecordBatch
    positions: Positions
    reasons: Sequence[str]


@dataclass(frozen=True)
class MissedTuples:
    """Tuples that a query could not take and that were folded before they came: their number."""

    kind: str
    count: int


@dataclass(frozen=True)
class Share:
    """The part of a block's work that one of ``cores`` blocks does, the ``core``-th of them."""

    core: int
    cores: int

    def owns(self, numbers: Positions) -> npt.NDArray[np.bool_]:
        """Which of the tuples with these numbers this core stores; every other core skips them."""
        owned: npt.NDArray[np.bool_] = numbers % self.cores == self.core
        return owned

    def before(self, numbers: Positions) -> Positions:
        """How many tuples this core stores of those numbered below each of these.

        >>> Share(1, 3).before(np.arange(6)).tolist()
        [0, 0, 1, 1, 1, 2]
        """
        counts: Positions = (numbers + (self.cores - 1 - self.core)) // self.cores
        return counts


@dataclass(frozen=True)
class Run:
    """Rows in arrival order, with the controls between them.

    Parameters
    ----------
    inputs
        The columns, as one batch per side: one for a stream, two after a join (whose rows have a
        left and a right part). All of the same length.
    at
        The position in the engine's input that each row belongs to; never falling.
    controls
        Punctuations and the end, by position. At one position they come after the rows.
    ties
        Where several blocks share the work of one: what orders the rows of one position among all
        of them: numbers, or bytes. None where a block has its work for itself.
    """

    inputs: tuple[pa.RecordBatch, ...]
    at: Positions | range
    controls: tuple[Control, ...] = ()
    ties: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.at)

    @functools.cached_property
    def positions(self) -> Positions:
        """The position of each row; those that follow one another are counted when asked for."""
        if isinstance(self.at, range):
            return np.arange(self.at.start, self.at.stop, dtype=np.int64)
        return self.at

    def positions_of(self, rows: Positions) -> Positions:
        """The positions of some rows."""
        return self.at.start + rows if isinstance(self.at, range) else self.at[rows]

    def after(self, count: int) -> Run:
        """The run without its first rows."""
        inputs = tuple(batch.slice(count) for batch in self.inputs)
        return replace(self, inputs=inputs, at=self.positions[count:])

    def take(self, rows: Positions) -> Run:
        """The run with these of its rows, in this order; that it has them is not checked."""
        inputs = tuple([take_known(batch, rows) for batch in self.inputs])
        ties = None if self.ties is None else self.ties.take(rows)
        return Run(inputs, self.positions_of(rows), self.controls, ties)

    def slice(self, start: int, stop: int) -> Run:
        """The run with the rows from one place to before another, not copied."""
        inputs = tuple([batch.slice(start, stop - start) for batch in self.inputs])
        ties = None if self.ties is None else self.ties[start:stop]
        return Run(inputs, self.at[start:stop], self.controls, ties)

    @property
    def plain(self) -> Run:
        """The run without dictionary-encoded columns, which few blocks use."""
        decoded = self._decoded
        return self if decoded is None else decoded

    @functools.cached_property
    def _decoded(self) -> Run | None:
        """The run with decoded columns; None if none is encoded.

        None and not the run itself: a run that refers to itself would wait for the collector of
        garbage, with all its columns.
        """
        decoded = tuple(plain(batch) for batch in self.inputs)
        same = all(new is old for new, old in zip(decoded, self.inputs, strict=True))
        return None if same else replace(self, inputs=decoded)


@functools.lru_cache(maxsize=1024)
def empty_run(schema: pa.Schema) -> Run:
    """A run without rows."""
    return Run((no_rows(schema),), np.empty(0, np.int64))


def concatenate(runs: Sequence[Run]) -> Run:
    """Runs of one stream, one after another, as one."""
    if len(runs) == 1:
        return runs[0]
    sides = zip(*(run.inputs for run in runs), strict=True)
    return Run(
        tuple(concat(batches) for batches in sides),
        np.concatenate([run.positions for run in runs]),
        tuple(control for run in runs for control in run.controls),
    )
