"""The input of an engine: one sequence of events, in arrival order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class Tuples:
    """Tuples of one stream, in arrival order. Each takes one position."""

    stream: str
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)


@dataclass(frozen=True)
class Merged:
    """Tuples of several streams, interleaved.

    ``which[i]`` says of which of ``streams`` the i-th arrival is; the tuples of one stream arrive
    in the order of its batch.
    """

    streams: tuple[str, ...]
    batches: tuple[pa.RecordBatch, ...]
    which: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.which)


@dataclass(frozen=True)
class Malformed:
    """A record of a stream that is no tuple of it: a dead letter to every query that reads it."""

    stream: str
    text: str
    reason: str


@dataclass(frozen=True)
class Punctuation:
    """A promise: no further tuple of ``stream`` whose attribute is below ``value``.

    ``value`` is physical (see :class:`penstock.sql.expressions.Literal`). ``attribute`` None means
    the stream's declared time attribute or, without one, whatever attribute a query's window is on.
    """

    stream: str
    value: object
    attribute: str | None = None


@dataclass(frozen=True)
class End:
    """The stream has no further tuples."""

    stream: str
