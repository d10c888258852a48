"""A result of ``pss.sql`` that ``pss.sql`` reads, without Spark: what both become."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types
from tests.campaigns.dataframes import Frame
from tests.engines.spark.dataframes.in_process import COLUMNS, source

from penstock.engines.spark.dataframes.arguments import Request
from penstock.engines.spark.dataframes.chain import (
    UnfoldedScript,
    metrics_name,
    remember,
    unfold,
    watermark_of,
)
from penstock.engines.spark.dataframes.prepare import check
from penstock.engines.spark.dataframes.script import parse_script
from penstock.errors import InputError

MOMENT = {**COLUMNS, "ts": types.TimestampType()}
PAIRS = (
    "SELECT r.id, s.id, r.ts FROM r [RANGE 5 WATTR ts SLACK 1] "
    "JOIN s [RANGE 5 WATTR ts SLACK 1] ON r.x = s.x"
)


def chained(text: str, given: dict[str, Any], **options: Any) -> UnfoldedScript:
    return unfold(parse_script(text), given, Request(**options))


def result(text: str, given: dict[str, Any], watermark: Any = None, **options: Any) -> Any:
    """Stands for ``pss.sql(text, given, ...)``."""
    made = chained(text, given, **options)
    columns = COLUMNS if watermark is None else MOMENT
    sources = [source(name, columns, watermark=watermark) for name in made.given]
    job, plans = check(made.script, sources, made.request)
    return remember(Frame(), made, job, plans.query)  # type: ignore[arg-type]


def statements(made: UnfoldedScript) -> list[str]:
    derived = [f"{one.name}: {one.query.text}" for one in made.script.derived]
    return [*derived, made.script.query.text]


def test_a_result_becomes_a_derived_stream() -> None:
    r, s = Frame(), Frame()
    counts = "SELECT COUNT(r_id) AS n FROM pairs [RANGE 5 SLIDE 5 WATTR ts]"
    made = chained(counts, {"pairs": result(PAIRS, {"r": r, "s": s})})
    assert statements(made) == [
        f"pairs: {PAIRS}",
        counts,
    ]
    assert made.given == {"r": r, "s": s}
    assert made.request == Request()


def test_a_result_is_one_of_three_streams_and_may_be_of_three_itself() -> None:
    triples = (
        "SELECT r.id, s.id, r.ts FROM r [RANGE 5 WATTR ts SLACK 1] "
        "JOIN s [RANGE 5 WATTR ts SLACK 1] ON r.x = s.x "
        "JOIN u [RANGE 5 WATTR ts SLACK 1] ON s.x = u.x"
    )
    r, s, u, v = Frame(), Frame(), Frame(), Frame()
    read = (
        "SELECT t.r_id, u.id FROM t [RANGE 5 WATTR ts] "
        "JOIN u [RANGE 5 WATTR ts SLACK 1] ON t.r_id = u.id JOIN r [RANGE 5 WATTR ts SLACK 1] "
        "ON r.id = u.id"
    )
    made = chained(read, {"t": result(triples, {"r": r, "s": s, "u": u}), "u": u, "r": v})
    renamed = triples.replace(
        "FROM r [RANGE 5 WATTR ts SLACK 1]", 'FROM "t.r" [RANGE 5 WATTR ts SLACK 1] AS "r"'
    )
    assert statements(made) == [f"t: {renamed}", read]
    assert made.given == {"u": u, "r": v, "t.r": r, "s": s}
    sources = [source(name) for name in made.given]
    check(made.script, sources, made.request)  # it has the column r_id


def test_names_are_made_different_unless_they_are_of_one_dataframe() -> None:
    r, other = Frame(), Frame()
    window = "[RANGE 5 SLIDE 5 WATTR ts SLACK 0]"
    text = "CREATE STREAM d AS SELECT ts, x FROM r; SELECT window_end AS ts, COUNT(*) AS n FROM d "
    one = result(text + window, {"r": r})
    two = "CREATE STREAM d AS SELECT ts FROM s; SELECT d.ts FROM d [RANGE 1 WATTR ts] AS d "
    made = chained(
        two + "JOIN R [RANGE 1 WATTR ts SLACK 0] ON TRUE",
        {"s": one, "R": other},
    )
    assert statements(made) == [
        's.d: SELECT ts, x FROM "s.r" AS "r"',
        's: SELECT window_end AS ts, COUNT(*) AS n FROM "s.d" [RANGE 5 SLIDE 5 WATTR ts SLACK 0] '
        'AS "d"',
        "d: SELECT ts FROM s",
        "SELECT d.ts FROM d [RANGE 1 WATTR ts] AS d JOIN R [RANGE 1 WATTR ts SLACK 0] ON TRUE",
    ]
    assert made.given == {"R": other, "s.r": r}
    same = chained("SELECT ts FROM q UNION ALL SELECT ts FROM a", {"q": one, "a": r})
    assert statements(same)[0] == 'd: SELECT ts, x FROM "a" AS "r"'
    assert same.given == {"a": r}
    check(made.script, [source(name) for name in made.given], made.request)
    check(same.script, [source(name) for name in same.given], same.request)


def test_a_chain_of_three_reads_what_the_first_does() -> None:
    r, s = Frame(), Frame()
    one = result(PAIRS, {"r": r, "s": s})
    two = result(
        "SELECT window_end AS ts, COUNT(*) AS n FROM p [RANGE 5 SLIDE 5 WATTR ts]", {"p": one}
    )
    made = chained("SELECT COUNT(*) AS n FROM p [RANGE 9 SLIDE 9 WATTR ts]", {"p": two})
    assert [text.split(" FROM ")[0].split(":")[0] for text in statements(made)] == [
        "p.p",
        "p",
        "SELECT COUNT(*) AS n",
    ]
    assert made.given == {"r": r, "s": s}
    check(made.script, [source(name) for name in made.given], made.request)


def test_the_order_is_that_of_the_dataframes() -> None:
    given = {"r": Frame(), "s": Frame()}
    pairs, other = result(PAIRS, given), Frame()
    text = "SELECT p.ts FROM p [ROWS 3] JOIN t [ROWS 2] ON p.r_id = t.id"
    made = chained(text, {"p": pairs, "t": other}, order_by={"p": "ts", "T": "at"})
    assert made.request.order_by == {"t": "at", "r": "ts", "s": "ts"}
    made = chained(text, {"p": pairs, "t": other}, order_by="ts", idle_timeout=3)
    assert made.request.order_by == {"t": "ts", "r": "ts", "s": "ts"}
    assert made.request.idle_timeout == 3


def test_merge_and_idle_timeout_hold_for_all_of_it() -> None:
    rows = "SELECT r.ts FROM r [ROWS 2] JOIN s [ROWS 2] ON r.x = s.x"
    text = "SELECT COUNT(*) AS n FROM p [ROWS 5 SLIDE 5]"
    given = {"r": Frame(), "s": Frame()}
    fast = result(rows, given, order_by="ts", merge="arrival")
    assert chained(text, {"p": fast}).request.merge == "arrival"
    slow = result(rows, given, order_by="ts", idle_timeout=5)
    assert chained(text, {"p": slow}).request.idle_timeout == 5
    with pytest.raises(InputError) as error:
        chained(text, {"p": slow}, merge="arrival")
    assert str(error.value) == (
        "p was made with merge='order', and its tuples would not wait for their turn with "
        "merge='arrival'\nPass the same merge to the pss.sql that makes p."
    )
    with pytest.raises(InputError) as error:
        chained(text, {"p": slow}, idle_timeout=6)
    assert str(error.value) == (
        "p was made with idle_timeout=5, and here it is another\n"
        "Pass the same idle_timeout to both: one operator runs both queries."
    )


def test_a_selection_stays_a_dataframe_and_hands_the_watermark_on() -> None:
    def handed(text: str) -> Any:
        given = {name: Frame() for name in parse_script(text).reads}
        made = result(text, given, watermark=("ts", 1500))
        assert chained("SELECT * FROM p", {"p": made}).given == {"p": made}
        return watermark_of(made)

    assert handed("SELECT x, ts AS at FROM r WHERE x > 1") == ("at", Fraction(3, 2))
    both = "SELECT ts AS at FROM r UNION ALL SELECT {} FROM s"
    assert handed(both.format("ts")) == ("at", Fraction(3, 2))
    assert handed(both.format("ts + INTERVAL 1 SECOND")) is None
    assert handed("SELECT x FROM r") is None


def test_tagged_and_changing_rows_are_ordinary_dataframes() -> None:
    given = {"r": Frame(), "s": Frame()}
    aggregate = "SELECT COUNT(*) AS n FROM r [RANGE 5 SLIDE 5 WATTR ts SLACK 0]"
    for made in (
        result(PAIRS, given, letters=True),
        result(aggregate, {"r": given["r"]}, output="update"),
        Frame(),
    ):
        assert chained("SELECT * FROM p", {"p": made}).given == {"p": made}


class CollectMetrics:
    """Stands for a node of Connect's plans; its name is what tells it."""

    def __init__(self, child: Any, observation: Any) -> None:
        self._child, self._observation = child, observation


def test_counts_have_a_name_that_nothing_below_has() -> None:
    scan = SimpleNamespace(_child=None)
    first = CollectMetrics(scan, "penstock")
    second = CollectMetrics(scan, SimpleNamespace(_name="mine"))
    remote: Any = SimpleNamespace(_plan=SimpleNamespace(_child=None, left=first, right=second))
    text = "Project [id#1L]\n+- CollectMetrics penstock_2, [count(1) AS n#2L], 7\n   +- Range"
    logical = SimpleNamespace(toString=lambda: text)
    local: Any = SimpleNamespace(
        _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(logical=lambda: logical))
    )
    assert metrics_name(None, {"r": local}) == "penstock"
    assert metrics_name(None, {"r": remote}) == "penstock_2"
    assert metrics_name(None, {"r": remote, "s": local}) == "penstock_3"
    assert metrics_name("other", {"r": remote}) == "other"
    with pytest.raises(InputError) as error:
        metrics_name("mine", {"r": remote})
    assert str(error.value) == (
        "name='mine' is the name of the counts of a query that is read here\n"
        "Pass another one, or none: the names are made different then."
    )
