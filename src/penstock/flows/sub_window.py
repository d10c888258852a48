"""A join core's part of one stream's window, and the search for partners in it.

Any kernel serves: the nested loop, or an index over the entries. Entries are in the order of their
stream, and the oldest leave first. So the candidates of a probe are neighbours: by their numbers,
and by their times as long as these ascend; where they do not, the kernel compares times.

Cores use a part of a window through the protocols here. :class:`SubWindow` implements them for
work, :class:`penstock.testing.plain_window.PlainWindow` in plain Python for schedules that are
explored step by step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.partner_search import Arrivals, FoundPairs, Rule, no_pairs
from penstock.blocks.window.live_ranges import Ranges, expired, timed_ranges
from penstock.blocks.window.probe import Probe, every_live
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.stored_columns import Buffer
from penstock.kernels.merging import strided_places
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.nested_loop import Columns, Pairs, split
from penstock.kernels.probe.single_probe import SingleProbe
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


NUMBERS = {"lo": 2, "low": -4, "upper": -3, "expiry": -2, "time": -1}
"""Their places in :meth:`Arrivals.columns`."""


class Group(Protocol):
    """Tuples of one stream in order, as :class:`penstock.blocks.join.partner_search.Arrivals`."""

    @property
    def side(self) -> int:
        """0 for R, 1 for S."""

    @property
    def seqs(self) -> Any:
        """Their numbers, ascending."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> Any:
        """A slice of the tuples."""

    def take(self, which: Any) -> Any:
        """The tuples at these indices."""


class Part(Protocol):
    """A core's part of one stream's window: tuples in the order of their numbers."""

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""

    @property
    def kernel(self) -> str:
        """The kernel in use."""

    def __len__(self) -> int: ...

    def append(self, arrivals: Any) -> None:
        """Store tuples, which are younger than all stored ones."""

    def drop(self, count: int) -> None:
        """Forget the oldest tuples."""

    def oldest(self, start: int, stop: int) -> Any:
        """The tuples that are ``start`` to ``stop`` from the oldest on."""

    def count_before(self, seq: int) -> int:
        """How many tuples have numbers below this one."""

    def older(self, probes: Any, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived before it."""

    def younger(self, probes: Any, met_before: int, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived after it.

        Pairs with numbers below ``met_before`` have been found already.
        """


MakePart = Callable[[int], Part]
"""Makes an empty part of the window of a side."""


@dataclass(frozen=True)
class _Candidates:
    """The candidates of each probe, and the times of entries for where a range is too wide."""

    ranges: Ranges
    times: tuple[Array | None, Array | None] = (None, None)

    def stored(self, keys: list[Array], valid: list[npt.NDArray[np.bool_] | None]) -> Columns:
        """The columns that a kernel reads: keys, and times where it compares them."""
        if self.ranges.lower is None:
            return Columns(keys, valid)
        return Columns(keys, valid, *self.times)


class SubWindow:
    """Tuples of one side in a core, in the order of their numbers.

    ``first_entry`` is the number of the oldest entry; ``stride`` the least distance of two
    neighbours' numbers, if it is known.
    """

    def __init__(self, side: int, rule: Rule, stride: int | None = None) -> None:
        self.side = side
        self._probe = Probe(rule.predicate, side, rule.constants)
        self._stride = stride
        self._like: Arrivals | None = None
        self._columns: list[Buffer | None] = []
        self._views: list[Any] | None = None
        self._keyed: tuple[Any, Columns] | None = None
        self._validity: list[Buffer | None] = []
        self.first_entry = 0
        self._in_order = True
        self._index: EntryIndex | None = None
        self._compared = 0
        if rule.kernel != "nested-loop" and rule.predicate.keys[side]:
            index = EntryIndex(rule.predicate, side, rule.kernel)
            self._index = index if index.usable else None
        self._single_push = SinglePushProbe(side, rule, stride, self._index)

    def __len__(self) -> int:
        # Not by the views: other threads call this too, and must not leave stale ones.
        return len(self._columns[0] or ()) if self._columns else 0

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return self._compared + self._single_push.comparisons

    @property
    def kernel(self) -> str:
        """The kernel in use, as chosen by now."""
        return "nested-loop" if self._index is None else self._index.choice.name

    @property
    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        return index + sum(column.nbytes for column in self._columns if column is not None)

    # -- storing ----------------------------------------------------------------------------

    def append(self, arrivals: Arrivals) -> None:
        """Store tuples, which are younger than all stored ones."""
        if not len(arrivals):
            return
        columns = arrivals.columns()
        if self._like is None:
            self._like = arrivals.part(0, 0)
            self._columns = [None if c is None else Buffer(c.dtype) for c in columns]
            self._views = None
        self._note_order(arrivals)
        stored = len(self)
        for number, column in enumerate(columns):
            buffer = self._columns[number]
            if column is not None and buffer is None:  # the first NULL of a key
                buffer = self._columns[number] = Buffer(column.dtype)
                buffer.repeat(True, stored)
                self._single_push.forget()
            if column is not None and buffer is not None:
                buffer.append(column)
            elif buffer is not None:
                buffer.repeat(True, len(arrivals))
        self._views = None

    def _note_order(self, arrivals: Arrivals) -> None:
        times = arrivals.time if arrivals.time is not None else arrivals.low
        if times is None or not self._in_order:
            return
        stored = self._named("time") if arrivals.time is not None else self._named("low")
        after = not len(self) or stored is None or bool(times[0] >= stored[-1])
        self._in_order = after and bool((times[1:] >= times[:-1]).all())

    def drop(self, count: int) -> None:
        """Forget the oldest tuples."""
        if not count:
            return
        for column in self._columns:
            if column is not None:
                column.drop(count)
        self._views = None
        self.first_entry += count
        if not len(self):
            self._in_order = True

    def refill(self, arrivals: Arrivals, first_entry: int) -> None:
        """Replace all entries by these, numbered from ``first_entry`` on; rebuild the index."""
        self.drop(len(self))
        if self._index is not None:
            self._index.clear()
        self._single_push.forget()
        self.first_entry = first_entry
        self.append(arrivals)

    def oldest(self, start: int, stop: int) -> Arrivals:
        """Copies of the tuples that are ``start`` to ``stop`` from the oldest on."""
        assert self._like is not None
        parts = [None if c is None else c.view()[start:stop].copy() for c in self._columns]
        return self._like.of_columns(parts)

    def count_before(self, seq: int) -> int:
        """How many tuples have numbers below this one."""
        if not len(self) or self._seqs[0] >= seq:
            return 0
        return int(self._seqs.searchsorted(seq))

    def count_expired(self, punctuation: int | float) -> int:
        """How many of the oldest have expired, given the other stream's ``punctuation``.

        Of times out of order, those before the first that has not expired.
        """
        expiry = self._named("expiry")
        return 0 if expiry is None else expired(expiry, punctuation, self._in_order)

    @property
    def first_seq(self) -> int | None:
        """The number of the oldest tuple."""
        return int(self._seqs[0]) if len(self) else None

    # -- searching --------------------------------------------------------------------------

    def older(self, probes: Arrivals, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived before it."""
        if len(self) and len(probes):
            yield from self._search(probes, self._older_candidates(probes), compiled, True)

    def younger(
        self, probes: Arrivals, met_before: int, compiled: bool = True
    ) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived after it.

        Pairs with numbers below ``met_before`` have been found already.
        """
        if len(self) and len(probes):
            candidates = self._younger_candidates(probes, met_before)
            yield from self._search(probes, candidates, compiled, self._in_order)

    def _older_candidates(self, probes: Arrivals) -> _Candidates:
        expiry, times = self._named("expiry"), self._named("time")
        lo, hi = self._places(probes.lo), self._places(probes.hi)
        if expiry is None or probes.low is None:
            return _Candidates(Ranges(lo, np.maximum(lo, hi)))
        reach = (probes.low, probes.upper)
        ranges = timed_ranges(Ranges(lo, hi), reach, (expiry, times), self._in_order)
        return _Candidates(ranges, (expiry, times if probes.upper is not None else None))

    def _places(self, numbers: Indices) -> Indices:
        """How many entries have numbers below each of these."""
        seqs, stride = self._seqs, self._stride
        first, count = int(seqs[0]), len(seqs)
        if stride is None or len(numbers) == 1 or int(seqs[-1]) - first != (count - 1) * stride:
            places: Indices = seqs.searchsorted(numbers)
            return places
        # All neighbours are as near as they can be, so nothing has to be searched.
        return strided_places(numbers, first, stride, count)

    def _younger_candidates(self, probes: Arrivals, met_before: int) -> _Candidates:
        """By the bounds of the younger: the probe must be among its candidates."""
        seqs, low, upper = self._seqs, self._named("low"), self._named("upper")
        lo = np.searchsorted(seqs, np.maximum(probes.hi, met_before))
        seen_from = self._named("lo")
        assert seen_from is not None
        hi = np.searchsorted(seen_from, probes.seqs, side="right")
        if probes.expiry is None or low is None:
            return _Candidates(Ranges(lo, np.maximum(lo, hi)))
        if self._in_order:
            hi = np.minimum(hi, np.searchsorted(low, probes.expiry))
            if upper is not None and probes.time is not None:
                lo = np.maximum(lo, np.searchsorted(upper, probes.time, side="right"))
            return _Candidates(Ranges(lo, np.maximum(lo, hi)))
        # The kernel asks for stored.lower > probe.lower and stored.upper < probe.upper.
        above = None if upper is None or probes.time is None else -probes.time
        below = None if above is None or upper is None else -upper
        ranges = Ranges(lo, np.maximum(lo, hi), -probes.expiry, above)
        return _Candidates(ranges, (-low, below))

    def older_at_once(self, probes: Arrivals, compiled: bool, most: int) -> FoundPairs | None:
        """As :meth:`older`, all together; None if there are more than ``most`` pairs."""
        if not len(self) or not len(probes):
            return no_pairs()
        alone = compiled and self._single_push.serves(probes)
        if alone:
            stored = self._stored()
            single = self._single_push.find(probes, stored, self._seqs, self.first_entry)
            if single is not None:
                return single
        counted = self._compared
        candidates = self._older_candidates(probes)
        found = self._kernel(probes, candidates, (0, len(probes)), most, compiled, True)
        if found is None:
            self._compared = counted  # these comparisons will be repeated
            return None
        if alone:
            self._single_push.prepare(probes, stored, self.first_entry)
        return self._named_pairs(probes, 0, found) if len(found) else no_pairs()

    def _search(
        self, probes: Arrivals, candidates: _Candidates, compiled: bool, indexed: bool
    ) -> Iterator[FoundPairs]:
        """Run the kernel, over fewer probes at a time where there are too many pairs.

        ``indexed``: the index can serve these candidates.
        """

        def search(start: int, stop: int) -> Pairs | None:
            counted = self._compared
            most = TUNING.pairs_per_message if stop - start > 1 else len(self)
            found = self._kernel(probes, candidates, (start, stop), most, compiled, indexed)
            if found is None:
                self._compared = counted  # these comparisons will be repeated
            return found

        count, most = len(probes), TUNING.pairs_per_message
        for found, start, _ in Steps(count).through(0, count, most, search, len):
            assert found is not None, "a single probe may have any number of pairs"
            if len(found):
                yield self._named_pairs(probes, start, found)

    def _kernel(
        self,
        probes: Arrivals,
        candidates: _Candidates,
        span: tuple[int, int],
        most: int,
        compiled: bool,
        indexed: bool,
    ) -> Pairs | None:
        (start, stop), ranges = span, candidates.ranges
        lo, hi = ranges.lo[start:stop], ranges.hi[start:stop]
        count = int((hi - lo).sum())
        if not count:
            return np.empty(0, np.int64)
        capacity = min(count, most)
        probe = Columns(
            [key[start:stop] for key in probes.keys],
            self._probe_validity(probes, start, stop),
            *(None if b is None else b[start:stop] for b in (ranges.lower, ranges.upper)),
        )
        stored = candidates.stored(self._keys, self._valid)
        if not compiled:
            stats = every_live(lo, hi, probe, stored, capacity)
        else:
            index, first = self._index if indexed else None, self.first_entry
            if index is not None:
                index.update(first, stored, probe)
            stats = self._probe.search(index, first, lo, hi, probe, stored, capacity)
            if index is not None:
                index.learn(stats, first, len(self))
        self._compared += stats.candidates
        return stats.pairs

    def _probe_validity(
        self, probes: Arrivals, start: int, stop: int
    ) -> list[npt.NDArray[np.bool_] | None]:
        """A key that has ever had a NULL keeps a validity mask: fewer kernels are compiled."""
        if len(self._validity) != len(probes.valid):
            self._validity = [None] * len(probes.valid)
        made: list[npt.NDArray[np.bool_] | None] = []
        for number, valid in enumerate(probes.valid):
            if valid is not None:
                self._validity[number] = Buffer(np.dtype(np.bool_))
                made.append(valid[start:stop])
            elif self._validity[number] is not None:
                made.append(np.ones(stop - start, np.bool_))
            else:
                made.append(None)
        return made

    def _named_pairs(self, probes: Arrivals, start: int, found: Pairs) -> FoundPairs:
        probing, entries = split(found)
        probing = probing + start
        own, theirs = probes.seqs[probing], self._seqs[entries]
        ranks = np.maximum(probes.ranks[probing], self._ranks[entries])
        left, right = (own, theirs) if self.side == 1 else (theirs, own)
        return FoundPairs(left, right, ranks, entries + self.first_entry, time.monotonic_ns())

    # -- columns ----------------------------------------------------------------------------

    def _view(self, number: int) -> Any:
        """A column's current values; looked up again only after a change."""
        if self._views is None:
            self._views = [None] * len(self._columns)
        if not self._views:
            return None
        view, column = self._views[number], self._columns[number]
        if view is None and column is not None:
            view = self._views[number] = column.view()
        return view

    def _stored(self) -> Columns:
        """The current keys, and where they are not NULL."""
        if self._keyed is None or self._keyed[0] is not self._views:
            keys, valid = self._keys, self._valid
            self._keyed = self._views, Columns(keys, valid)
        return self._keyed[1]

    def _named(self, name: str) -> Array | None:
        """A column by its name in :class:`Arrivals`; None if the tuples have none."""
        view: Array | None = self._view(NUMBERS[name])
        return view

    @property
    def _seqs(self) -> Indices:
        seqs: Indices = self._view(0)
        return seqs

    @property
    def _ranks(self) -> Indices:
        ranks: Indices = self._view(1)
        return ranks

    @property
    def _keys(self) -> list[Array]:
        assert self._like is not None
        return [self._view(4 + number) for number in range(len(self._like.keys))]

    @property
    def _valid(self) -> list[npt.NDArray[np.bool_] | None]:
        assert self._like is not None
        count = len(self._like.keys)
        return [self._view(4 + count + number) for number in range(count)]


class SinglePushProbe:
    """Probes of single-tuple pushes into one side: one compiled call, no steps for batches.

    ``stride`` is the least distance of stored numbers.
    """

    def __init__(self, side: int, rule: Rule, stride: int | None, index: EntryIndex | None) -> None:
        self._side = side
        self._rule = rule
        self._stride = stride
        self._index = index
        self._one: SingleProbe | None = None
        self.comparisons = 0

    def serves(self, probes: Arrivals) -> bool:
        """Whether it is one probe whose candidates are decided by numbers and keys alone."""
        if len(probes) != 1 or probes.low is not None or not probes.keys:
            return False
        return all([valid is None or bool(valid[0]) for valid in probes.valid])

    def forget(self) -> None:
        """Drop the prepared probe: the index has changed, or the columns."""
        self._one = None

    def prepare(self, probes: Arrivals, stored: Columns, first: int) -> None:
        """Prepare for probes of this type; the index is up to date."""
        types = [key.dtype for key in probes.keys]
        following = first + len(stored.keys[0])
        self._one = SingleProbe(
            self._rule.predicate, 1 - self._side, types, stored, self._index, following
        )

    def find(
        self, probes: Arrivals, stored: Columns, seqs: Indices, first: int
    ) -> FoundPairs | None:
        """The pairs of a probe with these entries, ``first`` and following.

        None if the index has to be updated first: then search as for a batch, and call
        :meth:`prepare` after it.
        """
        if self._one is None and self._index is None:
            self.prepare(probes, stored, first)
        if self._one is None:
            return None
        lo, hi = self._span(seqs, int(probes.lo[0]), int(probes.hi[0]))
        if lo >= hi:
            return no_pairs()
        keys = [key.item() for key in probes.keys]
        constants = self._rule.constants
        entries = self._one.find(first, (first + lo, first + hi), keys, stored.flat(), constants)
        if entries is None:
            self._one = None
            return None
        self.comparisons += self._one.candidates
        if not len(entries):
            return no_pairs()
        at = time.monotonic_ns()
        theirs = seqs[entries - first]
        own, ranks = probes.seqs, probes.ranks
        if len(entries) > 1:
            own, ranks = own.repeat(len(entries)), ranks.repeat(len(entries))
        left, right = (own, theirs) if self._side == 1 else (theirs, own)
        return FoundPairs(left, right, ranks, entries, at)

    def _span(self, seqs: Indices, lo: int, hi: int) -> tuple[int, int]:
        """Where the entries are whose numbers are from ``lo`` on and below ``hi``."""
        first, count, stride = int(seqs[0]), len(seqs), self._stride
        if stride is None or int(seqs[-1]) - first != (count - 1) * stride:
            return int(seqs.searchsorted(lo)), int(seqs.searchsorted(hi))
        # All neighbours are as near as they can be, so nothing has to be searched.
        low = min(max(-((first - lo) // stride), 0), count)
        return low, min(max(-((first - hi) // stride), 0), count)
