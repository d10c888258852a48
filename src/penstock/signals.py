"""Steps that no signal interrupts: the handlers run right after the step.

Python calls signal handlers in the main thread, between any two bytecodes, and the handler of
Ctrl-C raises KeyboardInterrupt. A block that is interrupted in a step has tuples in its windows
that were not joined, so while blocks work every handler that is a Python function is deferred. The
second signal of a kind during one step is not deferred: a second Ctrl-C means that the user wants
out; :mod:`penstock.engines.shared.processing` handles the consequences.

CPython checks for signals when a function begins, after a call, and when a loop goes back; not
between other bytecodes. So consecutive assignments without a call between them are atomic, and a
comment says so where the code relies on it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import sys
import threading
from collections.abc import Callable
from itertools import compress
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]

# Without the enumerations that the module signal puts around them, which take ten times as long.
_handler_of: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal
_NUMBERS = tuple(sorted(int(number) for number in signal.valid_signals()))


def uninterrupted(step: Callable[[], T]) -> T:
    """Run a step to its end; then call the handlers of the signals that arrived.

    An exception of such a handler replaces the result of the step.
    """
    return _deferring(step, _DeferredHandlers())


def undivided(step: Callable[[], T]) -> T:
    """As :func:`uninterrupted`, however many signals arrive: for steps that take little time."""
    return _deferring(step, _PatientHandlers())


def _deferring(step: Callable[[], T], deferred: _DeferredHandlers) -> T:
    if threading.get_ident() != threading.main_thread().ident:
        return step()
    try:
        deferred.install()
        return step()
    finally:
        try:
            deferred.restore()
        except BaseException:  # of a second signal, perhaps where restoring begins
            deferred.restore()
            raise
        finally:
            deferred.deliver()


class _DeferredHandlers:
    """The original handlers, and the signals that arrived for them."""

    def __init__(self) -> None:
        self._originals: dict[int, Handler] = {}
        self._pending: list[int] = []

    def install(self) -> None:
        """Replace each handler that is a Python function by one that records the signal."""
        for number in compress(_NUMBERS, map(callable, map(_handler_of, _NUMBERS))):
            self._originals[number] = _handler_of(number)
            _set_handler(number, self._record)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if number not in self._pending:
            self._pending.append(number)
            return
        handler = self._originals[number]
        self._pending.remove(number)
        handler(number, frame)
        handler(number, frame)

    def restore(self) -> None:
        """Restore the handlers, except where another one was set meanwhile."""
        try:
            self._restore_all()
        except BaseException:  # raised by a handler that was already restored
            self.restore()
            raise

    def _restore_all(self) -> None:
        while self._originals:
            number = next(iter(self._originals))
            if _handler_of(number) == self._record:
                _set_handler(number, self._originals[number])
            del self._originals[number]

    def deliver(self) -> None:
        """Call the present handlers of the signals that arrived."""
        while self._pending:
            handler = _handler_of(self._pending[0])
            number = self._pending.pop(0)
            try:
                if callable(handler):
                    handler(number, sys._getframe(2))
            except BaseException:
                for other in self._pending:  # Python calls their handlers when it can
                    signal.raise_signal(other)
                raise


class _PatientHandlers(_DeferredHandlers):
    """As those, for second signals too."""

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._pending.append(number)
