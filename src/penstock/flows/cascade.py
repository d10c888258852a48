"""``cascade``: a join of three and more streams as two-way joins whose results are stored.

The first two inputs join as in ``mjoin``. Their combinations join with the third input, those with
the fourth, and so on: each step stores what stands to its left
(:mod:`penstock.blocks.multiway.combination_join`), so that an arrival of its input is compared with
the combinations that are there, and not with one window after the other. What a step makes goes on
to the next at once.

Why it is exact. Take a row of the join, and its members in the order of the cascade. Every prefix
of them is formed once, at the arrival of the youngest of its members: by the arrival of the new
input, which finds the stored prefix before it, or, if that prefix is formed later, by the prefix,
which probes the window of the new input as it is at that rank. A stored prefix is live until the
first of its members expires; the ranks of that are known before a batch is compared. So a prefix
meets a tuple if and only if all members are live at the arrival of the youngest, as in ``mjoin``.
Each step compares the new member with all members of the prefix, so every two members meet the
condition of a two-way join, and every term of the predicate is evaluated where its last input
joins. The last step's combinations are the rows; they are sorted by the rank of the youngest
member, then by the members' numbers in the order of FROM.

An intermediate result is not a tuple of a derived stream: it takes no place in a count window, and
it expires with its members.

A row is made by the program in force at the arrival of its youngest member, also where a prefix of
it was formed under another one. So a change makes the stored combinations anew, from the tuples in
the windows, under the new program: of tuples that are live together now, each was live when the
younger ones arrived, so that the terms and the times decide. A restored block does the same, and
saves no combinations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.multiway.combination_join import (
    AT_ONCE,
    MET,
    PHASES,
    CombinationJoin,
    Formed,
    events_of,
    in_time,
    reach_of,
)
from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    TooManyCombinations,
    in_output_order,
    known,
)
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.multiway.stretch_search import Path, StretchSearch
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.blocks.window.reading import Reading
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.probe.buckets import gathered
from penstock.program.choose.cascade import cascade_order
from penstock.program.choose.probe_order import ProbeStage, staged
from penstock.sql.expressions import conjunction
from penstock.streams.windows import Range
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Pieces = Iterable[tuple[Formed, int, int]]


class Cascade:
    """The design ``cascade``, as a multiway join block uses it.

    ``most``: how many combinations it may store; None: as many as there are.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._program: SearchProgram | None = None
        self._failures = Failures()
        self._compared = 0
        self._matched = 0
        self._probed: list[int] = []
        self._search: StretchSearch | None = None
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        self._joins: list[CombinationJoin] = []
        self._dictionary = Dictionary()

    def program(self, program: SearchProgram) -> None:
        """Make the steps of a program, and the combinations of the tuples that the windows have."""
        self._compared = self.comparisons
        self._program = program
        self._probed = self._probed or [0] * len(program.sides)
        self._order = cascade_order(program.terms)
        self._dictionary = Dictionary()
        self._entries = {}
        first, second = self._order[:2]
        self._paths = {
            one: self._path(one, other) for one, other in ((first, second), (second, first))
        }
        self._search = StretchSearch(
            program, self._path_of, self._entries_of, self._dictionary, self._failures,
            put_together=self._pairs, inputs=(first, second),
        )  # fmt: skip
        self._joins = [
            CombinationJoin(
                input, self._order[:number], "inner", program.sides, program.sides[0].clock,
                self._entries_of, self._failures, self._note,
            )
            for number, input in enumerate(self._order)
            if number > 1
        ]  # fmt: skip
        for join in self._joins:
            join.program(self._stage(join.input, join.left), program.kernel)
            join.rebuild(self._dictionary)
        self._begin_with_stored()

    def _path_of(self, origin: int) -> Path:
        return self._paths[origin]

    def _path(self, origin: int, other: int) -> Path:
        """What a tuple of one of the first two inputs goes through."""
        assert self._program is not None
        order = staged(self._program.terms, origin, (other,))
        return order, [self._program.stage(plan) for plan in order.stages]

    def _stage(self, input: int, left: tuple[int, ...]) -> Stage:
        assert self._program is not None
        return self._program.stage(
            ProbeStage(input, left, *self._program.terms.of_stage(input, left))
        )

    def _entries_of(self, stage: Stage) -> WindowKeys:
        found = self._entries.get(stage.identity)
        if found is None:
            program = self._program
            assert program is not None
            found = program.keys(stage, self._dictionary)
            self._entries[stage.identity] = found
        return found

    def _note(self, comparisons: int) -> None:
        self._compared += comparisons

    # -- the combinations of stored tuples ------------------------------------------------------

    def _begin_with_stored(self) -> None:
        """Let each step have the combinations of the tuples that are in the windows to its left.

        The next batch says which members have expired.
        """
        assert self._program is not None
        sides, first = self._program.sides, self._order[0]
        order, (stage,) = self._paths[first]
        members: list[Indices | None] = [None] * len(sides)
        rows = sides[first].rows
        members[first] = np.arange(rows.first, rows.next)
        if order.filter and len(rows):
            reading = Reading.of([conjunction(order.filter)])
            inputs = reading.inputs(sides, members, len(rows))
            passed = np.flatnonzero(select(inputs, reading.expressions[0], Failures()))
            members[first] = passed + rows.first
        for join in self._joins:
            members = self._extended(members, stage)
            join.begin_with(tuple(known(members[number]) for number in join.left))
            stage = join.stage

    def _extended(self, members: Sequence[Indices | None], stage: Stage) -> list[Indices | None]:
        """Combinations of stored tuples, each with one more member."""
        assert self._program is not None
        sides = self._program.sides
        new, bound = sides[stage.input], [sides[number] for number in stage.bound]
        of_bound = [known(members[number]) for number in stage.bound]
        count = len(of_bound[0])
        timed = any(isinstance(side.window, Range) for side in bound)
        times, expiry = reach_of(bound, of_bound, count, new.clock)
        seen = np.full(count, new.newest)
        ranges = new.ranges(seen, lambda: (times, expiry if timed else None))
        entries = self._entries_of(stage)
        found = stage.search(
            entries, sides, members, ranges, self._most, self._dictionary, Failures(), self._note
        )
        if found is None:
            raise TooManyCombinations(0)
        chosen, seqs = found >> 32, entries.numbers_of(found & 0xFFFFFFFF)
        fits = np.ones(len(found), np.bool_)
        for side, one in zip(bound, of_bound, strict=True):
            if isinstance(side.window, Range) != isinstance(new.window, Range):
                fits &= in_time(side, new, one[chosen], seqs)
        chosen, seqs = chosen[fits], seqs[fits]
        made = [None if some is None else some[chosen] for some in members]
        made[stage.input] = seqs
        return made

    # -- a batch ----------------------------------------------------------------------------

    def take(self, arrived: Arrived) -> Iterator[Combinations]:
        """The combinations of a batch, in order."""
        assert self._program is not None and self._search is not None
        self._store(arrived)
        for number, ranks in enumerate(arrived.ranks.tuples):
            self._probed[number] += len(ranks)
        events = events_of(self._program.sides, arrived)
        for join in self._joins:
            join.begin(events)
        pieces: Pieces = self._formed(arrived)
        for join in self._joins:
            pieces = _through(join, pieces)
        yield from self._in_order(pieces)
        for join in self._joins:
            join.finish()

    def _store(self, arrived: Arrived) -> None:
        """Drop the keys of tuples that the block has dropped, and store those of new ones."""
        assert self._program is not None
        for identity, entries in self._entries.items():
            input = identity[0]
            entries.drop_before(self._program.sides[input].rows.first)
            batch = arrived.admitted[input].batch
            if batch.num_rows:
                entries.append(batch, self._failures)

    def _formed(self, arrived: Arrived) -> Iterator[tuple[Formed, int, int]]:
        """The combinations of the first two inputs, in pieces, as a step takes them."""
        assert self._search is not None
        for found, start, end in self._search.pieces(arrived, 0, arrived.ranks.count):
            members = tuple(known(found.members[number]) for number in self._order[:2])
            bound = start * PHASES + AT_ONCE if end is None else end * PHASES
            yield Formed(found.ranks * PHASES + MET, members), start, bound

    def _pairs(self, parts: Sequence[Combinations], inputs: int) -> Combinations:
        """Pairs of the first two inputs, by rank."""
        nothing = np.empty(0, np.int64)
        ranks = np.concatenate([nothing, *(part.ranks for part in parts)])
        order = np.argsort(ranks, kind="stable")
        members: list[Indices | None] = [None] * inputs
        for number in self._order[:2]:
            seqs = [nothing, *(known(part.members[number]) for part in parts)]
            members[number] = gathered(np.concatenate(seqs), order)
        return Combinations(gathered(ranks, order), tuple(members))

    def _in_order(self, pieces: Pieces) -> Iterator[Combinations]:
        """The rows, sorted. A rank that comes in several pieces is sorted as a whole."""
        assert self._program is not None
        inputs, waiting = len(self._program.sides), []
        for formed, _, bound in pieces:
            members: list[Indices | None] = [None] * inputs
            for number, seqs in zip(self._order, formed.members, strict=True):
                members[number] = seqs
            if len(formed):
                waiting.append(Combinations(formed.ranks, tuple(members)))
            if bound % PHASES:
                continue
            if waiting:
                found = in_output_order(waiting, inputs)
                self._matched += len(found)
                waiting = []
                for start in range(0, len(found), TUNING.pairs_per_step):
                    yield found.part(start, min(len(found), start + TUNING.pairs_per_step))
            if self._most is not None and self._stored > self._most:
                raise TooManyCombinations(bound // PHASES)

    @property
    def _stored(self) -> int:
        """The combinations that all steps have stored, of which some may have ended."""
        return sum(len(join.window) for join in self._joins)

    # -- questions --------------------------------------------------------------------------

    def measures(self) -> dict[str, Any]:
        """The figures of its core; ``combinations`` are those that each step has stored."""
        kernels = [entries.kernel for entries in self._entries.values()]
        stored = [] if self._program is None else [s.rows.next for s in self._program.sides]
        figures = {
            "core": 0,
            "stored": stored,
            "probed": list(self._probed),
            "matched": self._matched,
            "comparisons": self.comparisons,
            "window": [] if self._program is None else [len(s.rows) for s in self._program.sides],
            "combinations": [len(join.window) for join in self._joins],
            "kernels": kernels,
        }
        return {"cores": [figures]}

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._compared + (0 if self._search is None else self._search.comparisons)

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self._failures.count

    @property
    def is_wasteful(self) -> bool:
        """Whether most values of the dictionary may be of expired tuples."""
        sides = () if self._program is None else self._program.sides
        return is_outgrown(self._dictionary, sides)

    @property
    def nbytes(self) -> int:
        """The memory of the combinations, of the keys and of their indexes."""
        entries = sum(entries.nbytes for entries in self._entries.values())
        return entries + sum(join.nbytes for join in self._joins)

    def close(self) -> None:
        """Nothing to stop: it has no threads."""


def _through(join: CombinationJoin, pieces: Pieces) -> Iterator[tuple[Formed, int, int]]:
    """What a step makes of the combinations that come to it."""
    for formed, start, bound in pieces:
        yield from join.take(formed, start, bound)
