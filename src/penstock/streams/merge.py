"""Several files as one sequence of arrivals, merged by the order column.

Each source holds one batch. Let m be the source whose batch has the smallest last key (the first
of them in the query's order). Whatever m or any other source still has to read comes after m's
last row: m's own rows are sorted, and every other source's batch ends at or after that key. So all
of m's batch can go out, with the rows of earlier sources up to and including that key (their ties
come first) and of later sources below it (m may have more ties). A stable sort of these keys,
sources concatenated in the query's order, is the arrival order with its ties settled. Then m reads
on. The cut into batches changes which rows go out together, never their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InputError
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.files import Part, Source
from penstock.streams.literals import format_array, format_rows
from penstock.streams.order import OrderColumn, order_columns
from penstock.streams.schema import Stream

Arrival = Tuples | Merged | Malformed | Punctuation | End
Keys = npt.NDArray[Any]


def merge(
    sources: Sequence[Source],
    order_by: str | None,
    batch_rows: int = 65_536,
    punctuated: Collection[str] = (),
) -> Iterator[Arrival]:
    """The events of the sources in arrival order, an End for each included.

    The streams named in ``punctuated`` are also punctuated on the order column from time to time,
    for windows that nothing else would ever let expire.

    With an order column, ties go by the order of ``sources``, then by row; a NULL there is a dead
    letter, and a file that is not sorted by it an InputError. One source alone is taken as it
    comes; so are several without an order column, one after another.
    """
    if order_by is None or len(sources) == 1:
        for source in sources:
            column = None if order_by is None else order_columns([source.stream], order_by)[0]
            for part in source.parts(batch_rows):
                yield from (piece.event for piece in _without_nulls(part, column))
            yield End(source.stream.name)
        return
    columns = order_columns([source.stream for source in sources], order_by)
    feeds = [
        _Feed(source.stream, column, source.parts(batch_rows))
        for source, column in zip(sources, columns, strict=True)
    ]
    yield from _merge_feeds(feeds, punctuated)


def _merge_feeds(feeds: list[_Feed], punctuated: Collection[str]) -> Iterator[Arrival]:
    for feed in feeds:
        yield from feed.refill()
    while open_feeds := [feed for feed in feeds if not feed.ended]:
        limit = min(range(len(open_feeds)), key=lambda i: (open_feeds[i].keys[-1], i))
        frontier = open_feeds[limit].keys[-1]
        yield _interleave(open_feeds, limit, frontier)
        for feed in open_feeds:
            if feed.stream.name in punctuated:
                yield feed.column.punctuation(frontier)
        yield from open_feeds[limit].refill()


def _interleave(feeds: list[_Feed], limit: int, frontier: Any) -> Merged | Tuples:
    """Everything up to the end of ``feeds[limit]``'s batch."""
    taken: list[tuple[str, pa.RecordBatch, Keys]] = []
    for index, feed in enumerate(feeds):
        side = "right" if index <= limit else "left"
        count = int(np.searchsorted(feed.keys, frontier, side=side))  # type: ignore[call-overload]
        if count:
            taken.append((feed.stream.name, *feed.take(count)))
    if len(taken) == 1:
        return Tuples(taken[0][0], taken[0][1])
    sizes = [len(keys) for _, _, keys in taken]
    owner = np.repeat(np.arange(len(taken), dtype=np.int8), sizes)
    order = np.argsort(np.concatenate([keys for _, _, keys in taken]), kind="stable")
    names = tuple(name for name, _, _ in taken)
    return Merged(names, tuple(batch for _, batch, _ in taken), owner[order])


@dataclass
class _Feed:
    """One source: the batch it holds, the keys of it, and where it came from."""

    stream: Stream
    column: OrderColumn
    parts: Iterator[Part]
    pending: list[Part] = field(default_factory=list)
    batch: pa.RecordBatch | None = None
    keys: Keys = field(default_factory=lambda: np.empty(0))
    last: Any = None
    last_text: str = ""
    ended: bool = False

    def refill(self) -> Iterator[Arrival]:
        """Hold the next batch; the dead letters before it, or the End, go out."""
        while True:
            while self.pending:
                part = self.pending.pop(0)
                if isinstance(part.event, Tuples):
                    self._hold(part, part.event)
                    return
                yield part.event
            following = next(self.parts, None)
            if following is None:
                self.ended = True
                yield End(self.stream.name)
                return
            self.pending = _without_nulls(following, self.column)

    def _hold(self, part: Part, tuples: Tuples) -> None:
        self.batch = tuples.batch
        self.keys = self.column.keys(tuples.batch)
        self._check_sorted(part)
        self.last = self.keys[-1]
        self.last_text = self.column.text(tuples.batch, len(tuples) - 1)

    def _check_sorted(self, part: Part) -> None:
        assert self.batch is not None
        back = np.flatnonzero(self.keys[1:] < self.keys[:-1])
        row: int | None = int(back[0]) + 1 if len(back) else None
        before = "" if row is None else self.column.text(self.batch, row - 1)
        if self.last is not None and self.keys[0] < self.last:
            row, before = 0, self.last_text
        if row is not None:
            raise InputError(
                f"{part.origin} is not sorted by {self.column.name}: {part.unit} "
                f"{part.first_row + row} has {self.column.text(self.batch, row)} after {before}",
                f"Sort it by {self.column.name}; streams that are merged must be in order.",
            )

    def take(self, count: int) -> tuple[pa.RecordBatch, Keys]:
        """The first ``count`` rows of the batch and their keys; the rest stays."""
        assert self.batch is not None
        taken = self.batch.slice(0, count), self.keys[:count]
        self.batch, self.keys = self.batch.slice(count), self.keys[count:]
        return taken


def _without_nulls(part: Part, column: OrderColumn | None) -> list[Part]:
    """The part, cut where the order column is NULL or NaN: those rows are dead letters."""
    if column is None or not isinstance(part.event, Tuples):
        return [part]
    array: Any = part.event.batch.column(column.index)
    unordered = pc.is_null(array, nan_is_null=True)
    if array.null_count == 0 and not (
        pa.types.is_floating(array.type) and pc.any(unordered).as_py()
    ):
        return [part]
    pieces: list[Part] = []
    start, batch = 0, part.event.batch
    for found in np.flatnonzero(unordered.to_numpy(zero_copy_only=False)):
        row = int(found)
        if row > start:
            pieces.append(_piece(part, batch, start, row))
        number = part.first_row + row
        value = format_array(array.slice(row, 1))[0]
        reason = f"{value} in order column {column.name} ({part.short}, {part.unit} {number})"
        letter = Malformed(part.event.stream, format_rows(batch.slice(row, 1))[0], reason)
        pieces.append(replace(part, event=letter, first_row=number))
        start = row + 1
    if start < batch.num_rows:
        pieces.append(_piece(part, batch, start, batch.num_rows))
    return pieces


def _piece(part: Part, batch: pa.RecordBatch, start: int, end: int) -> Part:
    tuples = Tuples(part.event.stream, batch.slice(start, end - start))
    return replace(part, event=tuples, first_row=part.first_row + start)
