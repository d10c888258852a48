"""The check of a decoded program: that its blocks, columns, types and calls are consistent.

The program is read once, from the first instruction to the last. The output columns of a block are
known when a later block reads them, so each expression can be checked against its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from penstock.errors import ProgramError
from penstock.program.isa.block_instructions import (
    AggregateRows,
    JoinStreams,
    OrderRows,
    OwnRows,
    Program,
    ProjectColumns,
    ScanStream,
    ScreenRows,
    SelectRows,
    UnionRows,
)
from penstock.program.isa.codecs import REMEDY
from penstock.sql.expressions import Column, Expression, Literal, children, conjuncts
from penstock.sql.expressions import sides as expression_sides
from penstock.sql.plan import MOST_INPUTS, Call
from penstock.streams.schema import is_time_type, type_name
from penstock.streams.windows import Range, Sliding, TimeAttribute

Layout = tuple[tuple[pa.DataType, ...], ...]
"""The types of a block's output columns, side by side."""


def _refuse(path: str, what: str) -> NoReturn:
    raise ProgramError(f"{path}: {what}", REMEDY)


def check_program(program: Program, path: str) -> None:
    """Refuse an inconsistent program; ``path`` is the prefix of the fields' names."""
    checked = _CheckedBlocks()
    for number, instruction in enumerate(program.instructions):
        checked.take(instruction, f"{path}instructions[{number}]")
    checked.finish(program, path)


def check_instruction(instruction: Any, inputs: Mapping[int, Layout], path: str) -> Layout:
    """Refuse an inconsistent instruction that stands alone, and give the layout of its output.

    ``inputs`` has the layouts of the blocks that it reads, each a stream.
    """
    checked = _CheckedBlocks()
    checked.know(inputs)
    return CHECKS[type(instruction)](checked, instruction, path)


class _CheckedBlocks:
    """The blocks of a program that have been checked so far."""

    def __init__(self) -> None:
        self._layouts: dict[int, Layout] = {}
        self._streams: set[int] = set()
        self._joins: dict[int, JoinStreams] = {}
        self._read: set[int] = set()
        self._seen: set[tuple[int, Layout]] = set()
        self._last = -1

    def know(self, streams: Mapping[int, Layout]) -> None:
        """Take the layouts of streams as checked."""
        self._layouts.update(streams)
        self._streams.update(streams)

    def take(self, instruction: Any, path: str) -> None:
        """Check an instruction against those before it."""
        if instruction.block <= self._last:
            _refuse(f"{path}.block", f"expected more than {self._last}, found {instruction.block}")
        layout = CHECKS[type(instruction)](self, instruction, path)
        self._layouts[instruction.block] = layout
        self._last = instruction.block

    def finish(self, program: Program, path: str) -> None:
        """Check the program as a whole: all rows are read, and the schema fits."""
        unread = [block for block in self._layouts if block not in self._read]
        if unread != [self._last]:
            _refuse(f"{path}instructions", f"nothing reads the rows of block #{unread[0]}")
        if self._layouts[self._last] != (tuple(program.schema.types),):
            _refuse(f"{path}schema", "expected the types of the last block's columns")

    def input(self, block: int, path: str) -> Layout:
        """The layout of a block's input."""
        if block not in self._layouts:
            _refuse(path, f"expected the number of an earlier block, found {block}")
        self._read.add(block)
        return self._layouts[block]

    def expression(
        self, root: Expression, layout: Layout, path: str, kind: pa.DataType | None = None
    ) -> None:
        """Refuse an expression that reads a missing column, or has another type."""
        if kind is not None and root.type != kind:
            _refuse(path, f"expected {_named(kind)}, found {_named(root.type)}")
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if (id(node), layout) in self._seen:
                continue
            self._seen.add((id(node), layout))
            waiting += children(node)
            if isinstance(node, Column):
                if node.side >= len(layout) or node.index >= len(layout[node.side]):
                    _refuse(path, f"there is no column {node.index} on side {node.side}")
                if layout[node.side][node.index] != node.type:
                    there = _named(layout[node.side][node.index])
                    _refuse(
                        path,
                        f"column {node.index} on side {node.side} is {there}, not "
                        f"{_named(node.type)}",
                    )

    def scan(self, instruction: ScanStream, path: str) -> Layout:
        stream = instruction.stream
        if stream.time is not None and stream.index_of(stream.time) is None:
            _refuse(f"{path}.stream.time", f"expected a column, found {stream.time!r}")
        self._streams.add(instruction.block)
        return (tuple(stream.schema.types),)

    def join(self, instruction: JoinStreams, path: str) -> Layout:
        sides: list[tuple[pa.DataType, ...]] = []
        count = len(instruction.inputs)
        if count > MOST_INPUTS:
            _refuse(f"{path}.inputs", f"expected {MOST_INPUTS} blocks at most, found {count}")
        for name in ("streams", "schemas", "windows", "times", "filters", "columns"):
            if len(getattr(instruction, name)) != count:
                _refuse(f"{path}.{name}", f"expected a list of {count}, one for each input")
        if count > 2 and instruction.kind != "inner":
            what = f"expected inner for a join of {count} inputs, found {instruction.kind}"
            _refuse(f"{path}.kind", what)
        for side, block in enumerate(instruction.inputs):
            layout = self.input(block, f"{path}.inputs[{side}]")
            if block not in self._streams:
                _refuse(f"{path}.inputs[{side}]", f"expected the number of a scan, found {block}")
            if layout != (tuple(instruction.schemas[side].types),):
                _refuse(f"{path}.schemas[{side}]", f"expected the columns of block #{block}")
            sides += layout
        for side in range(len(sides)):
            # A filter is over its own side, numbered as in the condition.
            own = tuple(one if i == side else () for i, one in enumerate(sides))
            self.expression(instruction.filters[side], own, f"{path}.filters[{side}]", pa.bool_())
        for name in ("compiled", "residual"):
            condition = getattr(instruction, name)
            self.expression(condition, tuple(sides), f"{path}.{name}", pa.bool_())
        for term in conjuncts(instruction.compiled):
            if len(expression_sides(term)) < 2:
                what = f"expected conditions over two inputs and more, found {term}"
                _refuse(f"{path}.compiled", what)
        self._steps(instruction, sides, path)
        for side, types in enumerate(sides):
            time = instruction.times[side]
            _check_time(time, types, f"{path}.times[{side}]")
            if isinstance(instruction.windows[side], Range) and time is None:
                what = "expected the time attribute of a time window, found null"
                _refuse(f"{path}.times[{side}]", what)
        self._joins[instruction.block] = instruction
        kept = [
            _column_types(types, instruction.columns[side], f"{path}.columns[{side}]")
            for side, types in enumerate(sides)
        ]
        return tuple(kept[:1] if instruction.kind in ("semi", "anti") else kept)

    def _steps(
        self, instruction: JoinStreams, sides: list[tuple[pa.DataType, ...]], path: str
    ) -> None:
        """Check the steps of a tree: each is over the inputs up to its own, without hidden ones."""
        if instruction.core < 1 or (instruction.steps and len(sides) == 2):
            what = f"expected steps for some of three and more inputs, found {len(sides)} inputs"
            _refuse(f"{path}.steps", what)
        known = [types if i < instruction.core else () for i, types in enumerate(sides)]
        for number, step in enumerate(instruction.steps):
            side = instruction.core + number
            known[side] = sides[side]
            where = f"{path}.steps[{number}]"
            self.expression(step.on, tuple(known), f"{where}.on", pa.bool_())
            if step.hides:
                known[side] = ()
                if instruction.columns[side]:
                    _refuse(
                        f"{path}.columns[{side}]", f"expected none, since the join is {step.kind}"
                    )

    def aggregate(self, instruction: AggregateRows, path: str) -> Layout:
        layout = self.input(instruction.input, f"{path}.input")
        self.expression(instruction.where, layout, f"{path}.where", pa.bool_())
        for i, key in enumerate(instruction.keys):
            self.expression(key.expression, layout, f"{path}.keys[{i}].expression")
        for i, call in enumerate(instruction.calls):
            self._call(call, layout, f"{path}.calls[{i}]")
        for name, several in (("groups", instruction.keys), ("counted", instruction.calls)):
            if len(getattr(instruction, name)) != len(several):
                _refuse(f"{path}.{name}", f"expected a list of {len(several)}")
        self._whole(instruction, path)
        kinds = [key.type for key in instruction.keys] + [call.type for call in instruction.calls]
        found = list(instruction.schema.types)
        borders = 0 if instruction.window is None else 2
        if found[: len(kinds)] != kinds or len(found) != len(kinds) + borders:
            _refuse(f"{path}.schema", "expected the types of keys, calls and borders")
        if isinstance(instruction.window, Sliding):
            if instruction.time is None or len(layout) != 1:
                _refuse(f"{path}.time", "expected the time attribute of its windows")
            _check_time(instruction.time, layout[0], f"{path}.time")
        return (tuple(found),)

    def _whole(self, instruction: AggregateRows, path: str) -> None:
        """Check the keys and calls over whole tuples of the streams."""
        layout = self._layouts[instruction.input]
        if instruction.input in self._joins:
            join = self._joins[instruction.input]
            layout = tuple(tuple(schema.types) for schema in join.schemas)
        for i, group in enumerate(instruction.groups):
            self.expression(group, layout, f"{path}.groups[{i}]", instruction.keys[i].type)
        for i, call in enumerate(instruction.counted):
            self._call(call, layout, f"{path}.counted[{i}]")

    def _call(self, call: Call, layout: Layout, path: str) -> None:
        if call.argument is None:
            if call.name != "count":
                _refuse(f"{path}.argument", f"expected what {call.name} is of, found null")
        else:
            self.expression(call.argument, layout, f"{path}.argument")
        if call.distinct and call.name != "count":
            _refuse(f"{path}.distinct", f"expected false for {call.name}, found true")
        self.expression(call.condition, layout, f"{path}.condition", pa.bool_())

    def select(self, instruction: SelectRows, path: str) -> Layout:
        layout = self.input(instruction.input, f"{path}.input")
        self.expression(instruction.condition, layout, f"{path}.condition", pa.bool_())
        if instruction.columns is None:
            return layout
        if len(layout) != 1:
            _refuse(f"{path}.columns", "expected null after a join of two inputs")
        return (_column_types(layout[0], instruction.columns, f"{path}.columns"),)

    def own(self, instruction: OwnRows, path: str) -> Layout:
        layout = self._stream(instruction, path)
        for i, one in enumerate(instruction.arguments):
            if not isinstance(one.value, Column | Literal):
                _refuse(f"{path}.arguments[{i}].value", "expected a column or a constant")
            self.expression(one.value, layout, f"{path}.arguments[{i}].value")
        return layout

    def screen(self, instruction: ScreenRows, path: str) -> Layout:
        layout = self._stream(instruction, path)
        _check_time(instruction.time, layout[0], f"{path}.time")
        return layout

    def _stream(self, instruction: OwnRows | ScreenRows, path: str) -> Layout:
        """The layout of a stream that goes through a block and is one after it."""
        layout = self.input(instruction.input, f"{path}.input")
        if instruction.input not in self._streams:
            what = f"expected the number of a scan, found {instruction.input}"
            _refuse(f"{path}.input", what)
        self._streams.add(instruction.block)
        return layout

    def order(self, instruction: OrderRows, path: str) -> Layout:
        layout = self.input(instruction.input, f"{path}.input")
        for i, key in enumerate(instruction.sort):
            self.expression(key.expression, layout, f"{path}.sort[{i}].expression")
        column = instruction.window_column
        if column is not None and (len(layout) != 1 or column >= len(layout[0])):
            _refuse(f"{path}.window_column", f"there is no column {column}")
        return layout

    def project(self, instruction: ProjectColumns, path: str) -> Layout:
        layout = self.input(instruction.input, f"{path}.input")
        for i, one in enumerate(instruction.columns):
            self.expression(one.expression, layout, f"{path}.columns[{i}].expression")
        return (tuple(one.type for one in instruction.columns),)

    def union(self, instruction: UnionRows, path: str) -> Layout:
        layouts = [self.input(b, f"{path}.inputs[{i}]") for i, b in enumerate(instruction.inputs)]
        for i, layout in enumerate(layouts):
            if layout != layouts[0] or len(layout) != 1:
                _refuse(f"{path}.inputs[{i}]", "expected a block with the columns of the first")
        return layouts[0]


CHECKS: dict[type[Any], Callable[[_CheckedBlocks, Any, str], Layout]] = {
    ScanStream: _CheckedBlocks.scan,
    JoinStreams: _CheckedBlocks.join,
    AggregateRows: _CheckedBlocks.aggregate,
    SelectRows: _CheckedBlocks.select,
    OrderRows: _CheckedBlocks.order,
    ProjectColumns: _CheckedBlocks.project,
    UnionRows: _CheckedBlocks.union,
    OwnRows: _CheckedBlocks.own,
    ScreenRows: _CheckedBlocks.screen,
}
"""For each instruction, the method that checks it and returns the layout of its output."""


def _column_types(
    types: Sequence[pa.DataType], columns: Sequence[int], path: str
) -> tuple[pa.DataType, ...]:
    for i, column in enumerate(columns):
        if column >= len(types):
            _refuse(f"{path}[{i}]", f"expected a column below {len(types)}, found {column}")
    return tuple(types[column] for column in columns)


def _check_time(time: TimeAttribute | None, types: Sequence[pa.DataType], path: str) -> None:
    if time is None:
        return
    if time.column >= len(types):
        _refuse(f"{path}.column", f"expected a column below {len(types)}, found {time.column}")
    if not is_time_type(types[time.column]):
        _refuse(f"{path}.column", f"{_named(types[time.column])} cannot be a time attribute")
    if not time.factor:
        _refuse(f"{path}.factor", "expected more than 0, found 0")


def _named(kind: pa.DataType) -> str:
    return "null" if pa.types.is_null(kind) else type_name(kind)
