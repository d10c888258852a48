"""The tuples of a window as they arrived, addressed by their sequence number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.batch_store import BatchStore
from penstock.blocks.fixed_column import FixedColumn, has_fixed_width
from penstock.streams.batches import no_rows, only, without_columns

PIECE = 65_536
"""Rows per batch when everything is asked for, so that what is computed of it stays small."""

MOST_LOOSE = 1024
"""Texts of single tuples that may wait to be put into an Arrow batch."""


class RowStore:
    """Whole tuples ``first .. next - 1`` of one stream.

    Columns of numbers and times are contiguous, so that tuples are gathered by one loop per
    column; strings and the like stay in the Arrow batches they came in.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.span: npt.NDArray[np.int64] = np.zeros(2, np.int64)
        """The first sequence number held, and the next; compiled code moves these too."""
        self.fixed = {
            index: FixedColumn(field.type)
            for index, field in enumerate(schema)
            if has_fixed_width(field.type)
        }
        self._others = [index for index in range(len(schema)) if index not in self.fixed]
        self._batches = BatchStore(pa.schema([schema.field(index) for index in self._others]))

    def __len__(self) -> int:
        return self.next - self.first

    @property
    def first(self) -> int:
        """The sequence number of the oldest tuple held."""
        return int(self.span[0])

    @property
    def next(self) -> int:
        """The sequence number that the next tuple will have."""
        return int(self.span[1])

    @property
    def nbytes(self) -> int:
        return self._batches.nbytes + sum(column.nbytes for column in self.fixed.values())

    def start_at(self, seq: int) -> None:
        """Let an empty store give its first tuple this sequence number."""
        self.span[:] = self._batches.first = self._batches.next = seq

    def append(self, batch: pa.RecordBatch) -> None:
        """Add tuples; they get the next sequence numbers."""
        for index, column in self.fixed.items():
            column.append(batch.column(index))
        if self._others:
            self._batches.append(only(batch, self._others))
        self.span[1] += batch.num_rows

    @property
    def texts(self) -> Sequence[int]:
        """The columns that are not in :attr:`fixed`."""
        return self._others

    def append_texts(self, values: Sequence[Any]) -> None:
        """Add the rest of a tuple whose other columns compiled code has stored: its texts."""
        self._batches.append_row([values[index] for index in self._others])
        if self._batches.loose >= MOST_LOOSE:
            self._batches.drop_before(self.first)

    def texts_at(self, indices: npt.NDArray[np.int64], column: int) -> list[object]:
        """A column of texts of the tuples that stand at these places, as Python values."""
        return self._batches.values(indices + self.first, self._others.index(column))

    def drop_before(self, seq: int) -> None:
        """Forget tuples below ``seq``."""
        first = max(self.first, min(seq, self.next))
        for column in self.fixed.values():
            column.drop(first - self.first)
        self._batches.drop_before(first)
        self.span[0] = first

    def fit(self) -> None:
        """Give back memory that what is held does not need."""
        for column in self.fixed.values():
            column.fit()

    def take(
        self, seqs: npt.NDArray[np.int64], columns: Sequence[int], padded: bool = False
    ) -> pa.RecordBatch:
        """The given columns of the given tuples. ``padded``: -1 stands for a row of NULLs."""
        schema = pa.schema([self.schema.field(c) for c in columns])
        if not columns:
            return without_columns(len(seqs))
        if not len(seqs):
            return no_rows(schema)
        padding = seqs < 0 if padded else None
        if padding is not None and padding.all():
            return _nulls(schema, len(seqs))
        indices = seqs - self.first
        if padding is not None:
            indices[padding] = 0
        others = [c for c in columns if c not in self.fixed]
        texts: Any = None
        if others:
            texts = self._batches.take(seqs, [self._others.index(c) for c in others], padded)
        arrays = [
            self.fixed[c].take(indices, padding)
            if c in self.fixed
            else texts.column(others.index(c))
            for c in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def batches(self) -> list[pa.RecordBatch]:
        """Everything that is held, oldest first; good until the next change."""
        if not len(self):
            return []
        if not self._others:
            return [self._piece(i, min(i + PIECE, len(self))) for i in range(0, len(self), PIECE)]
        self._batches.drop_before(self.first)
        made, start = [], 0
        for texts in self._batches.batches():
            made.append(self._piece(start, start + texts.num_rows, texts))
            start += texts.num_rows
        return made

    def _piece(self, start: int, stop: int, texts: pa.RecordBatch | None = None) -> pa.RecordBatch:
        arrays: list[Any] = [
            self.fixed[index].slice(start, stop)
            if texts is None or index in self.fixed
            else texts.column(self._others.index(index))
            for index in range(len(self.schema))
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)
