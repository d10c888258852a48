"""The Filter Unit of an OP-Block: it decides on whole tuples (Najafi 2019 §4.1.3, §4.3).

A tuple comes in segments, and each segment of a result has a bit for every clause of the query's
condition: whether a comparison in this segment makes the clause true. The Filter Unit has a buffer
for those bits. It ORs a clause's bits over the segments; after the last segment, the tuples whose
bits are all set pass. That is the condition: a clause is true if any of its comparisons is,
whichever segment this one's columns are in, and the condition is true if all its clauses are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from penstock.errors import InputError
from penstock.kernels.expressions.vector import Mask
from penstock.streams.display import counted, listed

REMEDY = "Send the segments of a run once each, in their order, before those of the next run."


class FilterUnit:
    """The clause bits of one run of tuples, until its last segment has come.

    Parameters
    ----------
    segments
        How many segments a tuple has.
    clauses
        How many clauses the condition has.
    """

    def __init__(self, segments: int, clauses: int) -> None:
        self._segments = segments
        self._clauses = clauses
        self._tuples = 0
        self._come = 0
        self._bits: list[Mask | None] = []

    def begin(self, tuples: int) -> None:
        """Start with a run; every tuple of the run before has been decided."""
        if 0 < self._come < self._segments:
            missing = [str(number) for number in range(self._come + 1, self._segments + 1)]
            raise InputError(
                f"of a run of {counted(self._tuples, 'tuple')} in "
                f"{counted(self._segments, 'segment')}, the "
                f"{'segment' if len(missing) == 1 else 'segments'} {listed(missing)} never came",
                REMEDY,
            )
        self._tuples, self._come = tuples, 0
        self._bits = [None] * self._clauses

    def take(self, segment: int, results: Iterable[tuple[Sequence[int], Mask]]) -> Mask | None:
        """Take the results of a segment, numbered from 0; after the last, which tuples pass.

        Each result has the clauses that it counts for, and a bit for every tuple.
        """
        if segment != self._come:
            raise InputError(
                f"segment {segment + 1} of {self._segments} came where segment {self._come + 1} "
                "was due",
                REMEDY,
            )
        for clauses, bits in results:
            for clause in clauses:
                known = self._bits[clause]
                self._bits[clause] = bits if known is None else known | bits
        self._come += 1
        if self._come < self._segments:
            return None
        passed = np.ones(self._tuples, np.bool_)
        for known in self._bits:
            passed &= False if known is None else known
        return passed
