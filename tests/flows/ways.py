"""The ways in which cores can share a join, as the tests of all flows go through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.program.isa.flow import FLOWS, FlowChoice

ORDERS = ("none", "outer", "inner")


@dataclass(frozen=True)
class Way:
    """A flow and what it is asked for."""

    flow: str
    cores: int
    branching: int | None = None

    def __str__(self) -> str:
        return f"{self.flow}-{self.cores}"

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders that the flow offers."""
        return ORDERS if FLOWS[self.flow].ordered else ("none",)

    @property
    def every_kind(self) -> bool:
        """Whether it is for outer, semi and anti joins too."""
        return FLOWS[self.flow].every_kind

    def choice(self, precision: int | None = None) -> FlowChoice:
        return FlowChoice(self.flow, self.cores, self.branching, precision)

    def options(self, **more: Any) -> dict[str, Any]:
        """The same as keywords of ``install``."""
        return {"flow": self.flow, "cores": self.cores, "branching": self.branching, **more}


WAYS = [
    *(Way("splitjoin", cores, 2) for cores in (1, 2, 3)),
    *(Way("celljoin", cores) for cores in (1, 2, 3)),
    Way("three-step", 1),
    *(Way(flow, 3) for flow in ("shared", "handshake", "low-latency-handshake")),
]
"""Every flow. Three cores and two outputs a node make a distribution tree of two levels."""
ORDERED = [way for way in WAYS if len(way.orders) > 1]
