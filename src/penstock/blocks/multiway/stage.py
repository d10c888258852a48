"""A stage of a multiway join: combinations probe one more window for their next member.

A stage is always probe × entry, as in a two-way join: the probe is a combination, whose keys come
from the tuples of several inputs, and the entry is a tuple of the window. So it uses the kernels
and indexes of two-way joins, with the combinations as side 0 and the window as side 1.

Where combinations are stored, a tuple of the window's input probes them by the same predicate, the
other way round (:meth:`Stage.search_combinations`). Such combinations may lack members, which read
as NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.window.keys import Bounds, StoredKeys, WindowKeys, key_bounds, key_values
from penstock.blocks.window.live_ranges import Ranges
from penstock.blocks.window.probe import Probe
from penstock.blocks.window.reading import Reading
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.compiled import Loader
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures, Vector
from penstock.kernels.merging import live_total
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.keys import comparison_key, native_values
from penstock.kernels.predicate.predicate import KeyOperand, Predicate
from penstock.kernels.probe.buckets import gathered
from penstock.kernels.probe.nested_loop import Columns, Pairs
from penstock.program.choose.probe_order import ProbeStage
from penstock.sql.expressions import Column, Expression, conjunction, rebuild
from penstock.sql.rules.split_join_predicate import compiles

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
COLUMN_BITS = 24
"""In a stage's predicate, side 0 has the columns of all bound inputs: input << 24 | column."""


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
        self.probe = Probe(self.predicate)
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
        return self._residual.is_true

    def _identity(self) -> tuple[Any, ...]:
        kinds = tuple((key.kind, str(key.expression.type)) for key in self.predicate.keys[0])
        constants = tuple((repr(c.value), str(c.type)) for c in self.predicate.constants)
        condition = repr(self.predicate.condition), self._bounded_above
        return self.input, condition, tuple(self.predicate.keys[1]), kinds, constants

    def search(
        self,
        entries: WindowKeys,
        sides: Sequence[StoredWindow],
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
        stored = entries.read(ranges.lower is not None, ranges.upper is not None)
        found, residual = self._found(entries.keys, stored, ranges, given, most, note)
        if found is None or not len(found) or residual.is_true:
            return found
        together = list(members)
        probing, partners = found >> 32, found & 0xFFFFFFFF
        for side, seqs in enumerate(members):
            together[side] = None if seqs is None else seqs[probing]
        together[self.input] = entries.numbers_of(partners)
        return self._passing(found, residual, sides, together, failures)

    def search_combinations(
        self,
        keys: StoredKeys,
        stored: Columns,
        sides: Sequence[StoredWindow],
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
        if not len(found) or residual.is_true:
            return found
        probing, partners = found >> 32, found & 0xFFFFFFFF
        together = [None if some is None else some[partners] for some in members]
        together[self.input] = seqs[probing]
        return self._passing(found, residual, sides, together, failures)

    def _found(
        self,
        keys: StoredKeys,
        stored: Columns,
        ranges: Ranges,
        given: tuple[list[npt.NDArray[Any]], list[Mask | None]],
        most: int | None,
        note: Callable[[int], None],
    ) -> tuple[Pairs | None, Reading]:
        """The pairs that the kernel lets through, and what is left to evaluate on them."""
        values, valid = given
        side = 1 - keys.side
        probing = self.probe.probing(side, values, valid, ranges.lower, ranges.upper)

        def bounds_of(operand: KeyOperand) -> Bounds | None:
            number = operand.index
            if operand.side == keys.side:
                return keys.columns[number].bounds
            return key_bounds(self.predicate.keys[side][number], values[number], valid[number])

        compiled = self.probe.in_range(bounds_of)
        stats = self.probe.find(keys, ranges.lo, ranges.hi, probing, stored, most, compiled)
        note(stats.candidates)
        return stats.pairs, self._residual if compiled else self._everything

    def _passing(
        self,
        found: Pairs,
        residual: Reading,
        sides: Sequence[StoredWindow],
        together: Sequence[Indices | None],
        failures: Failures,
    ) -> Pairs:
        """The pairs that satisfy the rest of the terms; ``together`` are the members of each."""
        inputs = residual.inputs(sides, together, len(found), self._padded)
        passing: Pairs = found[select(inputs, residual.expressions[0], failures)]
        return passing

    def keys_of(
        self,
        sides: Sequence[StoredWindow],
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
