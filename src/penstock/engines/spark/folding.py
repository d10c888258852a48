"""Tuples are folded where the log is read, so that partial results go to the cores instead.

Which aggregates there are is a hint: the driver writes its registry beside the log, and whoever
reads a segment folds for those it finds there. A core merges what was folded for the very program
that it has, if it may (:mod:`penstock.blocks.folded_run`); if it may not, it reads the tuples from
the log, which holds them until the trigger is committed. So the rows do not depend on the hint.

Neighbouring frames of a task are folded into one. Frames with tuples that are late or dead, or
whose expressions fail, are left as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate_clock import Closings
from penstock.blocks.folded_run import FoldedRun, RunFolding, foldable
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running import Known
from penstock.engines.spark import log
from penstock.engines.spark.column_chunks import packed_columns, unpacked_columns
from penstock.engines.spark.frames import Frame, from_ipc, one_batch, to_batch
from penstock.engines.spark.partial_frames import pack_partial, unpack_partial
from penstock.program.blocks import AggregateRows

FOLDED = "folded"
FEWEST = 1024
"""Fewer tuples go to the cores as they are."""

Folds = Mapping[str, list[AggregateRows]]
"""The aggregates that read each stream, by its name in lower case."""

Q = TypeVar("Q", bound=Known)


def key_of(stream: str, aggregate: AggregateRows) -> str:
    """What tells an aggregate from any other that would fold the same tuples otherwise."""
    text = repr((stream.lower(), aggregate)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def folds_in(registry: Registry[Q]) -> Folds:
    """The streams that aggregates alone read which can be folded."""
    found: dict[str, list[AggregateRows]] = {}
    others: set[str] = set()
    for query in registry.queries.values():
        aggregate = None if query.derived else foldable(query.program)
        for scan in query.program.scans:
            if aggregate is None:
                others.add(scan.stream.name.lower())
            else:
                found.setdefault(scan.stream.name.lower(), []).append(aggregate)
    return {stream: found[stream] for stream in found.keys() - others}


@dataclass
class _Group:
    """Neighbouring frames of one stream, folded for every aggregate that reads it."""

    stream: str
    aggregates: list[AggregateRows]
    cores: int
    frames: list[pa.RecordBatch] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    tuples: int = 0

    def __post_init__(self) -> None:
        self._foldings = [RunFolding(one, self.stream) for one in self.aggregates]
        self._sound = True

    def look(self, batch: pa.RecordBatch) -> list[Callable[[], bool]] | None:
        """What folds the tuples in for all of the aggregates; None if one cannot take them."""
        found = [folding.look(batch) for folding in self._foldings]
        folds = [fold for fold in found if fold is not None]
        return folds if len(folds) == len(found) else None

    def take(
        self, folds: list[Callable[[], bool]], frame: pa.RecordBatch, place: tuple[str, int]
    ) -> None:
        """Fold a frame in."""
        self.frames.append(frame)
        self.places.append(place)
        self.tuples += frame.column("count")[0].as_py()
        self._sound = all([fold() for fold in folds]) and self._sound

    @property
    def is_full(self) -> bool:
        return any(folding.is_full for folding in self._foldings)

    def made(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """One frame instead of all, or those that there are."""
        if not self._sound or self.tuples < FEWEST:
            yield from self.frames
            return
        parts = [
            _pack(run)
            for one, folding in zip(self.aggregates, self._foldings, strict=True)
            for run in folding.made(_shares(one, self.cores))
        ]
        if not _is_smaller(parts, self.frames):
            yield from self.frames
            return
        header = {
            "stream": self.stream,
            "folder": str(folder),
            "places": self.places,
            "keys": [key_of(self.stream, one) for one in self.aggregates],
            "shares": [_shares(one, self.cores) for one in self.aggregates],
            "sizes": [len(part) for part in parts],
        }
        first = self.frames[0].column("first")[0].as_py()
        yield to_batch([Frame(first, self.tuples, FOLDED, json.dumps(header), b"".join(parts))])


def _is_smaller(parts: Iterable[bytes], frames: Iterable[pa.RecordBatch]) -> bool:
    """Whether partial results are less to send than the tuples they are of."""
    return sum(map(len, parts)) < sum(frame.nbytes for frame in frames)


def _shares(aggregate: AggregateRows, cores: int) -> int:
    """Among how many cores the groups of an aggregate are divided."""
    return cores if aggregate.keys else 1


def folded(
    folder: Path, segments: Iterable[log.Segment], folds: Folds, cores: int
) -> Iterator[pa.RecordBatch]:
    """The frames of segments, those of streams with such aggregates folded for so many cores."""
    group: _Group | None = None
    for segment in segments:
        rows = (b.slice(i, 1) for b in log.read(folder, segment) for i in range(b.num_rows))
        for number, row in enumerate(rows):
            stream = row.column("header")[0].as_py()
            known = row.column("kind")[0].as_py() == "tuples" and folds.get(stream.lower())
            batch = _tuples(row) if known else None
            if group is not None and (batch is None or stream != group.stream or group.is_full):
                yield from group.made(folder)
                group = None
            if not known or batch is None:
                yield row
                continue
            group = _Group(stream, known, cores) if group is None else group
            way = group.look(batch)
            if way is not None:
                group.take(way, row, (segment.name, number))
                continue
            yield from group.made(folder)
            group = None
            yield row
    if group is not None:
        yield from group.made(folder)


def _tuples(row: pa.RecordBatch) -> pa.RecordBatch:
    payload: Any = row.column("payload")[0]
    return one_batch(from_ipc(payload.as_buffer()))


def _pack(run: FoldedRun) -> bytes:
    part = pack_partial(run.part)
    columns = {
        "positions": run.closings.positions,
        "windows": run.closings.windows,
        "arrived": run.closings.arrived,
        "disordered": np.array([run.disordered]),
        "part": np.frombuffer(part, np.uint8),
    }
    return packed_columns(columns)


def _unpack(data: memoryview, first: int) -> FoldedRun:
    columns = unpacked_columns(data)
    closings = Closings(first + columns["positions"], columns["windows"], columns["arrived"])
    part = unpack_partial(columns["part"].data)
    return FoldedRun(part, closings, bool(columns["disordered"][0]))


class FoldedFrame:
    """A frame of partial results, in a core."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._header = json.loads(frame.header)
        self.stream: str = self._header["stream"]

    def run(self, aggregate: AggregateRows, core: int) -> FoldedRun | None:
        """What was folded for this aggregate in a core; None if nothing was."""
        key = key_of(self.stream, aggregate)
        keys, shares, sizes = (self._header[name] for name in ("keys", "shares", "sizes"))
        if key not in keys:
            return None
        place = keys.index(key)
        place = sum(shares[:place]) + (core if shares[place] > 1 else 0)
        start = sum(sizes[:place])
        view = memoryview(self._frame.payload)[start : start + sizes[place]]
        return _unpack(view, self._frame.first)

    def frames(self) -> Iterator[Frame]:
        """The frames that were folded, from the log."""
        folder = Path(self._header["folder"])
        for name, number in self._header["places"]:
            batches = log.read(folder, log.segment_of(name))
            table = pa.Table.from_batches(batches)
            [row] = table.slice(number, 1).to_pylist()
            yield Frame(**row)
