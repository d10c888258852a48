"""Queries with aggregates: calls and their types, groups, HAVING, the borders of windows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.sql.expressions import TRUE, Column
from penstock.sql.plan import Aggregate, Call, Join, Plan, Scan, Select, Union, border_type
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

RANGE = "[RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]"


def aggregate_of(select: Select) -> Aggregate:
    assert isinstance(select.source, Aggregate)
    return select.source


def shown(select: Select) -> list[str]:
    """The select list: names, and what they are over the aggregate's columns."""
    names = aggregate_of(select).schema.names
    for column in (c.expression for c in select.columns):
        if isinstance(column, Column):
            assert (column.side, names[column.index]) == (0, column.name)
    return [f"{c.name}: {c.expression}" for c in select.columns]


def test_the_query_of_the_paper(select: Callable[[str], Select]) -> None:
    found = select(
        "SELECT COUNT(*) AS n, AVG(x) AS p, window_start, window_end "
        "FROM R [RANGE 600 SECONDS SLIDE 60 SECONDS WATTR t SLACK 60 SECONDS] "
        "WHERE name = 'UBSN' GROUP BY b HAVING COUNT(*) > 10"
    )
    aggregate = aggregate_of(found)
    assert isinstance(aggregate.source, Scan) and aggregate.source.window is None
    assert aggregate.window == Sliding(600_000_000, 60_000_000, None, 60_000_000)
    assert aggregate.time == TimeAttribute(4, "t", 1)
    assert str(aggregate.where) == "(name = 'UBSN')"
    assert [str(key.expression) for key in aggregate.keys] == ["b"]
    assert [str(call) for call in aggregate.calls] == ["COUNT(*)", "AVG(x)"]
    assert aggregate.schema.names == ["b", "COUNT(*)", "AVG(x)", "window_start", "window_end"]
    assert str(found.where) == "(COUNT(*) > 10)"
    assert [c.expression for c in found.columns] == [
        Column(0, 1, "COUNT(*)", pa.int64()),
        Column(0, 2, "AVG(x)", pa.float64()),
        Column(0, 3, "window_start", pa.timestamp("us")),
        Column(0, 4, "window_end", pa.timestamp("us")),
    ]


TYPES = {
    "COUNT(*)": ("count", pa.int64()),
    "COUNT(name)": ("count", pa.int64()),
    "COUNT(DISTINCT name)": ("count", pa.int64()),
    "SUM(i8)": ("sum", pa.int64()),
    "SUM(id)": ("sum", pa.int64()),
    "SUM(u8)": ("sum", pa.int64()),
    "SUM(u)": ("sum", pa.decimal128(30, 0)),
    "SUM(y)": ("sum", pa.float64()),
    "SUM(z)": ("sum", pa.float64()),
    "SUM(p)": ("sum", pa.decimal128(20, 2)),
    "SUM(CAST(x AS decimal(38, 0)))": ("sum", pa.decimal128(38, 0)),
    "AVG(x)": ("avg", pa.float64()),
    "AVG(u)": ("avg", pa.float64()),
    "AVG(y)": ("avg", pa.float64()),
    "AVG(p)": ("avg", pa.decimal128(14, 6)),
    "AVG(CAST(x AS decimal(37, 36)))": ("avg", pa.decimal128(38, 38)),
    "MIN(name)": ("min", pa.string()),
    "MAX(bin)": ("max", pa.binary()),
    "MIN(b)": ("min", pa.bool_()),
    "MAX(u8)": ("max", pa.uint8()),
    "MAX(y)": ("max", pa.float32()),
    "MIN(d)": ("min", pa.date32()),
    "MAX(tz)": ("max", pa.timestamp("us", "UTC")),
    "VAR_POP(x)": ("var_pop", pa.float64()),
    "VAR_SAMP(p)": ("var_samp", pa.float64()),
    "VARIANCE(y)": ("var_samp", pa.float64()),
    "STDDEV_POP(u)": ("stddev_pop", pa.float64()),
    "STDDEV_SAMP(x)": ("stddev_samp", pa.float64()),
    "STDDEV(x)": ("stddev_samp", pa.float64()),
    "FIRST(name)": ("first", pa.string()),
    "LAST(p)": ("last", pa.decimal128(10, 2)),
}


@pytest.mark.parametrize("text", TYPES)
def test_the_type_of_a_result(select: Callable[[str], Select], text: str) -> None:
    found = select(f"SELECT {text.lower()} FROM Past")
    (call,) = aggregate_of(found).calls
    assert (call.name, call.type) == TYPES[text]
    assert call.distinct == ("DISTINCT" in text)
    (column,) = found.columns
    assert (column.name, column.type) == (text.lower(), call.type)


def test_a_sum_of_uint64_is_one_of_decimals(select: Callable[[str], Select]) -> None:
    (call,) = aggregate_of(select("SELECT SUM(u) FROM Past")).calls
    assert str(call) == "SUM(cast(u as decimal128(20, 0)))"


def test_counting_a_constant_counts_rows(select: Callable[[str], Select]) -> None:
    found = select("SELECT COUNT(1), COUNT(*), COUNT('a'), COUNT(DISTINCT 1) FROM Past")
    assert [str(call) for call in aggregate_of(found).calls] == ["COUNT(*)", "COUNT(DISTINCT 1)"]


def test_an_aggregate_is_computed_once(select: Callable[[str], Select]) -> None:
    found = select(
        "SELECT SUM(x), sum(x) / COUNT(*) AS mean, SUM(x) FILTER (WHERE b) AS some FROM Past "
        "HAVING SUM(x) > 1 AND MAX(x) < 9"
    )
    assert [str(call) for call in aggregate_of(found).calls] == [
        "SUM(x)",
        "COUNT(*)",
        "SUM(x) FILTER (WHERE b)",
        "MAX(x)",
    ]
    assert str(found.where) == "((SUM(x) > 1) AND (MAX(x) < 9))"


def test_filter(select: Callable[[str], Select]) -> None:
    found = select("SELECT COUNT(*) FILTER (WHERE x > 1 OR name LIKE 'a%') AS n FROM Past")
    (call,) = aggregate_of(found).calls
    assert str(call) == "COUNT(*) FILTER (WHERE ((x > 1) OR like(name, 'a%', '\\\\')))"


def test_a_column_may_be_called_filter(select: Callable[[str], Select]) -> None:
    assert shown(select("SELECT COUNT(*) filter FROM Past")) == ["filter: COUNT(*)"]


def test_group_by_any_expression(select: Callable[[str], Select]) -> None:
    found = select(
        "SELECT UPPER(name) || '!' AS n, (x+1) * 2, x + 1, 7 AS seven, COUNT(*) FROM Past "
        "GROUP BY upper(name), x + 1, x+1"
    )
    aggregate = aggregate_of(found)
    assert [(k.name, str(k.expression)) for k in aggregate.keys] == [
        ("upper(name)", "upper(name)"),
        ("x + 1", "(x + 1)"),
    ]
    assert shown(found) == [
        "n: concat(upper(name), '!')",
        "(x+1) * 2: (x + 1 * 2)",
        "x + 1: x + 1",
        "seven: 7",
        "count(*): COUNT(*)",
    ]


def test_group_by_a_name_of_the_select_list(select: Callable[[str], Select]) -> None:
    found = select("SELECT x % 10 AS k, COUNT(*) FROM Past GROUP BY K")
    assert [str(key.expression) for key in aggregate_of(found).keys] == ["(x % 10)"]


def test_a_column_goes_before_a_name_of_the_select_list(select: Callable[[str], Select]) -> None:
    found = select("SELECT UPPER(name) AS name, COUNT(*) FROM Past GROUP BY name")
    assert [str(key.expression) for key in aggregate_of(found).keys] == ["name"]
    assert shown(found) == ["name: upper(name)", "count(*): COUNT(*)"]


def test_group_by_position(select: Callable[[str], Select]) -> None:
    found = select("SELECT COUNT(*), id + 1, Gone.* FROM Gone GROUP BY 2, 4, 3, 1+1")
    keys = [str(key.expression) for key in aggregate_of(found).keys]
    assert keys == ["(id + 1)", "ts", "id", "(1 + 1)"]


def test_groups_without_an_aggregate(select: Callable[[str], Select]) -> None:
    found = select(f"SELECT x FROM R {RANGE} GROUP BY x")
    assert aggregate_of(found).calls == ()
    assert shown(found) == ["x: x"]


def test_having_knows_columns_before_names(select: Callable[[str], Select]) -> None:
    found = select("SELECT SUM(x) AS total, x FROM Past GROUP BY x HAVING total > 1 AND x > 2")
    assert str(found.where) == "((SUM(x) > 1) AND (x > 2))"


def test_distinct_rows_are_groups(select: Callable[[str], Select]) -> None:
    found = select(f"SELECT DISTINCT x + 1 AS a, name, window_end FROM R {RANGE}")
    aggregate = aggregate_of(found)
    assert [(k.name, str(k.expression)) for k in aggregate.keys] == [
        ("a", "(x + 1)"),
        ("name", "name"),
    ]
    assert shown(found) == ["a: a", "name: name", "window_end: window_end"]


def test_rows_are_by_window_anyway(select: Callable[[str], Select]) -> None:
    found = select(f"SELECT window_end AS e FROM R {RANGE} GROUP BY window_start, e")
    aggregate = aggregate_of(found)
    assert aggregate.keys == ()
    # A count tells which windows have tuples.
    assert aggregate.calls == (Call("count", None, pa.int64()),)
    assert shown(found) == ["e: window_end"]


def test_the_borders_are_the_querys_own(select: Callable[[str], Select]) -> None:
    found = select(
        "SELECT window_start, w.window_start AS theirs, MAX(window_start) AS m "
        "FROM Windowed [RANGE 90 SLIDE 60] AS w GROUP BY w.window_start"
    )
    aggregate = aggregate_of(found)
    assert [str(call) for call in aggregate.calls] == ["MAX(window_start)"]
    indices = [c.expression.index for c in found.columns if isinstance(c.expression, Column)]
    assert indices == [2, 0, 1]


@pytest.mark.parametrize(
    ("attribute", "border"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.int64(), pa.int64()),
        (pa.decimal128(5, 2), pa.decimal128(18, 2)),
        (pa.date32(), pa.date32()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC")),
    ],
)
def test_borders_have_room(attribute: pa.DataType, border: pa.DataType) -> None:
    assert border_type(attribute) == border


def test_the_borders_of_count_windows_are_numbers_of_tuples(
    select: Callable[[str], Select],
) -> None:
    found = select("SELECT window_end, COUNT(*) FROM R [ROWS 100 SLIDE 10]")
    aggregate = aggregate_of(found)
    assert (aggregate.window, aggregate.time) == (SlidingRows(100, 10), None)
    assert found.columns[0].type == pa.int64()


@pytest.mark.parametrize(
    ("source", "time"),
    [
        ("Gone", TimeAttribute(1, "ts", 1)),
        ("T [ROWS 5 SLIDE 5]", TimeAttribute(1, "ts", 1)),
        ("T [ROWS 5 SLIDE 5 WATTR id]", TimeAttribute(0, "id", 1)),
        ("S [ROWS 5 SLIDE 5]", None),
        ("Older", None),
        ("Older [UNBOUNDED WATTR t]", TimeAttribute(3, "t", 1)),
    ],
)
def test_first_goes_by_the_time_attribute_if_there_is_one(
    select: Callable[[str], Select], source: str, time: TimeAttribute | None
) -> None:
    assert aggregate_of(select(f"SELECT FIRST(id) FROM {source}")).time == time
    assert aggregate_of(select(f"SELECT COUNT(id) FROM {source}")).time is None


def test_an_aggregate_over_a_join_that_ends(select: Callable[[str], Select]) -> None:
    found = select(
        "SELECT o.name, SUM(p.x * o.a) AS s FROM Past [ROWS 5] AS p LEFT JOIN Older [NOW] AS o "
        "ON p.id = o.id WHERE p.x > 1 GROUP BY o.name"
    )
    aggregate = aggregate_of(found)
    assert isinstance(aggregate.source, Join)
    assert (aggregate.source.kind, aggregate.window, aggregate.time) == ("left", None, None)
    assert str(aggregate.where) == "(p.x > 1)"
    assert [str(call) for call in aggregate.calls] == ["SUM((p.x * o.a))"]
    assert found.where == TRUE


def test_a_bounded_stream_may_have_windows_all_the_same(select: Callable[[str], Select]) -> None:
    assert aggregate_of(select("SELECT COUNT(*) FROM Gone [RANGE 6 SLIDE 6]")).window == Sliding(
        6, 6
    )


def test_emit_empty(plan: Callable[[str], Plan]) -> None:
    sql = "SELECT COUNT(*) FROM T [RANGE 6 SLIDE 6] {}"
    for text, empty, order in [
        ("", False, "none"),
        ("EMIT EMPTY", True, "none"),
        ("emit order outer emit empty", True, "outer"),
        ("EMIT EMPTY EMIT ORDER inner", True, "inner"),
    ]:
        found = plan(sql.format(text))
        assert (aggregate_of(found.selects[0]).emit_empty, found.order) == (empty, order)


def test_a_union_of_aggregates(plan: Callable[[str], Plan]) -> None:
    found = plan(
        "SELECT 'T' AS s, COUNT(*) AS n, window_start FROM T [RANGE 6 SLIDE 6] UNION ALL "
        "SELECT name, x, id FROM R"
    )
    assert isinstance(found.body, Union)
    assert found.schema == pa.schema(
        {"s": pa.string(), "n": pa.int64(), "window_start": pa.int64()}
    )
    assert [scan.stream.name for scan in found.scans] == ["T", "R"]
