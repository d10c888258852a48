"""Tuples that were folded elsewhere: what they add to every pane and group.

A part of a stream can be folded by whoever has it, without knowing what was promised: panes, not
windows, are what tuples are folded into, and all tuples of a pane belong to the same windows. Who
merges the partial results knows which windows are closed, and so which tuples are late and what
they still count in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Indices

PARTIAL_CALLS = frozenset(
    ("count", "sum", "avg", "min", "max", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
)
"""FIRST and LAST go by arrival where times are equal, which parts of a stream do not know."""

_NOTHING: Indices = np.empty(0, np.int64)


@dataclass(frozen=True)
class PartialBatch:
    """Folded tuples.

    Parameters
    ----------
    tuples, dead
        How many took part, and how many could not: they have no time, or it is before the start.
    highest
        The highest tick of any; None if nothing took part.
    seen, counts
        The panes that tuples fell into before WHERE, and how many into each.
    panes, groups
        Of each cell, the pane and the number of its group among ``keys``.
    keys
        The keys of the groups; None without GROUP BY.
    cells
        The partial results, as :meth:`penstock.blocks.partials.Partials.save` has them.
    """

    tuples: int = 0
    dead: int = 0
    highest: int | None = None
    seen: Indices = field(default_factory=lambda: _NOTHING)
    counts: Indices = field(default_factory=lambda: _NOTHING)
    panes: Indices = field(default_factory=lambda: _NOTHING)
    groups: Indices = field(default_factory=lambda: _NOTHING)
    keys: pa.RecordBatch | None = None
    cells: dict[str, Array] = field(default_factory=dict)
