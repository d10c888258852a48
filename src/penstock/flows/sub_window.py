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

from penstock.blocks.join.partner_search import Arrivals, Change, FoundPairs, Rule, no_pairs
from penstock.blocks.window.compiled_search import SCANNED, SearchedKeys
from penstock.blocks.window.keys import StoredKeys, key_dtype
from penstock.blocks.window.live_ranges import Ranges, expired, timed_ranges
from penstock.blocks.window.probe import Probe
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.stored_columns import Buffer
from penstock.kernels.merging import places_in, strided_places
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe.entry_index import MANY_CANDIDATES, SearchStats
from penstock.kernels.probe.nested_loop import Columns, Pairs, split
from penstock.kernels.probe.single_search import MANY_PARTNERS, generate_probe
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


NOT_ASKING = np.zeros(1, np.int64)
"""Says that a push is done and not only tried."""
NO_NUMBERS: Indices = np.empty(0, np.int64)
COLUMNS = ("seqs", "ranks", "lo", "hi", "low", "upper", "expiry", "time")
"""Those of :class:`penstock.blocks.join.partner_search.Arrivals`, beside the keys."""
TIMES = ("low", "upper", "expiry", "time")
NO_RULE = Rule(Predicate(), "nested-loop", (None, None))
"""Before the first program."""


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


class ProgramChange(Protocol):
    """A change of the program, as :class:`penstock.blocks.join.partner_search.Change`."""

    @property
    def before(self) -> tuple[int, ...]:
        """For each stream, the number of the first tuple after the change."""

    @property
    def live(self) -> tuple[int, ...]:
        """For each stream, the first number that is in its window from here on."""

    def new(self, side: int) -> Indices:
        """The numbers of the tuples of a stream that no core has."""

    def number(self, side: int, seq: int) -> int:
        """The number from here on of a tuple that had this one."""

    def changed(self, group: Any, added: Indices) -> Any:
        """Tuples on their way, as they are from here on: the live ones, and ``added``."""


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

    def change(self, change: Any, added: Indices = NO_NUMBERS) -> None:
        """Take another program for the live tuples that are stored, and for ``added`` ones.

        ``added`` are the numbers of tuples that no core has stored.
        """

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

    def both(self, probes: Any, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here, whichever of the two arrived first."""


MakePart = Callable[[int], Part]
"""Makes an empty part of the window of a side."""


@dataclass(frozen=True)
class _Candidates:
    """The candidates of each probe, and the times of entries for where a range is too wide."""

    ranges: Ranges
    times: tuple[Array | None, Array | None] = (None, None)


class SubWindow:
    """Tuples of one side in a core, in the order of their numbers.

    ``stride`` is the least distance of two neighbours' numbers, if it is known.
    """

    def __init__(self, side: int, rule: Rule = NO_RULE, stride: int | None = None) -> None:
        self.side = side
        self._probe = Probe(rule.predicate)
        self._keys = StoredKeys(rule.predicate, side, rule.kernel)
        self._stride = stride
        self._columns: dict[str, Buffer] = {}
        self._views: dict[str, Array] = {}
        self._read: Columns | None = None
        self._in_order = True
        self._compared = 0
        self._single_push = SinglePushProbe(self._probe, self._keys, stride)

    def __len__(self) -> int:
        # Not by the views: other threads call this too, and must not leave stale ones.
        return len(self._columns["seqs"]) if self._columns else 0

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return self._compared + self._single_push.comparisons

    @property
    def kernel(self) -> str:
        """The kernel in use, as chosen by now."""
        return self._keys.kernel

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + sum(column.nbytes for column in self._columns.values())

    # -- storing ----------------------------------------------------------------------------

    def append(self, arrivals: Arrivals) -> None:
        """Store tuples, which are younger than all stored ones."""
        if not len(arrivals):
            return
        self._note_order(arrivals)
        for name in COLUMNS:
            values: Array | None = getattr(arrivals, name)
            if values is not None:
                if name not in self._columns:
                    self._columns[name] = Buffer(values.dtype)
                self._columns[name].append(values)
        if any(
            mask is not None and column.valid is None
            for mask, column in zip(arrivals.valid, self._keys.columns, strict=True)
        ):
            self._single_push.forget()  # the first NULL of a key
        self._keys.append(arrivals.keys, arrivals.valid)
        self._changed()

    def _changed(self) -> None:
        self._views.clear()
        self._read = None

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
        for column in self._columns.values():
            column.drop(count)
        self._keys.drop(count)
        self._changed()
        if not len(self):
            self._in_order = True

    def refill(self, arrivals: Arrivals) -> None:
        """Replace all entries by these; rebuild the index."""
        self.drop(len(self))
        if self._keys.index is not None:
            self._keys.index.clear()
            self._single_push.forget()
        self.append(arrivals)

    # -- a change ---------------------------------------------------------------------------

    def change(self, change: Change, added: Indices = NO_NUMBERS) -> None:
        """Take another program for the live tuples that are stored, and for ``added`` ones."""
        predicate, kernel = change.rule.predicate, change.rule.kernel
        self._probe = Probe(predicate)
        if change.sent is None:
            self._keys.program(predicate, kernel)
            self._set_times(change)
        else:
            sent, seqs = change.sent[self.side], self._seqs if len(self) else NO_NUMBERS
            if len(seqs) and (len(added) or sent.known is not sent.arrivals.seqs):
                self._stride = None  # neighbours may be nearer to each other than by turns
            keys = StoredKeys(predicate, self.side, kernel)
            stored = sent.arrivals.take(sent.places(seqs, added))
            self._keys, self._in_order = keys, True
            self._columns.clear()
            self._changed()
            self.append(stored)
        compared = self._single_push.comparisons
        self._single_push = SinglePushProbe(self._probe, self._keys, self._stride, compared)
        self.drop(self.count_before(change.live[self.side]))

    def _set_times(self, change: Change) -> None:
        """Stored tuples are candidates of later ones only, for as long as the windows say now."""
        if not len(self):
            return
        self._columns["lo"].view()[:] = 0  # ascending, whatever the bounds of later ones
        if change.lifetimes is not None:
            columns = change.lifetimes.times(self.side, *map(self._named, TIMES))
            for name, values in zip(TIMES, columns, strict=True):
                if values is not None:
                    self._columns[name].replace(values)
        self._changed()

    def oldest(self, start: int, stop: int) -> Arrivals:
        """Copies of the tuples that are ``start`` to ``stop`` from the oldest on."""
        part = self._keys.read().part(start, stop)
        return Arrivals(
            self.side,
            keys=tuple(key.copy() for key in part.keys),
            valid=tuple(None if valid is None else valid.copy() for valid in part.valid),
            **{name: column.view()[start:stop].copy() for name, column in self._columns.items()},
        )

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

    def both(self, probes: Arrivals, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here, whichever of the two arrived first.

        In count windows those that arrived after the probe follow those that arrived before it.
        """
        if not len(self) or not len(probes):
            return
        if self._named("expiry") is not None or self._named("low") is not None:
            yield from self.older(probes, compiled)
            yield from self.younger(probes, 0, compiled)
            return
        lo, hi = self._places(probes.lo), self._places(probes.hi)
        ranges = Ranges(np.minimum(lo, hi), np.maximum(hi, self._places_seeing(probes)))
        yield from self._search(probes, _Candidates(ranges), compiled, True)

    def _places_seeing(self, probes: Arrivals) -> Indices:
        """How many entries may see each probe by their bounds, or are older than one that may."""
        seen_from = self._named("lo")
        assert seen_from is not None
        return places_in(seen_from, probes.seqs, after=True)

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
            places: Indices = (
                seqs.searchsorted(numbers) if len(numbers) == 1 else places_in(seqs, numbers)
            )
            return places
        # All neighbours are as near as they can be, so nothing has to be searched.
        return strided_places(numbers, first, stride, count)

    def _younger_candidates(self, probes: Arrivals, met_before: int) -> _Candidates:
        """By the bounds of the younger: the probe must be among its candidates."""
        seqs, low, upper = self._seqs, self._named("low"), self._named("upper")
        lo = places_in(seqs, np.maximum(probes.hi, met_before))
        hi = self._places_seeing(probes)
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
        if compiled and self._single_push.serves(probes):
            return self._single_push.find(probes, self._columns["seqs"])
        counted = self._compared
        candidates = self._older_candidates(probes)
        found = self._kernel(probes, candidates, (0, len(probes)), most, compiled, True)
        if found is None:
            self._compared = counted  # these comparisons will be repeated
            return None
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
        lower, upper = (
            None if bound is None else bound[start:stop] for bound in (ranges.lower, ranges.upper)
        )
        keys = [key[start:stop] for key in probes.keys]
        valid = [None if mask is None else mask[start:stop] for mask in probes.valid]
        probing = self._probe.probing(1 - self.side, keys, valid, lower, upper)
        stored = self._stored()
        if lower is not None:
            stored = self._keys.read(*candidates.times)
        lo, hi = ranges.lo[start:stop], ranges.hi[start:stop]
        stats = self._probe.find(self._keys, lo, hi, probing, stored, most, compiled, indexed)
        self._compared += stats.candidates
        return stats.pairs

    def _named_pairs(self, probes: Arrivals, start: int, found: Pairs) -> FoundPairs:
        probing, entries = split(found)
        probing = probing + start
        own, theirs = probes.seqs[probing], self._seqs[entries]
        ranks = np.maximum(probes.ranks[probing], self._ranks[entries])
        left, right = (own, theirs) if self.side == 1 else (theirs, own)
        return FoundPairs(left, right, ranks, theirs, time.monotonic_ns())

    # -- columns ----------------------------------------------------------------------------

    def _stored(self) -> Columns:
        """The current keys, and where they are not NULL."""
        if self._read is None:
            self._read = self._keys.read()
        return self._read

    def _named(self, name: str) -> Array | None:
        """A column by its name in :class:`Arrivals`; looked up again only after a change."""
        view = self._views.get(name)
        if view is None and name in self._columns:
            view = self._views[name] = self._columns[name].view()
        return view

    @property
    def _seqs(self) -> Indices:
        seqs = self._named("seqs")
        assert seqs is not None
        return seqs

    @property
    def _ranks(self) -> Indices:
        ranks = self._named("ranks")
        assert ranks is not None
        return ranks


class SinglePushProbe:
    """Probes of single-tuple pushes into one side: one compiled call, no steps for batches.

    ``stride`` is the least distance of stored numbers.
    """

    def __init__(
        self, probe: Probe, keys: StoredKeys, stride: int | None, compared: int = 0
    ) -> None:
        self._probe = probe
        self._keys = keys
        self._stride = stride
        self._stored: SearchedKeys | None = None
        self._kernel: Callable[..., tuple[int, int]]
        self.comparisons = compared

    def __getstate__(self) -> dict[str, Any]:
        """All but addresses, which are those of these keys: a copy looks up its own."""
        return {**vars(self), "_stored": None}

    def serves(self, probes: Arrivals) -> bool:
        """Whether it is one probe whose candidates are decided by numbers and keys alone."""
        if len(probes) != 1 or probes.low is not None or not probes.keys:
            return False
        return all([valid is None or bool(valid[0]) for valid in probes.valid])

    def forget(self) -> None:
        """Look everything up again: there are other columns, or entries with other numbers."""
        self._stored = None

    def find(self, probes: Arrivals, seqs: Buffer) -> FoundPairs:
        """The pairs of a probe with the entries that have these numbers."""
        first, numbers = self._keys.first, seqs.view()
        lo, hi = self._span(numbers, int(probes.lo[0]), int(probes.hi[0]))
        if lo >= hi:
            return no_pairs()
        entries = self._search(probes, first + lo, first + hi, seqs.span)
        if not len(entries):
            return no_pairs()
        at = time.monotonic_ns()
        theirs = numbers[entries - first]
        own, ranks = probes.seqs, probes.ranks
        if len(entries) > 1:
            own, ranks = own.repeat(len(entries)), ranks.repeat(len(entries))
        left, right = (own, theirs) if self._keys.side == 1 else (theirs, own)
        return FoundPairs(left, right, ranks, theirs, at)

    def _search(self, probes: Arrivals, lo: int, hi: int, span: Indices) -> Indices:
        """The partners among the entries ``lo .. hi - 1``, oldest first."""
        stored, constants = self._looked_up(span), self._probe.constants
        keys = [key.item() for key in probes.keys]
        while True:
            found, candidates = self._kernel(
                stored.state, stored.segments, stored.partners, lo, hi, *keys, *constants
            )
            if found >= 0:
                break
            if found == MANY_PARTNERS:
                stored.partners = np.empty(2 * candidates, np.int64)
            else:
                stored.update(probes.keys)
                stored.describe()
        self.comparisons += candidates
        entries = stored.partners[:found].copy()
        if found > 1:
            entries.sort()
        if self._keys.index is not None and candidates > MANY_CANDIDATES:
            indexed = candidates - stored.state.item(SCANNED)
            stats = SearchStats(entries, candidates, indexed, found, 1, hi - lo)
            self._keys.learn(stats)
        return entries

    def _looked_up(self, span: Indices) -> SearchedKeys:
        """The keys as they are stored now."""
        stored = self._stored
        if stored is None or stored.has_moved:
            stored = self._look_up(span)
        elif not stored.is_described:
            stored.describe()
        return stored

    def _look_up(self, span: Indices) -> SearchedKeys:
        side, predicate, shape = 1 - self._keys.side, self._probe.predicate, self._keys.shape
        dtypes = tuple(map(key_dtype, predicate.keys[side]))
        self._kernel = predicate.kernel(
            ("one", side, shape), lambda: generate_probe(predicate, side, dtypes, shape)
        )
        self._stored = SearchedKeys(self._keys, span, len(dtypes), NOT_ASKING)
        return self._stored

    def _span(self, seqs: Indices, lo: int, hi: int) -> tuple[int, int]:
        """Where the entries are whose numbers are from ``lo`` on and below ``hi``."""
        first, count, stride = int(seqs[0]), len(seqs), self._stride
        if stride is None or int(seqs[-1]) - first != (count - 1) * stride:
            return int(seqs.searchsorted(lo)), int(seqs.searchsorted(hi))
        # All neighbours are as near as they can be, so nothing has to be searched.
        low = min(max(-((first - lo) // stride), 0), count)
        return low, min(max(-((first - hi) // stride), 0), count)
