"""What can be asked of a query's flow, what is refused, and that it is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.spark.in_process import Cluster, standing_in

import penstock as ps
from penstock.errors import InputError, PenstockError
from penstock.program.choose.flow import decide
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.flow import ANY_FLOW, FLOWS, FlowChoice
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream

STREAMS = "CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)"
INNER = "SELECT r.id AS r, s.id AS s FROM R [ROWS 4] r JOIN S [ROWS 4] s ON r.x < s.a"
LEFT = INNER.replace("JOIN", "LEFT JOIN")
OUTER_ORDER = f"{INNER} EMIT ORDER outer"
SELECT = "SELECT id FROM R"
COUNT = "SELECT {} AS n FROM R [ROWS 4 SLIDE 4]"
SUM = COUNT.format("SUM(x)")
ALONE = "cores=2 (--cores 2) alone lets two threads divide the batches of an aggregate"
BY_ALL = (
    "the cores of the engine, ps.connect('spark', cores=2) (--cores 2), share the groups of an "
    "aggregate by themselves"
)
EVERYWHERE: list[tuple[str, dict[str, Any], str]] = [
    (INNER, {"flow": "tree"},
     "unknown flow 'tree'\nWrite one of: three-step, shared, splitjoin, celljoin, handshake, "
     "low-latency-handshake."),
    (SELECT, {"flow": "Splitjoin"},
     "unknown flow 'Splitjoin'\nWrite one of: three-step, shared, splitjoin, celljoin, handshake, "
     "low-latency-handshake."),
    (INNER, {"cores": "2"}, "cores is '2'\nWrite a whole number."),
    (INNER, {"precision": 1.5, "order": "outer"}, "precision is 1.5\nWrite a whole number."),
    (INNER, {"cores": 0}, "0 cores cannot share a query\nWrite a number from 1 to 1024."),
    (INNER, {"cores": -3}, "-3 cores cannot share a query\nWrite a number from 1 to 1024."),
    (INNER, {"cores": 1025}, "1025 cores cannot share a query\nWrite a number from 1 to 1024."),
    (INNER, {"flow": "splitjoin", "branching": 1},
     "a distribution tree with branching 1 does not branch\nWrite 2 or more, or leave it out: 8."),
    (INNER, {"precision": 0, "order": "outer"},
     "a precision of 0 would mean a star every 0 results\nWrite 1 or more."),
    (INNER, {"precision": 4},
     "a precision of 4 without an order\n"
     "Ask for the order outer or inner too, or leave the precision out."),
    (INNER, {"admission": "drop"}, "unknown admission 'drop'\nWrite wait or shed."),
]  # fmt: skip
LOCAL: list[tuple[str, dict[str, Any], str]] = [
    (OUTER_ORDER, {"flow": "handshake"},
     "the flow handshake does not offer the order outer: its rows come when two tuples meet\n"
     "Ask for the order none, or for the flow splitjoin."),
    (INNER, {"flow": "low-latency-handshake", "order": "inner"},
     "the flow low-latency-handshake does not offer the order inner: its rows come when two "
     "tuples meet\nAsk for the order none, or for the flow splitjoin."),
    (LEFT, {"flow": "celljoin"},
     "the flow celljoin does not offer left joins: no core of it knows whether a tuple has "
     "found a partner in another\nAsk for one of the flows three-step and splitjoin."),
    (INNER, {"flow": "three-step", "cores": 4},
     "the flow three-step is one core's, not 4 cores'\n"
     "Leave the cores out, or ask for the flow shared."),
    (INNER, {"flow": "celljoin", "branching": 4},
     "the flow celljoin has no distribution tree to branch\n"
     "Leave the branching out, or ask for the flow splitjoin."),
    *[(SUM, {"flow": flow},
       f"the flow {flow} is asked for, and the query has no join that cores could share\n"
       f"Leave the flow out; {ALONE}.") for flow in FLOWS],
    (SUM, {"branching": 2},
     "a branching of 2 is asked for, and the query has no join that cores could share\n"
     f"Leave the branching out; {ALONE}."),
    (SELECT, {"flow": "shared", "cores": 2},
     "the flow shared is asked for, and the query has no join that cores could share\n"
     "Leave the flow out."),
]  # fmt: skip
ELSEWHERE = "run it on the embedded engine: ps.connect('local') (--engine local)."
LEAVE_OUT = f"Leave the flow out: it is splitjoin for joins of two streams; or {ELSEWHERE}"
ON_SPARK: list[tuple[str, dict[str, Any], str]] = [
    (INNER, {"flow": "three-step"},
     "the flow three-step cannot run on Spark: it has one core, and Spark shares a join among the "
     f"cores that it has\n{LEAVE_OUT}"),
    (INNER, {"flow": "shared"},
     "the flow shared cannot run on Spark: its cores share one memory, and tasks of a Spark stage "
     f"have none in common\n{LEAVE_OUT}"),
    (INNER, {"flow": "celljoin"},
     "the flow celljoin cannot run on Spark: its cores share one memory, and tasks of a Spark "
     f"stage have none in common\n{LEAVE_OUT}"),
    (INNER, {"flow": "handshake"},
     "the flow handshake cannot run on Spark: its cores send each other messages, and tasks of a "
     f"Spark stage cannot\n{LEAVE_OUT}"),
    (INNER, {"flow": "low-latency-handshake"},
     "the flow low-latency-handshake cannot run on Spark: its cores send each other messages, and "
     f"tasks of a Spark stage cannot\n{LEAVE_OUT}"),
    (INNER, {"branching": 4},
     "a branching of 4 cannot be had on Spark: Spark itself distributes the tuples, not a tree of "
     f"Penstock's\nLeave the branching out, or {ELSEWHERE}"),
    (INNER, {"admission": "shed"},
     "the admission shed cannot be had on Spark: what is pushed is in its log, and the source of "
     f"the Spark query waits for the cores\nAsk for the admission wait, or {ELSEWHERE}"),
    (INNER, {"cores": 2},
     "a query on Spark cannot have 2 cores of its own: all queries of an engine share its tasks\n"
     "Give the cores to connect: ps.connect('spark', cores=2)."),
    (SUM, {"flow": "splitjoin"},
     "the flow splitjoin is asked for, and the query has no join that cores could share\n"
     f"Leave the flow out; {BY_ALL}."),
    (SELECT, {"flow": "splitjoin"},
     "the flow splitjoin is asked for, and the query has no join that cores could share\n"
     "Leave the flow out."),
]  # fmt: skip


def refusal(engine: Any, sql: str, options: dict[str, Any]) -> str:
    position = engine.position
    with pytest.raises(PenstockError) as install:
        engine.install(sql, "q", **options)
    assert (engine.queries, engine.position) == ({}, position)
    with pytest.raises(PenstockError) as explain:
        engine.explain(sql, **options)
    assert str(explain.value) == str(install.value)
    return str(install.value)


@pytest.mark.parametrize(("sql", "options", "message"), EVERYWHERE + LOCAL)
def test_what_the_embedded_engine_refuses(sql: str, options: dict[str, Any], message: str) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        assert refusal(engine, sql, options) == message


def test_what_spark_refuses() -> None:
    with standing_in(Cluster()), ps.connect("spark") as engine:
        engine.sql(STREAMS)
        for sql, options, message in EVERYWHERE + ON_SPARK:
            assert refusal(engine, sql, options) == message


def test_what_was_asked_for_holds_for_changes() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        q = engine.install(OUTER_ORDER, precision=4, cores=1, admission="wait")
        assert q.flow == FlowChoice(cores=1, precision=4, admission="wait")
        assert (q.program.precision, q.pipeline.flow.precision) == (4, 4)
        with pytest.raises(PenstockError) as error:
            q.change(INNER)
        assert str(error.value) == (
            "a precision of 4 without an order\n"
            "Ask for the order outer or inner too, or leave the precision out."
        )
        assert q.text == OUTER_ORDER
        q.change(f"{INNER} EMIT ORDER inner")
        flow = q.pipeline.flow
        assert (q.program.precision, flow.order, flow.precision) == (4, "inner", 4)


def test_a_flow_that_a_change_cannot_have_is_refused() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        q = engine.install(INNER, flow="handshake", cores=2)
        with pytest.raises(PenstockError, match="does not offer the order outer"):
            q.change(OUTER_ORDER)
        assert q.text == INNER


THREE = "SELECT r.id FROM R [ROWS 4] r JOIN S [ROWS 4] s ON r.id = s.id {} R [ROWS 4] q ON {}"


@pytest.mark.parametrize("options", [{}, {"design": "stashed"}])
@pytest.mark.parametrize("spark", [False, True])
def test_a_change_that_none_can_take_is_refused_as_such_with_any_design(
    spark: bool, options: dict[str, Any]
) -> None:
    with standing_in(Cluster()), ps.connect("spark" if spark else "local") as engine:
        engine.sql(STREAMS)
        q = engine.install(THREE.format("JOIN", "s.id = q.id"), "q", **options)
        for text, message in (
            (INNER, "query 'q' reads R, S, R; a change cannot make it read R, S"),
            (THREE.format("LEFT JOIN", "s.id = q.id"),
             "query 'q' is a join of kind inner; a change cannot make it inner and left"),
        ):  # fmt: skip
            with pytest.raises(ps.ChangeRefused) as error:
                q.change(text)
            assert str(error.value) == f"{message}\nInstall it as a new query and drop this one."


@pytest.mark.parametrize("options", [{}, {"flow": "splitjoin"}, {"flow": "celljoin"}])
def test_a_change_that_none_can_take_is_refused_as_such_with_any_flow(
    options: dict[str, Any],
) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        q = engine.install(INNER, "q", **options)
        for text, message in (
            (THREE.format("JOIN", "s.id = q.id"),
             "query 'q' reads R, S; a change cannot make it read R, S, R"),
            (LEFT, "query 'q' is a join of kind inner; a change cannot make it left"),
        ):  # fmt: skip
            with pytest.raises(ps.ChangeRefused) as error:
                q.change(text)
            assert str(error.value) == f"{message}\nInstall it as a new query and drop this one."


def test_the_flow_of_a_reader_is_not_that_of_a_derived_stream() -> None:
    with ps.connect("local") as engine:
        engine.sql(f"{STREAMS}; CREATE STREAM T AS {LEFT}")
        text = "SELECT a.r FROM T [ROWS 1] AS a JOIN S [ROWS 1] AS b ON a.s = b.id"
        q = engine.install(text, flow="handshake", cores=1)
        assert (engine.queries["T"].flow, q.flow) == (ANY_FLOW, FlowChoice("handshake", 1))


DIVIDED = (
    "cores: 2 threads divide each batch of the aggregate that has many tuples for a group and pane"
)


@pytest.mark.parametrize(
    ("sql", "options", "lines"),
    [
        (INNER, {}, ["order none", "flow three-step on 1 core: nothing else is asked for, and one "
                     "core needs no sharing"]),
        (INNER, {"flow": "handshake", "cores": 3},
         ["order none", "flow handshake on 3 cores: asked for"]),
        (INNER, {"cores": 2}, ["order none", "flow shared on 2 cores: 2 cores are asked for, and "
                               "with it they share one window"]),
        (LEFT, {"cores": 2}, ["order none", "flow splitjoin on 2 cores: 2 cores are asked for, "
                              "and it can share left joins", "branching 8"]),
        (INNER, {"cores": 4, "branching": 2, "order": "outer", "precision": 3},
         ["order outer", "flow splitjoin on 4 cores: a branching is asked for, and it has the tree "
          "that branches", "branching 2", "precision 3"]),
        (SELECT, {"admission": "shed"},
         ["order none", "flow: none, since there is no join to share",
          "admission shed: input is dropped while its output is almost full"]),
        (SUM, {}, ["order none", "flow: none, since there is no join to share"]),
        (SUM, {"cores": 2}, ["flow: none, since there is no join to share", DIVIDED]),
        (COUNT.format("LAST(x)"), {"cores": 2},
         ["flow: none, since there is no join to share",
          "cores: one thread aggregates, since threads cannot share LAST(x)"]),
        (COUNT.format("COUNT(DISTINCT x)"), {"cores": 2},
         ["flow: none, since there is no join to share",
          "cores: one thread aggregates, since threads cannot share COUNT(DISTINCT x)"]),
        ("SELECT MAX(w) AS n FROM W [ROWS 4 SLIDE 4]", {"cores": 2},
         ["flow: none, since there is no join to share",
          "cores: one thread aggregates, since threads cannot share MAX(w)"]),
        ("SELECT COUNT(*) AS n FROM R [RANGE 4 SLIDE 4 WATTR x]", {"cores": 2, "kernel": "wid"},
         ["flow: none, since there is no join to share",
          "cores: one thread aggregates, since the kernel wid has its modules look in turn"]),
    ],
)  # fmt: skip
def test_explain_says_the_flow_and_why(sql: str, options: dict[str, Any], lines: list[str]) -> None:
    with ps.connect("local") as engine:
        engine.sql(f"{STREAMS}; CREATE STREAM W (w STRING)")
        text = engine.explain(sql, **options).splitlines()
        assert text[-len(lines) :] == lines
        assert engine.install(sql, **options).explain().splitlines() == text


def test_spark_has_splitjoin_and_remembers_what_was_asked_for(tmp_path: Path) -> None:
    cluster = Cluster(eager=True)
    for _ in range(2):
        with (
            standing_in(cluster),
            ps.connect("spark", cores=2, checkpoint=tmp_path / "c") as engine,
        ):
            if not engine.queries:
                engine.sql(STREAMS)
                engine.install(INNER, "q", "outer", flow="splitjoin", precision=3)
            q = engine.queries["q"]
            assert (q.flow, q.order) == (FlowChoice("splitjoin", precision=3), "outer")
            assert (q.program.precision, q.pipeline.flow.cores) == (3, 2)
            assert q.explain().splitlines()[-4:] == [
                "order outer",
                "flow splitjoin: asked for",
                "precision 3",
                "distribution: broadcast to 2 cores, each tuple stored on one (SplitJoin)",
            ]
            engine.push("R", [{"id": i, "x": i} for i in range(4)])
            engine.push("S", [{"id": i, "a": 2} for i in range(3)])
            engine.wait()
    with standing_in(cluster), ps.connect("spark", cores=2, checkpoint=tmp_path / "c") as engine:
        engine.wait()
        cores = engine.queries["q"].metrics()["cores"]
        assert [(one["core"], one["stored"], one["probed"]) for one in cores] == [
            (0, [4, 3], [8, 6]),
            (1, [4, 3], [8, 6]),
        ]


def test_spark_says_where_an_aggregate_is_folded_and_who_has_its_groups() -> None:
    window = "FROM R [RANGE 4 SLIDE 4 WATTR x]"
    folds = (
        "folding: tasks that read the log send partial results for each pane and group, unless a "
        "query of another kind reads the stream too"
    )
    nothing = "flow: none, since there is no join to share"
    with standing_in(Cluster()), ps.connect("spark", cores=2) as engine:
        engine.sql(STREAMS)
        for text, lines in {
            f"SELECT COUNT(*) AS n {window} GROUP BY id": [
                nothing, folds, "distribution: groups divided among 2 cores by id",
            ],
            f"SELECT COUNT(*) AS n {window}": [
                nothing, folds,
                "distribution: one core (an aggregate without GROUP BY has one group)",
            ],
            f"SELECT LAST(id) AS n {window}": [
                "order none", nothing,
                "distribution: one core (an aggregate sees every tuple in its order)",
            ],
        }.items():  # fmt: skip
            assert engine.explain(text).splitlines()[-3:] == lines
            assert engine.install(text).explain().splitlines()[-3:] == lines


def test_a_saved_engine_keeps_the_choice(tmp_path: Path) -> None:
    path = tmp_path / "e"
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        q = engine.install(OUTER_ORDER, "q", flow="three-step", precision=2)
        engine.push("R", [{"id": 1, "x": 1}])
        engine.save(path)
    with ps.restore(path) as engine:
        again = engine.queries["q"]
        assert again.flow == q.flow == FlowChoice("three-step", precision=2)
        assert (again.program.precision, again.pipeline.flow) == (2, q.pipeline.flow)
        [core] = again.metrics()["cores"]
        assert core == {
            "core": 0,
            "stored": [1, 0],
            "probed": [1, 0],
            "matched": 0,
            "comparisons": 0,
            "window": [1, 0],
        }


def test_single_tuples_count_as_stored_and_probed() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        q = engine.install(INNER)
        engine._single_pushes.patience = 2
        for i in range(10):
            engine.push("R", [{"id": i, "x": 0}])
            engine.push("S", [{"id": i, "a": 1}])
        assert engine._single_pushes.fast_tuples > 0
        pairs = q.rows().num_rows
        [core] = q.metrics()["cores"]
        assert core["stored"] == core["probed"] == [10, 10]
        assert core["matched"] == pairs


@pytest.mark.parametrize(
    "text",
    [
        "SELECT FIRST(R.id) AS f FROM R JOIN S ON R.x = S.a",
        "SELECT R.id FROM R JOIN S ON R.x = S.a ORDER BY R.x",
        "SELECT R.id FROM R JOIN S ON R.x = S.a LIMIT 3",
    ],
)
def test_what_depends_on_the_order_of_a_join_gets_it(text: str) -> None:
    streams = [
        Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int64()}), bounded=True),
        Stream.of("S", pa.schema({"id": pa.int64(), "a": pa.int64()}), bounded=True),
    ]
    catalog = Catalog(streams, windows_required=False)
    program = compile_plan(bind(parse_query(text), catalog))
    assert decide(program.placed(FlowChoice("splitjoin", 2))).order == "inner"
    with pytest.raises(InputError) as error:
        decide(program.placed(FlowChoice("handshake", 2)))
    assert str(error.value) == (
        "the flow handshake offers no order, and FIRST, LAST, ORDER BY and LIMIT over a join take "
        "its rows in the order of their arrival\nAsk for the flow splitjoin."
    )
