"""Any text gives a plan or one of our errors."""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.campaigns import foreign

from penstock.errors import SqlError
from penstock.program.compile.compiler import compile_plan
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import QueryText
from penstock.streams.schema import Stream

QUERY = (
    "SELECT r . x , CASE WHEN s . a = 1 THEN 'one' ELSE NULL END AS c , CAST ( r . x + 1.5 "
    "AS int ) "
    "FROM R [ RANGE 10 MINUTES WATTR t SLACK 5 SECONDS ] AS r LEFT JOIN S [ ROWS 4 WATTR t ] s "
    "ON r . x BETWEEN s . a - 1 AND s . a + 1 OR r . x IN ( 1 , 2 ) "
    "WHERE r . t + INTERVAL 1 DAY > '2024-01-01' AND NOT ( s . a IS NULL ) EMIT ORDER outer ;"
)

AGGREGATES = (
    "SELECT x % 2 AS k , COUNT ( * ) FILTER ( WHERE a > 1 ) AS n , MAX ( x ) - MIN ( x ) , "
    "COUNT ( DISTINCT a ) , window_start "
    "FROM R [ RANGE 10 MINUTES SLIDE 1 MINUTE START AT '2024-01-01' WATTR t SLACK 5 SECONDS ] AS r "
    "WHERE a > 0 GROUP BY k , 1 , r . x % 2 HAVING SUM ( x ) > 3 "
    "ORDER BY n DESC NULLS LAST , 1 , FIRST ( x ) LIMIT 5 EMIT ORDER outer ;"
)

COLUMNS = pa.schema({"x": pa.int32(), "a": pa.int64(), "t": pa.timestamp("us")})


def attempt(sql: str) -> None:
    catalog = Catalog([Stream.of("R", COLUMNS), Stream.of("S", COLUMNS, bounded=True)])
    with suppress(SqlError):
        for statement in parse(sql):
            if isinstance(statement, QueryText):
                compile_plan(bind(statement, catalog))


@pytest.mark.long
def test_every_beginning_of_a_text_of_other_engines() -> None:
    for words in foreign.texts():
        for count in range(1, len(words) + 1):
            attempt(" ".join(words[:count]))


def test_texts_of_other_engines_cut_and_joined() -> None:
    seed = random.randrange(2**32)
    assert foreign.run(seed, 300) == 0, f"python -m tests.campaigns foreign --seed {seed}"


@given(st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_query_with_words_moved_around(data: st.DataObject) -> None:
    query = data.draw(st.sampled_from([QUERY, AGGREGATES]))
    words = query.split()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(words) - 1))
        word = data.draw(
            st.sampled_from([*query.split(), "", "X'00'", "[NOW]", "*", "DISTINCT", "::", "S"])
        )
        words[place] = word if data.draw(st.booleans()) else f"{words[place]} {word}"
    attempt(" ".join(words))


@given(st.text(alphabet="SELECT FROMRx1'\"`()[]{};,.+-*/<>=!|#$%&@~^?:\\\n\té", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_characters(sql: str) -> None:
    attempt(sql)
    attempt(f"SELECT {sql} FROM R")


def test_the_query_itself_is_fine() -> None:
    catalog = Catalog([Stream.of("R", COLUMNS), Stream.of("S", COLUMNS)])
    (statement,) = parse(AGGREGATES)
    assert isinstance(statement, QueryText)
    assert bind(statement, catalog).schema.names[:2] == ["k", "n"]
    (statement,) = parse(QUERY)
    assert isinstance(statement, QueryText)
    assert bind(statement, catalog).schema.names == ["x", "c", "cast ( r . x + 1.5 as int )"]
