"""Folding at the source: the readers of the log send partial results to the cores.

Which aggregates there are is a hint: the driver writes its registry beside the log, and the reader
of a segment folds for the programs it finds there. A core merges what was folded for the program
that it has, by its digest, if it may (:mod:`penstock.blocks.aggregate.folding`); if it may not,
it reads the tuples from the log, which holds them until the trigger is committed. So the rows do
not depend on the hint.

Neighbouring frames of a task are folded into one. Frames with tuples that are late or dead, or
whose expressions fail, are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.clock import Closings
from penstock.blocks.aggregate.folding import FoldedRun, RunFolding, foldable
from penstock.engines.spark.core.frames import (
    Frame,
    from_ipc,
    one_batch,
    pack_partial,
    to_batch,
    unpack_partial,
)
from penstock.engines.spark.resident.log import Log, Segment, segment_of
from penstock.engines.spark.state.column_chunks import packed_columns, unpacked_columns
from penstock.program.isa.block_instructions import AggregateRows, Program
from penstock.program.isa.instructions import Derive, Install, Instruction
from penstock.tuning import TUNING

FOLDED = "folded"

Folds = Mapping[str, list[Program]]
"""The programs with an aggregate that read each stream, by its name in lower case."""


def folds_in(instructions: Iterable[Instruction]) -> Folds:
    """The streams that only aggregates read and that can be folded, from the instructions."""
    found: dict[str, list[Program]] = {}
    others: set[str] = set()
    for one in instructions:
        if not isinstance(one, Install | Derive):
            continue
        assert isinstance(one.program, Program)
        folds = isinstance(one, Install) and foldable(one.program) is not None
        for scan in one.program.scans:
            if folds:
                found.setdefault(scan.stream.name.lower(), []).append(one.program)
            else:
                others.add(scan.stream.name.lower())
    return {stream: found[stream] for stream in found.keys() - others}


@dataclass
class _Group:
    """Neighbouring frames of one stream, folded for every aggregate that reads it."""

    stream: str
    programs: list[Program]
    cores: int
    frames: list[pa.RecordBatch] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    tuples: int = 0

    def __post_init__(self) -> None:
        found = [foldable(program) for program in self.programs]
        self._aggregates = [one for one in found if one is not None]
        self._foldings = [RunFolding(one, self.stream) for one in self._aggregates]
        self._sound = True

    def look(self, batch: pa.RecordBatch) -> list[Callable[[], bool]] | None:
        """The folders of all aggregates of the stream; None if one cannot take the tuples."""
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

    def made(self, log: Log) -> Iterator[pa.RecordBatch]:
        """One frame of partial results, or the frames as they were."""
        if not self._sound or self.tuples < TUNING.fewest_to_fold:
            yield from self.frames
            return
        parts = [
            _pack(run)
            for one, folding in zip(self._aggregates, self._foldings, strict=True)
            for run in folding.made(_shares(one, self.cores))
        ]
        if not _is_smaller(parts, self.frames):
            yield from self.frames
            return
        header = {
            "stream": self.stream,
            "folder": str(log.folder),
            "owner": log.owner,
            "places": self.places,
            "programs": [program.digest for program in self.programs],
            "shares": [_shares(one, self.cores) for one in self._aggregates],
            "sizes": [len(part) for part in parts],
        }
        first = self.frames[0].column("first")[0].as_py()
        yield to_batch([Frame(first, self.tuples, FOLDED, json.dumps(header), b"".join(parts))])


def _is_smaller(parts: Iterable[bytes], frames: Iterable[pa.RecordBatch]) -> bool:
    """Whether the partial results are smaller than their tuples."""
    return sum(map(len, parts)) < sum(frame.nbytes for frame in frames)


def _shares(aggregate: AggregateRows, cores: int) -> int:
    """The number of cores that share the groups of an aggregate."""
    return cores if aggregate.keys else 1


def folded(
    log: Log, segments: Iterable[Segment], folds: Folds, cores: int
) -> Iterator[pa.RecordBatch]:
    """Frames of segments: partial results of streams that can be folded, for ``cores`` cores.

    A segment without such a stream is left to the cores, which read it themselves.
    """
    group: _Group | None = None
    for segment in segments:
        rows = [b.slice(i, 1) for b in log.read(segment) for i in range(b.num_rows)]
        readers = [_readers(row, folds) for row in rows]
        if not any(readers):
            rows, readers = [to_batch([log.reference(segment)])], [None]
        for number, (row, known) in enumerate(zip(rows, readers, strict=True)):
            stream = row.column("header")[0].as_py()
            batch = _tuples(row) if known else None
            if group is not None and (batch is None or stream != group.stream or group.is_full):
                yield from group.made(log)
                group = None
            if not known or batch is None:
                yield row
                continue
            group = _Group(stream, known, cores) if group is None else group
            way = group.look(batch)
            if way is not None:
                group.take(way, row, (segment.name, number))
                continue
            yield from group.made(log)
            group = None
            yield row
    if group is not None:
        yield from group.made(log)


def _readers(row: pa.RecordBatch, folds: Folds) -> list[Program] | None:
    """The programs for which a frame may be folded, if any."""
    if row.column("kind")[0].as_py() != "tuples":
        return None
    return folds.get(row.column("header")[0].as_py().lower())


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

    def run(self, program: Program, core: int) -> FoldedRun | None:
        """The partial results for this program in a core; None if there are none."""
        programs, shares, sizes = (self._header[name] for name in ("programs", "shares", "sizes"))
        if program.digest not in programs:
            return None
        place = programs.index(program.digest)
        place = sum(shares[:place]) + (core if shares[place] > 1 else 0)
        start = sum(sizes[:place])
        view = memoryview(self._frame.payload)[start : start + sizes[place]]
        return _unpack(view, self._frame.first)

    def frames(self) -> Iterator[Frame]:
        """The original frames, from the log."""
        log = Log(Path(self._header["folder"]), self._header["owner"])
        for name, number in self._header["places"]:
            batches = log.read(segment_of(name))
            table = pa.Table.from_batches(batches)
            [row] = table.slice(number, 1).to_pylist()
            yield Frame(**row)
