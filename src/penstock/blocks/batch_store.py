"""Columns of strings and the like, as Arrow batches addressed by sequence number."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.streams.batches import concat, no_rows, only, take, without_columns

FULL = 32_768
"""Batches smaller than this are merged as more arrive, so that single tuples do not pile up."""


class BatchStore:
    """Tuples ``first .. next - 1``, of columns whose values take different numbers of bytes.

    They are kept as Arrow batches, without copying. Small batches are merged the way a binary
    counter carries, so a tuple is copied a logarithmic number of times however it arrives. Tuples
    that come one by one wait as Python values until there are enough, or somebody wants them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.first = 0
        self.next = 0
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._loose: list[Sequence[str | bytes]] = []

    @property
    def nbytes(self) -> int:
        """The memory of the batches, and about what the tuples in none will take there.

        May be asked for while another thread appends: nothing is changed.
        """
        loose = sum(len(value) + 4 for row in tuple(self._loose) for value in row)
        return loose + sum(batch.nbytes for batch in self._batches)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add tuples; they get the next sequence numbers."""
        self._gather()
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._starts.append(self.next)
        self.next += batch.num_rows
        while len(self._batches) > 1:
            last, before = self._batches[-1], self._batches[-2]
            if last.num_rows < before.num_rows or before.num_rows >= FULL:
                break
            self._batches[-2:] = [concat([before, last])]
            self._starts.pop()

    def append_row(self, values: Sequence[str | bytes]) -> None:
        """Add one tuple, without NULLs."""
        self._loose.append(values)

    @property
    def loose(self) -> int:
        """How many tuples have come one by one and are in no batch yet."""
        return len(self._loose)

    def _gather(self) -> None:
        if self._loose:
            rows, self._loose = self._loose, []
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
            self.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def values(self, seqs: npt.NDArray[np.int64], column: int) -> list[object]:
        """One column of the given tuples as Python values; cheaper than :meth:`take` for a few."""
        found = []
        for seq in seqs.tolist():
            if seq >= self.next:
                found.append(self._loose[seq - self.next][column])
            else:
                number = bisect.bisect_right(self._starts, seq) - 1
                scalar = self._batches[number].column(column)[seq - self._starts[number]]
                found.append(scalar.as_py())
        return found

    def drop_before(self, seq: int) -> None:
        """Forget tuples below ``seq``; memory goes once a whole batch is forgotten."""
        self._gather()
        self.first = max(self.first, min(seq, self.next))
        gone = bisect.bisect_right(self._starts, self.first) - 1
        if self.first == self.next:
            gone = len(self._batches)
        if gone > 0:
            del self._batches[:gone], self._starts[:gone]

    def take(
        self, seqs: npt.NDArray[np.int64], columns: Sequence[int], padded: bool = False
    ) -> pa.RecordBatch:
        """The given columns of the given tuples. ``padded``: -1 stands for a row of NULLs."""
        schema = pa.schema([self.schema.field(c) for c in columns])
        if not columns:
            return without_columns(len(seqs))
        if not len(seqs):
            return no_rows(schema)
        self._gather()
        pieces, order = self._pieces(seqs, columns, schema, padded)
        if len(pieces) == 1 and order is None:
            return pieces[0]
        joined = concat(pieces)
        return take(joined, order) if order is not None else joined

    def _pieces(
        self,
        seqs: npt.NDArray[np.int64],
        columns: Sequence[int],
        schema: pa.Schema,
        padded: bool,
    ) -> tuple[list[pa.RecordBatch], npt.NDArray[np.int64] | None]:
        """What to take from each batch, and how to put the pieces back into the order asked for."""
        starts = np.asarray(self._starts, dtype=np.int64)
        where = np.searchsorted(starts, seqs, side="right") - 1
        if padded:
            where = np.where(seqs < 0, -1, where)
        # A stable sort of small numbers is a radix sort, many times faster.
        small = where.astype(np.int16) if len(starts) < 32_768 else where
        order = np.argsort(small, kind="stable")
        sorted_where = where[order]
        cuts = np.flatnonzero(np.diff(sorted_where)) + 1
        pieces = []
        for part in np.split(order, cuts):
            number = int(where[part[0]])
            if number < 0:
                nulls = [pa.nulls(len(part), f.type) for f in schema]
                pieces.append(pa.RecordBatch.from_arrays(nulls, schema=schema))
                continue
            source = only(self._batches[number], columns)
            pieces.append(take(source, seqs[part] - self._starts[number]))
        if len(pieces) == 1:
            return pieces, None
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return pieces, inverse

    def batches(self) -> list[pa.RecordBatch]:
        """Everything that is held, oldest first."""
        self._gather()
        if not self._batches:
            return []
        head = self._batches[0].slice(self.first - self._starts[0])
        return [head, *self._batches[1:]]
