"""Finding the pairs: live ranges for a kernel, the kernel, and the residual after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.admission import Admitted
from penstock.blocks.join_side import JoinSide
from penstock.blocks.keyed import Keyed
from penstock.blocks.meeting import Rule
from penstock.blocks.punctuator import Ticks
from penstock.blocks.residual import Residual
from penstock.kernels.bounds import stays_in_range
from penstock.kernels.dictionary import Dictionary
from penstock.kernels.entry_index import EntryIndex
from penstock.kernels.evaluate import select
from penstock.kernels.looked import Looked
from penstock.kernels.merging import live_total, name_pairs, places, row_ranges, three
from penstock.kernels.nested_loop import Columns, Pairs, every_pair, pairs, split
from penstock.kernels.predicate import KeyOperand, Predicate, has_arithmetic
from penstock.kernels.sweeping import Arriving, sweep
from penstock.kernels.vector import Failures
from penstock.program.blocks import JoinStreams
from penstock.sql.expressions import (
    TRUE,
    conjunction,
    conjuncts,
)
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
SMALLEST_DICTIONARY = 65_536
LONGEST_WORDS = 1 << 22
"""Bytes that the values of a dictionary may have, whatever the windows hold."""


@dataclass(frozen=True)
class Probes:
    """The probing tuples of one side: who they are, what they may see, and their keys.

    ``ranks`` are those of all the side's arrivals, ``at`` those of the ones that probe; ``stored``
    is what they look at.
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
    """What is counted while pairs are looked for; it counts for the block once they are kept."""

    probed: list[int] = field(default_factory=lambda: [0, 0])
    comparisons: int = 0
    failures: Failures = field(default_factory=Failures)
    looked: list[tuple[EntryIndex, Looked, int, int]] = field(default_factory=list)


class Matcher:
    """The predicate of a join block, as it stands now."""

    def __init__(
        self, sides: tuple[JoinSide, JoinSide], failures: Failures, compile_predicates: bool
    ) -> None:
        self._sides = sides
        self.failures = failures
        self._compile = compile_predicates
        self.dictionary = Dictionary()
        self.comparisons = 0

    def program(self, instruction: JoinStreams) -> None:
        """Take another predicate. The stored tuples' keys are computed anew."""
        compiled = instruction.compiled if self._compile else TRUE
        self._filters = instruction.filters
        self.predicate = Predicate.of(compiled)
        self._residual = Residual.of(
            instruction.residual
            if self._compile
            else conjunction(conjuncts(instruction.compiled) + conjuncts(instruction.residual))
        )
        # What takes the kernel's place when its sums might overflow.
        self._everything = Residual.of(
            conjunction(conjuncts(instruction.compiled) + conjuncts(instruction.residual))
        )
        self._kernel_name = instruction.kernel
        if instruction.kernel != "nested-loop" and not instruction.kernel_is_forced:
            self._kernel_name = "auto"
        self._constants = [_constant(k.value, k.type) for k in self.predicate.constants]
        self.rebuild()

    def rebuild(self) -> None:
        """Compute the keys of all stored tuples anew, with a new dictionary."""
        self.dictionary = Dictionary()
        for side in self._sides:
            keys = self.predicate.keys[side.index]
            index = None
            here = side.stores_keys and self._compile
            if self._kernel_name != "nested-loop" and keys and here:
                index = EntryIndex(self.predicate, side.index, self._kernel_name)
            usable = index is not None and index.usable
            side.set_keys(
                self._filters[side.index], keys, self.dictionary, index if usable else None
            )

    def rule(self, window_rows: tuple[int | None, int | None], clock_lowest: int | float) -> Rule:
        """What cores elsewhere need to know of the predicate."""
        constants = tuple(self._constants)
        name = self._kernel_name
        return Rule(self.predicate, constants, name, self._compile, window_rows, clock_lowest)

    def passing(self, left: Indices, right: Indices, compiled: bool) -> Indices | None:
        """Which pairs of a kernel pass the rest of the predicate; None: there is no rest.

        Without ``compiled``, the kernel has not looked at the predicate at all.
        """
        residual = self._residual if compiled else self._everything
        if residual.condition == TRUE:
            return None
        passed = self._passes(residual, self._sides[0], left, right, self.failures)
        return np.flatnonzero(passed)

    def tidy_dictionary(self, arriving: int) -> None:
        """Start a new dictionary once most of its values are of tuples long gone."""
        stored = sum(len(side.rows) for side in self._sides) + arriving
        held = sum(side.rows.nbytes for side in self._sides)
        if len(self.dictionary) > max(
            SMALLEST_DICTIONARY, 4 * stored
        ) or self.dictionary.nbytes > max(LONGEST_WORDS, 4 * held):
            self.rebuild()

    @property
    def encodes(self) -> bool:
        """Whether keys go through the dictionary, which both sides write to."""
        return any(key.kind == "code" for keys in self.predicate.keys for key in keys)

    def probes(
        self, side: JoinSide, admitted: Admitted, keyed: Keyed, ranks: Indices, seen: Indices
    ) -> Probes:
        """What the arriving tuples of ``side`` may see of the other side, and their keys.

        ``ranks`` are theirs; ``seen`` is how many of the other side's newest tuples were there
        before each.
        """
        other = self._sides[1 - side.index]
        new_here = admitted.batch.num_rows
        low, upper = admitted.low, None
        by_time = isinstance(other.window, Range) and not other.in_order
        if isinstance(other.window, Rows) and other.seqs is None:
            lo, hi = np.empty_like(seen), np.empty_like(seen)
            before = len(other.rows) - other.newest
            row_ranges(seen, before, other.window.size, lo, hi)
        else:
            lo, hi, upper = self._sight(side, other, admitted, seen, by_time)
        numbers, at = np.arange(new_here, dtype=np.int64), ranks
        if keyed.passed is not None:
            numbers = keyed.passed
            at, lo, hi = ranks[numbers], lo[numbers], hi[numbers]
            low = None if low is None else low[numbers]
            upper = None if upper is None else upper[numbers]
        columns = Columns(
            keyed.values, self._validity(side, keyed), *((low, upper) if by_time else (None, None))
        )
        stored = other.stored_columns(by_time, columns.upper is not None)
        return Probes(numbers, side.rows.next - new_here, lo, hi, columns, ranks, at, stored)

    def index(self, side: JoinSide, probes: Probes) -> None:
        """Bring the index up to date that the tuples of ``side`` look into."""
        other = self._sides[1 - side.index]
        if other.entry_index is not None and len(probes.numbers) and self.in_range():
            other.entry_index.update(other.first_entry, probes.stored, probes.columns)

    @staticmethod
    def _sight(
        side: JoinSide, other: JoinSide, admitted: Admitted, seen: Indices, by_time: bool
    ) -> tuple[Indices, Indices, Ticks | None]:
        """What each arriving tuple may see, as indices of keys; and up to which time."""
        hi = (other.rows.next - other.newest) + seen
        lo = np.full(len(hi), other.rows.first, np.int64)
        low, times = admitted.low, admitted.times
        upper = None
        if isinstance(other.window, Rows):
            lo = np.maximum(hi - other.window.size, lo)
        elif isinstance(other.window, Range) and times is not None and low is not None:
            if isinstance(side.window, Range):
                upper = side.clock.later(times, side.window.size)
            # Of times out of order, the bounds are those of what came before or comes after.
            expiry, stamps = other.expiry.view(), other.times.view()
            latest = np.maximum.accumulate(expiry) if by_time else expiry
            lo += np.searchsorted(latest, low, side="right")
            if upper is not None:
                earliest = np.minimum.accumulate(stamps[::-1])[::-1] if by_time else stamps
                hi = np.minimum(hi, other.rows.first + np.searchsorted(earliest, upper))
        lo, hi = other.entry_range(lo, hi)
        return lo, np.maximum(lo, hi), upper

    @staticmethod
    def _validity(side: JoinSide, keyed: Keyed) -> list[npt.NDArray[np.bool_] | None]:
        """A key that has ever had a NULL has a validity, so that few kernels are compiled."""
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
        than ``most`` candidates that the kernel lets through. Nothing is changed but the tally, so
        threads may do this at the same time.
        """
        other = self._sides[1 - side.index]
        a, b = np.searchsorted(probes.at, (start, stop)).tolist()
        tally.probed[side.index] += b - a
        candidates = live_total(probes.lo[a:b], probes.hi[a:b])
        capacity = candidates if most is None else min(candidates, most)
        found = self._kernel(side, other, probes, a, b, capacity, candidates, tally)
        if found is None:
            return None
        seqs, partners, which = named = three(len(found))
        stored, first = other.entry_numbers()
        name_pairs(found, probes.numbers[a:b], probes.first_seq, stored, first, probes.ranks, named)
        residual = self._residual if self.in_range() else self._everything
        if residual.condition != TRUE and len(seqs):
            kept = np.flatnonzero(self._passes(residual, side, seqs, partners, tally.failures))
            seqs, partners, which = seqs[kept], partners[kept], which[kept]
        return seqs, partners, which

    def can_sweep(self, probes: Sequence[Probes | None]) -> bool:
        """Whether :meth:`sweep` can take the place of :meth:`match` for these probes."""
        if not self._compile or not self.in_range():
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
                everybody = len(other.rows) - other.newest + seen[side.index]
                if (given.hi != everybody).any() or (given.lo[1:] < given.lo[:-1]).any():
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
            arriving.append(Arriving(given.at[a:b], given.lo[a:b], first, side.rows.first, stored))
        side = self._swept()
        assert side.entry_index is not None
        mine, other = arriving[side.index], arriving[1 - side.index]
        swept = sweep(side.entry_index, mine, other, self._constants, most)
        tally.comparisons += swept.met
        if swept.pairs is None:
            return None
        left, right, ranks = swept.pairs
        if self._residual.condition != TRUE and len(left):
            kept = np.flatnonzero(
                self._passes(self._residual, self._sides[0], left, right, tally.failures)
            )
            left, right, ranks = left[kept], right[kept], ranks[kept]
        return left, right, ranks

    def settle(self, tally: Tally) -> None:
        """Count what was counted, and let indexes learn from it; nobody is matching now."""
        self.comparisons += tally.comparisons
        self.failures.count += tally.failures.count
        for index, looked, first, count in tally.looked:
            index.learn(looked, first, count)

    def _kernel(
        self,
        side: JoinSide,
        other: JoinSide,
        probes: Probes,
        a: int,
        b: int,
        capacity: int,
        candidates: int,
        tally: Tally,
    ) -> Pairs | None:
        if capacity == 0 or a == b:
            return np.empty(0, np.int64)
        lo, hi = probes.lo[a:b], probes.hi[a:b]
        columns, stored = probes.columns.part(a, b), probes.stored
        if self._compile and self.in_range():
            index, first = other.entry_index, other.first_entry
            if index is not None:
                looked = index.look(first, lo, hi, columns, stored, self._constants, capacity)
                tally.comparisons += looked.met
                tally.looked.append((index, looked, first, len(stored.keys[0])))
                return looked.pairs
            tally.comparisons += candidates
            return pairs(
                self.predicate, side.index, lo, hi, columns, stored, self._constants, capacity
            )
        tally.comparisons += candidates
        every = every_pair(lo, hi, capacity)
        if every is None or columns.lower is None or stored.lower is None:
            return every
        probing, partners = split(every)
        live = stored.lower[partners] > columns.lower[probing]
        if columns.upper is not None and stored.upper is not None:
            live &= stored.upper[partners] < columns.upper[probing]
        kept: Pairs = every[live]
        return kept

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel that meets tuples stored on the left, and on the right, as chosen by now."""
        left, right = (
            "nested-loop" if side.entry_index is None else side.entry_index.choice.name
            for side in self._sides
        )
        return left, right

    def in_range(self) -> bool:
        """Whether nothing that the kernel computes can overflow, given what has been stored."""
        if not has_arithmetic(self.predicate.condition):
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


def _constant(value: Any, kind: pa.DataType) -> np.generic:
    """A constant of the machine type that native keys of its SQL type have."""
    if pa.types.is_float32(kind):
        return np.float32(value)
    return np.float64(value) if pa.types.is_float64(kind) else np.int64(value)
