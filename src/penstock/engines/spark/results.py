"""What the cores made, on its way to the handles: kept on disk until somebody has drained it.

Spark may hand over a batch again, after a failure or a restart: a batch is taken once, by its
number. The results of a batch are a file, written before Spark commits the batch, so that a
restart finds what nobody had drained. It goes when its last row has been drained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engines.shared.query import Result
from penstock.engines.shared.running import Letter
from penstock.engines.spark.frames import from_ipc, ipc, one_batch
from penstock.engines.spark.log import write_safely
from penstock.streams.batches import concat, take


@dataclass(frozen=True)
class MergedRows:
    """Rows in order, of one core or of several."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    ties: npt.NDArray[Any]


@dataclass(frozen=True)
class Delivery:
    """Something for one query: rows, letters, a failure or its measures.

    For ``query`` -1 it is the position that a core has come to.
    """

    core: int
    kind: str
    query: int
    position: int
    payload: bytes

    def rows(self) -> MergedRows:
        """The rows, with their positions and what orders those of one position."""
        batch = one_batch(from_ipc(self.payload))
        last = batch.num_columns - 2
        positions, found = np.asarray(batch.column(last), np.int64), batch.column(last + 1)
        codes = pa.types.is_binary(found.type)
        ties = np.array(found.to_pylist(), "S") if codes else np.asarray(found, np.int64)
        return MergedRows(batch.select(list(range(last))), positions, ties)

    def letters(self) -> list[Letter]:
        return [Letter(*letter) for letter in json.loads(self.payload)]

    def json(self) -> Any:
        return json.loads(self.payload)


Counts = dict[int, list[int]]
"""How many rows and how many letters, by the number of the query."""


class Results:
    """The batches that have come and are not wholly drained.

    ``drained.json`` says from which batch on they are needed, and how much of each query's rows and
    letters in them has been drained already; and where the cores were, in case no batch is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = folder / "drained.json"
        self._from, self.skip = 0, Counts()
        self.at: dict[int, int] = {}
        if self._mark.exists():
            saved = json.loads(self._mark.read_text())
            self._from = saved["from"]
            self.skip = {int(query): counts for query, counts in saved["skip"].items()}
            self.at = {int(core): position for core, position in saved["at"].items()}
        self.last = max((self._from - 1, *self._numbers()))

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.arrow"))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"

    def keep(self, number: int, table: pa.Table) -> bool:
        """Keep a batch; False if it has been kept before."""
        if number <= self.last:
            return False
        write_safely(self._path(number), ipc(table))
        self.last = number
        return True

    def kept(self, since: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """The batches there are from ``since`` on, oldest first, one at a time in memory."""
        for number in self._numbers():
            if number >= max(since, self._from):
                yield number, from_ipc(self._path(number).read_bytes())

    def drained(self, before: int, skip: Counts, at: dict[int, int]) -> None:
        """Batches below ``before`` are needed no more, and of the others ``skip`` is drained."""
        if (before, skip) == (self._from, self.skip):
            return
        mark = {"from": before, "skip": skip, "at": at}
        write_safely(self._mark, json.dumps(mark).encode())
        self._from, self.skip = before, skip
        for number in self._numbers():
            if number < before:
                self._path(number).unlink(missing_ok=True)


def deliveries(table: pa.Table) -> list[Delivery]:
    """The rows of a batch in the order of their positions."""
    names = ("core", "kind", "query", "position", "payload")
    columns = [table.column(name).to_pylist() for name in names]
    found = [Delivery(*row) for row in zip(*columns, strict=True)]
    return sorted(found, key=lambda one: one.position)


def merged(parts: list[MergedRows]) -> Iterator[Result]:
    """The rows of several cores in the one order: by position, then by the partner's number.

    Rows of one query can have different columns, if it was changed; those made before the change
    have lower positions. A result has one kind of columns.
    """
    if len(parts) == 1:
        yield Result(parts[0].batch, parts[0].positions)
        return
    positions = np.concatenate([part.positions for part in parts])
    order = np.lexsort((np.concatenate([part.ties for part in parts]), positions))
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
