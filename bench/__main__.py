"""Run benchmarks and write their figures as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from bench.measure import machine

BENCHMARKS = (
    "band_join",
    "select_project",
    "start_up",
    "memory",
    "kernels",
    "spark_joins",
    "spark_rows",
)


def main() -> None:
    """``python -m bench [NAME …] [--out FILE]``."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to the terminal")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    results = {"machine": machine()}
    for name in arguments.names or BENCHMARKS:
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        results[name] = importlib.import_module(f"bench.{name}").run()
    text = json.dumps(results, indent=2)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text + "\n")
        print(f"bench: wrote {arguments.out}", file=sys.stderr)
    else:
        print(text)


if __name__ == "__main__":
    main()
