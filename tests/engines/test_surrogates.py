"""Half of a character, which Python strings can hold, is refused wherever text comes in."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.engines.local.engine import Engine


@pytest.fixture
def engine() -> Engine:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (x INT, name STRING)")
    return engine


def test_in_sql_it_is_an_error_at_its_place(engine: Engine) -> None:
    with pytest.raises(ps.SqlError) as error:
        engine.install("SELECT 'a\ud800b' AS n FROM R", name="q")
    assert str(error.value) == (
        "half of a character (a lone surrogate) at line 1, column 10\n"
        "  SELECT 'a\ufffdb' AS n FROM R\n"
        "           ^\n"
        "Write the whole character; decode the text as the encoding that it has."
    )
    engine.push("R", [{"x": 1}])
    assert engine.sql("SHOW QUERIES").num_rows == 0


def test_in_a_name_it_is_refused(engine: Engine) -> None:
    with pytest.raises(ps.InputError) as error:
        engine.install("SELECT x FROM R", name="q\udfff")
    assert str(error.value) == (
        "the name 'q\\udfff' has half of a character in it, a lone surrogate\n"
        "Write the whole character, or another name."
    )
    with pytest.raises(ps.InputError) as error:
        engine.push("R\ud800", [{"x": 1}])
    assert str(error.value).startswith(
        "unknown stream 'R\\ud800'\nCreate it first: CREATE STREAM R\ufffd "
    )


def test_in_values_and_keys_it_is_a_dead_letter(engine: Engine) -> None:
    query = engine.install("SELECT x, name FROM R", name="q")
    engine.push("R", [{"x": 1, "name": "\ud800"}, {"x": 2, "n\ud800": 1}, {"x": 3, "name": "c"}])
    assert query.rows().to_pylist() == [{"x": 3, "name": "c"}]
    assert query.dead_letters().select(["reason", "tuple"]).to_pylist() == [
        {
            "reason": "column name: '\ufffd\ufffd\ufffd' does not fit string",
            "tuple": "1, '\ufffd\ufffd\ufffd'",
        },
        {"reason": "unknown column n\ufffd", "tuple": "2, NULL"},
    ]
