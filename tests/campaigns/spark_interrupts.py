"""Commands and a program of a user's, interrupted at random moments, most of them on Spark.

Each case starts one of :data:`COMMANDS` in a session and with a temporary directory of its own, and
sends SIGINT, twice SIGINT or SIGTERM, to the process or, as a terminal does, to its group. Then the
exit code is 128 + the signal, one line is said, no process and no file is left. A command with
``--checkpoint`` is started again until it is through, and its rows are the embedded engine's.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.kill.campaign import ROOT, kill_case
from tests.kill.hooks.sitecustomize import CASE, processes

COUNT = 100
LONGEST = 300.0
"""Seconds after which a command counts as hanging."""

QUERY = (
    "SELECT r.id AS r, s.id AS s FROM R [ROWS 300] AS r JOIN S [RANGE 200 WATTR ts] AS s "
    "ON r.x BETWEEN s.x - 2 AND s.x + 2"
)
PROGRAM = """
import sys
try:
    import penstock as ps
    with ps.connect("spark") as engine:
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT a.x FROM R [ROWS 9] AS a JOIN R [ROWS 9] AS b ON a.x = b.x")
        for start in range(0, 2000, 50):
            engine.push("R", [{"x": x} for x in range(start, start + 50)])
            if start % 500 == 0:
                engine.wait()
            query.rows()
except KeyboardInterrupt:
    sys.exit(130)
"""
SIGNALS = ((signal.SIGINT,), (signal.SIGINT,) * 2, (signal.SIGTERM,))
COMMANDS = ("run", "checkpoint", "replay", "demo", "trades", "program", "local")


@dataclass
class Case:
    """A command, and what is sent to it after ``moment`` seconds."""

    command: str
    moment: float
    signals: tuple[int, ...]
    gap: float
    group: bool


@dataclass
class Said:
    """How a command has ended. ``ours``: it had begun to watch for signals when the first came."""

    code: int
    stderr: str
    ours: bool
    signalled: bool
    seconds: float
    processes: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class Place:
    """A folder with the files that the commands read and write."""

    def __init__(self, folder: Path, rows: int = 10_000) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.written = folder / "written"
        self.written.mkdir()
        self.checkpoint = folder / "checkpoint"
        (folder / "q.sql").write_text(QUERY)
        chance = np.random.default_rng(1)
        for name in ("R", "S"):
            columns = {
                "ts": np.arange(rows) * 2,
                "id": np.arange(rows),
                "x": chance.integers(0, 1000, rows).astype(np.int32),
            }
            table = pa.table({key: pa.array(column) for key, column in columns.items()})
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=1000)

    def command(self, name: str) -> list[str]:
        """The words of a command."""
        run = ["-m", "penstock", "run", str(self.folder / "q.sql"), "--order-by", "ts"]
        for stream in ("R", "S"):
            run += ["--stream", f"{stream}={self.folder / stream}.parquet"]
        few = ["--rows-per-trigger", "4000"]
        words = {
            "run": [*run, *few, "--out", str(self.written / "run.parquet")],
            "checkpoint": [
                *run, *few, "--checkpoint", str(self.checkpoint),
                "--out", str(self.folder / "out.jsonl"),
            ],
            "replay": ["-m", "penstock", "replay", "examples/pairs.flow"],
            "demo": ["-m", "penstock", "demo"],
            "trades": ["-m", "examples.trades.run", "--engine", "spark"],
            "program": ["-c", PROGRAM],
            "local": [
                *run, "--engine", "local", "--kernel", "nested-loop",
                "--out", str(self.written / "local.jsonl"),
            ],
        }  # fmt: skip
        return [sys.executable, *words[name]]

    def start(self, name: str) -> tuple[subprocess.Popen[str], str]:
        """The process of a command, and the mark of all that it starts."""
        mark = uuid.uuid4().hex
        environment = {**os.environ, CASE: mark, "TMPDIR": str(self.temporary)}
        environment.pop("SPARK_LOCAL_DIRS", None)
        process = subprocess.Popen(
            self.command(name), cwd=ROOT, env=environment, start_new_session=True, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        return process, mark

    def run(self, case: Case) -> Said:
        """Start a command, interrupt it, and look what is left."""
        process, mark = self.start(case.command)
        started = time.monotonic()
        ours, signalled = False, True
        try:
            process.wait(case.moment)
            signalled = False
        except subprocess.TimeoutExpired:
            ours = watches(process.pid)
            for number, one in enumerate(case.signals):
                time.sleep(case.gap if number else 0.0)
                send(process.pid, one, case.group)
        return self.ended(process, mark, ours, signalled, started)

    def ended(
        self,
        process: subprocess.Popen[str],
        mark: str,
        ours: bool = True,
        signalled: bool = True,
        started: float = 0.0,
    ) -> Said:
        """Wait for a command, and look what is left."""
        try:
            said = process.communicate(timeout=LONGEST)[1]
            left = processes(mark)
        finally:
            kill_case(mark)
        files = [*os.listdir(self.temporary), *os.listdir(self.written)]
        complete = {"run.parquet", "local.jsonl"}
        return Said(
            process.returncode, said, ours, signalled, time.monotonic() - started, left,
            [name for name in files if name not in complete],
        )  # fmt: skip


def send(pid: int, number: int, group: bool) -> None:
    """Send a signal to a process or its group, if it is there."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except ProcessLookupError:
        return


def watches(pid: int) -> bool:
    """Whether a process handles SIGTERM, which Python by itself does not."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def wrong(place: Place, case: Case, said: Said) -> list[str]:
    """What is not as it should be."""
    found = [f"processes are left: {said.processes}"] if said.processes else []
    found += [f"files are left: {said.files}"] if said.files else []
    if "Fatal Python error" in said.stderr:
        found.append("the interpreter failed")
    first = case.signals[0]
    if case.command == "program":  # its traceback is its own affair
        expected = {130, -signal.SIGINT, 1} if first == signal.SIGINT else {-signal.SIGTERM}
        return found if said.code in expected | {0} else [*found, f"exit code {said.code}"]
    if not said.ours and said.signalled and said.code in (-first, 1, 128 + first):
        return found  # Python itself had not started yet
    name = "trades" if case.command == "trades" else "penstock"
    what = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[signal.Signals(first)]
    goes_on = f"; the same command goes on from the checkpoint {place.checkpoint}"
    lines = {f"{name}: {what}\n"}
    if case.command == "checkpoint":
        lines.add(f"{name}: {what}{goes_on}\n")
    if said.code == 0 and "interrupted" not in said.stderr:
        return found  # it was through before
    if said.code != 128 + first:
        found.append(f"exit code {said.code}")
    if said.stderr not in lines:
        found.append(f"said {said.stderr!r}")
    return found


def run(seed: int, count: int) -> int:
    """Interrupt commands, and print each case."""
    chance = random.Random(seed)
    durations = dict.fromkeys(COMMANDS, 12.0) | {"local": 2.0, "demo": 40.0}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="penstock-interrupts-") as folder:
        place = Place(Path(folder))
        expected = rows_of(place, "local")
        for number in range(count):
            name = COMMANDS[number % len(COMMANDS)]
            case = Case(
                name,
                chance.uniform(0, durations[name]),
                # SIGTERM kills a program of a user's at once; its JVM then ends by itself.
                chance.choice(SIGNALS[: 2 if name == "program" else 3]),
                chance.uniform(0, 0.3),
                chance.random() < 0.5,
            )
            said = place.run(case)
            found = wrong(place, case, said)
            if said.signalled is False:
                durations[name] = said.seconds
            if name == "checkpoint" and said.code == 0:
                if (place.folder / "out.jsonl").read_text() != expected:
                    found.append("its rows are not the embedded engine's")
                forget(place)
            failed += bool(found)
            print(f"{number}: {case}: exit {said.code}, {'; '.join(found) or 'right'}", flush=True)
    return failed


def rows_of(place: Place, name: str) -> str:
    """The rows of the query on the embedded engine."""
    process, mark = place.start(name)
    said = place.ended(process, mark)
    assert said.code == 0, said
    return (place.written / "local.jsonl").read_text()


def forget(place: Place) -> None:
    """The checkpoint of a run that is through."""
    subprocess.run(["rm", "-rf", str(place.checkpoint)], check=True)
    (place.folder / "out.jsonl").unlink()
