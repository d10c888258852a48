"""Standard output that fails, or whose reader closes the pipe early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["run", "replay", "--version"])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "q.sql").write_text("SELECT x FROM R")
    (tmp_path / "r.csv").write_text("x\n1\n")
    arguments = {
        "run": [str(tmp_path / "q.sql"), "--stream", f"R={tmp_path}/r.csv"],
        "replay": [str(EXAMPLES / "pairs.flow")],
    }
    engine = [] if command == "--version" else ["--engine", "local"]
    words = [sys.executable, "-m", "penstock", command, *arguments.get(command, []), *engine]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "penstock: output cannot be written: No space left on device\n"


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    query, data = tmp_path / "q.sql", tmp_path / "r.csv"
    query.write_text("SELECT x FROM R")
    data.write_text("x\n" + "123456789\n" * 20_000)
    command = [sys.executable, "-m", "penstock", "run", str(query), "--stream", f"R={data}"]
    command += ["--engine", "local"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 0
