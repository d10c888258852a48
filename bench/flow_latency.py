"""The latency of single tuples at a steady pace: until pairs are found, and until rows are out.

*Visiting latency* is the time from the arrival of the younger of two tuples until the pair was
found, *processing latency* that until all cores have finished a tuple (Najafi 2019 §5.3); both are
those of ``metrics()``. *Push to rows* is the user's view: from when a tuple was due until
``rows()`` after its push has returned, including the wait for earlier tuples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.flow_runs import Contestant
from bench.kernels import one_by_one
from penstock.streams.events import Merged

WARM = 600
"""Tuples until the engine has compiled its function for single-tuple pushes."""


def quantiles(seconds: list[float]) -> dict[str, float] | None:
    """Median, 99th percentile and mean, in seconds; None without values."""
    if not seconds:
        return None
    return {
        "p50": float(np.quantile(seconds, 0.5)),
        "p99": float(np.quantile(seconds, 0.99)),
        "mean": float(np.mean(seconds)),
        "count": len(seconds),
    }


class Durations:
    """Durations, in place of a :class:`penstock.blocks.join.latency.Histogram`."""

    def __init__(self) -> None:
        self._taken: list[npt.NDArray[np.int64]] = []

    def add(self, nanoseconds: int, count: int = 1) -> None:
        """Count a duration, several times."""
        self._taken.append(np.full(count, nanoseconds, np.int64))

    def add_many(self, nanoseconds: npt.NDArray[np.int64]) -> None:
        """Count durations."""
        self._taken.append(np.asarray(nanoseconds, np.int64))

    def seconds(self) -> list[float]:
        """All of them."""
        taken: list[float] = (np.concatenate(self._taken) / 1e9).tolist() if self._taken else []
        return taken

    def summary(self) -> dict[str, Any]:
        """The count, which the metrics read."""
        return {"count": sum(len(part) for part in self._taken)}


def sustained(one: Contestant, arriving: Merged) -> float:
    """Single tuples per second, one push after another, with ``rows()`` after each."""
    singles = one_by_one(arriving)
    for stream, row in singles[:WARM]:
        one.engine.push(stream, row)
    one.query.rows()
    start = time.perf_counter()
    for stream, row in singles[WARM:]:
        one.engine.push(stream, row)
        one.query.rows()
    return (len(singles) - WARM) / (time.perf_counter() - start)


def paced(one: Contestant, arriving: Merged, per_second: float) -> dict[str, Any]:
    """Latencies at a given rate of single tuples."""
    singles = one_by_one(arriving)
    (join,) = one.query.pipeline.of_kind("join")
    # They replace the histograms of the metrics, whose percentiles are up to an eighth too high.
    visiting = join.latency.visiting = Durations()
    processing = join.latency.processing = Durations()
    taken, rows = [], 0
    start = time.perf_counter() + 0.001
    for number, (stream, row) in enumerate(singles):
        due = start + number / per_second
        early = due - time.perf_counter()
        if early > 0:
            time.sleep(early)
        one.engine.push(stream, row)
        rows += one.query.rows().num_rows
        taken.append(time.perf_counter() - due)
    found: dict[str, Any] = {"tuples_per_second": per_second, "rows": rows}
    found["visiting"] = quantiles(visiting.seconds())
    found["processing"] = quantiles(processing.seconds())
    found["push_to_rows"] = quantiles(taken)
    return found


# -- stages -------------------------------------------------------------------------------------


@dataclass
class Stages:
    """The times at which chunks begin and end in the cores of a SplitJoin.

    *Distribution* is from a chunk's entry until a core starts it, *execution* from there until the
    core has finished it, *gathering* from the end of the last core until the combiner has output
    all results (Najafi 2019 §5.6.3, Fig. 5.6.4).
    """

    spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def watch(self, one: Contestant) -> None:
        """Record the time wherever a chunk passes."""
        (join,) = one.query.pipeline.of_kind("join")
        search = join.front.search
        for core in search._cores:
            core.step = self._timed(core.step)
        take = search.take

        def taken(chunk: Any) -> Iterator[Any]:
            yield from take(chunk)
            self.ends[chunk.entered] = time.monotonic_ns()

        search.take = taken

    def _timed(self, step: Callable[[str, Any], Iterable[Any]]) -> Callable[..., Iterator[Any]]:
        def timed(port: str, message: Any) -> Iterator[Any]:
            start = time.monotonic_ns()
            yield from step(port, message)
            if hasattr(message, "entered"):
                self.spans.setdefault(message.entered, []).append((start, time.monotonic_ns()))

        return timed

    def summary(self) -> dict[str, Any]:
        """Seconds in each stage; the chunk's slowest core counts for gathering."""
        stages: dict[str, list[float]] = {
            name: [] for name in ("distribution", "execution", "gathering", "end to end")
        }
        for entered, end in self.ends.items():
            spans = self.spans.get(entered, [])
            if not spans:
                continue
            for start, stop in spans:
                stages["distribution"].append((start - entered) / 1e9)
                stages["execution"].append((stop - start) / 1e9)
            stages["gathering"].append(max(0, end - max(stop for _, stop in spans)) / 1e9)
            stages["end to end"].append((end - entered) / 1e9)
        return {name: quantiles(seconds) for name, seconds in stages.items() if seconds}
