"""Queries over DataFrames, without Spark: the oracle's rows, however the input is cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types
from tests.effort import examples
from tests.engines.spark.dataframes.in_process import (
    NAMES,
    SCHEMA,
    Cluster,
    Row,
    Trigger,
    batch_of,
    job_of,
    source,
)
from tests.thresholds import low_thresholds

from penstock.engines.spark.dataframes.sequencer import KeyOrder
from penstock.errors import StateError
from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

COUNTED = [
    "SELECT r.id, s.id FROM r [ROWS 4] JOIN s [ROWS 3] ON r.x <= s.x",
    "SELECT r.id, s.id FROM r [ROWS 2] LEFT JOIN s [ROWS 3] ON r.x = s.x",
    "SELECT r.id, s.note FROM r [ROWS 2] FULL JOIN s [RANGE 3 WATTR ts] ON r.x = s.x",
    "SELECT r.id FROM r [NOW] SEMI JOIN s [ROWS 2] ON r.x = s.x",
    "SELECT a.id, b.id FROM r [ROWS 3] AS a JOIN r [ROWS 2] AS b ON a.x = b.x",
    "SELECT r.id, s.id FROM r [ROWS 5] JOIN s [ROWS 4] "
    "ON r.x BETWEEN s.x - 1 AND s.x + 1 AND r.id < s.id",
    "SELECT r.id, s.id FROM r [ROWS 5] JOIN s [ROWS 4] ON r.x = s.x AND r.id / (s.x - 1) < 4",
    "SELECT r.id, s.id FROM r [RANGE 4] JOIN s [RANGE 2] ON r.x < s.x EMIT ORDER inner",
    "SELECT id, x FROM r WHERE x > 1 UNION ALL SELECT id, x FROM s EMIT ORDER outer",
]
TIMED = [
    "SELECT r.id, s.id FROM r [RANGE 4 WATTR ts SLACK 5] JOIN s [RANGE 3 WATTR ts SLACK 5] "
    "ON r.x <= s.x",
    "SELECT r.id, s.id FROM r [RANGE 2 WATTR ts SLACK 5] FULL JOIN s [RANGE 3 WATTR ts SLACK 5] "
    "ON r.x = s.x",
    "SELECT r.id, s.id FROM r [RANGE 6 WATTR ts SLACK 5] JOIN s [RANGE 9 WATTR ts SLACK 5] "
    "ON ABS(r.x - s.x) <= 1",
    "SELECT r.id FROM r [RANGE 2 WATTR ts SLACK 5] ANTI JOIN s [RANGE 3 WATTR ts SLACK 5] "
    "ON r.x = s.x",
]


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


@st.composite
def inputs(
    draw: st.DrawFn, disorder: int, count: int = 2, longest: int = 25
) -> tuple[list[list[Row]], list[Trigger]]:
    """Tuples of r, s and so on as they are, and the same as triggers bring them, out of order."""
    streams: list[list[Row]] = []
    for stream in range(count):
        steps = draw(st.lists(st.integers(0, 2), max_size=longest))
        rows, ts = [], 0
        for number, step in enumerate(steps):
            ts += step
            x = draw(st.one_of(st.none(), st.integers(0, 3)))
            rows.append((ts, number if draw(st.booleans()) else 0, x, "abcde"[stream]))
        streams.append(rows)
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    places = []
    for stream, rows in enumerate(streams):
        # No tuple comes after one that is more than the disorder above it.
        late = sorted(range(len(rows)), key=lambda i: rows[i][0] + chance.randint(0, disorder))
        places += [(chance.random(), stream, i) for i in late]
    cuts = draw(st.integers(1, 6))
    triggers: list[Trigger] = []
    waiting = [[i for _, s, i in places if s == stream] for stream in range(count)]
    for number in range(cuts):
        parts: Trigger = []
        for stream in range(count):
            left = waiting[stream]
            size = len(left) if number == cuts - 1 else chance.randint(0, len(left))
            taken, waiting[stream] = left[:size], left[size:]
            chance.shuffle(taken)
            half = chance.randint(0, size)
            for part in (taken[:half], taken[half:]):
                parts.append((stream, [streams[stream][i] for i in part]))
        triggers.append(parts)
    return streams, triggers


def canonical(row: Row) -> tuple[Any, ...]:
    return tuple((value is not None, value if value is not None else 0) for value in row)


def on_oracle(sql: str, sequence: list[tuple[int, Row]]) -> list[Row]:
    oracle = Oracle(order_column="ts")
    for name in NAMES:
        oracle.create_stream(Stream.of(name, SCHEMA))
    oracle.install("q", sql)
    for stream, row in sequence:
        oracle.tuples(NAMES[stream], batch_of([row]))
    return [row for _, row in oracle.rows["q"]]


def in_order(streams: list[list[Row]], delay: int = 0) -> list[tuple[int, Row]]:
    """The tuples that the punctuations of all streams have passed, by key, stream and content."""
    if not all(streams):
        return []
    frontier = min(max(row[0] for row in rows) - delay for rows in streams)
    found = [(i, row) for i, rows in enumerate(streams) for row in rows if row[0] < frontier]
    return sorted(found, key=lambda one: (one[1][0], one[0], canonical(one[1])))


@examples(60)
@given(inputs(disorder=0), st.sampled_from(COUNTED), st.sampled_from([1, 2, 3]), st.integers())
def test_tuples_by_their_key_give_the_oracles_rows(
    given_: tuple[list[list[Row]], list[Trigger]], sql: str, cores: int, seed: int
) -> None:
    streams, triggers = given_
    job = job_of(sql, order_by="ts")
    cluster = Cluster(job, cores, random.Random(seed))
    for parts in triggers:
        cluster.trigger([part for part in parts if part[0] < len(job.lanes)])
    assert cluster.letters("late") == cluster.letters("dead") == []
    assert cluster.rows() == on_oracle(sql, in_order(streams[: len(job.lanes)]))


@examples(30)
@given(inputs(disorder=5), st.sampled_from(TIMED), st.sampled_from([1, 2]), st.integers())
def test_tuples_out_of_order_within_the_slack_come_out_in_order(
    given_: tuple[list[list[Row]], list[Trigger]], sql: str, cores: int, seed: int
) -> None:
    streams, triggers = given_
    sql += " EMIT ORDER inner"
    cluster = Cluster(job_of(sql, order_by="ts"), cores, random.Random(seed))
    for parts in triggers:
        cluster.trigger(parts)
    assert cluster.letters("late") == []
    assert cluster.rows() == on_oracle(sql, in_order(streams, delay=5))


@examples(60)
@given(inputs(disorder=5), st.sampled_from(TIMED), st.sampled_from([1, 3]), st.integers())
def test_time_windows_give_the_same_rows_for_any_cut(
    given_: tuple[list[list[Row]], list[Trigger]], sql: str, cores: int, seed: int
) -> None:
    streams, triggers = given_
    cluster = Cluster(job_of(sql), cores, random.Random(seed))
    for parts in triggers:
        cluster.trigger(parts)
    sequence = [(i, row) for i in (0, 1) for row in streams[i]]
    sequence.sort(key=lambda one: (one[1][0], one[0], canonical(one[1])))
    assert cluster.letters("late") == cluster.letters("dead") == []
    assert sorted(map(str, cluster.rows())) == sorted(map(str, on_oracle(sql, sequence)))


@examples(30)
@given(inputs(disorder=9), st.sampled_from(COUNTED[:2]), st.integers())
def test_nothing_waits_in_order_of_arrival_and_a_replay_gives_the_same(
    given_: tuple[list[list[Row]], list[Trigger]], sql: str, seed: int
) -> None:
    _, triggers = given_
    job = job_of(sql, order_by="ts", merge="arrival")
    sequence: list[tuple[int, Row]] = []
    cluster = Cluster(job, 2, random.Random(seed))
    for parts in triggers:
        cluster.trigger(parts)
        found = [(lane, row) for lane, rows in parts for row in rows]
        sequence += sorted(found, key=lambda one: (one[1][0], one[0], canonical(one[1])))
    assert cluster.rows() == on_oracle(sql, sequence)


def test_what_was_released_before_a_restart_is_not_released_again() -> None:
    cluster = Cluster(job_of(COUNTED[0], order_by="ts"), 2)
    streams: list[list[Row]] = [[(ts, ts, 0, "a") for ts in range(10)], []]
    cluster.trigger([(0, streams[0])])
    for ts in (3, 6, 9):
        row = (ts, ts, 1, "b")
        streams[1].append(row)
        cluster.forget()
        cluster.trigger([(1, [row])])
        assert cluster.rows() == on_oracle(COUNTED[0], in_order(streams))


def test_a_tuple_without_a_key_is_a_dead_letter() -> None:
    job = job_of(COUNTED[0], order_by="ts", letters=True)
    cluster = Cluster(job, 2)
    cluster.trigger([(0, [(None, 1, 1, "a"), (1, 2, 1, None)]), (1, [(2, 3, 1, "b")])])
    assert cluster.letters("dead") == [("r", "NULL, 1, 1, 'a'", "NULL in order column ts")]


def test_a_tuple_behind_its_own_punctuation_is_late() -> None:
    job = job_of(COUNTED[0], order_by="ts", letters=True)
    cluster = Cluster(job, 2)
    cluster.trigger([(0, [(5, 1, 1, "a")]), (1, [(1, 1, 1, "b")])])
    cluster.trigger([(0, [(4, 2, 1, "a"), (5, 3, 1, "a")]), (1, [(9, 2, 1, "b")])])
    assert cluster.letters("late") == [("r", "4, 2, 1, 'a'", "ts = 4 is before the punctuation 5")]
    assert cluster.rows() == []  # the tuples at 5 may have company yet
    cluster.trigger([(0, [(9, 4, 1, "a")])])
    assert cluster.rows() == [(1, 1), (3, 1)]


def held(cluster: Cluster, parts: Trigger, at: int) -> int:
    made = cluster.trigger(parts, at)
    return next(one.count for one in made if one.kind == "held")


def test_a_stalled_stream_holds_the_other_up() -> None:
    cluster = Cluster(job_of(COUNTED[0], order_by="ts"), 1)
    assert held(cluster, [(0, [(1, 1, 1, "a")]), (1, [(1, 1, 1, "b")])], at=0) == 2
    assert held(cluster, [(0, [(2, 2, 1, "a")])], at=10**9) == 3
    assert held(cluster, [(1, [(3, 2, 1, "b")])], at=10**9 + 1) == 2


def test_a_stalled_stream_holds_the_other_up_no_longer_once_it_is_idle() -> None:
    cluster = Cluster(job_of(COUNTED[0], order_by="ts", idle_timeout=1, letters=True), 1)
    assert held(cluster, [(0, [(1, 1, 1, "a")]), (1, [(1, 1, 1, "b")])], at=0) == 2
    assert held(cluster, [(0, [(2, 2, 1, "a")])], at=999) == 3
    assert held(cluster, [(0, [(3, 3, 1, "a")])], at=1000) == 1
    cluster.trigger([(1, [(2, 2, 1, "b"), (4, 4, 1, "b")])], at=1001)
    assert cluster.letters("late") == [("s", "2, 2, 1, 'b'", "ts = 2 is before the punctuation 3")]


def test_a_stream_that_waits_long_is_not_written_again_and_again() -> None:
    cluster = Cluster(job_of(COUNTED[0], order_by="ts"), 1)
    triggers, rows, width = 64, 1000, 8 + 8 + 4
    for number in range(triggers):
        cluster.trigger([(0, [(number, i, 1, "x") for i in range(rows)])])
    assert cluster.rows() == []
    # Each tuple is written once for every doubling of what waits: not once for every trigger.
    assert cluster.written() < 8 * triggers * rows * width


def test_whole_numbers_and_floats_are_one_order() -> None:
    whole = {"ts": types.LongType(), "id": types.LongType(), "x": types.IntegerType()}
    streams = source("r", whole), source("s", {**whole, "ts": types.DoubleType()})
    sql = "SELECT r.id, s.id FROM r [ROWS 2] JOIN s [ROWS 2] ON r.x = s.x"
    lanes = job_of(sql, *streams, order_by="ts").lanes
    batches = [
        pa.RecordBatch.from_pydict({"ts": ts, "id": [1, 2], "x": [1, 1]}, schema=lane.stream.schema)
        for lane, ts in zip(lanes, ([1, 3], [2.5, 4.5]), strict=True)
    ]
    taken = KeyOrder(lanes).take([[batch] for batch in batches], 0, last=False)
    assert [event.which.tolist() for event in taken.events] == [[0, 1]]
    assert taken.held == 2


@pytest.mark.parametrize(
    ("sql", "options", "cores", "message"),
    [
        (
            COUNTED[1],
            {},
            2,
            f"the checkpoint is of another query\n  then: {COUNTED[0]}\n  now:  {COUNTED[1]}\n"
            "  differs: '4' was, '2' is; 'LEFT' is new; '<=' was, '=' is\n"
            "Give the query a checkpointLocation of its own, or run the one that it is of.",
        ),
        (
            COUNTED[0],
            {"idle_timeout": 60},
            2,
            "the checkpoint is of this query over other columns, or with another order_by, merge, "
            "watermark, letters, idle_timeout or design\n"
            "Give the query a checkpointLocation of its own, or run the one that it is of.",
        ),
        (
            COUNTED[0],
            {},
            3,
            "the checkpoint was written with cores=2, and its windows are divided among so many; "
            "cores=3 cannot read them\nPass cores=2, or start with an empty checkpointLocation.",
        ),
    ],
    ids=["query", "options", "cores"],
)
def test_a_state_of_another_query_is_refused(
    sql: str, options: dict[str, Any], cores: int, message: str
) -> None:
    one = Cluster(job_of(COUNTED[0], order_by="ts"), 2)
    one.trigger([(0, [(1, 1, 1, "a")])])
    other = Cluster(job_of(sql, order_by="ts", **options), cores)
    other.stores[:2] = one.stores
    with pytest.raises(StateError) as error:
        other.trigger([(0, [(2, 1, 1, "a")])])
    assert str(error.value) == message


NAMED = "SELECT r.id AS a, s.id AS b FROM r {0}] LEFT JOIN s {0}] ON r.x = s.x"
RENAMED = "select R2.id a, S2.id b  FROM r {0}] R2 LEFT JOIN s {0}] as S2\n on (R2.x = S2.x)"


@pytest.mark.parametrize(
    ("window", "options"),
    [("[ROWS 2", {"order_by": "ts"}), ("[RANGE 3 WATTR ts SLACK 5", {})],
    ids=["by order", "by key"],
)
def test_another_spelling_of_the_query_goes_on(window: str, options: dict[str, Any]) -> None:
    one = Cluster(job_of(NAMED.format(window), **options), 2)
    one.trigger([(0, [(1, 1, 1, "a")]), (1, [(1, 7, 1, "b")])])
    other = Cluster(job_of(RENAMED.format(window), **options), 2)
    assert one.job.program.text != other.job.program.text
    other.stores = one.stores
    other.trigger([(0, [(2, 2, 1, "a")]), (1, [(3, 8, 1, "b")])])
    other.trigger([(0, [(20, 3, 2, "a")]), (1, [(20, 9, 2, "b")])])
    assert {(1, 7), (2, 7)} <= {tuple(row[:2]) for row in [*one.rows(), *other.rows()]}
