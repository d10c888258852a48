"""Lateness: the times of a run, its late tuples, and the punctuation of one side of a join.

Every event of a run gets a *rank key*, an integer that orders it among all events of all inputs: by
position, at one position tuples by input, and controls after all tuples. Controls of all inputs at
one position have the same key: they act together. :class:`penstock.blocks.ranks.Ranks` merges the
keys of all inputs into one order.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import EndOfStream, Letters, Run
from penstock.blocks.window.punctuator import Ticks
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.vector import vector_of
from penstock.kernels.merging import later_of
from penstock.streams.batches import opened, take
from penstock.streams.literals import format_array, physical_array
from penstock.streams.windows import Range

Indices = npt.NDArray[np.int64]
NO_ROWS: Indices = np.empty(0, np.int64)
INPUT_BITS = 6
"""The bits of a rank key that name the input; the others are the position."""
CONTROL = (1 << INPUT_BITS) - 1
"""The place of controls among the inputs: after all."""


@dataclass(frozen=True)
class Admitted:
    """The tuples of a run that take part in the join, and how its side's punctuation moved.

    ``low`` is the earliest time that must still be live for the tuple: its own time or, if that is
    later, the punctuation before it. ``after`` is the punctuation after each tuple, None if tuples
    do not move it. ``control_keys`` are those of controls, of which ``end_key`` is the end, and
    ``control_punctuations`` is the punctuation after each.
    """

    batch: pa.RecordBatch
    keys: Indices
    positions: Indices
    times: Ticks | None
    low: Ticks | None
    after: Ticks | None
    control_keys: Indices
    control_punctuations: Ticks
    end_key: int | None
    letters: tuple[Letters, ...]

    def only(self, chosen: Indices) -> Admitted:
        """With the tuples at these indices; the punctuation moves as it did."""
        return replace(
            self,
            batch=opened(take(self.batch, chosen)),
            keys=self.keys[chosen],
            positions=self.positions[chosen],
            times=None if self.times is None else self.times[chosen],
            low=None if self.low is None else self.low[chosen],
        )


@dataclass(frozen=True)
class _Judged:
    """The punctuation before and after each tuple, and after each control."""

    before: Ticks
    after: Ticks
    control_keys: Indices
    control_punctuations: Ticks
    end_key: int | None


def physical_to_tick(side: StoredWindow, value: object) -> int | float:
    """A physical value of the side's time attribute as a tick of its query's clock.

    A punctuation between two ticks is as good as the tick before it, since no tuple has a time
    between two ticks.
    """
    assert side.time is not None
    number: Any = value
    if side.clock.floating:
        return float(number)
    if isinstance(number, float) and math.isinf(number):
        return side.clock.highest if number > 0 else side.clock.lowest
    kind = side.rows.schema.field(side.time.column).type
    scale = 10**kind.scale if pa.types.is_decimal(kind) else 1
    ticks = math.floor(Fraction(number) * scale * int(side.time.factor))
    return max(int(side.clock.lowest), min(int(side.clock.highest), ticks))


def admit(side: StoredWindow, run: Run, stream: str) -> Admitted:
    """Judge every tuple of a run, in order, and advance the side's punctuation."""
    if not len(run) and not run.controls:
        return _nothing_admitted(side, run)
    batch, positions = opened(run.inputs[0]), run.positions
    letters: list[Letters] = []
    times = tick_column(side, batch) if side.time is not None else None
    keys = (positions << INPUT_BITS) + side.index
    judged = _judge(side, run, keys, times)
    low, after = None, None
    if times is not None:
        low = np.empty(len(times), side.clock.dtype)
        some = later_of(times, judged.before, low)
        if isinstance(side.window, Range):
            after = judged.after
            if some:
                given, late = run.inputs[0], times < judged.before
                letters.append(_late(side, stream, given, positions, judged.before, late))
                in_time = np.flatnonzero(~late)
                batch = opened(take(given, in_time))
                keys, positions, times = keys[in_time], positions[in_time], times[in_time]
                low, after = low[in_time], after[in_time]
    return Admitted(
        batch,
        keys,
        positions,
        times,
        low,
        after,
        judged.control_keys,
        judged.control_punctuations,
        judged.end_key,
        tuple(letters),
    )


def _nothing_admitted(side: StoredWindow, run: Run) -> Admitted:
    """The result for an empty run."""
    nothing = None if side.time is None else side.clock.nothing
    after = nothing if isinstance(side.window, Range) else None
    none, batch = side.clock.nothing, run.inputs[0]
    return Admitted(batch, NO_ROWS, NO_ROWS, nothing, nothing, after, NO_ROWS, none, None, ())


def tick_column(side: StoredWindow, batch: pa.RecordBatch) -> Ticks:
    """The tick of each tuple; all of them fit, see :mod:`penstock.blocks.screen`."""
    assert side.time is not None
    column = batch.column(side.time.column)
    values = np.asarray(vector_of(column).values)
    if side.clock.floating:
        scale = column.type.scale if pa.types.is_decimal(column.type) else 0
        floats: Ticks = values.astype(np.float64) / 10.0**scale
        return floats
    factor = int(side.time.factor)
    ticks = values.astype(np.int64, copy=False)
    return ticks * factor if factor != 1 else ticks


def _judge(side: StoredWindow, run: Run, keys: Indices, times: Ticks | None) -> _Judged:
    """Advance the side's punctuation through the run, from one control to the next."""
    if not run.controls:
        punctuations = side.clock.nothing if times is None else side.punctuator.advance(times)
        return _Judged(punctuations[:-1], punctuations[1:], NO_ROWS, side.clock.nothing, None)
    parts: list[Ticks] = [np.empty(0, side.clock.dtype)]
    afters: list[Ticks] = [np.empty(0, side.clock.dtype)]
    control_keys: list[int] = []
    control_punctuations: list[int | float] = []
    end_key: int | None = None
    done = 0
    for control in (*run.controls, None):
        key = None if control is None else (control.position << INPUT_BITS) + CONTROL
        stop = len(keys) if key is None else int(np.searchsorted(keys, key))
        if times is not None and stop > done:
            punctuations = side.punctuator.advance(times[done:stop])
            parts.append(punctuations[:-1])
            afters.append(punctuations[1:])
        done = stop
        if control is None or key is None:
            break
        if isinstance(control, EndOfStream):
            side.ended, end_key = True, key
            side.punctuator.end()
        elif side.time is not None and control.column in (None, side.time.column):
            side.punctuator.from_source(physical_to_tick(side, control.value))
        control_keys.append(key)
        control_punctuations.append(side.punctuator.punctuation)
    return _Judged(
        np.concatenate(parts),
        np.concatenate(afters),
        np.array(control_keys, np.int64),
        np.array(control_punctuations, side.clock.dtype),
        end_key,
    )


def _late(
    side: StoredWindow,
    stream: str,
    batch: pa.RecordBatch,
    positions: Indices,
    before: Ticks,
    late: npt.NDArray[np.bool_],
) -> Letters:
    assert side.time is not None
    gone = np.flatnonzero(late)
    kind = batch.schema.field(side.time.column).type
    late_batch = take(batch, gone)
    shown = format_array(late_batch.column(side.time.column))
    punctuations, which = np.unique(before[gone], return_inverse=True)
    texts = _show_ticks(side, punctuations.tolist(), kind)
    reasons = [
        f"{side.time.name} = {value} is before the punctuation {texts[i]}"
        for value, i in zip(shown, which.tolist(), strict=True)
    ]
    return Letters("late", stream, late_batch, positions[gone], reasons)


def _show_ticks(side: StoredWindow, ticks: list[int | float], kind: pa.DataType) -> list[str]:
    """Punctuations, which rise, as values of the time attribute's type."""
    ended = ["at its end"] if ticks[-1] == side.clock.highest else []
    values = [tick_to_physical(side, tick) for tick in ticks[: len(ticks) - len(ended)]]
    values = [math.ceil(value) if isinstance(value, Fraction) else value for value in values]
    return [*format_array(physical_array(values, kind)), *ended]


def tick_to_physical(side: StoredWindow, tick: int | float) -> object:
    """A tick as a physical value of the time attribute; a fraction where it falls between two."""
    assert side.time is not None
    if side.clock.floating:
        return tick
    kind = side.rows.schema.field(side.time.column).type
    units = Fraction(int(tick), int(side.time.factor))
    if units.denominator != 1:
        return units / 10**kind.scale if pa.types.is_decimal(kind) else units
    whole = units.numerator
    return decimal.Decimal(whole).scaleb(-kind.scale) if pa.types.is_decimal(kind) else whole
