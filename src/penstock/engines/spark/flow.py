"""The flows on Spark: SplitJoin only, and the reasons against the others."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import InputError
from penstock.program.choose.flow import Flow, FlowChoice, check_choice, check_joins, decide
from penstock.program.isa.block_instructions import Program

FLOW = "splitjoin"
"""Its cores do not communicate, so they can be tasks of a Spark stage."""

_ONE_MEMORY = "its cores share one memory, and tasks of a Spark stage have none in common"
_MESSAGES = "its cores send each other messages, and tasks of a Spark stage cannot"
WHY_NOT = {
    "three-step": "it has one core, and Spark shares a join among the cores that it has",
    "shared": _ONE_MEMORY,
    "celljoin": _ONE_MEMORY,
    "handshake": _MESSAGES,
    "low-latency-handshake": _MESSAGES,
}


SHARED_BY_ALL = (
    "the cores of the engine, ps.connect('spark', cores=2) (--cores 2), share the groups of an "
    "aggregate by themselves"
)
"""What cores do for an aggregate on Spark."""


def check_on_spark(choice: FlowChoice) -> None:
    """Refuse a choice that is valid for no query on Spark, such as a number of cores."""
    check_choice(choice)
    elsewhere = "run it on the embedded engine: ps.connect('local') (--engine local)."
    if choice.name in WHY_NOT:
        raise InputError(
            f"the flow {choice.name} cannot run on Spark: {WHY_NOT[choice.name]}",
            f"Ask for the flow {FLOW}, or {elsewhere}",
        )
    if choice.branching is not None:
        raise InputError(
            f"a branching of {choice.branching} cannot be had on Spark: Spark itself distributes "
            "the tuples, not a tree of Penstock's",
            f"Leave the branching out, or {elsewhere}",
        )
    if choice.admission == "shed":
        raise InputError(
            "the admission shed cannot be had on Spark: what is pushed is in its log, and the "
            "source of the Spark query waits for the cores",
            f"Ask for the admission wait, or {elsewhere}",
        )


def decide_on_spark(choice: FlowChoice, program: Program, cores: int) -> Flow:
    """Decide the flow of a query on an engine with ``cores`` cores, or refuse it."""
    check_on_spark(choice)
    if choice.cores is not None:
        raise InputError(
            f"a query on Spark cannot have {choice.cores} cores of its own: all queries of an "
            "engine share its tasks",
            f"Give the cores to connect: ps.connect('spark', cores={choice.cores}).",
        )
    check_joins(choice, program, SHARED_BY_ALL)
    name = FLOW if program.joins else None
    return replace(decide(replace(choice, name=name), program), name=FLOW, cores=cores)


def explain_on_spark(choice: FlowChoice, flow: Flow, program: Program) -> str:
    """The lines of EXPLAIN about the flow; the distribution adds the cores."""
    lines = ["flow: none, since there is no join to share"]
    if program.joins:
        why = "asked for" if choice.name is not None else "the one that Spark can run"
        lines = [f"flow {flow.name}: {why}"]
    if flow.order != "none":
        lines.append(f"precision {flow.precision}")
    return "\n".join(lines)
