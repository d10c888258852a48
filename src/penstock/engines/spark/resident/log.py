"""The log: data and instructions in one sequence, on disk before ``push`` returns.

A directory of segments. A segment is named by the positions it holds, is written aside, synced and
renamed, so it is there whole or not at all, and it ends with a seal. Its ``position`` is the one
offset that data and instructions share. A segment goes once Spark has committed what it held; of
those with instructions also the registry, in a file beside them, must have been written (see
:mod:`penstock.engines.spark.engine`). Why a segment that is gone is noticed: the record ``begin``
says, before anything is deleted, from which position on all must be there, the record ``end`` up to
which, and each segment begins where the one before it ends.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engines.shared.checksums import overwrite_sealed, read_sealed, write_sealed
from penstock.engines.spark.core.frames import INSTRUCTION, SCHEMA, Frame, to_batch
from penstock.errors import StateError

_KEPT = frozenset({INSTRUCTION, "end"})
"""The frames that the driver reads again after a restart."""
REGISTRY, BEGIN, END = "registry.json", "begin", "end"
SEGMENT = "segment"
"""The kind of a frame that stands for a segment, which its reader opens."""
MEND = "Put it back from a copy of the checkpoint, or start anew in an empty folder."


def decoded(path: Path, text: str | bytes) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise StateError(f"{path} holds no JSON ({error})", MEND) from None
    if not isinstance(found, dict):
        raise StateError(f"{path} holds no JSON object", MEND)
    return found


@dataclass(frozen=True, order=True)
class Segment:
    """The frames of the positions ``first .. next - 1``, and whether they have instructions."""

    first: int
    next: int
    has_instructions: bool
    tuples: int

    @property
    def name(self) -> str:
        mark = "kept" if self.has_instructions else "data"
        return f"{self.first:020d}-{self.next:020d}-{self.tuples}.{mark}"


def segment_of(name: str) -> Segment:
    """The segment of that name."""
    stem, _, mark = name.rpartition(".")
    first, after, tuples = map(int, stem.split("-"))
    return Segment(first, after, mark == "kept", tuples)


@dataclass(frozen=True)
class Log:
    """The segments in a folder. ``owner`` is the checkpoint they are of, by which files know it."""

    folder: Path
    owner: str

    def _place(self, name: str) -> str:
        return f"{self.owner}/log/{name}"

    def create(self) -> None:
        """An empty log."""
        self.folder.mkdir(exist_ok=True)
        self._record(BEGIN, 0)
        self._record(END, 0)
        self.write_registry({})

    def segments(self) -> list[Segment]:
        """The segments there are, oldest first."""
        marks = ("kept", "data")
        names = [name for name in os.listdir(self.folder) if name.rpartition(".")[2] in marks]
        for name in names:
            if not _is_segment(name):
                raise StateError(
                    f"{self.folder / name} is no file of a log",
                    "Give it the name again that it had, or remove it if it is not of Penstock.",
                )
        return sorted(map(segment_of, names))

    def append(self, frames: list[Frame]) -> Segment:
        """Write frames as one segment; they are on disk on return."""
        last = frames[-1]
        segment = Segment(
            frames[0].first,
            last.first + last.count,
            any(frame.kind in _KEPT for frame in frames),
            sum(frame.count for frame in frames if frame.kind in ("tuples", "merged")),
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_batch(to_batch(frames))
        write_sealed(self.folder / segment.name, sink.getvalue(), self._place(segment.name))
        self._record(END, segment.next)
        return segment

    def read(self, segment: Segment) -> list[pa.RecordBatch]:
        """The frames of a segment."""
        path = self.folder / segment.name
        data = read_sealed(path, self._place(segment.name), MEND)
        try:
            with pa.ipc.open_stream(data) as reader:
                return list(reader)
        except pa.ArrowInvalid as error:
            raise StateError(f"{path} holds no frames ({error})", MEND) from error

    def frames(self, segment: Segment) -> Iterator[Frame]:
        """The frames of a segment, one by one."""
        for batch in self.read(segment):
            for row in batch.to_pylist():
                yield Frame(**row)

    def reference(self, segment: Segment) -> Frame:
        """A frame that stands for a segment."""
        header = {"folder": str(self.folder), "owner": self.owner, "name": segment.name}
        count = segment.next - segment.first
        return Frame(segment.first, count, SEGMENT, json.dumps(header))

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments of the positions ``start .. end - 1``; an error if one is gone."""
        asked = [one for one in self.segments() if start <= one.first and one.next <= end]
        position = start
        for segment in asked:
            self._check_gap(position, segment.first)
            position = segment.next
        self._check_gap(position, end)
        return asked

    def needed(self) -> list[Segment]:
        """The segments that are not committed; an error if one is gone."""
        begin, end = self._recorded(BEGIN), self._recorded(END)
        # A process that was killed has written a segment, and not yet where the log ends.
        last = max((one.next for one in self.segments()), default=0)
        if last < end:
            raise StateError(
                f"a file of the log is missing: {self.folder}/...-{end:020d}-..., the last one",
                MEND,
            )
        return self.between(begin, last)

    def _check_gap(self, position: int, found: int) -> None:
        if position < found:
            raise StateError(
                f"a file of the log is missing: {self.folder}/{position:020d}-..., "
                f"with the positions {position} to {found - 1}",
                MEND,
            )

    def forget(self, position: int) -> None:
        """Delete segments below ``position``; instructions only if the registry has them."""
        known = self.read_registry().get("position", 0)
        if position > self._recorded(BEGIN):
            self._record(BEGIN, position, durable=True)
        for segment in self.segments()[:-1]:
            if segment.next <= (min(position, known) if segment.has_instructions else position):
                (self.folder / segment.name).unlink(missing_ok=True)

    def _record(self, name: str, position: int, durable: bool = False) -> None:
        text = f"{position:020d}".encode()
        overwrite_sealed(self.folder / name, text, self._place(name), durable)

    def _recorded(self, name: str) -> int:
        data = read_sealed(self.folder / name, self._place(name), MEND).to_pybytes()
        if not data.isdigit():
            raise StateError(f"{self.folder / name} holds no position", MEND)
        return int(data)

    def write_registry(self, saved: dict[str, Any]) -> None:
        """Write the driver's registry, so that segments with instructions can be deleted."""
        write_sealed(self.folder / REGISTRY, json.dumps(saved).encode(), self._place(REGISTRY))

    def read_registry(self) -> dict[str, Any]:
        """The registry that was written last; empty at the start."""
        return decoded(self.folder / REGISTRY, self.registry_text())

    def registry_text(self) -> str:
        """The registry that was written last, as text."""
        data = read_sealed(self.folder / REGISTRY, self._place(REGISTRY), MEND)
        return data.to_pybytes().decode(errors="replace")

    def checks(self) -> Iterator[Callable[[], object]]:
        """The checks of all files; each raises an error if its file is damaged or gone."""
        yield from (functools.partial(self._recorded, name) for name in (BEGIN, END))
        yield self.read_registry
        yield self.needed
        yield from (functools.partial(self.read, segment) for segment in self.segments())


def opened(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Frames, with those of a segment in the place of one that stands for it."""
    for frame in frames:
        if frame.kind == SEGMENT:
            header = json.loads(frame.header)
            log = Log(Path(header["folder"]), header["owner"])
            yield from log.frames(segment_of(header["name"]))
        else:
            yield frame


def _is_segment(name: str) -> bool:
    try:
        return segment_of(name).name == name
    except ValueError:
        return False
