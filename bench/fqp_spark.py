"""Queries on a topology on Spark: ``python -m bench fqp_spark [--quick]``.

The topology is in one resident streaming query, whose run id must not change. Measured are the
papers' band join with windows of 2^17, pushed as Arrow: with numbers only, drained at the end, and
as the demo has it, with a string column and drained as it goes; installing and changing a query
while tuples flow, in seconds and in triggers until it is in force; and a fleet of selections and
joins on a topology beside the same queries without one. The rows of every run are compared with
those of the embedded engine, or of NumPy, for the same input.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.flow_runs import Made, digest
from penstock.demo.data import CONDITION, STREAMS, Data, generate
from penstock.streams.events import Merged

CORES = 2
CHUNK = 1 << 16
CHUNKS_PER_TRIGGER = 4
NUMBERS = "SELECT r.x, r.y, s.a, s.b, s.c"
WHOLE = "SELECT r.x, r.y, r.z, s.a, s.b, s.c, s.d"


@dataclass(frozen=True)
class Effort:
    """Window of the join, arrivals that are measured, queries of the fleet, changes."""

    window: int = 1 << 17
    arrivals: int = 1 << 21
    chunk: int = CHUNK
    queries: int = 100
    changes: int = 20


LONG = Effort()
SHORT = Effort(window=1 << 9, arrivals=1 << 12, chunk=1 << 9, queries=6, changes=2)
"""Enough to show that everything runs."""


def near(select: str, window: int) -> str:
    """The band join."""
    windows = f"FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s"
    return f"{select} {windows} {CONDITION.format(band=10)}"


@contextmanager
def resident(effort: Effort, topology: str | None, cores: int) -> Iterator[Any]:
    """An engine on Spark; each branch of a topology is in one core."""
    with ps.connect(
        "spark", cores=cores, rows_per_trigger=CHUNKS_PER_TRIGGER * effort.chunk,
        topology=topology, buffer_rows=1 << 24,
    ) as engine:  # fmt: skip
        run_id = engine.run_id
        yield engine
        assert engine.run_id == run_id, "the streaming query has been restarted"


def table_digest(tables: Sequence[pa.Table]) -> Made:
    """The digest of rows; of texts, the numbers in them."""
    table = pa.concat_tables(tables)
    kept = [c.name for c in table.schema if not pa.types.is_boolean(c.type)]
    for name in kept:
        if pa.types.is_string(table.schema.field(name).type):
            index = table.schema.get_field_index(name)
            numbers = pa.array([int(text[-14:]) for text in table[name].to_pylist()])
            table = table.set_column(index, name, numbers)
    return digest(table.select(kept))


# -- the band join --------------------------------------------------------------------------------


def flow(engine: Any, query: Any, chunks: Sequence[Merged], drains: bool) -> list[pa.Table]:
    """Push chunks, never far ahead of the cores; ``drains``: take rows as they come."""
    tables = []
    ahead = 2 * CHUNKS_PER_TRIGGER * len(chunks[0].which)
    for chunk in chunks:
        engine.feed([chunk])
        while not engine.wait_for(engine.position - ahead, 0.2):
            if drains:
                tables.append(query.rows())
        if drains:
            tables.append(query.rows())
    engine.wait()
    return [*tables, query.rows()]


def band(effort: Effort, select: str, drains: bool, topology: str | None, data: Data) -> Any:
    """Tuples per second of the band join, once its windows are full."""
    text = near(select, effort.window)
    chunks = list(data.chunks(effort.chunk))
    warm = len(chunks) - effort.arrivals // effort.chunk
    with ps.connect("local", buffer_rows=1 << 24) as engine:
        engine.sql(STREAMS)
        query = engine.install(text)
        engine.feed(chunks)
        expected = table_digest([query.rows()])
    with resident(effort, topology, CORES if topology is None else 1) as engine:
        engine.sql(STREAMS)
        query = engine.install(text)
        tables = flow(engine, query, chunks[:warm], drains)
        start = time.perf_counter()
        tables += flow(engine, query, chunks[warm:], drains)
        seconds = time.perf_counter() - start
    found = table_digest(tables)
    assert found == expected, f"{found}, but the embedded engine has {expected}"
    return {
        "topology": topology,
        "window": effort.window,
        "tuples_per_second": sum(len(chunk.which) for chunk in chunks[warm:]) / seconds,
        "rows": found.rows,
    }


def bands(effort: Effort) -> dict[str, Any]:
    """The band join, numbers only and as in the demo, without a topology and on one."""
    data = generate(4 * effort.window + effort.arrivals)
    found = {}
    for topology in (None, "fqp:chain:1"):
        where = "" if topology is None else f", {topology}"
        found[f"numbers{where}"] = band(effort, NUMBERS, False, topology, data)
        found[f"as in the demo{where}"] = band(effort, WHOLE, True, topology, data)
    return found


# -- installing and changing ----------------------------------------------------------------------


def tuples(rng: np.random.Generator, count: int) -> pa.Table:
    """Tuples of one stream."""
    return pa.table(
        {
            "k": rng.integers(0, 10_000, count).astype(np.int32),
            "v": rng.integers(0, 1_000, count).astype(np.int32),
        }
    )


def in_force(engine: Any, act: Any, push: Any) -> tuple[float, int]:
    """Seconds and triggers from a call that changes queries until what follows it is processed."""
    before, start = engine.batches, time.perf_counter()
    act()
    at = engine.position
    push()
    assert engine.wait_for(at + 1, 600.0)
    return time.perf_counter() - start, engine.batches - before


def changes(effort: Effort) -> dict[str, Any]:
    """Installing a query, and changing it, while tuples flow."""
    rng = np.random.default_rng(5)
    found: dict[str, list[tuple[float, int]]] = {"install": [], "change": []}
    with resident(effort, "fqp:chain:4", 1) as engine:
        engine.sql("CREATE STREAM R (k INT, v INT)")
        first = engine.install("SELECT k, v FROM R WHERE v < 10")
        wanted = 0

        def push() -> None:
            nonlocal wanted
            table = tuples(rng, effort.chunk)
            wanted += int((table["v"].to_numpy() < 10).sum())
            engine.push("R", table)

        push()
        engine.wait()
        for number in range(effort.changes):
            push()
            name = f"selection {number}"
            texts = [f"SELECT k, v FROM R WHERE v = {number + i}" for i in (0, 1)]
            found["install"].append(
                in_force(engine, partial(engine.install, texts[0], name=name), push)
            )
            push()
            found["change"].append(in_force(engine, partial(engine.change, name, texts[1]), push))
        engine.wait()
        assert first.rows().num_rows == wanted
    return {
        name: {
            "seconds": statistics.median(seconds for seconds, _ in those),
            "most_seconds": max(seconds for seconds, _ in those),
            "triggers": statistics.median(count for _, count in those),
            "most_triggers": max(count for _, count in those),
        }
        for name, those in found.items()
    }


# -- a fleet --------------------------------------------------------------------------------------


def fleet(effort: Effort) -> dict[str, Any]:
    """Selections and joins on one topology, beside the same queries without one."""
    joins = max(1, effort.queries // 20)
    texts = [f"SELECT k, v FROM R WHERE v = {i}" for i in range(effort.queries - joins)]
    texts += [
        f"SELECT r.k, s.v FROM R [ROWS 64] AS r JOIN S [ROWS 64] AS s ON r.k = s.k AND s.v > {i}"
        for i in range(joins)
    ]
    rng = np.random.default_rng(6)
    parts = [tuples(rng, effort.chunk) for _ in range(max(2, effort.arrivals // effort.chunk // 4))]
    found: dict[str, Any] = {}
    digests = set()
    for name, topology in (("topology", f"fqp:chain:{joins + 1}"), ("separate", None)):
        with resident(effort, topology, 1) as engine:
            engine.sql("CREATE STREAM R (k INT, v INT); CREATE STREAM S (k INT, v INT)")
            start = time.perf_counter()
            queries = [engine.install(text) for text in texts]
            engine.wait()
            installed = time.perf_counter() - start

            def go(those: list[pa.Table], engine: Any = engine, queries: Any = queries) -> Made:
                for number, part in enumerate(those):
                    engine.push("RS"[number % 2], part)
                engine.wait()
                return sum((digest(query.rows()) for query in queries), Made())

            made = go(parts[:2])
            start = time.perf_counter()
            made += go(parts)
            seconds = time.perf_counter() - start
        digests.add(made)
        found[name] = {
            "queries": len(texts),
            "installed_seconds": installed,
            "tuples_per_second": len(parts) * effort.chunk / seconds,
            "rows": made.rows,
        }
    assert len(digests) == 1, f"other rows: {digests}"
    return found


def run(quick: bool = False) -> dict[str, Any]:
    """All parts."""
    effort = SHORT if quick else LONG
    return {"band_join": bands(effort), "changes": changes(effort), "fleet": fleet(effort)}
