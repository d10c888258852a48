"""The state of a core in Spark's state store: one map from keys to bytes.

A variable of Spark's costs every trigger thirty milliseconds before anything is read from it, so
there is one. Under ``head`` it has what the state says of itself, and which other keys there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.engines.spark.copies import Copies, digest
from penstock.engines.spark.trigger import Head

_HEAD = "head"


class ByteMap(Protocol):
    """The part of Spark's ``MapState`` that is used here. Keys and values are rows of one field."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...

    def removeKey(self, key: tuple[Any, ...]) -> None: ...


@dataclass
class _Index:
    """Which keys there are: texts, and chunks with the digests of their content."""

    texts: list[str] = field(default_factory=list)
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
        saved = json.loads(found)
        self._index = _Index(saved["texts"], saved["chunks"])
        return Head(*saved["head"])

    def set_head(self, head: Head) -> None:
        saved = {"head": list(head), **vars(self._index)}
        self._values.updateValue((_HEAD,), (json.dumps(saved).encode(),))

    def texts(self) -> dict[str, str]:
        return {key: self._found(f"text {key}").decode() for key in self._index.texts}

    def chunks(self) -> dict[str, bytes]:
        copies = {key: self._copies.find(name) for key, name in self._index.chunks.items()}
        return {
            key: self._found(f"chunk {key}") if copy is None else copy
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
        if key not in self._index.texts:
            self._index.texts.append(key)

    def delete_text(self, key: str) -> None:
        self._values.removeKey((f"text {key}",))
        self._index.texts.remove(key)

    def _read(self, key: str) -> bytes | None:
        found = self._values.getValue((key,))
        return None if found is None else bytes(found[0])

    def _found(self, key: str) -> bytes:
        found = self._read(key)
        assert found is not None, f"the index has {key!r} and the state has not"
        return found
