"""Probe orders: what they cost to make."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.program.choose import probe_order
from penstock.program.choose.probe_order import JoinTerms
from penstock.sql.expressions import Expression, sides


def test_making_all_orders_reads_each_term_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the streams has an order of as many stages, and each asks for all the terms."""
    streams = 24
    calls = 0

    def counted(expression: Expression) -> frozenset[int]:
        nonlocal calls
        calls += 1
        return sides(expression)

    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM A (k BIGINT)")
        joins = " ".join(
            f"JOIN A [ROWS 1] AS a{i} ON a{i}.k = a{i - 1}.k" for i in range(1, streams)
        )
        query = engine.install(f"SELECT 1 AS one FROM A [ROWS 1] AS a0 {joins}")
        (join,) = query.program.joins
        monkeypatch.setattr(probe_order, "sides", counted)
        terms = JoinTerms(join)
        orders = [probe_order.probe_order(join, terms, origin) for origin in range(streams)]
    assert all(len(order.stages) == streams - 1 for order in orders)
    assert calls < 10 * streams**2
