"""Batches that stay on disk as they came, for a run that reads them from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.engines.spark.batch import Batch, open_batch, positions_in
from penstock.engines.spark.progress import Progress
from penstock.engines.spark.results import Results


class Keeping:
    """Takes each batch once and keeps it until it is forgotten; memory holds none of its rows.

    Stands in for :class:`penstock.engines.spark.delivery.Deliveries` where one reader takes the
    rows of all queries. It can read them again, from the first batch on, after a restart too.
    """

    def __init__(self, folder: Path, cores: int) -> None:
        self._cores = cores
        self._results = Results(folder)
        self.progress = Progress(cores, self._results.at)
        for _, table in self._results.kept():
            self.progress.moved(positions_in(table))

    @property
    def batches(self) -> int:
        """How many batches have come, over the whole life of the checkpoint."""
        return self._results.last + 1

    def take(self, number: int, table: pa.Table) -> None:
        """Take a batch from Spark; one that has come before is known by its number."""
        if self._results.keep(number, table):
            self.progress.moved(positions_in(table))

    def opened(self, since: int) -> Iterator[Batch]:
        """The batches from ``since`` on that have come by now."""
        for number, table in self._results.kept(since):
            yield open_batch(number, table, self._cores)

    def forget(self, before: int) -> None:
        """Batches below ``before`` are needed no more."""
        self._results.drained(before, {}, self.progress.at)

    def tidy(self) -> None:
        """Nothing is handed to handles, so nothing is drained from them."""
