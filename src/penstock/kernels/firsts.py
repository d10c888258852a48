"""The first or the last tuples of many cells, by their time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels import folding as loops
from penstock.kernels.memory import alias

Array = npt.NDArray[Any]
Cells = npt.NDArray[np.int32]

_ALL = np.empty(0, np.bool_)


class Firsts:
    """For each cell the tuple with the smallest tick, of equal ones the one that arrived first.

    With ``last``, the tuple with the largest tick, of equal ones the one that arrived last. Tuples
    are numbered as they arrive; whoever wants more of them than the number keeps it.

    >>> firsts = Firsts(last=False, cells=2)
    >>> firsts.add(np.array([0, 0, 0]), np.array([7, 3, 3]), 100)
    >>> firsts.rows(np.array([0, 1])).tolist()
    [101, -1]
    """

    def __init__(self, last: bool, cells: int = 0) -> None:
        self._flip = -1 if last else 0
        self._keys = np.zeros(cells, np.int64)
        self._rows = np.full(cells, -1, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._rows.nbytes

    def like(self, cells: int) -> Firsts:
        """So many cells without a tuple."""
        return Firsts(self._flip == -1, cells)

    def add(self, cells: Cells, ticks: Array, start: int, valid: Array | None = None) -> None:
        """Take tuples, numbered from ``start`` on, which arrived after all that were taken."""
        cells = np.ascontiguousarray(cells, np.int32)
        mask = _ALL if valid is None else alias(valid)
        ticks = alias(np.ascontiguousarray(ticks, np.int64))
        loops.earliest(ticks, mask, cells, self._flip, start, (self._keys, self._rows))

    def rows(self, cells: Array) -> npt.NDArray[np.int64]:
        """The numbers of the cells' tuples; -1 where there is none."""
        return self._rows[cells]

    def merge(self, into: Cells, other: Firsts, from_: Cells) -> None:
        """Take cells of others into cells of these."""
        into, from_ = np.ascontiguousarray(into, np.int32), np.ascontiguousarray(from_, np.int32)
        best, theirs = (self._keys, self._rows), (other._keys, other._rows)
        loops.earliest_cells(into, best, from_, theirs, self._flip)

    def merge_row(self, into: int, other: Firsts, from_: int, count: int) -> None:
        """As :meth:`merge`, for ``count`` cells that follow one another in both."""
        step = np.arange(count, dtype=np.int32)
        self.merge(into + step, other, from_ + step)

    def clear(self, cells: Any) -> None:
        """Cells, an array of them or a slice, without a tuple again."""
        self._rows[cells] = -1

    def rearrange(self, cells: int, new: Any, old: Any) -> None:
        """Have ``cells`` cells, of which ``new[i]`` is what ``old[i]`` was; the rest has no tuple.

        ``new`` and ``old`` are arrays of numbers or slices.
        """
        keys, rows = np.zeros(cells, np.int64), np.full(cells, -1, np.int64)
        keys[new], rows[new] = self._keys[old], self._rows[old]
        self._keys, self._rows = keys, rows

    def resize(self, cells: int) -> None:
        """Have more cells, or fewer."""
        kept = slice(0, min(cells, len(self)))
        self.rearrange(cells, kept, kept)

    def state(self) -> dict[str, Array]:
        """Arrays that :meth:`load` takes; they are not copies."""
        return {"keys": self._keys, "rows": self._rows}

    def load(self, state: dict[str, Array]) -> None:
        """Become the cells whose state this is."""
        self._keys = np.array(state["keys"], np.int64)
        self._rows = np.array(state["rows"], np.int64)
