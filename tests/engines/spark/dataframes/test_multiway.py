"""Joins of three and more DataFrames, without Spark: the oracle's rows, for any cut."""

from __future__ import annotations

import decimal
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type
from tests.effort import examples
from tests.engines.spark.batched import recorded
from tests.engines.spark.dataframes.in_process import (
    Cluster,
    Row,
    Trigger,
    batch_of,
    job_of,
    source,
)
from tests.random_multiway import Shape, multiway_queries, shapes
from tests.random_scripts import ALIKE, Q, R, S
from tests.thresholds import low_thresholds

from penstock.engines.spark.dataframes.columns import DataFrameStream
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import Unpack, UnpackInOrder, output_rows
from penstock.errors import InputError
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import CreateStream, Derive, Install
from penstock.streams.events import End, Tuples
from penstock.streams.literals import physical_list

OUTPUT = pa.schema(
    {
        "number": pa.int64(),
        "kind": pa.string(),
        "stream": pa.string(),
        "count": pa.int64(),
        "payload": pa.binary(),
    }
)
"""The outputs of the cores, as Spark hands them on."""
SCHEMAS = {stream.name: stream.schema for stream in (R, S, Q)}
VALUES = (*ALIKE, *ALIKE, (2, -0.0, "ab", decimal.Decimal("2")), (None, None, None, None))

TIMED = Shape(("R", "S", "Q"), (False, False, False))
QUERIES = st.one_of(
    multiway_queries(TIMED),
    shapes().map(lambda shape: replace(shape, whole=False)).flatmap(multiway_queries),
)
"""Over streams without an end; half of them may have a key by which cores divide their tuples."""


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


def source_of(name: str, schema: pa.Schema, slack: int) -> DataFrameStream:
    """A DataFrame with these columns, and a watermark on its column t if there is one."""
    fields = [types.StructField(f.name, from_arrow_type(f.type)) for f in schema]
    watermark = ("t", Fraction(slack)) if "t" in schema.names else None
    return DataFrameStream(name, types.StructType(fields), False, "UTC", watermark)


@st.composite
def arrivals(draw: st.DrawFn) -> dict[str, list[Row]]:
    """Tuples of R, S and Q, each in the order of their times, no two at one time."""
    found: dict[str, list[Row]] = {}
    for name in SCHEMAS:
        rows, t = [], 0
        for step in draw(st.lists(st.sampled_from((1, 1, 2)), min_size=1, max_size=9)):
            t += step
            rows.append((t, *draw(st.sampled_from(VALUES))))
        found[name] = rows
    return found


def triggers_of(streams: list[list[Row]], disorder: int, chance: random.Random) -> list[Trigger]:
    """The tuples in a few triggers; a tuple comes after others that are up to ``disorder`` later.

    So some of them are late, if that is more than the slack of their window.
    """
    cuts = chance.randint(1, 5)
    found: list[Trigger] = [[] for _ in range(cuts)]
    for lane, rows in enumerate(streams):
        order = sorted(rows, key=lambda row: row[0] + chance.uniform(0, disorder))
        places = sorted(chance.randrange(cuts) for _ in order)
        for number, parts in enumerate(found):
            mine = [row for row, place in zip(order, places, strict=True) if place == number]
            chance.shuffle(mine)
            parts += [(lane, mine[::2]), (lane, mine[1::2])]
    return found


def sequence_of(job: Job, streams: list[list[Row]], triggers: list[Trigger]) -> list[Any]:
    """The order in which the cores take the tuples: by time, then by stream.

    Where tuples wait, those that the punctuations of all streams have passed.
    """
    given_ = triggers
    if job.by_key:
        lanes = zip(streams, job.lanes, strict=True)
        frontier = min(rows[-1][0] - lane.delay for rows, lane in lanes)
        passed = [[row for row in rows if row[0] < frontier] for rows in streams]
        given_ = [list(enumerate(passed))]
    found: list[Any] = []
    for parts in given_:
        every = [(lane, row) for lane, rows in parts for row in rows]
        found += sorted(every, key=lambda one: (one[1][0], one[0]))
    return found


def plain(row: Row) -> str:
    """A row for comparison: the same for 0.0 and -0.0, and for 2 and 2.00."""
    return str([float(v) + 0.0 if isinstance(v, float | decimal.Decimal) else v for v in row])


@examples(200)
@given(
    QUERIES,
    arrivals(),
    st.sampled_from(("order", "arrival")),
    st.sampled_from((0, 6, 12)),
    st.sampled_from((1, 2, 3)),
    st.integers(0, 1 << 30),
)
def test_rows_of_random_joins_are_the_oracles(
    query: tuple[Any, str],
    rows: dict[str, list[Row]],
    merge: str,
    disorder: int,
    cores: int,
    seed: int,
) -> None:
    shape, sql = query
    read = [*dict.fromkeys((*shape.streams, *(("S",) if shape.branch else ())))]
    sources = {name: source_of(name, SCHEMAS[name], slack=2) for name in read}
    job = job_of(sql, *sources.values(), order_by="t", merge=merge, letters=True)
    cluster = Cluster(job, cores, random.Random(seed), SCHEMAS)
    note(f"{sql}\nby key: {cluster.job.by_key}, partitioned: {cluster.job.keys is not None}")
    streams = [rows[lane.stream.name] for lane in job.lanes]
    triggers = triggers_of(streams, 0 if job.by_key else disorder, random.Random(seed))
    for parts in triggers:
        cluster.trigger(parts)
    oracle = Oracle(order_column="t")
    for lane in job.lanes:
        name = lane.stream.name
        oracle.create_stream(replace(sources[name].stream, slack=lane.stream.slack))
    oracle.install("found", sql)
    for lane, row in sequence_of(job, streams, triggers):
        name = job.lanes[lane].stream.name
        oracle.tuples(name, batch_of([row], SCHEMAS[name]))
    expected = [plain(row) for _, row in oracle.rows["found"]]
    found = [plain(row) for row in cluster.rows()]
    assert (found if shape.order else sorted(found)) == (
        expected if shape.order else sorted(expected)
    )
    late = Counter(stream for _, stream, _ in oracle.late["found"])
    assert Counter(stream for stream, *_ in cluster.letters("late")) == late
    assert cluster.letters("dead") == []


FOLDER = Path(__file__).parents[3] / "conformance"
SCRIPTS = sorted(FOLDER.glob("multiway-*.flow"))
WITHOUT = {
    "multiway-aggregate-at-end": "a streaming DataFrame has no end",
    "multiway-change-predicate": "a query over DataFrames does not change",
    "multiway-change-window": "a query over DataFrames does not change",
    "multiway-derived-aggregate": "the end closes its last window",
    "multiway-end-of-streams": "a streaming DataFrame has no end",
    "multiway-expiry": "a DataFrame has no punctuations",
}


@pytest.mark.parametrize(
    "path", [path for path in SCRIPTS if path.stem not in WITHOUT], ids=lambda path: path.stem
)
def test_a_script_means_the_same_over_dataframes(path: Path) -> None:
    """Every tuple is a trigger, so that tuples arrive in the order of the script."""
    events, lines = recorded(path.read_text(encoding="utf-8"))
    schemas = {e.stream.name: e.stream.schema for e in events if isinstance(e, CreateStream)}
    derived = "".join(
        f"CREATE STREAM {e.name} AS {e.program};" for e in events if type(e) is Derive
    )
    assert {type(e) for e in events} <= {CreateStream, Derive, Install, Tuples, End}
    for install in (event for event in events if isinstance(event, Install)):
        sources = [source_of(name, schema, 0) for name, schema in schemas.items()]
        text = f"{derived}{install.program}"
        sources = [one for one in sources if f"{one.name} [" in text]
        job = job_of(text, *sources, merge="arrival", letters=True)
        cluster = Cluster(job, 2, random.Random(1), schemas)
        numbers = {lane.stream.name: number for number, lane in enumerate(job.lanes)}
        for event in (e for e in events if isinstance(e, Tuples) and e.stream in numbers):
            columns = [physical_list(column) for column in event.batch.columns]
            for row in zip(*columns, strict=True):
                cluster.trigger([(numbers[event.stream], [row])])
        name = install.query
        found = [f"{name}: {', '.join(map(str, row))}" for row in cluster.rows()]
        found += [f"late {name}: {stream}: {t}" for stream, t, _ in cluster.letters("late")]
        assert sorted(found) == sorted(line for line in lines if f"{name}:" in line)


THREE = (
    "SELECT r.id, s.id, u.id FROM r [ROWS 50] JOIN s [ROWS 50] ON r.x = s.x "
    "JOIN u [RANGE 100 WATTR ts SLACK 0] ON s.id = u.id"
)


def test_a_trigger_writes_one_chunk_of_each_window() -> None:
    cluster = Cluster(job_of(THREE, merge="arrival", order_by="ts"), 1)
    row = [[(lane, [(ts, ts, 1, "a")]) for lane in range(3)] for ts in range(200)]
    for parts in row[:100]:
        cluster.trigger(parts)
    before = dict(cluster.stores[0]._index.chunks)
    cluster.trigger(row[100])
    after = cluster.stores[0]._index.chunks
    changed = sorted(key.split("/")[-2] for key in after if after[key] != before.get(key))
    assert changed == ["R", "S", "S2"]
    assert len(cluster.rows()) > 100


def test_a_restart_goes_on_with_all_windows() -> None:
    whole, parts = (Cluster(job_of(THREE, merge="arrival", order_by="ts"), 2) for _ in range(2))
    for ts in range(60):
        trigger: Trigger = [(lane, [(ts, ts % 7, ts % 3, "a")]) for lane in range(3)]
        parts.forget()
        for cluster in (whole, parts):
            cluster.trigger(trigger)
    assert len(whole.rows()) > 500
    assert parts.rows() == whole.rows()


@pytest.mark.parametrize(
    ("streaming", "message"),
    [
        (
            "s",
            "r is a static DataFrame and s a streaming one: a window over a table that does not "
            "move has no meaning\n"
            "Read r with spark.readStream, or read all with spark.read, or join the table with "
            "the result in Spark.",
        ),
    ],
)
def test_tables_and_streams_do_not_join(streaming: str, message: str) -> None:
    sources = [source(name, bounded=name not in streaming) for name in "rsu"]
    with pytest.raises(InputError) as caught:
        job_of(THREE, *sources, order_by="ts")
    assert str(caught.value) == message


def test_a_missing_dataframe_and_a_missing_order_are_named() -> None:
    with pytest.raises(InputError) as missing:
        job_of(THREE, source("r"), source("s"), order_by="ts")
    assert str(missing.value) == (
        "the query reads u, for which there is no DataFrame\nPass it: pss.sql(..., u=df)."
    )
    with pytest.raises(InputError) as unordered:
        job_of(THREE)
    assert str(unordered.value) == (
        "a join with a window that counts arrivals needs an arrival order, and the rows of a "
        "DataFrame have none\n"
        "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
        "trigger by trigger, in the order of their content, with merge='arrival'."
    )
    with pytest.raises(InputError) as partly:
        job_of(THREE, order_by={"r": "ts", "s": "ts"})
    assert str(partly.value) == (
        "order_by has no column for stream u\nWrite order_by={'r': ..., 's': ..., 'u': ...}."
    )


def test_ordered_rows_of_all_cores_come_in_one_order() -> None:
    """As Spark brings them together: frames of every core in any order, cut into pieces."""
    sql = (
        "SELECT r.id AS a, s.id AS b, u.id AS c FROM r [ROWS 4] "
        "JOIN s [ROWS 4] ON r.x = s.x JOIN u [ROWS 4] ON s.x = u.x EMIT ORDER inner"
    )
    job = job_of(sql, order_by="ts", merge="arrival")
    cluster = Cluster(job, 3)
    for start in range(0, 60, 20):
        parts = [(n % 3, [(n, n, n // 3 % 2, "")]) for n in range(start, start + 20)]
        cluster.trigger(parts)
    expected = cluster.rows()
    assert len(expected) > 200
    rows = [row for number, one in cluster.made for row in output_rows(number, one)]
    random.Random(1).shuffle(rows)
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    unpack = UnpackInOrder(Unpack(cluster.job, schema))
    found = unpack(iter([pa.RecordBatch.from_pylist(rows, OUTPUT)]))
    assert [tuple(row.values()) for one in found for row in one.to_pylist()] == expected
