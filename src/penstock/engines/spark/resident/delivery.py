"""Delivery: from the batches of the Spark query to the handles of the queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engines.shared.query import Query, Result
from penstock.engines.spark.core.output_batch import Batch, open_batch, positions_in
from penstock.engines.spark.resident.query import RemoteBlocks
from penstock.engines.spark.resident.result_files import Counts, ResultFiles, Results


class Progress:
    """The position of each core. ``lock`` is held while a batch is taken.

    Waiting uses a bare lock: one of Python's conditions stays locked if an interrupt comes in the
    middle of it.
    """

    def __init__(self, cores: int, at: Mapping[int, int]) -> None:
        self.lock = threading.RLock()
        self._cores = cores
        self._waiting: list[threading.Lock] = []
        self.at = dict(at)

    @property
    def position(self) -> int:
        """The position up to which all cores have processed the input."""
        return min(self.at.values()) if len(self.at) == self._cores else 0

    def moved(self, at: Mapping[int, int]) -> None:
        """Record new positions of cores."""
        with self.lock:
            self.at = {**self.at, **at}
            waiting, self._waiting = self._waiting, []
        for gate in waiting:
            gate.release()

    def wait_for(self, position: int, seconds: float) -> bool:
        """Wait until all cores are at ``position``; False if that takes longer."""
        until = time.monotonic() + seconds
        while self.position < position:
            gate = threading.Lock()
            gate.acquire()
            with self.lock:
                self._waiting.append(gate)
                if self.position >= position:
                    return True
            left = until - time.monotonic()
            if left <= 0 or not gate.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
                return self.position >= position
        return True


@dataclass
class _Batch:
    """The rows and letters of a batch by query: given to its handle, or drained before."""

    number: int
    given: Counts = field(default_factory=dict)
    skipped: Counts = field(default_factory=dict)


class Deliveries:
    """Takes each batch once, stores it until it is drained, and tracks the progress of the cores.

    Rows are recorded as drained on disk before the user gets them: a row is handed out once, across
    restarts too.
    """

    def __init__(
        self, files: ResultFiles, handles: Mapping[int, Query[RemoteBlocks]], cores: int
    ) -> None:
        self._handles = handles
        self._cores = cores
        self._results = Results(files)
        self.progress = Progress(cores, self._results.at)
        self._given: Counts = {}
        self._batches: list[_Batch] = []
        skip = {query: list(counts) for query, counts in self._results.skip.items()}
        for number, table in self._results.batches():
            self._hand_over(open_batch(number, table, cores), skip)

    @property
    def batches(self) -> int:
        """The number of batches over the whole life of the checkpoint."""
        return self._results.last + 1

    def take(self, number: int, table: pa.Table) -> None:
        """Take a batch from Spark; a repeated one is recognised by its number."""
        if self._results.keep(number, table):
            self._hand_over(open_batch(number, table, self._cores), {})

    def check_unchanged(self) -> None:
        """Refuse to continue if another engine has used the results since."""
        self._results.check_unchanged()

    def tidy(self) -> None:
        """Record drained rows, and delete batches that are completely drained."""
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
        """The number of rows and letters that a handle has handed out."""
        query, given = self._handles[number], self._given[number]
        return [given[0] - query._waiting_rows, given[1] - query._waiting_letters]

    def _hand_over(self, made: Batch, skip: Counts) -> None:
        """Give each query its part of a batch, except removed ones (dropped, drained)."""
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
                    self._handles[number].pipeline.report(core, measures)
            self.progress.moved(made.at)

    def _give_rows(self, query: int, result: Result, batch: _Batch, skip: Counts) -> None:
        size = result.batch.num_rows
        gone = self._count(query, 0, size, batch, skip)
        if gone < size:
            left = Result(result.batch.slice(gone), result.positions[gone:])
            self._handles[query]._take_result(left)

    def _count(self, query: int, kind: int, size: int, batch: _Batch, skip: Counts) -> int:
        """Record the given and the skipped counts; returns the skipped count."""
        gone = min(size, skip.get(query, [0, 0])[kind])
        if gone:
            skip[query][kind] -= gone
            batch.skipped.setdefault(query, [0, 0])[kind] += gone
        batch.given.setdefault(query, [0, 0])[kind] += size - gone
        self._given.setdefault(query, [0, 0])[kind] += size - gone
        return gone


def _covers(taken: Counts, given: Counts) -> bool:
    return all(taken[n][i] >= counts[i] for n, counts in given.items() for i in (0, 1))


class StoredBatches:
    """Takes each batch once and stores it on disk until it is deleted; no rows in memory.

    Stands in for :class:`Deliveries` where one reader takes the rows of all queries. The reader can
    read them again, from the first batch on, after a restart too.
    """

    def __init__(self, files: ResultFiles, cores: int) -> None:
        self._cores = cores
        self._results = Results(files)
        self.progress = Progress(cores, self._results.at)
        for _, table in self._results.batches():
            self.progress.moved(positions_in(table))

    @property
    def batches(self) -> int:
        """The number of batches over the whole life of the checkpoint."""
        return self._results.last + 1

    def take(self, number: int, table: pa.Table) -> None:
        """Take a batch from Spark; a repeated one is recognised by its number."""
        if self._results.keep(number, table):
            self.progress.moved(positions_in(table))

    def opened(self, since: int) -> Iterator[Batch]:
        """The batches from ``since`` on."""
        for number, table in self._results.batches(since):
            yield open_batch(number, table, self._cores)

    def forget(self, before: int) -> None:
        """Delete the batches below ``before``."""
        self._results.drained(before, {}, self.progress.at)

    def check_unchanged(self) -> None:
        """Nothing to check: no handle drains these batches."""

    def tidy(self) -> None:
        """Nothing to record: no handle drains these batches."""
