"""The fleet of queries on one topology: its rows on both engines, and what they are checked by."""

from __future__ import annotations

import io

import numpy as np
import pytest
from examples.fqp import fleet
from rich.console import Console
from tests.engines.spark.in_process import Cluster, standing_in

SMALL = ("--queries", "60", "--tuples", "9000")


def shown(*given: str) -> tuple[int, list[str]]:
    file = io.StringIO()
    status = fleet.main(list(given), Console(file=file, width=200))
    return status, [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def often_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "SLICE", 1_500)
    monkeypatch.setattr(fleet, "MOVES", 100)
    monkeypatch.setattr(fleet, "CUSTOMERS", 500)


def test_every_query_has_the_rows_of_its_definition() -> None:
    status, lines = shown(*SMALL)
    assert status == 0
    assert lines[:3] == [
        "60 queries on fqp:chain:4, engine local",
        "9,000 tuples; 65 queries installed, 20 changed, 5 dropped",
        "12,268 rows; NumPy has the same",
    ]
    kinds = [line.partition(":")[0] for line in lines[3:] if line[0] != " "]
    assert kinds == ["on the topology", "separate queries", "one selection alone"]


def test_on_spark_too() -> None:
    with standing_in(Cluster(eager=True)):
        status, lines = shown(
            "--queries", "22", "--tuples", "4500", "--seed", "3", "--engine", "spark"
        )
    assert status == 0
    assert lines[:3] == [
        "22 queries on fqp:chain:3, engine spark",
        "4,500 tuples; 23 queries installed, 2 changed, 1 dropped",
        "9,714 rows; NumPy has the same",
    ]
    assert lines[-1].startswith("Spark's run id ")
    assert lines[-1].endswith(" is the same at the end")


def test_other_rows_are_told_and_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = fleet.Selection.rows
    monkeypatch.setattr(fleet.Selection, "rows", lambda self, part: rows(self, part)[1:])
    status, lines = shown(*SMALL)
    assert status == 1
    assert "wrong rows: on the topology, q1, tuples from 0" in lines
    assert next(line for line in lines if "NumPy" in line).startswith(
        "12,268 rows; NumPy has others"
    )


def test_pairs_are_those_of_their_definition() -> None:
    chance = np.random.default_rng(3)
    parts, at = [], 0
    for count in (1, 400, 2, 300):
        parts.append(fleet.arrivals(chance, count, at))
        at += count
    join, start = fleet.Join(20, 300), 50
    partners = fleet.Partners(fleet.LONGEST)
    found = [pair for part in parts for pair in partners.of(part).rows(join, start).tolist()]
    seen: tuple[list[tuple[int, int, int]], ...] = ([], [])
    expected = []
    for part in parts:
        for i, side in enumerate(part.which.tolist()):
            own = (part.first + i, int(part.customers[i]), int(part.amounts[i]))
            for other in seen[1 - side][-join.window :]:
                request, payment = (own, other) if side == 0 else (other, own)
                if (
                    own[1] == other[1]
                    and payment[2] > join.limit
                    and min(own[0], other[0]) >= start
                ):
                    expected.append(request[0] << 32 | payment[0])
            seen[side].append(own)
    assert expected
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("option", ("--tuples", "--queries"))
def test_no_tuples_and_no_queries_are_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        fleet.main([option, "0"])
    said = f"error: {option} 0: write a number from 1 on\n"
    assert capsys.readouterr().err.endswith(said)
