"""The rewrite rules as pairs: a query, and its rewritten predicate and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.expressions import Column, conjuncts, walk
from penstock.sql.parse.parser import parse, parse_query
from penstock.sql.parse.statements import CreateStream
from penstock.sql.plan import Aggregate, Join, Plan, Select
from penstock.sql.rules import Rule, rewrite
from penstock.sql.rules.close_equalities import close_equalities
from penstock.sql.rules.push_down_projection import push_down_projection
from penstock.sql.rules.push_down_selection import push_down_selection
from penstock.sql.rules.split_join_predicate import split_join_predicate

STREAMS = """
CREATE STREAM R (id int64, x int32, y float, name string, t timestamp, p decimal(10, 2),
                 b boolean, w decimal(20, 2), u uint64, ms timestamp(3));
CREATE STREAM S (id int64, a int32, z double, word string, ts timestamp, q decimal(8, 1),
                 c boolean, v decimal(20, 2), k uint64, sm timestamp(3));
"""
FROM = "FROM R [ROWS 9] AS r {} S [ROWS 9] AS s ON {}"


def bound(sql: str) -> Plan:
    streams = [s.stream for s in parse(STREAMS) if isinstance(s, CreateStream)]
    return bind(parse_query(sql), Catalog(streams))


def joined(plan: Plan) -> tuple[Select, Join]:
    select = plan.selects[-1]
    assert isinstance(select.source, Join)
    return select, select.source


@dataclass(frozen=True)
class Split:
    """The parts of a split predicate; an empty text means no condition."""

    left: str = ""
    right: str = ""
    compiled: str = ""
    residual: str = ""


def text(expression: object) -> str:
    """The expression without the streams' aliases: no two columns here have one name."""
    shown = re.sub(r"\b[rs]\.(?=[a-z])", "", str(expression))
    return "" if shown == "True" else shown


def split_of(join: Join) -> Split:
    return Split(*map(text, (*join.filters, join.compiled, join.residual)))


SPLITS = {
    "TRUE": Split(),
    "FALSE": Split(left="False"),
    "r.x = s.a": Split(compiled="(x = a)"),
    "r.x = s.a AND r.x > 1 AND s.a < 2": Split("(x > 1)", "(a < 2)", "(x = a)"),
    "r.b AND s.c": Split("b", "c"),
    "r.b = s.c": Split(compiled="(b = c)"),
    "r.x > 1 OR s.a > 1": Split(compiled="((x > 1) OR (a > 1))"),
    "r.x IS NULL OR s.a IS NULL": Split(compiled="(is_null(x) OR is_null(a))"),
    "r.x = 1 AND 1 = 2": Split(left="((x = 1) AND (1 = 2))"),
    "r.x = s.a AND NULL": Split(left="NULL", compiled="(x = a)"),
    "r.x BETWEEN s.a - 1 AND s.a + 1": Split(compiled="((x >= (a - 1)) AND (x <= (a + 1)))"),
    "r.x IN (1, 2)": Split(left="in(x, 1, 2)"),
    "r.x IN (s.a, 1)": Split(compiled="in(x, a, 1)"),
    "r.x + s.a > 3": Split(compiled="((x + a) > 3)"),
    "r.x / s.a > 3": Split(residual="((cast(x as double) / cast(a as double)) > 3.0)"),
    "ABS(r.x - s.a) <= 10 AND ABS(r.y - s.z) <= 10": Split(
        compiled="((abs((x - a)) <= 10) AND (abs((cast(y as double) - z)) <= 10.0))"
    ),
    # Strings have codes with equality but no order.
    "r.name = s.word": Split(compiled="(name = word)"),
    "r.name <> s.word": Split(compiled="(name <> word)"),
    "UPPER(r.name) = LOWER(s.word)": Split(compiled="(upper(name) = lower(word))"),
    "r.name < s.word": Split(residual="(name < word)"),
    "r.name LIKE s.word": Split(residual="like(name, word, '\\\\')"),
    "r.name || s.word = 'ab'": Split(residual="(concat(name, word) = 'ab')"),
    "r.name = s.word OR r.x = s.a": Split(compiled="((name = word) OR (x = a))"),
    "r.name < s.word OR r.x = s.a": Split(residual="((name < word) OR (x = a))"),
    "r.name < s.word AND r.x = s.a": Split(compiled="(x = a)", residual="(name < word)"),
    # Decimals compare as integers of one scale, while those fit 64 bits.
    "r.p = s.q": Split(compiled="(p = cast(q as decimal128(10, 2)))"),
    "r.p + s.q > 1": Split(residual="((p + q) > Decimal('1.00'))"),
    "r.w = s.v": Split(residual="(w = v)"),
    "r.u < s.k": Split(compiled="(u < k)"),
    "r.u + s.k > 1": Split(residual="((u + k) > 1)"),
    # An interval counts microseconds, so differences of other units are not computed in a kernel.
    "r.t - s.ts < INTERVAL '1' MINUTE": Split(compiled="(sub_times(t, ts) < 60000000)"),
    "r.ms - s.sm < INTERVAL '1' MINUTE": Split(residual="(sub_times(ms, sm) < 60000000)"),
    "r.t + INTERVAL '1' MINUTE > s.ts": Split(compiled="(add_duration(t, 60000000) > ts)"),
    "NOT (r.x = s.a OR r.y < s.z)": Split(
        compiled="not(((x = a) OR (cast(y as double) < z)))"
    ),
    "NOT (r.x = s.a AND r.name < s.word)": Split(residual="not(((x = a) AND (name < word)))"),
    "COALESCE(r.x, s.a) = 1": Split(residual="(coalesce(x, a) = 1)"),
    "CASE WHEN r.x > 0 THEN s.a > 0 END": Split(residual="case((x > 0), (a > 0), NULL)"),
}  # fmt: skip


@pytest.mark.parametrize("on", SPLITS)
@pytest.mark.parametrize("kind", ["JOIN", "FULL JOIN", "ANTI JOIN"])
def test_a_predicate_is_split_alike_for_every_kind_of_join(on: str, kind: str) -> None:
    columns = "r.id" if kind == "ANTI JOIN" else "r.id, s.id AS s"
    _, join = joined(rewrite(bound(f"SELECT {columns} {FROM.format(kind, on)}")))
    assert split_of(join) == SPLITS[on]


@pytest.mark.parametrize(
    ("kind", "on", "where"),
    [
        ("JOIN", "((x = a) AND (id > 5) AND (z < 1.0))", ""),
        ("LEFT JOIN", "(x = a)", "((id > 5) AND (z < 1.0))"),
        ("RIGHT JOIN", "(x = a)", "((id > 5) AND (z < 1.0))"),
        ("FULL JOIN", "(x = a)", "((id > 5) AND (z < 1.0))"),
    ],
)
def test_where_joins_the_predicate_of_an_inner_join_alone(kind: str, on: str, where: str) -> None:
    plan = bound(f"SELECT r.y {FROM.format(kind, 'r.x = s.a')} WHERE r.id > 5 AND s.z < 1.0")
    select, join = joined(push_down_selection(plan))
    assert (text(join.on), text(select.where)) == (on, where)


@pytest.mark.parametrize("kind", ["SEMI JOIN", "ANTI JOIN"])
def test_where_stays_after_semi_and_anti_joins(kind: str) -> None:
    plan = bound(f"SELECT r.y {FROM.format(kind, 'r.x = s.a')} WHERE r.id > 5")
    assert push_down_selection(plan) == plan


@pytest.mark.parametrize(
    ("sql", "columns", "outputs"),
    [
        ("SELECT r.y, r.id {JOIN} WHERE s.z > 0", ((0, 2), ()), ["0.1", "0.0"]),
        ("SELECT r.y {FULL JOIN} WHERE s.z > 0", ((2,), (2,)), ["0.0"]),
        ("SELECT s.word, r.y, s.a {FULL JOIN}", ((2,), (1, 3)), ["1.1", "0.0", "1.0"]),
        ("SELECT s.a, s.a AS b, r.id {JOIN}", ((0,), (1,)), ["1.0", "1.0", "0.0"]),
        ("SELECT 1 AS one {JOIN}", ((), ()), []),
        ("SELECT r.name {SEMI JOIN} WHERE r.x > 1", ((1, 3), ()), ["0.1"]),
        ("SELECT r.* {ANTI JOIN}", (tuple(range(10)), ()), [f"0.{i}" for i in range(10)]),
    ],
)
def test_a_join_hands_on_the_columns_that_are_read(
    sql: str, columns: tuple[tuple[int, ...], ...], outputs: list[str]
) -> None:
    kind = sql[sql.index("{") + 1 : sql.index("}")]
    plan = bound(sql.replace(f"{{{kind}}}", FROM.format(kind, "r.x = s.a")))
    select, join = joined(rewrite(plan))
    assert join.columns == columns
    read = [c.expression for c in select.columns]
    assert [f"{e.side}.{e.index}" for e in read if isinstance(e, Column)] == outputs
    # Names and types of the result are what they were.
    assert rewrite(plan).schema == plan.schema


def test_each_branch_of_a_union_is_rewritten() -> None:
    join = FROM.format("JOIN", "r.x = s.a")
    plan = rewrite(
        bound(f"SELECT id FROM R WHERE x > 1 UNION ALL SELECT r.id {join} WHERE s.a > 3")
    )
    scan, select = plan.selects
    assert text(scan.where) == "(x > 1)"
    assert text(select.where) == ""
    assert split_of(joined(plan)[1]) == Split(right="(a > 3)", compiled="(x = a)")


THREE = """
CREATE STREAM A (k int32, j int32, s string, f float, t timestamp);
CREATE STREAM B (k int32, l int64, s string, d double, t timestamp);
CREATE STREAM C (k int32, m int64, s string, g double, t timestamp);
CREATE STREAM D (k int32, n int16, s string, h double, t timestamp);
"""
CLOSED = {
    # chains, stars and cycles
    "a.k = b.k AND b.k = c.k": ["(a.k = c.k)"],
    "a.k = b.k AND a.k = c.k": ["(b.k = c.k)"],
    "a.k = b.k AND b.k = c.k AND c.k = a.k": [],
    "a.k = b.k AND b.k = c.k AND c.k = d.k": ["(a.k = c.k)", "(a.k = d.k)", "(b.k = d.k)"],
    "a.k = b.k AND c.k = d.k": [],
    "a.k = b.k AND c.k = d.k AND d.k = b.k": ["(a.k = c.k)", "(a.k = d.k)", "(b.k = c.k)"],
    "a.k = b.k AND b.s = c.s": [],
    # two columns of one input
    "a.k = b.k AND b.k = a.j": ["(a.k = a.j)"],
    "a.k = a.j AND a.j = b.k": ["(a.k = b.k)"],
    # operands that are no columns
    "UPPER(a.s) = b.s AND b.s = LOWER(c.s)": ["(upper(a.s) = lower(c.s))"],
    "a.k + 1 = b.k AND b.k = c.k - 1": ["((a.k + 1) = (c.k - 1))"],
    "a.k + b.k = c.k AND c.k = d.k": [],
    "a.k = 5 AND b.k = 5": [],
    # 0.0 and -0.0 are equal, and their texts are not
    "CONCAT(a.s, CAST(0e0 AS string)) = b.s AND CONCAT(a.s, CAST(-0e0 AS string)) = c.s": [],
    # only what must be true for every row
    "a.k = b.k OR b.k = c.k": [],
    "a.k = b.k AND (b.k = c.k OR c.m = 1)": [],
    "a.k = b.k AND NOT (b.k = c.k)": [],
    "a.k = b.k AND b.k <= c.k": [],
    # conversions to wider types
    "a.k = b.k AND b.k = c.m": [
        "(cast(b.k as int64) = cast(a.k as int64))", "(c.m = cast(a.k as int64))",
    ],
    "a.k = b.l AND b.l = c.m": ["(cast(a.k as int64) = c.m)"],
    "a.f = b.d AND b.d = c.g": ["(cast(a.f as double) = c.g)"],
    "a.k = b.k AND CAST(b.k AS string) = c.s": [],
    "a.k = b.k AND CAST(b.k AS smallint) = d.n": [],
}  # fmt: skip


def closed(sql: str) -> tuple[list[str], list[str]]:
    """The conjuncts of ON before the rule, and those that it adds."""
    streams = [s.stream for s in parse(THREE) if isinstance(s, CreateStream)]
    plan = push_down_selection(bind(parse_query(sql), Catalog(streams)))
    before = [str(term) for term in conjuncts(joined(plan)[1].on)]
    after = [str(term) for term in conjuncts(joined(close_equalities(plan))[1].on)]
    assert after[: len(before)] == before
    return before, after[len(before) :]


FOUR = "FROM A [NOW] AS a, B [NOW] AS b, C [NOW] AS c, D [NOW] AS d"


@pytest.mark.parametrize("where", CLOSED)
def test_equalities_of_three_and_more_inputs_are_closed(where: str) -> None:
    assert closed(f"SELECT a.t {FOUR} WHERE {where}")[1] == CLOSED[where]


def test_equalities_of_on_and_where_are_closed_together() -> None:
    sql = "SELECT a.t FROM A [NOW] AS a JOIN B [NOW] AS b ON a.k = b.k, C [NOW] AS c"
    assert closed(f"{sql} WHERE b.k = c.k")[1] == ["(a.k = c.k)"]


def test_equalities_below_an_aggregate_are_closed() -> None:
    streams = [replace(s.stream, bounded=True) for s in parse(THREE) if isinstance(s, CreateStream)]
    sql = f"SELECT COUNT(*) {FOUR} WHERE a.k = b.k AND b.k = c.k AND c.s = d.s"
    plan = close_equalities(push_down_selection(bind(parse_query(sql), Catalog(streams))))
    aggregate = plan.selects[0].source
    assert isinstance(aggregate, Aggregate) and isinstance(aggregate.source, Join)
    assert str(conjuncts(aggregate.source.on)[-1]) == "(a.k = c.k)"


def test_equalities_of_two_inputs_stay() -> None:
    plan = push_down_selection(bound(f"SELECT r.y {FROM.format('JOIN', 'r.x = s.a')}"))
    assert close_equalities(plan) == plan


def test_a_predicate_of_three_inputs_is_split_into_filters_and_the_rest() -> None:
    streams = [s.stream for s in parse(THREE) if isinstance(s, CreateStream)]
    sql = f"SELECT a.t {FOUR} WHERE a.k = b.k AND b.k = c.k AND c.m > 1 AND a.s < d.s"
    _, join = joined(rewrite(bind(parse_query(sql), Catalog(streams))))
    assert [str(f) for f in join.filters] == ["True", "True", "(c.m > 1)", "True"]
    assert [str(t) for t in conjuncts(join.compiled)] == [
        "(a.k = b.k)", "(b.k = c.k)", "(a.s < d.s)", "(a.k = c.k)",
    ]  # fmt: skip
    assert str(join.residual) == "True"
    assert join.columns == ((4,), (), (), ())


@pytest.mark.parametrize("rule", [push_down_selection, close_equalities, split_join_predicate])
def test_a_plan_without_a_join_has_no_predicate_to_move(rule: Rule) -> None:
    plan = bound("SELECT id, x + 1 AS y FROM R WHERE name = 'a'")
    assert rule(plan) == plan


def test_a_selection_hands_on_the_columns_that_the_select_list_reads() -> None:
    plan = bound("SELECT y, x + 1 AS z FROM R WHERE name = 'a'")
    (select,) = push_down_projection(plan).selects
    assert select.columns_read == (1, 2)
    nodes = [node for column in select.columns for node in walk(column.expression)]
    assert [node.index for node in nodes if isinstance(node, Column)] == [1, 0]
    # The condition is evaluated before, on all columns.
    assert select.where == plan.selects[0].where


@pytest.mark.parametrize("window", ["[ROWS 9]", "[RANGE 5 SECONDS WATTR t]"])
def test_no_rule_touches_a_window(window: str) -> None:
    sql = f"SELECT r.id FROM R {window} AS r JOIN S [ROWS 3] AS s ON r.x = s.a WHERE r.x > 1"
    if "RANGE" in window:
        sql = sql.replace("S [ROWS 3]", "S [RANGE 5 SECONDS WATTR ts]")
    plan = bound(sql)
    before, after = joined(plan)[1], joined(rewrite(plan))[1]
    assert (before.inputs, before.kind) == (after.inputs, after.kind)
