"""The choice of a flow: how cores share a query's joins, on how many cores, and why."""

from __future__ import annotations

import os

from penstock.errors import InputError
from penstock.program.choose.cascade import cascade_order
from penstock.program.choose.design import DesignChoice, assumed_design
from penstock.program.choose.probe_order import JoinTerms, cross_products
from penstock.program.choose.stash import assumed_plan, check_stash, check_stash_size
from penstock.program.isa.block_instructions import AggregateRows, OrderRows, Program
from penstock.program.isa.flow import (
    ADMISSIONS,
    DESIGN_NAMES,
    DESIGNS,
    EXACT_DESIGNS,
    EXACT_FLOWS,
    FLOWS,
    PROBE_ORDERS,
    Flow,
    FlowChoice,
    search_of,
)
from penstock.sql.plan import Call
from penstock.streams.display import listed
from penstock.streams.schema import is_text
from penstock.streams.windows import Rows, as_written

DEFAULT_BRANCHING = 8
MOST_CORES = 1024
MOST_PRECISION = 1 << 40
"""The largest precision that makes a difference; a larger one is cut to it."""


def check_choice(choice: FlowChoice) -> None:
    """Refuse a choice that is valid for no query."""
    numbers = {
        "cores": choice.cores,
        "branching": choice.branching,
        "precision": choice.precision,
        "stash": choice.stash,
    }
    for name, number in numbers.items():
        if number is not None and type(number) is not int:
            raise InputError(f"{name} is {number!r}", "Write a whole number.")
    if choice.name is not None and choice.name not in FLOWS:
        raise InputError(
            f"unknown flow {choice.name!r}", f"Write one of: {', '.join(EXACT_FLOWS)}."
        )
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
    if choice.branching is not None and choice.name and not FLOWS[choice.name].branches:
        raise InputError(
            f"the flow {choice.name} has no distribution tree to branch",
            "Leave the branching out, or ask for the flow splitjoin.",
        )
    if choice.precision is not None and choice.precision < 1:
        raise InputError(
            f"a precision of {choice.precision} would mean a star every {choice.precision} results",
            "Write 1 or more.",
        )
    if choice.design is not None and choice.design not in DESIGN_NAMES:
        raise InputError(
            f"unknown design {choice.design!r}", f"Write one of: {', '.join(EXACT_DESIGNS)}."
        )
    if choice.probe_order is not None and choice.probe_order not in PROBE_ORDERS:
        raise InputError(f"unknown probe order {choice.probe_order!r}", "Write measured or fixed.")
    check_stash_size(choice.stash)
    if choice.admission is not None and choice.admission not in ADMISSIONS:
        raise InputError(f"unknown admission {choice.admission!r}", "Write wait or shed.")


ALONE = "cores=2 (--cores 2) alone lets two threads divide the batches of an aggregate"
"""What cores do for an aggregate on the embedded engine."""


_FEWER = "joins fewer than three streams"


def check_joins(choice: FlowChoice, program: Program, alone: str = ALONE) -> None:
    """Refuse a flow for a query without a join, and a design for one of two streams.

    A probe order and a stash are parts of a design.

    ``alone``: what cores do for an aggregate.
    """
    if choice.design is not None and choice.design != "auto" and _multiway(program) is None:
        raise InputError(
            f"the design {choice.design} is asked for, and the query {_FEWER}",
            "Leave the design out; cores share a join of two streams by a flow (flow=, --flow).",
        )
    for name, value in (("probe order", choice.probe_order), ("stash", choice.stash)):
        if value is not None and _multiway(program) is None:
            raise InputError(
                f"a {name} is asked for, and the query {_FEWER}",
                f"Leave the {name} out.",
            )
    if program.joins or (choice.name is None and choice.branching is None):
        return
    asked = "flow" if choice.name is not None else "branching"
    what = f"the flow {choice.name}" if asked == "flow" else f"a branching of {choice.branching}"
    raise InputError(
        f"{what} is asked for, and the query has no join that cores could share",
        f"Leave the {asked} out{f'; {alone}' if program.aggregates else ''}.",
    )


def decide(program: Program) -> Flow:
    """Decide the flow of a query; an error if it cannot have the one that is asked for."""
    choice = program.flow
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
    several = _multiway(program)
    spanned = blocks_spanned(program)
    name = choice.name or (SPANNING if spanned else _default(choice, special, several))
    if several and name != "three-step":
        step = _step(program)
        instead = (
            "for a join of three and more streams ask for a design: design='shared' "
            "(--design shared)"
        )
        if step is not None:
            instead = _one_core_runs(step)
        raise InputError(
            f"the flow {name} shares joins of two streams, and the query joins {several}",
            f"Leave the flow out; {instead}.",
        )
    flow = FLOWS[name]
    if kinds and not flow.ordered and program.order != "none":
        raise InputError(
            f"the flow {name} does not offer the order {program.order}: its rows come when two "
            "tuples meet",
            "Ask for the order none, or for the flow splitjoin.",
        )
    if special is not None and not flow.every_kind:
        serving = [other for other, traits in FLOWS.items() if traits.every_kind]
        raise InputError(
            f"the flow {name} does not offer {special} joins: no core of it knows whether a "
            "tuple has found a partner in another",
            f"Ask for one of the flows {listed(serving)}.",
        )
    if not flow.time_windows:
        _check_windows(name, program)
    order = program.order
    if _needs_order(program):
        order = "inner"
        if not flow.ordered:
            raise InputError(
                f"the flow {name} offers no order, and FIRST, LAST, ORDER BY and LIMIT over a join "
                "take its rows in the order of their arrival",
                "Ask for the flow splitjoin.",
            )
    cores = 1 if name == "three-step" else spanned or choice.cores or max(1, _machine_cores())
    design, revises = "mjoin", False
    if several:
        design = design_of(choice, program).design
        revises = DESIGNS[design].revised and _is_open(choice, program)
        cores = _cores_of_design(design, choice, several, _step(program))
        _check_parts(design, choice)
    return Flow(
        name,
        cores,
        choice.branching or DEFAULT_BRANCHING,
        order,
        precision,
        choice.admission or "wait",
        design,
        choice.probe_order or "measured",
        choice.stash,
        revises,
    )


SPANNING = "low-latency-handshake"
"""The flow of a join that spans blocks of a topology."""


def blocks_spanned(program: Program) -> int:
    """How many blocks of a topology a join spans; 0 if it spans none, or is within one."""
    blocks = len(program.flow.blocks or ())
    return blocks if program.joins and blocks > 1 else 0


def _check_windows(flow: str, program: Program) -> None:
    """Refuse a window that is not a number of tuples."""
    for join in program.joins:
        for stream, window in zip(join.streams, join.windows, strict=True):
            if not isinstance(window, Rows):
                raise InputError(
                    f"the flow {flow} has count windows only: full buffers push tuples on, and the "
                    f"window {as_written(window)} of {stream} is not a number of tuples",
                    "Write [ROWS n], or ask for the flow low-latency-handshake.",
                )


def design_of(choice: FlowChoice, program: Program) -> DesignChoice:
    """The design of a join of three and more streams, and why."""
    step = _step(program)
    if choice.design is not None and choice.design != "auto":
        if step is not None and not DESIGNS[choice.design].every_kind:
            serving = [name for name, traits in DESIGNS.items() if traits.every_kind]
            too = ", so leave the cores out too" * ((choice.cores or 1) > 1)
            raise InputError(
                f"the design {choice.design} does not offer {step} joins among three and more "
                "streams",
                f"Ask for the design {listed(serving, 'or')}, or leave it out; "
                f"{_one_core_runs(step)}{too}.",
            )
        return DesignChoice(choice.design, "asked for")
    if step is not None:
        return DesignChoice("mjoin", _one_core_runs(step))
    if choice.branching is not None:
        return DesignChoice(
            "parallel", "a branching is asked for, and it has the tree that branches"
        )
    cores = choice.cores or 1
    if choice.probe_order == "fixed":
        why = "it has the fixed probe order that is asked for"
        return DesignChoice("shared" if cores > 1 else "mjoin", why)
    join = next(join for join in program.joins if len(join.inputs) > 2)
    return assumed_design(JoinTerms(join), cores)


def _is_open(choice: FlowChoice, program: Program) -> bool:
    """Whether another design may take the place of the one that was chosen, while it runs."""
    return (
        choice.design in (None, "auto") and choice.probe_order != "fixed" and _step(program) is None
    )


def _check_parts(design: str, choice: FlowChoice) -> None:
    """Refuse a probe order or a stash that a design does not have."""
    if choice.probe_order is not None and DESIGNS[design].own_order:
        others = [name for name, one in DESIGNS.items() if one.exact and not one.own_order]
        raise InputError(
            f"the probe order {choice.probe_order} is asked for, and the design {design} has an "
            "order of its own",
            f"Leave the probe order out, or ask for the design {listed(others, 'or')}.",
        )
    if choice.stash is not None and search_of(design) != "stashed":
        raise InputError(
            f"a stash of {choice.stash} pairs is asked for, which belongs to the design stashed",
            "Leave the stash out, or ask for the design stashed: design='stashed' "
            "(--design stashed).",
        )


def _cores_of_design(design: str, choice: FlowChoice, streams: int, step: str | None) -> int:
    """The number of cores of a design, or an error if it cannot have those that are asked for."""
    traits = DESIGNS[design]
    if choice.branching is not None and not traits.branches:
        raise InputError(
            f"the design {design} has no distribution tree to branch",
            "Leave the branching out, or ask for the design parallel."
            if step is None
            else f"Leave the branching out; {_one_core_runs(step)}.",
        )
    if step is not None:
        # More of them are a warning, whether or not its only design is asked for.
        return 1
    if search_of(design) == "stashed":
        check_stash(streams, choice.stash, design)
    if traits.cores == "any":
        return choice.cores or max(1, _machine_cores())
    cores, what = 1, "one core"
    if traits.cores == "two":
        cores, what = 2, "two cores, one for each stage"
    elif traits.cores == "each":
        cores, what = streams, f"a core for each of the {streams} streams"
    if choice.design in (None, "auto"):
        # A cascade that was not asked for may give way to the design shared.
        return choice.cores or cores
    if choice.cores not in (None, cores):
        raise InputError(
            f"the design {design} has {what}, and not {choice.cores} cores",
            "Leave the cores out, or ask for the design shared.",
        )
    return cores


def _needs_order(program: Program) -> bool:
    """Whether a block after a join depends on the order of its rows."""
    if not program.joins:
        return False
    if any(isinstance(instruction, OrderRows) for instruction in program.instructions):
        return True
    calls = (call for aggregate in program.aggregates for call in aggregate.calls)
    return any(call.by_arrival for call in calls)


def _multiway(program: Program) -> int | None:
    """The number of streams of a join of three and more; None if there is no such join."""
    return next((len(join.inputs) for join in program.joins if len(join.inputs) > 2), None)


def _step(program: Program) -> str | None:
    """The kind of the first outer, semi or anti join among three and more streams, if any."""
    kinds = (step.kind for join in program.joins for step in join.steps)
    return next((kind for kind in kinds if kind != "inner"), None)


def _one_core_runs(step: str) -> str:
    """Why cores cannot share a tree."""
    return f"one core runs {step} joins among three and more streams"


def _default(choice: FlowChoice, special: str | None, several: int | None) -> str:
    if several:
        return "three-step"
    if choice.branching is not None:
        return "splitjoin"
    if special is not None:
        return "splitjoin" if (choice.cores or 1) > 1 else "three-step"
    return "shared" if (choice.cores or 1) > 1 else "three-step"


def _machine_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def explain_flow(flow: Flow, program: Program) -> str:
    """The lines of EXPLAIN about the flow, the order and the admission of a query."""
    lines = ["flow: none, since there is no join to share"]
    if program.joins:
        cores = "1 core" if flow.cores == 1 else f"{flow.cores} cores"
        if _idle_cores(program) is not None:
            cores += f" ({program.flow.cores} asked for)"
        lines = [f"flow {flow.name} on {cores}: {_why(program.flow, program)}"]
        if _multiway(program):
            lines = [explain_design(flow, program, f" on {cores}")]
        if FLOWS[flow.name].branches:
            lines.append(f"branching {flow.branching}")
        if not FLOWS[flow.name].exact:
            lines.append(f"warning: {_gives_other_rows(flow.name)}")
    if flow.name == "shared" and flow.cores > 1:
        lines += [_threads(aggregate, flow.cores) for aggregate in program.aggregates]
    if flow.order != "none":
        lines.append(f"precision {flow.precision}")
    if flow.admission == "shed":
        lines.append("admission shed: input is dropped while its output is almost full")
    return "\n".join(lines)


def warnings_of(program: Program) -> list[str]:
    """What a user should know of a query that is started."""
    found = [] if _idle_cores(program) is None else [str(_idle_cores(program))]
    design = program.flow.design
    if _multiway(program) and design in DESIGNS and not DESIGNS[design].exact:
        found.append(_loses_rows(design))
    name = program.flow.name
    if name is not None and not FLOWS[name].exact:
        found.append(_gives_other_rows(name))
    return [*found, *cross_products(program)]


def _gives_other_rows(flow: str) -> str:
    """The warning of a flow that is not exact."""
    return (
        f"the flow {flow} gives other rows: two tuples are compared only when full buffers have "
        "pushed them together, and are in the chain longer than in a window that the blocks do not "
        "divide evenly; the flow low-latency-handshake has the rows of the windows"
    )


def _loses_rows(design: str) -> str:
    """The warning of a design that is not exact."""
    return (
        f"the design {design} loses rows: each core has a share of every window, and members in "
        "different cores never meet; the design parallel has them all"
    )


def _idle_cores(program: Program) -> str | None:
    """A warning if several cores are asked for and the query can use one only; else None."""
    choice, step = program.flow, _step(program)
    if (choice.cores or 1) == 1 or (program.joins and step is None):
        return None
    why = ["there is neither a join nor an aggregate to share"]
    if step is not None:
        why = [_one_core_runs(step)]
    elif program.aggregates:
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
    if call.distinct or call.by_arrival:
        return True
    if call.name not in ("min", "max") or call.argument is None:
        return False
    return is_text(call.argument.type)


def explain_design(flow: Flow, program: Program, cores: str = "") -> str:
    """The line of EXPLAIN about the design of a join of three and more streams."""
    choice = program.flow
    design = design_of(choice, program)
    lines = [f"design {flow.design}{cores}: {design.why}"]
    if not DESIGNS[flow.design].exact:
        lines.append(f"warning: {_loses_rows(flow.design)}")
    if flow.revises:
        lines.append("design revised while it runs: samples of arrivals measure the match rates")
    join = next(join for join in program.joins if len(join.inputs) > 2)
    if flow.design == "cascade":
        names = [f"{join.streams[input]} ({input + 1})" for input in cascade_order(JoinTerms(join))]
        lines.append(f"cascade: {names[0]} with {', then with '.join(names[1:])}")
    if search_of(flow.design) == "stashed":
        plan = assumed_plan(JoinTerms(join), join.windows)
        size = stash_size(flow, program)
        pair = f"{join.streams[plan.first]} ({plan.first + 1}) and {join.streams[plan.second]}"
        why = plan.why if choice.stash is None else f"{plan.why}; the number is asked for"
        lines.append(f"stash of {size} pairs of {pair} ({plan.second + 1}): {why}")
        lines.append("stash revised while it runs: samples of arrivals measure the match rates")
    if not DESIGNS[flow.design].own_order and (len(join.inputs) == join.core or join.core > 1):
        lines.append(f"probe orders {_orders(flow, choice)}")
    return "\n".join(lines)


def stash_size(flow: Flow, program: Program) -> int | None:
    """How many pairs the stash of a query has room for; None if it has none."""
    if program.most_joined < 3 or search_of(flow.design) != "stashed" or flow.stash is not None:
        return flow.stash
    join = next(join for join in program.joins if len(join.inputs) > 2)
    return assumed_plan(JoinTerms(join), join.windows).size


def _orders(flow: Flow, choice: FlowChoice) -> str:
    """How a design orders its probes, and why."""
    if flow.probe_order == "fixed":
        return "fixed: asked for; from each stream's place in FROM around"
    why = "asked for" if choice.probe_order else "nothing else is asked for"
    rule = "an equality first, then another condition, then the smallest count window"
    if not DESIGNS[flow.design].measured:
        return f"by the program: {rule}"
    return f"measured: {why}; {rule}, and samples of arrivals revise that"


def _why(choice: FlowChoice, program: Program) -> str:
    if choice.name is not None:
        return "asked for"
    if blocks_spanned(program):
        return "the join spans as many blocks of the topology, which are its cores"
    if choice.branching is not None:
        return "a branching is asked for, and it has the tree that branches"
    if (choice.cores or 1) == 1:
        return "nothing else is asked for, and one core needs no sharing"
    special = next((join.kind for join in program.joins if join.kind != "inner"), None)
    if special is not None:
        return f"{choice.cores} cores are asked for, and it can share {special} joins"
    return f"{choice.cores} cores are asked for, and with it they share one window"
