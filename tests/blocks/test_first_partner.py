"""SEMI and ANTI joins: the oracle's rows, and one pair of a left tuple instead of all."""

from __future__ import annotations

import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_scripts import Step
from tests.test_random_scripts import compare, on_engine, on_oracle
from tests.thresholds import low_thresholds

import penstock as ps
from penstock import tuning
from penstock.blocks.join import first_partner

KINDS = ("SEMI", "ANTI")
INDEXED = (
    "r.x = s.a",
    "r.s = s.n",
    "r.x = s.a AND r.y < s.b",
    "r.x BETWEEN s.a - 1 AND s.a + 1",
    "r.x BETWEEN s.a - 1 AND s.a + 1 AND r.y BETWEEN s.b - 1 AND s.b + 1",
    "r.x < s.a",
    "r.x > 0 AND r.x = s.a",
)
LOOPS = ("TRUE", "r.x <> s.a", "r.x + s.a = 3", "r.x = s.a OR r.y > s.b")
RESIDUAL = (
    "r.x = s.a AND r.s || s.n LIKE 'a%'",
    "r.x <= s.a AND UPPER(r.s || s.n) = 'AB'",
    "r.s || s.n LIKE '%b%'",
    "s.a > 0 AND r.y / s.b > 0.5 AND r.x BETWEEN s.a - 1 AND s.a + 1",
)
OVERFLOWS = ("r.x + s.a > 2", "r.x = s.a AND r.x + s.a <> 4")
WINDOWS = (
    ("[ROWS 1]", "[ROWS 5]", "[ROWS 30]", "[UNBOUNDED]"),
    ("[RANGE 3 WATTR t SLACK 2]", "[RANGE 20 WATTR t SLACK 9]", "[RANGE 8 WATTR t]"),
)


def script(seed: int) -> list[Step]:
    """Many tuples of few values, with changes, punctuations and sometimes an end."""
    draw = random.Random(seed)
    predicates = INDEXED + LOOPS + RESIDUAL + OVERFLOWS
    kinds = draw.choice(WINDOWS), draw.choice(WINDOWS)
    join = draw.choice(KINDS)
    other, also = draw.choice((("S", predicates), ("S", predicates), ("R", ("r.x = s.x", "TRUE"))))

    def text() -> str:
        left, right = (draw.choice(kind) for kind in kinds)
        if "UNBOUNDED" in left + right:
            left = right = "[UNBOUNDED]" if kinds[0] is kinds[1] else "[RANGE 9 WATTR t]"
        if kinds[0] is not kinds[1]:
            left, right = (draw.choice(kind[:3]) for kind in kinds)
        on = draw.choice(also)
        return f"SELECT r.* FROM R {left} AS r {join} JOIN {other} {right} AS s ON {on}"

    first = text()
    steps = [Step("install", "found", first)]
    values = draw.choice(((1,), (0, 1, 2, 3), (0, 1, 2, 3, None), tuple(range(20))))
    most = 2**31 - 1 if draw.random() < 0.2 else 3
    now = 0
    for _ in range(draw.randrange(10, 160)):
        stream = draw.choice("RS")
        now += draw.choice((0, 0, 0, 1, 2))
        chance = draw.random()
        if chance < 0.02:
            steps.append(Step("punctuate", stream, now - 2))
        elif chance < 0.04 and "UNBOUNDED" not in first:
            changed = text()
            if "UNBOUNDED" not in changed:
                steps.append(Step("change", "found", changed))
        x = most if draw.random() < 0.02 else draw.choice(values)
        y, word = draw.choice((0.0, 1.0, 2.0, None)), draw.choice(("a", "b", "", None))
        time = now - draw.choice((0, 0, 0, 1, 4))
        steps.append(Step("tuple", stream, (time, x, y, word, decimal.Decimal("0.5"))))
    if draw.random() < 0.5:
        steps.append(Step("end"))
    return steps


SEEDS = st.integers(0, 2**32)
SIZES = st.lists(st.sampled_from((1, 3, 20, 200)), min_size=1, max_size=3)


@examples(300)
@given(SEEDS, SIZES, st.sampled_from((1, 7, 1000)), st.booleans(), st.sampled_from((1, 5, 1 << 20)))
def test_rows_are_the_oracles(
    seed: int, sizes: list[int], batch_rows: int, indexed: bool, pairs: int
) -> None:
    thresholds = low_thresholds if indexed else tuning.given
    with pytest.MonkeyPatch.context() as patch, thresholds(pairs_per_step=pairs):
        patch.setattr(first_partner, "SMALL_PART", 2)
        patch.setattr(first_partner, "MORE_PARTNERS", 2)
        compare(script(seed), sizes, batch_rows=batch_rows, compile_predicates=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on", [INDEXED[2], INDEXED[4], LOOPS[2], RESIDUAL[0]])
@pytest.mark.parametrize("tail", [4, 1024])
def test_rows_of_compiled_kernels_are_the_oracles(kind: str, on: str, tail: int) -> None:
    draw = random.Random(3)
    window = "[RANGE 60 WATTR t SLACK 3]"
    text = f"SELECT r.* FROM R {window} AS r {kind} JOIN S {window} AS s ON {on}"
    steps = [Step("install", "found", text)]
    for now in range(400):
        row = now // 2 - draw.choice((0, 0, 2)), draw.randrange(6), draw.random() * 9
        steps.append(Step("tuple", draw.choice("RS"), (*row, draw.choice("abc"), None)))
    with tuning.given(longest_tail=tail):
        assert on_engine(steps, [150], batch_rows=1000) == on_oracle(steps)


# -- costs -------------------------------------------------------------------------------


def metrics_of(
    kind: str, on: str, count: int, batch: int, windows: str = "[ROWS 100000]", keys: int = 1
) -> dict[str, Any]:
    """The metrics after ``count`` tuples of each side with a few keys, or with one."""
    engine = ps.connect("local", buffer_rows=1 << 30)
    engine.sql("CREATE STREAM R (k BIGINT, x BIGINT); CREATE STREAM S (k BIGINT, x BIGINT)")
    query = engine.install(f"SELECT r.k FROM R {windows} AS r {kind} JOIN S {windows} AS s ON {on}")
    table = pa.table({"k": np.arange(count) % keys, "x": np.arange(count)})
    # The right side comes after the left one at first, then before it.
    for start in range(0, count, 2 * batch):
        for name, first in (("R", start), ("S", start), ("S", start + batch), ("R", start + batch)):
            engine.push(name, table.slice(first, batch))
    return query.metrics()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [50, 5_000])
@pytest.mark.parametrize(
    ("on", "windows", "keys"),
    [
        ("r.k = s.k", "[ROWS 100000]", 1),
        ("r.k = s.k", "[ROWS 2000]", 1),
        ("r.k = s.k", "[ROWS 100000]", 10),
        ("r.k BETWEEN s.k - 1 AND s.k + 1", "[ROWS 100000]", 1),
        ("r.k BETWEEN s.k - 1 AND s.k + 1", "[ROWS 100000]", 30),
        ("r.k + s.k = 0", "[ROWS 100000]", 1),
        ("TRUE", "[ROWS 100000]", 1),
    ],
)
def test_one_of_many_partners_is_looked_for(
    kind: str, batch: int, on: str, windows: str, keys: int
) -> None:
    """Each tuple has thousands of partners; it is compared with some tens."""
    count = 20_000
    metrics = metrics_of(kind, on, count, batch, windows, keys)
    assert metrics["matches"] > count // 2
    assert metrics["comparisons"] < 100 * 2 * count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [50, 5_000])
def test_a_residual_is_evaluated_on_few_pairs(kind: str, batch: int) -> None:
    """Every evaluation counts as a failure: it divides by zero, and is true all the same."""
    count = 10_000
    on = "r.k = s.k AND (r.x / (s.k - s.k) > 0 OR r.x + s.x >= 0 OR ABS(r.x) = s.x / 7)"
    metrics = metrics_of(kind, on, count, batch)
    assert metrics["matches"] == count
    assert 0 < metrics["expression_failures"] < 20 * count


def test_partners_that_a_residual_refuses_are_passed_over() -> None:
    """The only pair that passes is the last of a thousand."""
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (k BIGINT, w VARCHAR); CREATE STREAM S (k BIGINT, w VARCHAR)")
    query = engine.install(
        "SELECT r.w FROM R [ROWS 9] AS r SEMI JOIN S [ROWS 2000] AS s "
        "ON r.k = s.k AND r.w || s.w = 'right'"
    )
    words = ["wrong"] * 999 + ["ght"]
    engine.push("S", pa.table({"k": [1] * 1000, "w": words}))
    engine.push("R", [{"k": 1, "w": "ri"}, {"k": 1, "w": "le"}])
    assert query.rows().to_pylist() == [{"w": "ri"}]
    assert query.metrics()["matches"] == 1


@pytest.mark.parametrize("flow", ["three-step", "splitjoin"])
def test_matches_are_left_tuples_with_a_partner(flow: str) -> None:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (k BIGINT); CREATE STREAM S (k BIGINT)")
    query = engine.install(
        "SELECT r.k FROM R [ROWS 9] AS r ANTI JOIN S [ROWS 9] AS s ON r.k = s.k",
        flow=flow,
        **({"cores": 2} if flow == "splitjoin" else {}),
    )
    engine.push("R", [{"k": 1}, {"k": 2}, {"k": 1}])
    engine.push("S", [{"k": 1}, {"k": 1}, {"k": 3}])
    engine.end()
    assert query.metrics()["matches"] == 2
    assert query.rows().to_pylist() == [{"k": 2}]
    engine.close()
