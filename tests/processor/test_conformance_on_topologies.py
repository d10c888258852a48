"""The scripts of tests/conformance that fit FQP mean the same on topologies, on both engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.engines.spark.batched import feed_all, lines_of, recorded
from tests.engines.spark.in_process import Cluster, connected

from penstock.engines.local.engine import Engine
from penstock.errors import ScriptError
from penstock.testing import replay_text, run_on_oracle

FOLDER = Path(__file__).parents[1] / "conformance"
SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.flow"))}
FITTING = (
    *("case-of-names", "change-predicate", "change-projection", "change-selection"),
    *("change-window-larger", "dead-value-does-not-fit", "derived-both-sides"),
    *("derived-count-window", "derived-join", "derived-selection-projection"),
    *("expression-case-coalesce", "expression-cast", "expression-coercion", "expression-decimals"),
    *("expression-division", "expression-in-between", "expression-intervals", "expression-like"),
    *("expression-overflow", "expression-rounding", "expression-string-functions"),
    *("expression-strings", "expression-times", "install-mid-stream", "join-comma"),
    *("join-inner-any-predicate", "join-self", "nan", "negative-zero", "null-comparisons"),
    *("null-logic", "order-across-arrivals", "select-star", "select-where", "window-now"),
    *("window-per-query", "window-rows-one", "window-rows-zero", "window-rows"),
    *("window-where-does-not-count",),
)
"""Those of selections, projections, and inner joins of two streams over count windows."""
MISFIT = re.compile(
    "does not fit FQP: its blocks select, project, and join two streams"
    "|has no largest number of tuples, and the blocks of FQP have room for a number of them"
)
NO_ROOM = re.compile(r"needs a (join )?block with|needs a window of|which no branch makes together")
LARGE = "fqp:chain:6:64"


@pytest.mark.product(1, by="name")
@pytest.mark.parametrize("batch", (1, 1000))
@pytest.mark.parametrize("topology", (LARGE, "fqp:parallel:6:64", "fqp:partial:2x3:64"))
@pytest.mark.parametrize("name", FITTING)
def test_what_fits_meets_its_expectations(name: str, topology: str, batch: int) -> None:
    engine = Engine(topology=topology, compile_predicates=False)
    try:
        result = replay_text(SCRIPTS[name], engine, batch)
    except ScriptError as error:
        assert topology != LARGE
        assert NO_ROOM.search(str(error))
        return
    assert (result.failures, result.lines) == ([], run_on_oracle(SCRIPTS[name]).lines)


def test_what_does_not_fit_is_refused_with_the_operator_or_the_window() -> None:
    for name in SCRIPTS.keys() - set(FITTING):
        with pytest.raises(ScriptError) as caught:
            replay_text(SCRIPTS[name], Engine(topology=LARGE, compile_predicates=False), 1000)
        assert MISFIT.search(str(caught.value)), name


@pytest.mark.product(2)
@pytest.mark.parametrize("cores", (1, 2))
@pytest.mark.parametrize("start", range(4))
def test_what_fits_means_the_same_in_the_cores_of_spark(start: int, cores: int) -> None:
    expected = {name: recorded(SCRIPTS[name]) for name in FITTING[start::4]}
    options = {"cores": cores, "rows_per_trigger": 30, "compile_predicates": False}
    with connected(Cluster(eager=True), topology="fqp:partial:2x6:64", **options) as engine:
        fed = feed_all(engine, [events for events, _ in expected.values()], sizes=[3, 1, 4])
        for (name, (_, lines)), one in zip(expected.items(), fed, strict=True):
            assert lines_of(one) == lines, name
