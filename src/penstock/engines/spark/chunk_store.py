"""Where the chunks of a core's state are kept."""

from __future__ import annotations

from typing import Protocol


class ChunkStore(Protocol):
    """Bytes by key."""

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...
