"""Single-tuple pushes into a join of three and more inputs, each by one compiled call.

The step of an input follows the input's probe order, over the windows and the entries that batches
use; see :mod:`penstock.kernels.probe.single_stages`. It is for inner joins with count windows, and
refuses what it does not support, having changed nothing. What it has looked up, the probe order
too, is looked up again after :attr:`MultiwayBuffers.changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join.compiled_steps import SingleStep, set_constants
from penstock.blocks.join.latency import Latency
from penstock.blocks.lateness import INPUT_BITS
from penstock.blocks.loose_rows import ColumnSource, ColumnSources
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.multiway.stretch_search import Path
from penstock.blocks.run import Run
from penstock.blocks.window.compiled_search import SAMPLE, SearchedKeys
from penstock.blocks.window.keys import WindowKeys, key_dtype
from penstock.blocks.window.stored_columns import Buffer
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.addresses import address_of
from penstock.kernels.compiled import Loader, load_storing
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.predicate import Key
from penstock.kernels.predicate.scalar_source import Unsupported
from penstock.kernels.probe.single_search import (
    HEADER,
    LONG_TAIL,
    MANY_PARTNERS,
    BufferTypes,
)
from penstock.kernels.probe.single_stages import (
    ARRIVAL,
    FULL,
    INCOMPLETE,
    MORE,
    STAGE_WORDS,
    MemberColumn,
    StageShape,
    StagesShape,
    StagesSource,
    generate_stages,
    member_dtype,
)
from penstock.sql.expressions import Column, Expression, rebuild, walk
from penstock.streams.schema import is_text
from penstock.streams.windows import Rows

Indices = npt.NDArray[np.int64]
MOST_COMBINATIONS = 1 << 14
"""A tuple with more goes through a batch, whose memory is bounded."""


class MultiwayBuffers(Protocol):
    """A multiway join block, as a compiled step over its buffers needs it.

    ``changes`` counts what has changed its buffers, indexes or probe orders beside appending and
    dropping.
    """

    sides: list[StoredWindow]
    columns: tuple[tuple[int, ...], ...]
    dictionary: Dictionary
    latency: Latency
    matches: int
    changes: int

    def path(self, origin: int) -> Path:
        """The probe order of an input, and its stages."""

    def entries_of(self, stage: Stage) -> WindowKeys:
        """The keys that a stage searches."""

    def entries_over(self, input: int) -> list[WindowKeys]:
        """All keys of an input's tuples."""

    def note_single(self, origin: int, found: int, incomplete: int, compared: int) -> None:
        """Count a tuple and what it has become."""

    def rebuild(self) -> None:
        """Compute all keys again."""

    @property
    def load(self) -> Loader:
        """What makes a kernel of its source."""


class ProbedStage:
    """A stage as a compiled step probes it."""

    def __init__(
        self, stage: Stage, entries: WindowKeys, side: StoredWindow, asking: Indices
    ) -> None:
        self.stage = stage
        self.stored = SearchedKeys(entries.keys, side.rows.span, len(stage.probe_keys), asking)

    @property
    def words(self) -> list[int]:
        """What the state of the step has of it."""
        stored = self.stored
        described = address_of(stored.segments) if stored.segments.size else 0
        rows, columns = stored.segments.shape
        partners = address_of(stored.partners), len(stored.partners)
        return [address_of(stored.state), described, rows, columns, *partners]

    @property
    def harmless(self) -> int | None:
        """A magnitude of keys for which no sum can overflow."""
        return self.stage.probe.harmless((None, self.stored.keys))


@dataclass(frozen=True)
class _Kernel:
    """A compiled kernel, and the layout of its state.

    ``members`` are the columns of other windows that it reads, in their order; ``coded`` the text
    columns of a tuple that it takes as codes.
    """

    source: StagesSource
    call: Callable[..., tuple[int, int]]
    members: tuple[Column, ...]
    coded: set[int]


class SingleMultiway(SingleStep):
    """The compiled step for single tuples of one input of a multiway join with count windows."""

    def __init__(self, block: MultiwayBuffers, origin: int) -> None:
        super().__init__(block.sides[origin], block.sides)
        self._block = block
        self._origin = origin
        self.latency = block.latency
        self.mended = 0
        self._kernels: dict[tuple[Any, ...], _Kernel | None] = {}
        self._stages: list[ProbedStage] = []
        self._others = [i for i in range(len(block.sides)) if i != origin]
        self._out: Indices = np.empty((len(self._others), SAMPLE), np.int64)
        self._looked_up_at = -1

    @property
    def serves(self) -> bool:
        """Whether the join supports single-tuple pushes, most of the time."""
        sides, (_, stages) = self._block.sides, self._block.path(self._origin)
        timeless = all(side.time is None and side.share is None for side in sides)
        if not timeless or not all(stage.is_compiled for stage in stages):
            return False
        return self._kernel() is not None

    # -- looking up -------------------------------------------------------------------------

    def _is_current(self) -> bool:
        if self._looked_up_at != self._block.changes:
            return self._refresh()
        for number, stage in enumerate(self._stages):
            if not stage.stored.is_described:
                self._describe(number)
        return True

    def _describe(self, number: int) -> None:
        """Look at a stage's index and array for partners again."""
        self._looked_up_at = -1  # if it is interrupted, all is looked up again
        stage = self._stages[number]
        stage.stored.describe()
        slot = self._source.first_stage + STAGE_WORDS * number
        self._state[slot : slot + STAGE_WORDS] = stage.words
        self._looked_up_at = self._block.changes

    def _refresh(self) -> bool:
        """Look up all addresses; False if tuples cannot be taken this way."""
        if any(side.ended for side in self._block.sides):
            return False
        kernel = self._kernel()
        if kernel is None:
            return False
        self._look_at_columns()
        self._source, self._call_kernel = kernel.source, kernel.call
        self._coded = kernel.coded
        own, source = self._own, kernel.source
        _, stages = self._block.path(self._origin)
        self._stages = [
            ProbedStage(
                stage, self._block.entries_of(stage), self._sides[stage.input], self._asking
            )
            for stage in stages
        ]
        state = [
            address_of(self._asking),
            own.window.size if isinstance(own.window, Rows) else -1,
            0,
            address_of(own.rows.span),
            *[0] * (len(HEADER) - 4 + len(MORE)),
        ]
        buffers = self._buffers()
        for buffer in buffers:
            state += [address_of(buffer.array), address_of(buffer.span), len(buffer.array)]
        for entries in self._own_entries:
            state.append(address_of(entries.keys.dropped))
        for stage in self._stages:
            state += stage.words
        members = [self._member_buffers(column) for column in kernel.members]
        for values, valid in members:
            state += [address_of(values.array), address_of(values.span)]
            state += [0, 0] if valid is None else [address_of(valid.array), address_of(valid.span)]
        # The arrays must live as long as their addresses are used.
        used = [*buffers, *(b for pair in members for b in pair if b is not None)]
        self._alive = [buffer.array for buffer in used]
        self._state = np.zeros(len(state) + len(source.constants), np.int64)
        self._state[: len(state)] = state
        set_constants(self._state, source.first_constant, source.constants)
        if not self._set_bounds(source):
            return False
        self._looked_up_at = self._block.changes
        return True

    def _buffers(self) -> list[Buffer]:
        """The buffers that a tuple is appended to, in the kernel's order."""
        rows = self._own.rows.fixed.values()
        buffers = [column.values for column in rows]
        buffers += [column.valid for column in rows if column.valid is not None]
        buffers += [buffer for entries in self._own_entries for buffer in entries.keys.buffers]
        assert self._own.arrived is not None
        return [*buffers, self._own.arrived]

    def _member_buffers(self, column: Column) -> tuple[Buffer, Buffer | None]:
        """Where a column of another window is, or the codes of its texts."""
        if is_text(column.type):
            coded = self._coded_column(column)
            return coded.values, coded.valid
        fixed = self._sides[column.side].rows.fixed[column.index]
        return fixed.values, fixed.valid

    def _coded_column(self, column: Column) -> Any:
        """The stored codes of a text column of another window."""
        for entries in self._block.entries_over(column.side):
            for stored in entries.keys.columns:
                if (
                    stored.key.kind == "code"
                    and _over(stored.key, column.side).expression == column
                ):
                    return stored
        raise Unsupported(column)

    # -- the kernel ---------------------------------------------------------------------------

    def _kernel(self) -> _Kernel | None:
        """The kernel for the current stages and columns; None if one is not supported.

        The keys that the stages of all inputs search are made, so that one kernel stores them all.
        """
        for input in range(len(self._sides)):
            for stage in self._block.path(input)[1]:
                self._block.entries_of(stage)
        self._own_entries = self._block.entries_over(self._origin)
        order, stages = self._block.path(self._origin)
        known = (
            order,
            tuple(self._block.entries_of(stage).keys.shape for stage in stages),
            tuple((tuple(_keys(e, self._origin)), e.keys.shape) for e in self._own_entries),
            tuple(
                tuple(column.valid is not None for column in side.rows.fixed.values())
                for side in self._sides
            ),
        )
        if known not in self._kernels:
            try:
                self._kernels[known] = self._generate()
            except Unsupported:
                self._kernels[known] = None
        return self._kernels[known]

    def _generate(self) -> _Kernel:
        order, stages = self._block.path(self._origin)
        shapes = tuple(self._stage_shape(stage) for stage in stages)
        columns = dict.fromkeys(
            node
            for shape in shapes
            for key in shape.keys
            for node in walk(key.expression)
            if isinstance(node, Column) and node.side != self._origin
        )
        own, fixed = self._own, self._own.rows.fixed
        rows = BufferTypes(
            tuple(column.values.array.dtype for column in fixed.values()),
            tuple(column.valid is not None for column in fixed.values()),
        )
        entries = tuple((tuple(_keys(e, self._origin)), e.keys.shape) for e in self._own_entries)
        shape = StagesShape(
            self._origin,
            len(self._sides),
            own.rows.schema,
            tuple(fixed),
            rows,
            order.filter,
            entries,
            shapes,
            {column: self._member_column(column) for column in columns},
        )
        keys = [key for of_entries, _ in entries for key in of_entries]
        keys += [key for stage in shapes for key in stage.keys]
        coded = {
            key.expression.index
            for key in keys
            if key.kind == "code"
            and isinstance(key.expression, Column)
            and key.expression.side == self._origin
        }
        source = generate_stages(shape)
        kernel = load_storing(self._block.load, source.text)
        return _Kernel(source, kernel, tuple(columns), coded)

    def _stage_shape(self, stage: Stage) -> StageShape:
        keys = tuple(stage.combination_keys)
        dtypes = tuple(map(key_dtype, keys))
        stored = self._block.entries_of(stage).keys.shape
        return StageShape(stage.input, stage.predicate, keys, dtypes, stored)

    def _member_column(self, column: Column) -> MemberColumn:
        dtype = np.dtype(np.int32) if is_text(column.type) else member_dtype(column.type)
        return MemberColumn(dtype, self._member_buffers(column)[1] is not None)

    # -- bounds -----------------------------------------------------------------------------

    def _set_bounds(self, source: StagesSource) -> bool:
        """Fill in how large keys may be; False if no size is known to be harmless."""
        for entries, number, slot in source.widened:
            column = self._own_entries[entries].keys.columns[number]
            self._state[slot] = address_of(column.limits)
        sizes = {bound.stage: self._stages[bound.stage].harmless for bound in source.bounds}
        for bound in source.bounds:
            size = sizes[bound.stage]
            if size is None:
                return False
            low, high = -size, size
            if bound.side == 1:
                column = self._stages[bound.stage].stored.keys.columns[bound.number]
                known = column.bounds or (0, 0)
                low, high = min(low, known[0]), max(high, known[1])
                self._state[bound.slot + 2] = address_of(column.limits)
            self._state[bound.slot : bound.slot + 2] = low, high
        return True

    # -- taking -----------------------------------------------------------------------------

    def _run(self, position: int, given: Sequence[Any]) -> tuple[int, int]:
        self._state[ARRIVAL] = (position << INPUT_BITS) + self._origin
        return self._call_kernel(self._state, self._out, *given)

    def _note(self, found: int, compared: int) -> None:
        self._block.note_single(self._origin, found, self._state.item(INCOMPLETE), compared)

    def _rebuild(self) -> None:
        self._block.rebuild()

    @property
    def _dictionary(self) -> Dictionary:
        return self._block.dictionary

    def _mend(self, why: int, count: int) -> bool:
        """Make room or update an index; False if only a batch can."""
        full = self._state.item(FULL)
        if why == MANY_PARTNERS:
            if full < 0:
                room = min(count, MOST_COMBINATIONS)
                if room == self._out.shape[1]:
                    return False
                self._out = np.empty((len(self._others), room), np.int64)
            elif count > len(self._stages[full].stored.partners):
                self._stages[full].stored.partners = np.empty(2 * count, np.int64)
                self._describe(full)
            return True
        self.mended += 1
        self._mending = True
        mended = True
        if why == LONG_TAIL:
            stage = self._stages[full]
            mended = stage.stored.update(self._sample(stage.stage))
            self._describe(full)
        else:
            self._make_room()
        self._mending = False
        return mended

    def _make_room(self) -> None:
        buffers = self._buffers()
        before = [buffer.array for buffer in buffers]
        moved = True
        try:
            for buffer in buffers:
                buffer.make_room(1)
            moved = any(b.array is not old for b, old in zip(buffers, before, strict=True))
        finally:  # no call comes here, so a signal does not either
            self._block.changes += moved

    def _sample(self, stage: Stage) -> list[npt.NDArray[Any]]:
        """Keys like those of the combinations that probe a stage: the newest tuples, put together.

        No combination need be among them: what an index is chosen by are the values of each key.
        """
        count = min(SAMPLE, *(len(self._sides[input].rows) for input in stage.bound))
        members: list[Indices | None] = [None] * len(self._sides)
        for input in stage.bound:
            after = self._sides[input].rows.next
            members[input] = np.arange(after - count, after)
        values, valid = stage.keys_of(self._sides, members, count, self._dictionary, Failures())
        known = np.ones(count, np.bool_)
        for mask in valid:
            if mask is not None:
                known &= mask
        return [column[known] for column in values]

    # -- rows -------------------------------------------------------------------------------

    def partners(self, found: int) -> Sequence[Indices]:
        """For each other input, where the member of each combination is among its rows."""
        members = self._out[:, :found]
        if found > 1:
            members = members[:, np.lexsort(members[::-1])]
        return tuple(members)

    @property
    def sources(self) -> ColumnSources:
        """Where the columns of the rows that it makes come from."""
        return tuple(
            [
                ColumnSource(None, column)
                if side is self._own
                else ColumnSource(side.rows, column, self._others.index(side.index))
                for column in columns
            ]
            for side, columns in zip(self._sides, self._block.columns, strict=True)
        )

    def rows(self, position: int, values: tuple[Any, ...], found: int) -> Run:
        """The rows of a tuple that has found partners."""
        partners = self.partners(found)
        batches: list[pa.RecordBatch] = []
        for side, columns in zip(self._sides, self._block.columns, strict=True):
            if side is self._own:
                batches.append(self._copies(position, values, columns, found))
            else:
                seqs = partners[self._others.index(side.index)] + side.rows.first
                batches.append(side.rows.take(seqs, columns))
        return Run(tuple(batches), np.full(found, position, np.int64))


def _keys(entries: WindowKeys, input: int) -> list[Key]:
    """The keys of entries, over the input that they are of."""
    return [_over(column.key, input) for column in entries.keys.columns]


def _over(key: Key, input: int) -> Key:
    """A key of a stage's window, whose side is 1 there, over the input."""

    def renamed(node: Expression) -> Expression:
        return replace(node, side=input) if isinstance(node, Column) else rebuild(node, renamed)

    return replace(key, expression=renamed(key.expression))
