"""Result files: the output of the cores, on disk until its user has drained it.

Spark may repeat a batch after a failure or a restart: a batch is taken once, by its number. The
results of a batch are a file, written before Spark commits the batch, so that a restart finds the
undrained rows. The file is deleted when its last row is drained. Files end with a seal, and their
numbers have no gaps, so a damaged or lost file is found.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engines.shared.checksums import read_sealed, write_sealed
from penstock.engines.shared.query import Result
from penstock.engines.shared.running_query import Letter
from penstock.engines.spark.core.frames import from_ipc, ipc_buffer, one_batch, ties_in
from penstock.engines.spark.resident.log import MEND, decoded
from penstock.errors import StateError
from penstock.kernels.merging import ranked_order
from penstock.streams.batches import concat, take


@dataclass(frozen=True)
class MergedRows:
    """Rows in order, of one core or of several."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    ties: npt.NDArray[Any]


@dataclass(frozen=True)
class Delivery:
    """A part of a batch for one query: rows, letters, a failure or measures.

    For ``query`` -1 it is the position that a core has come to.
    """

    core: int
    kind: str
    query: int
    position: int
    payload: pa.Buffer

    def rows(self) -> MergedRows:
        """The rows, with their positions and the order within a position."""
        batch = one_batch(from_ipc(self.payload))
        last = batch.num_columns - 2
        positions, found = np.asarray(batch.column(last), np.int64), batch.column(last + 1)
        return MergedRows(batch.select(list(range(last))), positions, ties_in(found))

    def letters(self) -> list[Letter]:
        return [Letter(*letter) for letter in self.json()]

    def json(self) -> Any:
        return json.loads(self.payload.to_pybytes())


Counts = dict[int, list[int]]
"""The numbers of rows and letters, by the number of the query."""


MARK = "drained.json"


@dataclass(frozen=True)
class ResultFiles:
    """The result files in a folder, one per batch. ``owner`` is their checkpoint.

    ``drained.json`` says from which batch on they are needed, and how much of each query's rows and
    letters in them has been drained already; and where the cores were, in case no batch is left.
    """

    folder: Path
    owner: str

    def create(self) -> None:
        """Write the files of an empty folder."""
        self.folder.mkdir(exist_ok=True)
        self.write_mark(0, {}, {})

    def numbers(self) -> list[int]:
        """The numbers of the stored batches."""
        names = [path.stem for path in self.folder.glob("*.arrow")]
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, number: int) -> Path:
        return self.folder / f"{number}.arrow"

    def _place(self, path: Path) -> str:
        return f"{self.owner}/results/{path.name}"

    def write(self, number: int, table: pa.Table) -> None:
        """Write a batch; it is on disk on return."""
        path = self.path(number)
        write_sealed(path, ipc_buffer(table), self._place(path))

    def read(self, number: int) -> pa.Table:
        """Read a batch."""
        path = self.path(number)
        data = read_sealed(path, self._place(path), MEND)
        try:
            return from_ipc(data)
        except pa.ArrowInvalid as error:
            raise StateError(f"{path} holds no batch ({error})", MEND) from error

    def write_mark(self, before: int, skip: Counts, at: dict[int, int]) -> None:
        """Write the mark: the first batch that is needed."""
        path = self.folder / MARK
        mark = {"from": before, "skip": skip, "at": at}
        write_sealed(path, json.dumps(mark).encode(), self._place(path))

    def read_mark(self) -> tuple[int, Counts, dict[int, int]]:
        """Read the mark."""
        path = self.folder / MARK
        saved = decoded(path, read_sealed(path, self._place(path), MEND).to_pybytes())
        try:
            skip = {int(query): [int(n) for n in counts] for query, counts in saved["skip"].items()}
            at = {int(core): int(position) for core, position in saved["at"].items()}
            return int(saved["from"]), skip, at
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"{path} does not say what is drained ({error})", MEND) from error

    def last(self) -> int:
        """The number of the last batch; -1 if there is none."""
        return max((self.read_mark()[0] - 1, *self.numbers()))

    def check_whole(self, least: int) -> None:
        """Check that no batch is missing between the first needed one and the last one.

        ``least`` is known to have come.
        """
        start, there = self.read_mark()[0], set(self.numbers())
        for number in range(start, max([least, *there], default=-1) + 1):
            if number not in there:
                raise StateError(f"{self.path(number)} is missing", MEND)

    def checks(self, least: Callable[[], int]) -> Iterator[Callable[[], object]]:
        """The checks of all files; each raises an error if its file is damaged or gone."""
        yield self.read_mark
        yield lambda: self.check_whole(least())
        yield from (functools.partial(self.read, number) for number in self.numbers())


class Results:
    """The batches that are not completely drained."""

    def __init__(self, files: ResultFiles) -> None:
        self._files = files
        self._from, self.skip, self.at = files.read_mark()
        self.last = files.last()

    def keep(self, number: int, table: pa.Table) -> bool:
        """Store a batch; False if it was stored before."""
        if number <= self.last:
            return False
        if number > self.last + 1:
            raise StateError(
                f"Spark goes on with the batch {number}, and the last one that came is {self.last}",
                "The folder spark of the checkpoint is not of the same time as the rest; put both "
                "back from one copy, or start anew in an empty folder.",
            )
        self._files.write(number, table)
        self.last = number
        return True

    def batches(self, since: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """The stored batches from ``since`` on, oldest first, one at a time in memory."""
        for number in range(max(since, self._from), self.last + 1):
            yield number, self._files.read(number)

    def check_unchanged(self) -> None:
        """Refuse to continue if another engine has used the files since."""
        now = (*self._files.read_mark()[:2], self._files.last())
        if now != (self._from, self.skip, self.last):
            raise StateError(
                f"another engine has gone on with {self._files.folder.parent} since this one was "
                "closed",
                "Drain the queries of that one: it has the rows that were not drained here.",
            )

    def drained(self, before: int, skip: Counts, at: dict[int, int]) -> None:
        """Record that batches below ``before`` are drained, and ``skip`` of the others."""
        if (before, skip) == (self._from, self.skip):
            return
        self._files.write_mark(before, skip, at)
        self._from, self.skip = before, skip
        for number in self._files.numbers():
            if number < before:
                self._files.path(number).unlink(missing_ok=True)


def deliveries(table: pa.Table) -> list[Delivery]:
    """The rows of a batch in the order of their positions."""
    names = ("core", "kind", "query", "position")
    columns = [table.column(name).to_pylist() for name in names]
    payloads = [scalar.as_buffer() for scalar in table.column("payload")]
    found = [Delivery(*row) for row in zip(*columns, payloads, strict=True)]
    return sorted(found, key=lambda one: one.position)


def merged(parts: list[MergedRows]) -> Iterator[Result]:
    """The rows of several cores in the one order: by position, then by the partner's number.

    Only parts whose positions overlap are merged: those that the cores have made of the same slice
    of the input. Rows of one query can have different columns, if it was changed; those made before
    the change have lower positions. A result has one kind of columns.
    """
    for group in _overlapping(parts):
        if len(group) == 1:
            yield Result(group[0].batch, group[0].positions)
        else:
            yield from _interleaved(group)


def _overlapping(parts: list[MergedRows]) -> Iterator[list[MergedRows]]:
    """Groups of parts by position; the positions of one group are all below those of the next."""
    group: list[MergedRows] = []
    last = 0
    for part in sorted(parts, key=lambda part: int(part.positions[0])):
        if group and part.positions[0] > last:
            yield group
            group = []
        group.append(part)
        last = max(last, int(part.positions[-1]))
    if group:
        yield group


def _interleaved(parts: list[MergedRows]) -> Iterator[Result]:
    positions = np.concatenate([part.positions for part in parts])
    order = _order(positions, np.concatenate([part.ties for part in parts]))
    schemas: list[pa.Schema] = []
    tables: list[list[pa.RecordBatch]] = []
    which = np.empty(len(positions), np.int64)
    places = np.empty(len(positions), np.int64)
    start = 0
    for part in parts:
        size = part.batch.num_rows
        if part.batch.schema not in schemas:
            schemas.append(part.batch.schema)
            tables.append([])
        kind = schemas.index(part.batch.schema)
        which[start : start + size] = kind
        places[start : start + size] = np.arange(size) + sum(b.num_rows for b in tables[kind])
        tables[kind].append(part.batch)
        start += size
    whole = [concat(batches) for batches in tables]
    for piece in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        yield Result(take(whole[which[piece[0]]], places[piece]), positions[piece])


def _order(positions: npt.NDArray[np.int64], ties: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The stable order by position, then by what orders the rows of one position.

    The positions are those of a slice of the input, and a position has few rows.
    """
    if ties.dtype == np.int64:
        return ranked_order(positions, ties[np.newaxis])
    return np.lexsort((ties, positions))
