"""The saved state of a block, which any engine can store: plain values, rows and columns."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass
class BlockState:
    """The state of a block.

    Parameters
    ----------
    values
        Numbers, texts, lists and dicts of them, as JSON knows them.
    rows
        Stored tuples by name: their schema and batches.
    columns
        Arrays by name.
    """

    values: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, tuple[pa.Schema, list[pa.RecordBatch]]] = field(default_factory=dict)
    columns: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def plain(value: object) -> Any:
    """A physical value as JSON can hold it; :func:`physical` reads it back.

    >>> physical(plain(decimal.Decimal("1.50"))), physical(plain(Fraction(1, 3))), plain(7)
    (Decimal('1.50'), Fraction(1, 3), 7)
    """
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    return value.item() if isinstance(value, np.generic) else value


def physical(saved: Any) -> Any:
    """The value that :func:`plain` was given."""
    if not isinstance(saved, dict):
        return saved
    return decimal.Decimal(saved["decimal"]) if "decimal" in saved else Fraction(*saved["fraction"])
