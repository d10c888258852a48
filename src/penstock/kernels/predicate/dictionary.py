"""Dictionary codes for strings and binaries, so that a kernel can compare them for equality."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Dictionary:
    """Gives equal values equal codes.

    Codes are given in the order values are first seen and never reused. ``len`` is the number of
    values held; a join that has seen many values it no longer holds starts a new dictionary.

    >>> words = Dictionary()
    >>> words.encode(pa.array(["a", "b", None, "a"])).tolist()
    [0, 1, -1, 0]
    """

    def __init__(self) -> None:
        self._codes: dict[str | bytes, int] = {}
        self.nbytes = 0
        """The total length of the values it holds."""

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, value: str | bytes) -> int:
        """The code of one value."""
        found = self._codes.get(value)
        if found is None:
            found = self._codes[value] = len(self._codes)
            self.nbytes += len(value)
        return found

    def encode(self, values: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The code of each value; -1 for NULL."""
        if len(values) == 1:
            value = values[0].as_py()
            return np.array([-1 if value is None else self.code(value)], dtype=np.int32)
        encoded = values.dictionary_encode()
        table = np.empty(len(encoded.dictionary) + 1, dtype=np.int32)
        words: list[Any] = encoded.dictionary.to_pylist()
        for index, value in enumerate(words):
            table[index] = self.code(value)
        table[-1] = -1
        indices = encoded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
        codes_of: npt.NDArray[np.int32] = table[indices]
        return codes_of
