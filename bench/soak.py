"""A long run at full load: flat memory, and every input tuple accounted for.

``python -m bench soak --seconds 600 --flow splitjoin``. A band join of a count window and a time
window, with a few tuples that are late and a few without a time; the rows are drained too rarely,
so that input is shed. Every second it checks that every input tuple is in a window, has expired,
was shed, was late or is a dead letter, and that memory holds the windows and at most two batches in
flight.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.band_join import arrivals
from bench.flow_shapes import TIMED
from bench.measure import machine
from penstock.streams.events import Merged, Punctuation

FLOWS = ("three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake")
WINDOW = 1 << 15
BATCH = 1 << 15
SPAN = 4 * WINDOW
"""The time window, in ticks; every arrival is one tick, and every other one is of its stream."""
ODD = 4_096
"""One in this many tuples has no time, and one in this many of the time window's is late."""
BUFFER = 1 << 16
ROUNDS = 6
"""The rows are drained after this many batches, the last of which find the buffer full."""
QUERY = (
    f"SELECT r.x, r.y, s.a, s.b FROM R [ROWS {WINDOW}] AS r "
    f"JOIN S [RANGE {SPAN} WATTR t] AS s "
    "ON r.x BETWEEN s.a - 15 AND s.a + 15 AND r.y BETWEEN s.b - 15 AND s.b + 15"
)


class Source:
    """Tuples of both streams, with a tick per arrival; a few are late or without a time."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(12)
        self.count = 0

    def batch(self) -> Merged:
        """The next tuples."""
        merged = arrivals(self._rng, BATCH)
        ticks = np.arange(self.count, self.count + BATCH)
        self.count += BATCH
        parts = []
        for side, batch in enumerate(merged.batches):
            times = ticks[merged.which == side]
            if side == 1:
                times = np.where(self._some(len(times)), times - 2 * SPAN, times)
            given = pa.array(times, mask=self._some(len(times)))
            parts.append(
                pa.RecordBatch.from_arrays([*batch.columns, given], [*batch.schema.names, "t"])
            )
        return Merged(merged.streams, (parts[0], parts[1]), merged.which)

    def _some(self, count: int) -> Any:
        return self._rng.integers(0, ODD, count) == 0


@dataclass
class Watch:
    """The number of checks so far, and the peak memory of every minute."""

    checks: int = 0
    peaks: list[int] = field(default_factory=list)

    def look(self, metrics: dict[str, Any], arrived: int, elapsed: float) -> None:
        """Check conservation, and record the memory."""
        conserved(metrics, arrived)
        bounded(metrics["window_tuples"])
        self.checks += 1
        minute = int(elapsed // 60)
        self.peaks += [0] * (minute + 1 - len(self.peaks))
        self.peaks[minute] = max(self.peaks[minute], resident_bytes())


def conserved(metrics: dict[str, Any], arrived: int) -> None:
    """in = live + expired + shed + late + dead; an error with all the numbers if not."""
    parts = {
        "live": sum(metrics["window_tuples"]),
        "expired": sum(metrics["expired_tuples"]),
        "shed": sum(metrics["shed"].values()),
        "late": metrics["late"],
        "dead": metrics["dead_letters"],
    }
    if sum(parts.values()) != arrived:
        raise AssertionError(f"{arrived} tuples came in, but there are {parts}")


def bounded(held: list[int]) -> None:
    """An error if more is held than the windows and two batches."""
    most = [WINDOW + 2 * BATCH, SPAN // 2 + 2 * BATCH]
    if any(count > limit for count, limit in zip(held, most, strict=True)):
        raise AssertionError(f"the windows hold {held} tuples, but should at most {most}")


def resident_bytes() -> int:
    """The resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def soak(flow: str, cores: int, seconds: float, every: float = 1.0) -> dict[str, Any]:
    """Push as fast as the flow accepts, for that long."""
    source, watch, rows = Source(), Watch(), 0
    with ps.connect("local", buffer_rows=BUFFER) as engine:
        engine.sql(TIMED)
        query = engine.install(
            QUERY, flow=flow, cores=None if flow == "three-step" else cores, admission="shed"
        )
        start = time.monotonic()
        due = start + every
        while (now := time.monotonic()) < start + seconds or not watch.checks:
            for _ in range(ROUNDS):
                # A count window generates no punctuations, without which S would never expire.
                engine.feed([source.batch(), Punctuation("R", source.count, "t")])
            rows += query.rows().num_rows
            query.late()
            query.dead_letters()
            query.shed()
            if now >= due:
                watch.look(query.metrics(), source.count, now - start)
                due = max(due + every, now)
        engine.wait()
        rows += query.rows().num_rows
        metrics = query.metrics()
        conserved(metrics, source.count)
    taken = time.monotonic() - start
    return {
        "flow": flow,
        "cores": cores,
        "seconds": taken,
        "arrivals": source.count,
        "tuples_per_second": source.count / taken,
        "rows": rows,
        "rows_lost": metrics["rows_out"] - rows,
        "shed": metrics["shed"],
        "late": metrics["late"],
        "dead_letters": metrics["dead_letters"],
        "checks": watch.checks,
        "peak_bytes_by_minute": watch.peaks,
        "growth": growth(watch.peaks),
    }


def growth(peaks: list[int]) -> float | None:
    """The last minute's peak against the second's, when everything had been allocated."""
    full = [peak for peak in peaks if peak]
    return full[-1] / full[1] if len(full) > 2 else None


def main(given: list[str] | None = None) -> None:
    """``python -m bench soak [--seconds N] [--flow NAME] [--cores N] [--out FILE]``."""
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--flow", choices=FLOWS, default="splitjoin")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to the terminal")
    arguments = parser.parse_args(given)
    found = soak(arguments.flow, arguments.cores, arguments.seconds)
    text = json.dumps({"machine": machine(), "soak": found}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    grown = found["growth"]
    if found["rows_lost"] or (grown is not None and grown > 1.1):
        sys.exit(f"soak: {found['rows_lost']} rows lost, memory grew by {grown}")


if __name__ == "__main__":
    main()
