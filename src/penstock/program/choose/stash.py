"""The choice of a stash for a join of three streams: of which pair, how large, or none.

A stash has the S1–S2 pairs that are live, so that an arrival of S3 is compared with them instead of
with W_S1 and, for each match, with W_S2. Arrivals of S1 and S2 gain nothing: they find the pairs.
The choice follows the analysis of Najafi 2019 §6.2.3, with a comparison as the unit of time:
``T_proc(W)`` is the number of tuples in a window, and ``mr(x, W_y)``, the matches of an arrival of
x in the window of y, is the match probability of the two times that number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import InputError
from penstock.program.choose.probe_order import (
    ASSUMED_MATCH,
    EQUALITY,
    NOTHING,
    JoinTerms,
    assumed_sizes,
)
from penstock.streams.windows import Window

STREAMS = 3
_ROLES = ((0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0))
"""Which input may be S1, S2 and S3."""
DEFAULT_SIZE = 1 << 12
"""Pairs of a stash if no estimates are given; fewer if a count window has fewer tuples."""
GAIN = 0.8
"""Another pair gets the stash if an arrival then costs less than this share."""
SPARE = 4
"""How many times as large as it would have to be a stash may be, before another is made."""
MOST_PAIRS = 1 << 26
"""The largest stash that can be asked for: it is allocated at once, and takes 1.7 GB."""


def check_stash(streams: int, size: int | None, design: str = "stashed") -> None:
    """Refuse a stash that cannot be.

    >>> check_stash(3, 0)
    Traceback (most recent call last):
    penstock.errors.InputError: a stash of 0 pairs holds nothing
    Write 1 or more, or leave the size out.
    """
    if streams != STREAMS:
        raise InputError(
            f"the design {design} joins three streams, and the query joins {streams}",
            f"Ask for the design {design.replace('stashed', 'circular')}, or leave the design out.",
        )
    check_stash_size(size)


def check_stash_size(size: int | None) -> None:
    """Refuse a number of pairs that no stash can have."""
    if size is not None and type(size) is not int:
        raise InputError(f"the size of a stash is {size!r}", "Write a whole number.")
    if size is not None and size < 1:
        raise InputError(
            f"a stash of {size} pairs holds nothing", "Write 1 or more, or leave the size out."
        )
    if size is not None and size > MOST_PAIRS:
        raise InputError(
            f"a stash of {size:,} pairs does not fit in memory",
            f"Write {MOST_PAIRS} or less, or leave the size out; the rows do not depend on it.",
        )


@dataclass(frozen=True)
class StashPlan:
    """Which input is S1, S2 and S3, and the stash of the first two.

    Parameters
    ----------
    first, second, third
        The inputs, by their places in FROM.
    size
        Pairs that the stash has room for; None: no stash.
    why
        The reason, for people.
    is_measured
        Whether it follows from estimates.
    """

    first: int
    second: int
    third: int
    size: int | None
    why: str
    is_measured: bool = True

    @property
    def roles(self) -> tuple[int, int, int]:
        """S1, S2 and S3."""
        return self.first, self.second, self.third


@dataclass(frozen=True)
class _Estimates:
    """What is known of three streams, seen with one of them as S1, one as S2 and one as S3."""

    windows: Sequence[float]
    shares: Sequence[float]
    match: Mapping[frozenset[int], float]
    roles: tuple[int, int, int]

    def window(self, role: int) -> float:
        """``T_proc(W)``."""
        return self.windows[self.roles[role]]

    def share(self, role: int) -> float:
        """``P(T)``."""
        return self.shares[self.roles[role]]

    def match_rate(self, arriving: int, stored: int) -> float:
        """``mr``: the matches of an arrival in a window."""
        pair = frozenset((self.roles[arriving], self.roles[stored]))
        return self.match[pair] * self.window(stored)

    @property
    def pairs(self) -> float:
        """The S1–S2 pairs that are live, on average."""
        return self.match_rate(0, 1) * self.window(0)

    @property
    def of_pair(self) -> float:
        """The first two terms of eq. 6.2.1: arrivals of S1 and of S2."""
        first = self.window(1) + self.match_rate(0, 1) * self.window(2)
        second = self.window(0) + self.match_rate(1, 0) * self.window(2)
        return self.share(0) * first + self.share(1) * second

    @property
    def disabled(self) -> float:
        """The latency without a stash (eq. 6.2.1; for equal streams eq. 6.2.2)."""
        third = self.window(0) + self.match_rate(2, 0) * self.window(1)
        return self.of_pair + self.share(2) * third

    def enabled(self, size: int) -> float:
        """The latency with a stash: an arrival of S3 takes ``T_proc(Stash)`` (eq. 6.2.4, 6.2.5)."""
        return self.of_pair + self.share(2) * size

    @property
    def interval(self) -> float:
        """The time between two arrivals of S3 without a stash: the inverse of eq. 6.2.3.

        The slower of two stages that work at the same time decides.
        """
        return max(self.window(0), self.match_rate(2, 0) * self.window(1))

    @property
    def size(self) -> int:
        """Room for the pairs and four standard deviations: a peak must not overwrite."""
        room = self.pairs + 4 * math.sqrt(self.pairs) + 1
        return 1 << math.ceil(math.log2(room))

    @property
    def pays(self) -> bool:
        """Eq. 6.2.6, and a stash that is smaller than the windows it stands for."""
        return self.size <= self.interval and self.size < min(self.window(0), self.window(1))


def stash_plan(
    windows: Sequence[float],
    shares: Sequence[float],
    match: Mapping[frozenset[int], float],
    names: Sequence[str] = ("1", "2", "3"),
    known: str = "",
    now: StashPlan | None = None,
    asked: int | None = None,
) -> StashPlan:
    """Which pair of three inputs has a stash, of which size, and why; or that none pays.

    Parameters
    ----------
    windows
        The tuples in the window of each input, on average.
    shares
        The share of arrivals that are of each input.
    match
        For each two inputs the probability that two tuples of them match; 1 if no condition links
        them.
    names
        What people call the inputs.
    known
        How these estimates are known, for people.
    now
        The plan in use, which stays if another one gains little.
    asked
        How many pairs the stash is to have room for; None: as many as follow.

    A stream with half of the arrivals, and few pairs of the other two:

    >>> one, few = frozenset((0, 1)), 1e-6
    >>> rare = {one: few, frozenset((1, 2)): few, frozenset((0, 2)): 1.0}
    >>> plan = stash_plan([16384] * 3, [0.25, 0.25, 0.5], rare, "ABC")
    >>> plan.first, plan.second, plan.third, plan.size
    (1, 0, 2, 512)
    >>> print(plan.why)
    a stash of 512 pairs of B and A: a tuple of C is compared with 512 pairs instead of 16,384
    tuples; 8,582 comparisons of an arrival instead of 16,652

    Too many pairs:

    >>> many = {pair: 1e-3 for pair in rare}
    >>> print(stash_plan([16384] * 3, [0.25, 0.25, 0.5], many, "ABC").why)
    no stash: the 268,435 pairs of A and B that are live need more room than a window
    """
    every = [_Estimates(windows, shares, match, roles) for roles in _ROLES]
    told = f" ({known})" if known else ""

    def room(one: _Estimates) -> int:
        if asked is not None:
            return asked
        if now is not None and now.roles == one.roles and now.size is not None:
            return now.size if one.size <= now.size <= SPARE * one.size else one.size
        return one.size

    def rank(one: _Estimates, cost: float) -> tuple[float, float, tuple[int, int, int]]:
        stays = now is not None and now.is_measured and now.roles == one.roles
        return (round(GAIN * cost if stays else cost, 3), *_preference(one))

    paying = [one for one in every if asked is not None or one.pays]
    if paying:
        best = min(paying, key=lambda one: rank(one, one.enabled(asked or one.size)))
        first, second, third = (names[input] for input in best.roles)
        size = room(best)
        why = (
            f"a stash of {size:,} pairs of {first} and {second}: a tuple of {third} is "
            f"compared with {size:,} pairs instead of {best.interval:,.0f} tuples; "
            f"{best.enabled(size):,.0f} comparisons of an arrival instead of "
            f"{best.disabled:,.0f}{told}"
        )
        return StashPlan(*best.roles, size, why)
    best = min(every, key=lambda one: rank(one, one.disabled))
    first, second, third = (names[input] for input in best.roles)
    why = (
        f"no stash: the {best.pairs:,.0f} pairs of {first} and {second} that are live need more "
        f"room than a window{told}"
    )
    if best.size < min(best.window(0), best.window(1)):
        why = (
            f"no stash: a tuple of {third} would be compared with {best.size:,} pairs instead of "
            f"{best.interval:,.0f} tuples{told}"
        )
    return StashPlan(*best.roles, None, why)


def _preference(one: _Estimates) -> tuple[float, tuple[int, int, int]]:
    """Of equal latencies: few matches of S3 in W_S1, which a recomputation begins with; then FROM.

    The last stream in FROM is S3, and the first S1.
    """
    first, second, third = one.roles
    return round(one.match_rate(2, 0), 9), (-third, first, second)


def assumed_plan(terms: JoinTerms, windows: Sequence[Window]) -> StashPlan:
    """The stash of a join of which the program alone is known.

    An equality is taken to have one partner in the larger window, and every stream the same share.
    Of the pairs that a condition links, the one whose third stream can use it best is stashed.
    """
    sizes = assumed_sizes(windows)
    match = {}
    for first, second in ((0, 1), (0, 2), (1, 2)):
        link = terms.link(second, (first,))
        one_partner = 1 / max(1, sizes[first], sizes[second])
        probability = {EQUALITY: one_partner, NOTHING: 1.0}.get(link, ASSUMED_MATCH)
        match[frozenset((first, second))] = probability

    def cost(one: _Estimates) -> tuple[float, float, tuple[int, int, int]]:
        return (round(one.of_pair, 3), *_preference(one))

    equal = [1 / STREAMS] * STREAMS
    roles = min((_Estimates(sizes, equal, match, roles) for roles in _ROLES), key=cost).roles
    size = max(1, min(DEFAULT_SIZE, *(sizes[input] for input in roles[:2])))
    why = "without estimates, the pair that the closest condition links"
    return StashPlan(*roles, size, why, is_measured=False)
