"""Admission control by shedding: input is dropped while a query's output is almost full.

What is dropped is new input alone, before any block has seen it (Oge et al. 2011 §IV-D): tuples
that a window holds, and rows that are made, are never lost. So the query's rows are those of its
text over the input without what was shed, and what was shed is counted and told exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.run import Control, Positions, Run

LARGEST_STEP = 4096
"""Tuples admitted at once at most: after many that found nobody, the next may find many."""
RESERVE = 8
"""One in so many rows of the buffer is kept free for what the tuples already admitted make."""
MOST_RANGES = 65_536
"""So many ranges wait to be drained at most; then the newest grows, over what was admitted too."""

_RANGE_FIELDS: list[tuple[str, pa.DataType]] = [
    ("stream", pa.string()),
    ("first_position", pa.int64()),
    ("last_position", pa.int64()),
    ("tuples", pa.int64()),
]
RANGES = pa.schema(_RANGE_FIELDS)


@dataclass
class Range:
    """Tuples of a stream that were shed, with none admitted between them."""

    stream: str
    first: int
    last: int
    tuples: int


class Shedding:
    """Says which input a query takes, and what it does not. Draining is safe from any thread.

    Parameters
    ----------
    buffer_rows
        How many rows the query's output may hold.
    held
        How many it holds.
    made
        How many it has ever made.
    """

    def __init__(self, buffer_rows: int, held: Callable[[], int], made: Callable[[], int]) -> None:
        self.almost_full = max(1, buffer_rows - buffer_rows // RESERVE)
        self._reserve = max(1, buffer_rows // RESERVE)
        self._held = held
        self._made = made
        self._lock = threading.Lock()
        self._step = 1
        self.counts: dict[str, int] = {}
        self.ranges: list[Range] = []
        self._open: dict[str, Range] = {}

    def is_shedding(self) -> bool:
        """Whether a tuple that comes now would be dropped."""
        return self._held() >= self.almost_full

    def admitted(
        self, runs: Mapping[str, Run], names: Mapping[str, str]
    ) -> Iterator[dict[str, Run]]:
        """The runs without what is shed, in parts; every control is in one of them.

        It is decided anew for every few tuples: as many as are thought to make no more rows than
        the reserve has room for. ``names`` has the streams' names as they are declared.
        """
        positions = np.sort(np.concatenate([run.positions for run in runs.values()]))
        start, low = 0, -1
        while start < len(positions):
            last = positions[min(start + self._step, len(positions)) - 1]
            stop = int(np.searchsorted(positions, last, side="right"))
            high = int(positions[stop]) if stop < len(positions) else None
            part = {name: _between(run, low, high) for name, run in runs.items()}
            if self.is_shedding():
                for name, run in part.items():
                    self.drop(names[name], run.positions)
                part = {name: _controls_of(run) for name, run in part.items() if run.controls}
                if part:
                    yield part
            else:
                self._close([names[name] for name, run in part.items() if len(run)])
                before = self._made()
                yield part
                self._adapt(self._made() - before)
            start, low = stop, -1 if high is None else high
        if not len(positions):
            yield dict(runs)

    def _adapt(self, made: int) -> None:
        if made > self._reserve:
            self._step = max(1, self._step // 2)
        elif 2 * made <= self._reserve:
            self._step = min(2 * self._step, LARGEST_STEP)

    def _close(self, streams: list[str]) -> None:
        """Tuples of these streams are admitted: their ranges are at an end."""
        with self._lock:
            for stream in streams:
                self._open.pop(stream, None)

    def drop(self, stream: str, positions: Positions) -> None:
        """Note tuples that are dropped."""
        if len(positions):
            with self._lock:
                self._drop(stream, int(positions[0]), int(positions[-1]), len(positions))

    def _drop(self, stream: str, first: int, last: int, tuples: int) -> None:
        self.counts[stream] = self.counts.get(stream, 0) + tuples
        known = self._open.get(stream)
        if known is None and len(self.ranges) >= MOST_RANGES:
            known = next((one for one in reversed(self.ranges) if one.stream == stream), None)
        if known is None:
            self._open[stream] = Range(stream, first, last, tuples)
            self.ranges.append(self._open[stream])
        else:
            # Records that are no tuples come before the tuples around them.
            known.first, known.last = min(known.first, first), max(known.last, last)
            known.tuples += tuples

    def drain(self) -> pa.Table:
        """Take what was shed: the ranges, oldest first."""
        with self._lock:
            taken, self.ranges, self._open = self.ranges, [], {}
        columns: list[list[Any]] = [
            [one.stream for one in taken],
            [one.first for one in taken],
            [one.last for one in taken],
            [one.tuples for one in taken],
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, RANGES, strict=True)]
        return pa.Table.from_arrays(arrays, schema=RANGES)

    def save(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {"counts": self.counts, "ranges": [list(vars(one).values()) for one in self.ranges]}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.counts = saved["counts"]
        self.ranges = [Range(*one) for one in saved["ranges"]]


def _between(run: Run, low: int, high: int | None) -> Run:
    """What a run has from position ``low`` to before ``high``; to its end if that is None."""
    start = int(np.searchsorted(run.positions, low))
    stop = len(run) if high is None else int(np.searchsorted(run.positions, high))
    controls: tuple[Control, ...] = tuple(
        control
        for control in run.controls
        if low <= control.position and (high is None or control.position < high)
    )
    inputs = tuple(batch.slice(start, stop - start) for batch in run.inputs)
    return Run(inputs, run.positions[start:stop], controls)


def _controls_of(run: Run) -> Run:
    inputs = tuple(batch.slice(0, 0) for batch in run.inputs)
    return Run(inputs, run.positions[:0], run.controls)
