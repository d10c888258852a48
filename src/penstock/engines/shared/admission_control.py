"""Admission control by shedding: input is dropped while a query's output is almost full.

Only new input is dropped, before any block has seen it (Oge et al. 2011 §IV-D): tuples in a window
and finished rows are never lost. So the query's rows are those of its text over the input without
the shed tuples, and the shed tuples are counted and reported exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.run import Control, Positions, Run
from penstock.tuning import TUNING

LARGEST_STEP = 4096
"""The largest number of tuples admitted at once: after many without a match, one may have many."""
RESERVE = 8
"""One row of the buffer in RESERVE is kept free for the rows of tuples already admitted."""

_RANGE_FIELDS: list[tuple[str, pa.DataType]] = [
    ("stream", pa.string()),
    ("first_position", pa.int64()),
    ("last_position", pa.int64()),
    ("tuples", pa.int64()),
]
RANGES = pa.schema(_RANGE_FIELDS)


@dataclass
class ShedRange:
    """Tuples of a stream that were shed, with none admitted between them."""

    stream: str
    first: int
    last: int
    tuples: int


class Shedding:
    """Decides which input a query takes, and records the rest. Draining is safe from any thread.

    Parameters
    ----------
    buffer_rows
        The number of rows that the query's output may hold.
    buffered
        The number of rows that it holds now.
    total_made
        The number of rows made since the start.
    """

    def __init__(
        self, buffer_rows: int, buffered: Callable[[], int], total_made: Callable[[], int]
    ) -> None:
        self.almost_full = max(1, buffer_rows - buffer_rows // RESERVE)
        self._reserve = max(1, buffer_rows // RESERVE)
        self._buffered = buffered
        self._total_made = total_made
        self._lock = threading.Lock()
        self._step = 1
        self.counts: dict[str, int] = {}
        self.ranges: list[ShedRange] = []
        self._open: dict[str, ShedRange] = {}

    def is_shedding(self) -> bool:
        """Whether a tuple that arrives now would be dropped."""
        return self._buffered() >= self.almost_full

    def admitted(
        self, runs: Mapping[str, Run], names: Mapping[str, str]
    ) -> Iterator[dict[str, Run]]:
        """The runs without the shed tuples, in parts; every control is in one of them.

        The decision is repeated after every few tuples: as many as are expected to make no more
        rows than fit in the reserve. ``names`` has the streams' names as declared.
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
                before = self._total_made()
                yield part
                self._adapt(self._total_made() - before)
            start, low = stop, -1 if high is None else high
        if not len(positions):
            yield dict(runs)

    def _adapt(self, made: int) -> None:
        if made > self._reserve:
            self._step = max(1, self._step // 2)
        elif 2 * made <= self._reserve:
            self._step = min(2 * self._step, LARGEST_STEP)

    def _close(self, streams: list[str]) -> None:
        """End the ranges of these streams: their next tuples are admitted."""
        with self._lock:
            for stream in streams:
                self._open.pop(stream, None)

    def drop(self, stream: str, positions: Positions) -> None:
        """Record dropped tuples."""
        if len(positions):
            with self._lock:
                self._drop(stream, int(positions[0]), int(positions[-1]), len(positions))

    def _drop(self, stream: str, first: int, last: int, tuples: int) -> None:
        self.counts[stream] = self.counts.get(stream, 0) + tuples
        known = self._open.get(stream)
        if known is None and len(self.ranges) >= TUNING.most_shed_ranges:
            known = next((one for one in reversed(self.ranges) if one.stream == stream), None)
        if known is None:
            self._open[stream] = ShedRange(stream, first, last, tuples)
            self.ranges.append(self._open[stream])
        else:
            # Malformed records are taken before the tuples around them.
            known.first, known.last = min(known.first, first), max(known.last, last)
            known.tuples += tuples

    def drain(self) -> pa.Table:
        """Take the ranges of shed tuples, oldest first."""
        taken: list[ShedRange] = []
        try:
            with self._lock:
                # No call comes between these: a range is taken, or there.
                taken, self.ranges, self._open = self.ranges, [], {}
            columns: list[list[Any]] = [
                [one.stream for one in taken],
                [one.first for one in taken],
                [one.last for one in taken],
                [one.tuples for one in taken],
            ]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, RANGES, strict=True)]
            return pa.Table.from_arrays(arrays, schema=RANGES)
        except BaseException:
            self.ranges[:0] = taken
            raise

    def save(self) -> dict[str, Any]:
        """Its state as JSON."""
        return {"counts": self.counts, "ranges": [list(vars(one).values()) for one in self.ranges]}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore from saved state."""
        self.counts = saved["counts"]
        self.ranges = [ShedRange(*one) for one in saved["ranges"]]


def _between(run: Run, low: int, high: int | None) -> Run:
    """The part of a run at positions ``low`` to ``high - 1``; to its end if that is None."""
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
