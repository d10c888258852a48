"""EXPLAIN: which flow a query has, and why."""

from __future__ import annotations

from penstock.program.blocks import Program
from penstock.program.flow_choice import Flow, FlowChoice


def explain_flow(choice: FlowChoice, flow: Flow, program: Program) -> str:
    """The lines that say how cores share the query's joins, and what happens to its input."""
    lines = ["flow: none, since there is no join to share"]
    if program.joins:
        cores = "1 core" if flow.cores == 1 else f"{flow.cores} cores"
        lines = [f"flow {flow.name} on {cores}: {_why(choice, program)}"]
        if flow.name == "splitjoin":
            lines.append(f"branching {flow.branching}")
    if flow.order != "none":
        lines.append(f"precision {flow.precision}")
    if flow.admission == "shed":
        lines.append("admission shed: input is dropped while its output is almost full")
    return "\n".join(lines)


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
