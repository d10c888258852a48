"""A block that is defined outside the package, in the tasks of Spark: changed and restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.own_blocks.dedup import DedupBlock
from tests.own_blocks.test_own_blocks import BY_ID, BY_X, ROWS, STREAM, found, tuples

import penstock as ps
from penstock.engines.spark.engine import Engine
from penstock.engines.spark.session import Session
from penstock.flows.make import KINDS
from penstock.sql import own_blocks

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def dedup(session: Session) -> Iterator[None]:
    ps.register_block("dedup", DedupBlock)
    yield
    KINDS.pop("dedup", None)
    own_blocks._REGISTERED.pop("dedup", None)


def test_it_runs_on_spark(dedup: None, tmp_path: Path) -> None:
    with Engine(checkpoint=tmp_path / "c") as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:3]))
        query.change(BY_X)
        engine.push("R", tuples(ROWS[3]))
        engine.wait()
        made = found(query)
    with Engine(checkpoint=tmp_path / "c") as again:
        again.push("R", tuples(*ROWS[4:]))
        again.wait()
        made += found(again.queries["q"])
    assert made == [(1, 5), (2, 6), (2, 6), (1, 7)]
