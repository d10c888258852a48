"""The demo in this process: every pair compared, as in the papers, and then with an index.

The query is changed while the streams flow, and DuckDB checks its rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import penstock
from penstock.cli.tables import aligned
from penstock.demo.check import MISSING, check
from penstock.demo.data import BAND, STREAMS, WIDER, Data, Size, generate, near
from penstock.demo.screen import Screen
from penstock.streams.events import Merged

SIZE = Size(window=1 << 15, arrivals=1 << 18, chunk=1 << 13)


def run_demo(screen: Screen, size: Size = SIZE) -> bool:
    """Run the demo and report on the screen. False if DuckDB's rows differ."""
    data = generate(size.arrivals)
    query = near(size.window, BAND)
    screen.say(
        "Two streams, and a join that needs no equality: all pairs whose keys are near each other"
    )
    screen.say(f"in two dimensions, among the last {size.window:,} tuples of each stream.")
    screen.say()
    for line in f"{STREAMS}\n{query};".splitlines():
        screen.say(f"  {line}")
    screen.say()
    with penstock.connect("local") as engine:
        engine.sql(STREAMS)
        screen.say("First as the papers do it, comparing every pair (kernel nested-loop):")
        installed = engine.install(query, name="near", kernel="nested-loop")
        found = _flow(engine, installed, data, size, screen)
    same = _with_index(query, data, size, found, screen)
    return _check(data, size, found, screen) and same


def _with_index(query: str, data: Data, size: Size, expected: pa.Table, screen: Screen) -> bool:
    """Run the same streams and change with the kernel that the planner chooses."""
    chunks = list(data.chunks(size.chunk))
    half = len(chunks) // 2
    with penstock.connect("local") as engine:
        engine.sql(STREAMS)
        installed = engine.install(query, name="near")
        engine.feed(chunks[:1])
        tables = [installed.rows()]
        started = time.perf_counter()
        for number, chunk in enumerate(chunks[1:], 1):
            if number == half:
                installed.change(near(size.window, WIDER))
            engine.feed([chunk])
            tables.append(installed.rows())
        seconds = time.perf_counter() - started
        kernel = installed.program.joins[0].kernel
    found = pa.concat_tables(tables)
    tuples = size.arrivals - len(chunks[0])
    same = bool(found.equals(expected))
    screen.say(
        f"The same once more with the kernel that EXPLAIN names, {kernel}: "
        f"{tuples / seconds:,.0f} tuples/s, {'the same rows' if same else 'OTHER ROWS'}."
    )
    return same


def _flow(engine: Any, query: Any, data: Data, size: Size, screen: Screen) -> pa.Table:
    """Feed both halves of the streams, with the change between them; returns all rows."""
    chunks = list(data.chunks(size.chunk))
    half = len(chunks) // 2
    screen.move("Compiling, once ...")
    started = time.perf_counter()
    engine.feed(chunks[:1])
    screen.say(f"Compiled and started in {time.perf_counter() - started:.1f} s.")
    first = query.rows()
    before = _part(engine, query, chunks[1:half], screen)
    screen.say("A few of the rows:")
    for line in aligned(pa.concat_tables([first, before.rows]).slice(0, 4)):
        screen.say(f"  {line}")
    screen.say()
    query.change(near(size.window, WIDER))
    screen.say(
        f"Now the band becomes ±{WIDER} instead of ±{BAND}, by q.change(...): the query goes on,"
    )
    screen.say("and its windows keep their tuples.")
    screen.say()
    after = _part(engine, query, chunks[half:], screen)
    if before.rate:
        screen.say(
            f"Twice as wide in two dimensions: {after.rate / before.rate:.1f} times as many rows "
            "for as many comparisons."
        )
    return pa.concat_tables([first, before.rows, after.rows])


@dataclass(frozen=True)
class _Part:
    """The rows of some arrivals, and the number of rows for each comparison."""

    rows: pa.Table
    rate: float


def _part(engine: Any, query: Any, chunks: list[Merged], screen: Screen) -> _Part:
    """Feed some arrivals and report their rate."""
    compared = query.metrics()["comparisons"]
    tables: list[pa.Table] = [query.schema.empty_table()]
    started = time.perf_counter()
    for chunk in chunks:
        engine.feed([chunk])
        tables.append(query.rows())
    seconds = time.perf_counter() - started
    tuples = sum(map(len, chunks))
    compared = query.metrics()["comparisons"] - compared
    rows = pa.concat_tables(tables)
    screen.say(
        f"{tuples:,} tuples in {seconds:.1f} s: {tuples / seconds:,.0f} tuples/s, "
        f"{compared / seconds / 1e9:.2f} G comparisons/s on one core, {rows.num_rows:,} rows."
    )
    return _Part(rows, rows.num_rows / compared if compared else 0.0)


def _check(data: Data, size: Size, found: pa.Table, screen: Screen) -> bool:
    verdict = check(data, found, size.window, size.change)
    if verdict is None:
        screen.say(MISSING)
        return True
    screen.say(
        f"Checked with DuckDB {verdict.version} on the same data ({verdict.seconds:.1f} s): "
        f"{found.num_rows:,} rows, {verdict}."
    )
    return verdict.same
