"""A query whose blocks are in the cores: its program, and what the cores last said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.program.blocks import Program
from penstock.program.flow_choice import Flow


def join_cores(by_core: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of a query's cores, from what each of them says of itself."""
    return [
        {**figures, "core": core}
        for core, measures in sorted(by_core.items())
        for figures in measures.get("cores", [])
    ]


def _each(
    total: Callable[[Sequence[int]], int], said: Sequence[Mapping[str, Any]], name: str
) -> list[int]:
    """A figure of each aggregate of a query, over what its cores say."""
    return [total(figures) for figures in zip(*(one[name] for one in said), strict=True)]


class Placed:
    """What the driver knows of a query's blocks."""

    def __init__(self, number: int, program: Program, flow: Flow) -> None:
        self.number = number
        self.program = program
        self.flow = flow
        self._by_core: dict[int, dict[str, Any]] = {}

    def told(self, core: int, measures: dict[str, Any]) -> None:
        """A core's measures, which replace what it said before."""
        self._by_core[core] = measures

    def measures(self) -> dict[str, Any]:
        """The measures of all cores together."""
        said = list(self._by_core.values())
        if not said:
            return {"tuples_in": {}, "rows_out": 0}
        first = said[0]
        summed = ("expression_failures", "comparisons", "matches", "window_bytes")
        aggregates = [one for one in ("panes", "modules", "windows_open") if one in first]
        return {
            "tuples_in": dict(first["tuples_in"]),
            "rows_out": sum(one["counts"]["rows_out"] for one in said),
            "late": first["counts"]["late"],
            "dead_letters": first["counts"]["dead"],
            **{name: sum(one.get(name, 0) for one in said) for name in summed},
            "kernels": first.get("kernels", []),
            "window_tuples": first.get("window_tuples", []),
            **({"groups": _each(sum, said, "groups")} if "groups" in first else {}),
            **{name: _each(max, said, name) for name in aggregates},
            "cores": join_cores(self._by_core),
        }

    def clear(self) -> None:
        """The cores let the blocks go by themselves, at the position of the drop."""
