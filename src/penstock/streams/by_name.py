"""Streams by name, as engines and binders know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.errors import InputError, named
from penstock.streams.schema import Stream


class StreamsByName:
    """Streams by name, without regard to case, in the order they were created.

    >>> import pyarrow as pa
    >>> streams = StreamsByName([Stream.of("R", pa.schema({"x": pa.int32()}))])
    >>> streams.get("r")
    Stream R (x int32)
    """

    def __init__(self, streams: Iterable[Stream] = ()) -> None:
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
        try:
            return self._streams.get(str.lower(name))
        except TypeError:
            named("stream", name)  # raises the error of a name that is no string
            raise

    def remove(self, name: str) -> None:
        """Forget a stream that is known."""
        del self._streams[name.lower()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(stream.name for stream in list(self))}>"

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._streams
