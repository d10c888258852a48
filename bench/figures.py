"""Draw the figures of a benchmark's JSON: ``python -m bench.figures RESULT.json``.

The JSON is what ``python -m bench kernels --out RESULT.json`` writes. What it has no numbers for is
not drawn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.plot import Axis, Mark, Plot, Point, Series, svg

# In this order, so that a kernel has the same colour in every figure.
KERNELS = ("band", "hash", "sorted", "nested-loop")
WINDOW = Axis("window of each stream, tuples", log=2)


def rate(entry: dict[str, Any], name: str) -> Point:
    """A rate as ``bench.measure.rate`` gives it: the median, from slowest to fastest."""
    found = entry[name]
    return Point(entry["window"], found["median"], found["slowest"], found["fastest"])


def memory(entry: dict[str, Any]) -> Point:
    """Bytes per stored tuple: both windows are full."""
    return Point(entry["window"], entry["window_bytes"] / (2 * entry["window"]))


def by_kernel(
    entries: list[dict[str, Any]], point: Callable[[dict[str, Any]], Point]
) -> list[Series]:
    """A series for each kernel, empty ones too. An entry that names none is of the band kernel."""
    found: dict[str, list[Point]] = {kernel: [] for kernel in KERNELS}
    for entry in entries:
        found.setdefault(entry.get("kernel", "band"), []).append(point(entry))
    return [
        Series(name, sorted(points, key=lambda point: point.x)) for name, points in found.items()
    ]


def figures(results: dict[str, Any], marks: list[Mark]) -> Iterator[tuple[str, Plot]]:
    """Every figure that there are numbers for, with the name of its file."""
    kernels = results["kernels"]
    cpu = results.get("machine", {}).get("cpu", "")
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


def joined(*parts: str) -> str:
    """The parts that say something, in one line."""
    return " · ".join(part for part in parts if part)


def mark(text: str) -> Mark:
    """``65536=L2 2 MiB`` as a mark."""
    window, _, label = text.partition("=")
    return Mark(float(window), label)


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
    results = json.loads(arguments.result.read_text(encoding="utf-8"))
    if "kernels" not in results:
        parser.error(f"{arguments.result} has no results of the benchmark kernels")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, plot in figures(results, arguments.mark):
        (arguments.out / name).write_text(svg(plot), encoding="utf-8")
        print(f"bench: wrote {arguments.out / name}", file=sys.stderr)


if __name__ == "__main__":
    main()
