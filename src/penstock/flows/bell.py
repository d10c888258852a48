"""How a thread with nothing to do waits for one that has something for it."""

from __future__ import annotations

from queue import SimpleQueue


class Bell:
    """Rung by any thread, waited for by one.

    Whoever waits says so first, looks once more whether there is nothing to do, and then waits. A
    ring costs a thread that works nothing but a look at a flag; and one too many costs whoever
    waits one more look.
    """

    __slots__ = ("_rings", "is_awaited")

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self.is_awaited = False

    def ring(self) -> None:
        """Wake whoever waits or is about to."""
        if self.is_awaited:
            self.is_awaited = False
            self._rings.put(None)

    def wait(self) -> None:
        """Until it is rung; :attr:`is_awaited` was set before."""
        self._rings.get()
        self.is_awaited = False

    @property
    def has_rung(self) -> bool:
        """Whether a ring has not been heard yet."""
        return not self._rings.empty()
