"""The figures of the benchmark ``flows``. A figure without numbers is not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import published
from bench.plot import Axis, Plot, Point, Series
from bench.published import Published

Entries = list[dict[str, Any]]
# In this order, so that a flow has the same colour in every figure that has all of them.
FLOWS = ("shared", "splitjoin", "handshake", "low-latency-handshake", "celljoin", "three-step")
WINDOW = Axis("window of each stream, tuples", log=2)
CORES = Axis("join cores")
ARRIVALS = "arrivals of both streams per second"
RUNS = "median of the runs; bars: the slowest and the fastest"


def figures(flows: dict[str, Any], cpu: str) -> Iterator[tuple[str, Plot]]:
    """Every figure that has numbers, by the name of its file."""
    draw = {
        "best_flow": best_flow,
        "handshake_scaling": handshake_scaling,
        "time_windows": time_windows,
        "time_window_latency": time_window_latency,
        "count_windows": count_windows,
        "selectivity": selectivity,
        "precision": precision,
        "hops": hops,
    }
    for name, drawn in draw.items():
        if flows.get(name):
            yield from drawn(flows[name], cpu)


def point(entry: dict[str, Any], x: float) -> Point:
    """A rate at ``x``: the median, from slowest to fastest."""
    found = entry["tuples_per_second"]
    return Point(x, found["median"], found["slowest"], found["fastest"])


def lines(named: Iterator[tuple[str, Point]], order: tuple[str, ...] = ()) -> list[Series]:
    """Points by the name of their series; the series in ``order`` come first."""
    found: dict[str, list[Point]] = {name: [] for name in order}
    for name, at in named:
        found.setdefault(name, []).append(at)
    return [Series(name, sorted(points, key=lambda p: p.x)) for name, points in found.items()]


def theirs(number: Published) -> Series:
    """A published number, as a point of its own."""
    return Series(f"{number.what}, published", [Point(number.cores, number.value)])


def best_flow(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Every flow with the band kernel."""
    series = lines(((e["flow"], point(e, e["window"])) for e in entries), FLOWS)
    title = "The papers' band join in every flow, 2 cores, kernel band"
    y = Axis(ARRIVALS, log=10)
    yield "flows-band.svg", Plot(title, WINDOW, y, series, joined(cpu, RUNS))


def handshake_scaling(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Teubner & Mueller 2011, Fig. 16."""
    named = (
        (f"{minutes} min windows", Point(e["cores"], rate))
        for e in entries
        for minutes, rate in e["per_stream"].items()
    )
    numbers = (
        published.HANDSHAKE_PER_STREAM,
        published.CELLJOIN_PER_STREAM,
        published.CELLJOIN_TUNED_PER_STREAM,
    )
    series = [*lines(named), *map(theirs, numbers)]
    y = Axis("tuples per second of each stream, lengths as squares", square=True)
    title = "Handshake join: sustained rate and cores"
    subtitle = joined(cpu, "nested loop; published: 15 min, Teubner & Mueller 2011 §5.4")
    yield "flows-scaling.svg", Plot(title, CORES, y, series, subtitle)


def time_windows(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Najafi 2019, Fig. 5.6.1."""
    named = ((timed(e), Point(e["cores"], e["sustained"])) for e in entries)
    series = [*lines(named), theirs(published.SPLITJOIN_TIME)]
    title = "Sustained rate over time windows"
    subtitle = joined(cpu, "nested loop; published: 15 min, Najafi 2019 §5.6.4")
    yield "flows-time-windows.svg", Plot(title, CORES, Axis(ARRIVALS), series, subtitle)


def time_window_latency(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Najafi 2019, Fig. 5.6.2 and 5.6.3."""
    named = (
        (timed(e), Point(e["cores"], e["visiting"]["mean"] * 1e3)) for e in entries if e["visiting"]
    )
    both = (published.SPLITJOIN_VISITING, published.LOW_LATENCY_VISITING)
    series = lines(named) + [
        Series(f"{p.what}, published", [Point(p.cores, p.value * 1e3)]) for p in both
    ]
    title = "Visiting latency, tuple by tuple at half load"
    subtitle = joined(cpu, "mean; nested loop; published: 15 min, Najafi 2019 §5.6.3")
    y = Axis("milliseconds", log=10)
    yield "flows-visiting-latency.svg", Plot(title, CORES, y, series, subtitle)
    stages = (
        (stage, Point(e["cores"], taken["mean"] * 1e3))
        for e in entries
        if e["minutes"] == 15
        for stage, taken in e["stages"].items()
    )
    title = "SplitJoin: latency by stage, 15 min windows, tuple by tuple at half load"
    plot = Plot(title, CORES, Axis("milliseconds"), lines(stages), joined(cpu, "mean"))
    yield "flows-stages.svg", plot


def count_windows(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Najafi 2019, Fig. 5.6.5."""
    named = (
        (f"{e['cores']} core{'s' * (e['cores'] > 1)}", point(e, e["window"]))
        for e in entries
        if e["flow"] == "splitjoin"
    )
    number = published.SPLITJOIN_COUNT
    at = Point(published.SPLITJOIN_COUNT_WINDOW, number.value)
    series = [*lines(named), Series(f"{number.cores} cores, published", [at])]
    title = "SplitJoin over count windows, nested loop"
    subtitle = joined(cpu, f"published: {number.source}")
    y = Axis(ARRIVALS, log=10)
    yield "flows-count-windows.svg", Plot(title, WINDOW, y, series, subtitle)


def selectivity(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Najafi 2019, Fig. 5.6.6."""
    named = (
        (f"{e['kernel']}, {e['sub_window']:,}", point(e, e["share"])) for e in entries if e["share"]
    )
    title = "SplitJoin and how many pairs match, 2 cores, by kernel and sub-window"
    x, y = Axis("share of pairs that match", log=10), Axis(ARRIVALS, log=10)
    yield "flows-selectivity.svg", Plot(title, x, y, lines(named), joined(cpu, RUNS))


def precision(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """Najafi 2019, Fig. 5.6.8, as shares of the rate without order."""
    named = (
        (
            f"{e['sub_window']:,}, 1 in {1 / e['match_rate']:,.0f}",
            Point(float(interval), rate / e["tuples_per_second"]["none"]),
        )
        for e in entries
        for interval, rate in e["tuples_per_second"].items()
        if interval not in ("none", "outer")
    )
    title = "SplitJoin in inner order: a star every n comparisons, 2 cores"
    subtitle = joined(cpu, "by sub-window and how many pairs match")
    y = Axis("rate, as a share of that without order")
    x = Axis("comparisons between two stars", log=2)
    yield "flows-precision.svg", Plot(title, x, y, lines(named), subtitle)


def hops(entries: Entries, cpu: str) -> Iterator[tuple[str, Plot]]:
    """The latency laws of Najafi 2019 §5.3."""
    named = ((hop_name(e), Point(e["cores"], e["hops"])) for e in entries)
    title = "Visiting latency in hops, by the deterministic driver"
    x, y = Axis("join cores", log=2), Axis("hops until a pair is found and out", log=10)
    yield "flows-hops.svg", Plot(title, x, y, lines(named))


def hop_name(entry: dict[str, Any]) -> str:
    """A flow, and the parameters of its latency."""
    more = [f"{name} {entry[name]}" for name in ("window", "branching") if name in entry]
    return joined(entry["flow"], *more).replace(" · ", ", ")


def timed(entry: dict[str, Any]) -> str:
    """A flow and the length of its time windows."""
    return f"{entry['flow'].removesuffix('-handshake')}, {entry['minutes']} min"


def joined(*parts: str) -> str:
    """The parts that are not empty, in one line."""
    return " · ".join(part for part in parts if part)
