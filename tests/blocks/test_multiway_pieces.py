"""Arrivals with more combinations than a step may find: all of them, in order, piece by piece."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.random_scripts import Step
from tests.test_random_scripts import on_engine, on_oracle
from tests.thresholds import low_thresholds

import penstock as ps
from penstock import tuning

JOINS = (
    "FROM R [ROWS 5] AS a, S [ROWS 5] AS b, Q [ROWS 5] AS c WHERE a.x <= b.a",
    "FROM R [ROWS 5] AS a, S [ROWS 5] AS b, Q [ROWS 5] AS c WHERE a.x = c.c AND b.a = c.c",
    "FROM R [RANGE 6 WATTR t SLACK 3] AS a, S [RANGE 6 WATTR t SLACK 3] AS b, "
    "Q [ROWS 4] AS c WHERE a.x = b.a OR b.a = c.c",
)


@pytest.mark.parametrize("join", JOINS)
@given(seed=st.integers(0, 10**9), pairs=st.integers(1, 9), size=st.sampled_from((1, 4, 30)))
def test_rows_are_the_oracles_with_few_pairs_at_a_time(
    join: str, seed: int, pairs: int, size: int
) -> None:
    chance = random.Random(seed)
    text = f"SELECT a.t AS t0, b.t AS t1, c.t AS t2, a.x, b.a, c.c {join} EMIT ORDER inner"
    steps = [Step("install", "found", text)]
    for t in range(24):
        row = (t - chance.randint(0, 3), chance.choice((0, 1, 1, None)), 0.0, "a", None)
        steps.append(Step("tuple", chance.choice("RSQ"), row))
    expected = on_oracle(steps)
    with low_thresholds(pairs_per_step=pairs):
        assert on_engine(steps, [size], compile_predicates=False) == expected


@tuning.given(pairs_per_step=500)
def test_a_hub_at_the_end_of_from_is_probed_first() -> None:
    """In the order of FROM the first stages would be cross products of 60 by 60 by 60."""
    columns: dict[str, Any] = {name: pa.int64() for name in ("id", "x", "y", "z")}
    text = (
        "SELECT b.id AS b, c.id AS c, d.id AS d FROM A [ROWS 1] AS a, B [ROWS 60] AS b, "
        "C [ROWS 60] AS c, D [ROWS 60] AS d, H [ROWS 60] AS h "
        "WHERE a.x = h.id AND b.x = h.x AND c.y = h.y AND d.z = h.z EMIT ORDER inner"
    )
    keys = [i % 6 for i in range(60)]
    table = pa.table({"id": range(60), "x": keys, "y": keys, "z": keys})
    with ps.connect("local", compile_predicates=False) as engine:
        for name in "ABCDH":
            engine.stream(name, pa.schema(columns))
        query = engine.install(text)
        for name in "BCDH":
            engine.push(name, table)
        before = query.metrics()["comparisons"]
        engine.push("A", pa.table({"id": [0], "x": [4], "y": [0], "z": [0]}))
        assert query.metrics()["comparisons"] - before < 60**3
        four = [i for i in range(60) if i % 6 == 4]
        rows = [tuple(row.values()) for row in query.rows().to_pylist()]
        assert rows == list(itertools.product(four, four, four))
