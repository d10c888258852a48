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
        self._codes: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, value: str | bytes) -> int:
        """The code of one value."""
        return self._codes.setdefault(value, len(self._codes))

    def encode(self, values: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The code of each value; -1 for NULL."""
        codes = self._codes
        if len(values) == 1:
            value = values[0].as_py()
            code = -1 if value is None else codes.setdefault(value, len(codes))
            return np.array([code], dtype=np.int32)
        encoded = values.dictionary_encode()
        table = np.empty(len(encoded.dictionary) + 1, dtype=np.int32)
        for index, value in enumerate(encoded.dictionary.to_pylist()):
            table[index] = codes.setdefault(value, len(codes))
        table[-1] = -1
        indices = encoded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
        codes_of: npt.NDArray[np.int32] = table[indices]
        return codes_of
