"""Rows of a query that were made a few at a time, until somebody wants them as a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.buffer import Buffer
from penstock.blocks.fixed_column import FixedColumn

Source = tuple[FixedColumn | None, int]
"""Where an output column comes from: a stored column, or the arriving tuple's column (None)."""


class LooseRows:
    """Rows of columns of fixed width, with their positions."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns = [FixedColumn(field.type) for field in schema]
        self._positions = Buffer(np.dtype(np.int64))

    def __len__(self) -> int:
        return len(self._positions)

    def add(
        self,
        position: int,
        values: Sequence[object],
        partners: npt.NDArray[np.int64],
        sources: Sequence[Source],
    ) -> None:
        """Add a row for each partner of a tuple that has these values."""
        self._positions.repeat(position, len(partners))
        for column, (stored, index) in zip(self._columns, sources, strict=True):
            if stored is None:
                column.repeat(values[index], len(partners))
            else:
                column.extend(stored, partners)

    def batch(self) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The rows and their positions; they share memory with this, so add nothing after it."""
        arrays = [column.slice(0, len(self)) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), self._positions.view()
