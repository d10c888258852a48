"""Functions of other engines: each is refused with a substitute that works."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyspark.sql.functions
import pytest

import penstock as ps
from penstock.errors import SqlError
from penstock.sql.bind.aggregate_functions import AGGREGATES
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.functions import FUNCTIONS
from penstock.sql.bind.query import bind
from penstock.sql.parse.foreign_functions import (
    FAMILIES,
    MOST_FREQUENT,
    NO_CLOCK,
    SUBSTITUTES,
    TUPLE_BEFORE,
    Substitute,
    misspelt,
    substitute,
)
from penstock.sql.parse.parser import parse_query

OURS = [*FUNCTIONS, *AGGREGATES]
ARGUMENTS = (
    ("x", "y", "z"),
    ("x + 1", "y - 1", "z * 2"),
    ("name", "name", "name"),
    ("name", "x", "x"),
    ("t", "t", "t"),
    ("b", "x", "y"),
    ("x", "b", "y"),
    ("b", "b", "b"),
    ("'minute'", "t", "d"),
)
"""What a function may be called with: numbers, expressions, text, times, conditions."""

GRAMMAR = ("ALL", "ANY", "SOME", "EVERY", "INSERT", "FILTER", "POSITION", "TRY_CAST", "SAFE_CAST")
"""Names that the grammar has other uses for."""


def test_what_serves_in_place_of_a_function_can_be_written(catalog: Catalog) -> None:
    def can_be_written(found: Substitute, arguments: tuple[str, ...]) -> bool:
        try:
            bind(parse_query(f"SELECT {found.expression(arguments)} AS it FROM Past"), catalog)
        except SqlError:
            return False
        return True

    wrong = [
        (name, found.sql)
        for name, found in SUBSTITUTES.items()
        if found.sql and not any(can_be_written(found, arguments) for arguments in ARGUMENTS)
    ]
    assert wrong == []


def test_the_message_has_what_serves(catalog: Catalog) -> None:
    for name, found in SUBSTITUTES.items():
        if name in GRAMMAR:
            continue
        with pytest.raises(SqlError) as error:
            bind(parse_query(f"SELECT {name}(x, y, z) AS it FROM Past"), catalog)
        assert error.value.what.startswith(f"the function {name} is not supported at line 1")
        assert error.value.remedy == found.remedy(["x", "y", "z"], "Past")
        assert error.value.remedy.endswith(".")


def test_no_substitute_is_for_a_function_that_is_here() -> None:
    assert [name for name in OURS if substitute(name) is not None] == []


def test_a_family_says_what_it_has_not() -> None:
    assert substitute("regexp_replace") == FAMILIES["REGEXP_"]
    assert substitute("List_Sort") == FAMILIES["LIST_"]
    assert substitute("sha256") == FAMILIES["SHA"]
    assert substitute("frobnicate") is None


def names_elsewhere() -> set[str]:
    """The functions of DuckDB and of Spark, as these tell them."""
    rows = duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    named = {str(row[0]).upper() for row in rows} | set(
        map(str.upper, pyspark.sql.functions.__all__)
    )
    return {name for name in named if name.isidentifier() and not name.startswith("__")}


def test_no_function_of_another_engine_is_taken_for_a_misspelt_one() -> None:
    taken = {
        name: misspelt(name, OURS)
        for name in names_elsewhere() - set(OURS)
        if substitute(name) is None and misspelt(name, OURS)
    }
    assert taken == {"DATETRUNC": ["DATE_TRUNC"]}  # DuckDB's other name for the same


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("UPER", ["UPPER"]),
        ("CIEL", ["CEIL"]),
        ("COALESE", ["COALESCE"]),
        ("SUBSTIRNG", ["SUBSTRING"]),
        ("START_WITH", ["STARTSWITH", "STARTS_WITH"]),
        ("STDEV_SAMP", ["STDDEV_SAMP"]),
        ("CUONT", ["COUNT"]),
        ("DAY_OF_WEAK", ["DAYOFWEEK"]),
        ("AGE2", []),
        ("FROBNICATE", []),
        ("X", []),
    ],
)
def test_a_slip_of_the_hand(written: str, meant: list[str]) -> None:
    assert misspelt(written, OURS) == meant


def test_a_join_of_the_stream_with_itself_has_the_tuple_before() -> None:
    source = TUPLE_BEFORE.partition(": ")[2].partition(" has ")[0].replace("{stream}", "R")
    query = f"SELECT now.x AS x, before.x AS before {source}"
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (x INT)")
        rows = engine.install(query)
        engine.push("R", [{"x": 10}, {"x": 20}])
        engine.push("R", [{"x": 30}])
        found = rows.rows().to_pylist()
    assert found == [
        {"x": 10, "before": None},
        {"x": 20, "before": 10},
        {"x": 30, "before": 20},
    ]


def test_the_most_frequent_value_is_a_group() -> None:
    clauses = MOST_FREQUENT.removeprefix("Write ").partition(" for the")[0]
    rows = [{"x": x} for x in (3, 1, 3, 2, 3, 1)]
    assert ps.sql(f"SELECT x FROM Rows {clauses}", Rows=rows).to_pylist() == [{"x": 3}]


def test_windows_after_the_stream_serve_for_those_of_a_function(catalog: Catalog) -> None:
    remedy = SUBSTITUTES["TUMBLE"].remedy(["t", "INTERVAL '1' MINUTE"], "R")
    source = remedy.partition("stream, ")[2].partition(", and")[0]
    assert source == "FROM R [RANGE 1 MINUTE SLIDE 1 MINUTE WATTR t]"
    bind(parse_query(f"SELECT window_start, window_end, COUNT(*) AS n {source}"), catalog)


@pytest.mark.parametrize(
    ("name", "arguments", "window"),
    [
        ("TUMBLE", "t, INTERVAL '1' HOUR", "[RANGE 1 HOUR SLIDE 1 HOUR WATTR t]"),
        ("HOP", "t, INTERVAL '1' HOUR, INTERVAL '1' DAY", "[RANGE 1 DAY SLIDE 1 HOUR WATTR t]"),
        ("window", "R.t, '10 minutes', '5 minutes'", "[RANGE 10 MINUTES SLIDE 5 MINUTES WATTR t]"),
        ("window", "tz, '2 weeks'", "[RANGE 2 WEEKS SLIDE 2 WEEKS WATTR tz]"),
        ("window_start", "", "[RANGE 10 MINUTES SLIDE 10 MINUTES WATTR t]"),
    ],
)
def test_a_window_is_proposed_as_it_was_written(
    catalog: Catalog, name: str, arguments: str, window: str
) -> None:
    with pytest.raises(SqlError) as error:
        bind(parse_query(f"SELECT COUNT(*) FROM R GROUP BY {name}({arguments})"), catalog)
    assert f"FROM R {window}, and" in error.value.remedy
    bind(parse_query(f"SELECT window_start, COUNT(*) FROM R {window}"), catalog)


@pytest.mark.parametrize("clock", ["CURRENT_TIMESTAMP", "now()", "current_date"])
def test_there_is_no_clock_with_or_without_parentheses(catalog: Catalog, clock: str) -> None:
    with pytest.raises(SqlError) as error:
        bind(parse_query(f"SELECT x FROM R WHERE t < {clock}"), catalog)
    assert error.value.remedy == NO_CLOCK


def test_what_serves_gives_what_the_function_gives_elsewhere() -> None:
    rows = pa.table(
        {
            "x": pa.array([1, 2, 2, 7], pa.int32()),
            "y": pa.array([2.0, 4.0, 5.0, 9.0], pa.float64()),
            "b": [True, True, False, True],
            "t": pa.array(
                ["2024-05-31 10:00", "2023-12-31 23:59", "2024-02-29", "2025-01-01"]
            ).cast(pa.timestamp("us")),
        }
    )
    duck = duckdb.connect()
    duck.register("Rows", rows)
    for call in (
        "QUARTER(t)",
        "ISODOW(t)",
        "DAYOFYEAR(t)",
        "LAST_DAY(t)",
        "EPOCH(t)",
        "EPOCH_MS(t)",
        "DEGREES(y)",
        "COUNT_IF(b)",
        "BOOL_AND(b)",
        "BOOL_OR(b)",
        "COVAR_POP(x, y)",
        "COVAR_SAMP(x, y)",
        "CORR(x, y)",
        "TRUNC(y)",
    ):
        name, _, arguments = call.removesuffix(")").partition("(")
        instead = SUBSTITUTES[name].expression(arguments.split(", "))
        ours = ps.sql(f"SELECT {instead} AS it FROM Rows", Rows=rows)["it"].to_pylist()
        theirs = [row[0] for row in duck.sql(f"SELECT {call} FROM Rows").fetchall()]
        assert ours == pytest.approx(theirs) if name not in ("LAST_DAY",) else ours == theirs, call
