"""How long a join takes over its tuples (Najafi 2019 §5.3, definitions 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.blocks.histogram import Histogram


class Latency:
    """The two latencies of a join.

    ``processing``: from a tuple's arrival until it has been compared with all it may meet and its
    pairs have been made. ``visiting``: from the arrival of the younger of two tuples until they
    have been found to match. A tuple has arrived when it is handed to whoever compares it.
    """

    def __init__(self) -> None:
        self.processing = Histogram()
        self.visiting = Histogram()


def latencies(joins: Sequence[Latency]) -> dict[str, Any]:
    """Both latencies of some joins together, as metrics show them."""
    processing, visiting = Histogram(), Histogram()
    for join in joins:
        processing.merge(join.processing)
        visiting.merge(join.visiting)
    return {"processing": processing.summary(), "visiting": visiting.summary()}
