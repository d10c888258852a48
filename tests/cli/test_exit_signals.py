"""Signals end a program with one line and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaigns.spark_interrupts import Case, Place, watches, wrong
from tests.kill.hooks.sitecustomize import CASE, processes

from penstock import leftovers

PROGRAM = """
import os, sys, threading, time
from pathlib import Path
from penstock import leftovers
from penstock.cli.exit_signals import advise, end_on_signals

end_on_signals("program")
advise("go on")
folder = leftovers.temporary_folder("left-")
(folder / "in it").mkdir()
leftovers.note(Path(sys.argv[1]))
Path(sys.argv[1]).write_text("unfinished")
# Its child ignores what ends others, and has a group of its own, as a worker of Spark has.
child = "import os, time; os.setpgid(0, 0); print(flush=True); time.sleep(1000)"
shell = f"trap '' INT TERM HUP; {sys.executable} -c '{child}'; true"
leftovers.start(["/bin/sh", "-c", shell], dict(os.environ), 0.0)

def write():
    number = 0
    while True:
        number += 1
        try:
            (folder / str(number)).write_text("")
        except OSError:
            print("a thread sees that its folder is gone", file=sys.stderr)

threading.Thread(target=write, daemon=True).start()
try:
    while True:
        time.sleep(1000)
finally:
    print("unwound", file=sys.stderr)
"""

STARTER = """
import threading
from penstock import leftovers
from penstock.cli.exit_signals import end_on_signals

end_on_signals("starter")

def start():
    while True:
        leftovers.run(["sleep", "0.01"])
        print(flush=True)

for _ in range(8):
    threading.Thread(target=start).start()
"""


@pytest.mark.parametrize(
    ("sent", "group", "code", "line"),
    [
        (("SIGINT",), False, 130, "program: interrupted; go on\n"),
        (("SIGINT", "SIGINT"), True, 130, "program: interrupted; go on\n"),
        (("SIGTERM",), False, 143, "program: terminated; go on\n"),
        (("SIGHUP",), True, 129, "program: the terminal is gone; go on\n"),
    ],
)
def test_a_signal_ends_a_program_with_all_that_it_has_started(
    tmp_path: Path, sent: tuple[str, ...], group: bool, code: int, line: str
) -> None:
    temporary, unfinished = tmp_path / "tmp", tmp_path / "unfinished"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(unfinished)],
        env={**os.environ, "TMPDIR": str(temporary), CASE: str(tmp_path)},
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "\n", "the child runs"
    assert unfinished.exists()
    for name in sent:
        (os.killpg if group else os.kill)(process.pid, signal.Signals[name])
    assert process.communicate()[1] == line
    assert process.returncode == code
    assert processes(str(tmp_path)) == []
    assert (os.listdir(temporary), unfinished.exists()) == ([], False)


def test_what_is_ignored_from_the_start_stays_ignored() -> None:
    program = (
        "import signal, os\nfrom penstock.cli.exit_signals import end_on_signals\n"
        "end_on_signals('p')\nos.kill(os.getpid(), signal.SIGHUP)\nprint('alive')"
    )
    command = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "alive\n"


LEAVING = """
import os, sys
from penstock import leftovers
folder = leftovers.temporary_folder("left-")
leftovers.start([sys.executable, "-c", "input()"], dict(os.environ), 0.0)
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder.is_dir())
raise KeyboardInterrupt
"""


def test_registered_paths_are_removed_by_the_interpreter_and_not_by_its_forks(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), CASE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LEAVING], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("True\n", "KeyboardInterrupt")
    assert (os.listdir(tmp_path), processes(str(tmp_path))) == ([], [])


@pytest.mark.parametrize("group", [False, True])
def test_a_run_in_this_process_is_interrupted(tmp_path: Path, group: bool) -> None:
    place = Place(tmp_path, rows=200_000)
    case = Case("local", 0.0, (signal.SIGINT, signal.SIGINT), 0.0, group)
    process, mark = place.start(case.command)
    part = place.written / f".local.jsonl.{process.pid}.part"
    while not part.exists():
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)
    assert watches(process.pid)
    for one in case.signals:
        (os.killpg if group else os.kill)(process.pid, one)
    end = place.ended(process, mark)
    assert (end.code, wrong(place, case, end)) == (130, [])


def test_no_program_is_left_that_was_about_to_start(tmp_path: Path) -> None:
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTER], env={**os.environ, CASE: str(tmp_path)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "\n", "programs are being started"
        process.terminate()
        assert process.wait() == 143
        assert processes(str(tmp_path)) == []
        process.communicate()


def test_a_folder_is_removed_that_was_written_into_while_it_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that has the folder open still finds it under its other name."""
    folder = leftovers.temporary_folder("written-", tmp_path)
    (folder / "first").touch()
    original, written = shutil.rmtree, []

    def removing(path: Path, ignore_errors: bool) -> None:
        original(path, ignore_errors=ignore_errors)
        if path.name.endswith("-removed") and not written:
            path.mkdir()
            (path / "second").touch()
            written.append(path)

    monkeypatch.setattr(leftovers.shutil, "rmtree", removing)
    leftovers.remove(folder)
    assert written
    assert list(tmp_path.iterdir()) == []
