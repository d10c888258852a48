"""The input of an engine: one sequence of events in arrival order."""

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

    ``which[i]`` is the index in ``streams`` of the i-th arrival; the tuples of one stream arrive in
    the order of its batch.
    """

    streams: tuple[str, ...]
    batches: tuple[pa.RecordBatch, ...]
    which: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.which)


@dataclass(frozen=True)
class Malformed:
    """A record that does not fit its stream: a dead letter for every query that reads it."""

    stream: str
    text: str
    reason: str


@dataclass(frozen=True)
class Punctuation:
    """A punctuation: no further tuple of ``stream`` has an ``attribute`` below ``value``.

    ``value`` is physical (see :class:`penstock.sql.expressions.Literal`). ``attribute`` None means
    the stream's declared time attribute or, without one, the attribute that a query's window is on.
    """

    stream: str
    value: object
    attribute: str | None = None


@dataclass(frozen=True)
class End:
    """The stream has no further tuples."""

    stream: str
