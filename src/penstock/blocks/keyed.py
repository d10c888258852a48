"""Keys, which kernels read: of tuples that arrive, and of those that are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.buffer import Buffer
from penstock.kernels.keys import comparison_key, native_values
from penstock.kernels.predicate import Key
from penstock.kernels.vector import null_vector

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class KeyColumn:
    """A stored key: its values, its validity once it has had a NULL, its bounds if native."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.values = Buffer(_dtype(key))
        self.valid: Buffer | None = None
        self.bounds: Indices = np.array([1, 0], np.int64)
        """The least and the largest integer so far, the other way round if there is none; compiled
        code moves these too."""

    @property
    def low(self) -> int | None:
        """The least integer that has been stored."""
        return int(self.bounds[0]) if self.bounds[0] <= self.bounds[1] else None

    @property
    def high(self) -> int | None:
        """The largest integer that has been stored."""
        return int(self.bounds[1]) if self.bounds[0] <= self.bounds[1] else None

    def append(self, values: npt.NDArray[Any], valid: Mask | None) -> None:
        """Store keys at the end."""
        if valid is not None and self.valid is None:
            self.valid = Buffer(np.dtype(np.bool_))
            self.valid.append(np.ones(len(self.values), np.bool_))
        self.values.append(values)
        if self.valid is not None:
            self.valid.append(valid if valid is not None else np.ones(len(values), np.bool_))

    def widen(self, low: int, high: int) -> None:
        """Take note of integers from ``low`` to ``high``."""
        if self.bounds[0] <= self.bounds[1]:
            low, high = min(low, int(self.bounds[0])), max(high, int(self.bounds[1]))
        self.bounds[:] = low, high


@dataclass(frozen=True)
class Keyed:
    """The keys of arriving tuples: those that pass the filter, by index in their run."""

    passed: Indices | None
    values: list[npt.NDArray[Any]]
    valid: list[Mask | None]

    def only(self, picked: Indices) -> Keyed:
        """Those of the tuples that are at these indices."""
        passed = None if self.passed is None else self.passed[picked]
        valid = [None if mask is None else mask[picked] for mask in self.valid]
        return Keyed(passed, [values[picked] for values in self.values], valid)


def _dtype(key: Key) -> np.dtype[Any]:
    """The machine type of a key's column: that of the key of no value at all."""
    if key.kind == "code":
        return np.dtype(np.int32)
    nothing = null_vector(key.expression.type, 0)
    values = native_values(nothing) if key.kind == "native" else comparison_key(nothing)
    return values.dtype
