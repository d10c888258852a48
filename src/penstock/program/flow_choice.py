"""Which flow shares a join among cores, with how many, and whether the query can have it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from penstock.errors import InputError
from penstock.program.blocks import OrderRows, Program

FLOWS = ("three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake")
"""Every flow of the embedded engine, in the order in which errors list them."""
EVERY_KIND = ("three-step", "splitjoin")
"""The flows for outer, semi and anti joins too."""
UNORDERED = ("handshake", "low-latency-handshake")
"""The flows that cannot promise an order: pairs come when their tuples meet."""
ADMISSIONS = ("wait", "shed")
DEFAULT_BRANCHING = 8
MOST_CORES = 1024
MOST_PRECISION = 1 << 40
"""No query has as many arrivals between two stars; a larger number asks for no more."""


@dataclass(frozen=True)
class FlowChoice:
    """What was asked for; None where the engine is to decide.

    ``precision`` is that of the order; ``admission`` what is done with input when a buffer is
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
    """How a query's join is shared: all decided and checked."""

    name: str
    cores: int
    branching: int
    order: str
    precision: int
    admission: str


def check_choice(choice: FlowChoice) -> None:
    """Refuse what no query could have."""
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
    """Refuse a flow for a query without a join; ``alone`` says what cores do for an aggregate."""
    if program.joins or (choice.name is None and choice.branching is None):
        return
    asked = "flow" if choice.name is not None else "branching"
    what = f"the flow {choice.name}" if asked == "flow" else f"a branching of {choice.branching}"
    raise InputError(
        f"{what} is asked for, and the query has no join that cores could share",
        f"Leave the {asked} out{f'; {alone}' if program.aggregates else ''}.",
    )


def decide(choice: FlowChoice, program: Program) -> Flow:
    """The flow of a query's join; an error if the query cannot have what was asked for."""
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
    """Whether something after a join depends on the order of its rows."""
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
