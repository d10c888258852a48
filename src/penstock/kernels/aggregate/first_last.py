"""The first or the last tuple of many cells, by time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate.intervals import first_of_intervals
from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]
Cells = npt.NDArray[np.int32]

_ALL = np.empty(0, np.bool_)
Word = Any
"""An integer: of NumPy, of Python, or compiled."""


class Firsts:
    """For each cell the tuple with the smallest tick; of equal ones, the first to arrive.

    With ``last``, the tuple with the largest tick; of equal ones, the last to arrive. Tuples are
    numbered as they arrive; only the numbers are held here.

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
        """``cells`` cells without a tuple."""
        return Firsts(self._flip == -1, cells)

    def add(self, cells: Cells, ticks: Array, start: int, valid: Array | None = None) -> None:
        """Add tuples, numbered from ``start`` on, which arrived after all earlier ones."""
        cells = np.ascontiguousarray(cells, np.int32)
        mask = _ALL if valid is None else alias(valid)
        ticks = alias(np.ascontiguousarray(ticks, np.int64))
        earliest(ticks, mask, cells, self._flip, start, (self._keys, self._rows))

    def rows(self, cells: Array) -> npt.NDArray[np.int64]:
        """The numbers of the cells' tuples; -1 where there is none."""
        return self._rows[cells]

    def merge(self, into: Cells, other: Firsts, from_: Cells) -> None:
        """Merge cells of others into cells of these."""
        into, from_ = np.ascontiguousarray(into, np.int32), np.ascontiguousarray(from_, np.int32)
        best, theirs = (self._keys, self._rows), (other._keys, other._rows)
        earliest_cells(into, best, from_, theirs, self._flip)

    def merge_row(self, into: int, other: Firsts, from_: int, count: int) -> None:
        """As :meth:`merge`, for ``count`` consecutive cells of both."""
        step = np.arange(count, dtype=np.int32)
        self.merge(into + step, other, from_ + step)

    def cells_of_intervals(self, begins: Array, ends: Array, count: int) -> npt.NDArray[np.int64]:
        """For each of ``count`` rows the cell that has its tuple; -1 where there is none.

        A row has the tuples of the cells in whose intervals it is: the interval of a cell is the
        rows from its ``begins``, which rise, to before its ``ends``.
        """
        found = np.empty(count, np.int64)
        has = (self._rows >= 0).view(np.uint8)
        first_of_intervals((self._keys, self._rows ^ self._flip, has), begins, ends, found)
        return found

    def clear(self, cells: Any) -> None:
        """Remove the tuples of cells, an array of numbers or a slice."""
        self._rows[cells] = -1

    def rearrange(self, cells: int, new: Any, old: Any) -> None:
        """Resize to ``cells`` cells and move cell ``old[i]`` to ``new[i]``; the rest has no tuple.

        ``new`` and ``old`` are arrays of numbers or slices.
        """
        keys, rows = np.zeros(cells, np.int64), np.full(cells, -1, np.int64)
        keys[new], rows[new] = self._keys[old], self._rows[old]
        self._keys, self._rows = keys, rows

    def resize(self, cells: int) -> None:
        """Change the number of cells."""
        kept = slice(0, min(cells, len(self)))
        self.rearrange(cells, kept, kept)

    def state(self) -> dict[str, Array]:
        """The state that :meth:`load` restores, as arrays; they are not copies."""
        return {"keys": self._keys, "rows": self._rows}

    def load(self, state: dict[str, Array]) -> None:
        """Restore from :meth:`state`."""
        self._keys = np.array(state["keys"], np.int64)
        self._rows = np.array(state["rows"], np.int64)


@njit()
def earliest(
    ticks: Array, valid: Array, cells: Array, flip: Word, start: Word, best: tuple[Array, Array]
) -> None:
    """Keep in each cell the tuple with the smallest tick, XORed with ``flip``.

    Of equal ones the first, or with a ``flip`` of -1 the last. ``best`` is flipped ticks and
    numbers of tuples, which count from ``start``; -1 for none.
    """
    keys, rows = best
    every, later = valid.shape[0] == 0, flip != 0
    for i in range(ticks.shape[0]):
        if every or valid[i]:
            key, cell = np.int64(ticks[i]) ^ flip, np.uint64(cells[i])
            if key < keys[cell] or rows[cell] < 0 or (later and key == keys[cell]):
                keys[cell] = key
                rows[cell] = start + i


@njit()
def earliest_cells(
    into: Array, best: tuple[Array, Array], from_: Array, other: tuple[Array, Array], flip: Word
) -> None:
    """Merge pairs of cells: keep the earlier tuple; see :func:`earliest`."""
    keys, rows = best
    other_keys, other_rows = other
    for i in range(into.shape[0]):
        cell, key, row = into[i], other_keys[from_[i]], other_rows[from_[i]]
        if row >= 0:
            sooner = key < keys[cell] or rows[cell] < 0
            if sooner or (key == keys[cell] and row ^ flip < rows[cell] ^ flip):
                keys[cell] = key
                rows[cell] = row
