"""Remedies work: the SQL that an error proposes is accepted.

Each case has a refused text, the piece of SQL that the error proposes, and texts that follow the
remedy and contain the piece.
"""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import CreateStream, DeriveStream, Describe, Explain, QueryText
from penstock.streams.schema import Stream

SEMI = "FROM R [ROWS 1000] SEMI JOIN S [ROWS 1000] ON R.x = S.a"
ANTI = "FROM R [ROWS 1000] ANTI JOIN S [ROWS 1000] ON R.x = S.a"
TUMBLING = "FROM R [RANGE 10 MINUTES SLIDE 10 MINUTES WATTR t]"
COUNTED = f"SELECT window_start, window_end, COUNT(*) AS n {TUMBLING}"
BEFORE = "FROM R [NOW] AS now LEFT JOIN R [ROWS 1] AS before ON TRUE"
LAST_ROWS = "FROM R [ROWS 100 SLIDE 1]"

CASES = [
    # joins
    (
        "SELECT R.x FROM R ASOF JOIN S ON R.id = S.id",
        "FROM R [NOW] JOIN S [ROWS 1] ON TRUE",
        "SELECT R.x FROM R [NOW] JOIN S [ROWS 1] ON TRUE",
    ),
    (
        "SELECT R.x FROM R ASOF JOIN S ON R.id = S.id",
        "FROM R [NOW] JOIN S [RANGE 10 MINUTES WATTR t] ON R.id = S.id",
        "SELECT R.x FROM R [NOW] JOIN S [RANGE 10 MINUTES WATTR t] ON R.id = S.id",
    ),
    (
        "SELECT R.x FROM R LEFT JOIN S FOR SYSTEM_TIME AS OF R.t AS s ON R.id = s.id",
        "FROM R [NOW] JOIN S [ROWS 1] ON TRUE",
        "SELECT R.x FROM R [NOW] JOIN S [ROWS 1] ON TRUE",
    ),
    (
        "SELECT R.x FROM R JOIN S WITHIN 1 HOUR ON R.id = S.id",
        "FROM R [RANGE 1 HOUR WATTR t] JOIN S [RANGE 1 HOUR WATTR t]",
        "SELECT R.x FROM R [RANGE 1 HOUR WATTR t] JOIN S [RANGE 1 HOUR WATTR t] ON R.id = S.id",
    ),
    (
        "SELECT R.x FROM R JOIN S ON R.id = S.id JOIN Past WITHIN 1 HOUR ON S.id = Past.id",
        "JOIN Past [RANGE 1 HOUR WATTR t]",
        "SELECT R.x FROM R [RANGE 1 HOUR WATTR t] JOIN S [RANGE 1 HOUR WATTR t] ON R.id = S.id "
        "JOIN Past [RANGE 1 HOUR WATTR t] ON S.id = Past.id",
    ),
    (
        "SELECT x FROM R [NOW] JOIN S [NOW] ON R.id = S.id WHERE x IN (SELECT id FROM T)",
        "SEMI JOIN T [ROWS 1000] ON x = T.id",
        "SELECT x FROM R [NOW] JOIN S [NOW] ON R.id = S.id SEMI JOIN T [ROWS 1000] ON x = T.id",
    ),
    (
        "SELECT x FROM R [NOW] JOIN S [NOW] USING (id, name)",
        "ON R.id = S.id AND R.name = S.name",
        "SELECT x FROM R [NOW] JOIN S [NOW] ON R.id = S.id AND R.name = S.name",
    ),
    (
        "SELECT x FROM R [NOW] AS a JOIN S [NOW] AS b USING (id)",
        "ON a.id = b.id",
        "SELECT x FROM R [NOW] AS a JOIN S [NOW] AS b ON a.id = b.id",
    ),
    (
        "SELECT x FROM R [NOW] NATURAL JOIN S [NOW]",
        "ON R.id = S.id",
        "SELECT x FROM R [NOW] JOIN S [NOW] ON R.id = S.id",
    ),
    (
        "SELECT x FROM R [NOW] AS a NATURAL LEFT JOIN S [NOW] b",
        "ON a.id = b.id",
        "SELECT x FROM R [NOW] AS a LEFT JOIN S [NOW] b ON a.id = b.id",
    ),
    (
        "SELECT x FROM R JOIN S ON x = a",
        "R [ROWS 1000]",
        "SELECT x FROM R [ROWS 1000] JOIN S [ROWS 1000] ON x = a",
    ),
    (
        "SELECT x FROM R JOIN S ON x = a",
        "R [RANGE 10 SECONDS WATTR t]",
        "SELECT x FROM R [RANGE 10 SECONDS WATTR t] JOIN S [RANGE 10 SECONDS WATTR t] ON x = a",
    ),
    # three and more streams
    (
        "SELECT x FROM R [NOW] LEFT JOIN S [NOW] ON x = a JOIN T [NOW] ON ts = a",
        "FROM R [NOW] LEFT JOIN S [NOW] ON x = a; and join it, FROM j [ROWS 1000] JOIN ...",
        "CREATE STREAM j AS SELECT x, a FROM R [NOW] LEFT JOIN S [NOW] ON x = a; "
        "SELECT x FROM j [ROWS 1000] JOIN T [NOW] ON ts = a",
    ),
    (
        "SELECT x FROM R [NOW] ANTI JOIN S [NOW] ON x = a FULL JOIN T [NOW] ON ts = x",
        "FROM R [NOW] ANTI JOIN S [NOW] ON x = a; and join it, FROM j [ROWS 1000] FULL JOIN ...",
        "CREATE STREAM j AS SELECT x FROM R [NOW] ANTI JOIN S [NOW] ON x = a; "
        "SELECT x FROM j [ROWS 1000] FULL JOIN T [NOW] ON ts = x",
    ),
    (
        "SELECT x FROM Past [UNBOUNDED], Older [UNBOUNDED], Gone [NOW] WHERE x = a",
        "Past [ROWS 1000] and Older [ROWS 1000]",
        "SELECT x FROM Past [ROWS 1000], Older [ROWS 1000], Gone [NOW] WHERE x = a "
        "-- Past [ROWS 1000] and Older [ROWS 1000]",
    ),
    (
        "SELECT x FROM Past [UNBOUNDED], Older [UNBOUNDED], Gone [NOW] WHERE x = a",
        "a condition on Gone and Past",
        "SELECT x FROM Past [UNBOUNDED], Older [UNBOUNDED], Gone [NOW] WHERE x = a AND x = ts "
        "-- a condition on Gone and Past",
    ),
    (
        "SELECT x FROM R [NOW] JOIN S [NOW] ON x = ts JOIN T [NOW] ON ts = a",
        "in the ON of T",
        "SELECT x FROM R [NOW] JOIN S [NOW] ON TRUE JOIN T [NOW] ON ts = a AND x = ts "
        "-- in the ON of T",
    ),
    # sub-queries
    ("SELECT x FROM R WHERE x IN (SELECT a FROM S)", SEMI, f"SELECT x {SEMI}"),
    (
        "SELECT x FROM R WHERE x NOT IN (SELECT a FROM S)",
        ANTI,
        f"SELECT x {ANTI} WHERE R.x IS NOT NULL",
    ),
    ("SELECT x FROM R WHERE NOT x IN (SELECT a FROM S)", ANTI, f"SELECT x {ANTI}"),
    (
        "SELECT x FROM R WHERE x IN (SELECT x FROM R WHERE y > 1)",
        "FROM R [ROWS 1000] SEMI JOIN R [ROWS 1000] AS other ON R.x = other.x AND",
        "SELECT x FROM R [ROWS 1000] SEMI JOIN R [ROWS 1000] AS other ON R.x = other.x AND "
        "other.y > 1",
    ),
    (
        "SELECT x FROM R [ROWS 7] AS r WHERE x + 1 IN (SELECT a FROM S [ROWS 9] s WHERE f > 1)",
        "FROM R [ROWS 7] AS r SEMI JOIN S [ROWS 9] AS s ON x + 1 = s.a AND f > 1",
        "SELECT x FROM R [ROWS 7] AS r SEMI JOIN S [ROWS 9] AS s ON x + 1 = s.a AND f > 1",
    ),
    (
        "SELECT x FROM R WHERE EXISTS (SELECT 1 FROM S WHERE S.id = R.id)",
        "FROM R [ROWS 1000] SEMI JOIN S [ROWS 1000] ON S.id = R.id",
        "SELECT x FROM R [ROWS 1000] SEMI JOIN S [ROWS 1000] ON S.id = R.id",
    ),
    (
        "SELECT x FROM R WHERE NOT EXISTS (SELECT * FROM S WHERE S.id = R.id)",
        "FROM R [ROWS 1000] ANTI JOIN S [ROWS 1000] ON S.id = R.id",
        "SELECT x FROM R [ROWS 1000] ANTI JOIN S [ROWS 1000] ON S.id = R.id",
    ),
    ("SELECT x FROM R INTERSECT SELECT a FROM S", SEMI, f"SELECT x {SEMI}"),
    ("SELECT x FROM R EXCEPT SELECT a FROM S", ANTI, f"SELECT x {ANTI}"),
    ("SELECT x FROM R MINUS SELECT a FROM S", ANTI, f"SELECT x {ANTI}"),
    (
        "SELECT x FROM (SELECT x FROM R WHERE x > 1) AS q WHERE x < 9",
        "CREATE STREAM q AS SELECT x FROM R WHERE x > 1; ",
        "CREATE STREAM q AS SELECT x FROM R WHERE x > 1; SELECT x FROM q WHERE x < 9",
    ),
    (
        "SELECT x FROM (SELECT x FROM R) AS r",
        "CREATE STREAM sub AS SELECT x FROM R",
        "CREATE STREAM sub AS SELECT x FROM R; SELECT x FROM sub AS r",
    ),
    (
        "WITH q AS (SELECT x FROM R), p AS (SELECT a FROM S) "
        "SELECT x FROM q [NOW] JOIN p [NOW] ON x = a",
        "CREATE STREAM q AS SELECT x FROM R; CREATE STREAM p AS SELECT a FROM S; "
        "SELECT x FROM q [NOW] JOIN p [NOW] ON x = a",
        "CREATE STREAM q AS SELECT x FROM R; CREATE STREAM p AS SELECT a FROM S; "
        "SELECT x FROM q [NOW] JOIN p [NOW] ON x = a",
    ),
    (
        "SELECT x FROM R WHERE x > (SELECT MAX(a) AS top FROM S [ROWS 9 SLIDE 1])",
        "CREATE STREAM sub AS SELECT MAX(a) AS top FROM S [ROWS 9 SLIDE 1]; ",
        "CREATE STREAM sub AS SELECT MAX(a) AS top FROM S [ROWS 9 SLIDE 1]; "
        "SELECT x FROM R [NOW] JOIN sub [ROWS 1] ON TRUE WHERE x > sub.top",
    ),
    (
        "SELECT x FROM Past UNION SELECT a FROM Older",
        "UNION ALL",
        "CREATE STREAM u AS SELECT x, t FROM R UNION ALL SELECT a, t FROM S; "
        "SELECT DISTINCT x FROM u [RANGE 10 MINUTES SLIDE 10 MINUTES WATTR t]",
    ),
    # windows
    (
        "SELECT * FROM TABLE(TUMBLE(TABLE R, DESCRIPTOR(tz), INTERVAL '9' HOURS))",
        "FROM R [RANGE 9 HOURS SLIDE 9 HOURS WATTR tz]",
        "SELECT window_end, COUNT(*) AS n FROM R [RANGE 9 HOURS SLIDE 9 HOURS WATTR tz]",
    ),
    ("SELECT * FROM TABLE(HOP(DATA => TABLE R, TIMECOL => DESCRIPTOR(t)))", TUMBLING, COUNTED),
    (
        "SELECT * FROM HOP(R, t, INTERVAL '1 MINUTE', INTERVAL '10 MINUTES')",
        "FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
        "SELECT window_end, COUNT(*) AS n FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
    ),
    (
        "SELECT COUNT(*) FROM R GROUP BY TUMBLE(t, INTERVAL '1' MINUTE)",
        "FROM R [RANGE 1 MINUTE SLIDE 1 MINUTE WATTR t]",
        "SELECT window_end, COUNT(*) AS n FROM R [RANGE 1 MINUTE SLIDE 1 MINUTE WATTR t]",
    ),
    ("SELECT COUNT(*) FROM R GROUP BY window(t, '10 minutes')", TUMBLING, COUNTED),
    (
        "SELECT COUNT(*) FROM R WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id",
        "FROM R [RANGE 1 HOUR SLIDE 1 HOUR WATTR t]",
        "SELECT COUNT(*) FROM R [RANGE 1 HOUR SLIDE 1 HOUR WATTR t] GROUP BY id",
    ),
    (
        "SELECT SUM(x) OVER (PARTITION BY id ORDER BY t) FROM R",
        "FROM one [ROWS 100 SLIDE 1]",
        "CREATE STREAM one AS SELECT x FROM R WHERE id = 7; "
        "SELECT SUM(x) FROM one [ROWS 100 SLIDE 1]",
    ),
    ("SELECT SUM(x) OVER (ORDER BY t) FROM R", LAST_ROWS, f"SELECT SUM(x) {LAST_ROWS}"),
    ("SELECT x FROM R WINDOW w AS (ORDER BY t)", LAST_ROWS, f"SELECT SUM(x) {LAST_ROWS}"),
    (
        "SELECT LAG(x) OVER (ORDER BY t) FROM R",
        BEFORE,
        f"SELECT now.x, before.x AS earlier {BEFORE}",
    ),
    ("SELECT LEAD(x) FROM R", BEFORE, f"SELECT now.x, before.x AS earlier {BEFORE}"),
    (
        "SELECT x FROM R QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY t) = 1",
        "LAST(x)",
        "SELECT id, LAST(x) FROM R [RANGE 10 SECONDS SLIDE 10 SECONDS WATTR t] GROUP BY id",
    ),
    (
        "SELECT COUNT(*) FROM R",
        "R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
        "SELECT COUNT(*) FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
    ),
    (
        "SELECT DISTINCT x FROM R",
        "R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
        "SELECT DISTINCT x FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
    ),
    (
        "SELECT x FROM R [RANGE INTERVAL '5' MINUTES WATTR t]",
        "RANGE 5 MINUTES",
        "SELECT x FROM R [RANGE 5 MINUTES WATTR t]",
    ),
    (
        "SELECT x FROM R [RANGE '5 minutes' WATTR t]",
        "RANGE 5 MINUTES",
        "SELECT x FROM R [RANGE 5 MINUTES WATTR t]",
    ),
    (
        "SELECT COUNT(*) FROM R [TUMBLING 5 MINUTES]",
        "[RANGE 5 MINUTES SLIDE 5 MINUTES WATTR t]",
        "SELECT COUNT(*) FROM R [RANGE 5 MINUTES SLIDE 5 MINUTES WATTR t]",
    ),
    (
        "SELECT x FROM R [RANGE 5 MINS WATTR t]",
        "MINUTES",
        "SELECT x FROM R [RANGE 5 MINUTES WATTR t]",
    ),
    (
        "SELECT t + INTERVAL 5 MINUETS FROM R",
        "MINUTES",
        "SELECT t + INTERVAL 5 MINUTES FROM R",
    ),
    (
        "SELECT * FROM R MATCH_RECOGNIZE (PARTITION BY id PATTERN (A B) DEFINE A AS A.x > 1)",
        "FROM R [RANGE 10 SECONDS WATTR t] AS a JOIN R [NOW] AS b ON a.id = b.id AND a.t < b.t",
        "SELECT a.x FROM R [RANGE 10 SECONDS WATTR t] AS a JOIN R [NOW] AS b ON a.id = b.id AND "
        "a.t < b.t",
    ),
    # clauses
    (
        "SELECT * FROM Past PIVOT (SUM(x) FOR name IN ('a', 'b'))",
        "SUM(x) FILTER (WHERE name = 'a') AS a",
        "SELECT SUM(x) FILTER (WHERE name = 'a') AS a FROM Past",
    ),
    (
        "SELECT DISTINCT ON (id) id, x FROM Past",
        "FIRST(x)",
        "SELECT id, FIRST(x) FROM Past GROUP BY id",
    ),
    (
        "SELECT COUNT(*) FROM Past GROUP BY GROUPING SETS ((x), (name))",
        "UNION ALL",
        "SELECT x, COUNT(*) AS n FROM Past GROUP BY x UNION ALL "
        "SELECT CAST(NULL AS int32), COUNT(*) FROM Past GROUP BY name",
    ),
    ("SELECT TOP 5 x FROM Past", "LIMIT 5", "SELECT x FROM Past LIMIT 5"),
    ("SELECT x, COUNT(*) FROM Past GROUP BY ALL", "1", "SELECT x, COUNT(*) FROM Past GROUP BY 1"),
    ("SELECT x FROM R WHERE name ILIKE 'A%'", "LIKE 'a%'", "SELECT LOWER(name) LIKE 'a%' FROM R"),
    (
        "SELECT x FROM R WHERE x <=> 2",
        "a = b OR (a IS NULL AND b IS NULL)",
        "SELECT x FROM R AS q WHERE x = i8 OR (x IS NULL AND i8 IS NULL) "
        "-- a = b OR (a IS NULL AND b IS NULL)",
    ),
    (
        "SELECT LAST(x) IGNORE NULLS FROM Past",
        "FILTER (WHERE x IS NOT NULL)",
        "SELECT LAST(x) FILTER (WHERE x IS NOT NULL) FROM Past",
    ),
    (
        "SELECT TRY_CAST(name AS decimal(9, 2)) FROM R",
        "CAST(name AS decimal(9, 2))",
        "SELECT CAST(name AS decimal(9, 2)) FROM R",
    ),
    (
        "SELECT POSITION('a' IN name) FROM R",
        "CONTAINS(name, 'a')",
        "SELECT CONTAINS(name, 'a') FROM R",
    ),
    (
        "SELECT EXTRACT(EPOCH FROM t) FROM R",
        "CAST(t AS int64)",
        "SELECT CAST(t AS int64) FROM R",
    ),
    # statements
    ("CREATE STREAM IF NOT EXISTS q (x int)", "CREATE STREAM q (x int)", "CREATE STREAM q (x int)"),
    (
        "CREATE OR REPLACE STREAM q AS SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
    ),
    ("CREATE TABLE q (x int)", "CREATE STREAM q (x int)", "CREATE STREAM q (x int)"),
    (
        "CREATE MATERIALIZED VIEW q AS SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
    ),
    (
        "CREATE STREAM q (x int, ts timestamp, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
        "TIMESTAMP BY ts",
        "CREATE STREAM q (x int, ts timestamp) TIMESTAMP BY ts; "
        "SELECT x FROM q [RANGE 10 MINUTES SLACK 5 SECONDS]",
    ),
    (
        "CREATE STREAM q (x int, ts timestamp, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
        "FROM q [RANGE 10 MINUTES SLACK 5 SECONDS]",
        "CREATE STREAM q (x int, ts timestamp) TIMESTAMP BY ts; "
        "SELECT x FROM q [RANGE 10 MINUTES SLACK 5 SECONDS]",
    ),
    (
        "INSERT INTO q SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
        "CREATE STREAM q AS SELECT x FROM R",
    ),
    ("EXPLAIN ANALYZE SELECT x FROM R", "EXPLAIN SELECT x FROM R", "EXPLAIN SELECT x FROM R"),
    ("DESCRIBE STREAM R", "DESCRIBE R", "DESCRIBE R"),
    ("SHOW CREATE STREAM R", "DESCRIBE R", "DESCRIBE R"),
    ("DESCRIBE SELECT x FROM R", "EXPLAIN SELECT x FROM R", "EXPLAIN SELECT x FROM R"),
    ("SELECT x FROM db.R", "R", "SELECT x FROM R"),
    # types and values
    (
        "SELECT id FROM R WHERE id = '5'",
        "CAST('5' AS int64)",
        "SELECT id = CAST('5' AS int64) FROM R",
    ),
    ("SELECT x + name FROM R", "CAST(name AS int32)", "SELECT x + CAST(name AS int32) FROM R"),
    ("SELECT name + name FROM R", "name || name", "SELECT name || name FROM R"),
    (
        "SELECT CAST(d AS int) FROM R",
        "CAST(CAST(d AS timestamp) AS int32)",
        "SELECT CAST(CAST(d AS timestamp) AS int32) FROM R",
    ),
    ("SELECT t - t FROM R", "CAST(t - t AS int64)", "SELECT CAST(t - t AS int64) FROM R"),
    (
        "SELECT id FROM R WHERE t = tz",
        "CAST(t AS timestamp(6, 'UTC'))",
        "SELECT CAST(t AS timestamp(6, 'UTC')) = tz FROM R",
    ),
    ("SELECT d + 3 FROM R", "d + INTERVAL 3 DAYS", "SELECT d + INTERVAL 3 DAYS FROM R"),
    ("SELECT d - x FROM R", "d - INTERVAL 1 DAY * x", "SELECT d - INTERVAL 1 DAY * x FROM R"),
    (
        "SELECT t + INTERVAL '1 day 2 hours' FROM R",
        "INTERVAL 1 DAY + INTERVAL 2 HOURS",
        "SELECT t + INTERVAL 1 DAY + INTERVAL 2 HOURS FROM R",
    ),
    (
        "SELECT DATE_TRUNC(hour, t) FROM R",
        "DATE_TRUNC('hour', t)",
        "SELECT DATE_TRUNC('hour', t) FROM R",
    ),
    ("SELECT TRIM(LEADING FROM name) FROM R", "LTRIM(name)", "SELECT LTRIM(name) FROM R"),
    ("SELECT MAX(x, i8) FROM R", "GREATEST(x, i8)", "SELECT GREATEST(x, i8) FROM R"),
    (
        "SELECT COUNT(DISTINCT x, y) FROM Past",
        "COUNT(DISTINCT CAST(x AS string) || ',' || CAST(y AS string))",
        "SELECT COUNT(DISTINCT CAST(x AS string) || ',' || CAST(y AS string)) FROM Past",
    ),
    ('SELECT x FROM R WHERE name = "abc"', "'abc'", "SELECT x FROM R WHERE name = 'abc'"),
    ("SELECT 'a' 'b' AS c FROM R", "||", "SELECT 'a' || 'b' AS c FROM R"),
    (
        "CREATE STREAM q (t timestamp) TIMESTAMP t",
        "TIMESTAMP BY t",
        "CREATE STREAM q (t timestamp) TIMESTAMP BY t",
    ),
    (
        "CREATE STREAM q AS SELECT x, t FROM R TIMESTAMP BY t",
        "FROM q [RANGE 10 MINUTES WATTR t]",
        "CREATE STREAM q AS SELECT x, t FROM R; SELECT x FROM q [RANGE 10 MINUTES WATTR t]",
    ),
    (
        "CREATE STREAM q AS R",
        "CREATE STREAM q AS SELECT * FROM R",
        "CREATE STREAM q AS SELECT * FROM R",
    ),
    (
        "SELECT x FROM R WHERE (x, id) IN (SELECT a, id FROM S WHERE a > 1 OR f > 2)",
        "FROM R [ROWS 1000] SEMI JOIN S [ROWS 1000] ON R.x = S.a AND R.id = S.id AND "
        "(a > 1 OR f > 2)",
        "SELECT x FROM R [ROWS 1000] SEMI JOIN S [ROWS 1000] ON R.x = S.a AND R.id = S.id AND "
        "(a > 1 OR f > 2)",
    ),
    (
        "SELECT x FROM R WHERE x IN (SELECT a FROM S) OR y > 3",
        "UNION ALL",
        f"SELECT x {SEMI} UNION ALL SELECT x {ANTI} WHERE y > 3",
    ),
    (
        "SELECT x IN (SELECT a FROM S) AS there FROM R",
        "UNION ALL",
        f"SELECT TRUE AS there {SEMI} UNION ALL SELECT FALSE {ANTI}",
    ),
    ("SELECT x FROM R WHERE x", "x <> 0", "SELECT x FROM R WHERE x <> 0"),
    (
        "SELECT x FROM R WHERE b IS TRUE",
        "COALESCE(x, FALSE)",
        "SELECT COALESCE(b, FALSE) FROM R -- COALESCE(x, FALSE)",
    ),
    ("SELECT x, COUNT(*) FROM Past", "GROUP BY x", "SELECT x, COUNT(*) FROM Past GROUP BY x"),
    (
        "SELECT COUNT(*) FROM Past GROUP BY name HAVING x > 1",
        "GROUP BY name, x",
        "SELECT COUNT(*) FROM Past GROUP BY name, x HAVING x > 1",
    ),
    (
        "SELECT window_end FROM R",
        "FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
        "SELECT window_end, COUNT(*) FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]",
    ),
]


def follow(text: str, catalog: Catalog) -> None:
    """Parse and bind every statement, as an engine would run it."""
    for statement in parse(text):
        if isinstance(statement, CreateStream):
            catalog.add(statement.stream)
        elif isinstance(statement, DeriveStream):
            plan = bind(statement.query, catalog)
            catalog.add(Stream.of(statement.name, plan.schema))
        elif isinstance(statement, QueryText):
            bind(statement, catalog)
        elif isinstance(statement, Explain):
            bind(statement.query, catalog)
        elif isinstance(statement, Describe):
            assert catalog.get(statement.name) is not None


@pytest.mark.parametrize(("refused", "proposed", "followed"), CASES, ids=[c[0] for c in CASES])
def test_the_sql_that_an_error_proposes_is_accepted(
    catalog: Catalog, refused: str, proposed: str, followed: str
) -> None:
    with pytest.raises(SqlError) as error:
        follow(refused, catalog)
    assert proposed in error.value.remedy
    assert proposed.rstrip(".; ").partition("; and join it")[0] in followed
    follow(followed, catalog)
