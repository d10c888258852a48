"""Every script means the same whatever flow shares its joins, in every order that the flow offers.

A script goes through every flow, every order that the flow offers, and every kernel that can serve
its joins; the number of events that are handed in at a time changes from one to the next. make test
draws some of a script's flows and orders, make test-all takes all.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.flows.ways import WAYS, Way
from tests.thresholds import low_thresholds

from penstock.engines.local.engine import Engine
from penstock.errors import ScriptError
from penstock.program.isa.flow import FLOWS, FlowChoice
from penstock.program.isa.kernels import JOIN_KERNELS
from penstock.testing import ReplayResult, replay_text, run_on_oracle
from penstock.testing.replay import streams_joined
from penstock.testing.script import InstallStep, parse_script

SCRIPTS = sorted((Path(__file__).parents[1] / "conformance").glob("*.flow"))
BATCHES = (1, 1000)
SPECIAL = re.compile(r"\b(LEFT|RIGHT|FULL|SEMI|ANTI) JOIN\b")
ORDERED = re.compile(r"\b(FIRST|LAST)\(|\bORDER BY\b|\bLIMIT\b")
JOIN = re.compile(r"\bJOIN\b|AS \w+, \w+ \[")


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


@functools.cache
def meant(script: str) -> ReplayResult:
    return run_on_oracle(script)


@functools.cache
def joins(script: str) -> bool:
    """Whether a query of the script has a join, which a flow can share."""
    steps = parse_script(script)
    return any(isinstance(step, InstallStep) and JOIN.search(step.sql) for step in steps)


@functools.cache
def kernels(script: str) -> list[str | None]:
    """The kernels that can serve every join of the script."""
    serving: list[str | None] = [None]
    for kernel in JOIN_KERNELS if joins(script) else ():
        try:
            replay_text(script, Engine(compile_predicates=False), 1000, kernel=kernel)
        except ScriptError as refused:
            assert f"the kernel {kernel!r} cannot serve the join predicate" in str(refused)
            continue
        serving.append(kernel)
    return serving


def refusal(script: str, way: Way) -> str | None:
    """The error for the first query that the flow cannot run."""
    for step in parse_script(script):
        text = step.sql if isinstance(step, InstallStep) else ""
        several = streams_joined(text) if text else 0
        if several > 2 and way.flow != "three-step":
            instead = (
                "for a join of three and more streams ask for a design: design='shared' "
                "(--design shared)"
            )
            if special := SPECIAL.search(text):
                kind = special[1].lower()
                instead = f"one core runs {kind} joins among three and more streams"
            error = ScriptError.at_line(
                step.line.number,
                step.line.text,
                f"the flow {way.flow} shares joins of two streams, and the query joins {several}",
                f"Leave the flow out; {instead}.",
            )
            return str(error)
        special = SPECIAL.search(text)
        if special is not None and not way.every_kind:
            error = ScriptError.at_line(
                step.line.number,
                step.line.text,
                f"the flow {way.flow} does not offer {special[1].lower()} joins: no core of it "
                "knows whether a tuple has found a partner in another",
                "Ask for one of the flows three-step and splitjoin.",
            )
            return str(error)
        ordered = JOIN.search(text) and ORDERED.search(text)
        if ordered and not FLOWS[way.flow].ordered:
            error = ScriptError.at_line(
                step.line.number,
                step.line.text,
                f"the flow {way.flow} offers no order, and FIRST, LAST, ORDER BY and LIMIT over a "
                "join take its rows in the order of their arrival",
                "Ask for the flow splitjoin.",
            )
            return str(error)
    return None


def cases() -> Iterator[Any]:
    """Scripts and ways; scripts without a join can have no flow, only cores."""
    numbers = itertools.count()
    for path in SCRIPTS:
        script = path.read_text(encoding="utf-8")
        for way in WAYS if joins(script) else WAYS[1:2]:
            for order in way.orders:
                name = f"{path.stem}-{way}-{order}"
                yield pytest.param(next(numbers), script, way, order, id=name)


@pytest.mark.product(4, by="script")
@pytest.mark.parametrize("number, script, way, order", list(cases()))
def test_a_script_means_the_same(number: int, script: str, way: Way, order: str) -> None:
    refused = refusal(script, way)
    choice = way.choice() if joins(script) else FlowChoice(cores=way.cores)
    for kernel in kernels(script):
        number += 1
        batch = BATCHES[number // 2 % 2]
        case = f"kernel {kernel}, batch {batch}"
        if refused is not None:
            with pytest.raises(ScriptError) as error:
                replay_text(script, Engine(compile_predicates=False), batch, order, kernel, choice)
            assert str(error.value) == refused, case
            continue
        text = script if order == "inner" else script.replace("expect ordered", "expect")
        result = replay_text(text, Engine(compile_predicates=False), batch, order, kernel, choice)
        assert result.failures == [], case
        if order == "inner":
            assert result.lines == meant(script).lines, case
        else:
            assert sorted(result.lines) == sorted(meant(script).lines), case


@pytest.mark.parametrize("flow", ["handshake", "low-latency-handshake"])
@pytest.mark.parametrize("order", ["outer", "inner"])
def test_an_order_that_a_flow_does_not_offer_is_refused(flow: str, order: str) -> None:
    install = (
        "install q: SELECT r.x AS a, s.x AS b FROM R [ROWS 1] AS r JOIN S [ROWS 1] AS s "
        f"ON r.x = s.x EMIT ORDER {order}"
    )
    script = f"stream R (x int32)\nstream S (x int32)\n{install}\nend\n"
    with pytest.raises(ScriptError) as error:
        replay_text(script, Engine(compile_predicates=False), flow=Way(flow, 2).choice())
    assert str(error.value) == (
        f"line 3: the flow {flow} does not offer the order {order}: its rows come when two tuples "
        f"meet\n  {install}\nAsk for the order none, or for the flow splitjoin."
    )
