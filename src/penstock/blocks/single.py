"""Taking tuples into a join one at a time, at the price of one.

A run costs a few hundred microseconds however short it is. What it does to a single tuple of an
inner join with count windows comes down to little: compute the keys, look for partners in the other
window, store the tuple, drop the oldest. One compiled function does that, on the same buffers and
indexes; see :mod:`penstock.kernels.single`. Whatever it does not know it refuses, having changed
nothing, and the tuple goes through a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.buffer import Buffer
from penstock.blocks.join import JoinBlock
from penstock.blocks.join_side import JoinSide
from penstock.blocks.matcher import LONGEST_WORDS, SMALLEST_DICTIONARY
from penstock.kernels import entry_index
from penstock.kernels.bounds import stays_in_range
from penstock.kernels.memory import address_of
from penstock.kernels.nested_loop import Columns
from penstock.kernels.predicate import KeyOperand
from penstock.kernels.scalar_source import Unsupported
from penstock.kernels.single import SingleSource, generate_single, kernel_of
from penstock.kernels.single_layout import (
    LONG_TAIL,
    MANY_PARTNERS,
    REFUSED,
    SingleShape,
    Stored,
)
from penstock.kernels.single_segments import (
    describe_segments,
    indexed_up_to,
    segments_of,
)
from penstock.sql.expressions import TRUE, Column
from penstock.streams.windows import Rows

Indices = npt.NDArray[np.int64]
SAMPLE = 1024
WORD = (1 << 64) - 1
HARMLESS = (62, 61, 48, 40, 32, 30, 29, 24, 16, 14, 13, 8, 6, 5)
"""Sizes, as powers of two, that are tried to find out how large numbers may become."""


class SingleJoin:
    """Takes tuples of one side of a join.

    Where everything is stored is looked up once; :attr:`stale` must be set when anybody else has
    changed the join, and is set for the other side too when this one changes what they share.
    :attr:`mended` counts how often this has, by making room or bringing an index up to date.
    """

    def __init__(self, block: JoinBlock, side: int) -> None:
        self._block = block
        self._own, self._other = block.sides[side], block.sides[1 - side]
        self._sources: dict[SingleShape, SingleSource | None] = {}
        self._out: Indices = np.empty(SAMPLE, np.int64)
        self._contented = 0
        self._asking: Indices = np.zeros(1, np.int64)
        self.mended = 0
        self.stale = True
        self.twin: SingleJoin | None = None

    # -- taking -----------------------------------------------------------------------------

    def take(self, values: tuple[Any, ...]) -> int:
        """Take a tuple of physical values and return how many partners it has, or REFUSED."""
        found, met = self._call(values)
        if found >= 0:
            self._block.matcher.comparisons += met
            self._block.matches += found
            if self._own.rows.texts:
                self._own.rows.append_texts(values)
        return found

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Whether the tuple would be taken. It is not."""
        self._asking[0] = 1
        try:
            return self._call(values)[0] >= 0
        finally:
            self._asking[0] = 0

    def _call(self, values: tuple[Any, ...]) -> tuple[int, int]:
        try:
            while True:
                if self.stale and not self._refresh():
                    return REFUSED, 0
                given = values if self._plain else self._arguments(values)
                found, met = self._kernel(self._state, self._segments, self._out, *given)
                if found >= 0 or found == REFUSED or not self._mend(found, met):
                    return max(int(found), REFUSED), int(met)
        except OverflowError:  # an integer that no column can hold, or a dictionary too large
            return REFUSED, 0

    def _arguments(self, values: tuple[Any, ...]) -> list[Any]:
        """What the kernel is given; see :func:`penstock.kernels.scalar_source.parameters`."""
        given: list[Any] = []
        dictionary = self._block.matcher.dictionary
        for index, value in enumerate(values):
            if index in self._coded:
                given.append(dictionary.code(value))
            elif isinstance(value, str | bytes):
                given.append(0)
            elif index in self._decimals:
                low = value & WORD
                given += (low - (1 << 64) if low >> 63 else low, value >> 64)
            else:
                given.append(value)
        if len(dictionary) > self._most_words or dictionary.nbytes > self._longest_words:
            raise OverflowError  # a run starts a new one
        return given

    def partners(self, found: int) -> Indices:
        """Where the partners are among the other side's rows, oldest first."""
        entries = self._out[:found]
        if found > 1:
            entries.sort()
        indices = entries - self._other.first_entry
        if self._other.seqs is None:
            return indices
        return self._other.seqs.view()[indices] - self._other.rows.first

    def _mend(self, why: int, count: int) -> bool:
        """Mend what stood in the way of a tuple; False if only a run can."""
        if why == MANY_PARTNERS:
            self._out = np.empty(2 * count, np.int64)
            return True
        self.mended += 1
        self.stale = True
        if self.twin is not None:
            self.twin.stale = True
        if why == LONG_TAIL:
            return self._bring_index_up_to_date()
        for buffer in self._buffers(self._own):
            buffer.make_room(1)
        return True

    def _bring_index_up_to_date(self) -> bool:
        index = self._other.entry_index
        newest = [column[-SAMPLE:] for column in self._own.stored_columns(False, False).keys]
        if index is None or not len(newest[0]):
            return False  # it takes a probe to judge by, and a run has one
        stored = self._other.stored_columns(False, False)
        first = self._other.first_entry
        index.update(first, stored, Columns(newest, [None] * len(newest)))
        # One that is not up to date now sees no use in segments; it may after some more tuples.
        self._contented = first + len(stored.keys[0]) + entry_index.LONGEST_TAIL
        return True

    # -- looking up -------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Read where everything is now; False if tuples cannot be taken one by one."""
        source = self._source() if self._possible() else None
        if source is None:
            return False
        own, other = self._own, self._other
        self._kernel = kernel_of(source)
        self._look_at_columns()
        keys = len(own.columns)
        self._scratch = np.zeros(max(keys, 1), np.float64), np.zeros(keys + 1, np.int64)
        theirs = _key_buffers(other)
        held = segments_of(other.entry_index, len(theirs))
        self._segments = describe_segments(held)
        entries = other.rows.span if other.seqs is None else other.seqs.span
        indexed = max(indexed_up_to(held), other.first_entry)
        state = [
            address_of(self._asking),
            own.window.size if isinstance(own.window, Rows) else -1,
            address_of(own.dropped),
            address_of(own.rows.span),
            address_of(other.dropped),
            address_of(entries),
            indexed,
            self._longest_tail(indexed),
            *map(address_of, self._scratch),
        ]
        buffers = self._buffers(own)
        for buffer in buffers:
            state += [address_of(buffer.array), address_of(buffer.span), len(buffer.array)]
        for buffer in theirs:
            state += [address_of(buffer.array), address_of(buffer.span)]
        # What the addresses are of must live as long as they do.
        self._alive = held, [b.array for b in (*buffers, *theirs)]
        self._state = np.zeros(len(state) + len(source.constants), np.int64)
        self._state[: len(state)] = state
        self._set_constants(source)
        self.stale = False
        return True

    def _longest_tail(self, indexed: int) -> int:
        """How many entries may follow the last segment until the index is brought up to date."""
        if self._other.entry_index is None:
            return int(np.iinfo(np.int64).max)
        return max(entry_index.LONGEST_TAIL, self._contented - indexed)

    def _look_at_columns(self) -> None:
        """Note which columns the kernel wants in another form than a number."""
        schema = self._own.rows.schema
        self._decimals = {i for i, f in enumerate(schema) if pa.types.is_decimal(f.type)}
        self._coded = {
            column.key.expression.index
            for column in self._own.columns
            if column.key.kind == "code" and isinstance(column.key.expression, Column)
        }
        self._plain = not self._decimals and not self._own.rows.texts
        stored = sum(len(side.rows) for side in self._block.sides)
        self._most_words = max(SMALLEST_DICTIONARY, 4 * stored)
        held = sum(side.rows.nbytes for side in self._block.sides)
        self._longest_words = max(LONGEST_WORDS, 4 * held)

    @property
    def serves(self) -> bool:
        """Whether this is a join whose tuples can be taken one by one, most of the time."""
        block, matcher = self._block, self._block.matcher
        return (
            block.kind == "inner"
            and all(side.time is None for side in block.sides)
            and matcher._compile
            and matcher._residual.condition == TRUE
            and self._source() is not None
        )

    def _possible(self) -> bool:
        ended = any(side.ended for side in self._block.sides)
        return not ended and self._block.matcher.in_range()

    def _source(self) -> SingleSource | None:
        """The kernel for what is stored now; None if the predicate has something that none can."""
        own = self._own
        shape = SingleShape(
            own.index,
            own.rows.schema,
            own.filter,
            tuple(own.rows.fixed),
            Stored(
                tuple(column.values.array.dtype for column in own.rows.fixed.values()),
                tuple(column.valid is not None for column in own.rows.fixed.values()),
            ),
            _stored_keys(own),
            _stored_keys(self._other),
        )
        if shape not in self._sources:
            try:
                source: SingleSource | None = generate_single(self._block.matcher.predicate, shape)
            except Unsupported:
                source = None
            self._sources[shape] = source
        return self._sources[shape]

    def _set_constants(self, source: SingleSource) -> None:
        """Fill in what follows the addresses."""
        size: int | None = None
        reals = self._state.view(np.float64)
        for slot, value in enumerate(source.constants, source.first_constant):
            if isinstance(value, float):
                reals[slot] = value
            else:
                self._state[slot] = value
        if source.bounds:
            size = self._harmless()
        for number, slot in source.bounds:
            bounds = self._own.columns[number].bounds
            low, high = bounds.tolist()
            # The first value of all goes through a run, so that there are bounds to widen.
            if size is not None and low <= high:
                low, high = min(low, -size), max(high, size)
            self._state[slot : slot + 3] = low, high, address_of(bounds)

    def _harmless(self) -> int | None:
        """A size that numbers of both sides may have together, and no sum can overflow.

        None if it could: then only numbers between those that have come are known to be harmless.
        """
        predicate, sides = self._block.matcher.predicate, self._block.sides

        def bounds_of(operand: KeyOperand) -> tuple[int, int] | None:
            column = sides[operand.side].columns[operand.index]
            if column.values.array.dtype.kind != "i":
                return None
            return min(-size, column.low or 0), max(size, column.high or 0)

        for bits in HARMLESS:
            size = 1 << bits
            if stays_in_range(predicate.condition, predicate.constants, bounds_of):
                return size
        return None

    @staticmethod
    def _buffers(side: JoinSide) -> list[Buffer]:
        """What a tuple of the side is appended to, in the kernel's order."""
        rows = side.rows.fixed.values()
        buffers = [column.values for column in rows]
        buffers += [column.valid for column in rows if column.valid is not None]
        buffers += _key_buffers(side)
        return buffers if side.seqs is None else [*buffers, side.seqs]


def _key_buffers(side: JoinSide) -> list[Buffer]:
    buffers = [column.values for column in side.columns]
    return buffers + [column.valid for column in side.columns if column.valid is not None]


def _stored_keys(side: JoinSide) -> Stored:
    return Stored(
        tuple(column.values.array.dtype for column in side.columns),
        tuple(column.valid is not None for column in side.columns),
    )
