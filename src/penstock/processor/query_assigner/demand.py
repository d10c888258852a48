"""What a query asks of the blocks of FQP, or why none of them can serve it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import InputError
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
from penstock.program.isa.flow import FlowChoice
from penstock.sql.expressions import TRUE, Call, Expression
from penstock.streams.schema import Stream
from penstock.streams.windows import Rows, as_written

ELSEWHERE = "run the query on an engine without a topology"


@dataclass(frozen=True)
class Demand:
    """What a query asks of blocks.

    Parameters
    ----------
    streams
        The streams that it reads, in the order of FROM.
    bodies
        The instructions for its blocks, in order.
    window
        The larger of its join's windows, in tuples; None: it has no join.
    selections, projections
        How many operators it has of each.
    is_ordered
        Whether its rows have an order.
    """

    streams: tuple[Stream, ...]
    bodies: tuple[BlockInstruction, ...]
    window: int | None
    selections: int
    projections: int
    is_ordered: bool


def demand_of(program: Program) -> Demand:
    """What a query asks of blocks; an error if FQP has no block for an operator of it."""
    _check_choice(program.flow)
    for instruction in program.instructions:
        _check(instruction)
    bodies = tuple(i for i in program.instructions if i.reads)
    window = None
    if program.joins:
        window = max(1, *(one.size for one in program.joins[0].windows if isinstance(one, Rows)))
    return Demand(
        tuple(scan.stream for scan in program.scans),
        bodies,
        window,
        sum(operators(i.condition) for i in bodies if isinstance(i, SelectRows)),
        sum(len(i.columns) for i in bodies if isinstance(i, ProjectColumns)),
        program.order != "none",
    )


def columns_of(instruction: BlockInstruction) -> list[pa.Schema]:
    """The columns that a scan or a join gives, a schema for each side; of others none."""
    if isinstance(instruction, ScanStream):
        return [instruction.stream.schema]
    if isinstance(instruction, JoinStreams):
        sides = zip(instruction.schemas, instruction.columns, strict=True)
        return [pa.schema([schema.field(i) for i in columns]) for schema, columns in sides]
    return []


def operators(condition: Expression) -> int:
    """How many selection operators a condition is: the comparisons that AND, OR and NOT connect.

    ``IN`` compares with each of its values.
    """
    if condition == TRUE:
        return 0
    if isinstance(condition, Call) and condition.op in ("and", "or", "not"):
        return sum(map(operators, condition.args))
    if isinstance(condition, Call) and condition.op == "in":
        return len(condition.args) - 1
    return 1


def _check_choice(choice: FlowChoice) -> None:
    asked = {
        "flow": choice.name,
        "cores": choice.cores,
        "branching": choice.branching,
        "design": choice.design,
        "probe_order": choice.probe_order,
        "stash": choice.stash,
    }
    for name, value in asked.items():
        if value is not None:
            raise InputError(
                f"{name}={value!r} is asked for, and the engine has a topology, whose blocks "
                "share the work",
                f"Leave {name} out, or {ELSEWHERE}.",
            )
    if choice.admission == "shed":
        raise InputError(
            "the admission shed is asked for, and all queries of a topology take the same input",
            f"Ask for the admission wait, or {ELSEWHERE}.",
        )


def _check(instruction: BlockInstruction) -> None:
    what = _unknown_operator(instruction)
    if what is not None:
        raise InputError(
            f"{what} does not fit FQP: its blocks select, project, and join two streams",
            f"{ELSEWHERE[0].upper()}{ELSEWHERE[1:]}.",
        )
    if isinstance(instruction, JoinStreams):
        for stream, window in zip(instruction.streams, instruction.windows, strict=True):
            if not isinstance(window, Rows):
                raise InputError(
                    f"the window {as_written(window)} of {stream} has no largest number of tuples, "
                    "and the blocks of FQP have room for a number of them",
                    f"Write a count window, as in {stream} [ROWS 1000], or {ELSEWHERE}.",
                )


def _unknown_operator(instruction: BlockInstruction) -> str | None:
    """What FQP has no block for; None: it has one."""
    if isinstance(instruction, AggregateRows):
        return "an aggregate"
    if isinstance(instruction, OrderRows):
        return "ORDER BY or LIMIT"
    if isinstance(instruction, UnionRows):
        return "UNION ALL"
    if isinstance(instruction, OwnRows | ScreenRows):
        return "a block of your own"
    if isinstance(instruction, JoinStreams):
        if len(instruction.inputs) > 2:
            return f"a join of {len(instruction.inputs)} streams"
        if instruction.kind != "inner":
            article = "an" if instruction.kind == "anti" else "a"
            return f"{article} {instruction.kind.upper()} JOIN"
    return None
