"""Checkpoints that are damaged: the right rows, or an error that names the file."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.campaigns import damage
from tests.campaigns.damage import Standing, call
from tests.engines.spark.in_process import Cluster, connected, finish

import penstock as ps
from penstock.cli.checkpoint_match import CommandRecord
from penstock.engines.shared.checksums import write_sealed
from penstock.engines.spark.resident.checkpoint import HEADER, Checkpoint, verify
from penstock.engines.spark.resident.spark_files import RETAINED, SparkFiles
from penstock.engines.spark.resident.streaming_query import failure_of
from penstock.engines.spark.state.chunks import FORMAT
from penstock.errors import StateError

MEND = "Put it back from a copy of the checkpoint, or start anew in an empty folder.\n"


@pytest.mark.long
def test_a_few_damages_of_the_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert damage.run(seed=15, count=160) == 0, capsys.readouterr().out


@pytest.fixture
def standing(tmp_path: Path) -> Standing:
    return Standing(tmp_path, 3, 4)


def test_a_lost_result_is_named(standing: Standing) -> None:
    lost = standing.checkpoint / "results" / "1.arrow"
    lost.unlink()
    said = standing.again()
    assert (said.code, said.error) == (2, f"penstock: {lost} is missing\n{MEND}")
    said = call("checkpoint", "verify", standing.checkpoint)
    assert (said.code, said.error) == (1, f"penstock: {lost} is missing\n{MEND}")


def test_the_last_result_is_named_too(standing: Standing) -> None:
    """No other file has a higher number, but the note of the batch says that it has come."""
    *_, lost = sorted((standing.checkpoint / "results").glob("*.arrow"))
    lost.unlink()
    said = standing.again()
    assert (said.code, said.error) == (2, f"penstock: {lost} is missing\n{MEND}")


def test_a_lost_segment_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    log = folder / "log"
    with connected(Cluster(), checkpoint=folder) as engine:
        engine.sql("CREATE STREAM R (x BIGINT)")
        for n in range(3):
            engine.push("R", [{"x": n}, {"x": n + 1}])
    for path in sorted(log.glob("*-*")):
        content = path.read_bytes()
        path.unlink()
        start, stop, _ = path.name.split("-")
        with pytest.raises(ps.StateError) as caught:
            Checkpoint(folder, 1)
        assert str(caught.value) == (
            f"a file of the log is missing: {log}/...-{stop}-..., the last one\n{MEND[:-1]}"
            if int(stop) == 7
            else f"a file of the log is missing: {log}/{start}-..., with the positions "
            f"{int(start)} to {int(stop) - 1}\n{MEND[:-1]}"
        )
        path.write_bytes(content)
    Checkpoint(folder, 1).close()


def test_a_strange_file_in_the_log_is_named(standing: Standing) -> None:
    strange = standing.checkpoint / "log" / "copy-of.data"
    strange.write_text("")
    assert standing.again().error == (
        f"penstock: {strange} is no file of a log\n"
        "Give it the name again that it had, or remove it if it is not of Penstock.\n"
    )


def test_all_damages_are_reported_at_once(standing: Standing) -> None:
    folder = standing.checkpoint
    (folder / "results" / "0.arrow").write_text("junk")
    (folder / "log" / "registry.json").write_text("{}")
    (folder / "results" / "2.arrow").unlink()
    cut = "it does not end with its checksum, so it was cut, or its last bytes have changed"
    assert call("checkpoint", "verify", folder).error == (
        f"penstock: {folder}/log/registry.json is damaged: {cut}\n{MEND}"
        f"penstock: {folder}/results/2.arrow is missing\n{MEND}"
        f"penstock: {folder}/results/0.arrow is damaged: {cut}\n{MEND}"
    )


@pytest.mark.parametrize("junk", [5, "run", [], True])
def test_a_header_whose_command_is_junk_is_named(tmp_path: Path, junk: object) -> None:
    """Though its checksum fits."""
    saved = {"format": FORMAT, "id": "x", "cores": 1, "topology": None, "command": junk}
    write_sealed(tmp_path / HEADER, json.dumps(saved).encode(), HEADER)
    with pytest.raises(StateError) as error:
        CommandRecord(tmp_path, 1, {"query": "SELECT x FROM R"})
    assert str(error.value) + "\n" == (
        f"{tmp_path / HEADER} is no header of a checkpoint (its command is {junk!r})\n{MEND}"
    )


def test_a_checkpoint_without_its_header_is_no_stranger(standing: Standing) -> None:
    header = standing.checkpoint / "penstock.json"
    header.unlink()
    for said in (standing.again(), call("checkpoint", "verify", standing.checkpoint)):
        assert (said.code, said.error) == (2, f"penstock: {header} is missing\n{MEND}")


def test_a_checkpoint_of_the_version_before_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "penstock.json").write_text(json.dumps({"format": 2, "cores": 1, "id": "x"}))
    expected = (
        f"the checkpoint {tmp_path} was written by Penstock 0.1 in the format 2; this is Penstock "
        f"{ps.__version__}, which reads the format 6\n"
        "Continue it with the version that wrote it, or start in an empty folder."
    )
    with pytest.raises(ps.StateError) as caught:
        Checkpoint(tmp_path, 1)
    assert str(caught.value) == expected
    assert call("checkpoint", "verify", tmp_path).error == f"penstock: {expected}\n"


def test_verify_says_what_is_no_checkpoint(tmp_path: Path) -> None:
    said = call("checkpoint", "verify", tmp_path / "none")
    assert (said.code, said.error) == (
        2,
        f"penstock: there is no {tmp_path / 'none'}\nCheck the path.\n",
    )
    for folder in (tmp_path, tmp_path / "offsets"):
        folder.mkdir(exist_ok=True)
        said = call("checkpoint", "verify", tmp_path)
        assert (said.code, said.error) == (
            2,
            f"penstock: {tmp_path} has no checkpoint of Penstock\n"
            "Name the folder of --checkpoint or checkpoint=; the checkpointLocation of a query "
            "over DataFrames is Spark's, which checks it when it reads it.\n",
        )


def test_verify_counts_what_it_has_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "c"
    with connected(Cluster(), checkpoint=folder):
        said = call("checkpoint", "verify", folder)
        assert said.error == (
            f"penstock: the checkpoint {folder} is in use by another engine\n"
            "Close that one, or wait until it ends; or start in another folder.\n"
        )
    found = verify(folder)
    assert (found.files, found.damages) == (7, [])
    ps.connect("local").save(tmp_path / "engine.penstock")
    from penstock.cli.commands import main

    for path in (folder, tmp_path / "engine.penstock"):
        with pytest.raises(SystemExit):
            main(["checkpoint", "verify", str(path)])
    size = (tmp_path / "engine.penstock").stat().st_size
    assert capsys.readouterr().out == (
        f"{folder}: 7 files, {found.size:,} bytes, all as they were written\n"
        f"{tmp_path / 'engine.penstock'}: 1 file, {size:,} bytes, all as they were written\n"
    )


# -- what Spark writes ----------------------------------------------------------------------


class Spark:
    """Writes the files that Spark writes, with Hadoop's checksums beside them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder / "spark"
        self.files = SparkFiles(folder, "id")
        self.files.create()
        self.write("metadata", b"{}")

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_name(f".{path.name}.crc").write_bytes(
            b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big")
        )

    def batch(self, number: int) -> None:
        """Everything of a batch, which is committed."""
        self.write(f"offsets/{number}", f"offset {number}".encode())
        self.write(f"state/0/0/{number + 1}.changelog", f"state {number}".encode())
        self.files.note(number)
        self.write(f"commits/{number}", f"commit {number}".encode())

    def snapshot(self, version: int) -> None:
        self.write(f"state/0/0/SSTs/{version}-x.sst", f"sorted {version}".encode())
        path = self.folder / f"state/0/0/{version}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            parts = [{"dfsSstFileName": f"{version}-x.sst"}]
            file.writestr("metadata", "v1\n" + json.dumps({"sstFiles": parts}))

    def damages(self, everything: bool = True) -> list[str]:
        found = []
        for check in self.files.checks(everything):
            try:
                check()
            except ps.StateError as error:
                found.append(error.what.replace(f"{self.folder}/", ""))
        return found


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    made = Spark(tmp_path / "c")
    for number in range(4):
        made.batch(number)
    return made


@pytest.mark.long
def test_every_byte_of_a_snapshot_may_be_damaged(spark: Spark) -> None:
    """Whatever its reader makes of it, the file is named."""
    spark.snapshot(4)
    spark.batch(4)
    snapshot = spark.folder / "state/0/0/4.zip"
    content = snapshot.read_bytes()
    for place, byte in enumerate(content):
        for bit in range(8):
            snapshot.write_bytes(
                content[:place] + bytes([byte ^ (1 << bit)]) + content[place + 1 :]
            )
            (damage,) = spark.damages()
            assert damage.startswith("state/0/0/4.zip is damaged: its content has the checksum ")


def test_what_spark_has_written_is_noted(spark: Spark) -> None:
    assert spark.damages() == []
    (spark.folder / "offsets" / "3").unlink()
    assert spark.damages() == ["offsets/3 is missing"]
    (spark.folder / "offsets" / "3").write_bytes(b"offset 2")
    checksums = [f"{zlib.crc32(text):08x}" for text in (b"offset 2", b"offset 3")]
    assert spark.damages() == [
        f"offsets/3 is damaged: its content has the checksum {checksums[0]}, and {checksums[1]} "
        "was written"
    ]
    (spark.folder / "offsets" / "3").write_bytes(b"offset")
    assert spark.damages() == ["offsets/3 is damaged: it has 6 bytes, and 8 were written"]


def test_what_is_newer_than_the_note_has_hadoops_checksums(spark: Spark) -> None:
    newest = spark.folder / "commits" / "3"
    newest.write_bytes(b"commit 4")
    assert spark.damages() == [
        "commits/3 or commits/.3.crc is damaged: the one does not have the checksums in the other"
    ]
    newest.unlink()
    assert spark.damages() == [], "Spark does the batch again, and it is known"


def test_a_plan_that_was_made_must_be_there(spark: Spark) -> None:
    spark.files.check_planned(3)
    with pytest.raises(ps.StateError) as caught:
        spark.files.check_planned(4)
    assert str(caught.value) == f"{spark.folder}/offsets/4 is missing\n{MEND[:-1]}"


def test_what_is_old_spark_may_delete(spark: Spark) -> None:
    for number in range(4, RETAINED + 6):
        spark.batch(number)
    for number in range(4):
        for name in (f"offsets/{number}", f"commits/{number}", f"state/0/0/{number + 1}.changelog"):
            (spark.folder / name).unlink()
            (spark.folder / name).with_name(f".{name.rpartition('/')[2]}.crc").unlink()
    assert spark.damages() == []
    (spark.folder / "commits" / "50").unlink()
    assert spark.damages() == ["commits/50 is missing"]


def test_the_parts_of_a_snapshot_are_noted_with_it(spark: Spark) -> None:
    spark.write("state/0/0/SSTs/9-y.sst", b"half")
    spark.snapshot(2)
    spark.batch(4)
    assert spark.damages() == []
    spark.write("state/0/0/SSTs/9-y.sst", b"whole")
    assert spark.damages() == [], "no snapshot names it yet"
    (spark.folder / "state/0/0/SSTs/2-x.sst").unlink()
    assert spark.damages() == ["state/0/0/SSTs/2-x.sst is missing"] * 2
    assert spark.damages(everything=False) == ["state/0/0/SSTs/2-x.sst is missing"] * 2


def test_state_before_the_last_snapshot_is_not_read_when_spark_goes_on(spark: Spark) -> None:
    spark.snapshot(3)
    spark.batch(4)
    (spark.folder / "state/0/0/2.changelog").write_bytes(b"state!1")
    assert spark.damages(everything=False) == []
    assert len(spark.damages()) == 1
    (spark.folder / "state/0/0/4.changelog").write_bytes(b"state!3")
    assert len(spark.damages(everything=False)) == 1


def test_state_that_spark_may_write_anew_is_forgotten_when_it_starts(spark: Spark) -> None:
    spark.write("state/0/0/6.changelog", b"an attempt")
    spark.files.note(3)
    spark.files.begin()
    spark.write("state/0/0/6.changelog", b"another attempt")
    assert spark.damages() == []


# -- errors of Spark ------------------------------------------------------------------------

PYTHON = """[STREAM_FAILED] Query terminated with exception: An exception was thrown
Traceback (most recent call last):
  File "/worker.py", line 1, in main
penstock.errors.StateError: {what}
{remedy}

\tat org.apache.spark.api.python.BasePythonRunner
"""
JAVA = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent):
  File "/resident.py", line 66, in hand_over
py4j.protocol.Py4JJavaError: An error occurred while calling o176.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/3.changelog at 0 exp: 1
\tat org.apache.hadoop.fs.FSInputChecker.verifySums(FSInputChecker.java:347)
"""


def test_an_error_of_a_worker_comes_back_as_it_was_raised() -> None:
    error = failure_of(PYTHON.format(what="/c/log/0 is missing", remedy="Put it back."))
    assert (type(error), str(error)) == (ps.StateError, "/c/log/0 is missing\nPut it back.")


def test_an_error_of_java_names_its_file() -> None:
    error = failure_of(JAVA)
    assert (type(error), error.what) == (
        ps.EngineFailure,
        "the Spark query of the engine has stopped (ChecksumException: Checksum error: "
        "file:/c/3.changelog at 0 exp: 1)",
    )


# -- draining after the end -----------------------------------------------------------------


def engine_with_rows(**options: Any) -> tuple[Any, Any]:
    with connected(Cluster(), **options) as engine:
        engine.sql("CREATE STREAM R (x BIGINT, t BIGINT)")
        query = engine.install("SELECT x FROM R WHERE x < 3", name="q")
        engine.push("R", [{"x": n, "t": n} for n in range(5)])
        finish(engine)
        path = engine._checkpoint.path
    return query, path


def test_what_was_made_can_be_drained_after_close() -> None:
    query, path = engine_with_rows()
    assert not path.exists()
    assert query.rows().to_pydict() == {"x": [0, 1, 2]}
    assert query.late().num_rows == query.dead_letters().num_rows == 0
    assert query.rows().num_rows == 0
    assert not path.exists()


def test_what_is_drained_after_close_is_handed_out_once(tmp_path: Path) -> None:
    query, path = engine_with_rows(checkpoint=tmp_path / "c")
    assert query.rows().num_rows == 3
    with connected(Cluster(), checkpoint=path) as engine:
        assert engine.queries["q"].rows().num_rows == 0


def test_what_another_engine_hands_out_is_not_drained_after_close(tmp_path: Path) -> None:
    query, path = engine_with_rows(checkpoint=tmp_path / "c")
    with connected(Cluster(), checkpoint=path) as engine:
        with pytest.raises(ps.StateError) as caught:
            query.rows()
        assert str(caught.value) == (
            f"the checkpoint {path} is in use by another engine\n"
            "Close that one, or wait until it ends; or start in another folder."
        )
        assert engine.queries["q"].rows().num_rows == 3
    query, path = engine_with_rows(checkpoint=tmp_path / "d")
    with connected(Cluster(), checkpoint=path) as engine:
        assert engine.queries["q"].rows().num_rows == 3
    with pytest.raises(ps.StateError) as caught:
        query.rows()
    assert str(caught.value) == (
        f"another engine has gone on with {path} since this one was closed\n"
        "Drain the queries of that one: it has the rows that were not drained here."
    )


# -- a log that cannot be written -----------------------------------------------------------


def test_a_push_that_cannot_be_written_stops_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with connected(cluster, checkpoint=tmp_path / "c") as engine:
        engine.sql("CREATE STREAM R (x BIGINT)")
        query = engine.install("SELECT x FROM R", name="q")
        engine.push("R", [{"x": 1}])
        with monkeypatch.context() as patch, pytest.raises(ps.StateError) as caught:
            patch.setattr(os, "replace", full)
            engine.push("R", [{"x": 2}])
        assert caught.value.what.endswith("-1.data cannot be written: No space left on device")
        with pytest.raises(ps.EngineFailure) as failed:
            engine.push("R", [{"x": 3}])
        assert str(failed.value) == (
            "the engine has come to position 4, and its log ends at 3: a push was interrupted, or "
            "could not be written\n"
            "Connect again with the same checkpoint, and push again from the position on that the "
            "engine then has."
        )
        del query
    with connected(cluster, checkpoint=tmp_path / "c") as engine:
        assert engine.position == 3
        engine.push("R", [{"x": 2}, {"x": 3}])
        finish(engine)
        assert engine.queries["q"].rows().to_pydict() == {"x": [1, 2, 3]}
