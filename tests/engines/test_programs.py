"""Programs on engines: they are installed unchanged, and logs and states hold programs."""

from __future__ import annotations

import json
import pickle
import random
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
from penstock.program.isa.flow import Flow, FlowChoice
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
            cluster.memory.clear()
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


PLACED = "SELECT r.id FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON r.x = s.a"


def test_a_program_travels_with_its_flow(tmp_path: Path) -> None:
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (a BIGINT)")
        asked = engine.install(PLACED, flow="splitjoin", cores=3, branching=2)
        sent = Program.from_json(asked.program.to_json())
        again = engine.install(sent, name="again")
        other = engine.install(sent, name="other", cores=2)
        assert (
            again.pipeline.flow == asked.pipeline.flow == Flow("splitjoin", 3, 2, "none", 1, "wait")
        )
        assert other.pipeline.flow == Flow("splitjoin", 2, 2, "none", 1, "wait")
        assert other.program.digest == asked.program.digest
        assert json.loads(again.explained().to_json())["program"]["flow"]["cores"] == 3
        other.change(PLACED.replace("9", "8"))
        again.change(other.program)
        assert (other.pipeline.flow.cores, again.pipeline.flow.cores) == (2, 3)
        engine.save(tmp_path / "saved")
    with ps.restore(tmp_path / "saved") as restored:
        assert restored.queries["again"].pipeline.flow == asked.pipeline.flow
        assert restored.queries["other"].pipeline.flow.cores == 2


CARRIED: list[tuple[dict[str, Any], str]] = [
    ({"flow": "handshake", "cores": 3},
     "the flow handshake cannot run on Spark: its cores send each other messages, and tasks of a "
     "Spark stage cannot"),
    ({"cores": 3},
     "a query on Spark cannot have 3 cores of its own: all queries of an engine share its tasks"),
    ({"admission": "shed"},
     "the admission shed cannot be had on Spark: what is pushed is in its log, and the source of "
     "the Spark query waits for the cores"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "what"), CARRIED)
def test_spark_refuses_a_flow_that_it_lacks_and_takes_the_program_without_it(
    asked: dict[str, Any], what: str, tmp_path: Path
) -> None:
    streams = "CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (a BIGINT)"
    with ps.connect("local") as engine:
        engine.sql(streams)
        program = engine.install(PLACED, **asked).program
    with connected(Cluster(random.Random(1)), checkpoint=tmp_path / "c", cores=2) as spark:
        spark.sql(streams)
        for refused in (spark.install, spark.explain):
            with pytest.raises(InputError) as error:
                refused(program)
            assert str(error.value) == (
                f"{what}\nThe program carries this: give program.placed(), the same query without "
                "it, or run it on the embedded engine: ps.connect('local') (--engine local)."
            )
        assert spark.install(program.placed()).program == program.placed()
        with pytest.raises(InputError, match="the flow shared cannot run on Spark") as error:
            spark.install(program.placed(), flow="shared")
        assert error.value.remedy.startswith(
            "Leave the flow out: it is splitjoin for joins of two "
        )


def test_an_option_overrides_the_flow_that_a_program_carries(tmp_path: Path) -> None:
    streams = "CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (a BIGINT)"
    with ps.connect("local") as engine:
        engine.sql(streams)
        program = engine.install(PLACED, flow="handshake", admission="shed").program
    with connected(Cluster(random.Random(1)), checkpoint=tmp_path / "c", cores=2) as spark:
        spark.sql(streams)
        query = spark.install(program, flow="splitjoin", admission="wait")
        assert query.flow == FlowChoice("splitjoin", admission="wait")


def test_older_formats_are_refused_by_the_version_to_finish_them_with(tmp_path: Path) -> None:
    from penstock.engines.local.state import VERSIONS as SAVED
    from penstock.engines.spark.core.trigger import Head, check_format
    from penstock.engines.spark.state.chunks import FORMAT, VERSIONS

    before = "0.2.0 before its release"
    assert {1: "0.1", 2: before, 3: before} == SAVED
    for found, version in VERSIONS.items():
        with pytest.raises(StateError) as caught:
            check_format(Head(found, 1, 0, ""), "folder")
        assert caught.value.what == (
            f"the checkpoint was written by Penstock {version} in the format {found}; this is "
            f"Penstock {ps.__version__}, which reads the format {FORMAT}"
        )
