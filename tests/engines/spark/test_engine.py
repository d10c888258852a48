"""The resident processor on Spark: reprogrammed while it runs, continued from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.spark.engine import Engine
from penstock.engines.spark.session import Session

pytestmark = pytest.mark.xdist_group("spark")

STREAMS = "CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)"
BAND = (
    "SELECT r.id AS r, s.id AS s FROM R [ROWS 64] r JOIN S [ROWS 64] s "
    "ON r.x BETWEEN s.a - {0} AND s.a + {0}"
)

OTHER = "SELECT id FROM R WHERE x > 48"


def numbers(start: int, stop: int, names: tuple[str, str]) -> pa.Table:
    values = np.random.default_rng(start).integers(0, 50, stop - start).astype(np.int32)
    return pa.table([pa.array(np.arange(start, stop)), pa.array(values)], names=list(names))


def drive(engine: Any, start: int, stop: int) -> None:
    """Tuples of both streams in pushes of 40."""
    for at in range(start, stop, 40):
        engine.push("R", numbers(at, at + 40, ("id", "x")))
        engine.push("S", numbers(at, at + 40, ("id", "a")))


def drained(query: Any) -> list[tuple[int, int, int]]:
    found = []
    for result in query.drain():
        columns = [result.positions.tolist(), *(c.to_pylist() for c in result.batch.columns)]
        found += list(zip(*columns, strict=True))
    return found


def embedded(*others: str) -> list[tuple[int, int, int]]:
    """What the embedded engine makes of the same input and the same change."""
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        query = engine.install(BAND.format(1), name="band")
        drive(engine, 0, 200)
        query.change(BAND.format(2))
        for other in others:
            engine.install(other)
        drive(engine, 200, 400)
        return drained(query)


def test_a_change_takes_effect_at_its_position_and_restarts_nothing(session: Session) -> None:
    with ps.connect(session.spark, cores=2, rows_per_trigger=200) as engine:
        run = engine.run_id
        engine.sql(STREAMS)
        query = engine.install(BAND.format(1), name="band")
        drive(engine, 0, 200)
        query.change(BAND.format(2))
        other = engine.install(OTHER, name="other")
        drive(engine, 200, 400)
        engine.wait()
        assert drained(query) == embedded(OTHER)
        assert other.metrics()["tuples_in"] == {"R": 200}
        assert query.metrics()["window_tuples"] == [64, 64]
        halves = [core["window"] for core in query.metrics()["cores"]]
        assert halves == [[32, 32], [32, 32]], "each core stores its own tuples only"
        other.drop()
        engine.wait()
        assert list(engine.queries) == ["band"]
        assert engine.run_id == run == str(engine._resident._query.runId)
        assert engine.batches >= 4
        assert query.explain().splitlines()[-1] == (
            "distribution: broadcast to 2 cores, each tuple stored on one (SplitJoin)"
        )


def test_another_engine_goes_on_where_one_stopped(session: Session, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "engine", "rows_per_trigger": 100}
    with ps.connect("spark", **options) as engine:
        engine.sql(STREAMS)
        first = drained_half(engine)
    assert engine.position == 3 + 400
    with ps.connect("spark", **options) as engine:
        query = engine.queries["band"]
        query.change(BAND.format(2))
        drive(engine, 200, 400)
        engine.wait()
        assert first + drained(query) == embedded()
        left = [path.name for path in (tmp_path / "engine" / "log").iterdir()]
        assert len(left) <= 5, "segments go once their batch is committed"
    with pytest.raises(ps.StateError) as error:
        ps.connect("spark", checkpoint=tmp_path / "engine", cores=2)
    assert str(error.value) == (
        f"the checkpoint {tmp_path / 'engine'} was written with cores=1, and its windows are "
        "divided among so many; cores=2 cannot read them\n"
        "Connect with cores=1 (--cores 1), or start in an empty folder."
    )


def drained_half(engine: Engine) -> list[tuple[int, int, int]]:
    """The first half of the input, of which only the first batches are waited for."""
    query = engine.install(BAND.format(1), name="band")
    drive(engine, 0, 120)
    engine.wait()
    found = drained(query)
    drive(engine, 120, 200)
    return found


def test_what_is_refused_is_not_in_the_log(shared_engine: Engine) -> None:
    engine = shared_engine
    engine.sql(STREAMS)
    before = engine.position
    for action, message in (
        (
            lambda: engine.install("SELECT z FROM R"),
            "unknown column 'z' of R at line 1, column 8\n  SELECT z FROM R\n         ^\n"
            "The columns are id, x.",
        ),
        (
            lambda: engine.push("T", []),
            "unknown stream 'T'\nCreate it first: CREATE STREAM T (...). Streams there are: R, S.",
        ),
    ):
        with pytest.raises(ps.PenstockError) as error:
            action()
        assert str(error.value) == message
    assert engine.position == before
    query = engine.install("SELECT id FROM R")
    engine.push("R", [{"id": 1, "x": 2}])
    engine.wait()
    assert query.rows().to_pylist() == [{"id": 1}]
    engine.reset()


def test_an_engine_and_its_queries_show_themselves(shared_engine: Engine) -> None:
    engine = shared_engine
    engine.sql("CREATE STREAM R (x INT)")
    query = engine.install("SELECT x FROM R WHERE x < 3", name="small")
    first = engine.position
    engine.push("R", [{"x": 1}, {"x": 5}])
    engine.wait()
    assert repr(engine) == (
        f"<Engine spark: open, 1 stream, 1 query, 1 core, position {first + 2:,}, "
        f"processed up to {first + 2:,}>"
    )
    assert repr(query) == (
        "<Query small: running, tuples in 2, rows out 1, undrained 1, late 0, dead letters 0: "
        "SELECT x FROM R WHERE x < 3>"
    )
    assert "<td>SELECT x FROM R WHERE x &lt; 3</td>" in engine._repr_html_()
    assert "<pre>SELECT x FROM R WHERE x &lt; 3</pre>" in query._repr_html_()
    assert query.rows().to_pylist() == [{"x": 1}]
    engine.reset()
    assert query.state == "dropped"
