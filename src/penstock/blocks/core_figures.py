"""How the cores of a query have shared its joins, in numbers that ``--summary`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.blocks.join import JoinBlock
from penstock.blocks.join_side import JoinSide


def core_figures(joins: Sequence[JoinBlock]) -> list[dict[str, Any]]:
    """What one core has done of the joins: nothing to say where there are none.

    ``stored`` and ``probed`` are the tuples of either side that it has ever stored for others to
    find, and that have looked for partners in it; ``matched`` the pairs that it has found.
    """
    if not joins:
        return []
    return [
        {
            "core": 0,
            "stored": [sum(_stored(join.sides[i]) for join in joins) for i in (0, 1)],
            "probed": [sum(join.sides[i].rows.next for join in joins) for i in (0, 1)],
            "matched": sum(join.matches for join in joins),
            "comparisons": sum(join.comparisons for join in joins),
            "window": [sum(len(join.sides[i].rows) for join in joins) for i in (0, 1)],
        }
    ]


def _stored(side: JoinSide) -> int:
    """A side numbers its tuples as they arrive, whoever sends them, and keeps no other count."""
    if side.share is None:
        return side.rows.next
    return int(side.share.before(np.array([side.rows.next]))[0])
