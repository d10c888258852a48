"""A topology: units, the wires between their ports, where streams enter, and where results leave.

A topology is data, and checked when it is made (:mod:`penstock.processor.topology.check`). What is
true of every topology of OP-Blocks, and what users of one may rely on:

- every port is exactly one of these: an end of one wire, an entry, an end, or the exit;
- its blocks form *branches*, chains in which R leads from left to right and S, with the
  instructions, from right to left; R enters a branch at its leftmost block and S at its rightmost;
- what any block gives by ``final`` arrives at the exit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from penstock.errors import TopologyError
from penstock.processor.topology.check import problems_of
from penstock.processor.topology.kinds import OP_BLOCK
from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.program.isa.words.layout import WordLayout
from penstock.streams.display import counted, one_line


@dataclass(frozen=True, repr=False)
class Topology:
    """The units of a processor and their wiring.

    Parameters
    ----------
    name
        What to call it.
    units
        All of them.
    wires
        From outputs to inputs.
    entries
        The inputs at which streams enter. A stream that several branches read enters each of them.
    ends
        The outputs at which streams leave; what comes there has passed all blocks of its branch.
    exit
        The output at which all results leave.
    widths
        The bits of ports and of the fields of words.
    segments
        Whether tuples wider than a port go in segments (Najafi 2019 §4.3), and selections work on a
        segment at a time; without, a tuple goes as a whole, however wide it is.

    Raises :class:`penstock.errors.TopologyError` if it does not fit together.
    """

    name: str
    units: tuple[Unit, ...]
    wires: tuple[Wire, ...]
    entries: tuple[UnitPort, ...]
    ends: tuple[UnitPort, ...]
    exit: UnitPort
    widths: WordLayout = field(default_factory=WordLayout)
    segments: bool = False

    def __post_init__(self) -> None:
        problems = problems_of(self)
        if problems:
            raise TopologyError.of(f"topology {self.name!r}", problems)

    def __repr__(self) -> str:
        blocks = counted(len(self.blocks), "block")
        branches = counted(len(self.branches), "branch", "branches")
        return f"<Topology {one_line(self.name)!r}: {blocks} in {branches}>"

    @classmethod
    def from_toml(cls, text: str, source: str = "the topology") -> Topology:
        """The topology that a text describes; errors call the text ``source``."""
        from penstock.processor.topology.toml_file import read_toml

        return read_toml(text, source)

    def to_toml(self) -> str:
        """The topology as TOML, which :meth:`from_toml` reads."""
        from penstock.processor.topology.toml_file import write_toml

        return write_toml(self)

    def draw(self, width: int = 100) -> str:
        """The topology as a drawing of text, in lines of up to ``width`` characters."""
        from penstock.processor.topology.text_drawing import draw_text

        return draw_text(self, width)

    def to_svg(self) -> str:
        """The topology as the text of an SVG file."""
        from penstock.processor.topology.svg_drawing import draw_svg

        return draw_svg(self)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.to_svg()

    @cached_property
    def wired(self) -> Mapping[UnitPort, UnitPort]:
        """The input that each wired output leads to."""
        return MappingProxyType(dict(self.wires))

    @cached_property
    def blocks(self) -> Mapping[int, Unit]:
        """The OP-Blocks by number, in this order."""
        found = {unit.number: unit for unit in self.units if unit.kind == OP_BLOCK}
        return MappingProxyType(dict(sorted(found.items())))

    @cached_property
    def branches(self) -> tuple[tuple[Unit, ...], ...]:
        """The branches, each with its blocks from left to right, in the order of the entries."""
        return tuple(tuple(self._rightwards(unit)) for unit, port in self.entries if port == "r")

    def _rightwards(self, name: str) -> Iterable[Unit]:
        named = {unit.name: unit for unit in self.blocks.values()}
        while True:
            yield named[name]
            target = self.wired.get(UnitPort(name, "r-out"))
            if target is None:
                return
            name = target.unit


def widths_of(topology: Topology, unit: Unit) -> WordLayout:
    """The widths at a unit, whose ports may have their own."""
    return replace(topology.widths, port=unit.width) if unit.width else topology.widths
