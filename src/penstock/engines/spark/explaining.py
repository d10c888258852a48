"""EXPLAIN on Spark: what it says on every engine, the flow, and how a query is distributed."""

from __future__ import annotations

from penstock.blocks.folded_run import foldable
from penstock.engines.spark.distribution import describe
from penstock.engines.spark.flow import decide_on_spark, explain_on_spark
from penstock.program.compile import compile_plan
from penstock.program.explain import explain
from penstock.program.flow_choice import FlowChoice
from penstock.sql.plan import Plan

FOLDS = (
    "folding: tasks that read the log send partial results for each pane and group, unless a query "
    "of another kind reads the stream too"
)


def explain_plan(plan: Plan, kernel: str | None, choice: FlowChoice, cores: int) -> str:
    """The plan, program, kernel, flow and distribution of a query on so many cores."""
    program = compile_plan(plan, kernel)
    flow = explain_on_spark(choice, decide_on_spark(choice, program, cores), program)
    folds = (FOLDS,) if foldable(program) is not None else ()
    return "\n".join((explain(plan, program), flow, *folds, describe(program, cores)))
