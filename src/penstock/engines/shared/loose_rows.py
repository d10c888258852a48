"""Rows of a query that were made a few at a time, until somebody wants them as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.buffer import Buffer
from penstock.blocks.fixed_column import FixedColumn, has_fixed_width
from penstock.blocks.row_store import RowStore


@dataclass(frozen=True)
class Source:
    """Where an output column comes from.

    Parameters
    ----------
    partner
        Where the partner of an arriving tuple is stored; None if it is that tuple's own column.
    index
        The column, in its stream.
    """

    partner: RowStore | None
    index: int


class LooseRows:
    """Rows with their positions. Texts are Python values, everything else is in buffers."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns: list[FixedColumn | list[object]] = [
            FixedColumn(field.type) if has_fixed_width(field.type) else [] for field in schema
        ]
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
        """Add a row for each partner of a tuple that has these physical values."""
        self._positions.repeat(position, len(partners))
        for column, source in zip(self._columns, sources, strict=True):
            if isinstance(column, list):
                if source.partner is None:
                    column += [values[source.index]] * len(partners)
                else:
                    column += source.partner.texts_at(partners, source.index)
            elif source.partner is None:
                column.repeat(values[source.index], len(partners))
            else:
                column.extend(source.partner.fixed[source.index], partners)

    def batch(self) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """Take the rows and their positions; from here on it is empty."""
        arrays: list[Any] = []
        for column, field in zip(self._columns, self.schema, strict=True):
            if isinstance(column, list):
                arrays.append(pa.array(column, field.type))
                column.clear()
            else:
                arrays.append(column.flush())
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return batch, self._positions.flush()
