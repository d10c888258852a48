"""Tuples that are folded where the log is read: the cores see partial results, or read the log."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from tests.engines.spark.in_process import Cluster, connected, finish

import penstock as ps
from penstock.engines.local.engine import Engine as LocalEngine
from penstock.engines.spark.core.host import Host
from penstock.engines.spark.resident.log_source import LogReader

CREATE = "CREATE STREAM r (t int64, x int64, s string)"
BY_WORD = (
    "SELECT s, COUNT(*) AS n, SUM(x) AS total, MAX(x), window_end "
    "FROM r [RANGE 1000 SLIDE 100 WATTR t SLACK 20] GROUP BY s"
)
ALL = (
    "SELECT COUNT(*), AVG(x), window_end FROM r [RANGE 1000 SLIDE 100 WATTR t SLACK 20] WHERE x > 3"
)
SIZE = 3000


def tuples(first: int = 0, disorder: int = 20) -> pa.Table:
    """Tuples that are at most ``disorder`` behind the latest."""
    chance = random.Random(first)
    return pa.table(
        {
            "t": [first + i - chance.randrange(disorder) for i in range(SIZE)],
            "x": [chance.randrange(100) for _ in range(SIZE)],
            "s": [chance.choice(("b", "a", "", None, "ä", "a\0")) for _ in range(SIZE)],
        }
    )


@pytest.fixture
def followed() -> Iterator[list[bool]]:
    """Of every folded frame that a core has got, whether it was merged."""
    found: list[bool] = []
    follow = Host._follow

    def noted(self: Host, *arguments: Any) -> bool:
        found.append(follow(self, *arguments))
        return found[-1]

    with patch.object(Host, "_follow", noted):
        yield found


def rows(engine: Any, steps: list[tuple[str, Any]]) -> list[Any]:
    """The rows, letters and metrics of all queries, after steps that are calls of the engine."""
    handles = [engine.sql(one) for one in (CREATE, BY_WORD, ALL)][1:]
    for name, argument in steps:
        if name == "push":
            engine.push("r", argument)
        elif name == "punctuate":
            engine.punctuate("r", argument)
        elif name == "change":
            engine.change(handles[1].name, argument)
        else:
            handles.append(engine.sql(argument))
    engine.end()
    if not isinstance(engine, LocalEngine):
        finish(engine)
    found = []
    for handle in handles:
        results = handle.drain()
        made = [row for result in results for row in result.batch.to_pylist()]
        places = [place for result in results for place in result.positions.tolist()]
        letters = [tuple(vars(letter).values()) for letter in handle.drain_letters()]
        metrics = handle.metrics()
        figures = [metrics[one] for one in ("tuples_in", "rows_out", "late", "dead_letters")]
        found.append((list(zip(places, made, strict=True)), letters, figures))
    return found


def both(steps: list[tuple[str, Any]], cores: int = 3) -> list[Any]:
    """The rows of both engines, which are the same."""
    with LocalEngine() as local:
        expected = rows(local, steps)
    with connected(Cluster(random.Random(1)), cores=cores) as engine:
        assert rows(engine, steps) == expected
    return expected


def test_a_core_gets_partial_results_of_its_groups(followed: list[bool]) -> None:
    made = both([("push", tuples()), ("push", tuples(SIZE))])
    assert followed and all(followed)
    assert len(made[0][0]) > 400 and len(made[1][0]) > 60


def test_frames_of_a_task_become_one(followed: list[bool]) -> None:
    read: list[tuple[str, int]] = []
    frames = LogReader.read

    def noted(self: LogReader, partition: Any) -> Iterator[pa.RecordBatch]:
        for batch in frames(self, partition):
            columns = (batch.column(name).to_pylist() for name in ("kind", "count"))
            read.extend(zip(*columns, strict=True))
            yield batch

    with patch.object(LogReader, "read", noted):
        both([("push", tuples()), ("push", tuples(SIZE))], cores=1)
    assert ("folded", 2 * SIZE) in read


def test_late_tuples_are_read_from_the_log(followed: list[bool]) -> None:
    made = both([("push", tuples()), ("push", tuples(SIZE - 200)), ("push", tuples(3 * SIZE))])
    assert set(followed) == {False, True}
    assert len(made[0][1]) > 100, "letters"


def test_tuples_that_are_late_among_themselves_are_not_folded(followed: list[bool]) -> None:
    both([("push", tuples(disorder=60))])
    assert followed == []


def test_a_query_that_was_changed_sees_the_tuples(followed: list[bool]) -> None:
    changed = ALL.replace("COUNT(*)", "MIN(x)")
    both([("push", tuples()), ("change", changed), ("push", tuples(SIZE))])
    assert set(followed) == {False, True}


def test_a_stream_that_a_join_reads_too_is_not_folded(followed: list[bool]) -> None:
    join = "SELECT a.t FROM r [ROWS 2] AS a JOIN r [ROWS 2] AS b ON a.x = b.x WHERE a.t % 500 = 1"
    both([("sql", join), ("push", tuples())])
    assert followed == []


def test_without_slack_the_source_punctuations_count(followed: list[bool]) -> None:
    text = "SELECT COUNT(*), window_end FROM r [RANGE 1000 SLIDE 100 WATTR t]"
    steps = [("sql", text), ("punctuate", -50), ("push", tuples()), ("punctuate", SIZE - 100)]
    made = both([*steps, ("push", tuples(SIZE))])
    assert followed and all(followed)
    assert made[2][1] == [], "nothing is late, since the punctuation does not follow the tuples"


def test_an_overflow_stops_its_query_alone(followed: list[bool]) -> None:
    text = "SELECT SUM(x * 92233720368547758) FROM r [RANGE 1000 SLIDE 1000 WATTR t SLACK 20]"
    with connected(Cluster(), cores=2) as engine:
        engine.sql(CREATE)
        whole, fails = engine.sql(BY_WORD), engine.sql(text)
        engine.push("r", tuples())
        engine._resident.run()
        assert all(followed)
        assert str(fails.failure) == (
            "query 'q2' is stopped: SUM((x * 92233720368547758)) of the window [-1000, 0) is "
            "78583129754002689816, which does not fit int64; every other query has taken the "
            "input\nSum a decimal: SUM(CAST((x * 92233720368547758) AS decimal(38, 0)))."
        )
        assert whole.failure is None and len(whole.drain()) > 0
        for _ in range(2):
            with pytest.raises(ps.QueryFailed) as error:
                engine.wait()
            assert error.value is fails.failure
            assert isinstance(error.value.__cause__, ps.ResultDoesNotFit)
        with pytest.raises(ps.ChangeRefused) as refused:
            whole.change(ALL)
        assert str(refused.value) == (
            "query 'q1' groups by s; a change cannot make it group by nothing\n"
            "Install it as a new query and drop this one."
        )
