"""From a plan to a program, and from one program to the next while it runs."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import ChangeRefused
from penstock.program.aggregate_change import NEW_QUERY, check_aggregate_change
from penstock.program.aggregate_kernel import AGGREGATE_KERNELS, choose_aggregate_kernel
from penstock.program.blocks import (
    AggregateRows,
    BlockInstruction,
    JoinStreams,
    OrderRows,
    Program,
    ProjectColumns,
    ScanStream,
    SelectRows,
    SetWindow,
    UnionRows,
)
from penstock.program.kernel_choice import check_kernel, choose_kernel
from penstock.sql.expressions import Column, Expression, rebuild
from penstock.sql.plan import Aggregate, Call, Join, Plan, Scan, Select, Union
from penstock.sql.rules import rewrite
from penstock.streams.windows import Range, Unbounded


def compile_plan(plan: Plan, kernel: str | None = None) -> Program:
    """Rewrite the plan and lay it out as instructions, block by block.

    ``kernel`` is the one that joins, or aggregates, must use; None leaves the choice to the
    predicate and the data.
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


def check_change(name: str, old: Program, new: Program) -> None:
    """Refuse a change that is not one: other streams, another join kind, another kind of window."""
    why = _not_a_change(name, old, new)
    if why is not None:
        raise ChangeRefused(why, NEW_QUERY)
    for before, after in zip(old.aggregates, new.aggregates, strict=True):
        check_aggregate_change(name, before, after)


def _not_a_change(name: str, old: Program, new: Program) -> str | None:
    streams = [[scan.stream.name.lower() for scan in p.scans] for p in (old, new)]
    if streams[0] != streams[1]:
        return (
            f"query {name!r} reads {', '.join(s.stream.name for s in old.scans)}; "
            f"a change cannot make it read {', '.join(s.stream.name for s in new.scans)}"
        )
    if [type(i) for i in old.instructions] != [type(i) for i in new.instructions]:
        return (
            f"a change cannot turn query {name!r} into one of another shape "
            "(join, aggregate, order, selection or union)"
        )
    pairs = list(zip(old.instructions, new.instructions, strict=True))
    for before, after in pairs:
        if (
            isinstance(before, JoinStreams)
            and isinstance(after, JoinStreams)
            and before.kind != after.kind
        ):
            return (
                f"query {name!r} is a join of kind {before.kind}; "
                f"a change cannot make it {after.kind}"
            )
    if any(_is_cut_otherwise(before, after, old) for before, after in pairs):
        return (
            f"query {name!r} holds no more rows for its end than its LIMIT asks for; a change "
            "cannot give it another ORDER BY or a larger LIMIT"
        )
    if _holds_union(old) and old.schema != new.schema:
        return (
            f"query {name!r} holds the rows of its UNION ALL for its end; a change cannot give it "
            "other columns"
        )
    changed = [
        (before, after)
        for before, after in pairs
        if isinstance(before, SetWindow)
        and isinstance(after, SetWindow)
        and not _same_but_for_size(before, after)
    ]
    # A time window of the other side is where a count window's attribute comes from: blame that.
    changed.sort(key=lambda pair: not any(isinstance(i.window, Range) for i in pair))
    for before, after in changed[:1]:
        return (
            f"query {name!r} has the window {_clause(before)}; a change may alter "
            f"its size and slack, but cannot make it {_clause(after)}"
        )
    return None


def _is_cut_otherwise(before: BlockInstruction, after: BlockInstruction, old: Program) -> bool:
    """Whether an order has let rows go that another one would want."""
    if not isinstance(before, OrderRows) or not isinstance(after, OrderRows):
        return False
    # An aggregate makes its rows when they are wanted, of windows or of the whole at the end; but
    # those of a union have to wait for the others.
    if before.limit is None or (old.aggregates and not _holds_union(old)):
        return False
    return before.sort != after.sort or after.limit is None or after.limit > before.limit


def _holds_union(program: Program) -> bool:
    """Whether rows of a union wait for the end: they have been through their select lists."""
    kinds = {type(instruction) for instruction in program.instructions}
    return kinds >= {UnionRows, OrderRows}


def _same_but_for_size(before: SetWindow, after: SetWindow) -> bool:
    # The factor may differ: a window of another size may need a finer clock.
    columns = [None if i.time is None else i.time.column for i in (before, after)]
    return type(before.window) is type(after.window) and columns[0] == columns[1]


def _clause(instruction: SetWindow) -> str:
    by = f" on {instruction.time.name}" if instruction.time else ""
    return f"{instruction.window}{by}"


def _next(instructions: list[BlockInstruction]) -> int:
    return instructions[-1].block + 1 if instructions else 0


def _select(
    select: Select,
    instructions: list[BlockInstruction],
    forced: str | None,
    plan: Plan | None = None,
) -> int:
    """Append the blocks of one SELECT and return the number of its last one.

    With a plan its order stands before the projection: it may be by what that leaves out.
    """
    source = select.source
    if isinstance(source, Aggregate):
        last = _aggregate(source, instructions, forced)
    else:
        last = _rows(source, instructions, forced)
    selection = SelectRows(_next(instructions), last, select.where, select.kept)
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

    ``select`` is what it stands in; None after a union.
    """
    if not plan.sort and plan.limit is None:
        return last
    window_column = None
    if select is not None and isinstance(select.source, Aggregate) and select.source.window:
        assert select.kept is not None
        window_column = select.kept.index(select.source.window_column)
    order = OrderRows(_next(instructions), last, plan.sort, plan.limit, window_column)
    instructions.append(order)
    return order.block


def _aggregate(
    aggregate: Aggregate, instructions: list[BlockInstruction], forced: str | None
) -> int:
    source = _rows(aggregate.source, instructions, forced)
    kernel, reason = choose_aggregate_kernel(aggregate, forced)
    instruction = AggregateRows(
        _next(instructions),
        source,
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
    """The expression over whole tuples, not over what a join hands on of them."""
    if not isinstance(source, Join) or source.columns is None:
        return expression
    if isinstance(expression, Column):
        return replace(expression, index=source.columns[expression.side][expression.index])
    return rebuild(expression, lambda below: _whole(below, source))


def _whole_call(call: Call, source: Scan | Join) -> Call:
    argument = None if call.argument is None else _whole(call.argument, source)
    return replace(call, argument=argument, condition=_whole(call.condition, source))


def _rows(source: Scan | Join, instructions: list[BlockInstruction], forced: str | None) -> int:
    if isinstance(source, Scan):
        return _scan(source, instructions)
    return _join(source, instructions, None if forced in AGGREGATE_KERNELS else forced)


def _scan(scan: Scan, instructions: list[BlockInstruction]) -> int:
    instruction = ScanStream(_next(instructions), scan.stream)
    instructions.append(instruction)
    return instruction.block


def _join(join: Join, instructions: list[BlockInstruction], forced: str | None) -> int:
    inputs = (_scan(join.left, instructions), _scan(join.right, instructions))
    block = _next(instructions)
    kernel, reason = choose_kernel(join, forced)
    every = (tuple(range(len(s.stream.schema))) for s in (join.left, join.right))
    left, right = join.columns if join.columns is not None else every
    instructions.append(
        JoinStreams(
            block,
            inputs,
            (join.left.stream.schema, join.right.stream.schema),
            join.kind,
            join.filters,
            join.compiled,
            join.residual,
            (left, right),
            join.float_clock,
            kernel,
            reason,
            forced is not None,
        )
    )
    for side, scan in enumerate((join.left, join.right)):
        window = scan.window if scan.window is not None else Unbounded()
        instructions.append(SetWindow(block, side, window, scan.time))
    return block
