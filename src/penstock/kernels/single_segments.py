"""An index's segments as numbers in an array, for the kernel that takes one tuple."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.bucket_index import Grid, Hash, Segment
from penstock.kernels.entry_index import EntryIndex
from penstock.kernels.memory import address_of
from penstock.kernels.single_layout import DIMENSION, SEGMENT, SEGMENT_COLUMNS

NOBODY = -1


def segments_of(index: EntryIndex | None, columns: int) -> list[Segment]:
    """The segments of a side's index, oldest first; the side stores so many columns of keys.

    A key's first NULL has added one, and segments from before it are of no use any more.
    """
    if index is None:
        return []
    if any(len(segment.columns) != columns for segment in index._segments):
        index.clear()
    return index._segments


def indexed_up_to(segments: Sequence[Segment]) -> int:
    """The first entry that is in no segment."""
    return segments[-1].last if segments else 0


def describe_segments(segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
    """A row of numbers per segment, as the kernel reads it."""
    rows = list(map(_describe, segments))
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = numbers
    return table


def _describe(segment: Segment) -> npt.NDArray[np.int64]:
    layout = segment.layout
    hashed = layout._probe if isinstance(layout, Hash) else ()
    row = np.array(
        [
            segment.first,
            segment.last,
            address_of(segment.offsets),
            len(segment.offsets),
            address_of(segment.order),
            len(segment.order),
            layout.columns,
            layout._bits if isinstance(layout, Hash) else 0,
            *[0] * (SEGMENT_COLUMNS - len(SEGMENT)),
            *map(address_of, segment.columns),
            len(hashed),
            *hashed,
        ],
        np.int64,
    )
    if isinstance(layout, Grid):
        _describe_grid(layout, row[len(SEGMENT) : SEGMENT_COLUMNS])
    return row


def _describe_grid(layout: Grid, row: npt.NDArray[np.int64]) -> None:
    """The scales of a grid, and how far from the probe's keys its ranges reach."""
    whole: Any = row.reshape(2, len(DIMENSION))
    reals: Any = row.view(np.float64).reshape(2, len(DIMENSION))
    field = {name: place for place, name in enumerate(DIMENSION)}
    whole[:, field["low_key"]] = whole[:, field["high_key"]] = NOBODY
    whole[:, field["count"]] = 1
    layers = zip(layout._dims, layout._scales, layout._slack, strict=True)
    for number, (dim, scale, slack) in enumerate(layers):
        numbers, floats = whole[number], reals[number]
        if dim.lower is not None and math.isfinite(dim.lower.low - slack):
            numbers[field["low_key"]] = dim.lower.probe
            floats[field["low"]] = dim.lower.low - slack
        if dim.upper is not None:
            numbers[field["high_key"]] = dim.upper.probe
            floats[field["high"]] = dim.upper.high
        base, factor, count, bounds = scale.parameters
        floats[field["base"]], floats[field["scale"]] = base, factor
        numbers[field["count"]] = count
        numbers[field["bounds"]] = address_of(bounds)
        numbers[field["bound_count"]] = len(bounds)
