"""What an index may be laid out by, and which of it lets the fewest tuples through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.bucket_index import Numbers, limits, slack_of
from penstock.kernels.constraints import Constraint, Dimension, constraints, dimensions
from penstock.kernels.nested_loop import Columns
from penstock.kernels.predicate import Predicate

Array = npt.NDArray[Any]

SAMPLE = 256
TOO_MANY = 0.25
"""If a probe would have to look at a larger share of the entries, the nested loop is faster."""


@dataclass(frozen=True)
class Choice:
    """What a segment is laid out by."""

    equal: tuple[tuple[int, int], ...] = ()
    dims: tuple[Dimension, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name."""
        if self.equal:
            return "hash"
        if not self.dims:
            return "nested-loop"
        both = any(d.lower is not None and d.upper is not None for d in self.dims)
        return "band" if both else "sorted"


class Offers:
    """What the predicate offers to index one stored side by; ``kernel`` may narrow it down."""

    def __init__(self, predicate: Predicate, stored_side: int, kernel: str) -> None:
        self._predicate = predicate
        self._side = stored_side
        found = constraints(predicate, stored_side)
        text = {"code", "truth"}
        keys = predicate.keys[stored_side]
        equal = tuple((c.stored, c.probe) for c in found if c.equal)
        ranges = [c for c in found if keys[c.stored].kind not in text]
        self._equal = equal if kernel in ("auto", "hash") else ()
        dims = dimensions(ranges) if kernel != "hash" else []
        if kernel == "sorted":
            dims = [Dimension(c.stored, *_halves(c)) for c in ranges]
        self._dims = dims

    @property
    def any(self) -> bool:
        """Whether there is anything."""
        return bool(self._equal or self._dims)

    def choose(self, stored: Columns, probe: Columns, before: Choice) -> Choice:
        """What lets the fewest tuples through, judged by a sample of both sides.

        It stays what it was ``before`` if nobody probes.
        """
        ours, theirs = _sample(stored.keys), _sample(probe.keys)
        if not len(theirs[0]):
            return before
        best: tuple[float, Choice] = (TOO_MANY, Choice())
        if self._equal:
            same = np.ones((len(theirs[0]), len(ours[0])), np.bool_)
            for s, p in self._equal:
                same &= theirs[p][:, None] == ours[s]
            best = (max(float(same.mean()) - 1e-9, 0.0), Choice(self._equal))
            if best[0] > TOO_MANY:
                best = (TOO_MANY, Choice())
        shares = sorted(self._shares(ours, theirs), key=lambda pair: pair[0])
        for share, dim in shares[:1]:
            both = [
                d
                for _, d in shares[1:]
                if d.stored != dim.stored and (d.stored, d.other) != (dim.other, dim.stored)
            ]
            if dim.lower is None or dim.upper is None:
                both = []  # it has no width, so there can be no rows as wide as it
            dims = (dim, *both[:1])
            total = share * min((s for s, d in shares if d in both[:1]), default=1.0)
            if total < best[0]:
                best = (total, Choice(dims=dims))
        return best[1]

    def _shares(
        self, ours: Sequence[Array], theirs: Sequence[Array]
    ) -> list[tuple[float, Dimension]]:
        """For each dimension, the share of entries that a probe must look at."""
        values, probes = self._numbers(self._side, ours), self._numbers(1 - self._side, theirs)
        found = []
        for dim in self._dims:
            low, high = limits(dim, probes, slack_of(dim, values))
            inside = np.ones((len(theirs[0]), len(ours[0])), np.bool_)
            with np.errstate(invalid="ignore"):
                if low is not None:
                    inside &= values[dim.stored] >= low[:, None]
                if high is not None:
                    inside &= values[dim.stored] <= high[:, None]
            found.append((float(inside.mean()), dim))
        return found

    def widths(self, choice: Choice, stored: Columns, probe: Columns) -> list[float]:
        """How wide a range probes ask for, in each chosen dimension."""
        probes = self._numbers(1 - self._side, _sample(probe.keys))
        values = self._numbers(self._side, _sample(stored.keys))
        widths = []
        for dim in choice.dims:
            low, high = limits(dim, probes, slack_of(dim, values))
            with np.errstate(invalid="ignore", over="ignore"):
                width = np.inf if low is None or high is None else float(np.median(high - low))
            widths.append(width if width == width else np.inf)
        return widths

    def _numbers(self, side: int, keys: Sequence[Array]) -> Numbers:
        return Numbers(self._predicate.keys[side], keys)


def _halves(constraint: Constraint) -> tuple[Constraint | None, Constraint | None]:
    """The constraint as an upper and as a lower bound, where it is one."""
    upper = constraint if constraint.high < float("inf") else None
    return upper, constraint if constraint.low > float("-inf") else None


def _sample(keys: Sequence[Array]) -> list[Array]:
    """Evenly spread elements of each column."""
    count = len(keys[0]) if keys else 0
    picked = np.linspace(0, max(count - 1, 0), min(count, SAMPLE)).astype(np.int64)
    return [key[picked] for key in keys]
