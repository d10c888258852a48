"""Generated code for single-tuple pushes into a join of several inputs, stage by stage.

A tuple probes the windows in the probe order of its input, depth first: for each partner that a
stage finds, it evaluates the keys of the combination so far and probes the next window. A complete
combination is written to ``out``. Then the tuple is stored and the oldest dropped, as in
:mod:`penstock.kernels.probe.single_push`; until then nothing is changed that matters, so a stage
may refuse the tuple however deep it is.

Between two tuples everything that a count window stores is live, so the entries of a window are the
candidates. Every tuple of a window is an entry, so an entry's number tells where its columns are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.vector import physical_dtype
from penstock.kernels.predicate.predicate import Key, Predicate, has_arithmetic
from penstock.kernels.predicate.scalar_source import (
    ScalarSource,
    Unsupported,
    is_whole,
    parameters,
)
from penstock.kernels.probe.single_push import OwnBuffers
from penstock.kernels.probe.single_search import (
    HEADER,
    MANY_PARTNERS,
    REFUSED,
    BufferTypes,
    ProbedWindow,
    indented,
    name_of,
    preamble,
)
from penstock.sql.expressions import Column, Expression

MORE = ("arrival", "incomplete", "full")
"""What follows the header in ``state``: what is stored of the tuple's arrival; and, written by the
kernel, how many combinations were not complete, and which stage's partners did not fit, -1 if the
result did not."""
ARRIVAL, INCOMPLETE, FULL = range(len(HEADER), len(HEADER) + len(MORE))
FIRST_BUFFER = FULL + 1
STAGE_WORDS = 6
"""Of each stage: the address of its state, the address, rows and columns of the description of its
segments, and the address and size of the array for partners."""
ENTRIES_WORDS = 1
"""Of each set of keys of the tuple's own window: the address of the number of keys that were
dropped."""
COLUMN_WORDS = 4
"""Of each column of a member: the addresses of data and span, and of those of its validity."""


@dataclass(frozen=True)
class StageShape:
    """A stage: the window that it probes, and the keys of the combinations that probe it.

    In the expressions of ``keys``, the side of a column is its input.
    """

    input: int
    predicate: Predicate
    keys: tuple[Key, ...]
    dtypes: tuple[np.dtype[Any], ...]
    stored: BufferTypes


@dataclass(frozen=True)
class MemberColumn:
    """A column of another input's window: its type, and whether it has a validity."""

    dtype: np.dtype[Any]
    has_null: bool


@dataclass(frozen=True)
class StagesShape:
    """What the source depends on.

    Parameters
    ----------
    origin, inputs
        The input of the tuple, and the number of all inputs.
    schema, columns, rows
        Its columns, those that are stored in buffers, and the buffers.
    conditions
        What a tuple must satisfy to probe at all.
    entries
        Keys of the tuple that are stored, and their buffers, for each predicate that reads them.
    stages
        The stages, in their order.
    members
        The columns of other inputs that keys are made of; a text is named by its code.
    """

    origin: int
    inputs: int
    schema: pa.Schema
    columns: tuple[int, ...]
    rows: BufferTypes
    conditions: tuple[Expression, ...]
    entries: tuple[tuple[tuple[Key, ...], BufferTypes], ...]
    stages: tuple[StageShape, ...]
    members: Mapping[Column, MemberColumn]


@dataclass(frozen=True)
class Bound:
    """A native key whose sums must not overflow, and where its limits are among the constants.

    The least and the largest value allowed; of a stored key, then the address of those stored.
    """

    stage: int
    side: int
    number: int
    slot: int


@dataclass(frozen=True)
class StagesSource:
    """The source of ``kernel(state, out, values…)``, and the layout of its state.

    ``state`` has the header and :data:`MORE`, then data, span and capacity of each buffer of the
    tuple's own input (columns, keys, arrivals), then :data:`ENTRIES_WORDS`, :data:`STAGE_WORDS` and
    :data:`COLUMN_WORDS` of each, then the constants. ``bounds`` are among these; ``widened`` are
    keys, by the number of their entries and their own, and where the address of their bounds is.

    ``out`` has a row for each other input, in the order of FROM, and a column for each combination:
    where its member is in the window. The kernel returns the number of combinations, in no order,
    and of candidates; or one of :data:`REFUSED` and its like.
    """

    text: str
    first_stage: int
    first_constant: int
    constants: list[int | float]
    bounds: list[Bound]
    widened: list[tuple[int, int, int]]


def generate_stages(shape: StagesShape) -> StagesSource:
    """The source for single tuples of one input."""
    return _Writer(shape).source()


class _Writer:
    """Writes the source of the kernel."""

    def __init__(self, shape: StagesShape) -> None:
        self._shape = shape
        key_buffers = [dtype for _, stored in shape.entries for dtype in stored.buffers]
        buffers = [*shape.rows.buffers, *key_buffers, np.dtype(np.int64)]
        self._own = OwnBuffers(buffers, shape.columns, FIRST_BUFFER)
        self._entries = self._own.end
        self._stages = self._entries + ENTRIES_WORDS * len(shape.entries)
        self._columns = self._stages + STAGE_WORDS * len(shape.stages)
        self._constants = self._columns + COLUMN_WORDS * len(shape.members)
        self._scalars = ScalarSource(
            shape.schema, f"return {REFUSED}, 0", self._constants, self._member
        )
        self._searched_by: list[int] = []
        self._known: dict[Column, str] = {}
        self._bounds: list[Bound] = []
        self._widened: list[tuple[int, int, int]] = []

    def source(self) -> StagesSource:
        """The source, and the layout of its state."""
        own_keys = [self._own_keys(number) for number in range(len(self._shape.entries))]
        passed = [self._scalars.value(condition) for condition in self._shape.conditions]
        first = self._scalars.lines
        functions = self._functions()
        stages = indented(self._stage(0), 2)
        text = f"""{preamble("Takes one tuple into a join of several inputs")}
ARRIVAL, INCOMPLETE, FULL = {ARRIVAL}, {INCOMPLETE}, {FULL}

{functions}

@nb.njit(nogil=True, boundscheck=False)
def kernel(state, out, {", ".join(parameters(self._shape.schema))}):
    real = state.view(np.float64)
    {indented(self._own.room(), 1)}
    {indented(first, 1)}
    found = 0
    candidates = 0
    incomplete = 0
    if {" and ".join(passed) or "True"}:
        {stages}
    state[INCOMPLETE] = incomplete
    {indented(self._store(own_keys), 1)}
    return found, candidates
"""
        return StagesSource(
            text,
            self._stages,
            self._constants,
            self._scalars.constants,
            self._bounds,
            self._widened,
        )

    # -- stages -----------------------------------------------------------------------------

    def _functions(self) -> str:
        """The functions that search the windows; stages that are alike have one together.

        Most of the time that a kernel takes to compile goes into these.
        """
        known: dict[str, int] = {}
        for stage in self._shape.stages:
            text = self._function(stage)
            self._searched_by.append(known.setdefault(text, len(known)))
        return "\n".join(text.replace("NUMBER", str(number)) for text, number in known.items())

    def _function(self, stage: StageShape) -> str:
        """The function that searches the window of a stage; NUMBER stands for its own."""
        window = ProbedWindow(stage.predicate, 0, stage.dtypes, stage.stored, len(HEADER))
        return window.function("searchNUMBER")

    def _stage(self, number: int) -> list[str]:
        """The lines that probe the window of a stage, and all that follow."""
        if number == len(self._shape.stages):
            return self._combination()
        stage, n = self._shape.stages[number], number
        self._scalars.lines = []
        arguments = [f"s{n}", f"g{n}", f"part{n}", f"first{n}", "hi", *self._keys(number)]
        lines, slot = self._scalars.lines, self._stages + STAGE_WORDS * number
        rows, columns = f"state[{slot + 2}]", f"state[{slot + 3}]"
        lines += [
            f"s{n} = at(state[{slot}], {len(HEADER) + 2 * len(stage.stored.buffers)}, np.int64)",
            f"flat{n} = at(state[{slot + 1}], {rows} * {columns}, np.int64)",
            f"part{n} = at(state[{slot + 4}], state[{slot + 5}], np.int64)",
            f"g{n} = flat{n}.reshape(({rows}, {columns}))",
            f"first{n} = at(s{n}[OTHER_DROPPED], 1, np.int64)[0]",
            f"entries = at(s{n}[OTHER_ENTRIES], 2, np.int64)",
            f"hi = first{n} + entries[1] - entries[0]",
            f"found{n}, compared = search{self._searched_by[n]}({', '.join(arguments)})",
            f"if found{n} < 0:",
            f"    state[FULL] = {n}",
            f"    return found{n}, compared",
            "candidates += compared",
        ]
        if number + 1 < len(self._shape.stages):
            lines.append(f"incomplete += found{n}")
        lines += [
            f"for i{n} in range(found{n}):",
            f"    row{stage.input} = part{n}[i{n}] - first{n}",
        ]
        return [*lines, *(f"    {line}" for line in self._stage(number + 1))]

    def _combination(self) -> list[str]:
        """The lines that write a complete combination."""
        others = [i for i in range(self._shape.inputs) if i != self._shape.origin]
        return [
            "if found == out.shape[1]:",
            "    state[FULL] = -1",
            f"    return {MANY_PARTNERS}, 2 * found",
            *(f"out[{place}, found] = row{input}" for place, input in enumerate(others)),
            "found += 1",
        ]

    def _keys(self, number: int) -> list[str]:
        """Write the lines for a combination's keys; gives the arguments of the search."""
        stage, scalars = self._shape.stages[number], self._scalars
        computes = has_arithmetic(stage.predicate.condition)
        names, numbers = [], []
        for i, (key, dtype) in enumerate(zip(stage.keys, stage.dtypes, strict=True)):
            name = f"p{number}_{i}"
            source = self._code(key) if key.kind == "code" else scalars.key(key, dtype)
            scalars.lines.append(f"{name} = {source}")
            if computes and _may_overflow(key, dtype):
                self._keep_within(number, 0, i, name, name)
            names.append(name)
            numbers.append("0.0" if key.kind == "code" else scalars.number(key))
        if computes:
            stored = zip(stage.predicate.keys[1], stage.stored.dtypes, strict=True)
            for i, (key, dtype) in enumerate(stored):
                if _may_overflow(key, dtype):
                    slot = self._constants + len(scalars.constants) + 2
                    known = f"at(state[{slot}], 2, np.int64)"
                    self._keep_within(number, 1, i, f"{known}[0]", f"{known}[1]")
                    scalars.constant(0)
        return [*names, *numbers, *map(scalars.value, stage.predicate.constants)]

    def _keep_within(self, stage: int, side: int, number: int, low: str, high: str) -> None:
        """Refuse the tuple if a native key might make a sum overflow."""
        scalars = self._scalars
        slot = self._constants + len(scalars.constants)
        self._bounds.append(Bound(stage, side, number, slot))
        least, most = scalars.constant(0), scalars.constant(0)
        scalars.lines.append(f"if {low} < {least} or {high} > {most}:")
        scalars.lines.append(f"    return {REFUSED}, 0")

    def _code(self, key: Key) -> str:
        if not isinstance(key.expression, Column):
            raise Unsupported(key.expression)
        member = self._member(key.expression)
        return f"np.int32(v{key.expression.index})" if member is None else member

    def _member(self, column: Column) -> str | None:
        """The name of a member's value, after the lines that read it; None: the tuple's own."""
        if column.side == self._shape.origin:
            return None
        known = self._known.get(column)
        if known is not None:
            return known
        found = self._shape.members.get(column)
        if found is None:
            raise Unsupported(column)
        slot = self._columns + COLUMN_WORDS * list(self._shape.members).index(column)
        name, row = f"member{column.side}_{column.index}", f"row{column.side}"
        lines = self._scalars.lines
        if found.has_null:
            lines += [
                f"if not {_element(slot + 2, np.dtype(np.bool_), row)}:",
                f"    return {REFUSED}, 0",
            ]
        value = _element(slot, found.dtype, row)
        lines.append(f"{name} = {_physical(value, column.type)}")
        if pa.types.is_uint64(column.type):
            lines += [f"if {name} < 0:", f"    return {REFUSED}, 0"]
        self._known[column] = name
        return name

    # -- the tuple's own window ---------------------------------------------------------------

    def _own_keys(self, number: int) -> list[str]:
        """Write the lines for the keys of some entries; gives their names, and validities."""
        keys, stored = self._shape.entries[number]
        names = []
        for i, (key, dtype) in enumerate(zip(keys, stored.dtypes, strict=True)):
            name = f"e{number}_{i}"
            source = self._code(key) if key.kind == "code" else self._scalars.key(key, dtype)
            self._scalars.lines.append(f"{name} = {source}")
            if _may_overflow(key, dtype):
                self._widened.append((number, i, self._constants + len(self._scalars.constants)))
                self._scalars.constant(0)
            names.append(name)
        return [*names, *["True"] * sum(stored.nulls)]

    def _store(self, own_keys: list[list[str]]) -> list[str]:
        """Append the tuple, and drop the oldest where the window is full."""
        rows = [f"value{i}" for i in self._shape.columns] + ["True"] * sum(self._shape.rows.nulls)
        values = [*rows, *(name for names in own_keys for name in names), "state[ARRIVAL]"]
        lines = ["if at(state[ASKING], 1, np.int64)[0] != 0:", "    return found, candidates"]
        for i, value in enumerate(values):
            lines += self._own.append(i, value)
        for number, i, slot in self._widened:
            lines += [
                f"bounds = at(state[{slot}], 2, np.int64)",
                "if bounds[0] > bounds[1]:",
                f"    bounds[:] = e{number}_{i}",
                f"bounds[0] = min(bounds[0], e{number}_{i})",
                f"bounds[1] = max(bounds[1], e{number}_{i})",
            ]
        entries = [self._entries + ENTRIES_WORDS * i for i in range(len(own_keys))]
        lines += [
            "held = at(state[OWN_ROWS], 2, np.int64)",
            "held[1] += 1",
            "if state[WINDOW] >= 0 and held[1] - held[0] > state[WINDOW]:",
            "    held[0] += 1",
            *(f"    drop_one(span{i})" for i in range(len(values))),
        ]
        lines += [f"    at(state[{slot}], 1, np.int64)[0] += 1" for slot in entries]
        return lines


def _may_overflow(key: Key, dtype: np.dtype[Any]) -> bool:
    return key.kind == "native" and dtype.kind == "i"


def member_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """How a member's value is read from its column; else the type is not supported."""
    if is_whole(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return np.dtype("V16") if pa.types.is_decimal(kind) else physical_dtype(kind)
    raise Unsupported(kind)


def _element(slot: int, dtype: np.dtype[Any], row: str) -> str:
    """The source of an element of a buffer; of a decimal, its first word."""
    place = f"at(state[{slot + 1}], 2, np.int64)[0] + {row}"
    read = np.dtype(np.int64) if dtype.itemsize >= 8 and dtype.kind != "f" else dtype
    return f"at(state[{slot}] + {dtype.itemsize} * ({place}), 1, {name_of(read)})[0]"


def _physical(value: str, kind: pa.DataType) -> str:
    """A stored value as :class:`ScalarSource` has those of its own tuple."""
    return f"np.int64({value})" if is_whole(kind) else value
