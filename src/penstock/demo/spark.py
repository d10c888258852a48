"""The demo on Spark: a join that Spark refuses, run on it all the same and changed meanwhile."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock as ps
from penstock.demo.check import MISSING, check
from penstock.demo.data import BAND, STREAMS, WIDER, Data, Size, generate, near
from penstock.demo.dataframes import (
    STOCK,
    Streams,
    ask_spark,
    code,
    run_code,
    taken,
    write_streams,
)
from penstock.demo.flow import CHUNKS_PER_TRIGGER, Flow
from penstock.demo.screen import Screen
from penstock.streams.tables import aligned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
SIZE = Size(window=1 << 17, arrivals=1 << 21, chunk=1 << 16)
FEW = Size(window=1 << 13, arrivals=1 << 16, chunk=1 << 16)
"""For the DataFrames: the first arrivals, and a smaller window."""


def run_demo(screen: Screen, size: Size = SIZE, few: Size = FEW) -> bool:
    """Tell what happens on the screen. False if an answer or the run id is not what it should."""
    from penstock.engines.spark.session import open_session

    screen.say(
        "A join without an equality: all pairs of two streams whose keys are near each other"
    )
    screen.say("in two dimensions.")
    screen.say()
    screen.move("Starting Spark ...")
    started = time.perf_counter()
    with closing(open_session(CORES)) as session, tempfile.TemporaryDirectory() as folder:
        spark = session.spark.newSession()  # with Spark's own settings
        screen.say(f"Spark {spark.version} has started, in {_since(started)}.")
        screen.say()
        data = generate(size.arrivals)
        first = data.first(few.arrivals)
        streams = write_streams(spark, first, Path(folder))
        _refusal(spark, streams, screen)
        good = _resident(data, size, screen)
        return _dataframes(first, streams, few.window, screen) and good


def _refusal(spark: SparkSession, streams: Streams, screen: Screen) -> None:
    screen.say("1. Spark by itself, asked for this join of two streams with watermarks,")
    _quote(STOCK, screen)
    said = ask_spark(spark, streams, STOCK)
    if said is None:
        screen.say("   runs it: this version can.")
        screen.say()
        return
    screen.say("   refuses:")
    _quote(said, screen)


def _resident(data: Data, size: Size, screen: Screen) -> bool:
    """The query in one run of Spark, changed in the middle. False if something is wrong."""
    screen.say(f"2. Penstock on Spark, ps.connect('spark', cores={CORES}), asked for")
    _quote(f"{STREAMS}\n{near(size.window, BAND)};", screen)
    screen.move("   Starting the query (compiling, once) ...")
    started = time.perf_counter()
    trigger = CHUNKS_PER_TRIGGER * size.chunk
    with ps.connect("spark", cores=CORES, rows_per_trigger=trigger) as engine:
        engine.sql(STREAMS)
        query = engine.install(near(size.window, BAND), name="near")
        flow = Flow(engine, query, data, size, screen)
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
    """The lines of a user's program, printed and run. False if their rows are wrong."""
    text = code(window)
    screen.say("5. In your own program, with the two streaming DataFrames that Spark was given:")
    _quote(text, screen)
    started = time.perf_counter()
    found = run_code(text, streams)
    screen.say(f"   This has just run as it stands, in {_since(started)}: {found.num_rows:,} rows.")
    verdict = check(taken(data), found, window)
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
