"""A topology on Spark: one streaming query, on which queries come, change and go, and go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.random_topology import blocks_to_span
from tests.steps import Step
from tests.test_random_scripts import as_events, collected, in_any_order, on_oracle

import penstock as ps
from penstock.engines.spark.session import Session

pytestmark = pytest.mark.xdist_group("spark")

TOPOLOGY = blocks_to_span(2)
SPANNING = "SELECT r.t AS r, s.t AS s FROM R [ROWS {}] AS r JOIN S [ROWS 4] AS s ON r.x {} s.a"
ADULTS = "SELECT r.t AS d, s.t AS s FROM D [ROWS {}] AS r JOIN S [ROWS 3] AS s ON r.x < s.a"


def tuples(start: int, stop: int) -> list[Step]:
    """Tuples of both streams in turn."""
    return [
        Step("tuple", "RS"[time % 2], (time, time * 7 % 5, time / 4, "ab"[time % 3 // 2], None))
        for time in range(start, stop)
    ]


FIRST = [
    Step("derive", "D", "SELECT r.* FROM R AS r WHERE r.x >= 1"),
    Step("install", "few", "SELECT r.t, r.s FROM D AS r WHERE r.s = 'a' OR r.y > 3"),
    Step("install", "joined", ADULTS.format(2)),
    Step("install", "wide", SPANNING.format(6, "=")),
    Step("install", "twin", SPANNING.format(4, ">")),
    Step("install", "far", SPANNING.format(5, "=")),
    *tuples(0, 30),
    Step("change", "joined", ADULTS.format(3)),
    Step("change", "wide", SPANNING.format(5, "<=")),
    Step("drop", "few"),
    *tuples(30, 60),
    Step("install", "late", "SELECT r.t, r.x * 2 AS x FROM R AS r WHERE r.x <> 3"),
    Step("change", "D", "SELECT r.* FROM R AS r WHERE r.x >= 2"),
    *tuples(60, 90),
]
SECOND = [
    Step("change", "late", "SELECT r.s FROM R AS r WHERE r.x = 3"),
    Step("drop", "joined"),
    Step("install", "again", ADULTS.format(3)),
    *tuples(90, 120),
    Step("change", "wide", SPANNING.format(4, "<>")),
    Step("change", "far", SPANNING.format(6, ">=")),
    *tuples(120, 150),
]
PLACES = {"D": (1, 8), "late": (1,), "wide": (3, 4), "far": (9, 10)}
"""Of branches 1 to 7 and 8 to 14; each is in a core of its own."""


def places(engine: Any) -> dict[str, tuple[int, ...]]:
    return {name: query.program.flow.blocks for name, query in engine.queries.items()}


def run_of(engine: Any) -> str:
    """The run of its one streaming query, which is at work."""
    query = engine._resident._query
    assert query.isActive
    assert str(query.runId) == engine.run_id
    return str(query.runId)


def test_queries_come_change_and_go_in_one_streaming_query_that_restarts_with_them(
    session: Session, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path, "cores": 2, "topology": TOPOLOGY}
    steps = FIRST + SECOND
    rows: dict[str, list[Any]] = {step.subject: [] for step in steps if step.verb == "install"}
    everything, cut = as_events(steps), len(as_events(FIRST))
    for events in (everything[:cut], everything[cut:]):
        with ps.connect(session.spark, compile_predicates=False, **options) as engine:
            run = run_of(engine)
            for start in range(0, len(events), 40):
                engine.feed(events[start : start + 40])
                engine.wait()
                assert run_of(engine) == run
            assert places(engine).items() >= PLACES.items()
            found, *letters = collected([*engine.dropped, *engine.queries.values()], 0)
        assert not any(each for one in letters for each in one.values())
        for name in found.keys() & rows.keys():
            rows[name] += found[name]
    expected, *_ = in_any_order(on_oracle(steps))
    for name, each in rows.items():
        assert len(each) > 5, name
        assert sorted(each, key=repr) == expected[name], name
