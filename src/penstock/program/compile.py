"""From a plan to a program, and from one program to the next while it runs."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.program.blocks import (
    BlockInstruction,
    JoinStreams,
    Program,
    ProjectColumns,
    ScanStream,
    SelectRows,
    SetWindow,
    UnionRows,
)
from penstock.program.kernel_choice import choose_kernel
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select, Union
from penstock.sql.rules import rewrite
from penstock.streams.windows import Range, Unbounded


def compile_plan(plan: Plan, kernel: str | None = None) -> Program:
    """Rewrite the plan and lay it out as instructions, block by block.

    ``kernel`` is the one that joins must use; None leaves the choice to the predicate and the data.
    """
    plan = rewrite(plan)
    instructions: list[BlockInstruction] = []
    outputs = [_select(select, instructions, kernel) for select in plan.selects]
    if isinstance(plan.body, Union):
        instructions.append(UnionRows(_next(instructions), tuple(outputs)))
    return Program(tuple(instructions), plan.schema, plan.text, plan.order, plan.precision)


def check_change(name: str, old: Program, new: Program) -> None:
    """Refuse a change that is not one: other streams, another join kind, another kind of window."""
    why = _not_a_change(name, old, new)
    if why is not None:
        raise PenstockError(why, "Install it as a new query and drop this one.")


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
            "(join, selection or union)"
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


def _same_but_for_size(before: SetWindow, after: SetWindow) -> bool:
    # The factor may differ: a window of another size may need a finer clock.
    columns = [None if i.time is None else i.time.column for i in (before, after)]
    return type(before.window) is type(after.window) and columns[0] == columns[1]


def _clause(instruction: SetWindow) -> str:
    by = f" on {instruction.time.name}" if instruction.time else ""
    return f"{instruction.window}{by}"


def _next(instructions: list[BlockInstruction]) -> int:
    return instructions[-1].block + 1 if instructions else 0


def _select(select: Select, instructions: list[BlockInstruction], forced: str | None) -> int:
    """Append the blocks of one SELECT and return the number of its last one."""
    assert not isinstance(select.source, Aggregate)
    if isinstance(select.source, Join):
        source = _join(select.source, instructions, forced)
    else:
        source = _scan(select.source, instructions)
    selection = SelectRows(_next(instructions), source, select.where, select.kept)
    projection = ProjectColumns(selection.block + 1, selection.block, select.columns)
    instructions.extend((selection, projection))
    return projection.block


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
