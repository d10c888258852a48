"""Aggregates of DataFrames: partial results of the partitions give the rows of the oracle."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.dataframes.in_process import Cluster, Row, Trigger, job_of
from tests.engines.spark.dataframes.test_worker import canonical, inputs, on_oracle

from penstock import tuning

WINDOW = "r [RANGE {} WATTR ts SLACK 5]"
COUNTED = "SELECT COUNT(*), SUM(x), window_start, window_end FROM "
GROUPED = "SELECT x, COUNT(*), AVG(id), MIN(id), MAX(id), VAR_POP(id), window_end FROM "
PARTIAL = [
    COUNTED + WINDOW.format("6 SLIDE 2"),
    COUNTED + WINDOW.format("7 SLIDE 3") + " WHERE id > 2",
    COUNTED + WINDOW.format("2 SLIDE 5"),
    COUNTED + WINDOW.format("6 SLIDE 2 START AT 4"),
    GROUPED + WINDOW.format("6 SLIDE 2") + " GROUP BY x",
    GROUPED + WINDOW.format("4 SLIDE 3") + " WHERE id < 9 GROUP BY x HAVING COUNT(*) > 1",
    "SELECT x + 1 AS y, note, SUM(id) FILTER (WHERE id > 3), window_start FROM "
    + WINDOW.format("5 SLIDE 5")
    + " GROUP BY x + 1, note",
    "SELECT x, COUNT(DISTINCT note), window_end FROM " + WINDOW.format("6 SLIDE 2") + " GROUP BY x",
]
WHOLE = [
    "SELECT FIRST(id), LAST(x), COUNT(*), window_end FROM " + WINDOW.format("6 SLIDE 2"),
    "SELECT x, LAST(note), window_end FROM " + WINDOW.format("6 SLIDE 2") + " GROUP BY x",
    "SELECT COUNT(*), window_end FROM " + WINDOW.format("2 SLIDE 2") + " WHERE x > 2 EMIT EMPTY",
    COUNTED + WINDOW.format("6 SLIDE 2") + " ORDER BY window_start LIMIT 2",
]
Given = tuple[list[list[Row]], list[Trigger]]


def run(
    sql: str, triggers: list[Trigger], cores: int, seed: int | None = None, **options: Any
) -> Cluster:
    chance = None if seed is None else random.Random(seed)
    cluster = Cluster(job_of(sql, **options), cores, chance)
    for parts in triggers:
        cluster.trigger([(lane, rows) for lane, rows in parts if lane == 0])
    return cluster


def counted(cluster: Cluster, kind: str) -> int:
    return sum(one.count for _, one in cluster.made if one.kind == kind)


@examples(30)
@given(inputs(disorder=5), st.sampled_from(PARTIAL + WHOLE), st.integers(1, 3), st.integers())
def test_the_rows_are_the_oracles(given_: Given, sql: str, cores: int, seed: int) -> None:
    streams, triggers = given_
    cluster = run(sql, triggers, cores, seed)
    assert (cluster.job.partial is not None) == (sql in PARTIAL)
    sequence = [(0, row) for row in sorted(streams[0], key=lambda row: (row[0], canonical(row)))]
    assert sorted(map(str, cluster.rows())) == sorted(map(str, on_oracle(sql, sequence)))
    assert counted(cluster, "late") == 0
    assert counted(cluster, "taken") == len(streams[0])


@examples(30)
@given(inputs(disorder=15), st.sampled_from(PARTIAL), st.integers(1, 3), st.integers())
def test_late_tuples_count_where_they_would_if_they_were_shown(
    given_: Given, sql: str, cores: int, seed: int
) -> None:
    _, triggers = given_
    one, shown = run(sql, triggers, cores, seed), run(sql, triggers, cores, seed, letters=True)
    assert one.job.partial is not None and shown.job.partial is None
    assert sorted(map(str, one.rows())) == sorted(map(str, shown.rows()))
    assert counted(one, "late") == counted(shown, "late") == len(shown.letters("late"))
    assert counted(one, "dead") == counted(shown, "dead")


@tuning.given(most_folded_cells=0)
def test_partial_results_are_handed_on_when_there_are_many() -> None:
    rows: list[Row] = [(i // 10, i, i % 7, "a") for i in range(200)]
    triggers: list[Trigger] = [[(0, rows[:90])], [(0, rows[90:])]]
    several = run(PARTIAL[4], triggers, 2)
    assert sorted(several.rows(), key=str) == sorted(
        on_oracle(PARTIAL[4], [(0, row) for row in rows]), key=str
    )


def test_a_trigger_writes_the_panes_that_it_changed() -> None:
    sql = "SELECT x, COUNT(*), window_end FROM r [RANGE 1000 SLIDE 10 WATTR ts SLACK 5] GROUP BY x"
    cluster = Cluster(job_of(sql), 1)
    rows: list[Row] = [(i // 10, i, i % 100, "a") for i in range(10_000)]
    cluster.trigger([(0, rows)])
    before = cluster.written()
    cluster.trigger([(0, [(1000, 1, 1, "a")])])
    assert cluster.written() - before < before / 8


@examples(30)
@given(inputs(disorder=15), st.sampled_from(PARTIAL), st.integers(1, 3), st.integers())
def test_an_update_brings_the_rows_that_a_trigger_changed(
    given_: Given, sql: str, cores: int, seed: int
) -> None:
    """The last of each window and group is the row that comes when the window closes."""
    _, triggers = given_
    last: Trigger = [(0, [(10_000, 0, 0, "z")])]
    final = run(sql, [*triggers, last], cores, seed).rows()
    cluster = Cluster(job_of(sql, output="update"), cores, random.Random(seed))
    latest: dict[Any, Row] = {}
    where = [i for i, name in enumerate(cluster.job.names) if name in ("x", "y", "note")]
    where += [i for i, name in enumerate(cluster.job.names) if name.startswith("window")]
    for parts in [*triggers, last]:
        before = len(cluster.made)
        cluster.trigger([(lane, rows) for lane, rows in parts if lane == 0])
        made, cluster.made = cluster.made, cluster.made[before:]
        found = {tuple(row[i] for i in where): row for row in cluster.rows()}
        assert len(found) == len(cluster.rows()), "each row once in a trigger"
        latest.update(found)
        cluster.made = made
    # HAVING takes rows away that have been brought before; the others are those at the end.
    assert set(map(str, final)) <= set(map(str, latest.values()))
