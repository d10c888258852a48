"""A growing column: append at the end, drop at the front, and always one contiguous piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SMALLEST = 64
LARGE = 65_536
"""Elements from which on memory is given back when a buffer is emptied."""


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
        self.span: npt.NDArray[np.int64] = np.zeros(2, np.int64)
        """Where the elements start and end in the array; compiled code moves these too."""

    def __len__(self) -> int:
        return int(self.span[1] - self.span[0])

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    @property
    def array(self) -> npt.NDArray[Any]:
        """All of the memory, which compiled code appends to; another one once that is full."""
        return self._array

    def view(self) -> npt.NDArray[Any]:
        """The elements, without copying; valid until the next append."""
        start, end = self.span.tolist()
        return self._array[start:end]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add elements at the end."""
        self.make_room(len(values))
        end = int(self.span[1])
        self._array[end : end + len(values)] = values
        self.span[1] = end + len(values)

    def repeat(self, value: object, count: int) -> None:
        """Add one value several times."""
        self.make_room(count)
        end = int(self.span[1])
        self._array[end : end + count] = value
        self.span[1] = end + count

    def drop(self, count: int) -> None:
        """Forget the first ``count`` elements."""
        self.span[0] += count
        if self.span[0] == self.span[1]:
            self.span[:] = 0

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Forget everything and hold ``values`` instead."""
        self._array = np.array(values, dtype=self._array.dtype)
        if not len(self._array):
            self._array = np.empty(SMALLEST, self._array.dtype)
        self.span[:] = 0, len(values)

    def flush(self) -> npt.NDArray[Any]:
        """Give away a copy of the elements and forget them."""
        held = self.view().copy()
        self.span[:] = 0
        if len(self._array) > LARGE:
            self._array = np.empty(SMALLEST, held.dtype)
        return held

    def fit(self) -> None:
        """Give back memory, if what is held needs little of it."""
        if len(self._array) > SMALLEST and 4 * len(self) < len(self._array):
            held = self.view()
            self._array = np.empty(max(2 * len(held), SMALLEST), held.dtype)
            self._array[: len(held)] = held
            self.span[:] = 0, len(held)

    def make_room(self, count: int) -> None:
        """See to it that so many elements can be added without the memory becoming another one."""
        start, end = self.span.tolist()
        kept, size = end - start, len(self._array)
        if end + count <= size:
            return
        if kept > start or kept + count > size or 8 * (kept + count) < size:
            size = max(2 * kept, kept + count, SMALLEST)
        fresh = self._array if size == len(self._array) else np.empty(size, self._array.dtype)
        # The two parts overlap only if kept > start, and then the array is a new one.
        fresh[:kept] = self._array[start:end]
        self._array = fresh
        self.span[:] = 0, kept
