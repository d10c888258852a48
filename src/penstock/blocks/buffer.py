"""A growing column: append at the end, drop at the front, and always one contiguous piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SMALLEST = 64


class Buffer:
    """A column of a window.

    Appending and dropping cost O(1) per element, amortised: the array is moved to its front when
    the dropped part is at least as long as the kept one, and doubled when it is full otherwise;
    where little is kept of a large array, it becomes a small one.

    >>> column = Buffer(np.dtype(np.int64))
    >>> column.append(np.arange(5)); column.drop(2); column.view().tolist()
    [2, 3, 4]
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._array: npt.NDArray[Any] = np.empty(SMALLEST, dtype)
        self._start = 0
        self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    def view(self) -> npt.NDArray[Any]:
        """The elements, without copying; valid until the next append."""
        return self._array[self._start : self._end]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add elements at the end."""
        need = self._end + len(values)
        if need > len(self._array):
            self._make_room(len(values))
            need = self._end + len(values)
        self._array[self._end : need] = values
        self._end = need

    def drop(self, count: int) -> None:
        """Forget the first ``count`` elements."""
        self._start += count
        if self._start == self._end:
            self._start = self._end = 0

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Forget everything and hold ``values`` instead."""
        self._array = np.array(values, dtype=self._array.dtype)
        if not len(self._array):
            self._array = np.empty(SMALLEST, self._array.dtype)
        self._start, self._end = 0, len(values)

    def fit(self) -> None:
        """Give back memory, if what is held needs little of it."""
        if len(self._array) > SMALLEST and 4 * len(self) < len(self._array):
            held = self.view()
            self._array = np.empty(max(2 * len(held), SMALLEST), held.dtype)
            self._array[: len(held)] = held
            self._start, self._end = 0, len(held)

    def _make_room(self, count: int) -> None:
        kept = len(self)
        size = len(self._array)
        if kept > self._start or kept + count > size or 8 * (kept + count) < size:
            size = max(2 * kept, kept + count, SMALLEST)
        fresh = self._array if size == len(self._array) else np.empty(size, self._array.dtype)
        # The two parts overlap only if kept > start, and then the array is a new one.
        fresh[:kept] = self._array[self._start : self._end]
        self._array, self._start, self._end = fresh, 0, kept
