from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import SqlError
from penstock.sql.parse.parser import parse, parse_query
from penstock.sql.parse.statements import (
    CreateStream,
    DeriveStream,
    Describe,
    Explain,
    QueryText,
    ShowQueries,
    ShowStreams,
)
from penstock.sql.parse.syntax import QueryClause, SelectClause, WindowClause
from penstock.streams.schema import TYPE_NAMES


def window(clause: str) -> WindowClause:
    found = parse_query(f"SELECT x FROM R {clause} AS r").ast.selects[0].left.window
    assert found is not None
    return found


def clause(sql: str) -> SelectClause:
    return parse_query(sql).ast.selects[0]


def test_statements_are_separated_by_semicolons() -> None:
    statements = parse('SHOW STREAMS;; show queries ; DESCRIBE r; desc "s" ;')
    assert statements == [ShowStreams(), ShowQueries(), Describe("r"), Describe("s")]


def test_an_empty_text_has_no_statements() -> None:
    assert parse(" \n; -- nothing\n") == []


def test_create_stream() -> None:
    (statement,) = parse("create stream r (a int8, B timestamp(3), `c d` decimal(12, 2))")
    assert isinstance(statement, CreateStream)
    stream = statement.stream
    assert (stream.name, stream.time, stream.bounded) == ("r", None, False)
    assert stream.schema == pa.schema(
        {"a": pa.int8(), "B": pa.timestamp("ms"), "c d": pa.decimal128(12, 2)}
    )


def test_create_stream_with_a_time_attribute() -> None:
    (statement,) = parse("CREATE STREAM r (a int, ts timestamp(6, 'Europe/Paris')) TIMESTAMP BY TS")
    assert isinstance(statement, CreateStream)
    assert statement.stream.time == "TS"
    assert statement.stream.schema.field(1).type == pa.timestamp("us", "Europe/Paris")


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_type_can_be_declared_and_cast_to(name: str) -> None:
    (statement,) = parse(f"CREATE STREAM r (a {name.lower()})")
    assert isinstance(statement, CreateStream)
    assert statement.stream.schema.field(0).type == TYPE_NAMES[name]
    assert clause(f"SELECT CAST(a AS {name}) FROM r").items[0].value.args["to"].name == name


def test_a_derived_stream_keeps_the_text_of_its_query() -> None:
    sql = "SHOW STREAMS;\nCREATE STREAM t AS\n  SELECT x FROM R WHERE x > 1 EMIT ORDER outer ;"
    _, statement = parse(sql)
    assert isinstance(statement, DeriveStream)
    assert statement.name == "t"
    assert statement.query.text == "SELECT x FROM R WHERE x > 1 EMIT ORDER outer"
    assert statement.query.source == sql


def test_explain() -> None:
    (statement,) = parse("EXPLAIN SELECT x FROM R")
    assert isinstance(statement, Explain)
    assert statement.query.text == "SELECT x FROM R"


def test_a_query_remembers_where_its_names_stand() -> None:
    query = parse_query("SELECT x\nFROM R [ROWS 3] AS r")
    left = query.ast.selects[0].left
    assert query.source[slice(*left.stream.at)] == "R"
    assert query.source[slice(*left.alias.at)] == "r"
    assert left.window is not None
    assert query.source[slice(*left.window.at)] == "[ROWS 3]"


@pytest.mark.parametrize("text", ["[ROWS 4]", "[rows 4]", "[ ROWS\n4 ]"])
def test_rows(text: str) -> None:
    found = window(text)
    assert (found.kind, found.size and found.size.number) == ("ROWS", 4)


@pytest.mark.parametrize(
    "text",
    [
        "[RANGE 10 MINUTES WATTR ts SLACK 1.5 SECONDS]",
        "[range 10 minute slack 1.5 second wattr ts]",
    ],
)
def test_range_with_clauses_in_any_order(text: str) -> None:
    found = window(text)
    assert found.kind == "RANGE"
    assert found.size and (found.size.number, found.size.unit) == (10, "MINUTE")
    assert found.slack and (found.slack.number, found.slack.unit) == (Decimal("1.5"), "SECOND")
    assert found.attribute and found.attribute.text == "ts"
    assert found.slide is None


@pytest.mark.parametrize(
    "unit",
    ["NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"],
)
@pytest.mark.parametrize("plural", ["", "S", "s"])
def test_units(unit: str, plural: str) -> None:
    found = window(f"[RANGE 2 {unit}{plural}]")
    assert found.size and found.size.unit == unit


def test_slide_is_read() -> None:
    found = window("[RANGE 600 SLIDE 60 WATTR ts SLACK 60]")
    assert found.slide and found.slide.number == 60
    found = window("[ROWS 100 SLIDE 10]")
    assert found.slide and found.slide.number == 10


def test_start_at_is_read() -> None:
    for value in ("5", "-5", "TIMESTAMP '2024-01-01'", "'2024-01-01'"):
        found = window(f"[RANGE 600 SLIDE 60 START AT {value} WATTR ts SLACK 60]")
        assert found.start is not None and found.slack and found.attribute
    assert window("[RANGE 600 SLIDE 60]").start is None


def test_now_and_unbounded() -> None:
    assert window("[NOW]").kind == "NOW"
    assert window("[Unbounded]").kind == "UNBOUNDED"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("JOIN", "inner"),
        ("INNER JOIN", "inner"),
        ("LEFT JOIN", "left"),
        ("left outer join", "left"),
        ("RIGHT JOIN", "right"),
        ("RIGHT OUTER JOIN", "right"),
        ("FULL JOIN", "full"),
        ("FULL OUTER JOIN", "full"),
        ("SEMI JOIN", "semi"),
        ("LEFT SEMI JOIN", "semi"),
        ("ANTI JOIN", "anti"),
        ("LEFT ANTI JOIN", "anti"),
    ],
)
def test_join_kinds(words: str, kind: str) -> None:
    (join,) = clause(f"SELECT x FROM R [NOW] {words} S [NOW] ON a = b").joins
    assert (join.kind, join.right.stream.text, join.on is not None) == (kind, "S", True)


@pytest.mark.parametrize("words", [", ", " CROSS JOIN "])
def test_joins_without_on(words: str) -> None:
    (join,) = clause(f"SELECT x FROM R [NOW]{words}S [ROWS 2] AS other WHERE a = b").joins
    assert (join.kind, join.right.alias.text, join.on) == ("cross", "other", None)


def test_joins_follow_each_other() -> None:
    joins = clause("SELECT x FROM R [NOW] JOIN S [NOW] ON a = b, T [NOW] CROSS JOIN U [NOW]").joins
    found = [(join.kind, join.right.stream.text, join.on is not None) for join in joins]
    assert found == [("inner", "S", True), ("cross", "T", False), ("cross", "U", False)]


def test_an_alias_needs_no_as() -> None:
    select = clause("SELECT x y FROM R [NOW] one, S two")
    assert [reference.alias.text for reference in select.references] == ["one", "two"]
    assert select.items[0].alias and select.items[0].alias.text == "y"


def emit(sql: str) -> tuple[str, int]:
    ast: QueryClause = parse_query(sql).ast
    return ast.emit.order, ast.emit.precision


def test_emit_order() -> None:
    assert emit("SELECT x FROM R") == ("none", 1)
    assert emit("SELECT x FROM R EMIT ORDER NONE") == ("none", 1)
    assert emit("SELECT x FROM R [NOW] emit order Outer") == ("outer", 1)
    assert emit("SELECT x FROM R WHERE x > 1 EMIT ORDER inner PRECISION 16") == ("inner", 16)
    assert emit("SELECT x FROM R UNION ALL SELECT a FROM S EMIT ORDER outer") == ("outer", 1)


def test_emit_empty() -> None:
    def empty(sql: str) -> str | None:
        at = parse_query(sql).ast.emit.empty
        return None if at is None else sql[slice(*at)]

    assert empty("SELECT COUNT(*) n FROM R EMIT ORDER outer PRECISION 2") is None
    assert empty("SELECT COUNT(*) n FROM R EMIT  EMPTY") == "EMIT  EMPTY"
    assert empty("SELECT COUNT(*) FROM R [NOW] emit empty emit order outer") == "emit empty"
    assert empty("SELECT x FROM R WHERE x > 1 EMIT ORDER inner EMIT EMPTY;") == "EMIT EMPTY"
    query = parse_query("SELECT x emit FROM R LIMIT 2 EMIT EMPTY EMIT ORDER inner PRECISION 3")
    assert (query.ast.emit.order, query.ast.emit.precision) == ("inner", 3)
    assert query.ast.selects[0].items[0].alias


def test_groups_order_and_limit_are_read() -> None:
    query = parse_query(
        "SELECT DISTINCT x FROM R WHERE a GROUP BY x, y + 1 HAVING b ORDER BY x DESC, 2 LIMIT 10"
    )
    (select,) = query.ast.selects
    assert (len(select.group), select.having is not None) == (2, True)
    assert select.distinct is not None
    assert [(item.descending, item.nulls_first) for item in query.ast.sort] == [
        (True, False),
        (False, True),
    ]
    assert query.source[slice(*query.ast.sort[0].at)] == "ORDER BY x DESC"
    assert query.ast.limit is not None
    assert (query.ast.limit.rows, query.source[slice(*query.ast.limit.at)]) == (10, "LIMIT 10")


def test_order_by_belongs_to_the_whole_union() -> None:
    query = parse_query("SELECT x FROM R GROUP BY x UNION ALL (SELECT a FROM S) ORDER BY x LIMIT 1")
    assert [len(select.group) for select in query.ast.selects] == [1, 0]
    assert len(query.ast.sort) == 1


def test_words_of_clauses_are_names_elsewhere() -> None:
    select = clause("SELECT filter, nulls, first, start, empty, slide, asc FROM R")
    names = ["filter", "nulls", "first", "start", "empty", "slide", "asc"]
    assert [item.value.name for item in select.items] == names


def test_a_precision_needs_an_order() -> None:
    with pytest.raises(SqlError) as error:
        parse_query("SELECT x FROM R EMIT ORDER none PRECISION 4")
    assert str(error.value) == (
        "a PRECISION without an order at line 1, column 33\n"
        "  SELECT x FROM R EMIT ORDER none PRECISION 4\n"
        "                                  ^^^^^^^^^\n"
        "Write EMIT ORDER outer or inner before it, or leave it out."
    )


def test_union_all_may_have_parentheses() -> None:
    query = parse_query("(SELECT x FROM R) UNION ALL (SELECT a FROM S) UNION ALL SELECT ts FROM T")
    assert [select.left.stream.text for select in query.ast.selects] == ["R", "S", "T"]


def test_words_of_other_dialects_are_names() -> None:
    select = clause("SELECT date, format, year, r.end FROM file [NOW] AS r")
    assert [item.value.name for item in select.items] == ["date", "format", "year", "end"]


def test_parse_query_takes_one_query_alone() -> None:
    assert isinstance(parse_query("SELECT x FROM R;"), QueryText)
    with pytest.raises(SqlError) as error:
        parse_query("SELECT x FROM R;\nSELECT a FROM S")
    assert str(error.value) == (
        "more than one query at line 2, column 1\n"
        "  SELECT a FROM S\n"
        "  ^^^^^^^^^^^^^^^\n"
        "Install one query at a time, each with a name of its own."
    )
    with pytest.raises(SqlError) as error:
        parse_query("SHOW STREAMS")
    assert str(error.value) == (
        "not a query at line 1, column 1\n"
        "  SHOW STREAMS\n"
        "  ^^^^^^^^^^^^\n"
        "Write SELECT ... FROM ... here; other statements go to engine.sql."
    )


def test_an_error_in_a_later_statement_has_the_line_of_the_whole_text() -> None:
    with pytest.raises(SqlError) as error:
        parse("SHOW STREAMS;\n\nSELECT x\n  FORM R")
    assert str(error.value) == (
        "syntax error: expected FROM but found 'R' at line 4, column 8\n"
        "    FORM R\n"
        "         ^\n"
        "Write FROM and the name of a stream."
    )


def test_nesting_too_deep_for_the_stack_is_an_error_of_ours() -> None:
    with pytest.raises(SqlError, match="the text is nested too deeply"):
        parse("SELECT " + "(" * 5000 + "x" + ")" * 5000 + " FROM R")


def test_a_long_chain_is_not_nesting() -> None:
    query = parse_query("SELECT x FROM R WHERE " + " AND ".join(f"x <> {n}" for n in range(300)))
    assert query.ast.selects[0].where is not None
