"""Probe orders that are revised while a join runs: better ones, and the same rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import tuning
from penstock.blocks.multiway.order_revision import OrderRevision
from penstock.streams.events import Tuples

STAR = """SELECT a.t AS a, b.t AS b, c.t AS c, d.t AS d FROM A [ROWS 60] a
    JOIN B [ROWS 60] b ON a.x = b.x JOIN C [ROWS 60] c ON a.y = c.y
    JOIN D [ROWS 60] d ON a.z = d.z"""
VALUES = {"x": 4, "y": 15, "z": 300}


def batches(seed: int, count: int) -> list[Tuples]:
    chance = np.random.default_rng(seed)
    found = []
    for stream in "ABCD":
        columns = {name: chance.integers(0, most, count) for name, most in VALUES.items()}
        batch = pa.RecordBatch.from_pydict({"t": np.arange(count), **columns})
        found.append(Tuples(stream, batch))
    return found


def run(count: int, rounds: int, **constants: float) -> tuple[list[Any], Any, str]:
    with tuning.given(**constants), ps.connect("local", compile_predicates=False) as engine:
        for stream in "ABCD":
            engine.sql(f"CREATE STREAM {stream} (t BIGINT, x BIGINT, y BIGINT, z BIGINT)")
        query = engine.install(STAR)
        rows: list[Any] = []
        for number in range(rounds):
            engine.feed(batches(number, count))
            rows += [tuple(row.values()) for row in query.rows().to_pylist()]
        return rows, query.metrics(), str(query.explain())


@pytest.mark.long
def test_the_most_selective_join_comes_first() -> None:
    as_in_from, before, told = run(40, 12, first_order_revision=1 << 40)
    assert "measured with" not in told
    assert before["probe_orders"][1].startswith(
        "probe order of B (2): A (1) by an equality, then C (3) by an equality, then D (4)"
    )
    rows, after, told = run(40, 12, first_order_revision=100, order_sample=32)
    assert rows == as_in_from
    assert len(rows) > 20
    starts = (
        "probe order of A (1): D (4) by an equality (0.",
        "probe order of B (2): A (1) by an equality (",
        "probe order of C (3): A (1) by an equality (",
        "probe order of D (4): A (1) by an equality (0.",
    )
    for line, start in zip(after["probe_orders"], starts, strict=True):
        assert line.startswith(start)
        assert line.endswith("; measured with 32 tuples")
        assert line in told.splitlines()
    second = [line.split(", then ")[1][:5] for line in after["probe_orders"]]
    assert second == ["C (3)", "D (4)", "D (4)", "C (3)"]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_rows_do_not_depend_on_when_orders_are_revised(count: int) -> None:
    plain, _, _ = run(count, max(4, 120 // count), first_order_revision=1 << 40)
    often = {"first_order_revision": 1, "smallest_order_sample": 1, "order_sample": 3}
    found, _, told = run(count, max(4, 120 // count), **often, last_order_revision=2)
    assert found == plain
    assert "measured with" in told


def test_a_stream_whose_arrivals_match_little_keeps_its_order() -> None:
    """The first look is always taken, since nothing is known before; here no window has a tuple."""
    few: Any = SimpleNamespace(ranks=SimpleNamespace(tuples=(np.arange(9), np.arange(7))))
    with tuning.given(first_order_revision=9, last_order_revision=9):
        revision = OrderRevision(2)
        assert revision.due(few, [0, 0], [0, 0]) == [0]  # of the other there are too few
        assert revision.due(few, [8, 0], [7, 0]) == []  # fewer intermediate results than arrivals
        assert revision.due(few, [17, 0], [20, 0]) == [0]
        assert revision.due(few, [17, 0], [20, 0]) == [0]
