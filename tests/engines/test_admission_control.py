"""Admission control: what a query sheds while its output is almost full, and that it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.engines.shared import admission_control
from penstock.errors import BufferFull
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples

SELECT = "SELECT x FROM R"
JOIN = "SELECT r.x AS r, s.x AS s FROM R [ROWS 8] r JOIN S [ROWS 8] s ON r.x <> s.x"


def engine_of(buffer_rows: int = 8, **options: Any) -> Engine:
    engine = ps.connect("local", buffer_rows=buffer_rows, push_timeout=0.0, **options)
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (x INT)")
    return engine


def tuples(*values: int) -> list[dict[str, int]]:
    return [{"x": value} for value in values]


def test_input_is_dropped_and_reported_while_the_output_is_almost_full() -> None:
    with engine_of(buffer_rows=16) as engine:
        q = engine.install(SELECT, admission="shed")
        start = engine.position
        engine.push("R", tuples(*range(100)))
        # One is taken, and then two at a time, for which the reserve has room; with thirteen rows
        # in it, the buffer is not almost full, with fifteen it is.
        assert q.rows().to_pydict() == {"x": list(range(15))}
        assert q.metrics()["shed"] == {"R": 85}
        assert q.metrics()["tuples_in"] == {"R": 100}
        assert q.shed().to_pylist() == [
            {"stream": "R", "first_position": start + 15, "last_position": start + 99, "tuples": 85}
        ]
        assert q.shed().num_rows == 0
        assert q.metrics()["shed"] == {"R": 85}


def test_it_takes_input_again_once_it_is_drained() -> None:
    with engine_of() as engine:
        q = engine.install(SELECT, admission="shed")
        start = engine.position
        taken = []
        for first in (0, 20, 40):
            engine.push("R", tuples(*range(first, first + 20)))
            taken += q.rows().column("x").to_pylist()
        assert taken == [*range(7), *range(20, 27), *range(40, 47)]
        assert q.shed().to_pylist() == [
            {"stream": "R", "first_position": start + i + 7, "last_position": start + i + 19,
             "tuples": 13}
            for i in (0, 20, 40)
        ]  # fmt: skip


def test_tuples_one_by_one_are_shed_too() -> None:
    with engine_of() as engine:
        engine._single_pushes.patience = 0
        q = engine.install(JOIN, admission="shed")
        engine.push("R", tuples(0))
        for i in range(1, 21):
            engine.push("S", tuples(i))
        assert engine._single_pushes.fast_tuples > 0
        assert q.metrics()["undrained_rows"] == 7
        assert q.metrics()["window_tuples"] == [1, 7]
        assert q.metrics()["shed"] == {"S": 13}
        assert q.shed().column("tuples").to_pylist() == [13]
        assert q.rows().column("s").to_pylist() == list(range(1, 8))
        engine.push("S", tuples(30))
        assert q.rows().to_pylist() == [{"r": 0, "s": 30}]


def test_one_query_sheds_and_another_waits() -> None:
    with engine_of() as engine:
        sheds = engine.install(SELECT, admission="shed")
        waits = engine.install(SELECT, admission="wait")
        engine.push("R", tuples(*range(20)))
        assert (sheds.rows().num_rows, sheds.metrics()["shed"]) == (7, {"R": 13})
        with pytest.raises(BufferFull) as error:
            engine.push("R", tuples(20))
        assert error.value.what.startswith("query 'q2' holds 20 rows")
        assert sheds.rows().num_rows == 0
        assert waits.rows().column("x").to_pylist() == list(range(20))
        engine.push("R", tuples(20))
        assert [q.rows().column("x").to_pylist() for q in (sheds, waits)] == [[20], [20]]
        assert (waits.metrics()["shed"], waits.shed().num_rows) == ({}, 0)


def test_punctuations_and_ends_and_instructions_are_not_shed() -> None:
    with ps.connect("local", buffer_rows=8, push_timeout=0.0) as engine:
        schema = pa.schema([("t", pa.int64())])
        engine.stream("A", schema, time="t")
        engine.stream("B", schema, time="t")
        q = engine.install(
            "SELECT a.t FROM A [RANGE 5] a LEFT JOIN B [RANGE 5] b ON a.t = b.t", admission="shed"
        )

        def of(*values: int) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=schema)

        engine.feed([Tuples("A", of(*range(10))), Punctuation("B", 13), Tuples("A", of(20, 21))])
        # The punctuation makes 0 .. 8 come out, and then nothing more can be taken.
        assert q.metrics()["undrained_rows"] == 9
        assert q.metrics()["shed"] == {}
        which = np.array([0, 1, 0, 1], np.int8)
        engine.feed([Merged(("A", "B"), (of(30, 31), of(20, 21)), which), End("B")])
        assert q.metrics()["shed"] == {"A": 2, "B": 2}
        # The end was not: all that A has, comes out.
        assert q.rows().column("t").to_pylist() == [*range(10), 20, 21]
        q.change("SELECT a.t FROM A [RANGE 6] a LEFT JOIN B [RANGE 6] b ON a.t = b.t")
        assert "RANGE 6" in q.text


def test_records_that_are_no_tuples_are_shed_like_tuples() -> None:
    with engine_of() as engine:
        q = engine.install(SELECT, admission="shed")
        start = engine.position
        for _ in range(10):
            engine.feed([Malformed("R", "y", "no number")])
        assert (q.metrics()["dead_letters"], q.metrics()["shed"]) == (7, {"R": 3})
        assert q.shed().to_pylist() == [
            {"stream": "R", "first_position": start + 7, "last_position": start + 9, "tuples": 3}
        ]
        assert q.dead_letters().num_rows == 7


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_are_those_of_the_input_that_was_not_shed(seed: int) -> None:
    chance = np.random.default_rng(seed)
    kinds = ("JOIN", "LEFT JOIN", "FULL JOIN")
    sql = JOIN.replace("JOIN", kinds[seed % 3]).replace("<>", "<=")
    with engine_of(64) as engine, engine_of(1 << 20) as other:
        q = engine.install(sql, admission="shed")
        expected = other.install(sql)
        start = engine.position
        arrivals: list[tuple[str, int]] = []
        found: list[Any] = []
        for _ in range(30):
            which = chance.integers(0, 2, int(chance.integers(1, 40))).astype(np.int8)
            values = [chance.integers(0, 50, int((which == i).sum())).tolist() for i in (0, 1)]
            arrivals += [("RS"[i], values[i][int((which[:k] == i).sum())])
                         for k, i in enumerate(which.tolist())]  # fmt: skip
            batches = tuple(
                pa.RecordBatch.from_arrays([pa.array(v, pa.int32())], ["x"]) for v in values
            )
            engine.feed([Merged(("R", "S"), batches, which)])
            if chance.random() < 0.5:
                found += q.rows().to_pylist()
        engine.end()
        found += q.rows().to_pylist()
        ranges = q.shed().to_pylist()
        gone = {
            (one["stream"], position)
            for one in ranges
            for position in range(one["first_position"], one["last_position"] + 1)
        }
        kept = [(s, x) for at, (s, x) in enumerate(arrivals) if (s, start + at) not in gone]
        shed = sum(one["tuples"] for one in ranges)
        assert 0 < shed == len(arrivals) - len(kept) == sum(q.metrics()["shed"].values())
        for stream, value in kept:
            other.push(stream, tuples(value))
        other.end()
        assert found == expected.rows().to_pylist()
        assert q.metrics()["cores"] == expected.metrics()["cores"]


def test_what_was_shed_is_saved(tmp_path: Path) -> None:
    with engine_of() as engine:
        q = engine.install(SELECT, "q", admission="shed")
        engine.push("R", tuples(*range(20)))
        engine.save(tmp_path / "e")
        with ps.restore(tmp_path / "e") as again:
            restored = again.queries["q"]
            assert restored.metrics() == q.metrics()
            assert restored.shed().to_pylist() == q.shed().to_pylist() != []
            again.push("R", tuples(20))
            assert restored.metrics()["shed"] == {"R": 14}


@tuning.given(most_shed_ranges=2)
def test_undrained_ranges_do_not_accumulate() -> None:
    with engine_of() as engine:
        q = engine.install(SELECT, admission="shed")
        start = engine.position
        for _ in range(5):
            engine.push("R", tuples(*range(10)))
            q.rows()
        assert q.shed().to_pylist() == [
            {"stream": "R", "first_position": start + 7, "last_position": start + 9, "tuples": 3},
            {"stream": "R", "first_position": start + 17, "last_position": start + 49,
             "tuples": 12},
        ]  # fmt: skip


def test_steps_grow_while_the_reserve_has_room_for_what_they_make() -> None:
    with engine_of(1 << 12) as engine:
        q = engine.install("SELECT x FROM R WHERE x < 0", admission="shed")
        engine.push("R", tuples(*range(5000)))
        assert q._shedding is not None
        assert q._shedding._step == admission_control.LARGEST_STEP == 4096
        assert q.metrics()["shed"] == {}


def test_records_that_are_no_tuples_are_in_the_range_around_them() -> None:
    with ps.connect("local", buffer_rows=8) as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, x INT)")
        q = engine.install(
            "SELECT r.id FROM R [ROWS 100] r JOIN S [ROWS 100] s ON r.x = s.x", admission="shed"
        )
        engine.push("R", [{"id": i, "x": 1} for i in range(10)])
        engine.push("S", [{"id": 1, "x": 1}])
        start = engine.position
        engine.push("S", [{"id": i, "x": "no" if i == 5 else 1} for i in range(10)])
        [shed] = q.shed().to_pylist()
    assert shed == {
        "stream": "S",
        "first_position": start,
        "last_position": start + 9,
        "tuples": 10,
    }
