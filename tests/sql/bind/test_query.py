"""Whole queries: joins, names, unions, the catalog."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import InputError, SqlError
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.multiway import unlinked
from penstock.sql.expressions import TRUE, Column, conjuncts
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select, Union
from penstock.streams.schema import Stream
from penstock.streams.windows import Rows


def test_a_selection(select: Callable[[str], Select]) -> None:
    found = select("SELECT id, x + 1 AS next, x  *  2 FROM R WHERE x > 5")
    assert isinstance(found.source, Scan)
    assert (found.source.stream.name, found.source.alias, found.source.window) == ("R", "R", None)
    assert str(found.where) == "(x > 5)"
    assert [output.name for output in found.columns] == ["id", "next", "x * 2"]


def test_a_join_has_the_left_stream_on_side_0(select: Callable[[str], Select]) -> None:
    found = select("SELECT a, x FROM R [ROWS 4] AS one JOIN S [ROWS 5] two ON one.id = two.id")
    assert isinstance(found.source, Join)
    assert found.source.kind == "inner"
    assert [scan.alias for scan in found.source.inputs] == ["one", "two"]
    assert [column.expression for column in found.columns] == [
        Column(1, 1, "a", pa.int32()),
        Column(0, 1, "x", pa.int32()),
    ]
    assert found.where == TRUE


@pytest.mark.parametrize("kind", ["left", "right", "full"])
def test_outer_joins(select: Callable[[str], Select], kind: str) -> None:
    found = select(f"SELECT x FROM R [NOW] {kind} JOIN S [NOW] ON x = a WHERE a IS NULL")
    assert isinstance(found.source, Join)
    assert found.source.kind == kind
    assert str(found.where) == "is_null(S.a)"


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_semi_and_anti_joins_output_their_left_stream(
    select: Callable[[str], Select], kind: str
) -> None:
    found = select(f"SELECT *, id FROM T [NOW] {kind} JOIN S [NOW] ON ts = a WHERE id > 1")
    assert isinstance(found.source, Join)
    assert found.source.kind == kind
    assert str(found.source.on) == "(T.ts = cast(S.a as int64))"
    assert [column.name for column in found.columns] == ["id", "ts", "id_2"]


def test_a_comma_is_a_join_of_all_pairs(select: Callable[[str], Select]) -> None:
    found = select("SELECT x FROM R [NOW], S [NOW] WHERE x = a")
    assert isinstance(found.source, Join)
    assert (found.source.kind, found.source.on) == ("inner", TRUE)
    assert str(found.where) == "(R.x = S.a)"


def test_a_join_of_three_streams_has_all_conditions_of_its_ons(
    select: Callable[[str], Select],
) -> None:
    found = select(
        "SELECT ts, a, r.x FROM R [ROWS 4] AS r JOIN S [NOW] s ON r.x = s.a AND s.a > 1 "
        "CROSS JOIN R [ROWS 3] q JOIN T [ROWS 2] ON ts = a AND q.id = 5"
    )
    assert isinstance(found.source, Join)
    assert found.source.kind == "inner"
    assert [(scan.alias, scan.window) for scan in found.source.inputs] == [
        ("r", Rows(4)), ("s", Rows(0)), ("q", Rows(3)), ("T", Rows(2)),
    ]  # fmt: skip
    assert [str(term) for term in conjuncts(found.source.on)] == [
        "(r.x = s.a)", "(s.a > 1)", "(T.ts = cast(s.a as int64))", "(q.id = 5)",
    ]  # fmt: skip
    columns = [c.expression for c in found.columns if isinstance(c.expression, Column)]
    assert [column.side for column in columns] == [3, 1, 0]


def test_columns_of_the_third_stream_are_aggregated(select: Callable[[str], Select]) -> None:
    # Columns of results are told from those of every input.
    found = select(
        "SELECT g.id, COUNT(*) AS n, MAX(g.ts) AS m FROM Past [NOW] p, Older [NOW] o, Gone [NOW] g "
        "GROUP BY g.id HAVING MAX(g.ts) > 2"
    )
    assert isinstance(found.source, Aggregate)
    assert [str(key.expression) for key in found.source.keys] == ["g.id"]
    assert [str(call) for call in found.source.calls] == ["COUNT(*)", "MAX(g.ts)"]
    assert [str(column.expression) for column in found.columns] == ["id", "COUNT(*)", "MAX(g.ts)"]


@pytest.mark.parametrize(
    ("where", "apart"),
    [
        ("a.id = b.id AND b.id = c.id AND c.id = d.id", ()),
        ("d.id = c.id AND c.id < b.id AND b.id + a.id = 5", ()),
        ("a.id + b.id = c.id", ("d",)),
        ("a.id = b.id AND c.id = d.id", ("c", "d")),
        ("a.id = b.id OR c.id = 1 OR d.id = 1", ()),
        ("b.id = 1 AND c.id = 1 AND d.id = a.id", ("b", "c")),
        ("TRUE", ("b", "c", "d")),
    ],
)
def test_conditions_link_the_streams_that_they_read(
    select: Callable[[str], Select], where: str, apart: tuple[str, ...]
) -> None:
    four = "T [NOW] a CROSS JOIN T [NOW] b CROSS JOIN T [NOW] c"
    in_where = select(f"SELECT a.id FROM {four} CROSS JOIN T [NOW] d WHERE {where}")
    in_on = select(f"SELECT a.id FROM {four} JOIN T [NOW] d ON {where}")
    assert isinstance(in_where.source, Join) and isinstance(in_on.source, Join)
    assert unlinked(in_where.source, in_where.where) == unlinked(in_on.source) == apart
    # Bounded windows need no condition; a join of the whole of streams does.
    whole = four.replace("T [NOW] b", "Gone [UNBOUNDED] b")
    if apart:
        with pytest.raises(SqlError, match=f"no condition links {apart[0]}"):
            select(f"SELECT a.id FROM {whole} JOIN T [NOW] d ON {where}")
    else:
        select(f"SELECT a.id FROM {whole} JOIN T [NOW] d ON {where}")


def test_a_join_of_63_streams(select: Callable[[str], Select]) -> None:
    streams = ", ".join(f"T [NOW] AS a{number}" for number in range(63))
    found = select(f"SELECT a62.id FROM {streams}")
    assert isinstance(found.source, Join)
    assert len(found.source.inputs) == 63


def test_a_self_join(select: Callable[[str], Select]) -> None:
    found = select("SELECT a.id, b.id FROM T [NOW] a JOIN T [ROWS 2] b ON a.ts < b.ts")
    assert [(c.name, c.expression.side) for c in found.columns if isinstance(c.expression, Column)]
    assert found.columns[1].expression == Column(1, 0, "id", pa.int32())


def test_stars(plan: Callable[[str], Plan]) -> None:
    sql = "SELECT {} FROM T [NOW] t JOIN T [NOW] u ON t.id = u.id"
    assert plan(sql.format("*")).schema.names == ["t_id", "t_ts", "u_id", "u_ts"]
    assert plan(sql.format("u.*, t.id AS first")).schema.names == ["id", "ts", "first"]
    assert plan(sql.format("U.*")).selects[0].columns[0].expression == Column(
        1, 0, "id", pa.int32()
    )


def test_union_all_has_the_first_branchs_names_and_common_types(
    plan: Callable[[str], Plan],
) -> None:
    found = plan(
        "SELECT id AS n, x FROM R UNION ALL SELECT a, z FROM S UNION ALL SELECT 1, 2 FROM T"
    )
    assert isinstance(found.body, Union)
    assert found.schema == pa.schema({"n": pa.int64(), "x": pa.float64()})
    assert [[str(c.expression) for c in branch.columns] for branch in found.selects] == [
        ["id", "cast(x as double)"],
        ["cast(a as int64)", "z"],
        ["1", "2.0"],
    ]
    assert all([c.name for c in branch.columns] == ["n", "x"] for branch in found.selects)
    assert [scan.stream.name for scan in found.scans] == ["R", "S", "T"]


def test_the_plan_keeps_text_and_order(plan: Callable[[str], Plan]) -> None:
    found = plan("  SELECT x FROM R EMIT ORDER inner PRECISION 8 ; ")
    assert found.text == "SELECT x FROM R EMIT ORDER inner PRECISION 8"
    assert (found.order, found.precision) == ("inner", 8)


def test_a_catalog_keeps_the_order_of_creation() -> None:
    schema = pa.schema({"x": pa.int32()})
    catalog = Catalog([Stream.of("B", schema), Stream.of("a", schema)])
    catalog.add(Stream.of("C", schema))
    assert [stream.name for stream in catalog] == ["B", "a", "C"]
    assert "A" in catalog and "d" not in catalog
    catalog.remove("b")
    assert [stream.name for stream in catalog] == ["a", "C"]
    assert catalog.get("b") is None
    assert len(catalog) == 2


def test_a_name_can_be_used_once() -> None:
    schema = pa.schema({"x": pa.int32()})
    catalog = Catalog([Stream.of("R", schema)])
    with pytest.raises(InputError) as error:
        catalog.add(Stream.of("r", schema))
    assert str(error.value) == (
        "stream r exists already\nChoose another name; names are compared without regard to case."
    )


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("r.id, s.id", ["r_id", "s_id"]),
        ("*", ["r_id", "x", "y", "r_name", "r_t", "d", "p", "b", "u", "tz", "bin", "i8", "u8",
               "r_z", "s_id", "a", "s_z", "s_t", "s_name", "f"]),
        ("r.id, s.a AS ID", ["r_id", "ID"]),
        ("r.id, r.id, s.id", ["r_id", "r_id_2", "s_id"]),
        ("r.id, s.id, x AS r_id", ["r_id_2", "s_id", "r_id"]),
        ("x + 1, x + 1, a", ["x + 1", "x + 1_2", "a"]),
        ("x, x, a AS x_2", ["r_x", "r_x_2", "x_2"]),
    ],
)  # fmt: skip
def test_no_two_columns_of_a_result_have_one_name(
    plan: Callable[[str], Plan], items: str, names: list[str]
) -> None:
    sql = f"SELECT {items} FROM R [ROWS 1] AS r JOIN S [ROWS 1] AS s ON r.x = s.a"
    assert plan(sql).schema.names == names


def test_names_of_one_stream_and_of_aggregates_get_numbers(plan: Callable[[str], Plan]) -> None:
    assert plan("SELECT id, id, x AS id_2 FROM R").schema.names == ["id", "id_3", "id_2"]
    sql = "SELECT COUNT(*), COUNT(*), x, X FROM Past GROUP BY x"
    assert plan(sql).schema.names == ["count(*)", "count(*)_2", "x", "x_2"]
