"""The Spark engine when a core fails, lags behind, or results are not drained."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.in_process import Cluster, connected, finish, standing_in

import penstock as ps
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.spark.engine import Engine

STREAMS = "CREATE STREAM R (x INT); CREATE STREAM S (x INT)"
ALL = "SELECT r.x AS r, s.x AS s FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON TRUE"


def numbers(start: int, stop: int) -> list[dict[str, int]]:
    return [{"x": x} for x in range(start, stop)]


@pytest.fixture
def second_core_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second core fails at the tuple with x = 3, before it has made anything of it."""
    process = Pipeline.process

    def failing(self: Any, runs: Any, first: int, after: int) -> Iterator[Any]:
        share = self._site.share
        here = bool(self.of_kind("join")) and share is not None and share.core == 1
        if here and any(3 in run.inputs[0].column(0).to_pylist() for run in runs.values()):
            raise ZeroDivisionError("boom")
        return process(self, runs, first, after)

    monkeypatch.setattr(Pipeline, "process", failing)


def test_a_query_that_fails_on_one_core_stops_on_all(
    second_core_fails: None, tmp_path: Path
) -> None:
    message = (
        "query 'all' has failed and is stopped (ZeroDivisionError: boom); every other query has "
        "taken the input\n"
        "Drop it, and install it again once its cause is mended; this is a defect of Penstock."
    )
    cluster = Cluster()
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "c", "cores": 2, "batch_rows": 1, "compile_predicates": False,
    }  # fmt: skip
    with connected(cluster, **options) as engine:
        engine.sql(STREAMS)
        query = engine.install(ALL, name="all")
        other = engine.install("SELECT x FROM S WHERE x > 2", name="other")
        engine.push("R", numbers(0, 2))
        engine.push("S", numbers(0, 5))
        with pytest.raises(ps.QueryFailed) as error:
            finish(engine)
        assert (str(error.value), error.value.__cause__) == (message, None)
        whole = [{"r": r, "s": s} for s in range(3) for r in range(2)]
        assert query.rows().to_pylist() == whole, "the first core's rows of 3 and 4 are not whole"
        assert other.rows().to_pylist() == [{"x": 3}, {"x": 4}]
    with connected(cluster, **options) as engine:
        engine.push("S", numbers(5, 6))
        with pytest.raises(ps.QueryFailed) as error:
            finish(engine)
        assert str(error.value) == message
        assert engine.queries["all"].rows().num_rows == 0
        assert engine.queries["other"].rows().to_pylist() == [{"x": 5}]
        engine.drop("all")
        finish(engine)


def test_a_change_that_comes_after_the_failure_of_a_core_has_its_position_there_too(
    second_core_fails: None,
) -> None:
    """Else the core is behind the log for ever, and a wait for it never ends."""
    with connected(Cluster(), cores=2, compile_predicates=False) as engine:
        engine.sql(STREAMS)
        engine.install(ALL, name="all")
        other = engine.install("SELECT x FROM S WHERE x > 2", name="other")
        engine.push("S", numbers(0, 5))
        engine.change("all", ALL.replace("TRUE", "r.x < s.x"))
        engine._resident.run()  # type: ignore[attr-defined]
        assert engine.progress == engine.position
        with pytest.raises(ps.QueryFailed):
            finish(engine)
        engine.push("S", numbers(5, 6))
        with pytest.raises(ps.QueryFailed):
            finish(engine)
        assert other.rows()["x"].to_pylist() == [3, 4, 5]


def test_a_log_that_is_too_far_ahead_makes_push_wait() -> None:
    with connected(Cluster(), backlog_rows=4, batch_rows=2, rows_per_trigger=2,
                   push_timeout=0.0) as engine:  # fmt: skip
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT x FROM R")
        finish(engine)
        with pytest.raises(ps.BufferFull) as error:
            engine.push("R", numbers(0, 9))
        assert str(error.value) == (
            "the cores are at position 2 and the log at 8, after 0 seconds; "
            "6 tuples of this push were taken\n"
            "Push the rest more slowly, or connect with more cores, a larger backlog_rows or a "
            "larger push_timeout."
        )
        assert error.value.taken == 6
        finish(engine)
        engine.push("R", numbers(6, 9))
        finish(engine)
        assert query.rows()["x"].to_pylist() == list(range(9))


def test_an_undrained_query_makes_push_wait() -> None:
    with connected(Cluster(), buffer_rows=3, push_timeout=0.0) as engine:
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT x FROM R", name="q")
        engine.push("R", numbers(0, 4))
        finish(engine)
        with pytest.raises(ps.BufferFull) as error:
            engine.push("R", numbers(4, 5))
        assert str(error.value) == (
            "query 'q' holds 4 rows and 0 letters that nobody has drained in 0 seconds; "
            "0 tuples of this push were taken\n"
            "Call rows(), late() and dead_letters() of 'q', then push the rest; or connect with a "
            "larger buffer_rows or push_timeout."
        )
        assert query.rows().num_rows == 4
        engine.push("R", numbers(4, 5))


def test_the_default_engine_is_on_spark() -> None:
    with standing_in(Cluster()), ps.connect() as engine:
        assert type(engine) is Engine


def test_an_engine_is_saved_by_its_checkpoint() -> None:
    with connected(Cluster()) as engine, pytest.raises(ps.InputError) as error:
        engine.save("state.penstock")
    assert str(error.value) == (
        "an engine on Spark is not saved to a file such as state.penstock\n"
        "Connect with checkpoint=FOLDER; another engine with that folder goes on."
    )


def test_a_checkpoint_has_one_engine_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with connected(Cluster(), checkpoint=folder):
        with pytest.raises(ps.StateError) as error, connected(Cluster(), checkpoint=folder):
            pass
        assert str(error.value) == (
            f"the checkpoint {folder} is in use by another engine\n"
            "Close that one, or wait until it ends; or start in another folder."
        )


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(ps.StateError) as error, connected(Cluster(), checkpoint=tmp_path):
        pass
    assert str(error.value) == (
        f"{tmp_path} is not empty and has no checkpoint of Penstock\n"
        "Pass an empty folder, or one that an engine of Penstock has used."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_checkpoint_that_was_killed_while_it_was_made_is_begun_again(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with connected(Cluster(), checkpoint=made):
        names = sorted(path.name for path in made.iterdir())
    assert names == ["lock", "log", "penstock.json", "results", "spark.json"]
    for count in range(len(names)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "begun.tmp").write_text("{")
        for name in [name for name in names if name != "penstock.json"][:count]:
            if (made / name).is_dir():
                shutil.copytree(made / name, folder / name)
            else:
                shutil.copy(made / name, folder / name)
        with connected(Cluster(), checkpoint=folder) as engine:
            assert engine.position == 0
        assert sorted(path.name for path in folder.iterdir()) == names
