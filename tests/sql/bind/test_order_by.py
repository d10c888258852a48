"""ORDER BY and LIMIT: the inputs of the keys, and the rows they apply to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.sql.expressions import Column, walk
from penstock.sql.plan import Plan


def keys(plan: Plan) -> list[str]:
    return [str(key) for key in plan.sort]


@pytest.mark.parametrize(
    ("text", "descending", "nulls_first"),
    [
        ("x", False, True),
        ("x ASC", False, True),
        ("x desc", True, False),
        ("x NULLS LAST", False, False),
        ("x ASC nulls first", False, True),
        ("x DESC NULLS FIRST", True, True),
        ("x DESC NULLS LAST", True, False),
    ],
)
def test_nulls_are_where_spark_has_them(
    plan: Callable[[str], Plan], text: str, descending: bool, nulls_first: bool
) -> None:
    (key,) = plan(f"SELECT id FROM Past ORDER BY {text}").sort
    assert (str(key.expression), key.descending, key.nulls_first) == ("x", descending, nulls_first)


def test_a_key_is_shown_as_it_differs_from_the_default(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT x FROM Past ORDER BY x, y DESC, z NULLS LAST, u DESC NULLS FIRST")
    assert keys(found) == ["x", "y descending", "z NULL last", "u descending NULL first"]


def test_names_of_the_select_list_go_before_columns(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT y AS x, x AS k FROM Past ORDER BY x, k + 1, Past.x, name")
    assert keys(found) == ["y", "(x + 1)", "x", "name"]


def test_positions(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT x + 1, Past.* FROM Past ORDER BY 3 DESC, 1, 1 + 1")
    assert keys(found) == ["x descending", "(x + 1)", "(1 + 1)"]


def test_a_name_that_two_columns_have_is_clear_if_they_are_the_same(
    plan: Callable[[str], Plan],
) -> None:
    assert keys(plan("SELECT x, x FROM Past ORDER BY x")) == ["x"]


def test_keys_are_over_both_sides_of_a_join(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT p.id FROM Past [NOW] p JOIN Older [NOW] o ON p.id = o.id ORDER BY a, id")
    assert keys(found) == ["o.a", "p.id"]


def test_keys_are_over_an_aggregate(plan: Callable[[str], Plan]) -> None:
    found = plan(
        "SELECT name, SUM(x) AS x FROM Past GROUP BY name ORDER BY x DESC, MAX(x), 1 LIMIT 3"
    )
    assert keys(found) == ["SUM(x) descending", "MAX(x)", "name"]
    assert found.limit == 3
    source = found.selects[0].source
    assert [str(call) for call in source.calls] == ["SUM(x)", "MAX(x)"]  # type: ignore[union-attr]


def test_an_aggregate_of_order_by_alone_makes_an_aggregate(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT 1 AS one FROM Past ORDER BY COUNT(*)")
    assert keys(found) == ["COUNT(*)"]


def test_windows_are_ordered_one_by_one_on_input_without_an_end(
    plan: Callable[[str], Plan],
) -> None:
    found = plan(
        "SELECT id, COUNT(*) FROM T [RANGE 6 SLIDE 6] GROUP BY id ORDER BY window_end, 2 LIMIT 0"
    )
    assert keys(found) == ["window_end", "COUNT(*)"]
    assert found.limit == 0
    assert plan("SELECT COUNT(*) FROM T [ROWS 6 SLIDE 6] LIMIT 1").limit == 1


def test_a_union_is_ordered_by_its_columns(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT id AS k, x FROM Past UNION ALL SELECT id, a FROM Older ORDER BY 2, K + 1")
    assert keys(found) == ["x", "(k + 1)"]
    first, second = (key.expression for key in found.sort)
    assert first == Column(0, 1, "x", found.schema.field(1).type)
    assert Column(0, 0, "k", found.schema.field(0).type) in walk(second)


def test_the_limit_of_a_stream_that_ends(plan: Callable[[str], Plan]) -> None:
    found = plan("SELECT x FROM Past LIMIT 3 EMIT ORDER outer")
    assert (found.sort, found.limit, found.order) == ((), 3, "outer")
