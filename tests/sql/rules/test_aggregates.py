"""The rewrite rules on queries with an aggregate or an order."""

from __future__ import annotations

import pytest

from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.expressions import TRUE, Column, Expression, walk
from penstock.sql.parse.parser import parse, parse_query
from penstock.sql.parse.statements import CreateStream
from penstock.sql.plan import Aggregate, Join, Plan
from penstock.sql.rules import rewrite
from penstock.streams.schema import Stream

STREAMS = """
CREATE STREAM R (id int64, x int32, y double, name string, t int64);
CREATE STREAM S (id int64, a int32, z double, word string, ts int64);
"""
JOIN = "FROM R [ROWS 9] AS r {} S [ROWS 9] AS s ON r.id = s.id"


def bound(sql: str) -> Plan:
    found = [s.stream for s in parse(STREAMS) if isinstance(s, CreateStream)]
    streams = [Stream.of(s.name, s.schema, bounded=True) for s in found]
    return bind(parse_query(sql), Catalog(streams))


def aggregate_of(plan: Plan) -> Aggregate:
    source = plan.selects[0].source
    assert isinstance(source, Aggregate)
    return source


def indices(*expressions: Expression) -> list[str]:
    nodes = [node for expression in expressions for node in walk(expression)]
    return [f"{node.side}.{node.index}" for node in nodes if isinstance(node, Column)]


def test_where_goes_below_an_aggregate_and_having_stays() -> None:
    plan = rewrite(
        bound(
            f"SELECT s.word, COUNT(*) {JOIN.format('JOIN')} WHERE r.x > 1 AND s.a < r.x "
            "GROUP BY s.word HAVING COUNT(*) > 3"
        )
    )
    aggregate = aggregate_of(plan)
    assert isinstance(aggregate.source, Join)
    assert aggregate.where == TRUE
    assert [str(f) for f in aggregate.source.filters] == ["(r.x > 1)", "True"]
    assert str(aggregate.source.compiled) == "((r.id = s.id) AND (s.a < r.x))"
    assert str(plan.selects[0].where) == "(COUNT(*) > 3)"


@pytest.mark.parametrize("kind", ["LEFT JOIN", "FULL JOIN", "ANTI JOIN"])
def test_where_stays_after_other_joins(kind: str) -> None:
    aggregate = aggregate_of(rewrite(bound(f"SELECT COUNT(*) {JOIN.format(kind)} WHERE r.x > 1")))
    assert isinstance(aggregate.source, Join)
    assert str(aggregate.where) == "(r.x > 1)"
    assert aggregate.source.filters == (TRUE, TRUE)
    assert aggregate.source.columns == ((1,), ())
    assert indices(aggregate.where) == ["0.0"]


def test_a_join_hands_on_what_an_aggregate_reads() -> None:
    plan = rewrite(
        bound(
            f"SELECT s.word, SUM(r.y) FILTER (WHERE s.a > 1), MAX(r.x) {JOIN.format('JOIN')} "
            "GROUP BY s.word, r.x + 1"
        )
    )
    aggregate = aggregate_of(plan)
    assert isinstance(aggregate.source, Join)
    assert aggregate.source.columns == ((1, 2), (1, 3))
    first, second = aggregate.calls
    assert first.argument is not None and second.argument is not None
    assert indices(first.argument, first.condition, second.argument) == ["0.1", "1.0", "0.0"]
    assert indices(*(key.expression for key in aggregate.keys)) == ["1.1", "0.0"]


def test_counting_pairs_needs_no_column() -> None:
    aggregate = aggregate_of(rewrite(bound(f"SELECT COUNT(*) {JOIN.format('JOIN')}")))
    assert isinstance(aggregate.source, Join)
    assert aggregate.source.columns == ((), ())


def test_the_where_of_a_stream_stays_in_its_aggregate() -> None:
    plan = bound("SELECT COUNT(*) FROM R [RANGE 5 SLIDE 5 WATTR t] WHERE x > 1")
    assert aggregate_of(rewrite(plan)) == aggregate_of(plan)


def test_what_only_having_reads_is_not_handed_on() -> None:
    plan = rewrite(bound("SELECT MAX(x), name FROM R GROUP BY name HAVING COUNT(*) > 1"))
    (select,) = plan.selects
    assert select.columns_read == (0, 1)
    assert indices(*(c.expression for c in select.columns)) == ["0.1", "0.0"]
    assert indices(select.where) == ["0.2"]


def test_what_the_order_of_groups_reads_is_handed_on() -> None:
    plan = rewrite(bound("SELECT name FROM R GROUP BY name ORDER BY MAX(y), COUNT(*)"))
    assert plan.selects[0].columns_read == (0, 1, 2)
    assert indices(*(key.expression for key in plan.sort)) == ["0.1", "0.2"]


def test_rows_that_are_held_until_the_end_keep_all_columns() -> None:
    plan = bound("SELECT name FROM R WHERE id > 1 ORDER BY y, x + 1")
    assert rewrite(plan) == plan


def test_pairs_that_are_held_until_the_end_keep_all_columns() -> None:
    plan = bound(f"SELECT r.name {JOIN.format('JOIN')} ORDER BY s.z, r.name")
    join = rewrite(plan).selects[0].source
    assert isinstance(join, Join)
    assert join.columns is None
    assert rewrite(plan).sort == plan.sort


@pytest.mark.parametrize("order", ["ORDER BY n", "LIMIT 3"])
def test_what_tells_windows_apart_is_handed_on(order: str) -> None:
    sql = "SELECT COUNT(*) AS n FROM R [RANGE 5 SLIDE 5 WATTR t]"
    (select,) = rewrite(bound(f"{sql} {order}")).selects
    assert select.columns_read == (0, 2)
    assert aggregate_of(bound(sql)).schema.names[2] == "window_end"
    assert rewrite(bound(sql)).selects[0].columns_read == (0,)


def test_the_order_of_a_union_is_left_alone() -> None:
    plan = bound("SELECT id, x FROM R UNION ALL SELECT id, a FROM S ORDER BY 2 LIMIT 1")
    assert rewrite(plan).sort == plan.sort
