"""Run benchmarks, write their results as JSON, and draw figures.

``python -m bench soak`` is a separate long run: see :mod:`bench.soak`. So are ``python -m bench
shapes``, which checks bounds (:mod:`bench.shapes`), and ``python -m bench walk``, which counts
calls (:mod:`bench.walk`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.figures import draw
from bench.measure import machine

GROUPS = {
    "engine": ("band_join", "select_project", "start_up", "memory"),
    "kernels": ("kernels",),
    "flows": ("flows",),
    "aggregates": ("aggregates",),
    "pushes": ("pushes",),
    "multiway": ("multiway", "multiway_designs"),
    "multiway-figures": ("multiway_figures",),
    "fqp": ("fqp",),
    "fqp-spark": ("fqp_spark",),
    "spark": ("spark_joins", "spark_rows", "spark_aggregates"),
    "spark-state": ("spark_state",),
    "spark-multiway": ("spark_multiway",),
}
"""The benchmarks, by the file of their results."""
BENCHMARKS = tuple(name for names in GROUPS.values() for name in names)
HAVE_QUICK = (
    "aggregates", "fqp", "fqp_spark", "multiway", "multiway_designs", "multiway_figures", "pushes",
)  # fmt: skip
"""The benchmarks that have ``--quick``."""


def main() -> None:
    """``python -m bench [NAME …] [--quick] [--out FILE] [--figures FOLDER]``."""
    if sys.argv[1:2] == ["soak"]:
        importlib.import_module("bench.soak").main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["walk"]:
        importlib.import_module("bench.walk").main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["shapes"]:
        sys.exit(importlib.import_module("bench.shapes").main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to the terminal")
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER",
        help=f"write the JSON in parts ({', '.join(GROUPS)}) and its figures to this folder",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true",
        help=f"little work, to see that it runs and its rows are right ({', '.join(HAVE_QUICK)})",
    )  # fmt: skip
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    whole = [name for name in arguments.names if name not in HAVE_QUICK]
    if arguments.quick and whole:
        parser.error(
            f"{whole[0]} has no --quick; leave --quick out, or run {', '.join(HAVE_QUICK)}"
        )
    results: dict[str, Any] = {"machine": machine()}
    for name in arguments.names or (HAVE_QUICK if arguments.quick else BENCHMARKS):
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        options = {"quick": True} if arguments.quick else {}
        results[name] = importlib.import_module(f"bench.{name}").run(**options)
        taken = time.perf_counter() - start
        print(f"bench: {name} took {taken:.0f} s", file=sys.stderr, flush=True)
        if arguments.figures:  # write each result at once, so that a later failure loses nothing
            in_parts(results, arguments.figures)
    if arguments.out:
        write(results, arguments.out)
    elif not arguments.figures:
        print(json.dumps(results, indent=2))


def in_parts(results: dict[str, Any], folder: Path) -> None:
    """Write each group of results to its own file, and draw it."""
    for group, names in GROUPS.items():
        part = {name: results[name] for name in names if name in results}
        if part:
            path = folder / f"{group}.json"
            write({"machine": results["machine"], **part}, path)
            draw(path, folder, [])


def write(results: dict[str, Any], path: Path) -> None:
    """Write JSON, and print the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"bench: wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
