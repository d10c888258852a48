"""Start-up times: the version, and the first row of a first query from a warm cache."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from typing import Any

from bench.measure import repeat

FIRST_QUERY = """
import penstock as ps
with ps.connect("local") as engine:
    engine.sql("CREATE STREAM R (x INT, y FLOAT); CREATE STREAM S (a INT, b FLOAT)")
    query = engine.install(
        "SELECT r.x, s.a FROM R [ROWS 1024] r JOIN S [ROWS 1024] s "
        "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10")
    engine.push("R", [{"x": 1, "y": 1.0}])
    engine.push("S", [{"a": 2, "b": 2.0}])
    assert query.rows().to_pylist() == [{"x": 1, "a": 2}]
"""


def run(runs: int = 5) -> dict[str, Any]:
    """Seconds, each in its own process; the first query is also timed with a cold cache."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        first = [sys.executable, "-c", FIRST_QUERY]
        version = [sys.executable, "-m", "penstock", "--version"]

        def process(command: list[str]) -> None:
            subprocess.run(
                command, check=True, capture_output=True, env={"PENSTOCK_CACHE": cache, "PATH": ""}
            )

        results["first_query_cold"] = repeat(lambda: process(first), 1)[0]
        results["first_query_warm"] = statistics.median(repeat(lambda: process(first), runs))
        results["version"] = statistics.median(repeat(lambda: process(version), runs))
    return results
