"""The log: data and instructions in one sequence, on disk before ``push`` returns.

A directory of segments. A segment is named by the positions it holds, is written aside, synced and
renamed, so it is there whole or not at all. Its ``position`` is the one offset that data and
instructions share. A segment goes once Spark has committed what it held; of those with
instructions also the registry, in a file beside them, must have been written (see
:mod:`penstock.engines.spark.engine`). The newest segment always stays: it tells where the log ends.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.engines.spark.frames import SCHEMA, Frame, to_batch

_INSTRUCTIONS = frozenset({"create", "derive", "install", "change", "drop", "reset", "end"})


@dataclass(frozen=True, order=True)
class Segment:
    """The frames of the positions ``first .. next - 1``; ``kept`` if they have instructions."""

    first: int
    next: int
    kept: bool
    tuples: int

    @property
    def name(self) -> str:
        mark = "kept" if self.kept else "data"
        return f"{self.first:020d}-{self.next:020d}-{self.tuples}.{mark}"


def segments(folder: Path) -> list[Segment]:
    """The segments there are, oldest first."""
    names = (name for name in os.listdir(folder) if name.rpartition(".")[2] in ("kept", "data"))
    return sorted(map(segment_of, names))


def segment_of(name: str) -> Segment:
    """The segment of that name."""
    stem, _, mark = name.rpartition(".")
    first, after, tuples = map(int, stem.split("-"))
    return Segment(first, after, mark == "kept", tuples)


def append(folder: Path, frames: list[Frame]) -> Segment:
    """Write frames as one segment; on return they are on disk."""
    last = frames[-1]
    segment = Segment(
        frames[0].first,
        last.first + last.count,
        any(frame.kind in _INSTRUCTIONS for frame in frames),
        sum(frame.count for frame in frames if frame.kind in ("tuples", "merged")),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(to_batch(frames))
    write_safely(folder / segment.name, sink.getvalue())
    return segment


def read(folder: Path, segment: Segment) -> list[pa.RecordBatch]:
    """The frames of a segment."""
    with pa.memory_map(str(folder / segment.name)) as file, pa.ipc.open_stream(file) as reader:
        return list(reader)


def forget(folder: Path, position: int, known: int) -> None:
    """Delete segments below ``position``; those with instructions only below ``known`` too."""
    for segment in segments(folder)[:-1]:
        if segment.next <= (min(position, known) if segment.kept else position):
            (folder / segment.name).unlink(missing_ok=True)


def write_safely(path: Path, data: bytes | memoryview | pa.Buffer) -> None:
    """Write a file that is there whole or not at all, and survives a power cut."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
