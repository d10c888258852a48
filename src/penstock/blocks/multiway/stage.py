"""A stage of a multiway join: combinations probe one more window for their next member.

A stage is always probe × entry, as in a two-way join: the probe is a combination, whose keys come
from the tuples of several inputs, and the entry is a tuple of the window. So it uses the kernels
and indexes of two-way joins, with the combinations as side 0 and the window as side 1.

Where combinations are stored, a tuple of the window's input probes them by the same predicate, the
other way round (:meth:`Stage.search_combinations`). Such combinations may lack members, which read
as NULLs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join.matcher import constant_of
from penstock.blocks.join.side import JoinSide, KeyColumn, key_values
from penstock.blocks.run import Share
from penstock.blocks.window.live_ranges import Ranges
from penstock.blocks.window.probe import Probe, every_live
from penstock.blocks.window.stored_columns import Buffer
from penstock.kernels.compiled import Loader
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures, Vector
from penstock.kernels.merging import live_total
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.keys import comparison_key, native_values
from penstock.kernels.predicate.overflow import stays_in_range
from penstock.kernels.predicate.predicate import Key, KeyOperand, Predicate, has_arithmetic
from penstock.kernels.probe.buckets import gathered
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.nested_loop import Columns, Pairs
from penstock.program.choose.probe_order import ProbeStage
from penstock.sql.expressions import TRUE, Column, Expression, conjunction, rebuild, walk
from penstock.sql.rules.split_join_predicate import compiles
from penstock.streams.batches import opened, take, without_columns

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
COLUMN_BITS = 24
"""In a stage's predicate, side 0 has the columns of all bound inputs: input << 24 | column."""


@dataclass(frozen=True)
class Reading:
    """Expressions over tuples of several inputs, and the columns that they read of each."""

    expressions: tuple[Expression, ...]
    columns: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, expressions: Iterable[Expression]) -> Reading:
        given = tuple(expressions)
        read: dict[int, set[int]] = {}
        for node in (node for expression in given for node in walk(expression)):
            if isinstance(node, Column):
                read.setdefault(node.side, set()).add(node.index)
        columns = {side: tuple(sorted(found)) for side, found in read.items()}

        def renumber(node: Expression) -> Expression:
            if isinstance(node, Column):
                return replace(node, index=columns[node.side].index(node.index))
            return rebuild(node, renumber)

        return cls(tuple(map(renumber, given)), columns)

    def inputs(
        self,
        sides: Sequence[JoinSide],
        members: Sequence[Indices | None],
        count: int,
        padded: bool = False,
    ) -> list[pa.RecordBatch]:
        """The tuples that the expressions read, for each of ``count`` combinations.

        ``padded``: -1 stands for a tuple of NULLs.
        """
        nothing = without_columns(count)
        found = [nothing] * len(sides)
        for side, columns in self.columns.items():
            seqs = members[side]
            assert seqs is not None
            found[side] = sides[side].rows.take(seqs, columns, padded)
        return found


class KeyStore:
    """The keys of one side of a predicate, in their order, and an index of them.

    Keys are dropped at the front; ``dropped_count`` has the number of those, which compiled code
    moves too. Several threads may search at the same time, while none stores or drops.
    """

    def __init__(self, predicate: Predicate, stored_side: int, kernel: str) -> None:
        self.predicate = predicate
        self.stored_side = stored_side
        self.columns = [KeyColumn(key) for key in predicate.keys[stored_side]]
        self.dropped_count: Indices = np.zeros(1, np.int64)
        self._changing = threading.Lock()
        self.index: EntryIndex | None = None
        if kernel != "nested-loop" and self.columns and predicate.keys[1 - stored_side]:
            index = EntryIndex(predicate, stored_side, kernel)
            self.index = index if index.usable else None

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock: a copy has one of its own."""
        return {name: value for name, value in vars(self).items() if name != "_changing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._changing = threading.Lock()

    @property
    def dropped(self) -> int:
        """How many keys have been dropped."""
        return int(self.dropped_count[0])

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of the keys: first those of values, then those of validities."""
        valid = [column.valid for column in self.columns if column.valid is not None]
        return [*(column.values for column in self.columns), *valid]

    def append(self, values: Sequence[npt.NDArray[Any]], valid: Sequence[Mask | None]) -> None:
        """Store keys at the end."""
        for column, some, known in zip(self.columns, values, valid, strict=True):
            column.append(some, known)
            bounds = _bounds_of(column.key, some, known)
            if bounds is not None:
                column.widen(*bounds)

    def drop(self, count: int) -> None:
        """Drop the oldest keys."""
        self.dropped_count += count
        for column in self.columns:
            column.values.drop(count)
            if column.valid is not None:
                column.valid.drop(count)

    def stored(self, lower: npt.NDArray[Any] | None, upper: npt.NDArray[Any] | None) -> Columns:
        """The columns that a kernel reads, with the times that say what is live, if needed."""
        keys = [column.values.view() for column in self.columns]
        valid = [None if c.valid is None else c.valid.view() for c in self.columns]
        return Columns(keys, valid, lower, upper)

    def find(
        self,
        ranges: Ranges,
        probe: Columns,
        stored: Columns,
        constants: Sequence[np.generic],
        capacity: int,
    ) -> tuple[Pairs | None, int]:
        """The pairs that the kernel lets through, and the number of comparisons.

        None instead of pairs if there are more than ``capacity``.
        """
        index, lo, hi = self.index, ranges.lo, ranges.hi
        if index is not None:
            with self._changing:
                index.update(self.dropped, stored, probe)
        search = Probe(self.predicate, self.stored_side, constants).search
        stats = search(index, self.dropped, lo, hi, probe, stored, capacity)
        if index is not None:
            with self._changing:
                index.learn(stats, self.dropped, len(stored.keys[0]))
        return stats.pairs, stats.candidates

    @property
    def nbytes(self) -> int:
        index = 0 if self.index is None else self.index.nbytes
        return index + sum(buffer.nbytes for buffer in self.buffers)

    @property
    def kernel(self) -> str:
        """The kernel that searches it, as chosen by now."""
        return "nested-loop" if self.index is None else self.index.choice.name


class Entries:
    """The keys of a window's tuples for one predicate, in their order, and an index of them.

    They begin with the tuples that the window has, or with ``tuples``: a number, and the tuples
    from that number on. With a ``share``, they are those of the tuples that it owns, by the numbers
    that they arrived with: where the window's tuples have been packed, their own are others.
    ``span`` has the number of the first tuple and of the one after the last; compiled code moves
    these too.

    Several threads may search at the same time, while none stores or drops.
    """

    def __init__(
        self,
        predicate: Predicate,
        kernel: str,
        side: JoinSide,
        dictionary: Dictionary,
        tuples: tuple[int, Sequence[pa.RecordBatch]] | None = None,
        share: Share | None = None,
    ) -> None:
        self._side = side
        first, batches = tuples or (side.rows.first, side.rows.batches())
        self.span: Indices = np.array([first, first], np.int64)
        self._share = share
        packed = share is not None and side.origin is not None
        self._numbers = Buffer(np.dtype(np.int64)) if packed else None
        """Of each entry, the number of its tuple, where that does not follow from the share."""
        self._dictionary = dictionary
        self.keys = KeyStore(predicate, 1, kernel)
        for batch in batches:
            self.append(batch, Failures())  # these tuples were counted when they arrived

    def append(self, batch: pa.RecordBatch, failures: Failures) -> None:
        """Store the keys of arriving tuples."""
        start, after = self.span.item(1), self.span.item(1) + batch.num_rows
        self.span[1] = after
        if self._share is not None:
            numbers = np.arange(start, after)
            mine = np.flatnonzero(self._share.owns(self._side.arrival_numbers(numbers)))
            batch = opened(take(batch, mine))
            if self._numbers is not None:
                self._numbers.append(numbers[mine])
        keys = [column.key for column in self.keys.columns]
        self.keys.append(*key_values(keys, (batch, batch), self._dictionary, failures))

    def drop_before(self, first: int) -> None:
        """Drop the keys of the tuples with smaller numbers."""
        count = first - self._first
        if self._numbers is not None:
            count = int(np.searchsorted(self._numbers.view(), first))
            self._numbers.drop(count)
        elif self._share is not None:
            before, after = self._share.before(np.array([self._first, first])).tolist()
            count = after - before
        self.span[0] = first
        self.keys.drop(count)

    @property
    def _first(self) -> int:
        return self.span.item(0)

    def candidates(self, ranges: Ranges, first: int, after: int | None) -> Ranges:
        """Ranges of the window's tuples, as ranges of entries; only ``first .. after - 1`` count.

        What is counted from is the oldest tuple that the window has.
        """
        if not first and after is None and self._share is None:
            return ranges
        lo = np.maximum(ranges.lo, first)
        hi = ranges.hi if after is None else np.minimum(ranges.hi, after)
        return replace(ranges, lo=self._place(lo), hi=self._place(np.maximum(hi, lo)))

    def _place(self, tuples: Indices) -> Indices:
        """How many entries are before these tuples, which are counted as the window has them."""
        oldest = self._side.rows.first
        if self._share is None:
            return tuples - (self._first - oldest)
        if self._numbers is not None:
            return np.searchsorted(self._numbers.view(), tuples + oldest)
        before: Indices = self._share.before(tuples + oldest)
        return before - self._entries_before

    @property
    def _entries_before(self) -> int:
        """How many tuples of the share are before the first entry."""
        assert self._share is not None
        return int(self._share.before(np.array([self._first]))[0])

    def numbers(self, entries: Indices) -> Indices:
        """The numbers of the tuples that these entries belong to."""
        if self._share is None:
            return entries + self._first
        if self._numbers is not None:
            found: Indices = self._numbers.view()[entries]
            return found
        return (entries + self._entries_before) * self._share.cores + self._share.core

    def stored(self, by_time: bool, bounded_above: bool) -> Columns:
        """The columns that a kernel reads; ``by_time``: times too, for which tuples are live."""
        if not by_time:
            return self.keys.stored(None, None)
        times = self._of_entries(self._side.times.view()) if bounded_above else None
        return self.keys.stored(self._of_entries(self._side.expiry.view()), times)

    def _of_entries(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What a column of the window has for the entries."""
        if self._numbers is not None:
            found: npt.NDArray[Any] = column[self._numbers.view() - self._side.rows.first]
            return found
        column = column[self._first - self._side.rows.first :]
        if self._share is None:
            return column
        start = (self._share.core - self._first) % self._share.cores
        return np.ascontiguousarray(column[start :: self._share.cores])

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes

    @property
    def kernel(self) -> str:
        """The kernel that searches it, as chosen by now."""
        return self.keys.kernel


def _bounds_of(key: Key, values: npt.NDArray[Any], valid: Mask | None) -> tuple[int, int] | None:
    """The least and the largest of native integers; None for other keys, or if there is none."""
    if key.kind != "native" or values.dtype.kind != "i":
        return None
    known = values if valid is None else values[valid]
    return (int(known.min()), int(known.max())) if len(known) else None


class Stage:
    """The predicate of one stage, as kernels need it."""

    def __init__(
        self, plan: ProbeStage, load: Loader, bounded_above: bool, padded: bool = False
    ) -> None:
        """``bounded_above``: a bound input has a time window, which bounds a new member's time.

        ``padded``: combinations may lack members, whose numbers are -1.
        """
        self._padded = padded
        self.input = plan.input
        self.bound = plan.bound
        self._bounded_above = bounded_above
        compiled, rest = [], []
        for term in plan.terms:
            two_sided = self._two_sided(term)
            if compiles(two_sided):
                compiled.append(two_sided)
            else:
                rest.append(term)
        self.predicate = Predicate.of(conjunction(tuple(compiled)), load)
        self.constants = [constant_of(k.value, k.type) for k in self.predicate.constants]
        keys, own = self.predicate.keys
        self._entering = Reading.of(key.expression for key in own)
        self._entering_keys = [
            replace(key, expression=expression)
            for key, expression in zip(own, self._entering.expressions, strict=True)
        ]
        self.combination_keys = [
            replace(key, expression=self._over_inputs(key.expression)) for key in keys
        ]
        """The keys of combinations; the side of a column is its input."""
        self._probing = Reading.of(key.expression for key in self.combination_keys)
        self.probe_keys = [
            replace(key, expression=expression)
            for key, expression in zip(keys, self._probing.expressions, strict=True)
        ]
        # Integers need no evaluation: they are gathered from the columns of the windows.
        self._integers = [
            divmod(key.expression.index, 1 << COLUMN_BITS)
            for key in keys
            if isinstance(key.expression, Column)
            and pa.types.is_integer(key.expression.type)
            and key.kind in ("compare", "native")
            and not padded
        ]
        self._has_null = [[False] * len(of_side) for of_side in self.predicate.keys]
        self._computes = has_arithmetic(self.predicate.condition)
        self._residual = Reading.of([conjunction(tuple(rest))])
        self._everything = Reading.of([conjunction(plan.terms)])
        self.identity = self._identity()
        """Stages with the same identity can use the same entries; the input comes first.

        Segments of an index have the columns that their kernel reads, so times must be bounded
        alike.
        """

    def _two_sided(self, expression: Expression) -> Expression:
        """The expression with combinations as side 0 and the window as side 1."""
        if isinstance(expression, Column):
            if expression.side == self.input:
                return replace(expression, side=1)
            column = expression.side << COLUMN_BITS | expression.index
            return replace(expression, side=0, index=column)
        return rebuild(expression, self._two_sided)

    def _over_inputs(self, expression: Expression) -> Expression:
        """The opposite of :meth:`_two_sided`, for what is on side 0."""
        if isinstance(expression, Column):
            side, column = divmod(expression.index, 1 << COLUMN_BITS)
            return replace(expression, side=side, index=column)
        return rebuild(expression, self._over_inputs)

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel evaluates all terms."""
        return self._residual.expressions == (TRUE,)

    def _identity(self) -> tuple[Any, ...]:
        kinds = tuple((key.kind, str(key.expression.type)) for key in self.predicate.keys[0])
        constants = tuple((repr(c.value), str(c.type)) for c in self.predicate.constants)
        condition = repr(self.predicate.condition), self._bounded_above
        return self.input, condition, tuple(self.predicate.keys[1]), kinds, constants

    def search(
        self,
        entries: Entries,
        sides: Sequence[JoinSide],
        members: Sequence[Indices | None],
        ranges: Ranges,
        most: int | None,
        dictionary: Dictionary,
        failures: Failures,
        note: Callable[[int], None],
    ) -> Pairs | None:
        """The pairs of a combination and an entry that satisfy the stage's terms.

        None if there are more than ``most`` candidates that the kernel lets through. ``note`` is
        told how many comparisons were made.
        """
        if not live_total(ranges.lo, ranges.hi):
            return np.empty(0, np.int64)
        given = self.keys_of(sides, members, len(ranges.lo), dictionary, failures)
        stored = entries.stored(ranges.lower is not None, ranges.upper is not None)
        found, residual = self._found(entries.keys, stored, ranges, given, most, note)
        if found is None or not len(found) or residual.expressions == (TRUE,):
            return found
        together = list(members)
        probing, partners = found >> 32, found & 0xFFFFFFFF
        for side, seqs in enumerate(members):
            together[side] = None if seqs is None else seqs[probing]
        together[self.input] = entries.numbers(partners)
        return self._passing(found, residual, sides, together, failures)

    def search_combinations(
        self,
        keys: KeyStore,
        stored: Columns,
        sides: Sequence[JoinSide],
        members: Sequence[Indices | None],
        seqs: Indices,
        ranges: Ranges,
        is_live: Callable[[Indices, Indices], Mask],
        most: int | None,
        dictionary: Dictionary,
        failures: Failures,
        note: Callable[[int], None],
    ) -> Pairs | None:
        """The pairs of a tuple of the input and a stored combination that satisfy the terms.

        ``members`` are those of all stored combinations, ``keys`` their keys and ``stored`` what a
        kernel reads of them; ``seqs`` are the numbers of the tuples. ``is_live`` says of pairs, by
        index, whether the combination has not ended for the tuple. Else as :meth:`search`.
        """
        if not live_total(ranges.lo, ranges.hi):
            return np.empty(0, np.int64)
        batch = sides[self.input].rows.take(seqs, self._entering.columns.get(1, ()))
        given = key_values(self._entering_keys, (batch, batch), dictionary, failures)
        found, residual = self._found(keys, stored, ranges, given, most, note)
        if found is None:
            return None
        found = found[is_live(found >> 32, found & 0xFFFFFFFF)]
        if not len(found) or residual.expressions == (TRUE,):
            return found
        probing, partners = found >> 32, found & 0xFFFFFFFF
        together = [None if some is None else some[partners] for some in members]
        together[self.input] = seqs[probing]
        return self._passing(found, residual, sides, together, failures)

    def _found(
        self,
        keys: KeyStore,
        stored: Columns,
        ranges: Ranges,
        given: tuple[list[npt.NDArray[Any]], list[Mask | None]],
        most: int | None,
        note: Callable[[int], None],
    ) -> tuple[Pairs | None, Reading]:
        """The pairs that the kernel lets through, and what is left to evaluate on them."""
        values, valid = given
        candidates = live_total(ranges.lo, ranges.hi)
        capacity = candidates if most is None else min(candidates, most)
        probe_side = 1 - keys.stored_side
        masks = self._validity(probe_side, valid, len(ranges.lo))
        columns = Columns(values, masks, ranges.lower, ranges.upper)
        if not self._in_range(keys, values, valid):
            every = every_live(ranges.lo, ranges.hi, columns, stored, capacity)
            note(every.candidates)
            return every.pairs, self._everything
        found, compared = keys.find(ranges, columns, stored, self.constants, capacity)
        note(compared)
        return found, self._residual

    def _passing(
        self,
        found: Pairs,
        residual: Reading,
        sides: Sequence[JoinSide],
        together: Sequence[Indices | None],
        failures: Failures,
    ) -> Pairs:
        """The pairs that satisfy the rest of the terms; ``together`` are the members of each."""
        inputs = residual.inputs(sides, together, len(found), self._padded)
        passing: Pairs = found[select(inputs, residual.expressions[0], failures)]
        return passing

    def keys_of(
        self,
        sides: Sequence[JoinSide],
        members: Sequence[Indices | None],
        count: int,
        dictionary: Dictionary,
        failures: Failures,
    ) -> tuple[list[npt.NDArray[Any]], list[Mask | None]]:
        """The keys of combinations, and which of them are not NULL."""
        columns = [sides[side].rows.fixed[index] for side, index in self._integers]
        if len(columns) < len(self.probe_keys) or any(c.valid is not None for c in columns):
            inputs = self._probing.inputs(sides, members, count, self._padded)
            return key_values(self.probe_keys, inputs, dictionary, failures)
        values: list[npt.NDArray[Any]] = []
        for key, column, (side, _) in zip(self.probe_keys, columns, self._integers, strict=True):
            seqs = members[side]
            assert seqs is not None
            taken = gathered(column.values.view(), seqs - sides[side].rows.first)
            vector = Vector(taken, None, column.kind)
            values.append(native_values(vector) if key.kind == "native" else comparison_key(vector))
        return values, [None] * len(values)

    def _validity(self, side: int, valid: list[Mask | None], count: int) -> list[Mask | None]:
        """A key that has ever had a NULL keeps a validity mask: fewer kernels are compiled."""
        found: list[Mask | None] = []
        has_null = self._has_null[side]
        for number, mask in enumerate(valid):
            has_null[number] |= mask is not None
            found.append(np.ones(count, np.bool_) if mask is None else mask)
        return [m if h else None for m, h in zip(found, has_null, strict=True)]

    def _in_range(
        self, keys: KeyStore, values: list[npt.NDArray[Any]], valid: list[Mask | None]
    ) -> bool:
        """Whether no sum of the kernel can overflow, given the keys."""
        if not self._computes:
            return True

        def bounds(operand: KeyOperand) -> tuple[int, int] | None:
            number = operand.index
            if operand.side != keys.stored_side:
                key = self.predicate.keys[operand.side][number]
                return _bounds_of(key, values[number], valid[number])
            column = keys.columns[number]
            return None if column.low is None or column.high is None else (column.low, column.high)

        return stays_in_range(self.predicate.condition, self.predicate.constants, bounds)
