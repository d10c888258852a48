"""Draw the figures of a benchmark's JSON: ``python -m bench.figures RESULT.json``.

``python -m bench kernels flows aggregates multiway_figures fqp --out RESULT.json`` writes the JSON.
A figure without numbers is not drawn. ``python -m bench --figures FOLDER`` does both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import aggregate_figures, flow_figures, fqp_figures, multiway_plots
from bench.flow_figures import joined
from bench.plot import Axis, Mark, Plot, Point, Series, svg

# In this order, so that a kernel has the same colour in every figure.
KERNELS = ("band", "hash", "sorted", "nested-loop")
WINDOW = Axis("window of each stream, tuples", log=2)


def rate(entry: dict[str, Any], name: str) -> Point:
    """A rate as ``bench.measure.rate`` returns it: the median, and slowest and fastest."""
    found = entry[name]
    return Point(entry["window"], found["median"], found["slowest"], found["fastest"])


def memory(entry: dict[str, Any]) -> Point:
    """Bytes per stored tuple: both windows are full."""
    return Point(entry["window"], entry["window_bytes"] / (2 * entry["window"]))


def by_kernel(
    entries: list[dict[str, Any]], point: Callable[[dict[str, Any]], Point]
) -> list[Series]:
    """A series for each kernel, empty ones too. An entry without a kernel is of ``band``."""
    found: dict[str, list[Point]] = {kernel: [] for kernel in KERNELS}
    for entry in entries:
        found.setdefault(entry.get("kernel", "band"), []).append(point(entry))
    return [
        Series(name, sorted(points, key=lambda point: point.x)) for name, points in found.items()
    ]


def figures(results: dict[str, Any], marks: list[Mark]) -> Iterator[tuple[str, Plot]]:
    """Every figure that has numbers, by the name of its file."""
    cpu = results.get("machine", {}).get("cpu", "")
    yield from of_kernels(results.get("kernels", {}), cpu, marks)
    yield from flow_figures.figures(results.get("flows", {}), cpu)
    yield from aggregate_figures.figures(results.get("aggregates", {}), cpu)
    yield from multiway_plots.figures(results.get("multiway_figures", {}), cpu)
    yield from fqp_figures.figures(results.get("fqp", {}), cpu)


def of_kernels(kernels: dict[str, Any], cpu: str, marks: list[Mark]) -> Iterator[tuple[str, Plot]]:
    """The figures of the benchmark ``kernels``."""
    runs = "median of the runs; bars: the slowest and the fastest"
    growth = kernels.get("growth", [])
    if growth:
        series = by_kernel(growth, lambda entry: rate(entry, "tuples_per_second"))
        y = Axis("arrivals of both streams per second", log=10)
        title = "Throughput of a join as its windows grow"
        yield "kernels-growth.svg", Plot(title, WINDOW, y, series, joined(cpu, runs), marks)
    weighed = [entry for entry in growth if "window_bytes" in entry]
    if weighed:
        y = Axis("bytes per stored tuple: the tuple, its keys, the index and room to grow")
        title = "Memory of a join as its windows grow"
        yield "kernels-memory.svg", Plot(title, WINDOW, y, by_kernel(weighed, memory))
    loops = [{"kernel": "nested-loop", **entry} for entry in kernels.get("nested_loop", [])]
    if loops:
        series = by_kernel(loops, lambda entry: rate(entry, "comparisons_per_second"))
        y = Axis("comparisons per second")
        title = "Comparisons of the nested loop as its windows grow"
        yield "kernels-nested-loop.svg", Plot(title, WINDOW, y, series, joined(cpu, runs))


def mark(text: str) -> Mark:
    """``65536=L2 2 MiB`` as a mark."""
    window, _, label = text.partition("=")
    return Mark(float(window), label)


def draw(result: Path, folder: Path, marks: list[Mark]) -> int:
    """Write the figures of a JSON to a folder; returns their number."""
    results = json.loads(result.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, plot in figures(results, marks or caches(results)):
        (folder / name).write_text(svg(plot), encoding="utf-8")
        print(f"bench: wrote {folder / name}", file=sys.stderr)
        count += 1
    return count


def caches(results: dict[str, Any]) -> list[Mark]:
    """The window size at which a join fills the second-level cache."""
    size = results.get("machine", {}).get("second_level_cache")
    if not size:
        return []
    # A stored tuple takes about 32 bytes in the segments of an index, and there are two windows.
    return [Mark(size / 64, f"L2 {size / (1 << 20):g} MiB")]


def main() -> None:
    """``python -m bench.figures RESULT.json [--out FOLDER] [--mark WINDOW=LABEL …]``."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"), help="folder to write to")
    parser.add_argument(
        "--mark", type=mark, action="append", default=[], metavar="WINDOW=LABEL",
        help="a vertical line in the figure of the throughput, such as '65536=L2 2 MiB'",
    )  # fmt: skip
    arguments = parser.parse_args()
    if not draw(arguments.result, arguments.out, arguments.mark):
        parser.error(
            f"{arguments.result} has no results of the benchmarks kernels, flows, aggregates, "
            "multiway_figures and fqp"
        )


if __name__ == "__main__":
    main()
