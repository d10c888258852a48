"""Tuples divided among the cores by a key: the rows and letters of one core that sees them all."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.dataframes.in_process import (
    COLUMNS,
    NAMES,
    Cluster,
    Row,
    Trigger,
    job_of,
    source,
)
from tests.engines.spark.dataframes.test_worker import canonical, inputs, on_oracle
from tests.thresholds import low_thresholds

from penstock.engines.spark.dataframes.arguments import Request
from penstock.engines.spark.dataframes.partition import distribution
from penstock.engines.spark.dataframes.prepare import check
from penstock.engines.spark.dataframes.script import parse_script
from penstock.kernels.aggregate.key_hash import cores_of
from penstock.kernels.expressions.vector import vector_of
from penstock.program.compile.compiler import compile_plan

WINDOWS = "r [RANGE 4 WATTR ts SLACK 5] {join} s [RANGE 3 WATTR ts SLACK 5]"
DIVIDED = [
    f"SELECT r.id, s.id FROM {WINDOWS.format(join='JOIN')} ON r.x = s.x AND r.id <= s.id",
    f"SELECT r.id, s.id FROM {WINDOWS.format(join='LEFT JOIN')} ON r.x = s.x",
    f"SELECT r.id, s.x FROM {WINDOWS.format(join='RIGHT JOIN')} ON r.x + 1 = s.x",
    f"SELECT r.id, s.id FROM {WINDOWS.format(join='FULL JOIN')} ON s.x = r.x WHERE r.id IS NULL "
    "OR s.id < 3",
    f"SELECT r.id, r.ts FROM {WINDOWS.format(join='SEMI JOIN')} ON r.x = s.x",
    f"SELECT r.id, r.ts FROM {WINDOWS.format(join='ANTI JOIN')} ON r.x = s.x",
    f"SELECT r.id, s.id FROM {WINDOWS.format(join='LEFT JOIN')} "
    "ON CASE WHEN r.x > 1 THEN 'many' END = CASE WHEN s.x > 1 THEN 'many' ELSE 'few' END",
]
THREE = [
    "SELECT r.id, s.id, u.id FROM r [RANGE 4 WATTR ts SLACK 5] JOIN s [RANGE 3 WATTR ts SLACK 5] "
    "ON r.x = s.x JOIN u [RANGE 6 WATTR ts SLACK 5] ON s.x = u.x",
    "SELECT r.id, s.id, u.ts FROM r [RANGE 4 WATTR ts SLACK 5] JOIN s [RANGE 3 WATTR ts SLACK 5] "
    "ON r.x + 1 = s.id JOIN u [RANGE 6 WATTR ts SLACK 5] ON s.id = u.x AND u.id >= r.id",
]
FIVE = [
    "SELECT r.id, s.id, u.id, v.id, w.id FROM r [RANGE 4 WATTR ts SLACK 5] "
    "JOIN s [RANGE 3 WATTR ts SLACK 5] ON r.x = s.x JOIN u [RANGE 5 WATTR ts SLACK 5] ON r.x = u.x "
    "JOIN v [RANGE 4 WATTR ts SLACK 5] ON u.x = v.x JOIN w [RANGE 2 WATTR ts SLACK 5] ON v.x = w.x",
]
Given = tuple[list[list[Row]], list[Trigger]]


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


def run(sql: str, triggers: list[Trigger], cores: int, seed: int | None = None) -> Cluster:
    chance = None if seed is None else random.Random(seed)
    cluster = Cluster(job_of(sql, letters=True), cores, chance)
    for parts in triggers:
        cluster.trigger(parts)
    return cluster


@st.composite
def cases(draw: st.DrawFn, disorder: int) -> tuple[Given, str]:
    """Tuples of two, three or five streams, and a query over them."""
    queries, longest = draw(st.sampled_from(((DIVIDED, 25), (THREE, 12), (FIVE, 6))))
    sql = draw(st.sampled_from(queries))
    return draw(inputs(disorder, len(job_of(sql).lanes), longest)), sql


@examples(100)
@given(cases(disorder=5), st.sampled_from([2, 3]), st.integers())
def test_the_rows_are_the_oracles(case: tuple[Given, str], cores: int, seed: int) -> None:
    given_, sql = case
    streams, triggers = given_
    cluster = run(sql, triggers, cores, seed)
    assert cluster.job.keys is not None
    sequence = [(i, row) for i, rows in enumerate(streams) for row in rows]
    sequence.sort(key=lambda one: (one[1][0], one[0], canonical(one[1])))
    assert sorted(map(str, cluster.rows())) == sorted(map(str, on_oracle(sql, sequence)))
    assert cluster.letters("late") == []


@examples(100)
@given(cases(disorder=12), st.sampled_from([2, 3]), st.integers())
def test_late_is_who_would_be_late_on_one_core(
    case: tuple[Given, str], cores: int, seed: int
) -> None:
    (_, triggers), sql = case
    several, one = run(sql, triggers, cores, seed), run(sql, triggers, 1)
    assert sorted(several.letters("late")) == sorted(one.letters("late"))
    assert sorted(map(str, several.rows())) == sorted(map(str, one.rows()))


def test_a_tuple_without_a_time_is_one_dead_letter() -> None:
    parts: Trigger = [(0, [(None, 1, 1, "a"), (3, 2, 1, "a")]), (1, [(4, 5, 1, "b")])]
    cluster = run(DIVIDED[0], [parts], 3)
    assert cluster.letters("dead") == [("r", "NULL, 1, 1, 'a'", "NULL in time attribute ts")]
    assert cluster.rows() == [(2, 5)]


def test_an_unusable_time_makes_no_tuple_late() -> None:
    far: Trigger = [(0, [(2**63 - 1, 1, 1, "a")]), (1, [(1, 2, 1, "b")])]
    near: Trigger = [(0, [(2, 3, 1, "a")]), (1, [(3, 4, 1, "b")])]
    sql = f"SELECT r.id, s.id FROM {WINDOWS.format(join='JOIN')} ON r.x = s.x"
    for cores in (1, 2):
        cluster = run(sql, [far, near], cores)
        assert sorted(cluster.rows()) == [(3, 2), (3, 4)]
        assert [letter[2] for letter in cluster.letters("dead")] == [
            "ts does not fit the query's clock"
        ]


def test_ordered_rows_need_one_order_of_all_tuples() -> None:
    sql = f"SELECT r.id, s.id FROM {WINDOWS.format(join='JOIN')} ON r.x = s.x EMIT ORDER inner"
    job = job_of(sql, order_by="ts", merge="arrival")
    assert Cluster(job, 3).job.keys is None


def test_a_core_sees_its_own_keys_and_every_punctuation() -> None:
    sql = DIVIDED[1]
    cluster = Cluster(job_of(sql), 4)
    rows: list[Row] = [(number // 100, number, number, "a") for number in range(1000)]
    made = cluster.trigger([(0, rows)])
    taken = [one.count for one in made if one.kind == "taken"]
    assert sum(taken) == 1000
    assert min(taken) > 150
    # One tuple of s, on one core, is far ahead: on all cores, those of r have waited long enough.
    cluster.trigger([(1, [(1000, 0, -1, "b")])])
    assert sorted(cluster.rows()) == [(number, None) for number in range(1000)]


PARALLEL = (
    "broadcast to 3 cores, each tuple of one stream stored and processed on one, those of the "
    "others on all (the design parallel)"
)
THREE_STREAMS = "r [RANGE 4 SLACK 0], s [RANGE 3 SLACK 0], u [RANGE 3 SLACK 0]"
REASONS = {
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x": (
        "partition by r.x = s.x among 3 cores"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] LEFT JOIN s [RANGE 3 SLACK 0] ON r.x < s.x": (
        "broadcast to 3 cores, each tuple of the left stream stored and processed on one, those of "
        "the other on all; no partition by key: no equality between the streams"
    ),
    "SELECT r.id FROM r [ROWS 4] RIGHT JOIN s [ROWS 3] ON r.x = s.x": (
        "broadcast to 3 cores, each tuple of the right stream stored and processed on one, those "
        "of the other on all; "
        "no partition by key: rows depend on the order of tuples with other keys"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] FULL JOIN s [RANGE 3 SLACK 0] ON r.x < s.x": (
        "one core; a full join must know whom no core has matched; "
        "no partition by key: no equality between the streams"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x < s.x": (
        "broadcast to 3 cores, each tuple stored on one (SplitJoin); "
        "no partition by key: no equality between the streams"
    ),
    "SELECT r.id FROM r [ROWS 4] JOIN s [ROWS 3] ON r.x = s.x": (
        "broadcast to 3 cores, each tuple stored on one (SplitJoin); "
        "no partition by key: rows depend on the order of tuples with other keys"
    ),
    "SELECT r.id FROM r [RANGE 4 WATTR id SLACK 0] JOIN s [RANGE 3 WATTR id SLACK 0] "
    "ON r.x = s.x": (
        "broadcast to 3 cores, each tuple stored on one (SplitJoin); "
        "no partition by key: r's tuples are not taken by the time of their window"
    ),
    "SELECT a.id FROM r [RANGE 4 SLACK 0] AS a JOIN r [RANGE 3 SLACK 0] AS b ON a.x = b.x": (
        "broadcast to 3 cores, each tuple stored on one (SplitJoin); "
        "no partition by key: a self-join reads a tuple more than once"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x UNION ALL "
    "SELECT r.id FROM r [RANGE 1 SLACK 0] JOIN s [RANGE 1 SLACK 0] ON r.id = s.id": (
        "one core; a union with a join needs one order; "
        "no partition by key: a union of joins has several keys"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x UNION ALL "
    "SELECT id FROM u": (
        "one core; a union with a join needs one order; "
        "no partition by key: u is read beside the join"
    ),
    "SELECT id FROM u UNION ALL "
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x": (
        "one core; a union with a join needs one order; "
        "no partition by key: u is read beside the join"
    ),
    "SELECT id FROM s UNION ALL "
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x": (
        "partition by r.x = s.x among 3 cores"
    ),
    f"SELECT r.id FROM {THREE_STREAMS} WHERE s.x = u.x AND r.x = s.x": (
        "partition by r.x = s.x = u.x among 3 cores"
    ),
    f"SELECT r.id FROM {THREE_STREAMS} WHERE r.x + 1 = s.id AND u.x = s.id": (
        "partition by cast((r.x + 1) as int64) = s.id = cast(u.x as int64) among 3 cores"
    ),
    f"SELECT r.id FROM {THREE_STREAMS} WHERE r.x = s.x AND s.id = u.id": (
        f"{PARALLEL}; no partition by key: no equality has a key of every stream"
    ),
    f"SELECT r.id FROM {THREE_STREAMS} WHERE r.x = s.x AND (s.x = u.x OR r.id = u.id)": (
        f"{PARALLEL}; no partition by key: no equality has a key of every stream"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0], s [RANGE 3 SLACK 0], u [ROWS 3] "
    "WHERE r.x = s.x AND s.x = u.x": (
        f"{PARALLEL}; no partition by key: rows depend on the order of tuples with other keys"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] JOIN s [RANGE 3 SLACK 0] ON r.x = s.x "
    "LEFT JOIN u [RANGE 3 SLACK 0] ON s.x = u.x": (
        "one core; a left join must know whom no core has matched; "
        "no partition by key: one core keeps the combinations of a tree with left"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0] SEMI JOIN s [RANGE 3 SLACK 0] ON r.x = s.x "
    "ANTI JOIN u [RANGE 3 SLACK 0] ON r.x = u.x": (
        "one core; a semi, anti join must know whom no core has matched; "
        "no partition by key: one core keeps the combinations of a tree with semi and anti"
    ),
    "SELECT r.id FROM r [RANGE 4 SLACK 0], s [RANGE 3 SLACK 0], r [RANGE 3 SLACK 0] AS a "
    "WHERE r.x = s.x AND s.x = a.x": (
        f"{PARALLEL}; no partition by key: a self-join reads a tuple more than once"
    ),
    "SELECT x, COUNT(*) FROM r [RANGE 4 SLIDE 2 SLACK 0] GROUP BY x": (
        "partial results of each partition of the input, merged on 3 cores by x"
    ),
    "SELECT COUNT(*) FROM r [RANGE 4 SLIDE 2 SLACK 0]": (
        "partial results of each partition of the input, merged on one core"
    ),
    "SELECT x, LAST(id) FROM r [RANGE 4 SLIDE 2 SLACK 0] GROUP BY x": (
        "partition by x among 3 cores; no partial results: FIRST and LAST of equal "
        "times go by arrival"
    ),
    "SELECT COUNT(*) FROM r [RANGE 4 SLIDE 2 SLACK 0] EMIT EMPTY": (
        "one core; no partial results: which windows are empty goes by arrival"
    ),
    "SELECT COUNT(*) FROM r [RANGE 4 SLIDE 2 WATTR id SLACK 0]": (
        "one core; no partial results: r's tuples are not taken by the time of their window"
    ),
    "SELECT COUNT(*) FROM r [ROWS 4 SLIDE 2]": "one core; its rows need all tuples in one order",
    "SELECT id FROM r": "every task by itself, without state or order",
}


@pytest.mark.parametrize("sql", REASONS)
def test_how_the_cores_share_a_query_has_a_reason(sql: str) -> None:
    sources = [
        source(name, COLUMNS) for name in NAMES if re.search(rf"(FROM|JOIN|,) {name}\b", sql)
    ]
    job, plans = check(parse_script(sql), sources, Request(order_by="ts"))
    found = distribution(compile_plan(plans.query), job.lanes, job.by_key, 3)
    assert str(found) == f"distribution: {REASONS[sql]}"


@pytest.mark.parametrize(
    ("design", "by_key", "reason"),
    [
        (None, True, "partition by r.x = s.x = u.x among 3 cores"),
        ("mjoin", True, "partition by r.x = s.x = u.x among 3 cores"),
        (
            "parallel",
            True,
            f"{PARALLEL}; no partition by key: the design parallel is asked for",
        ),
        (
            "circular",
            False,
            "one core; the design circular is one core's; no partition by key: no equality has a "
            "key of every stream",
        ),
    ],
)
def test_a_design_decides_how_the_cores_share_a_join(
    design: Any, by_key: bool, reason: str
) -> None:
    """And the rows do not depend on it."""
    sql = (
        "SELECT r.id AS a, s.id AS b, u.id AS c FROM r [RANGE 4 SLACK 0] "
        "JOIN s [RANGE 3 SLACK 0] ON r.x = s.x JOIN u [RANGE 3 SLACK 0] ON "
    )
    sql += "s.x = u.x" if by_key else "s.x <= u.x"
    found: list[Any] = []
    for asked in (design, None):
        job = job_of(sql, order_by="ts", design=asked)
        cores = Cluster(job, 3 if asked == design else 1, random.Random(1))
        if asked == design:
            shared = distribution(job.program, job.lanes, job.by_key, 3)
            assert str(shared) == f"distribution: {reason}"
        for start in range(0, 60, 12):
            cores.trigger([(n % 3, [(n, n, n // 3 % 2, "")]) for n in range(start, start + 12)])
        found.append(sorted(cores.rows()))
    assert found[0] == found[1]
    assert len(found[0]) > 10
    cores.forget()


def test_equal_keys_are_of_one_core_everywhere() -> None:
    whole = vector_of(pa.array(np.arange(8)))
    assert (
        cores_of(whole, 3).tolist()
        == cores_of(vector_of(pa.array(range(8), pa.int16())), 3).tolist()
    )
    assert cores_of(vector_of(pa.array([0.0, -0.0])), 7).tolist() == [0, 0]
    one, other = cores_of(vector_of(pa.array([float("nan"), -float("nan")])), 7).tolist()
    assert one == other
    words = pa.array(["", "a", "ä", None, "penstock", "penstock2"])
    # These numbers are in checkpoints: a state is divided by them.
    assert cores_of(vector_of(words), 5).tolist() == [2, 2, 2, 0, 0, 3]
    assert (
        cores_of(vector_of(words.slice(4)), 5).tolist()
        == cores_of(vector_of(words), 5).tolist()[4:]
    )
    counts = np.bincount(cores_of(vector_of(pa.array(np.arange(100_000) * 1024)), 8))
    assert counts.min() > 12_000
