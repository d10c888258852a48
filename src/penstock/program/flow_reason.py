"""EXPLAIN: which flow a query has, and why; what its cores do for aggregates."""

from __future__ import annotations

from penstock.program.blocks import AggregateRows, Program
from penstock.program.flow_choice import Flow, FlowChoice
from penstock.sql.plan import Call
from penstock.streams.schema import is_text


def explain_flow(choice: FlowChoice, flow: Flow, program: Program) -> str:
    """The lines that say how cores share the query's joins, and what happens to its input."""
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


def _threads(aggregate: AggregateRows, cores: int) -> str:
    """How the cores share an aggregate, or why they do not."""
    if aggregate.kernel == "wid":
        return "cores: one thread aggregates, since the kernel wid has its modules look in turn"
    calls = ", ".join(str(call) for call in aggregate.calls if _takes_one_thread(call))
    if calls:
        return f"cores: one thread aggregates, since threads cannot share {calls}"
    return (
        f"cores: {cores} threads divide each batch of the aggregate that has many tuples for a "
        "group and pane"
    )


def _takes_one_thread(call: Call) -> bool:
    """Whether it depends on the order of tuples, or numbers the values that it has met."""
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
