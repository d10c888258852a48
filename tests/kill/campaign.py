"""One command, killed again and again until it has its rows, which must be the embedded engine's.

The command is a process of its own with a mark in its environment, so that everything it has
started dies with it: the driver, the JVM, the workers.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.kill.hooks.sitecustomize import CASE, processes

HOOKS = Path(__file__).parent / "hooks"
ROOT = Path(__file__).parents[2]
LONGEST = 600.0
"""Seconds after which a command counts as hanging."""

THREE = (
    "SELECT r.id AS r, s.id AS s, t.id AS t FROM R [ROWS 300] AS r "
    "JOIN S [RANGE 200 WATTR ts SLACK 10] AS s ON r.x = s.x "
    "JOIN T [ROWS 300] AS t ON t.x BETWEEN s.x - 2 AND s.x + 2"
)
FIVE = (
    "SELECT r.id AS r, s.id AS s, t.id AS t, u.id AS u, v.id AS v FROM R [ROWS 600] AS r "
    "JOIN S [RANGE 1200 WATTR ts SLACK 10] AS s ON r.x = s.x JOIN T [ROWS 600] AS t ON s.x = t.x "
    "JOIN U [RANGE 1200 WATTR ts SLACK 10] AS u ON r.x = u.x JOIN V [ROWS 600] AS v ON u.x = v.x"
)
TREE = (
    "SELECT r.id AS r, s.id AS s, t.id AS t FROM R [RANGE 200 WATTR ts SLACK 10] AS r "
    "JOIN S [RANGE 200 WATTR ts SLACK 10] AS s ON r.x = s.x "
    "LEFT JOIN T [RANGE 300 WATTR ts SLACK 10] AS t ON s.x = t.x"
)
MULTIWAY = (THREE, FIVE, TREE)
QUERIES = (
    "SELECT r.id AS r, s.id AS s FROM R [ROWS 300] AS r JOIN S [RANGE 200 WATTR ts] AS s "
    "ON r.x BETWEEN s.x - 2 AND s.x + 2",
    "CREATE STREAM big AS SELECT id, ts, x FROM R WHERE x > 300;"
    "SELECT b.id AS r, s.id AS s FROM big [RANGE 100 WATTR ts SLACK 10] AS b "
    "FULL JOIN S [RANGE 100 WATTR ts SLACK 10] AS s ON b.x = s.x",
    "CREATE STREAM sums AS SELECT x, COUNT(*) AS n, SUM(id) AS total, window_end AS ts "
    "FROM R [RANGE 60 SLIDE 20 WATTR ts SLACK 10] GROUP BY x HAVING COUNT(*) > 1;"
    "SELECT a.ts AS r, a.n, a.total, s.id AS s FROM sums [RANGE 90 WATTR ts] AS a "
    "FULL JOIN S [RANGE 100 WATTR ts SLACK 10] AS s ON a.x = s.x",
    *MULTIWAY,
    "SELECT x % 10 AS k, COUNT(*) AS n, SUM(id) AS total, window_end "
    "FROM R [RANGE 600 SLIDE 200 WATTR ts SLACK 10] GROUP BY x % 10",
)
DESIGNS = {
    THREE: ("auto", "parallel", "parallel-stashed", "stashed", "circular", "linear"),
    FIVE: ("auto", "parallel", "parallel-circular", "circular", "linear"),
}
"""The designs of joins of three and more streams; with several cores, ``auto`` is ``parallel``."""
GROUPS = QUERIES[-1]
"""Its tuples are folded where the log is read, and the cores share its groups."""


@dataclass(frozen=True)
class Death:
    """Where a process dies: at a call of a phase's function, or ``anywhere`` after ``call`` ms."""

    phase: str
    call: int
    who: str = "all"


@dataclass
class Campaign:
    """A command over generated files, in a folder."""

    folder: Path
    seed: int
    rows: int = 60_000
    rows_per_trigger: int = 2_500
    query: str = ""
    cores: int = 0
    """By chance, if none is given."""
    design: str = ""
    """By chance, if none is given and the query joins three and more streams."""
    died: Counter[str] = field(default_factory=Counter)
    starts: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        chance = random.Random(self.seed)
        self.cores = self.cores or chance.choice((1, 2))
        self.query = self.query or chance.choice(QUERIES)
        self.design = self.design or chance.choice(DESIGNS.get(self.query, ("auto",)))
        (self.folder / "q.sql").write_text(self.query)
        (self.folder / "tmp").mkdir()
        for name in self._streams():
            count = self.rows // max(2, len(self._streams()))
            columns = {
                "at": np.sort(rng.integers(0, 2 * count, count)),
                "id": np.arange(count),
                "x": rng.integers(0, 1000, count).astype(np.int32),
            }
            columns["ts"] = columns["at"] - rng.integers(0, 12, count)
            table = pa.table({key: pa.array(column) for key, column in columns.items()})
            pq.write_table(table, self.folder / f"{name}.parquet", row_group_size=1000)

    def _streams(self) -> list[str]:
        """The streams that the query reads."""
        return [name for name in "RSTUV" if re.search(rf"(FROM|JOIN) {name}\b", self.query)]

    def command(self, *options: str) -> list[str]:
        command = [sys.executable, "-m", "penstock", "run", str(self.folder / "q.sql")]
        for name in self._streams():
            command += ["--stream", f"{name}={self.folder / name}.parquet"]
        return [*command, "--order-by", "at", *options]

    def options(self) -> list[str]:
        """Where the run on Spark leaves its state and its rows."""
        options = ["--cores", str(self.cores), "--design", self.design]
        options += ["--rows-per-trigger", str(self.rows_per_trigger)]
        options += ["--checkpoint", str(self.folder / "checkpoint")]
        options += ["--out", str(self.folder / "out.jsonl")]
        return [*options, "--letters", str(self.folder / "letters.jsonl")]

    def expected(self) -> list[str]:
        """The rows and letters of the embedded engine."""
        out, letters = self.folder / "local.jsonl", self.folder / "local-letters.jsonl"
        subprocess.run(
            self.command("--engine", "local", "--out", str(out), "--letters", str(letters)),
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip
        return _lines(out, letters)

    def found(self) -> list[str]:
        """The rows and letters of the run on Spark, once it is complete."""
        return _lines(self.folder / "out.jsonl", self.folder / "letters.jsonl")

    def run(self, *deaths: Death) -> bool:
        """Start the command, which dies as it is told to; True if it got to its end."""
        self.starts += 1
        marks = {self.folder / f"mark-{self.starts}-{i}": d for i, d in enumerate(deaths)}
        told = [
            f"{death.phase}:{death.call}:{death.who}:{mark}"
            for mark, death in marks.items()
            if death.phase != "anywhere"
        ]
        case = uuid.uuid4().hex
        environment = {
            **os.environ,
            "PENSTOCK_KILL": ",".join(told),
            CASE: case,
            "PYTHONPATH": os.pathsep.join((str(HOOKS), os.environ.get("PYTHONPATH", ""))),
            "TMPDIR": str(self.folder / "tmp"),
            "SPARK_LOCAL_DIRS": str(self.folder / "tmp"),
        }
        process = subprocess.Popen(
            self.command("--engine", "spark", *self.options()),
            cwd=ROOT, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        moment = min((d.call / 1000 for d in deaths if d.phase == "anywhere"), default=LONGEST)
        said = ""
        try:
            said = process.communicate(timeout=moment)[1]
        except subprocess.TimeoutExpired:
            if moment == LONGEST:
                raise
            self.died["anywhere"] += 1
        finally:
            kill_case(case)
            process.wait()
        for mark, death in marks.items():
            if mark.exists():
                self.died[f"{death.phase} ({death.who})"] += 1
        if process.returncode not in (0, -signal.SIGKILL):
            raise AssertionError(f"exit code {process.returncode}: {said}")
        return process.returncode == 0


def kill_case(case: str) -> None:
    """Kill all that a command has started."""
    while pids := processes(case):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _lines(out: Path, letters: Path) -> list[str]:
    """The rows in their order; the letters, whose order among queries is not told, sorted."""
    return [*out.read_text().splitlines(), "", *sorted(letters.read_text().splitlines())]
