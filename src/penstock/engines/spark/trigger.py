"""One trigger of one core: load or remember the host, let it work, write what changed.

The state store is the truth. A worker keeps the host it has just used in memory, under a random
token that it wrote with the same state commit, and uses it again only if the state has that token.
A batch number would not do: an attempt that failed has one too. A host is taken out of the memory
while an attempt uses it, so that one that fails leaves nothing behind; and an attempt that ends but
is never committed leaves a token that no state has.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import Host, HostOptions, Output, StateStore
from penstock.engines.spark.state import FORMAT
from penstock.errors import StateError


class Head(NamedTuple):
    """What a core's state says of itself: whether it can be read, where it stands, its token."""

    format: int
    cores: int
    position: int
    token: str


class CoreStore(StateStore, Protocol):
    """All the state of a core."""

    def head(self) -> Head | None:
        """None if nothing was ever written."""

    def set_head(self, head: Head) -> None: ...

    def texts(self) -> dict[str, str]: ...

    def chunks(self) -> dict[str, bytes]: ...


H = TypeVar("H")


class HostMemory(Generic[H]):
    """The hosts that this process has used last, each with the token of the state it is at."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._hosts: OrderedDict[tuple[str, int, int], tuple[str, H]] = OrderedDict()

    def take(self, options: HostOptions, token: str) -> H | None:
        """The host if it is at that token; it is in the memory no longer either way."""
        known, host = self._hosts.pop(_place(options), ("", None))
        return host if known == token else None

    def put(self, options: HostOptions, token: str, host: H) -> None:
        """Remember a host that is at that token."""
        self._hosts[_place(options)] = (token, host)
        while len(self._hosts) > self._most:
            self._hosts.popitem(last=False)


def _place(options: HostOptions) -> tuple[str, int, int]:
    return options.checkpoint, options.cores, options.core


def trigger(
    options: HostOptions, frames: Iterable[Frame], store: CoreStore, memory: HostMemory[Host]
) -> Iterator[Output]:
    """Take the frames of a trigger in the order of their positions, whatever order they come in."""
    host = _host(options, store, memory)
    yield from host.take(sorted(frames, key=lambda frame: frame.first))
    host.save(store)
    token = uuid.uuid4().hex
    store.set_head(Head(FORMAT, options.cores, host.position, token))
    memory.put(options, token, host)


def _host(options: HostOptions, store: CoreStore, memory: HostMemory[Host]) -> Host:
    """The host at the state of the store: from memory if it is that very one, else loaded."""
    head = store.head()
    if head is None:
        return Host(options)
    if (head.format, head.cores) != (FORMAT, options.cores):
        raise StateError(
            f"the checkpoint has state of format {head.format} for {head.cores} cores; "
            f"this is format {FORMAT} with {options.cores} cores",
            f"Run it with cores={head.cores} and the version of Penstock that wrote it.",
        )
    host = memory.take(options, head.token)
    if host is None:
        host = Host(options)
        host.load(head.position, store.texts(), store.chunks())
    return host
