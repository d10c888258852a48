"""The example of the flights: what it shows, and that it would see a wrong row."""

from __future__ import annotations

import io

import pytest
from examples.flights import run
from rich.console import Console

import penstock as ps


def shown(*given: str) -> tuple[int, str]:
    file = io.StringIO()
    status = run.main(list(given), Console(file=file, width=100))
    return status, "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def test_three_streams_give_the_rows_of_duckdb() -> None:
    status, text = shown("--days", "31")
    assert status == 0
    assert text.splitlines()[0] == " airport  maker             long delays in poor visibility"
    assert text.splitlines()[-2:] == [
        "27,004 departures, 2,226 observations, 3,322 planes: 86 rows",
        "DuckDB has the same",
    ]


def test_a_wrong_row_is_seen() -> None:
    year = run.read(31)
    with ps.connect("local") as engine:
        rows = run.flow(engine, year)
    assert run.differences(rows, year) == 0
    assert run.differences(rows.slice(1), year) == 1
    assert run.differences(rows.take([0, *range(rows.num_rows)]), year) == 1


def test_days_that_are_none() -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(["--days", "0"])
    assert ended.value.code == 2
