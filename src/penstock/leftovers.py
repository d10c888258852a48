"""Removes what must not outlive the process: temporary folders, unfinished files, processes.

Each is registered before it is created and unregistered when it is gone, so the register always
covers everything that exists. What is still registered when the interpreter exits, or when a signal
ends the program (:mod:`penstock.cli.exit_signals`), is removed: processes first, since they would
write into the folders.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_LOOK_AGAIN = 0.005
"""Seconds between two checks of processes that are about to end."""
_WRITING = 2.0
"""Seconds to try to remove a folder that something still writes into."""
_LOCKED = 5.0
"""Seconds to wait at exit for a thread that is starting a process."""


class _Register:
    """The register of this process. ``parked``: a signal is ending it, nothing new may begin."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner = os.getpid()
        self.parked = False
        self.paths: dict[Path, None] = {}
        self.processes: dict[subprocess.Popen[bytes], float] = {}


_REGISTER = _Register()


def note(path: Path) -> None:
    """Register a file or folder for removal when the process ends."""
    with _REGISTER.lock:
        _wait_if_ending()
        _REGISTER.paths[path] = None


def forget(path: Path) -> None:
    """Unregister a file or folder: it is gone, or complete."""
    _REGISTER.paths.pop(path, None)


def temporary_folder(prefix: str, within: Path | None = None) -> Path:
    """Create a folder that is removed when the process ends, at the latest."""
    parent = Path(tempfile.gettempdir()) if within is None else within
    path = parent.absolute() / f"{prefix}{secrets.token_hex(8)}"
    note(path)
    path.mkdir(mode=0o700, parents=True)
    return path


def remove(path: Path) -> None:
    """Remove a registered file or folder now."""
    _delete(path)
    forget(path)


def start(
    command: list[str], environment: dict[str, str], patience: float
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that Ctrl-C in a terminal does not reach it.

    Its standard input is a pipe from this process: a program that ends when it is closed ends with
    this process, however that ends. ``patience`` is how many seconds the program gets to end by
    itself.
    """
    with _REGISTER.lock:
        _wait_if_ending()
        program = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )
        _REGISTER.processes[program] = patience
    return program


def run(command: list[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its output.

    It is started under the lock, so that it is among the known children if the process ends.

    Raises
    ------
    OSError
        It cannot be started.
    subprocess.TimeoutExpired
        It takes longer than ``timeout`` seconds, and has been killed.
    """
    with _REGISTER.lock:
        _wait_if_ending()
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    with program:
        try:
            out, err = program.communicate(timeout=timeout)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(command, program.returncode, out, err)


def stop(program: subprocess.Popen[bytes]) -> None:
    """End a program that :func:`start` has started, and all of its descendants."""
    patience = _REGISTER.processes.get(program, 0.0)
    if program.returncode is None:  # not reaped yet, so its pid is still its own
        if patience:
            program.terminate()
            with suppress(subprocess.TimeoutExpired):
                program.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
        _kill(lambda: _in_session(program.pid))  # its workers have process groups of their own
        program.poll()
    _REGISTER.processes.pop(program, None)


def remove_all(parked: bool = False) -> None:
    """End every registered process, then remove every registered path.

    ``parked`` also ends other children of this process and lets nothing new begin: a thread that
    tries to waits for ever.
    """
    if _REGISTER.owner != os.getpid():  # a fork of the process that owns the register
        return
    acquired = _REGISTER.lock.acquire(timeout=_LOCKED)
    try:
        _REGISTER.parked = parked
        for program in list(_REGISTER.processes):
            stop(program)
        if parked:
            _kill(_children)
        for path in reversed(list(_REGISTER.paths)):
            remove(path)
    finally:
        if acquired:
            _REGISTER.lock.release()


def _wait_if_ending() -> None:
    if _REGISTER.parked:
        _wait_for_ever()


def _wait_for_ever() -> NoReturn:
    while True:
        threading.Event().wait()


def _at_exit() -> None:
    if _REGISTER.parked and _REGISTER.owner == os.getpid():
        _wait_for_ever()  # the thread that ends the program sets the exit code
    if threading.current_thread() is threading.main_thread() and (
        _REGISTER.paths or _REGISTER.processes
    ):
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # removing takes a moment, and all else is done
    remove_all()


atexit.register(_at_exit)


def _delete(path: Path) -> None:
    """Remove a file or folder, also while a thread of ours still writes into it.

    A folder is renamed first: a writer that opens files by path then finds none.
    """
    aside = path.with_name(f"{path.name}-removed")
    until = time.monotonic() + _WRITING
    while True:
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.rename(aside)
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        if not (path.exists() or aside.exists()) or time.monotonic() > until:
            return
        time.sleep(_LOOK_AGAIN)


def _kill(found: Callable[[], list[int]]) -> None:
    """Kill processes until none is left."""
    until = time.monotonic() + _LOCKED
    while (pids := found()) and time.monotonic() < until:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN)


def _in_session(leader: int) -> list[int]:
    return [pid for pid, _, session in _processes() if session == leader]


def _children() -> list[int]:
    return [pid for pid, parent, _ in _processes() if parent == os.getpid()]


def _processes() -> Iterator[tuple[int, int, int]]:
    """The running processes: pid, parent, session. None without /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            stat = Path("/proc", name, "stat").read_text()
        except (OSError, UnicodeDecodeError):  # gone meanwhile
            continue
        state, parent, _, session = stat.rpartition(")")[2].split()[:4]
        if state not in "ZX":
            yield int(name), int(parent), int(session)
