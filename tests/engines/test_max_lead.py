"""Streams that declare how far ahead a time may be."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import InputError
from penstock.streams.events import Merged

DECLARED = "CREATE STREAM R (id INT, t BIGINT) TIMESTAMP BY t MAX LEAD 5"


def dead(query: Any) -> list[tuple[int, str, str]]:
    return [(letter.position, letter.text, letter.reason) for letter in query.drain_letters()]


def test_a_tuple_that_is_too_far_ahead_is_a_dead_letter_to_all_that_read_it() -> None:
    engine = ps.connect("local")
    engine.sql(DECLARED)
    queries = [engine.sql("SELECT id FROM R"), engine.sql("SELECT t FROM R WHERE id > 1")]
    engine.push("R", pa.table({"id": [1, 2, 3, 4], "t": [10, 15, 21, 20]}))
    assert queries[0].rows().to_pydict() == {"id": [1, 2, 4]}
    assert queries[1].rows().to_pydict() == {"t": [15, 20]}
    for query in queries:
        assert query.metrics()["dead_letters"] == 1
        assert dead(query) == [(5, "3, 21", "t = 21 is more than MAX LEAD 5 ahead of 15")]


def test_single_tuples_are_judged_as_batches_are() -> None:
    engine = Engine()
    engine._single_pushes.patience = 0
    engine.sql(DECLARED)
    engine.sql("CREATE STREAM S (id INT, t BIGINT)")
    query = engine.sql("SELECT r.t FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.id = s.id")
    engine.push("S", [{"id": 1, "t": 0}])
    for time in (1, 6, 12, 11):
        engine.push("R", [{"id": 1, "t": time}])
    assert query.rows().to_pydict() == {"t": [1, 6, 11]}
    assert dead(query) == [(6, "1, 12", "t = 12 is more than MAX LEAD 5 ahead of 6")]


def test_tuples_of_several_streams_are_judged_each_by_its_own() -> None:
    engine = Engine()
    engine.sql(DECLARED)
    engine.sql("CREATE STREAM S (u DOUBLE) TIMESTAMP BY u MAX LEAD 0.5")
    rows, others = engine.sql("SELECT id FROM R"), engine.sql("SELECT u FROM S")
    batches = (
        pa.RecordBatch.from_pydict(
            {"id": [1, 2, 3], "t": [0, 6, 5]}, engine.catalog.get("R").schema
        ),
        pa.RecordBatch.from_pydict({"u": [0.0, 0.75, 0.5]}, engine.catalog.get("S").schema),
    )
    engine.feed([Merged(("R", "S"), batches, np.array([0, 1, 1, 0, 0, 1], np.int8))])
    assert rows.rows().to_pydict() == {"id": [1, 3]}
    assert others.rows().to_pydict() == {"u": [0.0, 0.5]}
    assert dead(rows) == [(7, "2, 6", "t = 6 is more than MAX LEAD 5 ahead of 0")]
    assert dead(others) == [(6, "0.75", "u = 0.75 is more than MAX LEAD 0.5 ahead of 0.0")]


MOMENTS = [
    (pa.date32(), timedelta(days=1), [date(2024, 1, d) for d in (1, 3, 2, 4)], [0, 2]),
    (pa.date32(), timedelta(hours=47), [date(2024, 1, d) for d in (1, 3, 2)], [0, 2]),
    (
        pa.timestamp("ms", "Europe/Rome"),
        1.5,
        [datetime(2024, 1, 1, 0, 0, s) for s in (0, 2, 1)],
        [0, 2],
    ),
    (pa.decimal128(9, 2), Decimal("0.5"), [Decimal(d) for d in ("1", "1.51", "1.50")], [0, 2]),
    (pa.int64(), 0, [3, 4, 3, 2], [0, 2, 3]),
    (pa.int64(), 2**62, [-(2**63) + 1, 0, 2**63 - 1], [0]),
    (pa.float32(), 1, [0.5, 1.5, float("inf"), 2.75], [0, 1, 2]),
]


def test_an_infinite_time_makes_nothing_late() -> None:
    engine = Engine(compile_predicates=False)
    engine.sql("CREATE STREAM R (id INT, t DOUBLE); CREATE STREAM S (t DOUBLE)")
    query = engine.sql(
        "SELECT r.id FROM R [RANGE 2 WATTR t] AS r JOIN S [ROWS 1 WATTR t] AS s ON r.t >= s.t"
    )
    engine.push("S", [{"t": 0.0}])
    for number, time in enumerate((1.0, float("inf"), 1.5, float("-inf"), 2.0, 4.0)):
        engine.push("R", [{"id": number, "t": time}])
    engine.end()
    assert query.rows()["id"].to_pylist() == [0, 2, 4, 5]
    assert [letter.kind for letter in query.drain_letters()] == ["dead", "dead"]


def test_the_last_day_of_the_calendar_makes_nothing_late_with_a_max_lead() -> None:
    engine = Engine(compile_predicates=False)
    engine.sql("CREATE STREAM R (t TIMESTAMP) TIMESTAMP BY t MAX LEAD 1 DAY")
    query = engine.sql("SELECT COUNT(*) AS n FROM R [RANGE 2 SECONDS SLIDE 2 SECONDS WATTR t]")
    for time in (datetime(2024, 1, 1), datetime(9999, 12, 31), datetime(2024, 1, 1, 0, 0, 1)):
        engine.push("R", [{"t": time}])
    engine.end()
    assert query.rows()["n"].to_pylist() == [2]
    assert len(dead(query)) == 1


@pytest.mark.parametrize(("kind", "lead", "times", "kept"), MOMENTS)
def test_every_type_of_time_has_its_lead(
    kind: pa.DataType, lead: Any, times: list[Any], kept: list[int]
) -> None:
    engine = Engine()
    engine.stream("R", pa.schema({"t": kind, "n": pa.int32()}), time="t", max_lead=lead)
    query = engine.sql("SELECT n FROM R")
    engine.push("R", pa.table({"t": pa.array(times, kind), "n": pa.array(range(len(times)))}))
    assert query.rows()["n"].to_pylist() == kept


def test_a_saved_engine_knows_how_far_its_streams_have_come(tmp_path: Path) -> None:
    engine = Engine()
    engine.sql(DECLARED)
    engine.install("SELECT id FROM R", "q")
    engine.push("R", [{"id": 1, "t": 10}])
    engine.save(tmp_path / "state")
    again = ps.restore(tmp_path / "state")
    again.push("R", [{"id": 2, "t": 16}, {"id": 3, "t": 15}])
    assert [row["id"] for row in again.queries["q"].rows().to_pylist()] == [1, 3]
    assert repr(again.catalog.get("R")) == "Stream R (id int32, t int64) TIMESTAMP BY t MAX LEAD 5"


def test_a_reset_forgets_how_far_streams_have_come() -> None:
    engine = Engine()
    engine.sql(DECLARED)
    engine.push("R", [{"id": 1, "t": 10}])
    engine.reset()
    engine.sql(DECLARED)
    query = engine.sql("SELECT id FROM R")
    engine.push("R", [{"id": 2, "t": 100}])
    assert query.rows().to_pydict() == {"id": [2]}


def test_streams_show_their_lead() -> None:
    engine = Engine()
    engine.sql("CREATE STREAM A (t TIMESTAMP) TIMESTAMP BY t MAX LEAD 90 MINUTES")
    engine.sql("CREATE STREAM B (t DECIMAL(9, 2)) TIMESTAMP BY t MAX LEAD 1.50")
    engine.sql("CREATE STREAM C (t TIMESTAMP) TIMESTAMP BY t MAX LEAD 0")
    assert engine.sql("SHOW STREAMS")["definition"].to_pylist() == [
        "Stream A (t timestamp) TIMESTAMP BY t MAX LEAD 90 MINUTES",
        "Stream B (t decimal(9, 2)) TIMESTAMP BY t MAX LEAD 1.5",
        "Stream C (t timestamp) TIMESTAMP BY t MAX LEAD 0",
    ]
    assert engine.catalog.get("A").max_lead == Fraction(5400)


@pytest.mark.parametrize(
    ("time", "lead", "message"),
    [
        (
            None,
            1,
            "stream R has a MAX LEAD and no time attribute\n"
            "Declare the column that it is of: TIMESTAMP BY t MAX LEAD 1 HOUR, or time='t'.",
        ),
        ("t", -1, "MAX LEAD -1 is below 0\nWrite how far ahead a time may be, 0 or more."),
        (
            "t",
            float("inf"),
            "max_lead is inf\nGive a timedelta, or a number: of seconds for timestamps.",
        ),
        (
            "t",
            "1 HOUR",
            "max_lead is '1 HOUR'\nGive a timedelta, or a number: of seconds for timestamps.",
        ),
        ("t", 0.5, "MAX LEAD 0.5 is not whole\nWrite a whole number, or whole seconds."),
    ],
)
def test_what_is_no_lead_is_refused(time: str | None, lead: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        Engine().stream("R", pa.schema({"t": pa.int64()}), time=time, max_lead=lead)
    assert str(error.value) == message
