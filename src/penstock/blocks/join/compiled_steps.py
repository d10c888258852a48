"""Pushes of single tuples and of small batches into a join, each by one compiled call.

A run costs a few hundred microseconds however short it is. For one tuple of an inner join the steps
are few: compute the keys, search the other window, store the tuple, drop the oldest. One compiled
function does that, on the same buffers and indexes; see
:mod:`penstock.kernels.probe.single_push`. :class:`SingleJoin` takes a tuple of a join with count
windows, :class:`BatchJoin` a small batch, of time windows in order too. They refuse what they do
not support, having changed nothing, and it goes through a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join.latency import Latency
from penstock.blocks.join.matcher import Matcher
from penstock.blocks.lateness import NO_ROWS, tick_column
from penstock.blocks.loose_rows import ColumnSource, ColumnSources, LooseRows
from penstock.blocks.run import Run
from penstock.blocks.window.compiled_search import SAMPLE, SearchedIndex, header
from penstock.blocks.window.keys import StoredKeys, WindowKeys, most_words
from penstock.blocks.window.live_ranges import Ranges
from penstock.blocks.window.punctuator import Ticks
from penstock.blocks.window.stored_columns import Buffer
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.addresses import address_of
from penstock.kernels.compiled import load_storing
from penstock.kernels.expressions.vector import Failures, physical_dtype, vector_of
from penstock.kernels.merging import in_order
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.predicate.scalar_source import Unsupported, is_whole
from penstock.kernels.probe.single_push import (
    BatchColumn,
    SingleShape,
    SingleSource,
    generate_batch,
    generate_single,
)
from penstock.kernels.probe.single_search import LONG_TAIL, MANY_PARTNERS, REFUSED, BufferTypes
from penstock.sql.expressions import Column
from penstock.streams.batches import no_rows, without_columns
from penstock.streams.schema import is_text
from penstock.streams.windows import Range, Rows
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Nulls = tuple[bool, ...]
NO_RANGES: Indices = np.empty((2, 0), np.int64)
ROOM = 1 << 14
"""Pairs of a batch that are found in one call; with more it is called again."""
WORD = (1 << 64) - 1


class JoinBuffers(Protocol):
    """A join block, as a compiled step over its buffers needs it.

    ``changes`` counts what has changed its buffers or indexes beside appending and dropping.
    """

    kind: str
    sides: tuple[StoredWindow, StoredWindow]
    matcher: Matcher
    columns: tuple[tuple[int, ...], tuple[int, ...]]
    latency: Latency
    matches: int
    changes: int


def set_constants(state: Indices, first: int, constants: Sequence[int | float]) -> None:
    """Write the constants of a kernel into its state."""
    reals = state.view(np.float64)
    for slot, value in enumerate(constants, first):
        if isinstance(value, float):
            reals[slot] = value
        else:
            state[slot] = value


class SingleStep(ABC):
    """What the compiled steps for single tuples have in common, whatever the join.

    Of a tuple, the kernel takes the physical values. What it cannot store, texts, is stored here.
    """

    def __init__(self, own: StoredWindow, sides: Sequence[StoredWindow]) -> None:
        self._own = own
        self._sides = sides
        self._asking: Indices = np.zeros(1, np.int64)
        self._mending = False
        self._counted = True
        self._coded: set[int] = set()
        self._plain = True

    @abstractmethod
    def _is_current(self) -> bool:
        """Look up what has changed; False if tuples cannot be taken this way."""

    @abstractmethod
    def _run(self, position: int, given: Sequence[Any]) -> tuple[int, int]:
        """Call the kernel."""

    @abstractmethod
    def _mend(self, why: int, count: int) -> bool:
        """Make room or update an index; False if only a run can."""

    @abstractmethod
    def _note(self, found: int, compared: int) -> None:
        """Add a tuple to the counts; no call comes in between, so a signal does not either."""

    @abstractmethod
    def _rebuild(self) -> None:
        """Compute all keys again, since an update of an index was interrupted."""

    @property
    @abstractmethod
    def _dictionary(self) -> Dictionary:
        """What encodes texts."""

    def _look_at_columns(self) -> None:
        """Find the columns that the kernel takes in another form than a number."""
        schema = self._own.rows.schema
        self._decimals = {i for i, f in enumerate(schema) if pa.types.is_decimal(f.type)}
        self._plain = not self._decimals and not self._own.rows.texts
        self._most_words, self._longest_words = most_words(self._sides)

    def take(self, position: int, values: tuple[Any, ...]) -> int:
        """Take a tuple of physical values and return how many rows it makes, or REFUSED."""
        self._counted = False
        found, compared = self._call(position, values)
        if found >= 0:
            self._store_rest(values, found, compared)
        return found

    def _store_rest(self, values: tuple[Any, ...], found: int, compared: int) -> None:
        """Add the counts, and store what the kernel cannot; calling it again changes nothing."""
        if not self._counted:
            self._note(found, compared)
            self._counted = True
        if self._own.rows.texts:
            self._own.rows.append_texts(values)

    def repair(self) -> None:
        """Compute all keys again, if an interruption came while room was made or an index built."""
        if self._mending:
            self._rebuild()
            self._mending = False

    def resume(self, position: int, values: tuple[Any, ...], is_stored: bool) -> int:
        """Take a tuple, or the rest of it, after an interruption."""
        if not is_stored:
            return self.take(position, values)
        self._asking[0] = 1
        try:
            found, compared = self._call(position, values)
        finally:
            self._asking[0] = 0
        if found >= 0:
            self._store_rest(values, found, compared)
        return found

    @property
    def stored(self) -> int:
        """How many tuples have ever been stored by this input."""
        return self._own.rows.next

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Whether the tuple would be taken; nothing is changed."""
        self._asking[0] = 1
        try:
            return self._call(0, values)[0] >= 0
        finally:
            self._asking[0] = 0

    def _call(self, position: int, values: tuple[Any, ...]) -> tuple[int, int]:
        try:
            while True:
                if not self._is_current():
                    return REFUSED, 0
                given = values if self._plain else self._arguments(values)
                found, compared = self._run(position, given)
                if found >= 0 or found == REFUSED or not self._mend(found, compared):
                    return max(int(found), REFUSED), int(compared)
        except OverflowError:  # an integer that no column can hold, or a dictionary too large
            return REFUSED, 0

    def _arguments(self, values: tuple[Any, ...]) -> list[Any]:
        """The arguments of the kernel; see :func:`scalar_source.parameters`."""
        given: list[Any] = []
        dictionary = self._dictionary
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

    def _copies(
        self, position: int, values: tuple[Any, ...], columns: Sequence[int], count: int
    ) -> pa.RecordBatch:
        """The arriving tuple's own columns, for ``count`` rows."""
        if not columns:
            return without_columns(count)
        schema = self._own.rows.schema
        copies = LooseRows(pa.schema([schema.field(c) for c in columns]))
        copies.add(position, count, values, (), [ColumnSource(None, c) for c in columns])
        return copies.batch()[0]


class CompiledJoin(ABC):
    """What the compiled steps of one side of a join have in common: the kernel and its state.

    Addresses of buffers are looked up once, and again after :attr:`JoinBuffers.changes`.
    :attr:`mended` counts the changes that are made here: making room, or updating an index.
    """

    _kernel: Callable[..., Any]
    _state: npt.NDArray[np.int64]

    def __init__(self, block: JoinBuffers, side: int) -> None:
        self._block = block
        self.latency = block.latency
        self._own, self._other = block.sides[side], block.sides[1 - side]
        self._side = side
        self._sources: dict[tuple[Nulls, Nulls, Nulls], SingleSource | None] = {}
        self._out: Indices = np.empty(SAMPLE, np.int64)
        self._asking: Indices = np.zeros(1, np.int64)
        self._mending = False
        self._index = SearchedIndex()
        self._look_at_keys()
        self._coded = _coded(self._own_keys.keys)
        self._looked_up_at = -1
        self.mended = 0

    def _look_at_keys(self) -> None:
        keys = self._block.matcher.keys
        self._own_keys: WindowKeys = keys[self._side]
        self._other_keys: WindowKeys = keys[1 - self._side]

    def _mend(self, why: int, count: int, tuples: int = 1) -> bool:
        """Make room or update the index for tuples; False if only a run can."""
        if why == MANY_PARTNERS:
            if count > len(self._out):
                self._out = np.empty(2 * count, np.int64)
            return True
        self.mended += 1
        self._mending = True
        mended = True
        if why == LONG_TAIL:
            mended = self._bring_index_up_to_date()
        else:
            self._make_room(tuples)
        self._mending = False
        return mended

    def _make_room(self, tuples: int) -> None:
        buffers = self._buffers()
        before = [buffer.array for buffer in buffers]
        moved = True
        try:
            for buffer in buffers:
                buffer.make_room(tuples)
            moved = any(map(is_not, [buffer.array for buffer in buffers], before))
        finally:  # no call comes here, so a signal does not either
            self._block.changes += moved

    def _bring_index_up_to_date(self) -> bool:
        keys, newest = self._other_keys.keys, self._newest_keys()
        if keys.index is None or not len(newest[0]):
            return False  # the index adapts to probes, and a run has some
        self._index.update(keys, newest)
        self._look_at_index()
        return True

    def _newest_keys(self) -> list[npt.NDArray[Any]]:
        return [column[-SAMPLE:] for column in self._own_keys.keys.read().keys]

    # -- looking up -------------------------------------------------------------------------

    def _is_current(self) -> bool:
        """Look up what has changed; False if tuples cannot be taken this way."""
        if self._looked_up_at != self._block.changes:
            return self._refresh()
        if not self._index.is_described(self._other_keys.keys):
            self._look_at_index()
        return True

    def _look_at_index(self) -> None:
        """Describe the other side's index."""
        self._index.describe(self._other_keys.keys, self._state)

    def _refresh(self) -> bool:
        """Look up all addresses; False if tuples cannot be taken this way."""
        source = self._source() if self._possible() else None
        if source is None:
            return False
        own, other = self._own, self._other_keys
        self._kernel = self._load(source.text)
        keys = len(self._own_keys.keys.columns)
        self._scratch = np.zeros(max(keys, 1), np.float64), np.zeros(keys + 1, np.int64)
        theirs = other.keys.buffers
        entries = self._other.rows.span if other.numbers is None else other.numbers.span
        state = header(
            asking=address_of(self._asking),
            window=own.window.size if isinstance(own.window, Rows) else -1,
            own_dropped=address_of(self._own_keys.keys.dropped),
            own_rows=address_of(own.rows.span),
            other_dropped=address_of(other.keys.dropped),
            other_entries=address_of(entries),
            asked=address_of(self._scratch[0]),
            codes=address_of(self._scratch[1]),
        )
        buffers = self._buffers()
        for buffer in buffers:
            state += [address_of(buffer.array), address_of(buffer.span), len(buffer.array)]
        for buffer in theirs:
            state += [address_of(buffer.array), address_of(buffer.span)]
        # The arrays must live as long as their addresses are used.
        self._alive = [b.array for b in (*buffers, *theirs)]
        self._state = np.zeros(len(state) + len(source.constants), np.int64)
        self._state[: len(state)] = state
        self._set_constants(source)
        self._look_at_index()
        self._looked_up_at = self._block.changes
        return True

    def _load(self, source: str) -> Callable[..., Any]:
        return self._block.matcher.predicate.load(source)

    def _possible(self) -> bool:
        ended = any(side.ended for side in self._block.sides)
        return not ended and self._block.matcher.in_range()

    def _source(self) -> SingleSource | None:
        """The kernel for the current columns; None if the predicate is not supported.

        Of the columns under one program, only this changes: which of them have had a NULL.
        """
        self._look_at_keys()
        own, rows = self._own, self._own.rows.fixed.values()
        nulls = tuple(column.valid is not None for column in rows)
        keys, other = self._own_keys.keys.shape, self._other_keys.keys.shape
        known = nulls, keys.nulls, other.nulls
        if known not in self._sources:
            stored = BufferTypes(tuple(column.values.array.dtype for column in rows), nulls)
            shape = SingleShape(
                own.index,
                own.rows.schema,
                self._own_keys.condition,
                tuple(own.rows.fixed),
                stored,
                keys,
                other,
            )
            try:
                self._sources[known] = self._generate(self._block.matcher.predicate, shape)
            except Unsupported:
                self._sources[known] = None
        return self._sources[known]

    @abstractmethod
    def _generate(self, predicate: Predicate, shape: SingleShape) -> SingleSource:
        """The source of the kernel."""

    def _set_constants(self, source: SingleSource) -> None:
        """Fill in the constants, which follow the addresses."""
        size: int | None = None
        set_constants(self._state, source.first_constant, source.constants)
        if source.bounds:
            matcher = self._block.matcher
            size = matcher.probe.harmless([keys.keys for keys in matcher.keys])
        for number, slot in source.bounds:
            limits = self._own_keys.keys.columns[number].limits
            low, high = limits.tolist()
            # The first value of all goes through a run, so that there are bounds to widen.
            if size is not None and low <= high:
                low, high = min(low, -size), max(high, size)
            self._state[slot : slot + 3] = low, high, address_of(limits)

    def _buffers(self) -> list[Buffer]:
        """The buffers that a tuple of its own side is appended to, in the kernel's order."""
        rows, keys = self._own.rows.fixed.values(), self._own_keys
        buffers = [column.values for column in rows]
        buffers += [column.valid for column in rows if column.valid is not None]
        buffers += keys.keys.buffers
        return buffers if keys.numbers is None else [*buffers, keys.numbers]


class SingleJoin(SingleStep, CompiledJoin):
    """The compiled step for single tuples of one side of a join with count windows."""

    def __init__(self, block: JoinBuffers, side: int) -> None:
        SingleStep.__init__(self, block.sides[side], block.sides)
        CompiledJoin.__init__(self, block, side)

    def _generate(self, predicate: Predicate, shape: SingleShape) -> SingleSource:
        return generate_single(predicate, shape)

    def _refresh(self) -> bool:
        self._look_at_columns()
        return super()._refresh()

    def _load(self, source: str) -> Callable[..., Any]:
        return load_storing(self._block.matcher.predicate.load, source)

    @property
    def serves(self) -> bool:
        """Whether the join supports single-tuple pushes, most of the time."""
        block, matcher = self._block, self._block.matcher
        return (
            block.kind == "inner"
            and all(side.time is None for side in block.sides)
            and matcher.residual.is_true
            and self._source() is not None
        )

    # -- taking -----------------------------------------------------------------------------

    def _is_current(self) -> bool:
        return CompiledJoin._is_current(self)

    def _mend(self, why: int, count: int, tuples: int = 1) -> bool:
        return CompiledJoin._mend(self, why, count, tuples)

    def _run(self, position: int, given: Sequence[Any]) -> tuple[int, int]:
        found, compared = self._kernel(self._state, self._index.segments, self._out, *given)
        return found, compared

    def _note(self, found: int, compared: int) -> None:
        self._block.matcher.comparisons += compared
        self._block.matches += found

    def _rebuild(self) -> None:
        self._block.matcher.rebuild()
        self._block.changes += 1

    @property
    def _dictionary(self) -> Dictionary:
        return self._block.matcher.dictionary

    def partners(self, found: int) -> tuple[Indices]:
        """Where the partners are among the other side's rows, oldest first."""
        entries = self._out[:found]
        if found > 1:
            entries.sort()
        keys = self._other_keys
        indices = entries - keys.keys.first
        if keys.numbers is None:
            return (indices,)
        return (keys.numbers.view()[indices] - self._other.rows.first,)

    @property
    def sources(self) -> ColumnSources:
        """Where the columns of the rows that it makes come from."""
        sides = zip(self._block.sides, self._block.columns, strict=True)
        return tuple(
            [ColumnSource(None if side is self._own else side.rows, column) for column in columns]
            for side, columns in sides
        )

    def rows(self, position: int, values: tuple[Any, ...], found: int) -> Run:
        """The rows of a tuple that has found partners."""
        [partners] = self.partners(found)
        other = self._other.rows
        mine, theirs = (self._block.columns[side.index] for side in (self._own, self._other))
        batch = self._copies(position, values, mine, found)
        pair = (batch, other.take(partners + other.first, theirs))
        pair = pair if self._own.index == 0 else pair[::-1]
        return Run(pair, np.full(found, position, np.int64))


@dataclass(frozen=True)
class BatchPairs:
    """What a compiled step has done with the first ``count`` tuples of a batch.

    ``names`` and ``partners`` are pairs: the number of a tuple in the batch, and the sequence
    number of its partner. ``after`` is the punctuation after each tuple, None without times.
    """

    count: int
    names: Indices
    partners: Indices
    after: Ticks | None


class BatchJoin(CompiledJoin):
    """The compiled step for small batches of one side of a join."""

    def __init__(self, block: JoinBuffers, side: int) -> None:
        super().__init__(block, side)
        self._out = np.empty(ROOM, np.int64)
        self._names: Indices = np.empty(ROOM, np.int64)
        self._batch = self._nothing = no_rows(self._own.rows.schema)
        self._columns = [_batch_column(field.type) for field in self._own.rows.schema]
        self._addresses = np.zeros(max(len(self._columns), 1), np.int64)

    @property
    def serves(self) -> bool:
        """Whether the join supports small batches, most of the time."""
        sides, matcher = self._block.sides, self._block.matcher
        return (
            self._block.kind == "inner"
            and (all(map(_is_timeless, sides)) or all(map(_has_time_window, sides)))
            and all(side.share is None for side in sides)
            and matcher.stores_keys
            and matcher.residual.is_true
            and all(column is not UNREADABLE for column in self._columns)
            and self._source() is not None
        )

    def _possible(self) -> bool:
        return super()._possible() and all(side.in_order for side in self._block.sides)

    def _generate(self, predicate: Predicate, shape: SingleShape) -> SingleSource:
        columns = [
            CODES if index in self._coded else column for index, column in enumerate(self._columns)
        ]
        return generate_batch(predicate, shape, columns)

    def take(self, batch: pa.RecordBatch) -> BatchPairs | None:
        """Take as many tuples as can be taken this way; None: none, and nothing has changed."""
        self._batch = batch
        try:
            return self._take(batch)
        finally:
            self._batch = self._nothing

    def _take(self, batch: pa.RecordBatch) -> BatchPairs | None:
        if not self._is_current():
            return None
        held = self._read(batch)
        times = None if held is None or self._own.time is None else tick_column(self._own, batch)
        judged = None if times is None else self._judge(times)
        if held is None or (times is not None and judged is None):
            return None
        ranges = NO_RANGES if judged is None else judged.ranges
        done, parts, count, pairs = 0, [], batch.num_rows, 0
        while done < count and pairs < TUNING.pairs_per_step:
            done, filled, compared, why, needed = self._kernel(
                self._state, self._index.segments, self._out, self._names, self._addresses, ranges,
                done, count,
            )  # fmt: skip
            self._block.matcher.comparisons += int(compared)
            if filled:
                parts.append((self._names[:filled].copy(), self._partners(filled)))
                pairs += filled
            if why == REFUSED or (why and not self._continue(why, needed, count - done)):
                break
        if not done:
            return None
        if self._own.rows.texts:
            self._own.rows.append_text_batch(batch, done)
        after = None if judged is None else self._move_on(judged, times, done)
        names, partners = _joined(parts)
        self._block.matches += len(names)
        return BatchPairs(int(done), names, partners, after)

    def _newest_keys(self) -> list[npt.NDArray[Any]]:
        """Those that are stored or, if there are none, those of the batch."""
        stored = super()._newest_keys()
        if len(stored[0]):
            return stored
        return self._own_keys.keyed(self._batch, Failures()).values

    def _continue(self, why: int, needed: int, tuples: int) -> bool:
        """Mend what has stopped the kernel; False if only a run can."""
        if not self._mend(why, needed, tuples):
            return False
        if why != MANY_PARTNERS:
            return self._is_current()
        if len(self._names) < len(self._out):
            self._names = np.empty(len(self._out), np.int64)
        return True

    def _partners(self, filled: int) -> Indices:
        return self._other_keys.tuples_of(self._out[:filled])

    # -- columns ----------------------------------------------------------------------------

    def _read(self, batch: pa.RecordBatch) -> list[Any] | None:
        """Look up the addresses of the columns; None if there is a NULL.

        What is returned must live as long as the addresses are used.
        """
        held: list[Any] = []
        addresses: list[int] = []
        for index, column in enumerate(self._columns):
            array: Any = batch.column(index)
            if array.null_count:
                return None
            if index in self._coded:
                values = self._block.matcher.dictionary.encode(array)
                held.append(values)
                addresses.append(address_of(values))
            elif column is None:
                addresses.append(0)
            elif column.dtype == np.bool_:
                values = vector_of(array).values
                held.append(values)
                addresses.append(address_of(values))
            else:
                width = column.dtype.itemsize * (2 if column.two_words else 1)
                data = array.buffers()[1]
                held.append(data)
                addresses.append(data.address + array.offset * width)
        self._addresses[: len(addresses)] = addresses
        return held

    # -- times ------------------------------------------------------------------------------

    def _judge(self, times: Ticks) -> _InOrder | None:
        """Judge the tuples of a time window; None if one is late or out of order."""
        own, other, clock = self._own, self._other, self._own.clock
        window, punctuator = own.window, own.punctuator
        assert isinstance(window, Range)
        slack = punctuator.slack
        size = window.size + (1 if window.inclusive else 0)
        ranges = np.empty((2, len(times)), np.int64)
        moved = np.empty((2, len(times)), clock.dtype)
        known = own.times.view()
        seen = in_order(
            times,
            clock.number(known[-1] if len(known) else clock.lowest),
            clock.number(punctuator.seen),
            clock.number(punctuator.punctuation),
            slack is not None,
            clock.number(min(slack or 0, clock.highest)),
            clock.number(min(size, clock.highest)),
            (clock.number(clock.lowest), clock.number(clock.highest)),
            (other.expiry.view(), other.times.view()),
            ranges,
            moved,
        )
        if not seen:
            return None
        if self._other_keys.numbers is not None:
            of_entries = self._other_keys.candidates(Ranges(ranges[0], ranges[1]))
            ranges = np.stack((of_entries.lo, np.maximum(of_entries.lo, of_entries.hi)))
        return _InOrder(ranges, moved[0], moved[1])

    def _move_on(self, judged: _InOrder, times: Ticks | None, done: int) -> Ticks:
        """Store the times of the first tuples, and advance the punctuation."""
        assert times is not None
        own = self._own
        own.times.append(times[:done])
        own.expiry.append(judged.expiry[:done])
        own.punctuator.seen = max(own.punctuator.seen, times[done - 1].item())
        own.punctuator.punctuation = judged.after[done - 1].item()
        return judged.after[:done]


@dataclass(frozen=True)
class _InOrder:
    """Tuples of a time window that come in time and in order.

    Their candidates, as indices of entries from and to; the punctuation after each; when it
    expires.
    """

    ranges: Indices
    after: Ticks
    expiry: Ticks


def _is_timeless(side: StoredWindow) -> bool:
    return side.time is None


def _has_time_window(side: StoredWindow) -> bool:
    window = side.window
    return (
        side.time is not None
        and isinstance(window, Range)
        and not (window.inclusive and side.clock.floating)
    )


def _joined(parts: list[tuple[Indices, Indices]]) -> tuple[Indices, Indices]:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_ROWS, NO_ROWS
    return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])


UNREADABLE = BatchColumn(np.dtype(np.void))
"""Stands for a column whose type compiled code cannot store."""
CODES = BatchColumn(np.dtype(np.int32))


def _batch_column(kind: pa.DataType) -> BatchColumn | None:
    """How a column of a batch is stored; None for texts."""
    if is_text(kind):
        return None
    if pa.types.is_decimal128(kind):
        return BatchColumn(np.dtype(np.int64), two_words=True)
    if pa.types.is_uint64(kind):
        return BatchColumn(np.dtype(np.int64))  # what does not fit is negative, and refused
    if is_whole(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return BatchColumn(physical_dtype(kind))
    return UNREADABLE


def _coded(keys: StoredKeys) -> set[int]:
    """The columns of a stream that the kernel takes as codes of the dictionary."""
    return {
        column.key.expression.index
        for column in keys.columns
        if column.key.kind == "code" and isinstance(column.key.expression, Column)
    }
