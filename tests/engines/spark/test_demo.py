"""The demo on Spark, at a small size: what it says is so, and its checks can fail."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.cli.commands import main
from penstock.demo import spark as demo
from penstock.demo.check import Verdict, check
from penstock.demo.data import Data, Size, generate
from penstock.demo.dataframes import STOCK, ask_spark, code, write_streams
from penstock.demo.screen import Screen
from penstock.engines.spark.session import Session

pytestmark = pytest.mark.xdist_group("spark")

SMALL = Size(window=500, arrivals=4_000, chunk=500)
FEW = Size(window=300, arrivals=4_000, chunk=500)
REFUSAL = "Stream-stream join without equality predicate is not supported."


@dataclass(frozen=True)
class Shown:
    """What it prints where all is well, and the rows that DuckDB was asked about."""

    lines: list[str]
    rows: pa.Table
    rows_of_lines: pa.Table

    def line(self, pattern: str) -> re.Match[str]:
        """The one line of that form."""
        found = [match for text in self.lines if (match := re.fullmatch(f" *{pattern}", text))]
        assert len(found) == 1, pattern
        return found[0]


@pytest.fixture(scope="module")
def shown(session: Session) -> Shown:
    out, asked = io.StringIO(), []

    def noted(data: Data, found: pa.Table, *options: int) -> Verdict | None:
        asked.append(found)
        return check(data, found, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "check", noted)
        assert demo.run_demo(Screen(out), SMALL, FEW)
    return Shown(out.getvalue().splitlines(), *asked)


def test_spark_refuses_for_want_of_an_equality_and_of_nothing_else(
    session: Session, tmp_path: Path, shown: Shown
) -> None:
    shown.line(re.escape(REFUSAL))
    spark = session.spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    streams = write_streams(spark, generate(100), tmp_path)
    assert ask_spark(spark, streams, STOCK) == REFUSAL
    assert ask_spark(spark, streams, f"{STOCK} AND r.x = s.a") is None


def test_progress_and_rate_are_shown_and_the_rows_are_duckdbs(shown: Shown) -> None:
    last = r"4,000 of 4,000 tuples, +([\d,]+) rows, +[\d,]+ tuples/s"
    rows = shown.line(last)[1]
    shown.line(r"The 3,500 tuples after the first 500 took [\d.]+ s: [\d,]+ tuples/s\.")
    shown.line(rf"4\. Checked with DuckDB \S+ on the same data \(\S+ s\): {rows} rows, the same\.")
    assert int(shown.line(r"([\d,]+) of them pair a tuple from before .*")[1]) > 0


def test_the_run_is_the_same_before_and_after_the_change(shown: Shown) -> None:
    before = shown.line(r"runs it, after [\d.]+ s\. Spark's run id is ([0-9a-f-]{36})\.")[1]
    shown.line(r"3\. Changed while it runs, .*: ±20 instead of ±10 from")
    shown.line(r"tuple 2,000 on, with [\d,]+ tuples still under way\.")
    shown.line(rf"Spark's run id is still {before}\.")


def test_the_lines_at_the_end_are_those_that_have_run(shown: Shown) -> None:
    printed = "\n".join(f"     {text}" for text in code(FEW.window).splitlines())
    assert f"\n\n{printed}\n\n" in "\n".join(shown.lines)
    assert int(shown.line(r"This has just run .*: (\d+) rows\.")[1]) > 0
    assert shown.lines[-1] == "   Checked with DuckDB: the same."


class StandIn:
    """An engine and a flow that give the rows of an earlier run, and the run ids they are given."""

    position = progress = 0

    def __init__(self, rows: pa.Table, *run_ids: str) -> None:
        self._rows = rows
        self._run_ids = list(run_ids)

    @property
    def run_id(self) -> str:
        return self._run_ids.pop(0) if len(self._run_ids) > 1 else self._run_ids[0]

    def second_half(self) -> pa.Table:
        return self._rows

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self


@pytest.mark.parametrize(
    ("lost", "lost_by_lines", "run_ids", "status", "said"),
    [
        (0, 0, ["a", "a"], 0, "Spark's run id is still a."),
        (1, 0, ["a", "a"], 1, "rows, NOT the same: DuckDB has"),
        (0, 1, ["a", "a"], 1, "Checked with DuckDB: NOT the same: DuckDB has"),
        (0, 0, ["a", "b"], 1, "Spark's run id is NOT the same: b."),
    ],
    ids=["all is well", "a row is lost", "the printed lines lose a row", "Spark has restarted"],
)
def test_the_exit_status_is_1_if_anything_is_wrong(
    lost: int,
    lost_by_lines: int,
    run_ids: list[str],
    status: int,
    said: str,
    shown: Shown,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real, engine = demo.run_demo, StandIn(shown.rows.slice(lost), *run_ids)
    monkeypatch.setattr(demo, "run_demo", lambda screen: real(screen, SMALL, FEW))
    monkeypatch.setattr(demo, "ask_spark", lambda *asked: REFUSAL)
    monkeypatch.setattr(demo, "ps", SimpleNamespace(connect=lambda *name, **options: engine))
    monkeypatch.setattr(demo, "SparkFeed", lambda *what: engine)
    monkeypatch.setattr(demo, "run_code", lambda *lines: shown.rows_of_lines.slice(lost_by_lines))
    with pytest.raises(SystemExit) as caught:
        main(["demo"])
    assert (caught.value.code or 0) == status
    assert said in capsys.readouterr().out
