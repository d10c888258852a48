"""Arguments of a wrong type are errors that say what to give, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.program.isa.instructions import Drop
from penstock.streams.events import End, Punctuation

STREAM = "the name of a stream is int\nGive it as a string."
QUERY = "the name of a query is NoneType\nGive it as a string."
COLUMN = "the name of a column is int\nGive it as a string."
PATH = "5.5 is no path of a file\nGive it as a string or a Path."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.push(5, [{"x": 1}]), STREAM),
        (lambda e: e.punctuate(5, 1), STREAM),
        (lambda e: e.punctuate("R", 1, 5), COLUMN),
        (lambda e: e.end(5), STREAM),
        (lambda e: e.drop(None), QUERY),
        (lambda e: e.change(None, "SELECT x FROM R"), QUERY),
        (lambda e: e.feed([Drop(None)]), QUERY),  # type: ignore[arg-type]
        (lambda e: e.feed([Punctuation(5, 5)]), STREAM),  # type: ignore[arg-type]
        (lambda e: e.feed([End(5)]), STREAM),  # type: ignore[arg-type]
        (lambda e: e.feed(5), "feed takes events and instructions, not int\nGive a list."),
        (
            lambda e: e.feed([End("R"), 5]),
            "int is neither an event nor an instruction\n"
            "Feed events of penstock.streams.events, or use push(), which makes them.",
        ),
        (
            lambda e: e.install("SELECT x FROM R", name=5),
            "the name of a query or stream is int\nGive it as a string.",
        ),
        (
            lambda e: e.stream("Z", 5),
            "the schema of stream Z is int\n"
            "Give a pyarrow Schema: pa.schema([('id', pa.int64())]).",
        ),
        (lambda e: e.save(5.5), PATH),
        (lambda e: ps.restore(5.5), PATH),  # type: ignore[arg-type]
        (
            lambda e: ps.connect("local", batch_rows="a"),  # type: ignore[call-overload]
            "batch_rows is 'a'\nIt must be a whole number, 1 or more.",
        ),
        (
            lambda e: ps.connect("local", push_timeout=None),  # type: ignore[call-overload]
            "push_timeout is None\nIt must be 0 or more seconds.",
        ),
    ],
)
def test_a_wrong_type_is_an_error_and_the_engine_continues(
    call: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT x FROM R", name="q")
        position = engine.position
        with pytest.raises(ps.PenstockError) as error:
            call(engine)
        assert str(error.value) == message
        assert engine.position == position
        engine.push("R", [{"x": 1}])
        engine.save(tmp_path / "saved")
        assert query.rows().to_pylist() == [{"x": 1}]
