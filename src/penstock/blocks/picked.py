"""Some rows of a batch, whose columns are gathered when somebody asks for one."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class _Picked:
    """As much of a record batch as expressions read."""

    def __init__(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> None:
        self._batch = batch
        self._rows: Any = pa.array(rows)
        self._columns: dict[int, Any] = {}
        self.num_rows = len(rows)

    def column(self, index: int) -> Any:
        """A column of the rows."""
        found = self._columns.get(index)
        if found is None:
            found = self._columns[index] = self._batch.column(index).take(self._rows)
        return found


def picked(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows, for expressions to be evaluated over and for nothing else."""
    return cast(pa.RecordBatch, _Picked(batch, rows))
