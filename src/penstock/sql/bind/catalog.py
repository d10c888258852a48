"""The streams that a query can name, and what it must write of them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.streams.by_name import StreamsByName
from penstock.streams.schema import Stream


class Catalog(StreamsByName):
    """The streams that a query can name.

    Parameters
    ----------
    streams
        The initial streams.
    windows_required
        Whether a stream of a join must have a window clause. If not, a bounded stream without one
        is ``[UNBOUNDED]``.
    """

    def __init__(self, streams: Iterable[Stream] = (), windows_required: bool = True) -> None:
        super().__init__(streams)
        self.windows_required = windows_required
