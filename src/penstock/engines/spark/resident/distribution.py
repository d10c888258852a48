"""The distribution of queries: which cores run a query, and the share of each.

A query that can be shared runs on all cores (*broadcast*: every core takes every tuple, SplitJoin
and, of three and more streams, Parallel-MJ; of an aggregate every core has its groups). One that
cannot runs on one core; different queries on different ones. Derived streams and their readers run
on the first core, where the rows of the stream are in one order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.blocks.aggregate.folding import foldable
from penstock.blocks.run import Share
from penstock.engines.spark.flow import (
    SHARING_DESIGN,
    SHARING_DESIGNS,
    decide_on_spark,
    explain_on_spark,
    one_core_design,
    reads_derived,
    shares,
)
from penstock.errors import warn
from penstock.processor.topology.topology import Topology
from penstock.program.choose.explain import ExplanationParts
from penstock.program.choose.flow import decide, explain_flow
from penstock.program.isa.block_instructions import (
    AggregateRows,
    OrderRows,
    OwnRows,
    Program,
)
from penstock.sql.plan import Plan
from penstock.streams.display import counted, listed


@dataclass(frozen=True)
class Placement:
    """The part of one core in a query: nothing, all, or its share.

    All cores of a shared query find the same late tuples, and all that make a derived stream of a
    topology the same rows; ``writes_letters`` is true of one, which counts them.
    """

    here: bool
    share: Share | None = None
    writes_letters: bool = True


def placement(
    number: int,
    program: Program,
    derived: bool,
    cores: int,
    core: int,
    topology: Topology | None = None,
) -> Placement:
    """The part of a core in the query with that number. Every core decides alike."""
    if cores == 1:
        return Placement(True)
    if topology is not None:
        there = cores_of(topology, program.flow.blocks or (), cores)
        return Placement(core in there, None, core == there[0])
    if derived or reads_derived(program):
        return Placement(core == 0)
    if shares(program):
        return Placement(True, Share(core, cores), core == 0)
    return Placement(core == number % cores)


def cores_of(topology: Topology, blocks: Collection[int], cores: int) -> list[int]:
    """The cores of Spark that have blocks of a topology: each branch is in one of them.

    A derived selection is in every branch, and so in every core that may read it.
    """
    return sorted(
        {
            i % cores
            for i, branch in enumerate(topology.branches)
            if any(unit.number in blocks for unit in branch)
        }
    )


def warn_of_idle_cores(topology: Topology, cores: int) -> None:
    """Warn of cores that have no branch of a topology."""
    branches = len(topology.branches)
    there = counted(branches, "branch", "branches")
    warn(
        f"cores={cores}, and the topology {topology.name} has {there}, each in one core; connect "
        f"with cores={branches}, or take a topology of more branches, such as "
        f"fqp:partial:{cores}x{max(1, len(topology.blocks) // cores)}"
    )


def describe(program: Program, cores: int) -> str:
    """The line of EXPLAIN."""
    if cores == 1:
        return "distribution: one core"
    why = why_one_core(program)
    if why is not None:
        return f"distribution: one core ({why})"
    if program.aggregates:
        names = ", ".join(str(key.expression) for key in program.aggregates[0].keys)
        return f"distribution: groups divided among {cores} cores by {names}"
    if program.joins:
        return f"distribution: {broadcast(program, cores)}"
    return f"distribution: each run divided among {cores} cores"


def describe_placed(program: Program, cores: int, topology: Topology) -> str:
    """The line of EXPLAIN for a query on a topology."""
    if cores == 1:
        return "distribution: one core"
    there = list(map(str, cores_of(topology, program.flow.blocks or (), cores)))
    return (
        f"distribution: {'core' if len(there) == 1 else 'cores'} {listed(there)} of {cores}, "
        "numbered from 0; each branch of the topology is in one"
    )


def broadcast(program: Program, cores: int) -> str:
    """How cores share a join of which each takes every tuple."""
    to = f"broadcast to {cores} cores"
    join = program.joins[0]
    if len(join.inputs) == 2:
        if join.kind == "inner":
            return f"{to}, each tuple stored on one (SplitJoin)"
        divided = "right" if join.divided == (1,) else "left"
        return (
            f"{to}, each tuple of the {divided} stream stored and processed on one, those of the "
            "other on all"
        )
    asked = program.flow.design
    return (
        f"{to}, each tuple of one stream stored and processed on one, those of the others on all "
        f"(the design {asked if asked in SHARING_DESIGNS else SHARING_DESIGN})"
    )


def why_one_core(program: Program) -> str | None:
    """Why several cores cannot share a query; None if they can."""
    if reads_derived(program):
        return "it reads a derived stream, whose rows are in one order"
    if shares(program):
        return None
    own = [i.name for i in program.instructions if isinstance(i, OwnRows)]
    if own:
        return f"{own[0]} is a block of your own, which may need the order of all its tuples"
    aggregates = [i for i in program.instructions if isinstance(i, AggregateRows | OrderRows)]
    if aggregates:
        if foldable(program) is not None:
            return "an aggregate without GROUP BY has one group"
        what = "an aggregate" if isinstance(aggregates[0], AggregateRows) else "ORDER BY"
        return f"{what} sees every tuple in its order"
    every = dict.fromkeys(kind for join in program.joins for kind in join.kinds)
    kinds = ", ".join(kind for kind in every if kind != "inner" or len(every) == 1)
    article = "an" if kinds.startswith("anti") else "a"
    several = f"a union of {kinds} joins" if len(program.joins) > 1 else f"{article} {kinds} join"
    if kinds != "inner":
        return f"{several} must know whom no core has matched"
    if not program.can_share:
        return "a union with a join needs one order"
    return f"the design {one_core_design(program)} is one core's"


FOLDS = (
    "folding: tasks that read the log send partial results for each pane and group, unless a query "
    "of another kind reads the stream too"
)


def explain_on_cores(
    plan: Plan | None,
    program: Program,
    cores: int,
    placed: Sequence[str] = (),
    topology: Topology | None = None,
) -> ExplanationParts:
    """EXPLAIN on Spark: the plan, program, kernel, flow and distribution of a query.

    ``placed`` says which blocks of the topology serve it, where there is one.
    """
    flow = decide_on_spark(program, cores)
    if topology is not None:
        # Inside a core of Spark, the blocks of a topology work as they do anywhere.
        inside = decide(program)
        said = (explain_flow(inside, program), describe_placed(program, cores, topology), *placed)
        return ExplanationParts(plan, program, inside, said)
    folds = (FOLDS,) if foldable(program) is not None else ()
    said = (explain_on_spark(flow, program), *folds, describe(program, cores))
    return ExplanationParts(plan, program, flow, said)
