"""Finding pairs: candidate ranges for a kernel, the kernel, the residual after it, the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join.partner_search import Rule
from penstock.blocks.join.side import JoinSide, KeyValues
from penstock.blocks.lateness import Admitted, Ranks
from penstock.blocks.window.live_ranges import window_ranges
from penstock.blocks.window.probe import Probe, every_live
from penstock.blocks.window.punctuator import Ticks
from penstock.kernels.compiled import Loader
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.merging import (
    live_total,
    name_pairs,
    places,
    three,
)
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.overflow import stays_in_range
from penstock.kernels.predicate.predicate import KeyOperand, Predicate, has_arithmetic
from penstock.kernels.probe.entry_index import EntryIndex, SearchStats
from penstock.kernels.probe.first_match import FirstMatches
from penstock.kernels.probe.nested_loop import Columns, Pairs
from penstock.kernels.probe.sweep import Arrivals, sweep
from penstock.program.isa.block_instructions import JoinStreams
from penstock.sql.expressions import (
    TRUE,
    Column,
    Expression,
    conjunction,
    conjuncts,
    rebuild,
    walk,
)
from penstock.streams.windows import Range, Rows
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
LONGEST_WORDS = 1 << 22
"""Bytes that the values of a dictionary may have, whatever the size of the windows."""


@dataclass(frozen=True)
class Residual:
    """The part of a predicate that a kernel leaves: a condition on pairs, and its columns."""

    condition: Expression
    columns: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, condition: Expression) -> Residual:
        read: tuple[set[int], set[int]] = (set(), set())
        for node in walk(condition):
            if isinstance(node, Column):
                read[node.side].add(node.index)
        columns = (tuple(sorted(read[0])), tuple(sorted(read[1])))

        places = [{column: place for place, column in enumerate(side)} for side in columns]

        def renumber(node: Expression) -> Expression:
            if isinstance(node, Column):
                return replace(node, index=places[node.side][node.index])
            return rebuild(node, renumber)

        return cls(renumber(condition), columns)


@dataclass(frozen=True)
class Probes:
    """The probing tuples of one side: their numbers, their candidate ranges, and their keys.

    ``ranks`` are those of all the side's arrivals, ``at`` those of the ones that probe; ``stored``
    are the columns that they search.
    """

    numbers: Indices
    first_seq: int
    lo: Indices
    hi: Indices
    columns: Columns
    ranks: Indices
    at: Indices
    stored: Columns


@dataclass
class Tally:
    """Counts of a search; they count for the block once its pairs are used."""

    probed: list[int] = field(default_factory=lambda: [0, 0])
    comparisons: int = 0
    failures: Failures = field(default_factory=Failures)
    searches: list[tuple[EntryIndex, SearchStats, int, int]] = field(default_factory=list)


class Matcher:
    """The current predicate of a join block."""

    def __init__(
        self,
        sides: tuple[JoinSide, JoinSide],
        failures: Failures,
        load: Loader,
        one_partner: bool = False,
    ) -> None:
        """``one_partner``: one partner of a left tuple is enough."""
        self._sides = sides
        self.failures = failures
        self._load = load
        self._one_partner = one_partner
        self.dictionary = Dictionary()
        self.encodes = False
        """Whether keys go through the dictionary, which both sides write to."""
        self.comparisons = 0

    def program(self, instruction: JoinStreams) -> None:
        """Take another predicate. The keys of stored tuples are recomputed."""
        self._filters = instruction.filters
        self.predicate = Predicate.of(instruction.compiled, self._load)
        self._no_predicate = Predicate.of(TRUE, self._load)
        self._computes = has_arithmetic(self.predicate.condition)
        self._residual = Residual.of(instruction.residual)
        # What takes the kernel's place when its sums might overflow.
        self._everything = Residual.of(
            conjunction(conjuncts(instruction.compiled) + conjuncts(instruction.residual))
        )
        self._kernel_name = instruction.kernel
        if instruction.kernel != "nested-loop" and not instruction.kernel_is_forced:
            self._kernel_name = "auto"
        self._constants = [constant_of(k.value, k.type) for k in self.predicate.constants]
        self.encodes = any(key.kind == "code" for keys in self.predicate.keys for key in keys)
        self.rebuild()

    def rebuild(self) -> None:
        """Recompute the keys of all stored tuples, with a new dictionary."""
        self.dictionary = Dictionary()
        for side in self._sides:
            keys = self.predicate.keys[side.index]
            index = None
            if self._kernel_name != "nested-loop" and keys and side.stores_keys:
                name = self._kernel_name
                index = EntryIndex(self.predicate, side.index, name, self._one_partner)
            usable = index is not None and index.usable
            side.set_keys(
                self._filters[side.index], keys, self.dictionary, index if usable else None
            )

    def rule(self, window_rows: tuple[int | None, int | None], clock_lowest: int | float) -> Rule:
        """The predicate for the cores of a flow."""
        constants = tuple(self._constants)
        name = self._kernel_name
        return Rule(self.predicate, constants, name, window_rows, clock_lowest)

    def passing(self, left: Indices, right: Indices, compiled: bool) -> Indices | None:
        """Which pairs of a kernel pass the rest of the predicate; None: there is no rest.

        Without ``compiled``, the kernel has not evaluated any of the predicate.
        """
        residual = self._residual if compiled else self._everything
        if residual.condition == TRUE:
            return None
        passed = self._passes(residual, self._sides[0], left, right, self.failures)
        return np.flatnonzero(passed)

    def tidy_dictionary(self, arriving: int) -> bool:
        """Start a new dictionary once most of its values are of expired tuples.

        True if that was done: then all keys are others, and where they are stored.
        """
        words = self.dictionary
        if len(words) <= TUNING.smallest_dictionary and words.nbytes <= LONGEST_WORDS:
            return False
        stored = sum(len(side.rows) for side in self._sides) + arriving
        stored_bytes = sum(side.rows.nbytes for side in self._sides)
        many = len(words) > max(TUNING.smallest_dictionary, 4 * stored)
        full = many or words.nbytes > max(LONGEST_WORDS, 4 * stored_bytes)
        if full:
            self.rebuild()
        return full

    def probes(
        self, side: JoinSide, admitted: Admitted, keyed: KeyValues, ranks: Indices, seen: Indices
    ) -> Probes:
        """The candidate ranges of the arriving tuples of ``side``, and their keys.

        ``ranks`` are theirs; ``seen`` is how many of the other side's newest tuples are ranked
        before each.
        """
        other = self._sides[1 - side.index]
        new_here = admitted.batch.num_rows
        ranges = window_ranges(other, seen, lambda: self._reach(side, admitted))
        lo, hi = other.entry_range(ranges.lo, ranges.hi)
        lower, upper = ranges.lower, ranges.upper
        numbers, at = np.arange(new_here, dtype=np.int64), ranks
        if keyed.passed is not None:
            numbers = keyed.passed
            at, lo, hi = ranks[numbers], lo[numbers], hi[numbers]
            lower = None if lower is None else lower[numbers]
            upper = None if upper is None else upper[numbers]
        columns = Columns(keyed.values, self._validity(side, keyed), lower, upper)
        stored = other.stored_columns(lower is not None, upper is not None)
        return Probes(numbers, side.rows.next - new_here, lo, hi, columns, ranks, at, stored)

    def index(self, side: JoinSide, probes: Probes) -> None:
        """Update the index that the tuples of ``side`` search."""
        other = self._sides[1 - side.index]
        if other.entry_index is not None and len(probes.numbers) and self.in_range():
            other.entry_index.update(other.first_entry, probes.stored, probes.columns)

    @staticmethod
    def _reach(side: JoinSide, admitted: Admitted) -> tuple[Ticks | None, Ticks | None]:
        """What the expiry of a partner in a time window must be above, and its time below."""
        low, times = admitted.low, admitted.times
        if low is None or times is None or not isinstance(side.window, Range):
            return low, None
        return low, side.clock.expiry(times, side.window)

    @staticmethod
    def _validity(side: JoinSide, keyed: KeyValues) -> list[npt.NDArray[np.bool_] | None]:
        """A key that has ever had a NULL keeps a validity mask: fewer kernels are compiled."""
        return [
            None
            if column.valid is None
            else (valid if valid is not None else np.ones(len(keyed.values[i]), np.bool_))
            for i, (column, valid) in enumerate(zip(side.columns, keyed.valid, strict=True))
        ]

    def match(
        self, side: JoinSide, probes: Probes, start: int, stop: int, most: int | None, tally: Tally
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs that tuples of ``side`` ranked ``start .. stop - 1`` find, by rank and partner.

        As sequence numbers of the probes, of their partners, and the ranks. None if there are more
        than ``most`` candidates that the kernel lets through. Only the tally is changed, so threads
        may do this in parallel.
        """
        other = self._sides[1 - side.index]
        a, b = 0, len(probes.at)
        if b and (start > probes.at[0] or stop <= probes.at[-1]):
            a, b = np.searchsorted(probes.at, (start, stop)).tolist()
        tally.probed[side.index] += b - a
        candidates = live_total(probes.lo[a:b], probes.hi[a:b])
        capacity = candidates if most is None else min(candidates, most)
        found = self._kernel(other, probes, a, b, capacity, tally)
        if found is None:
            return None
        seqs, partners, which = named = three(len(found))
        stored, first = other.entry_numbers()
        name_pairs(found, probes.numbers[a:b], probes.first_seq, stored, first, probes.ranks, named)
        residual = self._rest()
        if residual.condition != TRUE and len(seqs):
            passed = np.flatnonzero(self._passes(residual, side, seqs, partners, tally.failures))
            seqs, partners, which = seqs[passed], partners[passed], which[passed]
        return seqs, partners, which

    # -- one partner ------------------------------------------------------------------------

    def has_residual(self) -> bool:
        """Whether there is a rest of the predicate, after the kernel."""
        return self._rest().condition != TRUE

    def _rest(self) -> Residual:
        return self._residual if self.in_range() else self._everything

    def partners(
        self, side: JoinSide, probes: Probes, chosen: Indices, most: int, tally: Tally
    ) -> Pairs:
        """Up to ``most`` partners of each chosen probe, by the kernel alone."""
        if len(chosen) == len(probes.lo):
            lo, hi, columns = probes.lo, probes.hi, probes.columns
        else:
            lo, hi, columns = probes.lo[chosen], probes.hi[chosen], probes.columns.take(chosen)
        search = self._first_matches(side, probes, lo, hi, columns)
        pairs = search.partners(most)
        self._count(search, tally)
        return pairs

    def unsettled(
        self,
        probes: Probes,
        a: int,
        b: int,
        jumps: npt.NDArray[np.int32],
        room_of: Callable[[], int],
        tally: Tally,
    ) -> Iterator[Pairs]:
        """The pairs of right probes ``a .. b - 1`` with unsettled entries, by the kernel alone.

        Without a residual, that settles the entries. See :class:`FirstMatches` for the parts.
        """
        search = self._first_matches(
            self._sides[1], probes, probes.lo[a:b], probes.hi[a:b], probes.columns.part(a, b)
        )
        yield from search.unsettled(jumps, not self.has_residual(), room_of)
        self._count(search, tally)

    def _first_matches(
        self, side: JoinSide, probes: Probes, lo: Indices, hi: Indices, columns: Columns
    ) -> FirstMatches:
        other, stored = self._sides[1 - side.index], probes.stored
        if not self.in_range():
            none, bare = self._no_predicate, Columns([], [], columns.lower, columns.upper)
            stored = Columns([], [], stored.lower, stored.upper)
            return FirstMatches(none, (), other.index, (), 0, lo, hi, bare, stored)
        segments = () if other.entry_index is None else other.entry_index.segments
        return FirstMatches(
            self.predicate,
            self._constants,
            other.index,
            segments,
            other.first_entry,
            lo,
            hi,
            columns,
            stored,
        )

    def _count(self, search: FirstMatches, tally: Tally) -> None:
        """Count the comparisons of a search, and let the index learn from it."""
        tally.comparisons += search.compared
        other = self._sides[search.stored_side]
        if other.entry_index is not None and search.segments:
            live, indexed = live_total(search.lo, search.hi), search.compared_in_segments
            nothing = np.empty(0, np.int64)
            stats = SearchStats(nothing, search.compared, indexed, 0, len(search.lo), live)
            count = len(search.stored.keys[0])
            tally.searches.append((other.entry_index, stats, other.first_entry, count))

    def named(
        self, side: JoinSide, probes: Probes, chosen: Indices, pairs: Pairs, tally: Tally
    ) -> tuple[tuple[Indices, Indices, Indices], Indices]:
        """The pairs of a kernel that pass the residual, and which of the given they are.

        As sequence numbers of the chosen probes, of their partners, and ranks.
        """
        seqs, partners, which = named = three(len(pairs))
        stored, first = self._sides[1 - side.index].entry_numbers()
        numbers = probes.numbers[chosen]
        name_pairs(pairs, numbers, probes.first_seq, stored, first, probes.ranks, named)
        rest = self._rest()
        if rest.condition == TRUE or not len(pairs):
            return named, np.arange(len(pairs), dtype=np.int64)
        passed = np.flatnonzero(self._passes(rest, side, seqs, partners, tally.failures))
        return (seqs[passed], partners[passed], which[passed]), passed

    # -- a sweep ----------------------------------------------------------------------------

    def can_sweep(self, probes: Sequence[Probes | None]) -> bool:
        """Whether :meth:`sweep` can take the place of :meth:`match` for these probes."""
        if not self.in_range():
            return False
        left, right = probes
        if left is None or right is None or any(side.seqs is not None for side in self._sides):
            return False
        seen: tuple[Indices, Indices] | None = None
        for side, given in zip(self._sides, (left, right), strict=True):
            other = self._sides[1 - side.index]
            if given.columns.lower is not None:
                return False
            if not isinstance(other.window, Rows):
                seen = places(left.at, right.at) if seen is None else seen
                all_before = len(other.rows) - other.newest + seen[side.index]
                if (given.hi != all_before).any() or (given.lo[1:] < given.lo[:-1]).any():
                    return False
        swept = self._swept()
        probing = (left, right)[1 - swept.index]
        return swept.entry_index is not None and swept.entry_index.decide(
            swept.first_entry, probing.stored, probing.columns
        )

    def _swept(self) -> JoinSide:
        """The side that is indexed: the one with fewer keys to copy."""
        return min(self._sides, key=lambda side: len(side.columns))

    def sweep(
        self, probes: Sequence[Probes], start: int, stop: int, most: int, tally: Tally
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs of tuples ranked ``start .. stop - 1``, as left and right numbers and ranks.

        None if there are too many. No index is needed or changed; else as :meth:`match`, for both
        sides together.
        """
        arriving = []
        for side, given in zip(self._sides, probes, strict=True):
            a, b = np.searchsorted(given.at, (start, stop)).tolist()
            first = len(side.rows) - len(given.at) + a
            stored = probes[1 - side.index].stored
            tally.probed[side.index] += b - a
            arriving.append(Arrivals(given.at[a:b], given.lo[a:b], first, side.rows.first, stored))
        side = self._swept()
        assert side.entry_index is not None
        mine, other = arriving[side.index], arriving[1 - side.index]
        swept = sweep(side.entry_index, mine, other, self._constants, most)
        tally.comparisons += swept.candidates
        if swept.pairs is None:
            return None
        left, right, ranks = swept.pairs
        if self._residual.condition != TRUE and len(left):
            passed = np.flatnonzero(
                self._passes(self._residual, self._sides[0], left, right, tally.failures)
            )
            left, right, ranks = left[passed], right[passed], ranks[passed]
        return left, right, ranks

    def settle(self, tally: Tally) -> None:
        """Add the counts of a search, and let indexes learn from it; no thread is searching now."""
        self.comparisons += tally.comparisons
        self.failures.count += tally.failures.count
        for index, stats, first, count in tally.searches:
            index.learn(stats, first, count)

    def _kernel(
        self, other: JoinSide, probes: Probes, a: int, b: int, capacity: int, tally: Tally
    ) -> Pairs | None:
        if capacity == 0 or a == b:
            return np.empty(0, np.int64)
        lo, hi = probes.lo[a:b], probes.hi[a:b]
        columns, stored = probes.columns.part(a, b), probes.stored
        if self.in_range():
            index, first = other.entry_index, other.first_entry
            probe = Probe(self.predicate, other.index, self._constants)
            stats = probe.search(index, first, lo, hi, columns, stored, capacity)
            if index is not None:
                tally.searches.append((index, stats, first, len(stored.keys[0])))
        else:
            stats = every_live(lo, hi, columns, stored, capacity)
        tally.comparisons += stats.candidates
        return stats.pairs

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel that searches the left window, and the right one, as chosen by now."""
        left, right = (
            "nested-loop" if side.entry_index is None else side.entry_index.choice.name
            for side in self._sides
        )
        return left, right

    def in_range(self) -> bool:
        """Whether no sum of the kernel can overflow, given the bounds of the stored keys."""
        if not self._computes:
            return True
        return stays_in_range(self.predicate.condition, self.predicate.constants, self._bounds)

    def _bounds(self, operand: KeyOperand) -> tuple[int, int] | None:
        column = self._sides[operand.side].columns[operand.index]
        return None if column.low is None or column.high is None else (column.low, column.high)

    def _passes(
        self,
        residual: Residual,
        side: JoinSide,
        seqs: Indices,
        partners: Indices,
        failures: Failures,
    ) -> npt.NDArray[np.bool_]:
        by_side = (seqs, partners) if side.index == 0 else (partners, seqs)
        inputs: list[pa.RecordBatch] = [
            s.rows.take(which, columns)
            for s, which, columns in zip(self._sides, by_side, residual.columns, strict=True)
        ]
        return select(inputs, residual.condition, failures)


def constant_of(value: Any, kind: pa.DataType) -> np.generic:
    """A constant of the machine type that native keys of its SQL type have."""
    if pa.types.is_float32(kind):
        return np.float32(value)
    return np.float64(value) if pa.types.is_float64(kind) else np.int64(value)


@dataclass(frozen=True)
class RankedPairs:
    """Rows in output order: sequence numbers (-1 for padding) and the rank they belong to."""

    left: Indices
    right: Indices
    ranks: Indices

    def __len__(self) -> int:
        return len(self.left)

    def part(self, start: int, stop: int) -> RankedPairs:
        """A slice of the rows."""
        return RankedPairs(self.left[start:stop], self.right[start:stop], self.ranks[start:stop])

    def taken(self, chosen: Indices) -> RankedPairs:
        """The rows at these indices."""
        return RankedPairs(self.left[chosen], self.right[chosen], self.ranks[chosen])


NOTHING = RankedPairs(*(np.empty(0, np.int64) for _ in range(3)))


def by_rank(parts: list[RankedPairs]) -> RankedPairs:
    """Pairs in output order: by rank, then by partner."""
    columns = zip(*((f.left, f.right, f.ranks) for f in parts), strict=True)
    left, right, ranks = (np.concatenate(column) for column in columns)
    order = np.lexsort((left, right, ranks))
    return RankedPairs(left[order], right[order], ranks[order])


def ties(found: RankedPairs, ranks: Ranks) -> Indices:
    """What orders the pairs of one position: first the left tuple's, then by the partner's seq."""
    is_right = np.zeros(ranks.count, np.int64)
    is_right[ranks.tuples[1]] = 1
    by_right = is_right[found.ranks]
    ordered: Indices = np.where(by_right, found.left, found.right) + (by_right << 62)
    return ordered
