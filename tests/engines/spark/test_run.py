"""penstock run and replay on Spark, without a JVM: killed anywhere, run again, each row once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.spark.in_process import Cluster, InProcess, standing_in

from penstock import tuning
from penstock.cli.commands import main
from penstock.cli.run import bounded
from penstock.cli.run.summary import Sinks
from penstock.connectors.sinks import FileSink
from penstock.engines.shared import checksums
from penstock.engines.spark.engine import Engine
from penstock.engines.spark.resident import checkpoint, log, result_files, spark_files

FOLDER = Path(__file__).parents[2] / "conformance"
QUERY = (
    "CREATE STREAM big AS SELECT ts, id, x FROM R WHERE x > 2;\n"
    "SELECT b.id AS r, s.id AS s, b.x FROM big [RANGE 9 WATTR ts SLACK 2] AS b "
    "{kind} S [RANGE 6 WATTR ts] AS s ON b.x <= s.x"
)
QUERIES = {
    "JOIN": QUERY.format(kind="JOIN"),
    "FULL JOIN": QUERY.format(kind="FULL JOIN"),
    "three files": (
        "SELECT r.id AS r, s.id AS s, t.id AS t FROM R [RANGE 9 WATTR ts SLACK 2] AS r "
        "JOIN S [RANGE 6 WATTR ts] AS s ON r.x = s.x JOIN T [ROWS 5] AS t ON t.x <= s.x"
    ),
    "five files": (
        "CREATE STREAM big AS SELECT ts, id, x FROM R WHERE x > 2;\n"
        "SELECT b.id AS b, s.id AS s, t.id AS t, u.id AS u, v.id AS v "
        "FROM big [RANGE 9 WATTR ts SLACK 2] AS b, S [ROWS 5] AS s, T [ROWS 4] AS t, "
        "U [RANGE 6 WATTR ts SLACK 1] AS u, V [ROWS 4] AS v "
        "WHERE b.x = s.x AND s.x = t.x AND t.x = u.x AND u.x = v.x"
    ),
}


class Killed(BaseException):
    """Nothing after this happens in the process."""


@contextmanager
def deadly(chance: random.Random, probability: float) -> Iterator[None]:
    """The process is killed before or after something reaches the disk, or between batches."""

    def risky(action: Callable[..., Any], probability: float) -> Callable[..., Any]:
        def done(*arguments: Any) -> Any:
            if chance.random() < probability:
                raise Killed
            value = action(*arguments)
            if chance.random() < probability:
                raise Killed
            return value

        return done

    with ExitStack() as patched:
        write, record = checksums.write_sealed, checksums.overwrite_sealed
        for module in (log, checkpoint, result_files, spark_files):
            patched.enter_context(patch.object(module, "write_sealed", risky(write, probability)))
        patched.enter_context(patch.object(log, "overwrite_sealed", risky(record, probability)))
        commit = risky(InProcess.before_commit, probability)
        patched.enter_context(patch.object(InProcess, "before_commit", commit))
        # Every run writes all rows again, and must get through now and then.
        rows = risky(FileSink.write, probability / 10)
        patched.enter_context(patch.object(FileSink, "write", rows))
        yield


def files(folder: Path, seed: int, count: int, names: str = "RS") -> list[str]:
    """Streams as files; some of their tuples are late and one has no time."""
    rng = np.random.default_rng(seed)
    arguments = ["--order-by", "at"]
    for name in names:
        ts = np.arange(count) - rng.choice([0, 0, 0, 1, 5], count)
        columns = {
            "at": pa.array(np.arange(count)),
            "ts": pa.array(ts, mask=np.arange(count) == 7),
            "id": pa.array(rng.integers(0, 1000, count)),
            "x": pa.array(rng.integers(0, 6, count)),
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=11)
        arguments += ["--stream", f"{name}={folder / name}.parquet"]
    return arguments


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(caught.value.code or 0)


@pytest.mark.long
@pytest.mark.product(1, by="kind")
@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("seed", range(4))
@tuning.given(run_batch_rows=13)  # punctuations come after each batch
def test_a_run_that_is_killed_goes_on_and_has_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kind: str
) -> None:
    monkeypatch.setattr("penstock.cli.run.bounded._warm_up", lambda *_: None)
    query = tmp_path / "q.sql"
    query.write_text(QUERIES[kind])
    names = {"three files": "RST", "five files": "RSTUV"}.get(kind, "RS")
    command = ["run", query, *files(tmp_path, seed, 150, names)]
    for name in ("local", "spark"):
        (tmp_path / name).mkdir()
    outputs = ["out.jsonl", "letters.jsonl"]
    local, spark = (
        [word for option, file in zip(("--out", "--letters"), outputs, strict=True)
         for word in (option, tmp_path / name / file)]
        for name in ("local", "spark")
    )  # fmt: skip
    assert call(*command, *local, "--engine", "local") == 0
    chance = random.Random(seed)
    cluster = Cluster(chance, eager=True)
    command += [*spark, "--checkpoint", tmp_path / "c", "--rows-per-trigger", 40]
    command += ["--cores", seed % 2 + 1]
    kills = 0
    with standing_in(cluster):
        while True:
            try:
                with deadly(chance, 0.05):
                    assert call(*command) == 0
                break
            except Killed:
                kills += 1
                assert not (tmp_path / "spark" / "out.jsonl").exists()
    assert kills > 2
    for file in outputs:
        found, expected = (
            (tmp_path / name / file).read_text().splitlines() for name in ("spark", "local")
        )
        assert len(expected) > 10
        # Rows have the same order; of letters, those of a derived stream stand where it is.
        assert found == expected if file == outputs[0] else sorted(found) == sorted(expected)
    with standing_in(cluster):  # a run that is complete, run again, gives the same file
        before = (tmp_path / "spark" / "out.jsonl").read_bytes()
        assert call(*command) == 0
    assert (tmp_path / "spark" / "out.jsonl").read_bytes() == before


SCRIPT = """\
stream R (x int32)
install q: SELECT x FROM R
R: 1
R: 2
drop q
install q: SELECT x + 1 AS y FROM R
R: 3
end
"""


JOIN_OF_THREE = FOLDER / "multiway-change-window.flow"
"""Its windows are changed while the streams flow."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (SCRIPT, "q: 1\nq: 2\nq: 4\n"),
        (
            JOIN_OF_THREE.read_text(),
            "found: 1, 11, 21\nfound: 2, 11, 21\nfound: 3, 11, 21\nfound: 3, 11, 22\n"
            "found: 3, 11, 23\nfound: 3, 11, 24\nfound: 4, 11, 24\n",
        ),
    ],
    ids=["one stream", "three"],
)
@pytest.mark.filterwarnings("ignore:query 'found'. no condition links")
def test_a_script_that_is_killed_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, lines: str
) -> None:
    script = tmp_path / "s.flow"
    script.write_text(text)
    assert call("replay", script, "--engine", "local") == 0
    expected = capsys.readouterr().out
    for seed in range(10):
        chance = random.Random(seed)
        kills = 0
        with standing_in(Cluster(chance, eager=True)):
            while True:
                try:
                    with deadly(chance, 0.05):
                        command = ["replay", script, "--checkpoint", tmp_path / f"c{seed}"]
                        assert call(*command, "--batch", 1 + seed % 3) == 0
                    break
                except Killed:
                    kills += 1
                    capsys.readouterr()
        assert capsys.readouterr().out == expected == lines


@pytest.mark.parametrize(
    ("cores", "query", "flow", "shared"),
    [
        (
            1,
            "SELECT r.x FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x = s.x",
            "splitjoin",
            [[0, [20, 20], [20, 20]]],
        ),
        (
            2,
            "SELECT r.x FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x = s.x",
            "splitjoin",
            [[0, [10, 10], [20, 20]], [1, [10, 10], [20, 20]]],
        ),
        (
            2,
            "SELECT r.x FROM R [ROWS 2] AS r LEFT JOIN S [ROWS 2] AS s ON r.x = s.x",
            "splitjoin",
            [[0, [10, 20], [10, 20]], [1, [10, 20], [10, 20]]],
        ),
        (
            2,
            "SELECT r.x FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x = s.x "
            "JOIN R [ROWS 2] AS t ON s.x = t.x",
            None,
            [[0, [10, 20, 20], [10, 20, 20]], [1, [10, 20, 20], [10, 20, 20]]],
        ),
        (2, "SELECT r.x FROM R AS r", None, []),
    ],
)
def test_the_summary_tells_what_spark_did(
    tmp_path: Path, cores: int, query: str, flow: str | None, shared: list[object]
) -> None:
    (tmp_path / "q.sql").write_text(query)
    command = ["run", tmp_path / "q.sql", *files(tmp_path, 1, 20), "--cores", cores]
    command += ["--rows-per-trigger", 10, "--summary", tmp_path / "s.json"]
    with standing_in(Cluster(eager=True)):
        assert call(*command) == 0
    told = json.loads((tmp_path / "s.json").read_text())
    assert list(told) == [
        "engine", "kernel", "flow", "design", "cores", "tuples_in", "rows_out", "late",
        "dead_letters", "shed", "expression_failures", "seconds", "tuples_per_second", "batches",
        "spark_version",
    ]  # fmt: skip
    assert (told["engine"], told["flow"], told["spark_version"]) == ("spark", flow, "in process")
    assert told["tuples_in"] == (40 if " S " in query else 20)
    assert [[core["core"], core["stored"], core["probed"]] for core in told["cores"]] == shared
    assert told["batches"] > 1
    assert told["tuples_per_second"] == pytest.approx(told["tuples_in"] / told["seconds"])


def test_a_join_of_three_files_has_no_flow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.sql").write_text(QUERIES["three files"])
    command = ["run", tmp_path / "q.sql", *files(tmp_path, 1, 20, "RST"), "--engine", "spark"]
    assert call(*command, "--flow", "splitjoin") == 2
    assert capsys.readouterr().err == (
        "penstock: the flow splitjoin shares joins of two streams, and the query joins 3\n"
        "Leave the flow out: on Spark, the design parallel shares a join of three and more "
        "streams.\n"
    )


def test_progress_counts_tuples_alone(tmp_path: Path) -> None:
    """The ends of the streams have positions too, and are no tuples."""
    (tmp_path / "q.sql").write_text(
        "SELECT r.x FROM R [ROWS 3] AS r JOIN S [ROWS 3] AS s ON r.x = s.x"
    )
    command = ["run", tmp_path / "q.sql", *files(tmp_path, 1, 20), "--rows-per-trigger", 10]
    counted: list[int] = []

    def sinks(summary: Any, write: Any, letters: Any, _: object) -> Sinks:
        return Sinks(summary, write, letters, counted.append)

    with standing_in(Cluster(eager=True)), patch.object(bounded, "Sinks", sinks):
        assert call(*command) == 0
    assert len(counted) > 1
    assert sum(counted) == 40


def test_only_the_same_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query, data, folder = tmp_path / "q.sql", tmp_path / "r.csv", tmp_path / "c"
    query.write_text("SELECT x FROM R")
    data.write_text("x\n1\n")
    command = ["run", query, "--stream", f"R={data}", "--checkpoint", folder]
    with standing_in(Cluster(eager=True)):
        assert call(*command) == 0
        assert capsys.readouterr().out == "x\n1\n"
        query.write_text("select  T.x\nfrom r as T  -- the same query")
        assert call(*command) == 0
        assert capsys.readouterr().out == "x\n1\n"
        query.write_text("SELECT x + 1 AS x FROM R")
        assert call(*command, "--order", "inner") == 2
        assert capsys.readouterr().err == (
            f"penstock: the checkpoint {folder} was begun with other query and order\n"
            "  then: SELECT x FROM R\n"
            "  now:  SELECT x + 1 AS x FROM R\n"
            "  differs: 'x + 1 AS' is new\n"
            "  order then: not given\n"
            "  order now:  inner\n"
            "Run the same command over the same files again, or name another folder.\n"
        )
        query.write_text("SELECT x FROM R")
        data.write_text("x\n1\n2\n")
        assert call(*command) == 2
        assert capsys.readouterr().err == (
            f"penstock: the checkpoint {folder} was begun with other files\n"
            f"  R then: {data} (4 bytes)\n"
            f"  R now:  {data} (6 bytes)\n"
            "Run the same command over the same files again, or name another folder.\n"
        )
        data.write_text("x\n1\n")
        assert call(*command) == 2
        assert capsys.readouterr().err == (
            f"penstock: the checkpoint {folder} was begun with other files\n"
            f"  R: {data} (4 bytes), written anew since\n"
            "Run the same command over the same files again, or name another folder.\n"
        )
        with Engine(checkpoint=tmp_path / "engine"):
            pass
        command[-1] = folder = tmp_path / "engine"
        assert call(*command) == 2
        assert capsys.readouterr().err == (
            f"penstock: the checkpoint {folder} is one of an engine, not of a run\n"
            "Name an empty folder, or one that the same command has used.\n"
        )
