"""Merges several sources into one arrival order, by the order column.

Each source holds one batch. Let m be the source whose batch has the smallest last key (the first of
them in the query's order). No unread row belongs before m's last row: m is sorted, and every other
source's batch ends at or after that key. So all of m's batch can go out, together with the rows of
earlier sources up to and including that key (their ties come first) and those of later sources
below it (m may have more ties). A stable sort of these keys, with the sources concatenated in the
query's order, is the arrival order with its ties settled. Then m reads its next batch. The cut into
batches decides which rows go out together, never their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.files import Part, Source
from penstock.errors import InputError
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
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
    """Yield the events of the sources in arrival order, with an End for each.

    The streams named in ``punctuated`` also get punctuations on the order column from time to time,
    for windows that nothing else would let expire.

    With an order column, ties are settled by the order of ``sources``, then by row. A row with NULL
    there is a dead letter, and a file that is not sorted by it an InputError. A single source is
    read as it is. Without an order column the sources follow one another.
    """
    if order_by is None or len(sources) == 1:
        for source in sources:
            column: OrderColumn | None = None
            if order_by is not None and source.stream.index_of(order_by) is not None:
                [column] = order_columns([source.stream], order_by)
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
    """Everything up to the end of ``feeds[limit]``'s batch, in arrival order."""
    runs: list[tuple[str, pa.RecordBatch, Keys]] = []
    for index, feed in enumerate(feeds):
        side = "right" if index <= limit else "left"
        count = int(np.searchsorted(feed.keys, frontier, side=side))  # type: ignore[call-overload]
        if count:
            runs.append((feed.stream.name, *feed.take(count)))
    if len(runs) == 1:
        return Tuples(runs[0][0], runs[0][1])
    sizes = [len(keys) for _, _, keys in runs]
    owner = np.repeat(np.arange(len(runs), dtype=np.int8), sizes)
    order = np.argsort(np.concatenate([keys for _, _, keys in runs]), kind="stable")
    names = tuple(name for name, _, _ in runs)
    return Merged(names, tuple(batch for _, batch, _ in runs), owner[order])


@dataclass
class _Feed:
    """One source, with its current batch and the batch's keys."""

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
        """Read the next batch; yields the dead letters before it, or the End."""
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
                f"Sort it by {self.column.name}. Or, if its tuples arrived in this order, merge by "
                f"a column that tells when, and write {self.column.name} as WATTR with SLACK: that "
                "is for times that go back as tuples arrive.",
            )

    def take(self, count: int) -> tuple[pa.RecordBatch, Keys]:
        """Take the first ``count`` rows of the batch, with their keys."""
        assert self.batch is not None
        rows = self.batch.slice(0, count), self.keys[:count]
        self.batch, self.keys = self.batch.slice(count), self.keys[count:]
        return rows


def _without_nulls(part: Part, column: OrderColumn | None) -> list[Part]:
    """The part, cut where the order column is NULL or NaN: those rows become dead letters."""
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
