"""The figures of the benchmark ``aggregates``. A figure without numbers is not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import published
from bench.flow_figures import RUNS, Entries, joined, lines, point
from bench.plot import Axis, Plot, Point, Series
from bench.published import Published

MODULES = Axis("windows that a tuple may be in, or window-aggregation modules")


def figures(aggregates: dict[str, Any], cpu: str) -> Iterator[tuple[str, Plot]]:
    """Every figure that has numbers, by the name of its file."""
    if aggregates.get("wid_against_panes"):
        yield "aggregates-windows.svg", windows(aggregates["wid_against_panes"], cpu)
    if aggregates.get("memory"):
        yield "aggregates-memory.svg", memory(aggregates["memory"])


def windows(entries: Entries, cpu: str) -> Plot:
    """Table II of Oge et al. 2013 as tuples per second, with both kernels and the circuit."""
    ours = lines(((e["kernel"], point(e, e["modules"])) for e in entries), ("panes", "wid"))
    modules = sorted({entry["modules"] for entry in entries})
    circuits = (published.WID_CIRCUIT, published.WID_NETWORK)
    series = [*ours, *(across(number, modules) for number in circuits)]
    title = "Query Q3 as its windows grow"
    y = Axis("tuples per second", log=10)
    subtitle = joined(cpu, f"{RUNS}; published: Oge et al. 2013 §VI")
    return Plot(title, MODULES, y, series, subtitle)


def across(number: Published, modules: list[int]) -> Series:
    """A number that was published for every size of the circuit."""
    return Series(f"{number.what}, published", [Point(x, number.value) for x in modules])


def memory(found: dict[str, Any]) -> Plot:
    """The resident memory over the stream."""
    points = [Point(sample["tuples"], sample["bytes"] / 2**20) for sample in found["samples"]]
    title = "Memory of four window aggregates"
    x, y = Axis("tuples so far"), Axis("resident memory of the process, MiB")
    return Plot(title, x, y, [Series("resident", points)])
