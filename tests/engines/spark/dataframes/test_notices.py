"""Warnings of tuples that a query leaves out: which there are, and how often."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from penstock.engines.spark.dataframes.notices import LetterWarnings, Notices, Place


def counts(shown: bool = False, **letters: int) -> dict[str, Any]:
    return {"tuples_in": 5, "late": 9, "dead": 9, "late_r": 0, **letters, "letters": shown}


def test_there_is_a_warning_at_the_first_letters_and_one_with_the_total() -> None:
    notices = Notices()
    assert list(notices.take("q", {"a": counts()})) == []
    [said] = notices.take("q", {"a": counts(late_r=1)})
    assert said == (
        "1 tuple of stream r came too late for q, whose rows lack what it would have added. Allow "
        "for more disorder (SLACK, or withWatermark), or get them as rows: "
        "pss.sql(..., letters=True)."
    )
    assert list(notices.take("q", {"a": counts(late_r=1_233)})) == []
    [said] = notices.take("q", {"a": counts(late_r=1, dead_my_stream=2)})
    assert said == (
        "2 tuples of stream my_stream are dead letters of q, whose rows lack what they would have "
        "added. Get them as rows, each with its reason: pss.sql(..., letters=True)."
    )
    assert list(notices.end("q")) == [
        "1,235 tuples of stream r came too late for q in all, which has ended."
    ]
    assert list(notices.end("q")) == []


def test_queries_and_their_parts_are_counted_apart() -> None:
    notices = Notices()
    told = [
        len(list(notices.take(query, {name: counts(late_r=1)})))
        for query in "pq"
        for name in "ab"
        for _ in range(2)
    ]
    assert told == [1, 0] * 4


def test_nothing_is_said_where_letters_are_rows_nor_of_metrics_of_others() -> None:
    notices = Notices()
    found = {"a": counts(shown=True, late_r=3), "others": {"late_r": 3, "dead_r": 3}}
    assert list(notices.take("q", found)) == list(notices.end("q")) == []


def test_a_warning_names_the_query_and_the_line_that_made_it() -> None:
    told = LetterWarnings(Place("job.py", 7))
    row = Row(**counts(late_r=2))
    progress = SimpleNamespace(runId=1, name="pairs", observedMetrics={"a": row})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        told.onQueryProgress(SimpleNamespace(progress=progress))
    [one] = found
    assert (one.filename, one.lineno) == ("job.py", 7)
    assert "came too late for query pairs, whose rows lack" in str(one.message)
    assert str(one.message).endswith("observedMetrics['a']['late_r'].")
    told.onQueryProgress(SimpleNamespace(progress=progress))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        told.onQueryTerminated(SimpleNamespace(runId=1))
        told.onQueryTerminated(SimpleNamespace(runId=2))
    assert [str(one.message) for one in found] == [
        "4 tuples of stream r came too late for query pairs in all, which has ended."
    ]
