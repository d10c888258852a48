"""Which files of Penstock a push, a change and a single tuple pass through on the embedded engine.

``python -m bench walk [--files] [--flow NAME]``. For every step it counts the files that were
entered, the calls of Penstock's functions, and the crossings: calls in another file than the call
before. The counts do not depend on how fast the machine is. Calls into compiled code and libraries
are not counted.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import penstock as ps

SOURCES = f"{Path(ps.__file__).parent}/"
NEAR = "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
QUERY = f"SELECT r.id AS r, s.id AS s FROM R [ROWS 1000] AS r JOIN S [ROWS 1000] AS s ON {NEAR}"
STREAMS = "CREATE STREAM R (id BIGINT, x INT, y REAL); CREATE STREAM S (id BIGINT, a INT, b REAL)"
TUPLES = 2_000
BATCHES = 70
"""Batches before the one that is counted once their compiled call is there."""
SINGLE = 400
"""Single-tuple pushes before the one that is counted, so that their compiled step is there."""


@dataclass(frozen=True)
class Walk:
    """The files that were entered, call by call."""

    calls: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """Every file once, in the order in which they were first entered."""
        return list(dict.fromkeys(self.calls))

    @property
    def crossings(self) -> int:
        """How many calls are in another file than the call before."""
        return sum(here != there for here, there in zip(self.calls, self.calls[1:], strict=False))


def walk(step: Callable[[], object]) -> Walk:
    """Take a step and note every call of a function of Penstock's."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCES):
            calls.append(name.removeprefix(SOURCES))

    threading.setprofile(note)  # of threads that the step starts
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk(tuple(calls))


def table(first: int, x: str, y: str) -> pa.Table:
    """Tuples whose keys are spread evenly."""
    keys = [(first + 7 * i) % 300 for i in range(TUPLES)]
    return pa.table(
        {
            "id": pa.array(range(TUPLES), pa.int64()),
            x: pa.array(keys, pa.int32()),
            y: pa.array(keys, pa.float32()),
        }
    )


def walks(flow: str | None = None) -> dict[str, Walk]:
    """The walk of each step, by its name."""
    options: dict[str, Any] = {} if flow is None else {"flow": flow, "cores": 2}
    found: dict[str, Walk] = {}
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        found["install"] = walk(lambda: engine.install(QUERY, name="q", **options))
        query = engine.queries["q"]
        for turn in range(2):
            engine.push("R", table(turn, "x", "y"))
            engine.push("S", table(turn, "a", "b"))
            query.rows()
        batch = table(2, "a", "b")
        found[f"push {TUPLES:,} tuples"] = walk(lambda: engine.push("S", batch))
        found["take the rows"] = walk(query.rows)
        for _ in range(BATCHES):
            engine.push("S", batch)
            query.rows()
        found[f"push {TUPLES:,} tuples, later"] = walk(lambda: engine.push("S", batch))
        smaller = QUERY.replace("ROWS 1000", "ROWS 500")
        found["change"] = walk(lambda: query.change(smaller))
        for i in range(SINGLE):
            engine.push("R", [{"id": i, "x": i % 300, "y": float(i % 300)}])
        one = [{"id": SINGLE, "x": 5, "y": 5.0}]
        found["push one tuple"] = walk(lambda: engine.push("R", one))
        found["end"] = walk(engine.end)
    return found


def main(arguments: list[str]) -> None:
    """Print a table of all steps."""
    parser = argparse.ArgumentParser(prog="python -m bench walk", description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of every step")
    parser.add_argument("--flow", help="share the join by this flow, on two cores")
    given = parser.parse_args(arguments)
    print("| step | files | calls | crossings |\n| --- | --- | --- | --- |")
    found = walks(given.flow)
    for name, one in found.items():
        print(f"| {name} | {len(one.files)} | {len(one.calls):,} | {one.crossings} |")
    for name, one in found.items() if given.files else ():
        print(f"\n{name}:", *one.files, sep="\n  ")
