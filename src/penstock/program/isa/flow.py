"""The flow of a query: how cores share its joins, as it is asked for and as it is decided.

:mod:`penstock.program.choose.flow` decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

Order = Literal["none", "outer", "inner"]
"""The orders of EMIT ORDER."""
Kernel = Literal["nested-loop", "hash", "band", "sorted", "panes", "wid"]
"""The kernels of joins and of aggregates."""
FlowName = Literal[
    "three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake"
]
"""How cores share a join."""
DesignName = Literal[
    "auto",
    "mjoin",
    "cascade",
    "shared",
    "parallel",
    "stashed",
    "circular",
    "linear",
    "parallel-as-published",
]
"""How cores share a join of three and more streams; ``auto``: the engine decides."""
ProbeOrderName = Literal["measured", "fixed"]
"""How a join of three and more streams orders its probes."""
Admission = Literal["wait", "shed"]
"""What happens to input while a query's output is full."""

FLOWS: tuple[str, ...] = get_args(FlowName)
"""Every flow of the embedded engine, in the order in which errors list them."""
EVERY_KIND = ("three-step", "splitjoin")
"""The flows for outer, semi and anti joins too."""
UNORDERED = ("handshake", "low-latency-handshake")
"""The flows without an order: a pair is made when its tuples meet in a core."""
DESIGNS: tuple[str, ...] = get_args(DesignName)
"""Every design, in the order in which errors list them."""
OWN_ORDER = ("cascade", "stashed", "circular")
"""The designs with an order of their own; the others probe by those of ``mjoin``."""
ADMISSIONS: tuple[str, ...] = get_args(Admission)
PROBE_ORDERS: tuple[str, ...] = get_args(ProbeOrderName)


@dataclass(frozen=True)
class FlowChoice:
    """How cores are to share a query, as far as it was asked for; None where the engine decides.

    ``design`` is for joins of three and more streams; a flow, ``name``, for those of two.
    ``precision`` is that of the order. ``admission`` is what happens to input when a buffer is
    almost full: ``wait`` until there is room, or ``shed`` it. ``probe_order`` and ``stash``, the
    number of pairs that a stash has room for, belong to a design.
    """

    name: str | None = None
    cores: int | None = None
    branching: int | None = None
    precision: int | None = None
    admission: str | None = None
    design: str | None = None
    probe_order: str | None = None
    stash: int | None = None

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
