"""Which cores run a query, and what each of them does of it.

A query that can be shared runs on all cores (*broadcast*: every core takes every tuple, SplitJoin;
of an aggregate every core has its groups). One that cannot runs on one core; different queries on
different ones. Derived streams and whatever reads them run on the first core, where the rows of the
stream are in one order.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.blocks.folded_run import foldable
from penstock.blocks.run import Share
from penstock.engines.shared.pipeline import can_share
from penstock.program.blocks import AggregateRows, OrderRows, Program


@dataclass(frozen=True)
class Placement:
    """What one core does of a query: nothing, all, or its share.

    All cores of a shared query find the same late tuples; ``writes_letters`` is true of one.
    """

    here: bool
    share: Share | None = None
    writes_letters: bool = True


def placement(number: int, program: Program, derived: bool, cores: int, core: int) -> Placement:
    """What a core does of the query with that number. Every core decides alike."""
    if cores == 1:
        return Placement(True)
    if derived or _reads_derived(program):
        return Placement(core == 0)
    if can_share(program):
        return Placement(True, Share(core, cores), core == 0)
    return Placement(core == number % cores)


def describe(program: Program, cores: int) -> str:
    """The line of EXPLAIN."""
    if cores == 1:
        return "distribution: one core"
    if _reads_derived(program):
        return "distribution: one core (it reads a derived stream, whose rows are in one order)"
    aggregates = [i for i in program.instructions if isinstance(i, AggregateRows | OrderRows)]
    if aggregates and can_share(program):
        names = ", ".join(str(key.expression) for key in program.aggregates[0].keys)
        return f"distribution: groups divided among {cores} cores by {names}"
    if aggregates:
        if foldable(program) is not None:
            return "distribution: one core (an aggregate without GROUP BY has one group)"
        what = "an aggregate" if isinstance(aggregates[0], AggregateRows) else "ORDER BY"
        return f"distribution: one core ({what} sees every tuple in its order)"
    if not can_share(program):
        kinds = ", ".join(dict.fromkeys(join.kind for join in program.joins))
        several = f"a union of {kinds} joins" if len(program.joins) > 1 else f"a {kinds} join"
        why = "needs one order" if kinds == "inner" else "must know whom no core has matched"
        return f"distribution: one core ({several} {why})"
    if program.joins:
        return f"distribution: broadcast to {cores} cores, each tuple stored on one (SplitJoin)"
    return f"distribution: each run divided among {cores} cores"


def _reads_derived(program: Program) -> bool:
    return any(scan.stream.derived for scan in program.scans)
