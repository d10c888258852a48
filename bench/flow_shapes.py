"""The papers' figures of flows, from our own runs.

Time windows hold the arrivals of their length, so a faster join has more work per tuple. The
sustained rate is the fixed point: the rate at which the join processes the windows that this rate
fills. The nested loop's rate times the window is constant, so one run at windows near that point
gives it: ``sqrt(measured * assumed)``.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pyarrow as pa

from bench.band_join import arrivals
from bench.flow_latency import WARM, Stages, paced, sustained
from bench.flow_runs import FlowOptions, Work, band, compare, contestant, full, medians
from penstock.streams.events import Merged

COMPARISONS = 1 << 30
"""Comparisons of a turn of a nested loop: about a quarter of a second on one core."""
MINUTES = (5, 10, 15)
ASSUMED = {5: 6_200.0, 10: 4_400.0, 15: 3_600.0}
"""Tuples per second of both streams together that time windows are filled for."""
TIMED = "CREATE STREAM R (x INT, y FLOAT, t BIGINT); CREATE STREAM S (a INT, b FLOAT, t BIGINT)"
TIMED_BAND = (
    "SELECT r.x, r.y, s.a, s.b FROM R [RANGE {span} WATTR t] AS r "
    "JOIN S [RANGE {span} WATTR t] AS s "
    "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
)
CLOSE = (
    "SELECT r.x, r.y, s.a, s.b FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s "
    "ON r.x BETWEEN s.a - {near} AND s.a + {near} AND r.y BETWEEN s.b - {near} AND s.b + {near}"
)
RANGE_OF_KEYS = 10_000


def core_counts() -> list[int]:
    """One, two, and all cores of the machine."""
    return sorted({1, 2, os.cpu_count() or 1})


class Timed:
    """Tuples of both streams, with the microsecond of their arrival."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._count = 0

    def __call__(self, rng: np.random.Generator, count: int) -> Merged:
        """The next tuples."""
        merged = arrivals(rng, count)
        numbers = np.arange(self._count, self._count + count)
        self._count += count
        times = (numbers * (1e6 / self._per_second)).astype(np.int64)
        left, right = (
            pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(times[merged.which == side])], [*batch.schema.names, "t"]
            )
            for side, batch in enumerate(merged.batches)
        )
        return Merged(merged.streams, (left, right), merged.which)


def timed(minutes: int) -> tuple[Work, int]:
    """The band join over time windows, and the number of tuples in each."""
    per_second = ASSUMED[minutes]
    text = TIMED_BAND.format(span=minutes * 60_000_000)
    return Work(text, Timed(per_second), TIMED), int(per_second / 2 * minutes * 60)


def count_windows() -> list[dict[str, Any]]:
    """SplitJoin with nested loops: windows of 2^14 to 2^21, one core, two, and three-step."""
    found = []
    for bits in (14, 15, 16, 17, 19, 21):
        window = 1 << bits
        flows = {"three-step": FlowOptions("three-step", 1, "nested-loop")}
        for cores in core_counts():
            flows[f"splitjoin, {cores}"] = FlowOptions("splitjoin", cores, "nested-loop", "outer")
        turns = 5 if bits <= 17 else 3
        entries = compare(band(window), window, flows, COMPARISONS // window, turns)
        found += [
            {"flow": flows[name].flow, "cores": flows[name].cores, **entry}
            for name, entry in entries.items()
        ]
    return found


def handshake_scaling() -> list[dict[str, Any]]:
    """Handshake join with nested loops at 2^21 tuples, which fifteen minutes of such a rate fill.

    ``per_stream`` is the sustained rate of each stream by the length of its windows in minutes.
    """
    window = 1 << 21
    flows = {str(c): FlowOptions("handshake", c, "nested-loop", "none") for c in core_counts()}
    entries = compare(band(window), window, flows, COMPARISONS // window)
    found = []
    for name, entry in entries.items():
        # Each of 2 * rate arrivals a second is compared with rate * span tuples.
        compared = entry["tuples_per_second"]["median"] * window
        rates = {m: math.sqrt(compared / (2 * 60 * m)) for m in (10, 15)}
        found.append({"cores": int(name), "per_stream": rates, **entry})
    return found


def time_windows() -> list[dict[str, Any]]:
    """Throughput over time windows: SplitJoin, and low-latency handshake join at the longest."""
    found = []
    for minutes in MINUTES:
        flows = {
            f"splitjoin {c}": FlowOptions("splitjoin", c, "nested-loop", "outer")
            for c in core_counts()
        }
        if minutes == MINUTES[-1]:
            for c in core_counts():
                flows[f"low-latency-handshake {c}"] = FlowOptions(
                    "low-latency-handshake", c, "nested-loop", "none"
                )
        work, window = timed(minutes)
        entries = compare(work, window, flows, COMPARISONS // window)
        for name, entry in entries.items():
            reached = math.sqrt(entry["tuples_per_second"]["median"] * ASSUMED[minutes])
            found.append(
                {
                    "flow": flows[name].flow,
                    "cores": flows[name].cores,
                    "minutes": minutes,
                    "sustained": reached,
                    **entry,
                }
            )
    return found


def time_window_latency(throughput: list[dict[str, Any]], seconds: float = 1.5) -> list[Any]:
    """Latencies tuple by tuple, with stages, at half of the rate that each of them sustains so."""
    found = []
    for entry in throughput:
        work, window = timed(entry["minutes"])
        rng = np.random.default_rng(5)
        filling = full(work, window, rng)
        order = "outer" if entry["flow"] == "splitjoin" else "none"
        options = FlowOptions(entry["flow"], entry["cores"], "nested-loop", order)
        with contestant(work, options, filling) as one:
            single = sustained(one, work.make(rng, WARM + 1_000))
            per_second = min(single, entry["sustained"]) / 2
            stages = Stages()
            if entry["flow"] == "splitjoin":
                stages.watch(one)
            latency = paced(one, work.make(rng, int(per_second * seconds)), per_second)
        named = {name: entry[name] for name in ("flow", "cores", "minutes")}
        found.append({**named, **latency, "stages": stages.summary()})
    return found


def near(window: int, distance: int) -> Work:
    """The band join with another distance."""
    return Work(CLOSE.format(window=window, near=distance))


def match_rate(distance: int) -> float:
    """The approximate share of pairs that match in a band join with that distance."""
    return (2 * distance / RANGE_OF_KEYS) ** 2


def turn_of(window: int, distance: int, comparisons: int) -> int:
    """Arrivals of a turn, fewer where they make many rows."""
    rows = max(1e-9, window * match_rate(distance))
    return int(max(256, min(comparisons // window, 300_000 / rows)))


def selectivity() -> list[dict[str, Any]]:
    """SplitJoin, two cores, sub-windows of 2^12 and 2^15: from few matches to many."""
    found = []
    for bits in (13, 16):
        window = 1 << bits
        for distance in (1, 10, 32, 100, 316, 1_000):
            turn = turn_of(window, distance, COMPARISONS // 4)
            flows = {
                kernel: FlowOptions("splitjoin", 2, kernel, "outer")
                for kernel in ("nested-loop", "band")
            }
            entries = compare(near(window, distance), window, flows, turn)
            for kernel, entry in entries.items():
                share = entry["rows_per_arrival"] / window
                found.append({"kernel": kernel, "sub_window": window // 2, "share": share, **entry})
    return found


def precision() -> list[dict[str, Any]]:
    """SplitJoin, two cores: a star every n comparisons, with few matches and with many."""
    found = []
    for bits, distance in ((13, 10), (16, 10), (16, 316)):
        window = 1 << bits
        intervals = [4**power for power in range(bits // 2 + 1) if 4**power <= window // 2]
        flows: dict[int | str, FlowOptions] = {
            order: FlowOptions("splitjoin", 2, "nested-loop", order) for order in ("none", "outer")
        }
        for interval in intervals:
            flows[interval] = FlowOptions("splitjoin", 2, "nested-loop", "inner", interval)
        turn = turn_of(window, distance, COMPARISONS // 4)
        named = {str(name): options for name, options in flows.items()}
        entries = compare(near(window, distance), window, named, turn)
        found.append(
            {
                "sub_window": window // 2,
                "match_rate": match_rate(distance),
                "tuples_per_second": medians(entries),
                "figures": entries,
            }
        )
    return found
