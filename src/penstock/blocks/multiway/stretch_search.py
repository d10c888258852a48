"""The search of ``mjoin``: the combinations of a stretch of ranks, stage by stage.

Why it is exact is said in :mod:`penstock.blocks.multiway.block`. A combination belongs to the
arrival of its youngest member, so it is in one stretch: stretches can be searched one after the
other or at the same time, and what they give, one behind the other, is in output order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    WindowView,
    in_output_order,
)
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.window.keys import WindowKeys
from penstock.blocks.window.steps import Steps
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import ProbeOrder
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]
"""Of each window, the tuples that count: the first, and the one after the last, by index among all
that the block has."""
Path = tuple[ProbeOrder, Sequence[Stage]]
"""What the tuples of an origin go through."""


class StretchSearch:
    """Finds the combinations of a batch, in steps of a bounded size.

    Parameters
    ----------
    program
        The join.
    path
        The stages of an origin.
    entries
        The keys that a stage searches.
    dictionary
        What encodes them.
    failures
        What counts failed expressions.
    put_together
        What makes one of several sets of combinations; without it they leave in output order.
    inputs
        The inputs that a combination has members of; all, where that is not given.
    """

    def __init__(
        self,
        program: SearchProgram,
        path: Callable[[int], Path],
        entries: Callable[[Stage], WindowKeys],
        dictionary: Dictionary,
        failures: Failures,
        put_together: Callable[[Sequence[Combinations], int], Combinations] = in_output_order,
        inputs: Sequence[int] | None = None,
    ) -> None:
        self._program = program
        self._path = path
        self._entries = entries
        self._dictionary = dictionary
        self._failures = failures
        self._begin = program.begin
        self._put_together = put_together
        self._inputs = range(len(program.sides)) if inputs is None else inputs
        self._steps = Steps(TUNING.pairs_per_step)
        self.comparisons = 0
        self.probed = [0 for _ in program.sides]
        """Of each origin, how many arrivals have probed."""
        self.made = [0 for _ in program.sides]
        """How many combinations they have become, in all stages together."""
        self.intermediate = [0 for _ in program.sides]
        """By origin, the combinations that were not complete."""

    def found(self, arrived: Arrived, start: int, stop: int) -> Iterator[Combinations]:
        """The combinations of the arrivals ranked ``start .. stop - 1``, in order."""
        return (found for found, _, _ in self.pieces(arrived, start, stop) if len(found))

    def pieces(
        self, arrived: Arrived, start: int, stop: int
    ) -> Iterator[tuple[Combinations, int, int | None]]:
        """As :meth:`found`, each with its first rank and the one before which all have come.

        None for the latter: there are more of the first rank.
        """
        search, most = partial(self.stretch, arrived), TUNING.pairs_per_step
        for found, first, after in self._steps.through(start, stop, most, search, len):
            if found is None:
                for one in self.one(arrived, first):
                    yield one, first, None
                found = self._put_together((), len(self._program.sides))
            yield found, first, after

    def stretch(self, arrived: Arrived, start: int, stop: int) -> Combinations | None:
        """The combinations of the arrivals ranked ``start .. stop - 1``; None if too many."""
        parts: list[Combinations] = []
        for origin in self._inputs:
            ranks = arrived.ranks.tuples[origin]
            found = self.of_origin(arrived, origin, start, stop) if len(ranks) else None
            if found is None and len(ranks):
                return None
            if found is not None and len(found):
                parts.append(found)
        return self._put_together(parts, len(self._program.sides))

    def of_origin(
        self, arrived: Arrived, origin: int, start: int, stop: int
    ) -> Combinations | None:
        """Those that begin with a tuple of one origin, by rank; None if too many."""
        order, stages = self._path(origin)
        begun = self._begin(arrived, order, start, stop, self._failures)
        made, found = len(begun), begun
        for stage in stages:
            if not len(found):
                break
            more = self._extended(arrived, origin, stage, found, TUNING.pairs_per_step)
            if more is None:
                return None
            made, found = made + len(more), more
        self.probed[origin] += len(begun)
        self.made[origin] += made
        return found

    def one(self, arrived: Arrived, rank: int) -> Iterator[Combinations]:
        """The combinations of one arrival that has too many to find at once.

        An empty set of them comes after every call of a kernel, so that the caller may pause.
        """
        for origin in self._inputs:
            if rank in arrived.ranks.tuples[origin]:
                order = self._path(origin)[0]
                begun = self._begin(arrived, order, rank, rank + 1, self._failures)
                self.probed[origin] += len(begun)
                every = tuple(
                    (0, len(side.rows) if side.index in self._inputs else 0)
                    for side in self._program.sides
                )
                yield from self._within(arrived, origin, begun, every)

    def _within(
        self, arrived: Arrived, origin: int, begun: Combinations, spans: Spans
    ) -> Iterator[Combinations]:
        """What one arrival becomes with entries in a span of each window, sorted.

        If that is too much, the first window in FROM that can be is divided: all combinations with
        its older half come before those with its younger half.
        """
        stages = self._path(origin)[1]
        found = yield from self._through(
            arrived, origin, stages, begun, spans, TUNING.pairs_per_step
        )
        if found is not None:
            yield self._put_together(found, len(self._program.sides))
            return
        divided = next(i for i, (a, b) in enumerate(spans) if i != origin and b - a > 1)
        first, last = spans[divided]
        middle = (first + last) // 2
        for half in ((first, middle), (middle, last)):
            part = (*spans[:divided], half, *spans[divided + 1 :])
            yield from self._within(arrived, origin, begun, part)

    def _through(
        self,
        arrived: Arrived,
        origin: int,
        stages: Sequence[Stage],
        begun: Combinations,
        spans: Spans,
        most: int,
    ) -> Generator[Combinations, None, list[Combinations] | None]:
        """What combinations become by the stages; None if that is more than ``most``.

        Where a stage makes too many intermediate results at once, it takes half of them at a time.
        Gives no combinations after every call of a kernel.
        """
        if not len(begun):
            return []
        if not stages:
            return [begun] if len(begun) <= most else None
        limit = TUNING.pairs_per_step if len(begun) > 1 else None
        found = self._extended(arrived, origin, stages[0], begun, limit, spans)
        yield self._put_together((), len(self._program.sides))
        if found is not None:
            rest = yield from self._through(arrived, origin, stages[1:], found, spans, most)
            return rest
        middle = len(begun) // 2
        made: list[Combinations] = []
        for part in (begun.part(0, middle), begun.part(middle, len(begun))):
            left = most - sum(map(len, made))
            more = yield from self._through(arrived, origin, stages, part, spans, left)
            if more is None:
                return None
            made += more
        return made

    def _extended(
        self,
        arrived: Arrived,
        origin: int,
        stage: Stage,
        given: Combinations,
        most: int | None,
        spans: Spans | None = None,
    ) -> Combinations | None:
        """The combinations with a member of one more input; None if there are too many.

        ``spans``: of each window, only tuples in its span count.
        """
        seen = arrived.ranks.seen(given.ranks, stage.input)
        first, after = (0, None) if spans is None else spans[stage.input]
        view = WindowView(
            self._entries(stage), self._dictionary, seen, first, self._failures, self._note, after
        )
        found = self._program.extend(arrived, origin, stage, given, most, view)
        if found is not None and len(stage.bound) + 1 < len(self._inputs):
            self.intermediate[origin] += len(found)
        return found

    def _note(self, comparisons: int) -> None:
        self.comparisons += comparisons
