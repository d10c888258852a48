"""The flow of a query: how cores share its joins, as it is asked for and as it is decided.

:mod:`penstock.program.choose.flow` decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

Order = Literal["none", "outer", "inner"]
"""The orders of EMIT ORDER."""
FlowName = Literal[
    "three-step",
    "shared",
    "splitjoin",
    "celljoin",
    "handshake",
    "low-latency-handshake",
    "chain-as-published",
]
"""How cores share a join: the names in :data:`FLOWS`, for type checkers."""
DesignName = Literal[
    "auto",
    "mjoin",
    "cascade",
    "shared",
    "parallel",
    "parallel-circular",
    "parallel-stashed",
    "stashed",
    "circular",
    "linear",
    "parallel-as-published",
]
"""How cores share a join of three and more streams: the names in :data:`DESIGNS`, for type
checkers, and ``auto``, with which the engine decides."""
ProbeOrderName = Literal["measured", "fixed"]
"""How a join of three and more streams orders its probes."""
Admission = Literal["wait", "shed"]
"""What happens to input while a query's output is full."""

ADMISSIONS: tuple[str, ...] = get_args(Admission)
PROBE_ORDERS: tuple[str, ...] = get_args(ProbeOrderName)

_ONE_MEMORY = "its cores share one memory, and tasks of a Spark stage have none in common"
_MESSAGES = "its cores send each other messages, and tasks of a Spark stage cannot"


@dataclass(frozen=True)
class FlowTraits:
    """A flow for joins of two streams.

    Parameters
    ----------
    summary
        How the cores share a join, in one line.
    in_block
        The join block does the work itself, without units: ``flows/make.py`` has no entry for it.
    every_kind
        It serves outer, semi and anti joins too.
    ordered
        It offers an order. Without one, a pair is made when its tuples meet in a core.
    branches
        It has a distribution tree.
    time_windows
        It serves windows of time, and of all tuples, too; without, those of a number of tuples.
    exact
        It has the rows of the windows, and no others.
    not_on_spark
        Why its cores cannot be tasks of a Spark stage; empty if they can.
    """

    summary: str
    in_block: bool = False
    every_kind: bool = False
    ordered: bool = True
    branches: bool = False
    time_windows: bool = True
    exact: bool = True
    not_on_spark: str = ""


FLOWS: dict[str, FlowTraits] = {
    "three-step": FlowTraits(
        "one core scans, inserts and expires",
        in_block=True,
        every_kind=True,
        not_on_spark="it has one core, and Spark shares a join among the cores that it has",
    ),
    "shared": FlowTraits(
        "threads divide each batch and share the windows", in_block=True, not_on_spark=_ONE_MEMORY
    ),
    "splitjoin": FlowTraits(
        "every core sees every tuple and stores a share of them",
        every_kind=True,
        branches=True,
    ),
    "celljoin": FlowTraits(
        "a coordinator divides the windows among cores anew from time to time",
        not_on_spark=_ONE_MEMORY,
    ),
    "handshake": FlowTraits(
        "the streams pass each other along a chain of cores", ordered=False, not_on_spark=_MESSAGES
    ),
    "low-latency-handshake": FlowTraits(
        "as handshake, but each tuple is sent along the chain at once and stored by one core",
        ordered=False,
        not_on_spark=_MESSAGES,
    ),
    "chain-as-published": FlowTraits(
        "a chain of OP-Blocks, in which full buffers push tuples on; gives other rows",
        ordered=False,
        time_windows=False,
        exact=False,
        not_on_spark="it gives other rows, and is there to show this on the embedded engine",
    ),
}
"""Every flow, in the order in which errors list them. ``flows/make.py`` makes their cores."""
EXACT_FLOWS = tuple(name for name, flow in FLOWS.items() if flow.exact)
"""What messages propose: all but the flow that gives other rows."""


@dataclass(frozen=True)
class DesignTraits:
    """A design for joins of three and more streams.

    Parameters
    ----------
    summary
        How the cores share a join, in one line.
    cores
        How many cores it has: ``one``, ``two``, one ``each`` stream, or ``any`` number.
    search
        Where cores work side by side, the design of the search in each; empty for others.
    in_block
        The multiway block does the work itself, without units: ``flows/make.py`` has no entry for
        it.
    every_kind
        It serves outer, semi and anti joins among the streams too.
    own_order
        It has an order of its own; the others probe by those of ``mjoin``.
    measured
        Its probe orders are revised by samples of arrivals.
    revised
        Another one of the revised designs can take its place while the join runs.
    branches
        It has a distribution tree.
    exact
        It has every row.
    not_on_spark
        Why it cannot run on Spark; empty if it can.
    """

    summary: str
    cores: Literal["one", "two", "each", "any"]
    search: str = ""
    in_block: bool = False
    every_kind: bool = False
    own_order: bool = False
    measured: bool = False
    revised: bool = False
    branches: bool = False
    exact: bool = True
    not_on_spark: str = ""


DESIGNS: dict[str, DesignTraits] = {
    "mjoin": DesignTraits(
        "one core probes window after window",
        "one",
        in_block=True,
        every_kind=True,
        measured=True,
        revised=True,
    ),
    "cascade": DesignTraits(
        "one core stores the combinations of the first streams",
        "one",
        own_order=True,
        revised=True,
    ),
    "shared": DesignTraits(
        "threads divide each batch and share the windows",
        "any",
        measured=True,
        revised=True,
        not_on_spark=_ONE_MEMORY,
    ),
    "parallel": DesignTraits(
        "each core stores a part of one window, and all of the other windows",
        "any",
        "mjoin",
        branches=True,
    ),
    "parallel-circular": DesignTraits(
        "as parallel, and each core is a ring with a stage for each stream",
        "any",
        "circular",
        own_order=True,
        branches=True,
    ),
    "parallel-stashed": DesignTraits(
        "as parallel, and each core has two stages with a stash of pairs between them",
        "any",
        "stashed",
        own_order=True,
        branches=True,
    ),
    "stashed": DesignTraits(
        "two cores in a row, with a stash of pairs between them", "two", own_order=True
    ),
    "circular": DesignTraits("a ring of cores, one for each stream", "each", own_order=True),
    "linear": DesignTraits("a chain of cores, one for each stream", "each"),
    "parallel-as-published": DesignTraits(
        "each core stores a part of every window; loses rows",
        "any",
        "mjoin",
        branches=True,
        exact=False,
        not_on_spark="it loses rows, and is there to show this on the embedded engine",
    ),
}
"""Every design, in the order in which errors list them. ``flows/make.py`` makes their cores."""


def search_of(design: str) -> str:
    """The design of the search in a core: where cores work side by side, that in each of them.

    >>> search_of("parallel-stashed"), search_of("circular")
    ('stashed', 'circular')
    """
    return DESIGNS[design].search or design


DESIGN_NAMES = ("auto", *DESIGNS)
"""What can be asked for."""
EXACT_DESIGNS = ("auto", *(name for name, design in DESIGNS.items() if design.exact))
"""What messages propose: all but the design that loses rows."""


@dataclass(frozen=True)
class FlowChoice:
    """How cores are to share a query, as far as it was asked for; None where the engine decides.

    ``design`` is for joins of three and more streams; a flow, ``name``, for those of two.
    ``precision`` is that of the order. ``admission`` is what happens to input when a buffer is
    almost full: ``wait`` until there is room, or ``shed`` it. ``probe_order`` and ``stash``, the
    number of pairs that a stash has room for, belong to a design. ``blocks`` are the numbers of the
    blocks that serve it, where the engine has a topology.
    """

    name: str | None = None
    cores: int | None = None
    branching: int | None = None
    precision: int | None = None
    admission: str | None = None
    design: str | None = None
    probe_order: str | None = None
    stash: int | None = None
    blocks: tuple[int, ...] | None = None

    def over(self, other: FlowChoice) -> FlowChoice:
        """This choice, with what the other one asks for where this one leaves it open."""
        asked = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **asked)


ANY_FLOW = FlowChoice()


@dataclass(frozen=True)
class Flow:
    """The flow of a query, decided and checked.

    ``revises``: a join on one core may go on with another design when it knows its match rates.
    """

    name: str
    cores: int
    branching: int
    order: str
    precision: int
    admission: str
    design: str = "mjoin"
    probe_order: str = "measured"
    stash: int | None = None
    revises: bool = False
