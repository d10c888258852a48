"""The distribution of a query: whether cores can divide its tuples by a key, and by which.

A join whose predicate has an equality finds no pair between tuples of different keys, and one of
three and more streams no combination, if the equalities hold a key of every stream together (``a.k
= b.k AND b.k = c.k``). So a core that has all tuples of its keys makes all their rows, those of
outer, semi and anti joins too, and sees none of the others. What it must know of those is how far
their streams have come: every core receives the highest time of each stream in each trigger. Within
a trigger tuples are taken in the order of their times, so none is late because of another one of
the same trigger, and a core that receives the highest time at the end of it judges every tuple as a
core that saw them all would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.screen import FARTHEST
from penstock.engines.spark.dataframes.sequencer import Lane
from penstock.engines.spark.flow import SHARING_DESIGNS, shares
from penstock.engines.spark.resident.distribution import broadcast, why_one_core
from penstock.errors import InputError
from penstock.kernels.aggregate.key_hash import cores_of
from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.program.isa.block_instructions import (
    AggregateRows,
    JoinStreams,
    OrderRows,
    Program,
    UnionRows,
)
from penstock.sql.expressions import Call, Expression, conjuncts, sides
from penstock.streams.display import listed
from penstock.streams.order import OrderColumn
from penstock.streams.windows import (
    AggregateWindow,
    Range,
    Sliding,
    TimeAttribute,
    Unbounded,
    Window,
)

Operand = tuple[Expression, str]
"""An expression with its text, which tells 0.0 from -0.0."""


@dataclass(frozen=True)
class KeyedLane:
    """How the tuples of a lane are divided.

    ``key`` is an expression over the lane's columns, on side ``side`` of the join; ``delay`` is how
    far the stream's punctuation is behind its highest time, in units of the time; None if nothing
    is ever late. A time that is ``farthest`` or more from zero is no time: its tuple is a dead
    letter.
    """

    key: Expression
    side: int
    delay: int | None
    farthest: int = FARTHEST

    def cores(self, batch: pa.RecordBatch, cores: int) -> np.ndarray[Any, Any]:
        """The core of each tuple."""
        inputs = (batch,) * (self.side + 1)
        return cores_of(evaluate(self.key, inputs, Failures()), cores)


@dataclass(frozen=True)
class Distribution:
    """How the cores share a query: by ``keys``, one for each lane, or without; and why.

    ``partial`` is the aggregate whose partial results are made before tuples come to a core.
    """

    keys: tuple[KeyedLane, ...] | None
    cores: int
    reason: str
    partial: AggregateRows | None = None

    def __str__(self) -> str:
        return f"distribution: {self.reason}"


def distribution(
    program: Program, lanes: Sequence[Lane], by_key: bool, cores: int, letters: bool = False
) -> Distribution:
    """The distribution of a query: by key if possible; else all tuples to all cores, or to one."""
    aggregates = [i for i in program.instructions if isinstance(i, AggregateRows)]
    if aggregates:
        return aggregated(program, aggregates, lanes, by_key, cores, letters)
    if any(isinstance(i, OrderRows) for i in program.instructions):
        return Distribution(None, 1, "one core; ORDER BY needs all rows")
    if not program.joins:
        return Distribution(None, cores, "every task by itself, without state or order")
    if cores == 1:
        return Distribution(None, 1, "one core")
    keys, term = _keys(program, lanes, by_key)
    if keys is not None:
        return Distribution(keys, cores, f"partition by {term} among {cores} cores")
    if shares(program):
        return Distribution(None, cores, f"{broadcast(program, cores)}; {term}")
    return Distribution(None, 1, f"one core; {why_one_core(program)}; {term}")


def on_one_core(derived: Sequence[str]) -> Distribution:
    """The distribution on one core, for derived streams and their readers, which need one order."""
    names = ", ".join(derived)
    several = "streams" if len(derived) > 1 else "stream"
    return Distribution(
        None,
        1,
        f"one core; the rows of the derived {several} {names} and their "
        "punctuations come in one order there",
    )


def aggregated(
    program: Program,
    aggregates: Sequence[AggregateRows],
    lanes: Sequence[Lane],
    by_key: bool,
    cores: int,
    letters: bool,
) -> Distribution:
    """Partial results if they mean the same; else the tuples, by a key of GROUP BY, or to one core.

    All tuples of a pane belong to the same windows, and of a trigger none is late because of
    another. So partial results say all that there is to know, but for what late tuples look like.
    """
    aggregate = aggregates[0]
    orders = any(isinstance(i, OrderRows | UnionRows) for i in program.instructions)
    keys = aggregate.keys
    if program.joins or orders or by_key or program.order != "none":
        return Distribution(None, 1, "one core; its rows need all tuples in one order")
    why = _not_partial(aggregate, lanes[0], letters)
    if why is None:
        names = ", ".join(str(key.expression) for key in keys)
        among = f"{cores} cores by {names}" if keys and cores > 1 else "one core"
        how = f"partial results of each partition of the input, merged on {among}"
        return Distribution(None, cores if keys else 1, how, aggregate)
    plain = [key.expression for key in keys if not pa.types.is_decimal(key.type)]
    delay = _delay(aggregate.window, aggregate.time, lanes[0])
    if cores == 1 or not plain or delay is None:
        return Distribution(None, 1, f"one core; no partial results: {why}")
    how = f"partition by {plain[0]} among {cores} cores; no partial results: {why}"
    return Distribution((KeyedLane(plain[0], 0, delay),), cores, how)


def _not_partial(aggregate: AggregateRows, lane: Lane, letters: bool) -> str | None:
    """Why partial results cannot replace tuples; None if they can."""
    if letters:
        return "late tuples are shown whole"
    if aggregate.emit_empty:
        return "which windows are empty goes by arrival"
    if any(call.by_arrival for call in aggregate.calls):
        return "FIRST and LAST of equal times go by arrival"
    time, column = aggregate.time, lane.column
    if time is not None and column is not None and time.name != column.name:
        return f"{lane.stream.name}'s tuples are not taken by the time of their window"
    return None


def check_update(bounded: bool, aggregated: bool, shared: Distribution) -> None:
    """Refuse ``output="update"`` for a query without partial results of windows."""
    if bounded:
        raise InputError(
            "output='update' over a static DataFrame, whose rows come once",
            "Leave it out, or read the DataFrame with spark.readStream.",
        )
    if not aggregated:
        raise InputError(
            "output='update' of a query without an aggregate, whose rows never change",
            "Leave it out.",
        )
    if shared.partial is None:
        raise InputError(
            f"output='update' is for aggregates whose partial results are merged ({shared.reason})",
            "Leave it out: the rows come when their windows close.",
        )


def _keys(
    program: Program, lanes: Sequence[Lane], by_key: bool
) -> tuple[tuple[KeyedLane, ...] | None, str]:
    """The keys of the lanes with the equality they are of; or None, and why."""
    if len(program.joins) > 1:
        return None, "no partition by key: a union of joins has several keys"
    join = program.joins[0]
    if len(set(join.streams)) < len(join.streams):
        return None, "no partition by key: a self-join reads a tuple more than once"
    outside = [lane.stream.name for lane in lanes if lane.stream.name not in join.streams]
    if outside:
        return None, f"no partition by key: {outside[0]} is read beside the join"
    if by_key or program.order != "none":
        return None, "no partition by key: rows depend on the order of tuples with other keys"
    if join.steps:
        kinds = listed(kind for kind in join.kinds if kind != "inner")
        return None, f"no partition by key: one core keeps the combinations of a tree with {kinds}"
    if program.flow.design in SHARING_DESIGNS:
        return None, f"no partition by key: the design {program.flow.design} is asked for"
    keys = _equal_keys(join)
    if keys is None:
        several = "between the streams" if len(lanes) == 2 else "has a key of every stream"
        return None, f"no partition by key: no equality {several}"
    found: list[KeyedLane] = []
    for lane in lanes:
        side = join.streams.index(lane.stream.name)
        window, time = join.windows[side], join.times[side]
        if isinstance(window, Unbounded):
            found.append(KeyedLane(keys[side], side, None))
            continue
        delay = _delay(window, time, lane)
        if delay is None or time is None:
            why = "tuples are not taken by the time of their window"
            return None, f"no partition by key: {lane.stream.name}'s {why}"
        found.append(KeyedLane(keys[side], side, delay, -(-FARTHEST // int(time.factor))))
    return tuple(found), " = ".join(map(str, keys))


def _delay(
    window: Window | AggregateWindow | None, time: TimeAttribute | None, lane: Lane
) -> int | None:
    """The slack in units of the lane's keys; None if those are not the times themselves."""
    column = lane.column
    if not isinstance(window, Range | Sliding) or time is None or column is None:
        return None
    if column.name != time.name or not _is_plain(column):
        return None
    slack = Fraction(window.slack or 0) / Fraction(time.factor)
    return int(slack) if slack.denominator == 1 else None


def _is_plain(column: OrderColumn) -> bool:
    """Whether the keys are the column's own values, and whole numbers."""
    own: Any = column.type
    common: Any = column.common
    if common is None or pa.types.is_floating(own):
        return False
    if pa.types.is_timestamp(own) and pa.types.is_timestamp(common):
        return bool(own.unit == common.unit)  # a zone is but how a time is shown
    return bool(own.equals(common))


def _equal_keys(join: JoinStreams) -> tuple[Expression, ...] | None:
    """The first expressions, one of each side, that the equalities of the join make equal."""
    classes: list[dict[Operand, int]] = []
    for pair in _equalities(join):
        first, *others = [g for g in classes if pair[0] in g or pair[1] in g] or [{}]
        for other in others:
            first |= other
            classes.remove(other)
        if not first:
            classes.append(first)
        for operand in pair:
            [first[operand]] = sides(operand[0])
    for group in classes:
        keys = {side: expression for (expression, _), side in reversed(group.items())}
        if len(keys) == len(join.inputs):
            return tuple(keys[side] for side in sorted(keys))
    return None


def _equalities(join: JoinStreams) -> Iterator[tuple[Operand, Operand]]:
    """The operands of the equalities of an expression of one side with one of another."""
    for term in conjuncts(join.compiled):
        if isinstance(term, Call) and term.op == "eq":
            one, other = term.args
            across = len(sides(one)) == len(sides(other)) == 1
            if across and not pa.types.is_decimal(one.type):
                yield (one, str(one)), (other, str(other))
