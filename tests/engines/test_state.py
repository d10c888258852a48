"""Saving an engine and restoring it: it goes on as if nothing had happened."""

from __future__ import annotations

import datetime as dt
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import as_events, plain

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.engines.shared.checksums import SEAL_SIZE, add_seal, seal
from penstock.errors import StateError
from penstock.streams.literals import physical_list

Outputs = dict[str, tuple[list[Any], list[Any]]]


def drained(engine: Engine) -> Outputs:
    """Rows with positions, and letters, of every query there is or was."""
    found: Outputs = {}
    for query in (*engine.dropped, *engine.queries.values()):
        rows, letters = found.setdefault(query.name, ([], []))
        for result in query.drain():
            columns = [physical_list(column) for column in result.batch.columns]
            for position, *row in zip(result.positions.tolist(), *columns, strict=True):
                rows.append((position, *map(plain, row)))
        letters += query.drain_letters()
    return found


def feed(engine: Engine, events: list[Any]) -> None:
    for event in events:
        if event is None:
            engine.end()
        else:
            engine.feed([event])


def saved_and_restored(engine: Engine, **options: Any) -> Engine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.state"
        engine.save(path)
        return ps.restore(path, **options)


@examples(100)
@given(st.booleans().flatmap(lambda derived: scripts(derived=derived)), st.data())
def test_a_restored_engine_goes_on_as_if_nothing_had_happened(
    steps: list[Step], data: st.DataObject
) -> None:
    for step in steps:
        note(f"{step.verb} {step.subject} {step.value}")
    events = as_events(steps)
    at = data.draw(st.integers(0, len(events)), label="saved before event")
    whole = Engine(compile_predicates=False)
    feed(whole, events)
    expected = drained(whole)
    first = Engine(compile_predicates=False)
    feed(first, events[:at])
    dropped = {name: first_part for name, first_part in drained_of_dropped(first).items()}
    restored = saved_and_restored(first)
    assert restored.position == first.position
    assert list(restored.queries) == list(first.queries)
    # What was not drained is in both; draining the saved engine takes nothing from the restored.
    drained(first)
    feed(restored, events[at:])
    found = drained(restored)
    for name, (rows, letters) in expected.items():
        before, now = dropped.get(name, ([], [])), found.get(name, ([], []))
        assert before[0] + now[0] == rows, f"rows of {name}"
        assert before[1] + now[1] == letters, f"letters of {name}"
    for name, query in whole.queries.items():
        expected_metrics, metrics = query.metrics(), restored.queries[name].metrics()
        for unimportant in ("window_bytes", "expression_failures"):
            del expected_metrics[unimportant], metrics[unimportant]
        assert untimed(metrics) == untimed(expected_metrics)


def untimed(metrics: dict[str, Any]) -> dict[str, Any]:
    """Without how long tuples took: that begins anew."""
    return {name: value for name, value in metrics.items() if name != "latency"}


def drained_of_dropped(engine: Engine) -> Outputs:
    """A dropped query is not saved: its rows must be drained before."""
    running = engine.queries
    engine_outputs: Outputs = {}
    for query in engine.dropped:
        if query.name not in running:
            rows, letters = engine_outputs.setdefault(query.name, ([], []))
            for result in query.drain():
                columns = [physical_list(column) for column in result.batch.columns]
                for position, *row in zip(result.positions.tolist(), *columns, strict=True):
                    rows.append((position, *map(plain, row)))
            letters += query.drain_letters()
    return engine_outputs


def example() -> Engine:
    engine = ps.connect("local", compile_predicates=False, batch_rows=7, buffer_rows=99)
    engine.sql("CREATE STREAM R (x BIGINT); CREATE STREAM S (x BIGINT) TIMESTAMP BY x")
    engine.sql("CREATE STREAM both AS SELECT x FROM R UNION ALL SELECT x FROM S")
    engine.install("SELECT b.x FROM both [ROWS 2] AS b JOIN S [ROWS 2] AS s ON TRUE", name="pairs")
    engine.sql("SELECT x FROM R")
    engine.push("R", [{"x": 1}, {"x": "?"}])
    engine.push("S", [{"x": 2}])
    return engine


def test_a_restored_engine_shows_the_same(tmp_path: Path) -> None:
    engine = example()
    engine.end("S")
    engine.save(str(tmp_path / "state"))
    restored = ps.restore(str(tmp_path / "state"))
    assert restored.sql("SHOW STREAMS") == engine.sql("SHOW STREAMS")
    assert restored.sql("SHOW QUERIES") == engine.sql("SHOW QUERIES")
    assert (restored.batch_rows, restored.buffer_rows) == (7, 99)
    for name, query in engine.queries.items():
        again = restored.queries[name]
        assert untimed(again.metrics()) == untimed(query.metrics())
        assert again.rows() == query.rows()
        assert again.dead_letters() == query.dead_letters()
    with pytest.raises(ps.InputError):
        restored.push("S", [{"x": 1}])
    assert restored.install("SELECT x + 1 AS y FROM R").name == "q2"


def test_options_may_be_others_than_those_saved() -> None:
    restored = saved_and_restored(example(), batch_rows=3, window_memory=5000)
    assert (restored.batch_rows, restored.buffer_rows, restored.window_memory) == (3, 99, 5000)


def test_a_saved_engine_can_be_restored_twice_and_saved_again(tmp_path: Path) -> None:
    engine = example()
    engine.save(tmp_path / "state")
    for _ in range(2):
        engine = ps.restore(tmp_path / "state")
        engine.save(tmp_path / "state")
    assert engine.queries["pairs"].rows().to_pydict() == {"x": [1, 2]}


TYPES = {
    "boolean": ("i", [True, None]),
    "uint64": ("i", [2**64 - 1, None]),
    "float": ("i", [float("nan"), -0.0]),
    "decimal(20, 3)": ("i", [None, 1]),
    "date": ("i", [None, None]),
    "timestamp(9)": ("i", [None, None]),
    "string": ("i", ["", None]),
    "binary": ("i", [b"\x00", None]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_every_type_are_restored_in_windows(kind: str) -> None:
    engine = ps.connect("local", compile_predicates=False)
    engine.sql(f"CREATE STREAM R (v {kind}); CREATE STREAM S (i INT)")
    q = engine.install("SELECT r.v FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON TRUE", name="q")
    engine.push("R", [{"v": v} for v in TYPES[kind][1]])
    restored = saved_and_restored(engine)
    for one in (engine, restored):
        one.push("S", [{"i": 1}])
    assert str(restored.queries["q"].rows()) == str(q.rows())


@pytest.mark.parametrize("value", ["1.50", "2.5"])
def test_punctuations_of_decimals_are_restored(value: str) -> None:
    engine = ps.connect("local", compile_predicates=False)
    engine.sql("CREATE STREAM R (t DECIMAL(6, 2)); CREATE STREAM S (t DECIMAL(6, 2))")
    engine.punctuate("R", value, attribute="t")
    restored = saved_and_restored(engine)
    q = restored.install("SELECT r.t FROM R [RANGE 1 WATTR t] AS r JOIN S [RANGE 1 WATTR t] AS s "
                         "ON TRUE")  # fmt: skip
    restored.push("R", pa.table({"t": pa.array([1, 3]).cast(pa.decimal128(21, 2))}))
    assert q.metrics()["late"] == 1


# -- files that are none --------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(StateError) as caught:
        ps.restore(path)
    return str(caught.value)


AS_WRITTEN = "Pass a file that engine.save wrote, as it was written."
CUT = "it does not end with its checksum, so it was cut, or its last bytes have changed"


def rewritten(path: Path, edit: Callable[[dict[str, Any]], None], sealed: bool = True) -> None:
    """The saved engine with its ``state.json`` edited, and with a seal that fits, or without."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    state = json.loads(members["state.json"])
    edit(state)
    members["state.json"] = json.dumps(state).encode()
    with path.open("w+b") as opened:
        with zipfile.ZipFile(opened, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
            file.comment = bytes(SEAL_SIZE) if sealed else b""
        if sealed:
            add_seal(opened, "saved engine")


def test_there_must_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert refusal(path) == f"there is no file {path}\nPass a file that engine.save wrote."


def test_other_files_are_no_engines(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"")
    assert refusal(path) == f"{path} is damaged: {CUT}\n{AS_WRITTEN}"
    for content in (b"hello", b"hello" * 100, b"id,x\n1,1.5\n"):
        path.write_bytes(content)
        assert refusal(path) == (f"{path} is no saved engine\nPass a file that engine.save wrote.")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("hello.txt", "hello")
    assert refusal(path) == f"{path} is damaged: {CUT}\n{AS_WRITTEN}"
    path.write_bytes(b"hello" + seal(5, zlib.crc32(b"hello"), "saved engine"))
    assert refusal(path) == (
        f"{path} holds no engine that can be restored (BadZipFile: File is not a zip file)\n"
        f"{AS_WRITTEN}"
    )
    path.write_bytes(b"hello" + seal(5, zlib.crc32(b"hello"), "something else"))
    assert refusal(path) == (
        f"{path} is another file: what it holds was written elsewhere, or under another name\n"
        f"{AS_WRITTEN}"
    )


def test_a_directory_is_no_engine(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"{tmp_path} cannot be read: Is a directory\nCheck the path and its rights."
    )


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)
    rewritten(path, lambda state: state.update(format=99, version="3.4"))
    assert refusal(path) == (
        f"{path} was saved by Penstock 3.4 in the format 99; this is Penstock {ps.__version__}, "
        "which reads the format 4\n"
        "Restore it with the version that saved it, or build the engine anew."
    )


def test_a_file_of_the_version_before_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)

    def older(state: dict[str, Any]) -> None:
        state.update(format=1)
        del state["version"]

    rewritten(path, older, sealed=False)
    assert refusal(path) == (
        f"{path} was saved by Penstock 0.1 in the format 1; this is Penstock {ps.__version__}, "
        "which reads the format 4\n"
        "Restore it with the version that saved it, or build the engine anew."
    )


def test_a_file_without_some_part_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)
    rewritten(path, lambda state: state.pop("queries"))
    assert refusal(path) == (
        f"{path} holds no engine that can be restored (KeyError: 'queries')\n{AS_WRITTEN}"
    )


def test_any_edited_file_is_refused(tmp_path: Path) -> None:
    """A tool that writes the archive anew writes no seal, or keeps one that does not fit."""
    path = tmp_path / "state"
    example().save(path)
    kept = path.read_bytes()[-SEAL_SIZE:]
    rewritten(path, lambda state: state.update(position=state["position"] + 1), sealed=False)
    assert refusal(path) == f"{path} is damaged: {CUT}\n{AS_WRITTEN}"
    content = path.read_bytes() + kept
    path.write_bytes(content)
    length, written = len(content) - SEAL_SIZE, int(kept.split()[1])
    if length == written:
        assert refusal(path).startswith(f"{path} is damaged: its content has the checksum ")
    else:
        assert refusal(path) == (
            f"{path} is damaged: it has {length} bytes, and {written} were written\n{AS_WRITTEN}"
        )


def test_options_of_the_caller_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)
    with pytest.raises(ps.InputError, match="batch_rows is 0"):
        ps.restore(path, batch_rows=0)
    with pytest.raises(ps.InputError, match="no option 'colour'"):
        ps.restore(path, colour="red")


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)
    content = path.read_bytes()
    for length in (*range(0, len(content), max(1, len(content) // 50)), len(content) - 1):
        path.write_bytes(content[:length])
        assert refusal(path) == f"{path} is damaged: {CUT}\n{AS_WRITTEN}"


def test_a_flipped_byte_is_refused_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example().save(path)
    content = path.read_bytes()
    seal_bytes = range(len(content) - SEAL_SIZE, len(content))
    for place in (*range(0, len(content), max(1, len(content) // 50)), *seal_bytes):
        for mask in (0x01, 0x20, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= mask
            path.write_bytes(damaged)
            told = refusal(path).splitlines()
            assert told[0].startswith(f"{path} is ") and told[-1] == AS_WRITTEN, place


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    engine = example()
    engine.save(path)
    before = path.read_bytes()
    engine.push("R", [{"x": 3}])

    def fails(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for target, name in ((zipfile.ZipFile, "writestr"), (os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fails)
            with pytest.raises(StateError) as caught:
                engine.save(path)
        assert str(caught.value) == (
            f"the engine cannot be saved to {path}: No space left on device; the file that was "
            "there stays\nMake room on the disk, or save where there is room and you may write."
        )
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["state"]
    engine.save(path)
    assert ps.restore(path).position == engine.position


def test_an_engine_that_is_interrupted_while_it_is_saved_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    engine = example()
    engine.save(path)
    before = path.read_bytes()

    def interrupts(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupts)
    with pytest.raises(KeyboardInterrupt):
        engine.save(path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["state"])


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError) as caught:
        example().save(tmp_path / "no" / "state")
    assert str(caught.value) == (
        f"the engine cannot be saved to {tmp_path / 'no' / 'state'}: there is no folder "
        f"{tmp_path / 'no'}\nCreate the folder first, or save elsewhere."
    )


def test_a_clock_made_finer_by_a_change_is_restored(tmp_path: Path) -> None:
    """After a coarser window again, times stay in the finer ticks that they were stored in."""
    text = (
        "SELECT r.x AS r, s.x AS s FROM R [RANGE {0} WATTR t] AS r "
        "JOIN S [RANGE {0} WATTR t] AS s ON TRUE"
    )
    rows = []
    for saved in (False, True):
        engine = ps.connect("local", compile_predicates=False)
        for name in ("R", "S"):
            engine.sql(f"CREATE STREAM {name} (x INT, t TIMESTAMP(0))")
        query = engine.install(text.format("1500 MILLISECONDS"), name="q")
        engine.push("R", [{"x": 1, "t": dt.datetime(2024, 1, 1, 0, 0, 5)}])
        query.change(text.format("3 SECONDS"))
        if saved:
            engine.save(tmp_path / "state")
            engine = ps.restore(tmp_path / "state")
        for second in (6, 7, 8):
            engine.push("S", [{"x": second, "t": dt.datetime(2024, 1, 1, 0, 0, second)}])
        rows.append(engine.queries["q"].rows().to_pylist())
    assert rows[0] == rows[1] == [{"r": 1, "s": 6}, {"r": 1, "s": 7}]
