"""The first stage of Stashed-MJ: W_S1, W_S2 and the stash (Najafi 2019 §6.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.multiway.combination_search import (
    Combinations,
    NewcomersView,
    SearchProgram,
)
from penstock.blocks.multiway.stage import Stage
from penstock.flows.circular.stage import JoinCore
from penstock.flows.multi_flow import IN, RESULTS, IntermediateResults, NewTuples
from penstock.flows.network.network import Port, Sent
from penstock.flows.stashed.stash import AnyStash, Interval
from penstock.flows.stashed.storage import ResultStorageUnit, Roles, StorageAndExpirationUnit
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import NOTHING, ProbeOrder
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
OUT = "out"
GRANTED = "granted"
"""By it a chunk leaves the first stage, once its pairs have been granted storage."""


@dataclass(frozen=True, eq=False)
class RecomputedResults(IntermediateResults):
    """What tuples of S3 have found in an interval to recompute.

    Of the stream that is not bound yet, they need the tuples that came after the member of the
    interval, if that stream is the ``younger`` one, else those that came before it; in either case
    before the chunk.
    """

    younger: int


def in_messages(
    given: Combinations, extend: Callable[[Combinations, int | None], Combinations | None]
) -> Iterator[tuple[Combinations, bool]]:
    """What becomes of combinations, a message's worth at a time, and whether it is the last."""
    start, count = 0, max(1, len(given))
    while True:
        most = TUNING.pairs_per_message if count > 1 else None
        found = extend(given.part(start, start + count), most)
        if found is None:
            count = max(1, count // 2)
            continue
        start += count
        yield found, start >= len(given)
        if start >= len(given):
            return


class FirstStage:
    """The stage of S1, S2 and the stash.

    An arrival of S1 is compared with W_S2, one of S2 with W_S1. The pairs go to the second stage,
    and by the result storage unit into the stash. An arrival of S3 is compared with the stash, and
    leaves the pipeline here; if the stash is invalid, it is compared with what must be recomputed,
    and goes on to the second stage.

    Parameters
    ----------
    program, roles
        The join.
    orders
        The probe orders of all inputs.
    newcomers
        What new tuples of S3 must satisfy to join a pair.
    windows
        W_S1 and W_S2, as this stage reads them.
    storage
        The S1 & S2 storage and expiration unit.
    stash
        None if it is disabled.
    """

    def __init__(
        self,
        program: SearchProgram,
        roles: Roles,
        orders: Sequence[ProbeOrder],
        newcomers: Stage,
        windows: Sequence[JoinCore],
        storage: StorageAndExpirationUnit,
        stash: AnyStash | None,
    ) -> None:
        self.name = "stage 1"
        self.inputs = [IN]
        self._program = program
        self._roles = roles
        self._orders = orders
        self._newcomers = newcomers
        self.windows = windows
        self.storage = storage
        self.results: ResultStorageUnit | None = None
        self.use(stash)
        self.condition = self._pair_condition()
        self._failures = Failures()
        self._compared = 0
        self.counts = {"matched": 0, "hits": 0, "partial": 0, "misses": 0}
        self.stored = [0 for _ in program.sides]
        self.probed = [0 for _ in program.sides]

    def use(self, stash: AnyStash | None) -> None:
        """Compare arrivals of S3 with this stash from now on; nothing is under way."""
        self.stash = stash
        if stash is not None:
            self.results = ResultStorageUnit(self._program, self._roles, stash)

    def take_over(self, before: FirstStage) -> None:
        """Go on with the stash of the program before, if its pairs are those of this program."""
        if self.stash is not None and self.condition == before.condition:
            self.use(before.stash)

    def _pair_condition(self) -> tuple[Any, ...]:
        """What the pairs of the stash, their numbers and their order depend on."""
        first, second = self._roles.pair
        sides, order = self._program.sides, self._orders[first]
        windows = [(sides[input].window, sides[input].numbering) for input in (first, second)]
        links = [
            self._program.terms.link(input, (self._roles.third,)) == NOTHING
            for input in (first, second)
        ]
        times = [side.time for side in sides]
        size = None if self.stash is None else self.stash.size
        terms = order.filter, order.stages[0].terms
        return self._roles, terms, windows, links, times, size, self._program.part

    def needs(self, port: Port) -> Sequence[Port]:
        """A chunk needs room for results on either way, and to leave."""
        return (OUT, RESULTS, GRANTED)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a stage makes messages of messages."""
        return ()

    def step(self, port: Port, tuples: NewTuples) -> Iterator[Sent]:
        """Store a chunk and send it on; process its arrivals; then let the stash have its pairs.

        When they expire depends on the block's punctuations, so the batch lasts until then.
        """
        live = self.storage.begin_with(tuples)
        if self.stash is not None:
            self.stash.expire(live)
        yield OUT, tuples
        self.storage.store(tuples)
        for input in tuples.origins:
            self.probed[input] += self._processed(tuples, input)
            if input in self._roles.pair:
                self.stored[input] += self._program.stored(input, *self._numbers(tuples, input))
        for younger, origin in enumerate(self._roles.pair):
            if origin in tuples.origins:
                yield from self._process_pair(tuples, younger, origin)
        if self._roles.third in tuples.origins:
            yield from self._process_third(tuples)
        live = self.storage.expire(tuples)
        if self.stash is not None and self.results is not None:
            self.stash.expire(live)
            self.results.grant(live)
        yield GRANTED, tuples

    def _numbers(self, tuples: NewTuples, input: int) -> tuple[int, int]:
        """The number of the first tuple of a chunk, and the one after the last."""
        side, (start, stop) = self._program.sides[input], tuples.spans[input]
        first = side.rows.next - side.newest
        return first + start, first + stop

    def _processed(self, tuples: NewTuples, input: int) -> int:
        """How many arrivals of a chunk begin here."""
        return self._program.processed(input, *self._numbers(tuples, input))

    # -- arrivals of S1 and S2 ------------------------------------------------------------------

    def _process_pair(self, tuples: NewTuples, younger: int, origin: int) -> Iterator[Sent]:
        """Compare arrivals with the other window of the pair."""
        other = 1 - younger
        for found, is_over in self._looked_up(tuples, origin, other):
            if self.results is not None:
                self.results.take(younger, found)
            yield (
                OUT,
                IntermediateResults(tuples.number, origin, tuples.arrived, found, is_over),
            )

    def _looked_up(
        self, tuples: NewTuples, origin: int, place: int, span: tuple[int, int] | None = None
    ) -> Iterator[tuple[Combinations, bool]]:
        """The arrivals of an origin with tuples of W_S1 (``place`` 0) or W_S2 (1).

        ``span``: only with those of these numbers.
        """
        core, input, arrived = self.windows[place], self._roles.pair[place], tuples.arrived
        side = self._program.sides[input]
        first, after = (side.rows.first, None) if span is None else span

        def extend(given: Combinations, most: int | None) -> Combinations | None:
            before = arrived.ranks.seen(given.ranks, input) + (side.rows.next - side.newest)
            return core.lookup(arrived, origin, given, most, before, first, after)

        begun = self._program.begin(arrived, self._orders[origin], *tuples.ranks, self._failures)
        for found, is_over in in_messages(begun, extend):
            self.counts["matched"] += len(found)
            yield found, is_over

    # -- arrivals of S3 -------------------------------------------------------------------------

    def _process_third(self, tuples: NewTuples) -> Iterator[Sent]:
        """Compare arrivals with the stash if it has all pairs, else with what must be recomputed.

        In the latter case all results go by the second stage, so that the set ends there.
        """
        number, third, arrived = tuples.number, self._roles.third, tuples.arrived
        arrivals = self._processed(tuples, third)
        missing = self._missing()
        if missing is None:
            self.counts["misses"] += arrivals
            for found, is_over in self._looked_up(tuples, third, 0):
                yield OUT, IntermediateResults(number, third, arrived, found, is_over)
            return
        self.counts["partial" if missing else "hits"] += arrivals
        output = OUT if missing else RESULTS
        for found, is_over in self._met(tuples):
            is_end = is_over and not missing
            yield output, IntermediateResults(number, third, arrived, found, is_end)
        for interval in missing:
            is_last = interval is missing[-1]
            yield from self._recompute(tuples, interval, is_last)

    def _missing(self) -> Sequence[Interval] | None:
        """What the stash and the result storage unit do not have; None: use neither."""
        if self.stash is None or self.results is None or not self.results.is_complete:
            return None
        return self.stash.missing(self.storage.live)

    def _met(self, tuples: NewTuples) -> Iterator[tuple[Combinations, bool]]:
        """The pairs of the stash and of the result storage unit with new tuples of S3."""
        assert self.stash is not None and self.results is not None
        third = self._roles.third
        pairs = self.results.held(self.stash.known(self.storage.live))
        dictionary = Dictionary()
        first, _ = self._numbers(tuples, third)
        entries = self._program.keys(
            self._newcomers, dictionary, tuples=(first, [tuples.batch_of(third)])
        )
        view = NewcomersView(entries, dictionary, tuples.spans[third], self._failures, self._note)

        def meet(given: Combinations, most: int | None) -> Combinations | None:
            return self._program.meet(tuples.arrived, self._newcomers, given, most, view)

        for found, is_over in in_messages(pairs, meet):
            self.counts["matched"] += len(found)
            yield found, is_over

    def _recompute(self, tuples: NewTuples, interval: Interval, is_last: bool) -> Iterator[Sent]:
        """Compare arrivals with an interval of a window; the second stage adds the partners."""
        younger = self._roles.pair[interval.younger]
        for span in interval.spans:
            is_end = is_last and span is interval.spans[-1]
            for found, is_over in self._looked_up(
                tuples, self._roles.third, interval.indexed, span
            ):
                yield (
                    OUT,
                    RecomputedResults(
                        tuples.number,
                        self._roles.third,
                        tuples.arrived,
                        found,
                        is_end and is_over,
                        younger,
                    ),
                )

    def _note(self, comparisons: int) -> None:
        self._compared += comparisons

    # -- questions --------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._compared + sum(core.comparisons for core in self.windows)

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self._failures.count + sum(core.failures.count for core in self.windows)

    @property
    def is_wasteful(self) -> bool:
        """Whether most of its memory is for what has expired."""
        return any(core.is_wasteful for core in self.windows)

    @property
    def nbytes(self) -> int:
        """The memory of its keys and indexes, and of the stash."""
        stash = 0 if self.stash is None else self.stash.nbytes
        return stash + sum(core.nbytes for core in self.windows)

    def measures(self) -> dict[str, Any]:
        """What it has stored, processed and found, and the state of the stash.

        ``hits`` are arrivals of S3 that were compared with the stash alone, ``partial`` those for
        which an interval was recomputed, ``misses`` the others.
        """
        window = [0 for _ in self.stored]
        live = self.storage.live
        each = zip(self._roles.pair, live.firsts, live.following, strict=True)
        for input, first, following in each:
            window[input] = self._program.stored(input, first, following)
        return {
            "stored": list(self.stored),
            "probed": list(self.probed),
            "matched": self.counts["matched"],
            "comparisons": self.comparisons,
            "window": window,
            "kernels": [core.kernel for core in self.windows],
            "stash": [self._stash_measures()],
        }

    def _stash_measures(self) -> dict[str, Any]:
        stash, counts = self.stash, self.counts
        arrivals = {name: counts[name] for name in ("hits", "partial", "misses")}
        streams = list(self._roles.pair)
        if stash is None:
            return {"state": "disabled", "streams": streams, **arrivals}
        return {
            "state": "valid" if stash.is_valid else "invalid",
            "streams": streams,
            "size": stash.size,
            "fill": stash.fill,
            "overwrites": stash.overwrites,
            "recoveries": stash.recoveries,
            **arrivals,
        }
