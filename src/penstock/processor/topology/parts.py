"""The parts of a topology: units, their ports, and wires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.processor.topology.kinds import KINDS, UnitKind


class UnitPort(NamedTuple):
    """A port of a unit, written ``block-1.r-out``."""

    unit: str
    port: str

    def __str__(self) -> str:
        return f"{self.unit}.{self.port}"


class Wire(NamedTuple):
    """A wire from an output to an input, written ``block-1.r-out -> block-2.r``."""

    source: UnitPort
    target: UnitPort

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Unit:
    """A unit of a topology.

    Parameters
    ----------
    name
        Its name, by which wires know it.
    kind
        One of :data:`penstock.processor.topology.kinds.KINDS`.
    number
        The number by which instructions name it, from 1; 0: its kind has none.
    window
        How many tuples of each stream its windows have room for; 0: its kind has none.
    width
        The bits of its ports; 0: as many as the topology's.
    """

    name: str
    kind: str
    number: int = 0
    window: int = 0
    width: int = 0

    @property
    def traits(self) -> UnitKind:
        """Its kind: the ports, and what they carry."""
        return KINDS[self.kind]
