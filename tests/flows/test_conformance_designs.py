"""Every script with a join of three and more streams means the same by every design."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.in_process import Cluster, connected
from tests.thresholds import low_thresholds

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import InputError, ScriptError
from penstock.program.choose.design import ASSUMPTIONS
from penstock.program.isa.flow import DESIGNS, EXACT_DESIGNS, FlowChoice
from penstock.testing import ReplayResult, replay_text, run_on_oracle
from penstock.testing.replay import streams_joined
from penstock.testing.script import InstallStep, parse_script

FOLDER = Path(__file__).parents[1] / "conformance"


def several(script: str) -> bool:
    """Whether a query of the script joins three streams or more."""
    steps = parse_script(script)
    return any(isinstance(step, InstallStep) and streams_joined(step.sql) > 2 for step in steps)


SCRIPTS = [path for path in sorted(FOLDER.glob("*.flow")) if several(path.read_text("utf-8"))]
ENGINES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "embedded": lambda: Engine(compile_predicates=False),
    "spark": lambda: connected(
        Cluster(random.Random(1), eager=True), cores=2, compile_predicates=False
    ),
}


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds(ranks_per_set=2, pairs_per_message=2):
        yield


@functools.cache
def meant(path: Path) -> ReplayResult:
    return run_on_oracle(path.read_text("utf-8"))


SPECIAL = re.compile(r"\b(LEFT|RIGHT|FULL|SEMI|ANTI) JOIN\b")


def refusal(script: str, design: str, engine: str) -> str | None:
    """The error for the first query that the design cannot run."""
    here = "run it on the embedded engine: ps.connect('local') (--engine local)."
    for step in parse_script(script):
        joined = streams_joined(step.sql) if isinstance(step, InstallStep) else 0
        error = None
        traits = DESIGNS.get(design, DESIGNS["mjoin"])
        if joined > 2 and engine == "spark" and traits.not_on_spark:
            error = (
                f"the design {design} cannot run on Spark: {traits.not_on_spark}",
                "Ask for the design parallel, parallel-circular, parallel-stashed, mjoin, cascade, "
                f"stashed, circular or linear, or {here}",
            )
        elif joined > 2 and design not in ("auto", "mjoin") and SPECIAL.search(step.sql):
            kind = SPECIAL.findall(step.sql)[0].lower()
            error = (
                f"the design {design} does not offer {kind} joins among three and more streams",
                "Ask for the design mjoin, or leave it out; one core runs "
                f"{kind} joins among three and more streams.",
            )
        elif joined > 3 and design in ("stashed", "parallel-stashed"):
            error = (
                f"the design {design} joins three streams, and the query joins {joined}",
                f"Ask for the design {design.removesuffix('stashed')}circular, or leave the design "
                "out.",
            )
        if error is not None:
            return str(ScriptError.at_line(step.line.number, step.line.text, *error))
    return None


@pytest.mark.product(4, by="path")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("design", EXACT_DESIGNS)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_means_the_same(path: Path, design: str, engine: str) -> None:
    script, choice = path.read_text("utf-8"), FlowChoice(design=design)
    refused = refusal(script, design, engine)
    for batch in (1, 1000):
        with ENGINES[engine]() as opened:
            if refused is not None:
                with pytest.raises(ScriptError) as error:
                    replay_text(script, opened, batch, "inner", flow=choice)
                assert str(error.value) == refused
                continue
            result = replay_text(script, opened, batch, "inner", flow=choice)
        assert result.failures == []
        assert result.lines == meant(path).lines


def test_the_design_as_it_was_published_is_there_by_name_with_a_warning() -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.warns(UserWarning) as warned:
            engine.install(QUERY, "q", design="parallel-as-published", cores=2)
        assert str(warned[0].message) == (
            "query 'q': the design parallel-as-published loses rows: each core has a share of "
            "every window, and members in different cores never meet; the design parallel has "
            "them all"
        )


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {},
            "design mjoin on 1 core: estimated cost of an arrival, in comparisons: 18 (mjoin), "
            f"1,501 (cascade, which stores 9 combinations); {ASSUMPTIONS}",
        ),
        ({}, "design revised while it runs: samples of arrivals measure the match rates"),
        (
            {},
            "probe orders measured: nothing else is asked for; an equality first, then another "
            "condition, then the smallest count window, and samples of arrivals revise that",
        ),
        ({"design": "cascade"}, "design cascade on 1 core: asked for"),
        ({"design": "cascade"}, "cascade: A (1) with B (2), then with C (3)"),
        (
            {"probe_order": "fixed"},
            "design mjoin on 1 core: it has the fixed probe order that is asked for",
        ),
        (
            {"probe_order": "fixed"},
            "probe orders fixed: asked for; from each stream's place in FROM around",
        ),
        (
            {"design": "linear"},
            "probe orders by the program: an equality first, then another condition, then the "
            "smallest count window",
        ),
        (
            {"cores": 2},
            "design shared on 2 cores: estimated cost of an arrival, in comparisons: 18 (mjoin), "
            "11 on 2 cores (shared), 1,501 (cascade, which stores 9 combinations); "
            f"{ASSUMPTIONS}",
        ),
        (
            {"cores": 2, "branching": 2},
            "design parallel on 2 cores: a branching is asked for, and it has the tree that "
            "branches",
        ),
        ({"design": "parallel", "cores": 3}, "design parallel on 3 cores: asked for"),
        (
            {"design": "parallel-as-published", "cores": 2},
            "warning: the design parallel-as-published loses rows: each core has a share of every "
            "window, and members in different cores never meet; the design parallel has them all",
        ),
        (
            {"design": "stashed"},
            "stash of 9 pairs of A (1) and B (2): without estimates, the pair that the closest "
            "condition links",
        ),
        (
            {"design": "stashed"},
            "stash revised while it runs: samples of arrivals measure the match rates",
        ),
        (
            {"design": "parallel-stashed", "cores": 2},
            "design parallel-stashed on 2 cores: asked for",
        ),
        (
            {"design": "parallel-stashed", "stash": 5},
            "stash of 5 pairs of A (1) and B (2): without estimates, the pair that the closest "
            "condition links; the number is asked for",
        ),
        (
            {"design": "stashed", "stash": 5},
            "stash of 5 pairs of A (1) and B (2): without estimates, the pair that the closest "
            "condition links; the number is asked for",
        ),
    ],
)
def test_explain_says_which_design_and_why(asked: dict[str, Any], told: str) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        assert told in str(engine.explain(QUERY, **asked)).splitlines()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"design": "mjoin", "cores": 2},
            "the design mjoin has one core, and not 2 cores\n"
            "Leave the cores out, or ask for the design shared.",
        ),
        (
            {"design": "stashed", "cores": 3},
            "the design stashed has two cores, one for each stage, and not 3 cores\n"
            "Leave the cores out, or ask for the design shared.",
        ),
        (
            {"design": "shared", "branching": 2},
            "the design shared has no distribution tree to branch\n"
            "Leave the branching out, or ask for the design parallel.",
        ),
    ],
)
def test_cores_that_a_design_cannot_have_are_refused(asked: dict[str, Any], message: str) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.raises(InputError) as error:
            engine.install(QUERY, **asked)
        assert str(error.value) == message


THREE = "CREATE STREAM A (k INT); CREATE STREAM B (k INT); CREATE STREAM C (k INT)"
QUERY = """SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k = b.k
    JOIN C [ROWS 9] c ON b.k = c.k"""
TWO = "SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k = b.k"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_design_is_explained_and_travels_with_the_program(engine: str) -> None:
    with ENGINES[engine]() as opened:
        opened.sql(THREE)
        query = opened.install(QUERY, design="circular")
        program = ps.Program.from_json(query.program.to_json())
        assert program.flow.design == "circular"
        told = str(opened.explain(program)).splitlines()
        assert any(line.startswith("design circular") and "asked for" in line for line in told)
        for stream in "ABC":
            opened.push(stream, [{"k": 1}])
        opened.end()
        opened.wait()
        assert query.rows().to_pylist() == [{"k": 1}]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("sql", "asked", "message"),
    [
        (
            QUERY,
            {"design": "ring"},
            "unknown design 'ring'\nWrite one of: auto, mjoin, cascade, shared, parallel, "
            "parallel-circular, parallel-stashed, stashed, circular, linear.",
        ),
        (
            QUERY,
            {"probe_order": "random"},
            "unknown probe order 'random'\nWrite measured or fixed.",
        ),
        (
            QUERY,
            {"design": "cascade", "probe_order": "fixed"},
            "the probe order fixed is asked for, and the design cascade has an order of its own\n"
            "Leave the probe order out, or ask for the design mjoin, shared, parallel or linear.",
        ),
        (
            QUERY,
            {"design": "parallel-stashed", "probe_order": "fixed"},
            "the probe order fixed is asked for, and the design parallel-stashed has an order of "
            "its own\nLeave the probe order out, or ask for the design mjoin, shared, parallel or "
            "linear.",
        ),
        (
            TWO,
            {"probe_order": "fixed"},
            "a probe order is asked for, and the query joins fewer than three streams\n"
            "Leave the probe order out.",
        ),
        (
            QUERY,
            {"design": "stashed", "stash": 0},
            "a stash of 0 pairs holds nothing\nWrite 1 or more, or leave the size out.",
        ),
        (
            QUERY,
            {"design": "stashed", "stash": -4},
            "a stash of -4 pairs holds nothing\nWrite 1 or more, or leave the size out.",
        ),
        (QUERY, {"design": "stashed", "stash": 1.5}, "stash is 1.5\nWrite a whole number."),
        (
            QUERY,
            {"design": "circular", "stash": 9},
            "a stash of 9 pairs is asked for, which belongs to the design stashed\n"
            "Leave the stash out, or ask for the design stashed: design='stashed' "
            "(--design stashed).",
        ),
        (
            QUERY,
            {"design": "mjoin", "stash": 9},
            "a stash of 9 pairs is asked for, which belongs to the design stashed\n"
            "Leave the stash out, or ask for the design stashed: design='stashed' "
            "(--design stashed).",
        ),
        (
            QUERY,
            {"stash": 9},
            "a stash of 9 pairs is asked for, which belongs to the design stashed\n"
            "Leave the stash out, or ask for the design stashed: design='stashed' "
            "(--design stashed).",
        ),
        (
            QUERY,
            {"design": "stashed", "stash": 10**12},
            "a stash of 1,000,000,000,000 pairs does not fit in memory\n"
            "Write 67108864 or less, or leave the size out; the rows do not depend on it.",
        ),
        (
            TWO,
            {"stash": 9},
            "a stash is asked for, and the query joins fewer than three streams\n"
            "Leave the stash out.",
        ),
        (
            TWO,
            {"design": "circular"},
            "the design circular is asked for, and the query joins fewer than three streams\n"
            "Leave the design out; cores share a join of two streams by a flow (flow=, --flow).",
        ),
    ],
)
def test_a_design_that_a_query_cannot_have_is_refused(
    engine: str, sql: str, asked: dict[str, Any], message: str
) -> None:
    with ENGINES[engine]() as opened:
        opened.sql(THREE)
        for refused in (opened.install, opened.explain):
            with pytest.raises(InputError) as error:
                refused(sql, **asked)
            assert str(error.value) == message


LEFT = QUERY.replace("JOIN C", "LEFT JOIN C")
ALONE = "one core runs left joins among three and more streams"


@pytest.mark.parametrize(
    ("sql", "asked", "message"),
    [
        (
            LEFT,
            {"design": "shared"},
            "the design shared does not offer left joins among three and more streams\n"
            f"Ask for the design mjoin, or leave it out; {ALONE}.",
        ),
        (
            LEFT,
            {"design": "shared", "cores": 2},
            "the design shared does not offer left joins among three and more streams\n"
            f"Ask for the design mjoin, or leave it out; {ALONE}, so leave the cores out too.",
        ),
        (
            LEFT,
            {"branching": 2},
            "the design mjoin has no distribution tree to branch\n"
            f"Leave the branching out; {ALONE}.",
        ),
        (
            LEFT,
            {"flow": "splitjoin"},
            "the flow splitjoin shares joins of two streams, and the query joins 3\n"
            f"Leave the flow out; {ALONE}.",
        ),
        (
            QUERY,
            {"flow": "shared"},
            "the flow shared shares joins of two streams, and the query joins 3\n"
            "Leave the flow out; for a join of three and more streams ask for a design: "
            "design='shared' (--design shared).",
        ),
    ],
)
def test_cores_that_a_tree_and_flows_that_a_wide_join_cannot_have(
    sql: str, asked: dict[str, Any], message: str
) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        for refused in (engine.install, engine.explain):
            with pytest.raises(InputError) as error:
                refused(sql, **asked)
            assert str(error.value) == message
        # What it says can be done.
        engine.install(LEFT, design="mjoin")
        engine.install(QUERY, design="shared")


@pytest.mark.parametrize(
    ("asked", "why"), [({}, ALONE), ({"design": "mjoin"}, "asked for"), ({"design": "auto"}, ALONE)]
)
def test_cores_of_a_tree_are_a_warning_with_any_design(asked: dict[str, Any], why: str) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.warns(UserWarning) as warned:
            query = engine.install(LEFT, "q", cores=2, **asked)
        assert [str(one.message) for one in warned] == [
            f"query 'q': 2 cores are asked for, and one is used: {ALONE}"
        ]
        lines = str(query.explain()).splitlines()
        assert f"design mjoin on 1 core (2 asked for): {why}" in lines


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("asked", [{"probe_order": "fixed"}, {"design": "stashed", "stash": 1}])
def test_the_parts_of_a_design_travel_with_the_program(engine: str, asked: dict[str, Any]) -> None:
    with ENGINES[engine]() as opened:
        opened.sql(THREE)
        query = opened.install(QUERY, **asked)
        flow = ps.Program.from_json(query.program.to_json()).flow
        assert {name: getattr(flow, name) for name in asked} == asked
        for stream in "ABCCB":
            opened.push(stream, [{"k": 1}])
        opened.end()
        opened.wait()
        assert query.rows().num_rows == 4


def test_a_fixed_probe_order_goes_from_each_stream_around() -> None:
    star = """SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k < b.k
        JOIN C [ROWS 9] c ON a.k = c.k"""
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        measured, fixed = engine.install(star), engine.install(star, probe_order="fixed")
        for stream in "ABC":
            engine.push(stream, [{"k": 1}, {"k": 2}])
        told = fixed.explain().splitlines()
        assert fixed.metrics()["probe_orders"] == [
            "probe order of A (1): B (2) by a condition, then C (3) by an equality",
            "probe order of B (2): C (3) by nothing, all of it, then A (1) by an equality",
            "probe order of C (3): A (1) by an equality, then B (2) by a condition",
        ]
        assert [line for line in told if line.startswith("probe order of")] == [
            "probe order of A (1): B (2) by a condition (0.9 partners), then C (3) by an equality "
            "(1 partner); assumed",
            "probe order of B (2): C (3) by nothing, all of it (9 partners), then A (1) by an "
            "equality (1 partner); assumed",
            "probe order of C (3): A (1) by an equality (1 partner), then B (2) by a condition "
            "(0.9 partners); assumed",
        ]
        first = "probe order of A (1): C (3) by an equality"
        assert measured.metrics()["probe_orders"][0].startswith(first)
        assert measured.rows() == fixed.rows()


@pytest.mark.parametrize(
    ("where", "window", "told"),
    [
        ("a.k + b.k = c.k", "ROWS 9", "up to 9 intermediate results"),
        ("a.k + b.k = c.k", "RANGE 9 WATTR k", "as many intermediate results as windows have "
         "combinations"),
    ],
)  # fmt: skip
def test_conditions_that_make_stages_cross_products_get_a_warning(
    where: str, window: str, told: str
) -> None:
    text = f"SELECT a.k FROM A [{window}] a, B [{window}] b, C [{window}] c WHERE {where}"
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.warns(UserWarning) as warned:
            engine.install(text, "q")
    assert [str(one.message) for one in warned] == [
        f"query 'q': no condition links two streams alone: an arrival can make {told}; a "
        "condition on two of them would leave some out"
    ]


@pytest.mark.parametrize(
    ("join", "told"),
    [
        ("JOIN C [ROWS 1000] c ON TRUE", "up to 5,000 rows"),
        ("SEMI JOIN C [ROWS 1000] c ON TRUE", "up to 25 rows"),
        ("ANTI JOIN C [RANGE 9 WATTR k] c ON TRUE", "up to 25 rows"),
        (
            "LEFT JOIN C [RANGE 9 WATTR k] c ON TRUE",
            "as many rows as the other windows have combinations",
        ),
    ],
)
def test_the_estimate_of_a_cross_product_counts_what_adds_rows(join: str, told: str) -> None:
    text = f"SELECT a.k FROM A [ROWS 5] a JOIN B [ROWS 5] b ON TRUE {join}"
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.warns(UserWarning) as warned:
            engine.install(text.replace("[ROWS 5]", "[ROWS 5 WATTR k]"), "q")
    assert [str(one.message) for one in warned] == [
        f"query 'q': no condition links B (2), C (3) with A (1): an arrival can make {told}"
    ]


def test_the_cores_of_a_design_may_be_given_by_the_streams() -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        with pytest.raises(InputError) as error:
            engine.install(QUERY, design="circular", cores=2)
        assert str(error.value) == (
            "the design circular has a core for each of the 3 streams, and not 2 cores\n"
            "Leave the cores out, or ask for the design shared."
        )
        query = engine.install(QUERY, design="circular", cores=3)
        engine.push("A", [{"k": 1}])
        assert len(query.metrics()["cores"]) == 3


DERIVED = (
    "the join of 3 is that of the derived stream j, which takes no options\nLeave it out: the "
    "engine chooses the design of j. Or install that join as a query of its own."
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"design": "cascade"}, "the design cascade"),
        ({"probe_order": "fixed"}, "a probe order"),
        ({"stash": 5}, "a stash"),
    ],
)
def test_the_join_of_a_derived_stream_takes_no_design(
    engine: str, asked: dict[str, Any], what: str
) -> None:
    message = f"{what} is asked for, and the query joins fewer than three streams: {DERIVED}"
    with ENGINES[engine]() as opened:
        opened.sql(f"{THREE}; CREATE STREAM j AS {QUERY}; CREATE STREAM k AS SELECT k FROM j")
        for stream in "jk":
            for refused in (opened.install, opened.explain):
                with pytest.raises(InputError) as error:
                    refused(f"SELECT k FROM {stream}", **asked)
                assert str(error.value) == message
        opened.install(f"SELECT k FROM {stream}", design="auto")
        opened.install(QUERY, **{"design": "stashed"} if "stash" in asked else asked)


def test_a_script_without_such_a_join_has_no_design() -> None:
    script = "stream R (x int32)\ninstall q: SELECT x FROM R\nend\n"
    with pytest.raises(ScriptError) as error:
        replay_text(script, Engine(compile_predicates=False), flow=FlowChoice(design="linear"))
    assert str(error.value) == (
        "line 2: the design linear is asked for, and the query joins fewer than three streams\n"
        "  install q: SELECT x FROM R\n"
        "Leave the design out; cores share a join of two streams by a flow (flow=, --flow)."
    )
