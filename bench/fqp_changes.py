"""A change of a query while tuples flow, for the benchmark ``fqp``.

One thread pushes 1 M tuples per second, 1,000 every millisecond, into a join on a topology, with
windows of 2^17. Another changes the query. Its programs are compiled before, so that a change is
what happens at its position: the query gets other constants, or other keys, for which its windows
are arranged anew. The delay of a push is counted from when its last tuple was due, whether or not
earlier pushes have been late, so that what a change holds up shows in all of them.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

WINDOW = 1 << 17
PUSH = 1_000
RATE = 1_000_000
STREAMS = "CREATE STREAM R (k INT, j INT, v INT); CREATE STREAM S (k INT, j INT, v INT)"
JOINED = (
    "SELECT r.v AS rv, s.v AS sv FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s "
    "ON r.{key} = s.{key} AND r.v < {limit}"
)
KEYS = 1_000_000


def programs(window: int, key: str, limit: int) -> Any:
    """The program of the join."""
    with ps.connect("local", topology="fqp:chain:1") as engine:
        engine.sql(STREAMS)
        return engine.install(JOINED.format(window=window, key=key, limit=limit)).program


class Flow:
    """Tuples of both streams in turns, 1,000 every millisecond."""

    def __init__(self, engine: Any, query: Any, window: int) -> None:
        rng = np.random.default_rng(17)
        self._engine, self._query = engine, query
        self._batches = [
            pa.RecordBatch.from_arrays(
                [
                    pa.array(rng.integers(0, KEYS, PUSH).astype(np.int32)),
                    pa.array(rng.integers(0, KEYS, PUSH).astype(np.int32)),
                    pa.array(rng.integers(0, 1_000, PUSH).astype(np.int32)),
                ],
                ["k", "j", "v"],
            )
            for _ in range(1_000)
        ]
        self._window = window
        self._number = 0
        self.delays: list[float] = []
        self.rows = 0

    def fill(self) -> None:
        """Fill both windows."""
        for _ in range(2 * self._window // PUSH + 2):
            self._push()
        self._query.rows()

    def _push(self) -> None:
        number = self._number
        self._number += 1
        self._engine.push("RS"[number % 2], self._batches[number % len(self._batches)])

    def go(self, stop: threading.Event) -> None:
        """Push at the rate, until told to stop."""
        start, step = time.perf_counter(), PUSH / RATE
        pushed = 0
        while not stop.is_set():
            pushed += 1
            due = start + pushed * step
            wait = due - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            self._push()
            self.delays.append(time.perf_counter() - due)
            if pushed % 20 == 0:
                self.rows += self._query.rows().num_rows


def summary(values: list[float]) -> dict[str, float]:
    """Milliseconds."""
    half, most = np.percentile(values, [50, 99]) * 1e3
    return {"p50_ms": float(half), "p99_ms": float(most), "most_ms": 1e3 * max(values)}


def measure(keys: tuple[str, str], changes: int, window: int) -> dict[str, Any]:
    """Changes between two programs, while tuples flow; ``keys``: those of either program."""
    one, other = (programs(window, key, limit) for key, limit in zip(keys, (500, 400), strict=True))
    with ps.connect("local", topology="fqp:chain:1", buffer_rows=1 << 26) as engine:
        engine.sql(STREAMS)
        query = engine.install(one)
        flow = Flow(engine, query, window)
        flow.fill()
        for program in (other, one, other, one):  # what a change calls is compiled by now
            query.change(program)
            flow.fill()
        stop = threading.Event()
        thread = threading.Thread(target=flow.go, args=(stop,))
        thread.start()
        time.sleep(min(0.005 * changes, 1.0))
        calm = len(flow.delays)
        seconds, used = [], []
        for number in range(changes):
            time.sleep(0.013)
            start, before = time.perf_counter(), time.thread_time()
            query.change((other, one)[number % 2])
            seconds.append(time.perf_counter() - start)
            used.append(time.thread_time() - before)
        during = len(flow.delays)
        stop.set()
        thread.join()
    assert flow.rows
    return {
        "window": window,
        "changes": changes,
        "change": summary(seconds),
        "change_by_processor_time": summary(used),
        "delay_of_pushes_before": summary(flow.delays[:calm]),
        "delay_of_pushes": summary(flow.delays[calm:during]),
        "tuples": PUSH * during,
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Changes to the same keys, and to other keys."""
    window, changes = (1 << 12, 5) if quick else (WINDOW, 200)
    return {
        "same keys": measure(("k", "k"), changes, window),
        "other keys": measure(("k", "j"), changes, window),
    }
