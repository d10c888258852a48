"""An index's segments as numbers in an array, for the kernel that takes one tuple."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.bucket_index import Grid, Hash, Segment
from penstock.kernels.entry_index import EntryIndex
from penstock.kernels.single_layout import DIMENSION, SEGMENT

NOBODY = -1


def segments_of(index: EntryIndex | None) -> list[Segment]:
    """The segments of a side's index, oldest first."""
    return [] if index is None else index._segments


def indexed_up_to(segments: Sequence[Segment]) -> int:
    """The first entry that is in no segment."""
    return segments[-1].last if segments else 0


def describe_segments(segments: Sequence[Segment], keys: int, width: int) -> npt.NDArray[np.int64]:
    """A row of ``width`` numbers per segment, as the kernel reads it; ``keys``: of the probe."""
    table = np.zeros((len(segments), width), np.int64)
    for row, segment in zip(table, segments, strict=True):
        _describe(segment, row, keys)
    return table


def _describe(segment: Segment, row: npt.NDArray[np.int64], keys: int) -> None:
    layout = segment.layout
    row[: len(SEGMENT)] = (
        segment.first,
        segment.last,
        segment.offsets.ctypes.data,
        len(segment.offsets),
        segment.order.ctypes.data,
        len(segment.order),
        layout.columns,
        layout._bits if isinstance(layout, Hash) else 0,
    )
    hashed = len(SEGMENT) + 2 * len(DIMENSION)
    if isinstance(layout, Hash):
        row[hashed] = len(layout._probe)
        row[hashed + 1 : hashed + 1 + len(layout._probe)] = layout._probe
    else:
        _describe_grid(layout, row[len(SEGMENT) : hashed])
    columns = hashed + keys + 1
    row[columns : columns + len(segment.columns)] = [c.ctypes.data for c in segment.columns]


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
        numbers[field["bounds"]] = bounds.ctypes.data
        numbers[field["bound_count"]] = len(bounds)
