"""Rows of single-tuple pushes, until they are read as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.window.stored_columns import Buffer, FixedColumn, RowStore, has_fixed_width


@dataclass(frozen=True)
class ColumnSource:
    """Where an output column comes from.

    Parameters
    ----------
    partner
        Where the partner of an arriving tuple is stored; None if it is that tuple's own column.
    index
        The column, in its stream.
    place
        Where the numbers of these partners are among those of all inputs' partners.
    """

    partner: RowStore | None
    index: int
    place: int = 0


ColumnSources = tuple[Sequence[ColumnSource], ...]
"""Where the columns of rows come from, one sequence per side."""


class LooseRows:
    """Rows with their positions. Texts are Python values, everything else is in buffers.

    ``count`` says how many there are. Columns may be longer, ``ragged``, where adding a row was
    interrupted, or after the rows were taken: then they are cut before the next row is added.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns: list[FixedColumn | list[object]] = [
            FixedColumn(field.type) if has_fixed_width(field.type) else [] for field in schema
        ]
        self._positions = Buffer(np.dtype(np.int64))
        self.count = 0
        self.ragged = False

    def __len__(self) -> int:
        return self.count

    def add(
        self,
        position: int,
        rows: int,
        values: Sequence[object],
        partners: Sequence[npt.NDArray[np.int64]],
        sources: Sequence[ColumnSource],
    ) -> None:
        """Add rows of a tuple that has these physical values.

        ``partners`` has, for each other input, the partner of each row.
        """
        if self.ragged:
            self._cut()
        self.ragged = True
        self._positions.repeat(position, rows)
        for column, source in zip(self._columns, sources, strict=True):
            if isinstance(column, list):
                if source.partner is None:
                    column += [values[source.index]] * rows
                else:
                    column += source.partner.texts_at(partners[source.place], source.index)
            elif source.partner is None:
                column.repeat(values[source.index], rows)
            else:
                column.extend(source.partner.fixed[source.index], partners[source.place])
        # No call comes between these, nor between these and what the caller does next.
        self.count += rows
        self.ragged = False

    def _cut(self) -> None:
        for column in self._columns:
            if isinstance(column, list):
                del column[self.count :]
            else:
                column.cut(self.count)
        self._positions.cut(self.count)

    def batch(self) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """A copy of the rows, and of their positions."""
        arrays: list[Any] = [
            pa.array(column[: self.count], field.type)
            if isinstance(column, list)
            else column.copy(self.count)
            for column, field in zip(self._columns, self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return batch, self._positions.view()[: self.count].copy()
