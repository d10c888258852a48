"""What the kernel that takes one tuple is made for, and what its arrays of numbers have where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.sql.expressions import Expression

REFUSED, NO_ROOM, LONG_TAIL, MANY_PARTNERS = -1, -2, -3, -4
"""Why a tuple was not taken: only a batch can be, a buffer is full, the index is behind, or the
partners do not fit the result (the other number is then how many there may be)."""

HEADER = (
    "asking",
    "window",
    "own_dropped",
    "own_rows",
    "other_dropped",
    "other_entries",
    "indexed",
    "longest_tail",
    "asked",
    "codes",
)
"""What comes first in ``state``.

The address of a number that is not 0 if it is only asked whether the tuple could be taken; the size
of the tuple's own window, -1 for none; addresses of how many entries either side has
dropped, of the sequence numbers its own side holds, and of what span the other's entries are in; up
to which entry the other side is indexed, and how many may be behind that; addresses of two arrays
for the tuple's keys, as floats and as integers.
"""

DIMENSION = (
    "low_key",
    "low",
    "high_key",
    "high",
    "base",
    "scale",
    "count",
    "bounds",
    "bound_count",
)
SEGMENT = ("first", "last", "offsets", "offset_count", "order", "order_count", "cells", "bits")
"""What comes first of a segment; ``bits`` is 0 for a grid. Two dimensions follow, then addresses
of the columns, then how many keys are hashed, and which."""
SEGMENT_COLUMNS = len(SEGMENT) + 2 * len(DIMENSION)


@dataclass(frozen=True)
class Stored:
    """Buffers that a tuple is appended to: their types, and which of them have validity beside."""

    dtypes: tuple[np.dtype[Any], ...]
    nulls: tuple[bool, ...]

    @property
    def buffers(self) -> list[np.dtype[Any]]:
        """The types of all buffers: first the values, then the validities that there are."""
        return [*self.dtypes, *(np.dtype(np.bool_) for null in self.nulls if null)]


@dataclass(frozen=True)
class SingleShape:
    """What, besides the predicate, decides the source.

    Parameters
    ----------
    side
        The side whose tuple arrives.
    schema
        The columns of that tuple.
    condition
        What it must satisfy to have keys at all.
    columns
        Those of its columns that are stored in buffers.
    rows, keys
        What its side stores of it: those columns, and its keys.
    other
        What the other side stores of its own keys.
    """

    side: int
    schema: pa.Schema
    condition: Expression
    columns: tuple[int, ...]
    rows: Stored
    keys: Stored
    other: Stored
