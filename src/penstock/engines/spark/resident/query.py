"""A query whose blocks are in the cores: its program, and the last measures of the cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.blocks.join.latency import Latency, latencies
from penstock.engines.shared.pipeline import Tally
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import Flow


def join_cores(by_core: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of a query's cores, from the measures of each.

    A design with several cores runs inside one of Spark's: these have its numbers.
    """
    found = []
    for core, measures in sorted(by_core.items()):
        inside = measures.get("cores", [])
        several = any(figures["core"] for figures in inside)
        found += [figures if several else {**figures, "core": core} for figures in inside]
    return found


def _each(
    total: Callable[[Sequence[int]], int], said: Sequence[Mapping[str, Any]], name: str
) -> list[int]:
    """A figure of each aggregate of a query, over the measures of its cores."""
    return [total(figures) for figures in zip(*(one[name] for one in said), strict=True)]


def _windows(said: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    """A figure of each window of a query: of one that cores divide, that of all together."""
    every = [one.get(name, []) for one in said]
    divided = said[0].get("divided_windows", [False] * len(every[0]))
    return [
        sum(figures) if together else figures[0]
        for together, figures in zip(divided, zip(*every, strict=True), strict=True)
    ]


def _p99(latency: Latency) -> float:
    return latency.processing.percentile(0.99) or 0.0


class RemoteBlocks:
    """The blocks of a query in the cores, as the driver knows them."""

    def __init__(self, number: int, program: Program, flow: Flow) -> None:
        self.number = number
        self.program = program
        self.flow = flow
        self._by_core: dict[int, dict[str, Any]] = {}
        self._latency: dict[int, Latency] = {}

    def report(self, core: int, measures: dict[str, Any]) -> None:
        """Take a core's measures, which replace its earlier ones; latencies are added."""
        self._by_core[core] = measures
        known = self._latency.setdefault(core, Latency())
        for processing, visiting in measures.get("latency", []):
            known.processing.add_counts(processing)
            known.visiting.add_counts(visiting)

    def _latencies(self) -> dict[str, Any]:
        """Of all cores: a pair is found by one of them, a tuple is done when the slowest is."""
        cores = list(self._latency.values())
        slowest = max(cores, key=_p99, default=Latency())
        together = latencies(cores)
        return {**together, "processing": slowest.processing.summary()}

    def tally(self) -> list[Tally]:
        """Not available on Spark, where each core counts its part."""
        return []

    def measures(self) -> dict[str, Any]:
        """The measures of all cores together."""
        said = list(self._by_core.values()) or [self._nothing_yet()]
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
            "window_tuples": _windows(said, "window_tuples"),
            "expired_tuples": _windows(said, "expired_tuples"),
            **({"groups": _each(sum, said, "groups")} if "groups" in first else {}),
            **{name: _each(max, said, name) for name in aggregates},
            **{name: first[name] for name in ("probe_orders", "designs") if name in first},
            "cores": join_cores(self._by_core),
            "latency": self._latencies() if self.program.joins else {},
        }

    def _nothing_yet(self) -> dict[str, Any]:
        """The measures of a core before the first tuple."""
        windows = sum(len(join.inputs) for join in self.program.joins)
        aggregates = len(self.program.aggregates)
        return {
            "tuples_in": {},
            "counts": {"rows_out": 0, "late": 0, "dead": 0},
            "window_tuples": [0] * windows,
            "expired_tuples": [0] * windows,
            **{name: [0] * aggregates for name in ("groups", "panes", "modules", "windows_open")},
        }

    def reported_counts(self) -> dict[str, Any]:
        """The last counts of the cores."""
        return self.measures()

    def clear(self) -> None:
        """Nothing to do: the cores release the blocks at the position of the drop."""
