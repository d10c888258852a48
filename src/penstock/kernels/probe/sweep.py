"""The pairs of a stretch of arrivals, found with an index of one side for this stretch alone.

A permanent index (:mod:`penstock.kernels.probe.entry_index`) is kept of both sides, and every
arrival probes the other side's. That pays where a window is long compared with a batch. Where it is
short, most of an index has expired before the next probe; it is better built for one stretch and
thrown away. Then one index is enough. A tuple joins with the tuples of the other side that are live
when it arrives, and with those that arrive while it is live itself; as entries these are one range.
So every tuple of one side, arriving or still live, probes an index of the other side once.

Every stretch has an index of its own, so threads can sweep several stretches at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.machine_code import njit
from penstock.kernels.merging import three
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.nested_loop import Columns

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Three = tuple[Indices, Indices, Indices]


@dataclass(frozen=True)
class Arrivals:
    """Neighbouring arrivals of one side, and what is stored of it, themselves included.

    ``at`` are their ranks, ``lo`` the first entry of the other side that each may see; ``first`` is
    the index of the first of them among the entries of ``stored``, ``seq`` the number of the first
    entry of all.
    """

    at: Indices
    lo: Indices
    first: int
    seq: int
    stored: Columns

    @property
    def last(self) -> int:
        """One past the index of the last of them."""
        return self.first + len(self.at)


@dataclass(frozen=True)
class SweepResult:
    """Pairs by rank and partner: left and right numbers, and ranks; and the number of candidates.

    ``pairs`` is None if there were too many.
    """

    pairs: Three | None
    candidates: int


def sweep(
    index: EntryIndex,
    stored: Arrivals,
    probing: Arrivals,
    constants: Sequence[np.generic],
    capacity: int,
) -> SweepResult:
    """The pairs that these arrivals find.

    Each of them must see every earlier arrival of the other side, from its ``lo`` on, and ``lo``
    must never fall. ``index`` says how to index the side ``stored``, which may be either. There may
    be ``capacity`` pairs. Nothing is changed.
    """
    if not len(stored.at) and not len(probing.at):
        return SweepResult(three(0), 0)
    oldest = _oldest(probing.lo, stored.first), _oldest(stored.lo, probing.first)
    count = probing.last - oldest[1]
    lo, hi = np.empty(count, np.int64), np.empty(count + 1, np.int64)
    spans((stored.lo, stored.first), (probing.lo, probing.first), oldest[1], lo, hi)
    hi = hi[1:]
    own = stored.stored.part(oldest[0], stored.last)
    probe = probing.stored.part(oldest[1], probing.last)
    segment = index.segment(oldest[0], own)
    found, candidates = index.search_segment(segment, lo, hi, probe, own, constants, capacity)
    if found is None:
        return SweepResult(None, candidates)
    ranked = np.empty(len(found), np.int64)
    first_rank = min(int(a.at[0]) for a in (stored, probing) if len(a.at))
    by_rank(
        found,
        (stored.at, stored.first),
        (probing.at, probing.first - oldest[1]),
        oldest[1],
        first_rank,
        ranked,
    )
    ranked.sort()
    whose = np.empty(_ranks(stored, probing) - first_rank, np.int64)
    named = three(len(found))
    name_ranked(
        ranked, (stored.at, probing.at), (stored.first, probing.first), first_rank, whose, named
    )
    mine_named, other_named, ranks = named
    mine_named += stored.seq
    other_named += probing.seq
    pairs = (mine_named, other_named) if index.side == 0 else (other_named, mine_named)
    return SweepResult((*pairs, ranks), candidates)


def _oldest(lows: Indices, otherwise: int) -> int:
    return min(int(lows.min()), otherwise) if len(lows) else otherwise


def _ranks(*sides: Arrivals) -> int:
    """One past the last rank."""
    return max(int(side.at[-1]) for side in sides if len(side.at)) + 1


@njit()
def spans(
    stored: tuple[Array, int], probing: tuple[Array, int], oldest: int, lo: Array, hi: Array
) -> None:
    """The range of stored entries that each probe joins with: those live at its arrival, and later.

    ``stored`` and ``probing`` are the lows of arrivals and the index of the first of them; probes
    begin with entry ``oldest``. ``hi`` has one element more, at its beginning.
    """
    lows, base = stored
    their_lows, first = probing
    hi[:] = base + lows.shape[0]
    # An entry's range ends with the first arrival that no longer sees it. Without branches, since
    # no branch predictor can tell at which arrivals an entry leaves the window.
    for k in range(lows.shape[0]):
        i = lows.shape[0] - 1 - k
        hi[lows[i] - oldest] = base + i
    for k in range(1, hi.shape[0]):
        j = hi.shape[0] - 1 - k
        hi[j] = min(hi[j], hi[j + 1])
    lo[: first - oldest] = base
    lo[first - oldest :] = their_lows


@njit()
def by_rank(
    pairs: Array,
    stored: tuple[Array, int],
    probing: tuple[Array, int],
    oldest: int,
    first_rank: int,
    out: Array,
) -> None:
    """From a probe and an entry to the rank of the later one, and the other as its partner.

    ``stored`` and ``probing`` are the ranks of arrivals, and which of the entries, and of the
    probes, is the first of them; those before it are older than every arrival.
    """
    at, base = stored
    probing_at, first_probe = probing
    for k in range(pairs.shape[0]):
        probe, entry = pairs[k] >> 32, pairs[k] & 0xFFFFFFFF
        rank, partner = np.int64(-1), entry
        if probe >= first_probe:
            rank = probing_at[probe - first_probe]
        if entry >= base and at[entry - base] > rank:
            rank, partner = at[entry - base], probe + oldest
        out[k] = ((rank - first_rank) << 32) + partner


@njit()
def name_ranked(
    ranked: Array,
    at: tuple[Array, Array],
    first: tuple[int, int],
    first_rank: int,
    whose: Array,
    out: tuple[Array, Array, Array],
) -> None:
    """From ranks and partners to entries of the stored and of the probing side, and ranks.

    ``whose`` has room for every rank.
    """
    for i in range(at[0].shape[0]):
        whose[at[0][i] - first_rank] = first[0] + i
    for i in range(at[1].shape[0]):
        whose[at[1][i] - first_rank] = -1 - (first[1] + i)
    for k in range(ranked.shape[0]):
        rank, partner = ranked[k] >> 32, ranked[k] & 0xFFFFFFFF
        mine = whose[rank]
        if mine >= 0:
            out[0][k], out[1][k] = mine, partner
        else:
            out[0][k], out[1][k] = partner, -1 - mine
        out[2][k] = rank + first_rank
