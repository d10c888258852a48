"""The flows and designs that share a join among Spark's cores, and the reasons against the others.

SplitJoin shares joins of two streams, ``parallel`` those of three and more.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import InputError
from penstock.program.choose.flow import check_choice, check_joins, decide, explain_design
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import DESIGNS, FLOWS, Flow, FlowChoice, search_of
from penstock.streams.display import listed

[FLOW] = [name for name, flow in FLOWS.items() if not flow.not_on_spark]
"""Its cores do not communicate, so they can be tasks of a Spark stage."""
_DESIGNS_HERE = [name for name, design in DESIGNS.items() if not design.not_on_spark]
SHARING_DESIGNS = [name for name in _DESIGNS_HERE if DESIGNS[name].search]
"""The designs whose cores do not communicate; the others run inside one core."""
SHARING_DESIGN = SHARING_DESIGNS[0]
"""The one that is used unless another is asked for."""


SHARED_BY_ALL = (
    "the cores of the engine, ps.connect('spark', cores=2) (--cores 2), share the groups of an "
    "aggregate by themselves"
)
"""What cores do for an aggregate on Spark."""


ELSEWHERE = "run it on the embedded engine: ps.connect('local') (--engine local)."


def check_on_spark(choice: FlowChoice) -> None:
    """Refuse a choice that is valid for no query on Spark; the cores are those of the engine."""
    check_choice(choice)
    flow = FLOWS[choice.name or FLOW]
    if flow.not_on_spark:
        raise InputError(
            f"the flow {choice.name} cannot run on Spark: {flow.not_on_spark}",
            f"Leave the flow out: it is {FLOW} for joins of two streams; or {ELSEWHERE}",
        )
    design = DESIGNS.get(choice.design or "auto")
    if design is not None and design.not_on_spark:
        others = listed(sorted(_DESIGNS_HERE, key=lambda name: name not in SHARING_DESIGNS), "or")
        raise InputError(
            f"the design {choice.design} cannot run on Spark: {design.not_on_spark}",
            f"Ask for the design {others}, or {ELSEWHERE}",
        )
    if choice.branching is not None:
        raise InputError(
            f"a branching of {choice.branching} cannot be had on Spark: Spark itself distributes "
            "the tuples, not a tree of Penstock's",
            f"Leave the branching out, or {ELSEWHERE}",
        )
    if choice.admission == "shed":
        raise InputError(
            "the admission shed cannot be had on Spark: what is pushed is in its log, and the "
            "source of the Spark query waits for the cores",
            f"Ask for the admission wait, or {ELSEWHERE}",
        )


def _check_query(choice: FlowChoice) -> None:
    """Refuse a choice for a query that no query on Spark can have."""
    check_on_spark(choice)
    if choice.cores is not None:
        raise InputError(
            f"a query on Spark cannot have {choice.cores} cores of its own: all queries of an "
            "engine share its tasks",
            f"Give the cores to connect: ps.connect('spark', cores={choice.cores}).",
        )


def check_carried(query: Program | str, asked: FlowChoice) -> None:
    """Refuse a program that carries a flow Spark cannot have, where no option overrides it."""
    if not isinstance(query, Program):
        return
    overridden = {name: None for name, value in vars(asked).items() if value is not None}
    try:
        _check_query(replace(query.flow, **overridden))
    except InputError as error:
        raise InputError(
            error.what,
            "The program carries this: give program.placed(), the same query without it, or "
            f"{ELSEWHERE}",
        ) from None


def check_joins_on_spark(choice: FlowChoice, program: Program) -> None:
    """Refuse a flow for a query without a join of two streams that cores could share."""
    check_joins(choice, program, SHARED_BY_ALL)
    most = program.most_joined
    if choice.name is not None and most > 2:
        raise InputError(
            f"the flow {choice.name} shares joins of two streams, and the query joins {most}",
            "Leave the flow out: on Spark, the design parallel shares a join of three and more "
            "streams.",
        )


def decide_on_spark(program: Program, cores: int) -> Flow:
    """Decide the flow of a query on an engine with ``cores`` cores, or refuse it."""
    choice = program.flow
    _check_query(choice)
    check_joins_on_spark(choice, program)
    design = choice.design
    if program.most_joined > 2 and design in (None, "auto") and cores > 1 and shares(program):
        design = SHARING_DESIGN
    asked = replace(choice, name=flow_of(program), design=design)
    return replace(decide(program.placed(asked)), name=FLOW, cores=cores)


def shares(program: Program) -> bool:
    """Whether the cores of an engine share a query.

    What a query asks for never changes, nor does the kind of its joins: the answer is the same
    after a change and a restart.
    """
    asks_for_one = one_core_design(program) is not None
    return program.can_share and not reads_derived(program) and not asks_for_one


def reads_derived(program: Program) -> bool:
    """Whether a query reads a derived stream, whose rows are in one order in one core."""
    return any(scan.stream.derived for scan in program.scans)


def one_core_design(program: Program) -> str | None:
    """The design that is asked for, if it is that of one core; else None."""
    asked = program.flow.design
    return None if asked in (None, "auto", *SHARING_DESIGNS) else asked


def inside_core(flow: Flow) -> Flow:
    """The flow of blocks in one core: the tasks are the flow, and a share defines a core's part.

    Of a design whose cores work side by side, a core has the search; without a share, of all.
    """
    return replace(flow, name="three-step", cores=1, design=search_of(flow.design))


def flow_of(program: Program) -> str | None:
    """The flow that shares the joins of a query; None: it has none, or a design shares them."""
    return FLOW if program.most_joined == 2 else None


def design_on_spark(flow: Flow, program: Program) -> list[str]:
    """The lines of EXPLAIN about the design of a join of three and more streams."""
    if flow.design == SHARING_DESIGN and program.flow.design in (None, "auto"):
        return [f"design {flow.design}: the one with which Spark's cores share it"]
    lines = [explain_design(flow, program)]
    if search_of(flow.design) == "stashed":
        lines.append("state: the windows; the stash is made anew after a restart")
    return lines


def explain_on_spark(flow: Flow, program: Program) -> str:
    """The lines of EXPLAIN about the flow; the distribution adds the cores."""
    lines = ["flow: none, since there is no join to share"]
    if program.most_joined > 2:
        lines = ["flow: none, since a join of three and more streams has a design"]
        lines += design_on_spark(flow, program)
    elif program.joins:
        why = "asked for" if program.flow.name is not None else "the one that Spark can run"
        lines = [f"flow {flow.name}: {why}"]
    if flow.order != "none":
        lines.append(f"precision {flow.precision}")
    return "\n".join(lines)
