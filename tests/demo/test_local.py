"""The demo in this process, and the parts it shares with the demo on Spark."""

from __future__ import annotations

import io
import sys

import pyarrow as pa
import pytest

from penstock.cli.commands import main
from penstock.demo import local
from penstock.demo.check import MISSING, check
from penstock.demo.data import Size, generate
from penstock.demo.screen import Screen

SMALL = Size(window=500, arrivals=8_000, chunk=500)


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit status and the output of the command, at a small size."""
    real = local.run_demo
    monkeypatch.setattr(local, "run_demo", lambda screen: real(screen, SMALL))
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--engine", "local"])
    return int(caught.value.code or 0), capsys.readouterr().out


def test_it_shows_the_query_the_rates_the_change_and_the_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = run(capsys, monkeypatch)
    assert status == 0
    for part in (
        "FROM R [ROWS 500] AS r JOIN S [ROWS 500] AS s",
        "tuples/s",
        "G comparisons/s on one core",
        "Now the band becomes ±20 instead of ±10",
        "rows, the same.",
    ):
        assert part in text


def test_a_wrong_answer_is_exit_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = local._flow

    def one_row_short(*arguments: object) -> pa.Table:
        return real(*arguments).slice(1)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "_flow", one_row_short)
    status, text = run(capsys, monkeypatch)
    assert status == 1
    assert "NOT the same" in text.splitlines()[-1]


def test_an_unknown_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--engine", "flink"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "penstock: unknown engine 'flink'\nWrite --engine spark or --engine local.\n"
    )


def test_without_duckdb_it_says_so_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    out = io.StringIO()
    assert local.run_demo(Screen(out), SMALL)
    assert out.getvalue().splitlines()[-1] == MISSING


@pytest.mark.parametrize("column", ["x", "y", "z", "a", "b", "c", "d"])
def test_the_check_sees_a_wrong_value_in_any_column(column: str) -> None:
    data = generate(4_000)
    out = io.StringIO()
    size = Size(window=500, arrivals=4_000, chunk=500)
    with local.penstock.connect("local") as engine:
        engine.sql(local.STREAMS)
        query = engine.install(local.near(size.window, local.BAND), name="near")
        found = local._flow(engine, query, data, size, Screen(out))
    assert check(data, found, size.window, size.change).same  # type: ignore[union-attr]
    values = found[column].to_pylist()
    values[0] = not values[0] if column == "d" else values[0] + values[0]
    index = found.column_names.index(column)
    wrong = found.set_column(
        index, found.schema.field(index), pa.array(values, found.schema.field(index).type)
    )
    verdict = check(data, wrong, size.window, size.change)
    assert str(verdict) == f"NOT the same: DuckDB has {found.num_rows:,}"


def test_the_data_are_as_published() -> None:
    data = generate(20_000)
    x, y = data.r.column("x").to_pylist(), data.r.column("y").to_pylist()
    assert str(data.r.schema.field("y").type) == "float"
    assert 1 <= min(x) <= 20
    assert 9_980 <= max(x) <= 10_000
    assert 1 <= min(y) <= 20
    assert 9_980 <= max(y) <= 10_000
    assert all(len(z) == 20 for z in data.r.column("z").to_pylist())
    assert data.r.column("z")[12].as_py() == "tuple-00000000000012"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_one_line_of_which_nothing_is_left() -> None:
    out = Terminal()
    screen = Screen(out)
    screen.move("10 of 20")
    screen.move("9")
    screen.say("done")
    assert out.getvalue() == "\r10 of 20\r9       \r        \rdone\n"


def test_elsewhere_progress_is_lines() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.move("10 of 20")
    screen.say("done")
    assert out.getvalue() == "10 of 20\ndone\n"
