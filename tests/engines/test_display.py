"""What engines, queries, programs and results show of themselves, as text and in notebooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.engines.shared.query import NOTEBOOK_ROWS, Result
from penstock.program.choose.explain import Explanation
from penstock.testing import ReplayResult, replay_text

PAIRS = "SELECT r.id AS r, s.id AS s FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x < s.a"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with ps.connect("local") as opened:
        opened.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)")
        yield opened


def test_an_engine_says_what_it_has(engine: Engine) -> None:
    assert repr(ps.connect("local")) == "<Engine local: open, 0 streams, 0 queries, position 0>"
    engine.install(PAIRS)
    engine.sql("CREATE STREAM big AS SELECT id FROM R WHERE x > 1")
    assert repr(engine) == "<Engine local: open, 3 streams, 1 query, position 4>"
    engine.close()
    assert repr(engine) == "<Engine local: closed, 3 streams, 1 query, position 4>"


def test_an_engine_shows_its_streams_and_queries(engine: Engine) -> None:
    engine.install(PAIRS, name="pairs")
    engine.push("R", [{"id": 1, "x": 10}])
    engine.push("S", [{"id": 7, "a": 11}])
    html = engine._repr_html_()
    assert "<div>Engine local: open, 2 streams, 1 query, position 5</div>" in html
    assert "<td>R</td><td>(id int64, x int32)</td><td></td>" in html
    assert (
        "<tr><td>pairs</td><td>running</td><td>2</td><td>1</td><td>1</td><td>0</td><td>0</td>"
        f"<td>{PAIRS.replace('<', '&lt;')}</td></tr>" in html
    )


def test_a_query_says_its_state_its_counts_and_its_text(engine: Engine) -> None:
    pairs = engine.install(PAIRS, name="pairs")
    said = "tuples in 0, rows out 0, undrained 0, late 0, dead letters 0"
    assert repr(pairs) == f"<Query pairs: running, {said}: {PAIRS}>"
    engine.push("R", [{"id": 1, "x": 10}, {"id": 2, "x": None}, {"id": "no", "x": 1}])
    engine.push("S", [{"id": 7, "a": 11}])
    said = "tuples in 3, rows out 1, undrained 1, late 0, dead letters 1"
    assert repr(pairs) == f"<Query pairs: running, {said}: {PAIRS}>"
    assert len(pairs.rows()) == 1, "showing it has not drained it"
    said = said.replace("undrained 1", "undrained 0")
    pairs.drop()
    assert repr(pairs) == f"<Query pairs: dropped, {said}: {PAIRS}>"


def test_single_tuples_are_counted(engine: Engine) -> None:
    pairs = engine.install(PAIRS)
    for _ in range(20):
        engine.push("R", [{"id": 1, "x": 1}])
        engine.push("S", [{"id": 1, "a": 2}])
    counts = pairs.metrics()
    came = sum(counts["tuples_in"].values())
    assert f"running, tuples in {came}, rows out {counts['rows_out']}, " in repr(pairs)


def test_a_query_is_closed_with_its_engine_and_failed_by_itself(engine: Engine) -> None:
    total = engine.install("SELECT SUM(id) AS s FROM R [ROWS 2 SLIDE 2]", name="total")
    pairs = engine.install(PAIRS, name="pairs")
    with pytest.raises(ps.QueryFailed):
        engine.push("R", [{"id": 2**62, "x": 1}, {"id": 2**62, "x": 1}])
    assert repr(total).startswith("<Query total: failed, tuples in 2, rows out 0")
    assert "does not fit int64" in total._repr_html_()
    engine.close()
    assert repr(pairs).startswith("<Query pairs: closed, tuples in 2")
    assert (total.state, pairs.state) == ("failed", "closed")


def test_html_is_escaped(engine: Engine) -> None:
    text = "SELECT '<script>alert(1)</script>' AS x FROM R"
    query = engine.install(text, name='<b>"q"')
    engine.push("R", [{"id": 1, "x": 1}])
    (result,) = query.drain()
    shown = (query, engine, result, query.program, engine.explain(text), engine.catalog.get("R"))
    for one in shown:
        html = one._repr_html_()  # type: ignore[union-attr]
        assert "<script" not in html
        assert "<b>" not in html
        assert html.count("<table") == html.count("</table>")


def test_a_long_text_is_cut_on_one_line(engine: Engine) -> None:
    query = engine.install(f"SELECT x\nFROM R\nWHERE x IN ({', '.join(map(str, range(200)))})")
    assert "\n" not in repr(query)
    assert repr(query).endswith("...>")
    assert len(repr(query)) < 250
    assert "199)" in query._repr_html_(), "a notebook has room for all of it"


def test_showing_waits_for_no_lock(engine: Engine) -> None:
    pairs = engine.install(PAIRS)
    shown = []
    with engine._lock, pairs._room:
        other = threading.Thread(
            target=lambda: shown.extend(
                [repr(engine), repr(pairs), engine._repr_html_(), pairs._repr_html_()]
            ),
            daemon=True,
        )
        other.start()
        other.join(20)
    assert len(shown) == 4


def test_a_result_shows_its_first_rows() -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.array(range(30), pa.int32())})
    result = Result(batch, np.arange(100, 130))
    assert repr(result) == "<Result: 30 rows at positions 100 to 129 (x int32)>"
    html = result._repr_html_()
    assert html.count("<tr>") == NOTEBOOK_ROWS + 1
    assert html.endswith(f"<div>and {30 - NOTEBOOK_ROWS} rows more</div>")
    assert repr(Result(batch.slice(0, 0), np.arange(0))) == "<Result: 0 rows (x int32)>"


def test_an_explanation_is_shown_line_by_line(engine: Engine) -> None:
    explained = engine.explain(PAIRS)
    assert isinstance(explained, Explanation)
    assert repr(explained) == str(explained)
    assert explained == engine.sql(f"EXPLAIN {PAIRS}")
    assert explained._repr_html_().startswith("<pre>plan\n  project")
    assert isinstance(engine.install(PAIRS).explain(), Explanation)


def test_a_program_and_a_plan_have_their_text(engine: Engine) -> None:
    query = engine.install(PAIRS)
    program = query.program
    assert repr(program) == f"<Program of {len(program.instructions)} instructions: {PAIRS}>"
    assert program._repr_html_().startswith("<pre>#0 scan R")
    plan = query.explained().plan
    assert repr(plan) == f"<Plan: {PAIRS}>"


def test_a_stream_shows_its_columns(engine: Engine) -> None:
    engine.sql("CREATE STREAM T (t int64, name string) TIMESTAMP BY t")
    stream = engine.catalog.get("T")
    assert stream is not None
    assert repr(stream) == "Stream T (t int64, name string) TIMESTAMP BY t"
    assert repr(engine.catalog) == "<Catalog: R, S, T>"
    html = stream._repr_html_()
    assert "<td>t</td><td>int64</td><td>time attribute</td>" in html
    assert "<td>name</td><td>string</td><td></td>" in html


def test_a_replay_shows_its_lines() -> None:
    result = replay_text("stream R (x int32)\ninstall q: SELECT x FROM R\nR: 1\nexpect q: 2\n")
    html = result._repr_html_()
    assert html.startswith("<div>1 line, 1 expectation not met</div><pre>q: 1</pre>")
    assert ReplayResult()._repr_html_() == ("<div>0 lines, 0 expectations not met</div><pre></pre>")
