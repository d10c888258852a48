"""The state of a core in Spark's state store: one map from keys to bytes.

A state variable costs thirty milliseconds per trigger before anything is read from it, so there is
one. Its key ``head`` has the header of the state and the index of all other keys, with digests of
their content, so that a damaged value is found.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.engines.spark.core.trigger import Head
from penstock.engines.spark.state.chunks import FORMAT
from penstock.errors import StateError

_HEAD = "head"


class ByteMap(Protocol):
    """The part of Spark's ``MapState`` that is used here. Keys and values are rows of one field."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...

    def removeKey(self, key: tuple[Any, ...]) -> None: ...


@dataclass
class _Index:
    """The keys of texts and chunks, with the digests of their content."""

    texts: dict[str, str] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)


class SparkStore:
    """A store of chunks and texts. ``head`` is asked first in every trigger: it reads the index."""

    def __init__(self, values: ByteMap, folder: Callable[[], Path]) -> None:
        self._values = values
        self._copies = Copies(folder)
        self._index = _Index()

    def head(self) -> Head | None:
        found = self._read(_HEAD)
        if found is None:
            self._index = _Index()
            return None
        try:
            saved = json.loads(found)
            self._index = _Index(saved["texts"], saved["chunks"])
            head = Head(*saved["head"])
            written = saved.get("digest")
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(_HEAD) from error
        if head.format == FORMAT and written != self._digest(head):
            raise _damaged(_HEAD)
        return head

    def _digest(self, head: Head) -> str:
        return digest(json.dumps([list(head), vars(self._index)], sort_keys=True).encode())

    def set_head(self, head: Head) -> None:
        saved = {"head": list(head), **vars(self._index), "digest": self._digest(head)}
        self._values.updateValue((_HEAD,), (json.dumps(saved).encode(),))

    def texts(self) -> dict[str, str]:
        return {
            key: self._found(f"text {key}", name).decode()
            for key, name in self._index.texts.items()
        }

    def chunks(self) -> dict[str, bytes]:
        copies = {key: self._copies.find(name) for key, name in self._index.chunks.items()}
        return {
            key: self._found(f"chunk {key}", self._index.chunks[key]) if copy is None else copy
            for key, copy in copies.items()
        }

    def put(self, key: str, data: bytes) -> None:
        before, name = self._index.chunks.get(key), digest(data)
        self._values.updateValue((f"chunk {key}",), (data,))
        self._index.chunks[key] = name
        self._copies.keep(name, data)
        if before is not None and before != name:
            self._copies.forget(before)

    def delete(self, key: str) -> None:
        self._values.removeKey((f"chunk {key}",))
        self._copies.forget(self._index.chunks.pop(key))

    def put_text(self, key: str, text: str) -> None:
        self._values.updateValue((f"text {key}",), (text.encode(),))
        self._index.texts[key] = digest(text.encode())

    def delete_text(self, key: str) -> None:
        self._values.removeKey((f"text {key}",))
        del self._index.texts[key]

    def _read(self, key: str) -> bytes | None:
        found = self._values.getValue((key,))
        return None if found is None else bytes(found[0])

    def _found(self, key: str, name: str) -> bytes:
        found = self._read(key)
        if found is None or digest(found) != name:
            raise _damaged(key)
        return found


def _damaged(key: str) -> StateError:
    return StateError(
        f"the state in Spark's checkpoint is damaged: it has not what was written under {key!r}",
        "Put the checkpoint back from a copy, or start with an empty one.",
    )


def digest(data: bytes) -> str:
    """The digest of a content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Copies:
    """A folder of copies of chunks on this machine. It is a cache: the state has all chunks.

    Spark does not bind a core to a worker: the next trigger of a core may run in a worker without
    its windows in memory. To read them through Spark takes ten times as long as to read a file. So
    a chunk that is written to the state is also copied to the folder, under the hash of its
    content, and the state has the hashes. A copy is therefore the right one or missing.
    ``folder`` is called when the path is needed.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._ask = folder

    @functools.cached_property
    def _folder(self) -> Path:
        return self._ask()

    def keep(self, name: str, data: bytes) -> None:
        """Write a copy of a content whose digest is ``name``."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._folder / f"{uuid.uuid4().hex}.unfinished"
            unfinished.write_bytes(data)
            os.replace(unfinished, self._folder / name)

    def find(self, name: str) -> bytes | None:
        """The content with this digest, if there is a copy."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        return data if digest(data) == name else None

    def forget(self, name: str) -> None:
        """Delete the copy of a content."""
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
