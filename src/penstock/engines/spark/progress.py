"""How far the cores have come, for whoever waits for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class Progress:
    """The position of each core. ``lock`` is held while a batch is taken."""

    def __init__(self, cores: int, at: Mapping[int, int]) -> None:
        self.lock = threading.Condition()
        self._cores = cores
        self.at = dict(at)

    @property
    def position(self) -> int:
        """Everything before it has been processed, by all cores."""
        return min(self.at.values()) if len(self.at) == self._cores else 0

    def moved(self, at: Mapping[int, int]) -> None:
        """Cores have come to these positions."""
        with self.lock:
            self.at.update(at)
            self.lock.notify_all()

    def wait_for(self, position: int, seconds: float) -> bool:
        """Wait until all cores are at ``position``; False if that takes longer."""
        with self.lock:
            return self.lock.wait_for(lambda: self.position >= position, seconds)
