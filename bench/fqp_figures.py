"""The figures of the benchmark ``fqp``. A figure without numbers is not drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench import published
from bench.flow_figures import joined, lines
from bench.plot import Axis, Mark, Plot, Point, Series

Entries = list[dict[str, Any]]
IN = "arrivals of both streams per second of the processor"
TEXT = "published: an FPGA at 125 MHz, Najafi 2019"


def figures(results: dict[str, Any], cpu: str) -> Iterator[tuple[str, Plot]]:
    """Every figure that has numbers, by the name of its file."""
    draw: dict[str, Callable[[Entries, str], Plot]] = {
        "by_window": by_window,
        "by_match_probability": by_match_probability,
        "by_tuple_size": by_tuple_size,
    }
    for name, drawn in draw.items():
        if results.get(name):
            yield f"fqp-{name.removeprefix('by_').replace('_', '-')}.svg", drawn(results[name], cpu)


def by_window(entries: Entries, cpu: str) -> Plot:
    """Fig. 4.5.2."""
    points = [Point(e["window"], e["by_processor_time"]) for e in entries]
    number = published.OP_CHAIN
    theirs = [Point(window, number.value) for window in (8, 16)]
    series = [Series("OP-Chain of 16", points), Series("published", theirs)]
    title = "Equi-join on an OP-Chain of 16 blocks by their windows (Fig. 4.5.2)"
    x = Axis("window of a block, tuples of each stream", log=2)
    return Plot(title, x, Axis(IN, log=10), series, joined(cpu, f"{TEXT} §4.5.3"))


def by_match_probability(entries: Entries, cpu: str) -> Plot:
    """Fig. 4.5.7."""

    def percent(entry: dict[str, Any]) -> float:
        return round(100 * float(entry["match_probability"]), 7)

    named = (
        point
        for e in entries
        for point in (
            (f"in, {e['window']} tuples", Point(percent(e), e["by_processor_time"])),
            (
                f"out, {e['window']} tuples",
                Point(percent(e), e["by_processor_time"] * e["rows_per_tuple"]),
            ),
        )
    )
    number = published.OP_CHAIN
    probabilities = sorted({percent(e) for e in entries})
    theirs = Series("in, published", [Point(x, number.value) for x in probabilities if x <= 5])
    marks = [Mark(100 * published.OP_CHAIN_SATURATED.value, "output full, published")]
    title = "Input and output of an OP-Chain of 16 by match probability (Fig. 4.5.7)"
    return Plot(
        title,
        Axis("match probability, %", log=10),
        Axis("arrivals, and rows, per second of the processor", log=10),
        [*lines(named), theirs],
        joined(cpu, f"{TEXT} §4.5.3"),
        marks,
    )


def by_tuple_size(entries: Entries, cpu: str) -> Plot:
    """Fig. 4.5.9."""
    tuples = [Point(e["pairs"], e["by_processor_time"]) for e in entries]
    pairs = [Point(e["pairs"], e["by_processor_time"] * e["pairs"]) for e in entries]
    theirs = [Point(1, published.OP_BLOCK["selection"].value)]
    series = [
        Series("tuples", tuples),
        Series("pairs", pairs),
        Series("tuples, published", theirs),
    ]
    title = "A selection in segments by the size of tuples (Fig. 4.5.9)"
    x = Axis("attribute-value pairs of a tuple, one to a segment", log=2)
    y = Axis("per second of the processor", log=10)
    return Plot(title, x, y, series, joined(cpu, f"{TEXT} §4.5.7"))
