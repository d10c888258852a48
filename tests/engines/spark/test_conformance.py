"""Every script means the same on Spark, with one core and with several; so do random ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from tests.engines.spark.batched import feed_all, lines_of, recorded
from tests.random_scripts import TIMES, Step, scripts
from tests.test_random_scripts import SIZES, as_events, check, collected, on_oracle

from penstock.engines.spark.engine import Engine
from penstock.engines.spark.session import Session

FOLDER = Path(__file__).parents[2] / "conformance"
SCRIPTS = sorted(FOLDER.glob("*.flow"))
ROWS_PER_TRIGGER = 30
"""So few that many scripts are cut by the end of a micro-batch."""

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module", params=[1, 2], ids=["one core", "two cores"])
def engine(request: pytest.FixtureRequest, session: Session) -> Iterator[Engine]:
    options = {"cores": request.param, "rows_per_trigger": ROWS_PER_TRIGGER}
    with Engine(session.spark, compile_predicates=False, **options) as opened:
        yield opened


@pytest.mark.product(1)
def test_every_script_meets_its_expectations(engine: Engine) -> None:
    some = SCRIPTS if engine.cores > 1 else SCRIPTS[::3]
    expected = {path.stem: recorded(path.read_text(encoding="utf-8")) for path in some}
    fed = feed_all(engine, [events for events, _ in expected.values()], sizes=[3, 1, 4])
    found = {name: lines_of(one) for name, one in zip(expected, fed, strict=True)}
    for name, (_, lines) in expected.items():
        assert found[name] == lines, name
    assert engine.batches > 5


TIMED = st.tuples(
    st.booleans().flatmap(lambda derived: scripts(derived=derived)),
    st.sampled_from(("int64", "int64", *sorted(TIMES))),
)


@pytest.mark.product(1)
# A failing list of scripts is not made smaller: on Spark that would take an hour, and the same
# scripts fail in test_in_process.py, if the fault is not Spark's.
@settings(max_examples=2, phases=[Phase.generate])
@given(st.lists(TIMED, min_size=12, max_size=12), SIZES)
def test_rows_of_random_scripts_are_the_oracles(
    engine: Engine, several: list[tuple[list[Step], str]], sizes: list[int]
) -> None:
    events = [as_events(steps, TIMES[times]) for steps, times in several]
    fed = feed_all(engine, events, sizes)
    for number, (steps, times) in enumerate(several):
        note(f"script {number}, times {times}")
        expected = on_oracle(steps, TIMES[times])
        check(steps, expected, collected(fed[number].handles, fed[number].first))
