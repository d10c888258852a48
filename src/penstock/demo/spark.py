"""The demo on Spark: a join that Spark refuses, run on Spark anyway and changed while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock as ps
from penstock.cli.tables import aligned
from penstock.demo.check import MISSING, check
from penstock.demo.data import BAND, STREAMS, WIDER, Data, Size, generate, near
from penstock.demo.dataframes import (
    STOCK,
    Streams,
    ask_spark,
    code,
    merged_arrivals,
    run_code,
    write_streams,
)
from penstock.demo.screen import Screen
from penstock.leftovers import remove, temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from typing import TYPE_CHECKING, Any

from penstock.streams.events import Merged

if TYPE_CHECKING:
    from penstock.engines.spark.engine import Engine

CORES = 2
SIZE = Size(window=1 << 17, arrivals=1 << 21, chunk=1 << 16)
FEW = Size(window=1 << 13, arrivals=1 << 16, chunk=1 << 16)
"""For the DataFrames: the first arrivals, and a smaller window."""
_LOOK_AGAIN = 0.2
"""Seconds between two checks of the cores' progress."""


def run_demo(screen: Screen, size: Size = SIZE, few: Size = FEW) -> bool:
    """Run the demo and report on the screen. False if the rows or the run id are wrong."""
    from penstock.engines.spark.session import open_session

    screen.say(
        "A join without an equality: all pairs of two streams whose keys are near each other"
    )
    screen.say("in two dimensions.")
    screen.say()
    screen.move("Starting Spark ...")
    started = time.perf_counter()
    with closing(open_session(CORES)) as session, temporary() as folder:
        spark = session.spark.newSession()  # with Spark's own settings
        screen.say(f"Spark {spark.version} has started, in {_since(started)}.")
        screen.say()
        data = generate(size.arrivals)
        first = data.first(few.arrivals)
        streams = write_streams(spark, first, folder)
        _refusal(spark, streams, screen)
        good = _resident(data, size, screen)
        return _dataframes(first, streams, few.window, screen) and good


@contextmanager
def temporary() -> Iterator[Path]:
    """A temporary folder."""
    folder = temporary_folder("penstock-demo-")
    try:
        yield folder
    finally:
        remove(folder)


def _refusal(spark: SparkSession, streams: Streams, screen: Screen) -> None:
    screen.say("1. Spark by itself, asked for this join of two streams with watermarks,")
    _quote(STOCK, screen)
    refusal = ask_spark(spark, streams, STOCK)
    if refusal is None:
        screen.say("   runs it: this version can.")
        screen.say()
        return
    screen.say("   refuses:")
    _quote(refusal, screen)


def _resident(data: Data, size: Size, screen: Screen) -> bool:
    """Run the query in one Spark query, changed in the middle. False if something is wrong."""
    screen.say(f"2. Penstock on Spark, ps.connect('spark', cores={CORES}), asked for")
    _quote(f"{STREAMS}\n{near(size.window, BAND)};", screen)
    screen.move("   Starting the query (compiling, once) ...")
    started = time.perf_counter()
    trigger = CHUNKS_PER_TRIGGER * size.chunk
    with ps.connect("spark", cores=CORES, rows_per_trigger=trigger) as engine:
        engine.sql(STREAMS)
        query = engine.install(near(size.window, BAND), name="near")
        flow = SparkFeed(engine, query, data, size, screen)
        flow.start()
        run_id = engine.run_id
        screen.say(f"   runs it, after {_since(started)}. Spark's run id is {run_id}.")
        flow.first_half()
        under_way = engine.position - engine.progress
        query.change(near(size.window, WIDER))
        screen.say()
        screen.say(f"3. Changed while it runs, by q.change(...): ±{WIDER} instead of ±{BAND} from")
        screen.say(f"   tuple {size.change:,} on, with {under_way:,} tuples still under way.")
        found = flow.second_half()
        same_run = engine.run_id == run_id
        now = f"still {run_id}" if same_run else f"NOT the same: {engine.run_id}"
        screen.say(f"   Spark's run id is {now}.")
    screen.say("   A few of the rows:")
    screen.say()
    for line in aligned(found.slice(0, 3)):
        screen.say(f"     {line}")
    screen.say()
    return _check(data, found, size, screen) and same_run


def _check(data: Data, found: pa.Table, size: Size, screen: Screen) -> bool:
    verdict = check(data, found, size.window, size.change)
    if verdict is None:
        screen.say(f"4. {MISSING}")
        screen.say()
        return True
    screen.say(
        f"4. Checked with DuckDB {verdict.version} on the same data ({verdict.seconds:.1f} s): "
        f"{found.num_rows:,} rows, {verdict}."
    )
    if verdict.same:
        screen.say(
            f"   {verdict.across:,} of them pair a tuple from before the change with one from"
        )
        screen.say("   after it: the windows were kept.")
    screen.say()
    return verdict.same


def _dataframes(data: Data, streams: Streams, window: int, screen: Screen) -> bool:
    """Print and run the lines of a user's program. False if their rows are wrong."""
    text = code(window)
    screen.say("5. In your own program, with the two streaming DataFrames that Spark was given:")
    _quote(text, screen)
    started = time.perf_counter()
    found = run_code(text, streams)
    screen.say(f"   This has just run as it stands, in {_since(started)}: {found.num_rows:,} rows.")
    verdict = check(merged_arrivals(data), found, window)
    if verdict is None:
        return True
    screen.say(f"   Checked with DuckDB: {verdict}.")
    return verdict.same


def _quote(text: str, screen: Screen) -> None:
    screen.say()
    for line in text.splitlines():
        screen.say(f"     {line}")
    screen.say()


def _since(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


CHUNKS_PER_TRIGGER = 4


class SparkFeed:
    """Feeds both halves of the arrivals, never far ahead of the cores, and drains the rows."""

    def __init__(self, engine: Engine, query: Any, data: Data, size: Size, screen: Screen) -> None:
        self._engine = engine
        self._query = query
        self._size = size
        self._screen = screen
        self._chunks = list(data.chunks(size.chunk))
        self._rows: list[pa.Table] = []
        self._instructions = engine.position
        self._reported = 0
        self._reported_at = self._started = 0.0

    def start(self) -> None:
        """Feed the first chunk, which compiles the query; timing starts after it."""
        self._engine.feed(self._chunks[:1])
        self._engine.wait()
        self._drain()
        self._reported = self._done()
        self._reported_at = self._started = time.perf_counter()

    def first_half(self) -> None:
        """Feed all chunks before the change; the last ones may still be in progress afterwards."""
        self._feed(self._chunks[1 : self._size.change // self._size.chunk])

    def second_half(self) -> pa.Table:
        """Feed the rest and wait until it is processed; returns the rows of both halves."""
        self._feed(self._chunks[self._size.change // self._size.chunk :])
        self._watch(self._engine.position)
        seconds = time.perf_counter() - self._started
        first = len(self._chunks[0])
        tuples = self._size.arrivals - first
        self._screen.say(
            f"   The {tuples:,} tuples after the first {first:,} took {seconds:.1f} s: "
            f"{tuples / seconds:,.0f} tuples/s."
        )
        return pa.concat_tables(self._rows)

    def _feed(self, chunks: list[Merged]) -> None:
        ahead = 2 * CHUNKS_PER_TRIGGER * self._size.chunk
        for chunk in chunks:
            self._engine.feed([chunk])
            self._watch(self._engine.position - ahead)

    def _watch(self, position: int) -> None:
        """Drain and report until everything before a position is processed."""
        waiting = True
        while waiting:
            waiting = not self._engine.wait_for(position, _LOOK_AGAIN)
            self._drain()
            self._report()

    def _drain(self) -> None:
        self._rows.append(self._query.rows())

    def _done(self) -> int:
        done = self._engine.progress - self._instructions
        return done - 1 if done > self._size.change else done  # the change takes a position too

    def _report(self) -> None:
        """Report a line for every micro-batch, with the rate since the last one."""
        done, now = self._done(), time.perf_counter()
        if done <= self._reported:
            return
        rows = sum(table.num_rows for table in self._rows)
        rate = (done - self._reported) / (now - self._reported_at)
        total = self._size.arrivals
        self._screen.move(
            f"   {done:>9,} of {total:,} tuples, {rows:>9,} rows, {rate:>7,.0f} tuples/s"
        )
        self._reported, self._reported_at = done, now
