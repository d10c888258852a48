"""A thread that ends with its owner, and before the interpreter does.

The owner is what a caller holds, such as a driver. A finalizer that is a Python function could not
end its threads: the handler of a signal may raise in it, garbage collection drops what is raised
there, and the threads stay. The callback of this reference to the owner is ``SimpleQueue.put``,
which is written in C: no handler runs in it. It wakes the thread, which sees that its owner is
gone.

The interpreter does not wait for daemon threads when it exits. One that is in compiled code would
go on while destructors free what it works with, so every thread is asked to end before, and waited
for.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class OwnedThread(threading.Thread):
    """A thread that waits for items of a queue, and checks :attr:`must_end` after each."""

    def __init__(
        self, owner: object, name: str, run: Callable[[], None], rings: SimpleQueue[Any]
    ) -> None:
        super().__init__(target=run, name=f"penstock {name}", daemon=True)
        self._asked = False
        self._rings = rings
        self._owner = weakref.ref(owner, rings.put)

    @property
    def must_end(self) -> bool:
        """Whether it was asked to end, or its owner is gone."""
        return self._asked or self._owner() is None

    def ask_to_end(self) -> None:
        """Wake it, to end once the step under way is done."""
        self._asked = True
        self._rings.put(None)

    def wait_for_end(self) -> None:
        """Return once it has ended, or at once if it has never been started."""
        if self.is_alive() and self is not threading.current_thread():
            self.join()


def _end_all() -> None:
    threads = [thread for thread in threading.enumerate() if isinstance(thread, OwnedThread)]
    for thread in threads:
        thread.ask_to_end()
    for thread in threads:
        thread.wait_for_end()


atexit.register(_end_all)
