"""The instructions of queries with aggregates and orders."""

from __future__ import annotations

from collections.abc import Callable

from tests.program.conftest import CATALOG

from penstock.program.choose.explain import explain
from penstock.program.isa.block_instructions import (
    AggregateRows,
    OrderRows,
    Program,
    ProjectColumns,
    SelectRows,
)
from penstock.sql.bind.query import bind
from penstock.sql.expressions import TRUE, Column
from penstock.sql.parse.parser import parse_query
from penstock.streams.windows import Sliding


def test_a_windowed_aggregate(program: Callable[..., Program]) -> None:
    found = program(
        "SELECT k, SUM(x) AS s FROM R [RANGE 9 SLIDE 6 WATTR i SLACK 2] WHERE x > 1 GROUP BY k "
        "HAVING COUNT(*) > 1 ORDER BY SUM(x) DESC LIMIT 3"
    )
    assert str(found) == (
        "#0 scan R\n"
        "#1 aggregate #0: SUM(x), COUNT(*)\n"
        "     group by: k\n"
        "     where: (x > 1)\n"
        "     window: [RANGE 9 SLIDE 6 WATTR i SLACK 2], time i\n"
        "#2 select from #1: (COUNT(*) > 1)\n"
        "#3 order #2: SUM(x) descending, the first 3\n"
        "#4 project #3: k AS k, SUM(x) AS s"
    )
    _, aggregate, select, order, project = found.instructions
    assert isinstance(aggregate, AggregateRows) and aggregate == found.aggregates[0]
    assert aggregate.window == Sliding(9, 6, None, 2)
    assert aggregate.schema.names == ["k", "SUM(x)", "COUNT(*)", "window_start", "window_end"]
    assert (aggregate.kernel, aggregate.emit_empty) == ("panes", False)
    assert isinstance(select, SelectRows) and select.columns == (0, 1, 4)
    assert isinstance(order, OrderRows)
    assert (order.window_column, order.limit) == (2, 3)
    assert isinstance(project, ProjectColumns)


def test_the_whole_of_an_input_that_ends(program: Callable[..., Program]) -> None:
    found = program("SELECT COUNT(*) FROM B ORDER BY 1")
    _, aggregate, select, order, _ = found.instructions
    assert isinstance(aggregate, AggregateRows) and isinstance(select, SelectRows)
    assert (aggregate.window, aggregate.where, select.condition) == (None, TRUE, TRUE)
    assert isinstance(order, OrderRows) and order.window_column is None


def test_an_order_without_an_aggregate(program: Callable[..., Program]) -> None:
    assert str(program("SELECT k FROM B ORDER BY x NULLS LAST")) == (
        "#0 scan B\n#1 select from #0: every row\n#2 order #1: x NULL last\n#3 project #2: k AS k"
    )
    assert str(program("SELECT k FROM B LIMIT 0")) == (
        "#0 scan B\n"
        "#1 select from #0: every row\n"
        "#2 order #1: as they come, the first 0\n"
        "#3 project #2: k AS k"
    )


def test_a_union_is_ordered_after_it(program: Callable[..., Program]) -> None:
    found = program("SELECT k FROM B UNION ALL SELECT k FROM B ORDER BY k")
    *_, union, order = str(found).splitlines()
    assert (union, order) == ("#6 union of #2, #5", "#7 order #6: k")


def test_calls_are_known_over_whole_tuples_too(program: Callable[..., Program]) -> None:
    sql = "SELECT a.k, SUM(b.x) {} FROM B [NOW] AS a JOIN B [NOW] AS b ON a.i = b.i GROUP BY a.k"
    narrow, wide = (program(sql.format(more)).aggregates[0] for more in ("", ", MIN(b.k)"))
    assert narrow.counted[0] == wide.counted[0] != narrow.calls[0]
    assert narrow.calls[0].argument != wide.calls[0].argument
    assert narrow.groups == wide.groups
    assert isinstance(narrow.groups[0], Column)
    lone = program("SELECT k, SUM(x) FROM B GROUP BY k").aggregates[0]
    assert lone.counted == lone.calls
    assert lone.groups == tuple(key.expression for key in lone.keys)


def test_explain(program: Callable[..., Program]) -> None:
    sql = (
        "SELECT COUNT(*) AS n FROM R [RANGE 10 MINUTES SLIDE 4 MINUTES WATTR t SLACK 1 SECOND] "
        "WHERE x > 1 HAVING MAX(x) > 2 ORDER BY n LIMIT 1 EMIT EMPTY"
    )
    assert explain(bind(parse_query(sql), CATALOG), program(sql)) == (
        "plan\n"
        "  sort by COUNT(*)\n"
        "  limit 1\n"
        "  project COUNT(*) AS n\n"
        "  having (MAX(x) > 2)\n"
        "  aggregate COUNT(*), MAX(x) [RANGE 10 MINUTES SLIDE 4 MINUTES WATTR t SLACK 1 SECOND], "
        "empty windows too\n"
        "  where (x > 1)\n"
        "  scan R as R\n"
        "program\n"
        "  #0 scan R\n"
        "  #1 aggregate #0: COUNT(*), MAX(x)\n"
        "       where: (x > 1)\n"
        "       window: [RANGE 10 MINUTES SLIDE 4 MINUTES WATTR t SLACK 1 SECOND], time t\n"
        "  #2 select from #1: (MAX(x) > 2)\n"
        "  #3 order #2: COUNT(*), the first 1\n"
        "  #4 project #3: COUNT(*) AS n\n"
        "kernel panes: panes of 120 s and 120 s, whatever the windows; 3 windows are open at a "
        "time; COUNT(*) subtracts; MAX(x) uses two stacks\n"
        "order none"
    )


def test_explain_a_tree(program: Callable[..., Program]) -> None:
    sql = (
        "SELECT a.x AS x FROM R [RANGE 4 WATTR i] AS a JOIN R [RANGE 5 WATTR i] AS b ON a.x = b.x "
        "SEMI JOIN R [RANGE 6 WATTR i] AS c ON b.x = c.x AND a.x > 1 "
        "LEFT JOIN R [RANGE 7 WATTR i] AS d ON b.x < d.x WHERE d.x IS NULL"
    )
    assert explain(bind(parse_query(sql), CATALOG), program(sql)) == (
        "plan\n"
        "  project a.x AS x\n"
        "  where is_null(d.x)\n"
        "  left join with d on (b.x < d.x)\n"
        "  semi join with c on ((b.x = c.x) AND (a.x > 1))\n"
        "  inner join on (a.x = b.x)\n"
        "  scan R [RANGE 4 WATTR i] as a\n"
        "  scan R [RANGE 5 WATTR i] as b\n"
        "  scan R [RANGE 6 WATTR i] as c\n"
        "  scan R [RANGE 7 WATTR i] as d\n"
        "program\n"
        "  #0 scan R\n"
        "  #1 scan R\n"
        "  #2 scan R\n"
        "  #3 scan R\n"
        "  #4 join inner of #0 and #1\n"
        "       compiled: (a.x = b.x)\n"
        "       then semi of #2: ((b.x = c.x) AND (a.x > 1))\n"
        "       then left of #3: (b.x < d.x)\n"
        "  #4 window 1 [RANGE 4 WATTR i], time i\n"
        "  #4 window 2 [RANGE 5 WATTR i], time i\n"
        "  #4 window 3 [RANGE 6 WATTR i], time i\n"
        "  #4 window 4 [RANGE 7 WATTR i], time i\n"
        "  #5 select from #4: is_null(d.x)\n"
        "  #6 project #5: a.x AS x\n"
        "kernel hash: equality on (a.x = b.x) and (b.x = c.x); or a range of (b.x < d.x), "
        "if fewer tuples pass that\n"
        "probe order of R AS a (1): R AS b (2) by an equality (1 partner); assumed\n"
        "probe order of R AS b (2): R AS a (1) by an equality (1 partner); assumed\n"
        "semi join: keeps the combinations of R AS a (1) and R AS b (2); R AS c (3) by an "
        "equality\n"
        "left join: keeps the combinations of R AS a (1) and R AS b (2); R AS d (4) by a "
        "condition\n"
        "order none"
    )


def test_explain_names_an_equality_class_once(program: Callable[..., Program]) -> None:
    sql = (
        "SELECT a.x AS x FROM R [ROWS 4] AS a JOIN R [ROWS 5] AS b ON a.x = b.x "
        "JOIN R [ROWS 6] AS c ON b.x = c.x JOIN R [ROWS 7] AS d ON c.x = d.x AND c.i = a.i"
    )
    told = explain(bind(parse_query(sql), CATALOG), program(sql)).splitlines()
    assert "kernel hash: equality on (a.x = b.x = c.x = d.x) and (c.i = a.i)" in told
    assert "  inner join on ((a.x = b.x) AND (b.x = c.x) AND (c.x = d.x) AND (c.i = a.i))" in told


def test_explain_groups_alone(program: Callable[..., Program]) -> None:
    sql = "SELECT k FROM B GROUP BY k"
    assert explain(bind(parse_query(sql), CATALOG), program(sql)).splitlines()[:4] == [
        "plan",
        "  project k AS k",
        "  aggregate groups",
        "  group by k",
    ]
