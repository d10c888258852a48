"""Copies of chunks on this machine, for a worker that is handed another worker's core.

Spark does not tie a core to a worker: the next trigger of a core may run in a worker that does not
have its windows in memory. It would read them through Spark, which takes ten times as long as to
read a file. So whoever writes a chunk to the state also leaves it in a folder, under the hash of
its content, and the state says which hashes it has. A copy is therefore the right one or none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path


def digest(data: bytes) -> str:
    """The name of a content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Copies:
    """A folder of chunks. Nothing depends on it: what it lacks or cannot keep is in the state.

    ``folder`` is asked when it is needed.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._ask = folder

    @functools.cached_property
    def _folder(self) -> Path:
        return self._ask()

    def keep(self, name: str, data: bytes) -> None:
        """Leave a copy of a content whose digest is ``name``."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._folder / f"{uuid.uuid4().hex}.unfinished"
            unfinished.write_bytes(data)
            os.replace(unfinished, self._folder / name)

    def find(self, name: str) -> bytes | None:
        """The content with this digest, if it is here."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        return data if digest(data) == name else None

    def forget(self, name: str) -> None:
        """The content is needed no more."""
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
