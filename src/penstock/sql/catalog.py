"""The streams that a query can name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.errors import InputError
from penstock.streams.schema import Stream


class Catalog:
    """Streams by name, without regard to case, in the order they were created.

    Parameters
    ----------
    streams
        The streams known from the start.
    windows_required
        Whether a stream of a join must have a window clause. Where it need not, a bounded stream
        without one is ``[UNBOUNDED]``.

    >>> import pyarrow as pa
    >>> catalog = Catalog([Stream.of("R", pa.schema({"x": pa.int32()}))])
    >>> catalog.get("r")
    Stream R (x int32)
    """

    def __init__(self, streams: Iterable[Stream] = (), windows_required: bool = True) -> None:
        self.windows_required = windows_required
        self._streams: dict[str, Stream] = {}
        for stream in streams:
            self.add(stream)

    def add(self, stream: Stream) -> None:
        """Make the stream known; a name can be used once."""
        if stream.name.lower() in self._streams:
            raise InputError(
                f"stream {stream.name} exists already",
                "Choose another name; names are compared without regard to case.",
            )
        self._streams[stream.name.lower()] = stream

    def get(self, name: str) -> Stream | None:
        """The stream of that name, or None."""
        return self._streams.get(name.lower())

    def remove(self, name: str) -> None:
        """Forget a stream that is known."""
        del self._streams[name.lower()]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._streams
