"""The choice of a flow: how cores share a query's joins, on how many cores, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from penstock.errors import InputError
from penstock.program.isa.block_instructions import AggregateRows, OrderRows, Program
from penstock.sql.plan import Call
from penstock.streams.schema import is_text

Order = Literal["none", "outer", "inner"]
"""The orders of EMIT ORDER."""
Kernel = Literal["nested-loop", "hash", "band", "sorted", "panes", "wid"]
"""The kernels of joins and of aggregates."""
FlowName = Literal[
    "three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake"
]
"""How cores share a join."""
Admission = Literal["wait", "shed"]
"""What happens to input while a query's output is full."""

FLOWS = ("three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake")
"""Every flow of the embedded engine, in the order in which errors list them."""
EVERY_KIND = ("three-step", "splitjoin")
"""The flows for outer, semi and anti joins too."""
UNORDERED = ("handshake", "low-latency-handshake")
"""The flows without an order: a pair is made when its tuples meet in a core."""
ADMISSIONS = ("wait", "shed")
DEFAULT_BRANCHING = 8
MOST_CORES = 1024
MOST_PRECISION = 1 << 40
"""The largest precision that makes a difference; a larger one is cut to it."""


@dataclass(frozen=True)
class FlowChoice:
    """The user's choice; None where the engine decides.

    ``precision`` is that of the order. ``admission`` is what happens to input when a buffer is
    almost full: ``wait`` until there is room, or ``shed`` it.
    """

    name: str | None = None
    cores: int | None = None
    branching: int | None = None
    precision: int | None = None
    admission: str | None = None


ANY_FLOW = FlowChoice()


@dataclass(frozen=True)
class Flow:
    """The flow of a query, decided and checked."""

    name: str
    cores: int
    branching: int
    order: str
    precision: int
    admission: str


def check_choice(choice: FlowChoice) -> None:
    """Refuse a choice that is valid for no query."""
    numbers = {"cores": choice.cores, "branching": choice.branching, "precision": choice.precision}
    for name, number in numbers.items():
        if number is not None and type(number) is not int:
            raise InputError(f"{name} is {number!r}", "Write a whole number.")
    if choice.name is not None and choice.name not in FLOWS:
        raise InputError(f"unknown flow {choice.name!r}", f"Write one of: {', '.join(FLOWS)}.")
    if choice.cores is not None and not 1 <= choice.cores <= MOST_CORES:
        raise InputError(
            f"{choice.cores} cores cannot share a query", f"Write a number from 1 to {MOST_CORES}."
        )
    if choice.name == "three-step" and (choice.cores or 1) > 1:
        raise InputError(
            f"the flow three-step is one core's, not {choice.cores} cores'",
            "Leave the cores out, or ask for the flow shared.",
        )
    if choice.branching is not None and choice.branching < 2:
        raise InputError(
            f"a distribution tree with branching {choice.branching} does not branch",
            f"Write 2 or more, or leave it out: {DEFAULT_BRANCHING}.",
        )
    if choice.branching is not None and choice.name not in (None, "splitjoin"):
        raise InputError(
            f"the flow {choice.name} has no distribution tree to branch",
            "Leave the branching out, or ask for the flow splitjoin.",
        )
    if choice.precision is not None and choice.precision < 1:
        raise InputError(
            f"a precision of {choice.precision} would mean a star every {choice.precision} results",
            "Write 1 or more.",
        )
    if choice.admission is not None and choice.admission not in ADMISSIONS:
        raise InputError(f"unknown admission {choice.admission!r}", "Write wait or shed.")


ALONE = "cores=2 (--cores 2) alone lets two threads divide the batches of an aggregate"
"""What cores do for an aggregate on the embedded engine."""


def check_joins(choice: FlowChoice, program: Program, alone: str = ALONE) -> None:
    """Refuse a flow for a query without a join; ``alone``: what cores do for an aggregate."""
    if program.joins or (choice.name is None and choice.branching is None):
        return
    asked = "flow" if choice.name is not None else "branching"
    what = f"the flow {choice.name}" if asked == "flow" else f"a branching of {choice.branching}"
    raise InputError(
        f"{what} is asked for, and the query has no join that cores could share",
        f"Leave the {asked} out{f'; {alone}' if program.aggregates else ''}.",
    )


def decide(choice: FlowChoice, program: Program) -> Flow:
    """Decide the flow of a query; an error if the query cannot have the chosen one."""
    check_choice(choice)
    check_joins(choice, program)
    precision = program.precision if choice.precision is None else choice.precision
    precision = min(precision, MOST_PRECISION)
    if choice.precision is not None and program.order == "none":
        raise InputError(
            f"a precision of {choice.precision} without an order",
            "Ask for the order outer or inner too, or leave the precision out.",
        )
    kinds = [join.kind for join in program.joins]
    special = next((kind for kind in kinds if kind != "inner"), None)
    name = choice.name or _default(choice, special)
    if kinds and name in UNORDERED and program.order != "none":
        raise InputError(
            f"the flow {name} does not offer the order {program.order}: its rows come when two "
            "tuples meet",
            "Ask for the order none, or for the flow splitjoin.",
        )
    if special is not None and name not in EVERY_KIND:
        raise InputError(
            f"the flow {name} does not offer {special} joins: no core of it knows whether a "
            "tuple has found a partner in another",
            f"Ask for one of the flows {' and '.join(EVERY_KIND)}.",
        )
    order = program.order
    if _needs_order(program):
        order = "inner"
        if name in UNORDERED:
            raise InputError(
                f"the flow {name} offers no order, and FIRST, LAST, ORDER BY and LIMIT over a join "
                "take its rows in the order of their arrival",
                "Ask for the flow splitjoin.",
            )
    cores = 1 if name == "three-step" else choice.cores or max(1, _machine_cores())
    return Flow(
        name,
        cores,
        choice.branching or DEFAULT_BRANCHING,
        order,
        precision,
        choice.admission or "wait",
    )


def _needs_order(program: Program) -> bool:
    """Whether a block after a join depends on the order of its rows."""
    if not program.joins:
        return False
    if any(isinstance(instruction, OrderRows) for instruction in program.instructions):
        return True
    calls = (call for aggregate in program.aggregates for call in aggregate.calls)
    return any(call.name in ("first", "last") for call in calls)


def _default(choice: FlowChoice, special: str | None) -> str:
    if choice.branching is not None:
        return "splitjoin"
    if special is not None:
        return "splitjoin" if (choice.cores or 1) > 1 else "three-step"
    return "shared" if (choice.cores or 1) > 1 else "three-step"


def _machine_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def explain_flow(choice: FlowChoice, flow: Flow, program: Program) -> str:
    """The lines of EXPLAIN about the flow, the order and the admission of a query."""
    lines = ["flow: none, since there is no join to share"]
    if program.joins:
        cores = "1 core" if flow.cores == 1 else f"{flow.cores} cores"
        lines = [f"flow {flow.name} on {cores}: {_why(choice, program)}"]
        if flow.name == "splitjoin":
            lines.append(f"branching {flow.branching}")
    if flow.name == "shared" and flow.cores > 1:
        lines += [_threads(aggregate, flow.cores) for aggregate in program.aggregates]
    if flow.order != "none":
        lines.append(f"precision {flow.precision}")
    if flow.admission == "shed":
        lines.append("admission shed: input is dropped while its output is almost full")
    return "\n".join(lines)


def idle_cores(choice: FlowChoice, program: Program) -> str | None:
    """A warning if several cores are chosen and the query can use one only; else None."""
    if (choice.cores or 1) == 1 or program.joins:
        return None
    why = ["there is neither a join nor an aggregate to share"]
    if program.aggregates:
        why = [_one_thread(aggregate) for aggregate in program.aggregates]
    if "" in why:
        return None
    return f"{choice.cores} cores are asked for, and one is used: {why[0]}"


def _one_thread(aggregate: AggregateRows) -> str:
    """Why threads cannot share an aggregate; empty if they can."""
    if aggregate.kernel == "wid":
        return "the kernel wid has its modules look in turn"
    calls = ", ".join(str(call) for call in aggregate.calls if _takes_one_thread(call))
    return f"threads cannot share {calls}" if calls else ""


def _threads(aggregate: AggregateRows, cores: int) -> str:
    """How the cores share an aggregate, or why they do not."""
    why = _one_thread(aggregate)
    if why:
        return f"cores: one thread aggregates, since {why}"
    return (
        f"cores: {cores} threads divide each batch of the aggregate that has many tuples for a "
        "group and pane"
    )


def _takes_one_thread(call: Call) -> bool:
    """Whether a call depends on the order of tuples, or keeps a dictionary of values."""
    if call.distinct or call.name in ("first", "last"):
        return True
    if call.name not in ("min", "max") or call.argument is None:
        return False
    return is_text(call.argument.type)


def _why(choice: FlowChoice, program: Program) -> str:
    if choice.name is not None:
        return "asked for"
    if choice.branching is not None:
        return "a branching is asked for, and it has the tree that branches"
    if (choice.cores or 1) == 1:
        return "nothing else is asked for, and one core needs no sharing"
    special = next((join.kind for join in program.joins if join.kind != "inner"), None)
    if special is not None:
        return f"{choice.cores} cores are asked for, and it can share {special} joins"
    return f"{choice.cores} cores are asked for, and with it they share one window"
