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
from penstock.engines.spark.flow import DESIGNS_NOT_HERE
from penstock.errors import InputError, ScriptError
from penstock.program.choose.flow import INEXACT
from penstock.program.isa.flow import DESIGNS, FlowChoice
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
        if joined > 2 and engine == "spark" and design in DESIGNS_NOT_HERE:
            error = (
                f"the design {design} cannot run on Spark: {DESIGNS_NOT_HERE[design]}",
                f"Ask for the design parallel, mjoin, stashed, circular or linear, or {here}",
            )
        elif joined > 2 and design not in ("auto", "mjoin") and SPECIAL.search(step.sql):
            kind = SPECIAL.findall(step.sql)[0].lower()
            error = (
                f"the design {design} does not offer {kind} joins among three and more streams",
                "Ask for the design mjoin, or leave it out.",
            )
        elif joined > 3 and design == "stashed":
            error = (
                f"the design stashed joins three streams, and the query joins {joined}",
                "Ask for the design circular, or leave the design out.",
            )
        if error is not None:
            return str(ScriptError.at_line(step.line.number, step.line.text, *error))
    return None


EXACT = [design for design in DESIGNS if design != INEXACT]


@pytest.mark.product(6, by="path")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("design", EXACT)
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
        ({}, "design mjoin on 1 core: one core joins 3 streams"),
        (
            {"cores": 2},
            "design shared on 2 cores: 2 cores are asked for, and with it they share the windows",
        ),
        (
            {"cores": 2, "branching": 2},
            "design parallel on 2 cores: a branching is asked for, and it has the tree that "
            "branches",
        ),
        ({"design": "parallel", "cores": 3}, "design parallel on 3 cores: asked for"),
        (
            {"design": "stashed"},
            "stash of 9 pairs of A (1) and B (2): without estimates, the pair that the closest "
            "condition links",
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
            "unknown design 'ring'\nWrite one of: auto, mjoin, shared, parallel, stashed, "
            "circular, linear, parallel-as-published.",
        ),
        (
            "SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k = b.k",
            {"design": "circular"},
            "the design circular is asked for, and the query joins no three streams\n"
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


def test_a_script_without_such_a_join_has_no_design() -> None:
    script = "stream R (x int32)\ninstall q: SELECT x FROM R\nend\n"
    with pytest.raises(ScriptError) as error:
        replay_text(script, Engine(compile_predicates=False), flow=FlowChoice(design="linear"))
    assert str(error.value) == (
        "line 2: the design linear is asked for, and the query joins no three streams\n"
        "  install q: SELECT x FROM R\n"
        "Leave the design out; cores share a join of two streams by a flow (flow=, --flow)."
    )
