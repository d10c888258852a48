"""The compiler: from a plan to a program."""

from __future__ import annotations

from dataclasses import replace

from penstock.program.choose.aggregate_kernel import choose_aggregate_kernel
from penstock.program.choose.join_kernel import check_kernel, choose_kernel
from penstock.program.isa.block_instructions import (
    AggregateRows,
    BlockInstruction,
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
from penstock.program.isa.kernels import AGGREGATE_KERNELS
from penstock.sql.expressions import Column, Expression, rebuild
from penstock.sql.plan import Aggregate, Call, Join, Plan, Scan, Select, Union
from penstock.sql.rules import rewrite
from penstock.streams.windows import Unbounded


def compile_plan(plan: Plan, kernel: str | None = None) -> Program:
    """Rewrite the plan and lay it out as instructions, block by block.

    ``kernel`` forces the kernel of joins or of aggregates; None: the predicate and the data decide.
    """
    check_kernel(plan, kernel)
    plan = rewrite(plan)
    instructions: list[BlockInstruction] = []
    if isinstance(plan.body, Union):
        outputs = [_select(select, instructions, kernel) for select in plan.selects]
        union = UnionRows(_next(instructions), tuple(outputs))
        instructions.append(union)
        _order(plan, union.block, None, instructions)
    else:
        _select(plan.body, instructions, kernel, plan)
    return Program(tuple(instructions), plan.schema, plan.text, plan.order, plan.precision)


def _next(instructions: list[BlockInstruction]) -> int:
    return instructions[-1].block + 1 if instructions else 0


def _select(
    select: Select,
    instructions: list[BlockInstruction],
    forced: str | None,
    plan: Plan | None = None,
) -> int:
    """Append the blocks of one SELECT and return the number of its last one.

    With a plan, ORDER BY and LIMIT stand before the projection: they may use columns that it drops.
    """
    source = select.source
    if isinstance(source, Aggregate):
        last = _aggregate(source, instructions, forced)
    elif isinstance(source, Scan):
        last = _scan(source, instructions)
    else:
        last = _join(source, instructions, forced)
    selection = SelectRows(_next(instructions), last, select.where, select.columns_read)
    instructions.append(selection)
    last = selection.block
    if plan is not None:
        last = _order(plan, last, select, instructions)
    projection = ProjectColumns(_next(instructions), last, select.columns)
    instructions.append(projection)
    return projection.block


def _order(
    plan: Plan, last: int, select: Select | None, instructions: list[BlockInstruction]
) -> int:
    """Append ORDER BY and LIMIT, if the plan has them, and return the number of the last block.

    ``select`` is their SELECT; None after a union.
    """
    if not plan.sort and plan.limit is None:
        return last
    window_column = None
    if select is not None and isinstance(select.source, Aggregate) and select.source.window:
        assert select.columns_read is not None
        window_column = select.columns_read.index(select.source.window_column)
    order = OrderRows(_next(instructions), last, plan.sort, plan.limit, window_column)
    instructions.append(order)
    return order.block


def _aggregate(
    aggregate: Aggregate, instructions: list[BlockInstruction], forced: str | None
) -> int:
    if isinstance(aggregate.source, Scan):
        source = _scan(replace(aggregate.source, time=aggregate.time), instructions, False)
    else:
        source = _join(aggregate.source, instructions, forced)
    kernel, reason = choose_aggregate_kernel(aggregate, forced)
    instruction = AggregateRows(
        _next(instructions),
        source,
        aggregate.source.stream.name if isinstance(aggregate.source, Scan) else "",
        aggregate.where,
        aggregate.keys,
        aggregate.calls,
        aggregate.window,
        aggregate.time,
        aggregate.emit_empty,
        aggregate.schema,
        kernel,
        reason,
        tuple(_whole(key.expression, aggregate.source) for key in aggregate.keys),
        tuple(_whole_call(call, aggregate.source) for call in aggregate.calls),
    )
    instructions.append(instruction)
    return instruction.block


def _whole(expression: Expression, source: Scan | Join) -> Expression:
    """The expression over whole tuples instead of the columns that a join outputs."""
    if not isinstance(source, Join) or source.columns is None:
        return expression
    if isinstance(expression, Column):
        return replace(expression, index=source.columns[expression.side][expression.index])
    return rebuild(expression, lambda below: _whole(below, source))


def _whole_call(call: Call, source: Scan | Join) -> Call:
    argument = None if call.argument is None else _whole(call.argument, source)
    return replace(call, argument=argument, condition=_whole(call.condition, source))


def _scan(scan: Scan, instructions: list[BlockInstruction], float_clock: bool | None = None) -> int:
    """Append a scan, with the block of the user's own that its stream goes through.

    ``float_clock`` is of the windows that read it; None: none do, and the rows need no time.
    """
    through = scan.through
    source = ScanStream(_next(instructions), scan.stream if through is None else through.stream)
    instructions.append(source)
    if through is None:
        return source.block
    given = (through.block, through.implementation, through.arguments)
    own = OwnRows(_next(instructions), source.block, *given)
    instructions.append(own)
    if float_clock is None:
        return own.block
    screen = ScreenRows(_next(instructions), own.block, scan.stream.name, scan.time, float_clock)
    instructions.append(screen)
    return screen.block


def _join(join: Join, instructions: list[BlockInstruction], forced: str | None) -> int:
    inputs = tuple(_scan(scan, instructions, join.float_clock) for scan in join.inputs)
    block = _next(instructions)
    forced = None if forced in AGGREGATE_KERNELS else forced
    kernel, reason = choose_kernel(join, forced)
    hidden = {number for number, step in enumerate(join.steps, start=join.core) if step.hides}
    every = tuple(
        () if number in hidden else tuple(range(len(scan.stream.schema)))
        for number, scan in enumerate(join.inputs)
    )
    instructions.append(
        JoinStreams(
            block,
            inputs,
            tuple(scan.stream.name for scan in join.inputs),
            tuple(scan.stream.schema for scan in join.inputs),
            tuple(Unbounded() if scan.window is None else scan.window for scan in join.inputs),
            tuple(scan.time for scan in join.inputs),
            join.kind,
            join.filters,
            join.compiled,
            join.residual,
            every if join.columns is None else join.columns,
            join.float_clock,
            kernel,
            reason,
            forced is not None,
            join.steps,
        )
    )
    return block
