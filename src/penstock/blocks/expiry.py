"""When stored tuples expire, as the rank of the event that makes them.

A tuple of a count window expires when the w-th tuple after it arrives; one of a time window when
the other stream's promise reaches its time plus the window; any tuple when the other stream ends.
A tuple for which that has happened before it arrives expires right after its own probe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted
from penstock.blocks.join_side import JoinSide
from penstock.blocks.punctuator import Ticks
from penstock.blocks.ranks import Ranks
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Expiring:
    """Tuples that expire in this run, by rank: of which side, and whether by their own arrival."""

    seqs: Indices
    ranks: Indices
    at_once: npt.NDArray[np.bool_]
    arrived: Indices


def expiring(
    side: JoinSide,
    other: Admitted,
    ranks: Ranks,
    ended_before: bool,
    promise_before: int | float,
) -> Expiring:
    """The tuples of ``side`` that expire while this run is processed; it has been appended.

    ``other`` is what was admitted of the other side, which before this run had ended or had made
    that promise.
    """
    theirs, end = 1 - side.index, None
    if other.end_key is not None:
        end = int(ranks.controls[theirs][other.control_keys == other.end_key][0])
    steps = ranks.steps(theirs, other)
    return _expiring(side, ranks.tuples[side.index], steps, ended_before, end, promise_before)


def _expiring(
    side: JoinSide,
    ranks: Indices,
    steps: tuple[Indices, Ticks],
    ended_before: bool,
    end_rank: int | None,
    promise_before: int | float,
) -> Expiring:
    """``ranks`` are those of the side's newest tuples; the steps and the end the other side's."""
    count = _candidates(side, steps, ended_before or end_rank is not None, promise_before)
    older = len(side.rows) - len(ranks)
    own = np.full(count, -1, np.int64)
    if count > older:
        own[older:] = ranks[: count - older]
    when = np.full(count, NEVER, np.int64)
    if isinstance(side.window, Rows):
        if side.window.size == 0:
            when = own.copy()
        else:
            pushed_out = max(0, min(count, len(side.rows) - side.window.size))
            pushers = np.arange(pushed_out) + side.window.size - older
            when[:pushed_out] = ranks[pushers]
    elif isinstance(side.window, Range):
        expiry = side.expiry.view()[:count]
        index = np.searchsorted(steps[1], expiry, side="left")
        when = np.append(steps[0], NEVER)[index]
        when[expiry <= promise_before] = -1
    if ended_before:
        when = np.full(count, -1, np.int64)
    elif end_rank is not None:
        when = np.minimum(when, end_rank)
    if isinstance(side.window, Range) and not side.in_order:
        when[side.expiry.view()[:count] == side.clock.lowest] = NEVER  # these have expired before
    # -1 means it had happened before the tuple came; a tuple from before this run has expired then.
    picked = np.flatnonzero((when != NEVER) & ~((when < 0) & (own < 0)))
    at_once = when[picked] <= own[picked]
    rank = np.maximum(when[picked], own[picked])
    order = np.argsort(rank, kind="stable")
    assert side.arrived is not None
    return Expiring(
        picked[order] + side.rows.first,
        rank[order],
        at_once[order],
        side.arrived.view()[picked[order]],
    )


def _candidates(
    side: JoinSide, steps: tuple[Indices, Ticks], ends: bool, promise_before: int | float
) -> int:
    """How many of the oldest tuples can expire at all; the others need not be looked at."""
    if ends or (isinstance(side.window, Range) and not side.in_order):
        return len(side.rows)
    if isinstance(side.window, Rows):
        return max(0, len(side.rows) - side.window.size)
    if isinstance(side.window, Range):
        promise = max(promise_before, steps[1][-1].item() if len(steps[1]) else promise_before)
        return int(np.searchsorted(side.expiry.view(), promise, side="right"))
    return 0
