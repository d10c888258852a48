"""Programs on engines: they are installed unchanged, and logs and states hold programs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from tests.engines.spark.in_process import Cluster, DictStore, InProcess, connected, finish
from tests.programs import SCRIPTS, conformance

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.engines.shared import sql_compiler
from penstock.engines.spark.core.frames import unpack
from penstock.engines.spark.resident.log_source import known_folds
from penstock.errors import ChangeRefused, InputError, StateError
from penstock.program.isa.block_instructions import Program
from penstock.sql.parse import parser

STREAMS = "CREATE STREAM R (id INT, x INT); CREATE STREAM S (id INT, a INT)"
JOIN = "SELECT r.id AS r, s.id AS s FROM R [ROWS {}] r JOIN S [ROWS {}] s ON r.x < s.a"
COUNT = "SELECT x, COUNT(*) AS n FROM R [RANGE 10 SLIDE 10 WATTR id] GROUP BY x"


def engine_with(text: str = STREAMS, **options: Any) -> Engine:
    engine = ps.connect("local", compile_predicates=False, **options)
    engine.sql(text)
    return engine


def compiled(text: str, streams: str = STREAMS) -> Program:
    """The program of a query, as another process would have written it."""
    with engine_with(streams) as engine:
        return Program.from_json(engine.install(text).program.to_json())


@contextmanager
def no_sql() -> Iterator[None]:
    """Fail if anything is parsed."""

    def refuse(*_: object) -> None:
        raise AssertionError("SQL is parsed")

    with patch.object(parser, "parse", refuse), patch.object(sql_compiler, "parse_query", refuse):
        yield


def rows(number: int) -> list[dict[str, int]]:
    return [{"id": i, "x": i % 3} for i in range(number)]


def others(number: int) -> list[dict[str, int]]:
    return [{"id": i, "a": i % 4} for i in range(number)]


# -- a program is installed -----------------------------------------------------------------


def test_a_program_makes_the_rows_of_its_sql() -> None:
    found = []
    for query in (JOIN.format(3, 3), compiled(JOIN.format(3, 3))):
        with engine_with() as engine:
            handle = engine.install(query, "q")
            engine.push("R", rows(5))
            engine.push("S", others(5))
            found.append(handle.rows().to_pylist())
    assert found[0] == found[1] != []


def test_a_program_is_installed_and_changed_without_any_sql() -> None:
    first, second = compiled(JOIN.format(3, 3)), compiled(JOIN.format(5, 5))
    with engine_with() as engine, no_sql():
        query = engine.install(first, "q")
        query.change(second)
        assert query.program == second
        assert query.text == JOIN.format(5, 5)


def test_a_change_to_another_shape_is_refused_of_programs_too() -> None:
    with engine_with() as engine:
        query = engine.install(compiled(JOIN.format(3, 3)), "q")
        with pytest.raises(ChangeRefused):
            query.change(compiled(COUNT))


def test_the_order_that_is_asked_for_overrides_that_of_a_program() -> None:
    with engine_with() as engine:
        query = engine.install(compiled(JOIN.format(3, 3)), "q", order="outer")
        assert query.program.order == "outer"
        query.change(compiled(JOIN.format(4, 4)))
        assert query.program.order == "outer"


def test_a_kernel_for_a_program_is_refused() -> None:
    with engine_with() as engine, pytest.raises(InputError) as caught:
        engine.install(compiled(JOIN.format(3, 3)), kernel="nested-loop")
    assert str(caught.value) == (
        "the kernel 'nested-loop' is asked for, and a program has its kernels\n"
        "Leave the kernel out, or give the SQL instead of the program."
    )


REMEDY = "Create the stream as the program knows it, or compile the query from its SQL."


@pytest.mark.parametrize(
    ("streams", "what"),
    [
        ("CREATE STREAM S (id INT, a INT)", "unknown stream 'R'"),
        (
            "CREATE STREAM R (id BIGINT, x INT)",
            "the program reads stream R (id int32, x int32), and here it is (id int64, x int32)",
        ),
        (
            "CREATE STREAM Q (id INT, x INT); CREATE STREAM R AS SELECT id, x FROM Q",
            "the program reads stream R as one that is not derived, and here it is",
        ),
    ],
)
def test_a_program_over_other_streams_is_refused(streams: str, what: str) -> None:
    program = compiled("SELECT x FROM R WHERE id > 1")
    with engine_with(streams) as engine:
        with pytest.raises(InputError) as caught:
            engine.install(program)
        assert caught.value.what == what
        assert caught.value.remedy == REMEDY or "Create it first" in caught.value.remedy
        assert not [query for query in engine.queries.values() if not query.derived]


@pytest.mark.parametrize(
    ("text", "needs_end"),
    [
        ("SELECT x FROM R", False),
        ("SELECT SUM(x) AS x FROM R [ROWS 2 SLIDE 2]", False),
        ("SELECT SUM(x) AS x FROM R", True),
        ("SELECT x FROM R ORDER BY x", True),
        ("SELECT a.x FROM R [UNBOUNDED] a JOIN R [ROWS 2] b ON a.x = b.x", True),
    ],
)
def test_a_program_that_needs_the_end_needs_a_bounded_stream(text: str, needs_end: bool) -> None:
    with engine_with("CREATE STREAM A (x INT)") as bounded:
        bounded.stream("R", pa.schema({"x": pa.int32()}), bounded=True)
        program = bounded.install(text).program
        assert program.needs_end == needs_end
    with engine_with("CREATE STREAM R (x INT)") as engine:
        if not needs_end:
            installed = engine.install(program).program
            assert not installed.scans[0].stream.bounded
            assert installed == engine.install(text).program
            return
        with pytest.raises(InputError) as caught:
            engine.install(program)
    assert str(caught.value) == (
        "the program needs the end of stream R, which is not bounded here\n"
        "Declare the stream with bounded=True, or write windows."
    )


def test_a_program_is_explained_with_the_plan_of_its_text_if_that_is_the_same() -> None:
    text = JOIN.format(3, 3)
    with engine_with() as engine:
        program = compiled(text)
        assert engine.explain(program) == engine.explain(text)
        assert engine.install(program).explain() == engine.explain(text)
        found = json.loads(program.to_json())
        found["text"] = "SELECT x FROM R"
        foreign = Program.from_json(json.dumps(found))
        assert engine.explain(text).endswith(engine.explain(foreign))
        assert engine.explain(foreign).startswith("program\n  #0 scan R\n")


def test_programs_are_pickled_by_their_encoding() -> None:
    program = compiled(COUNT)
    assert pickle.loads(pickle.dumps(program)) == program


# -- on Spark -------------------------------------------------------------------------------


def made(query: Any) -> list[dict[str, Any]]:
    return sorted(query.rows().to_pylist(), key=str)


def test_a_program_is_installed_on_spark() -> None:
    found = []
    for query in (JOIN.format(3, 3), compiled(JOIN.format(3, 3))):
        with connected(Cluster(), cores=2, compile_predicates=False) as engine:
            engine.sql(STREAMS)
            handle = engine.install(query, "q")
            engine.push("R", rows(5))
            engine.push("S", others(5))
            finish(engine)
            found.append(made(handle))
    assert found[0] == found[1] != []


def test_cores_readers_and_a_restart_parse_nothing(tmp_path: Path) -> None:
    cluster = Cluster()
    options = {"cores": 2, "compile_predicates": False, "checkpoint": tmp_path}
    with connected(cluster, **options) as engine:
        engine.sql(STREAMS)
        engine.sql("CREATE STREAM D AS SELECT id, x FROM R WHERE x > 0")
        engine.install(JOIN.format(3, 3), "join")
        engine.install(COUNT, "count")
        engine.install("SELECT id FROM D", "derived")
        engine.change("join", JOIN.format(4, 4))
        engine.push("R", rows(5))
        with no_sql():
            finish(engine)
            cluster.memory = type(cluster.memory)(most=8)
            engine.push("S", others(5))
            finish(engine)
    with no_sql(), connected(cluster, **options) as engine:
        engine.push("R", rows(5))
        finish(engine)
        assert made(engine.queries["join"])
        assert engine.queries["join"].text == JOIN.format(4, 4)


def test_the_log_and_the_state_hold_programs(tmp_path: Path) -> None:
    cluster = Cluster()
    with connected(cluster, checkpoint=tmp_path, compile_predicates=False) as engine:
        engine.sql(STREAMS)
        program = engine.install(COUNT, "count").program
        resident: Any = engine._resident
        assert isinstance(resident, InProcess)
        log = engine._checkpoint.log
        frames = [row for s in log.segments() for b in log.read(s) for row in b.to_pylist()]
        frame_type = unpack.__globals__["Frame"]
        installed = unpack(frame_type(**frames[-1]))
        assert installed.program == program  # type: ignore[union-attr]
        registry = log.registry_text()
        assert known_folds(registry)["r"] == [program]
        finish(engine)
    [store] = cluster.stores.values()
    assert isinstance(store, DictStore)
    saved = json.loads(store.texts()["registry"])["instructions"]
    assert [one["is"] for one in saved] == ["create", "create", "install"]


# -- saved engines and versions -------------------------------------------------------------


@pytest.mark.parametrize("path", SCRIPTS[::6], ids=lambda path: path.stem)
def test_a_saved_engine_has_its_programs(path: Path, tmp_path: Path) -> None:
    engine = Engine(compile_predicates=False, windows_required=False)
    engine.feed(conformance()[path.stem])
    programs = {name: query.program for name, query in engine.queries.items()}
    engine.save(tmp_path / "engine")
    with no_sql():
        restored = ps.restore(tmp_path / "engine")
    assert {name: query.program for name, query in restored.queries.items()} == programs
    assert repr(restored.catalog) == repr(engine.catalog)


def test_older_formats_are_refused_by_the_version_to_finish_them_with(tmp_path: Path) -> None:
    from penstock.engines.local.state import VERSIONS as SAVED
    from penstock.engines.spark.core.trigger import Head, check_format
    from penstock.engines.spark.state.chunks import FORMAT, VERSIONS

    assert SAVED == {1: "0.1", 2: "0.2.0 before its release"}
    for found, version in VERSIONS.items():
        with pytest.raises(StateError) as caught:
            check_format(Head(found, 1, 0, ""), "folder")
        assert caught.value.what == (
            f"the checkpoint was written by Penstock {version} in the format {found}; this is "
            f"Penstock {ps.__version__}, which reads the format {FORMAT}"
        )
