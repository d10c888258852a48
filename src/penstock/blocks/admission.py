"""Taking a run into one side of a join: read times, set aside the late, keep the promises.

Every event of the run gets a *rank key*, an integer that orders it among all events of both sides:
by position, at one position left tuples before right ones, and controls after all tuples. Controls
of both sides at one position have the same key: they act together.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.join_side import JoinSide
from penstock.blocks.punctuator import Ticks
from penstock.blocks.run import Ended, Letters, Run
from penstock.kernels.vector import vector_of
from penstock.streams.batches import take
from penstock.streams.literals import format_array, format_value
from penstock.streams.windows import Range

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Admitted:
    """The tuples of a run that take part in the join, and how its side's promise moved.

    ``low`` is the earliest time that must still be live for the tuple: its own time or, if that is
    later, what its stream had promised. ``after`` is the promise after each tuple, None if tuples
    do not move it. ``control_keys`` are those of punctuations and of the end (``end_key``), with
    the promise after each.
    """

    batch: pa.RecordBatch
    keys: Indices
    positions: Indices
    times: Ticks | None
    low: Ticks | None
    after: Ticks | None
    control_keys: Indices
    control_promises: Ticks
    end_key: int | None
    letters: tuple[Letters, ...]


@dataclass(frozen=True)
class _Judged:
    """The promise before and after each tuple, and at each control."""

    before: Ticks
    after: Ticks
    control_keys: Indices
    control_promises: Ticks
    end_key: int | None


def physical_to_tick(side: JoinSide, value: object) -> int | float:
    """A physical value of the side's time attribute as a tick of its query's clock.

    A promise that falls between two ticks lets expire what the tick before it does: no tuple can
    be late by the rest, since none has a time between two ticks.
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


def admit(side: JoinSide, run: Run, stream: str) -> Admitted:
    """Judge every tuple of a run, in order, and move the side's promise along."""
    batch, positions = run.inputs[0], run.positions
    letters: list[Letters] = []
    times = _times(side, batch) if side.time is not None else None
    keys = positions * 4 + side.index
    judged = _judge(side, run, keys, times)
    low, after = None, None
    if times is not None:
        low = np.maximum(times, judged.before)
        late = times < judged.before
        if isinstance(side.window, Range):
            after = judged.after
            if late.any():
                letters.append(_late(side, stream, batch, positions, judged.before, late))
                kept = np.flatnonzero(~late)
                batch = take(batch, kept)
                keys, positions, times = keys[kept], positions[kept], times[kept]
                low, after = low[kept], after[kept]
    return Admitted(
        batch,
        keys,
        positions,
        times,
        low,
        after,
        judged.control_keys,
        judged.control_promises,
        judged.end_key,
        tuple(letters),
    )


def _times(side: JoinSide, batch: pa.RecordBatch) -> Ticks:
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


def _judge(side: JoinSide, run: Run, keys: Indices, times: Ticks | None) -> _Judged:
    """Move the side's promise through the run, from one control to the next."""
    parts: list[Ticks] = [np.empty(0, side.clock.dtype)]
    afters: list[Ticks] = [np.empty(0, side.clock.dtype)]
    control_keys: list[int] = []
    control_promises: list[int | float] = []
    end_key: int | None = None
    done = 0
    for control in (*run.controls, None):
        key = None if control is None else control.position * 4 + 2
        stop = len(keys) if key is None else int(np.searchsorted(keys, key))
        if times is not None and stop > done:
            promises = side.punctuator.advance(times[done:stop])
            parts.append(promises[:-1])
            afters.append(promises[1:])
        done = stop
        if control is None or key is None:
            break
        if isinstance(control, Ended):
            side.ended, end_key = True, key
            side.punctuator.end()
        elif side.time is not None and control.column in (None, side.time.column):
            side.punctuator.from_source(physical_to_tick(side, control.value))
        control_keys.append(key)
        control_promises.append(side.punctuator.promise)
    return _Judged(
        np.concatenate(parts),
        np.concatenate(afters),
        np.array(control_keys, np.int64),
        np.array(control_promises, side.clock.dtype),
        end_key,
    )


def _late(
    side: JoinSide,
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
    reasons = [
        f"{side.time.name} = {value} is before the punctuation {_show_tick(side, tick, kind)}"
        for value, tick in zip(shown, before[gone].tolist(), strict=True)
    ]
    return Letters("late", stream, late_batch, positions[gone], reasons)


def _show_tick(side: JoinSide, tick: int | float, kind: pa.DataType) -> str:
    """A promise as a value of the time attribute's type."""
    if tick == side.clock.highest:
        return "at its end"
    value = tick_to_physical(side, tick)
    if isinstance(value, Fraction):
        value = math.ceil(value)
    return format_value(value, kind)


def tick_to_physical(side: JoinSide, tick: int | float) -> object:
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
