"""The kernels of joins and of aggregates: what each is for, and how EXPLAIN names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kernel = Literal["nested-loop", "hash", "band", "sorted", "panes", "wid"]
"""The names in :data:`JOIN_KERNELS` and :data:`AGGREGATE_KERNELS`, for type checkers."""


@dataclass(frozen=True)
class JoinKernel:
    """A kernel of joins.

    Parameters
    ----------
    summary
        How it finds partners, in one line.
    needs
        What the predicate must have; empty if it serves every predicate.
    why
        What stands before the conditions that it uses, in EXPLAIN.
    """

    summary: str
    needs: str = ""
    why: str = ""


JOIN_KERNELS: dict[str, JoinKernel] = {
    "nested-loop": JoinKernel("compares every live pair"),
    "hash": JoinKernel(
        "an index by equal keys", "an equality between a column of each side", "equality on"
    ),
    "band": JoinKernel(
        "a grid index by ranges",
        "a column of one side between two bounds of the other",
        "a range of",
    ),
    "sorted": JoinKernel(
        "a grid index by one bound",
        "an inequality between a column of each side",
        "one-sided inequality of",
    ),
}
"""Every kernel of joins: the one without needs, then the indexes, the first usable one first."""

AGGREGATE_KERNELS: dict[str, str] = {
    "panes": "folds a tuple once, into its pane; windows are made of panes",
    "wid": "folds a tuple into every window module",
}
"""Every kernel of aggregates, and how it aggregates, in one line."""
