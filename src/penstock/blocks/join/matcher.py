"""Finding pairs: candidate ranges for a kernel, the kernel, the residual after it, the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.partner_search import Rule
from penstock.blocks.lateness import Admitted
from penstock.blocks.ranks import Ranks
from penstock.blocks.window.keys import KeyValues, StoredKeys, WindowKeys, is_outgrown
from penstock.blocks.window.probe import NO_PAIRS, Probe
from penstock.blocks.window.punctuator import Ticks
from penstock.blocks.window.reading import Reading
from penstock.blocks.window.window import StoredWindow
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
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe.entry_index import SearchStats
from penstock.kernels.probe.first_match import FirstMatches
from penstock.kernels.probe.nested_loop import Columns, Pairs
from penstock.kernels.probe.sweep import Arrivals, sweep
from penstock.program.isa.block_instructions import JoinStreams
from penstock.sql.expressions import (
    Expression,
    conjunction,
    conjuncts,
)
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Probes:
    """The probing tuples of one side: their numbers, their candidate ranges, and their keys.

    ``numbers`` count from ``first_seq``. ``ranks`` are those of all the side's arrivals, by number,
    ``at`` those of the ones that probe; ``stored`` are the columns that they search.
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

    probed: list[int]
    """Of each input, how many tuples have probed."""
    comparisons: int = 0
    failures: Failures = field(default_factory=Failures)
    searches: list[tuple[StoredKeys, SearchStats]] = field(default_factory=list)


class Matcher:
    """The current predicate of a join block, and the keys of both windows.

    ``stores_keys``: keys are stored here; where a flow's cores store them, only their bounds are.
    ``one_partner``: one partner of a left tuple is enough.
    """

    def __init__(
        self,
        sides: tuple[StoredWindow, StoredWindow],
        failures: Failures,
        load: Loader,
        stores_keys: bool = True,
        one_partner: bool = False,
    ) -> None:
        self._sides = sides
        self.failures = failures
        self._load = load
        self.stores_keys = stores_keys
        self._one_partner = one_partner
        self.dictionary = Dictionary()
        self.keys: tuple[WindowKeys, WindowKeys]
        """Other objects whenever keys have been computed anew."""
        self._filters: tuple[Expression, ...] = ()
        self.encodes = False
        """Whether keys go through the dictionary, which both sides write to."""
        self.comparisons = 0

    def program(self, instruction: JoinStreams) -> None:
        """Take another predicate. Keys that are stored stay; others are computed of all tuples."""
        filters, self._filters = self._filters, instruction.filters
        self.predicate = Predicate.of(instruction.compiled, self._load)
        self.probe = Probe(self.predicate)
        self.residual = Reading.of([instruction.residual])
        # What takes the kernel's place when its sums might overflow.
        terms = conjuncts(instruction.compiled) + conjuncts(instruction.residual)
        self._everything = Reading.of([conjunction(terms)])
        self._kernel_name = instruction.kernel
        if instruction.kernel != "nested-loop" and not instruction.kernel_is_forced:
            self._kernel_name = "auto"
        self.encodes = any(key.kind == "code" for keys in self.predicate.keys for key in keys)
        if filters == self._filters and all(k.keys.serve(self.predicate) for k in self.keys):
            for keys in self.keys:
                keys.program(
                    self.predicate, self._kernel_name if self.stores_keys else "nested-loop"
                )
        else:
            self.rebuild()

    def rebuild(self) -> None:
        """Recompute the keys of all stored tuples, with a new dictionary."""
        self.dictionary = Dictionary()
        left, right = (
            WindowKeys(
                self.predicate,
                self._kernel_name if self.stores_keys else "nested-loop",
                side,
                self.dictionary,
                None if self.stores_keys else (side.rows.first, ()),
                None,
                side.index,
                self._filters[side.index],
                self._one_partner,
            )
            for side in self._sides
        )
        self.keys = (left, right)
        for side in () if self.stores_keys else self._sides:
            for batch in side.rows.batches():
                self._widen(side, self.keys[side.index].keyed(batch, Failures()))

    def store(self, side: StoredWindow, keyed: KeyValues) -> None:
        """Store the keys of the tuples that have just been appended to a window."""
        if self.stores_keys:
            first = side.rows.next - side.newest
            if side.places is not None:
                # Guests are not stored, but probe: a sum of theirs may overflow.
                self._widen(side, keyed)
                keyed = keyed.stored(side.places, side.newest)
            self.keys[side.index].store(keyed, first, side.newest)
        else:
            self._widen(side, keyed)

    def _widen(self, side: StoredWindow, keyed: KeyValues) -> None:
        self.keys[side.index].keys.widen(keyed.values, keyed.valid)

    def forget(self) -> None:
        """Drop the keys of tuples that the windows have dropped."""
        if self.stores_keys:
            for side, keys in zip(self._sides, self.keys, strict=True):
                keys.drop_before(side.rows.first)

    def tally(self) -> Tally:
        """The counts of a search, before it begins."""
        return Tally([0] * len(self._sides))

    def rule(self, window_rows: tuple[int | None, ...], order: tuple[str, int] | None) -> Rule:
        """The predicate for the cores of a flow."""
        return Rule(self.predicate, self._kernel_name, window_rows, order)

    def passing(self, left: Indices, right: Indices, compiled: bool) -> Indices | None:
        """Which pairs of a kernel pass the rest of the predicate; None: there is no rest.

        Without ``compiled``, the kernel has not evaluated any of the predicate.
        """
        residual = self.residual if compiled else self._everything
        if residual.is_true:
            return None
        passed = self._passes(residual, self._sides[0], left, right, self.failures)
        return np.flatnonzero(passed)

    def tidy_dictionary(self, arriving: int) -> bool:
        """Start a new dictionary once most of its values are of expired tuples.

        True if that was done: then all keys are others, and where they are stored.
        """
        outgrown = is_outgrown(self.dictionary, self._sides, arriving)
        if outgrown:
            self.rebuild()
        return outgrown

    def probes(
        self,
        side: StoredWindow,
        admitted: Admitted,
        keyed: KeyValues,
        ranks: Indices,
        seen: Indices,
    ) -> Probes:
        """The candidate ranges of the arriving tuples of ``side``, and their keys.

        ``ranks`` are theirs; ``seen`` is how many of the other side's newest tuples are ranked
        before each.
        """
        other, keys = self._sides[1 - side.index], self.keys[1 - side.index]
        new_here = admitted.batch.num_rows
        ranges = keys.candidates(other.ranges(seen, lambda: self._reach(side, admitted)))
        lo, hi, lower, upper = ranges.lo, ranges.hi, ranges.lower, ranges.upper
        numbers, at = np.arange(new_here, dtype=np.int64), ranks
        if side.places is not None:
            numbers, ranks = side.places, np.empty_like(at)
            ranks[numbers] = at
        if keyed.passed is not None:
            passed = keyed.passed
            numbers, at, lo, hi = numbers[passed], at[passed], lo[passed], hi[passed]
            lower = None if lower is None else lower[passed]
            upper = None if upper is None else upper[passed]
        columns = self.probe.probing(side.index, keyed.values, keyed.valid, lower, upper)
        stored = keys.read(lower is not None, upper is not None)
        first = side.rows.next - side.newest
        return Probes(numbers, first, lo, hi, columns, ranks, at, stored)

    def index(self, side: StoredWindow, probes: Probes) -> None:
        """Update the index that the tuples of ``side`` search."""
        if len(probes.numbers) and self.in_range():
            self.probe.update(self.keys[1 - side.index].keys, probes.stored, probes.columns)

    @staticmethod
    def _reach(side: StoredWindow, admitted: Admitted) -> tuple[Ticks | None, Ticks | None]:
        """What the expiry of a partner in a time window must be above, and its time below."""
        low, times = admitted.low, admitted.times
        if low is None or times is None or not isinstance(side.window, Range):
            return low, None
        return low, side.clock.expiry(times, side.window)

    def match(
        self,
        side: StoredWindow,
        probes: Probes,
        start: int,
        stop: int,
        most: int | None,
        tally: Tally,
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs that tuples of ``side`` ranked ``start .. stop - 1`` find, by rank and partner.

        As sequence numbers of the probes, of their partners, and the ranks. None if there are more
        than ``most`` candidates that the kernel lets through. Only the tally is changed, so threads
        may do this in parallel.
        """
        keys = self.keys[1 - side.index]
        a, b = 0, len(probes.at)
        if b and (start > probes.at[0] or stop <= probes.at[-1]):
            a, b = np.searchsorted(probes.at, (start, stop)).tolist()
        tally.probed[side.index] += b - a
        columns, compiled = probes.columns.part(a, b), self.in_range()
        stats = self.probe.search(
            keys.keys, probes.lo[a:b], probes.hi[a:b], columns, probes.stored, most, compiled
        )
        tally.comparisons += stats.candidates
        if compiled:
            tally.searches.append((keys.keys, stats))
        found = stats.pairs
        if found is None:
            return None
        seqs, partners, which = named = three(len(found))
        stored, first = keys.numbering()
        name_pairs(found, probes.numbers[a:b], probes.first_seq, stored, first, probes.ranks, named)
        residual = self._rest()
        if not residual.is_true and len(seqs):
            passed = np.flatnonzero(self._passes(residual, side, seqs, partners, tally.failures))
            seqs, partners, which = seqs[passed], partners[passed], which[passed]
        return seqs, partners, which

    # -- one partner ------------------------------------------------------------------------

    def has_residual(self) -> bool:
        """Whether there is a rest of the predicate, after the kernel."""
        return not self._rest().is_true

    def _rest(self) -> Reading:
        return self.residual if self.in_range() else self._everything

    def partners(
        self, side: StoredWindow, probes: Probes, chosen: Indices, most: int, tally: Tally
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
        self, side: StoredWindow, probes: Probes, lo: Indices, hi: Indices, columns: Columns
    ) -> FirstMatches:
        keys = self.keys[1 - side.index].keys
        return self.probe.first_matches(keys, lo, hi, columns, probes.stored, self.in_range())

    def _count(self, search: FirstMatches, tally: Tally) -> None:
        """Count the comparisons of a search, and let the index learn from it."""
        tally.comparisons += search.compared
        if search.segments:
            live, indexed = live_total(search.lo, search.hi), search.compared_in_segments
            stats = SearchStats(NO_PAIRS, search.compared, indexed, 0, len(search.lo), live)
            tally.searches.append((self.keys[search.stored_side].keys, stats))

    def named(
        self, side: StoredWindow, probes: Probes, chosen: Indices, pairs: Pairs, tally: Tally
    ) -> tuple[tuple[Indices, Indices, Indices], Indices]:
        """The pairs of a kernel that pass the residual, and which of the given they are.

        As sequence numbers of the chosen probes, of their partners, and ranks.
        """
        seqs, partners, which = named = three(len(pairs))
        stored, first = self.keys[1 - side.index].numbering()
        numbers = probes.numbers[chosen]
        name_pairs(pairs, numbers, probes.first_seq, stored, first, probes.ranks, named)
        rest = self._rest()
        if rest.is_true or not len(pairs):
            return named, np.arange(len(pairs), dtype=np.int64)
        passed = np.flatnonzero(self._passes(rest, side, seqs, partners, tally.failures))
        return (seqs[passed], partners[passed], which[passed]), passed

    # -- a sweep ----------------------------------------------------------------------------

    def can_sweep(self, probes: Sequence[Probes | None]) -> bool:
        """Whether :meth:`sweep` can take the place of :meth:`match` for these probes."""
        if not self.in_range():
            return False
        left, right = probes
        if left is None or right is None or any(k.numbers is not None for k in self.keys):
            return False
        if any(side.share is not None for side in self._sides):
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
        probing = (left, right)[1 - swept.side]
        return swept.index is not None and swept.index.decide(
            swept.first, probing.stored, probing.columns
        )

    def _swept(self) -> StoredKeys:
        """The keys that are indexed: those of the side with fewer to copy."""
        left, right = self.keys
        return min(left.keys, right.keys, key=lambda keys: len(keys.columns))

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
        keys = self._swept()
        assert keys.index is not None
        mine, other = arriving[keys.side], arriving[1 - keys.side]
        swept = sweep(keys.index, mine, other, self.probe.constants, most)
        tally.comparisons += swept.candidates
        if swept.pairs is None:
            return None
        left, right, ranks = swept.pairs
        if not self.residual.is_true and len(left):
            passed = np.flatnonzero(
                self._passes(self.residual, self._sides[0], left, right, tally.failures)
            )
            left, right, ranks = left[passed], right[passed], ranks[passed]
        return left, right, ranks

    def settle(self, tally: Tally) -> None:
        """Add the counts of a search, and let indexes learn from it; no thread is searching now."""
        self.comparisons += tally.comparisons
        self.failures.count += tally.failures.count
        for keys, stats in tally.searches:
            keys.learn(stats)

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel that searches the left window, and the right one, as chosen by now."""
        left, right = self.keys
        return left.kernel, right.kernel

    @property
    def nbytes(self) -> int:
        """The memory of the keys of both windows."""
        return sum(keys.nbytes for keys in self.keys)

    def in_range(self) -> bool:
        """Whether no sum of the kernel can overflow, given the bounds of the stored keys."""
        return self.probe.in_range(lambda o: self.keys[o.side].keys.columns[o.index].bounds)

    def _passes(
        self,
        residual: Reading,
        side: StoredWindow,
        seqs: Indices,
        partners: Indices,
        failures: Failures,
    ) -> npt.NDArray[np.bool_]:
        members = (seqs, partners) if side.index == 0 else (partners, seqs)
        inputs = residual.inputs(self._sides, members, len(seqs))
        return select(inputs, residual.expressions[0], failures)


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


def ties(
    found: RankedPairs, ranks: Ranks, sides: tuple[StoredWindow, StoredWindow], kind: str
) -> Indices:
    """What orders the rows of one position among all cores that share a join.

    The left tuple's come first, then the right tuple's, then those of punctuations and ends. Of
    each: unmatched tuples that expire by it, then the pairs, then the tuple itself if it expires at
    once; unmatched tuples by number, pairs by that of the older tuple, SEMI's by that of the left
    one. Numbers are those of arrival, which are the same on all cores.
    """
    left, right = sides
    events = np.full(ranks.count, 2)
    events[ranks.every(0)], events[ranks.every(1)] = 0, 1
    event, phase = events[found.ranks], np.ones(len(found), np.int64)
    by_left = (found.right < 0) | ((found.left >= 0) & ((event == 1) | (kind == "semi")))
    numbers = _arrival_numbers(found, by_left, sides)
    for side, seqs, others in ((left, found.left, found.right), (right, found.right, found.left)):
        alone = np.flatnonzero(others < 0)
        phase[alone] = 2 * _came_at(side, seqs[alone], found.ranks[alone], ranks)
    ordered: Indices = (event << 60) + (phase << 58) + numbers
    return ordered


def ties_at_change(found: RankedPairs, sides: tuple[StoredWindow, StoredWindow]) -> Indices:
    """What orders the unmatched tuples that a change makes expire, as :func:`ties`."""
    return _arrival_numbers(found, found.right < 0, sides)


def _arrival_numbers(
    found: RankedPairs, by_left: Mask, sides: tuple[StoredWindow, StoredWindow]
) -> Indices:
    """The number of arrival of each row's left tuple, or else of its right one."""
    left, right = sides
    numbers = np.empty(len(found), np.int64)
    numbers[by_left] = left.arrival_numbers(found.left[by_left])
    numbers[~by_left] = right.arrival_numbers(found.right[~by_left])
    return numbers


def _came_at(side: StoredWindow, seqs: Indices, ranks: Indices, order: Ranks) -> Mask:
    """Whether tuples of a window came at these ranks."""
    newest = seqs - (side.rows.next - side.newest)
    came: Mask = newest >= 0
    came[came] = order.tuples[side.index][newest[came]] == ranks[came]
    return came
