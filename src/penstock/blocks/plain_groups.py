"""Numbers for the groups of GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.aggregates.values import arrow_of, is_wide, keys_of, values_of_keys
from penstock.kernels.vector import Vector


class Groups:
    """Gives equal keys equal numbers, from 0 on. NULL is equal to NULL, NaN to NaN, -0.0 to 0.0."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.kinds = tuple(kinds)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._keys: list[list[object]] = [[] for _ in kinds]
        self._order: Indices | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return 64 * len(self) * len(self.kinds)

    def number(self, columns: Sequence[Vector]) -> Indices:
        """The number of the group of each row; new keys get new ones."""
        keys = [self._plain(column) for column in columns]
        numbers = np.empty(len(keys[0]), np.int64)
        for i, key in enumerate(zip(*keys, strict=True)):
            number = self._numbers.setdefault(key, len(self._numbers))
            numbers[i] = number
            if number == len(self._keys[0]):
                self._order = None
                for known, value in zip(self._keys, key, strict=True):
                    known.append(value)
        return numbers

    @staticmethod
    def _plain(vector: Vector) -> list[object]:
        keys: list[object] = keys_of(vector).tolist()
        if vector.valid is None:
            return keys
        return [k if ok else None for k, ok in zip(keys, vector.valid.tolist(), strict=True)]

    def keys(self, numbers: Indices) -> list[Any]:
        """The keys of groups, a column each."""
        return [
            self._column(known, kind, numbers)
            for known, kind in zip(self._keys, self.kinds, strict=True)
        ]

    @staticmethod
    def _column(known: list[object], kind: pa.DataType, numbers: Indices) -> Any:
        chosen = [known[number] for number in numbers.tolist()]
        valid = np.array([value is not None for value in chosen], np.bool_)
        if is_wide(kind):
            keys: Array = np.empty(len(chosen), object)
            keys[:] = chosen
        else:
            keys = np.array([0 if value is None else value for value in chosen], np.int64)
        return arrow_of(values_of_keys(keys, kind), valid, kind)

    def order(self) -> Indices:
        """The numbers of all groups by their keys, ascending, NULL first."""
        if self._order is None:
            rows = list(zip(*self._keys, strict=True))
            ordered = sorted(
                range(len(rows)),
                key=lambda i: tuple((v is not None, 0 if v is None else v) for v in rows[i]),
            )
            self._order = np.array(ordered, np.int64)
        return self._order

    def keep(self, kept: Indices) -> None:
        """Let group ``kept[i]`` be number ``i`` from here on; forget the others."""
        numbers = kept.tolist()
        self._keys = [[known[number] for number in numbers] for known in self._keys]
        self._numbers = {key: i for i, key in enumerate(zip(*self._keys, strict=True))}
        self._order = None
