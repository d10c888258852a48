"""Work that an interrupt must not cut in the middle, such as calls into the JVM.

KeyboardInterrupt, or another exception of a signal handler, can interrupt the main thread anywhere.
An interrupted call into the JVM leaves an answer in the connection, which the next call takes for
its own; an interrupted write of a segment loses it. So such work runs in a thread of its own, which
signals do not interrupt, and the caller waits for it.

The caller waits on bare locks. Python's events and conditions are written in Python, and an
interrupt in the middle of them leaves their locks locked.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")

_LOOK_AGAIN = 0.01
"""Seconds between two looks at work whose caller was interrupted."""
_LOOK_AGAIN_LATER = 60.0
"""Seconds between two looks at work that will tell when it is done."""


def done_whole(work: Callable[[], Made]) -> Made:
    """The result of short ``work``. An interrupt is raised once the work is done."""
    task: _Task[Made] = _Task(work, _unused)
    interrupt: BaseException | None = None
    while True:
        try:
            task.begin()
            task.wait()
            break
        except BaseException as error:
            interrupt = interrupt or error
    if interrupt is not None:
        raise interrupt
    made: Made = task.result()
    return made


def awaited(work: Callable[[], Made], unwanted: Callable[[Made], None]) -> Made:
    """The result of long ``work``. An interrupt is raised at once.

    The work then continues to its end, and ``unwanted`` is called with its result.
    """
    task = _Task(work, unwanted)
    try:
        task.begin()
        task.wait()
    except BaseException:
        _LEFT.append(task)
        task.leave()
        raise
    return task.result()


def settle() -> None:
    """Wait for work whose caller was interrupted."""
    while _LEFT:
        while not _LEFT[0].settled:
            time.sleep(_LOOK_AGAIN)
        _LEFT.pop(0)


def _unused(made: Any) -> None:
    """The default for ``unwanted``: nothing has to be undone."""


class _Task(Generic[Made]):
    """Work in a thread of its own."""

    def __init__(self, work: Callable[[], Made], unwanted: Callable[[Made], None]) -> None:
        self.settled = False
        self._done = False
        self._gate = threading.Lock()
        self._gate.acquire()
        self._work = work
        self._unwanted = unwanted
        self._begun = threading.Lock()
        self._ending = threading.Lock()
        self._left = False
        self._made: list[Made] = []
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Start the thread; again if an interrupt may have struck the start: one does the work."""
        if not self._begun.locked():
            _thread.start_new_thread(self._run, ())

    def wait(self) -> None:
        """Wait until the work is done."""
        while not self._done:
            self._gate.acquire(timeout=_LOOK_AGAIN_LATER)

    def leave(self) -> None:
        """Give up the result: its caller was interrupted."""
        with self._ending:
            self._left = True
            if not self._done and self._begun.locked():
                return
        _thread.start_new_thread(self._undo, ())

    def result(self) -> Made:
        """The result of the work, or its error."""
        if self._error is not None:
            raise self._error
        return self._made[0]

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._error = error
        with self._ending:
            self._done = True
            left = self._left
        self._gate.release()
        if left:
            self._undo()

    def _undo(self) -> None:
        """Undo the result of the work; if the work has not begun, it never will."""
        self._begun.acquire(blocking=False)
        with suppress(Exception):  # no caller is left to hear of it
            for made in self._made:
                self._unwanted(made)
        self.settled = True


_LEFT: list[_Task[Any]] = []
