"""A bounded FIFO between one writer and one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any


class Fifo:
    """Messages in order, from one thread to another, without a lock.

    A deque's append and popleft are atomic. ``capacity`` is what a writer who can wait keeps to;
    a message that must leave (an acknowledgement) is taken beyond it, and such are few.
    """

    __slots__ = ("capacity", "messages")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.messages: deque[Any] = deque()
        """Those that wait; for others than the reader and the writer to look at only."""

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.messages)

    @property
    def has_room(self) -> bool:
        """Whether a writer who can wait need not."""
        return len(self.messages) < self.capacity

    def put(self, message: Any) -> None:
        """Add a message at the end."""
        self.messages.append(message)

    def first(self) -> Any:
        """The message that comes next, left where it is."""
        return self.messages[0]

    def get(self) -> Any:
        """Take the message that comes next."""
        return self.messages.popleft()
