"""From the batches of the Spark query to the handles of the queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.engines.shared.query import Query, Result
from penstock.engines.spark.batch import Batch, open_batch
from penstock.engines.spark.progress import Progress
from penstock.engines.spark.query import Placed
from penstock.engines.spark.results import Counts, Results


@dataclass
class _Batch:
    """What a batch had for each query: given to its handle, and skipped as drained before."""

    number: int
    given: Counts = field(default_factory=dict)
    skipped: Counts = field(default_factory=dict)


class Deliveries:
    """Takes each batch once, keeps it until it is drained, and knows how far the cores are.

    What a handle hands out is noted as drained on disk before its user has it: a row is handed out
    once, across restarts too.
    """

    def __init__(self, folder: Path, handles: Mapping[int, Query[Placed]], cores: int) -> None:
        self._handles = handles
        self._cores = cores
        self._results = Results(folder)
        self.progress = Progress(cores, self._results.at)
        self._given: Counts = {}
        self._batches: list[_Batch] = []
        skip = {query: list(counts) for query, counts in self._results.skip.items()}
        for number, table in self._results.kept():
            self._hand_over(open_batch(number, table, cores), skip)

    @property
    def batches(self) -> int:
        """How many batches have come, over the whole life of the checkpoint."""
        return self._results.last + 1

    def take(self, number: int, table: pa.Table) -> None:
        """Take a batch from Spark; one that has come before is known by its number."""
        if self._results.keep(number, table):
            self._hand_over(open_batch(number, table, self._cores), {})

    def tidy(self) -> None:
        """Note what has been drained, and let go of batches that are wholly drained."""
        with self.progress.lock:
            taken = {number: self._taken(number) for number in self._given}
            while self._batches and _covers(taken, self._batches[0].given):
                done = self._batches.pop(0)
                for number, counts in done.given.items():
                    for i in (0, 1):
                        taken[number][i] -= counts[i]
                        self._given[number][i] -= counts[i]
            before = self._batches[0].number if self._batches else self._results.last + 1
            for batch in self._batches:
                for number, counts in batch.skipped.items():
                    known = taken.setdefault(number, [0, 0])
                    taken[number] = [known[0] + counts[0], known[1] + counts[1]]
            skip = {number: counts for number, counts in taken.items() if any(counts)}
            self._results.drained(before, skip, self.progress.at)

    def _taken(self, number: int) -> list[int]:
        """How many of the rows and letters it was given a handle has handed out."""
        query, given = self._handles[number], self._given[number]
        return [given[0] - query._waiting_rows, given[1] - query._waiting_letters]

    def _hand_over(self, made: Batch, skip: Counts) -> None:
        """Give each query its part; those that are forgotten (dropped, drained) get nothing."""
        batch = _Batch(made.number)
        with self.progress.lock:
            self._batches.append(batch)
            for number in sorted({*made.rows, *made.letters, *made.failures}):
                query = self._handles.get(number)
                if query is None:
                    continue
                letters = made.letters.get(number, [])
                if letters:
                    gone = self._count(number, 1, len(letters), batch, skip)
                    query._take_letters(letters[gone:])
                for result in made.rows.get(number, []):
                    self._give_rows(number, result, batch, skip)
                query.failure = made.failures.get(number, query.failure)
            for number, core, measures in made.measures:
                if number in self._handles:
                    self._handles[number].pipeline.told(core, measures)
            self.progress.moved(made.at)

    def _give_rows(self, query: int, result: Result, batch: _Batch, skip: Counts) -> None:
        size = result.batch.num_rows
        gone = self._count(query, 0, size, batch, skip)
        if gone < size:
            left = Result(result.batch.slice(gone), result.positions[gone:])
            self._handles[query]._take_result(left)

    def _count(self, query: int, kind: int, size: int, batch: _Batch, skip: Counts) -> int:
        """Note what is given and what is skipped; returns how much is skipped."""
        gone = min(size, skip.get(query, [0, 0])[kind])
        if gone:
            skip[query][kind] -= gone
            batch.skipped.setdefault(query, [0, 0])[kind] += gone
        batch.given.setdefault(query, [0, 0])[kind] += size - gone
        self._given.setdefault(query, [0, 0])[kind] += size - gone
        return gone


def _covers(taken: Counts, given: Counts) -> bool:
    return all(taken[n][i] >= counts[i] for n, counts in given.items() for i in (0, 1))
