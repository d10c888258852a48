"""Ctrl-C, SIGTERM and SIGHUP end the program with one line and an exit code.

No exception is raised: it could strike anywhere, and what it strikes (an import, a call into Spark,
the removal of a folder) would have to survive it. A thread ends the program instead. It prints the
line, discards all other output, removes what is registered in :mod:`penstock.leftovers`, and exits.
It begins once, so further signals change nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, NoReturn

from penstock import leftovers

_CAUSES = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal is gone",
}
_CLEAN_LINE = b"\r\x1b[2K\x1b[?25h"
"""On a terminal: clear a progress line, and show the cursor again."""


class _Advice:
    """Text added to the line, for a program that can continue later."""

    def __init__(self) -> None:
        self.text = ""


_ADVICE = _Advice()


def advise(text: str) -> None:
    """Add this text to the line that a signal will print."""
    _ADVICE.text = f"; {text}"


def end_on_signals(program: str) -> None:
    """Let signals end the program with 128 + their number and a line that names it.

    Call it in the main thread, before anything slow. A signal that is ignored when the program
    starts (nohup, a background job) stays ignored.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, program), name="ending", daemon=True).start()
    for number in _CAUSES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _no_exception)


def line(program: str, number: signal.Signals) -> str:
    """The line that reports that a signal has ended a program."""
    return f"{program}: {_CAUSES[number]}{_ADVICE.text}\n"


def _no_exception(number: int, frame: Any) -> None:
    """Do nothing: the watching thread already has the signal."""


def _watch(reader: int, program: str) -> None:
    while True:
        for byte in os.read(reader, 64):
            if byte in _CAUSES:
                _end(program, signal.Signals(byte))


def _end(program: str, number: signal.Signals) -> NoReturn:
    try:
        stderr = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.write(
            stderr, (_CLEAN_LINE if os.isatty(stderr) else b"") + line(program, number).encode()
        )
    except OSError:  # standard error is closed
        pass
    try:
        leftovers.remove_all(parked=True)
    finally:
        os._exit(128 + number)
