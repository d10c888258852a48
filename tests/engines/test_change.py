"""Queries are installed, changed and dropped between any two tuples, and keep their windows.

Every pair of texts below is tried at every position of one small script, for every kind of join,
and the rows are compared with the oracle's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import ChangeRefused
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import Change, CreateStream, Drop, Install
from penstock.streams.events import End, Punctuation, Tuples
from penstock.streams.literals import physical_list
from penstock.streams.schema import Stream

COLUMNS = pa.schema({"id": pa.int64(), "t": pa.int64(), "x": pa.int32(), "n": pa.string()})
STREAMS = tuple(Stream.of(name, COLUMNS) for name in "RS")


def tuple_of(stream: str, *values: Any) -> Tuples:
    columns = [pa.array([v], f.type) for v, f in zip(values, COLUMNS, strict=True)]
    return Tuples(stream, pa.RecordBatch.from_arrays(columns, schema=COLUMNS))


SCRIPT: tuple[Any, ...] = (
    tuple_of("R", 1, 1, 5, "a"),
    tuple_of("S", 2, 2, 5, "a"),
    tuple_of("R", 3, 4, 1, "b"),
    tuple_of("R", 4, 3, 5, None),
    tuple_of("S", 5, 5, 7, "b"),
    Punctuation("S", 5),
    tuple_of("S", 6, 4, 1, "a"),
    tuple_of("R", 7, 6, None, "a"),
    tuple_of("S", 8, 9, 6, "b"),
    tuple_of("R", 9, 8, 6, "b"),
    End("S"),
    tuple_of("R", 10, 9, 5, "a"),
)
assert len(SCRIPT) == 12

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
QUERY = "SELECT {columns} FROM R {left} AS r {kind} S {right} AS s ON {on}{where}"
PLAIN = {
    "columns": "r.id",
    "left": "[ROWS 3]",
    "right": "[ROWS 3]",
    "on": "r.x <= s.x",
    "where": "",
}
RANGES = {"left": "[RANGE 4 WATTR t SLACK 2]", "right": "[RANGE 4 WATTR t]"}
# What a change alters, from and to.
PAIRS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "predicate": ({"on": "r.x = s.x"}, {"on": "r.n = s.n"}),
    "predicate to residual": ({"on": "r.x <= s.x"}, {"on": "UPPER(r.n) LIKE s.n || '%'"}),
    "filter": ({"on": "r.x > 4"}, {"on": "s.x > 5 AND r.n = s.n"}),
    "where": ({"where": " WHERE r.x = 5"}, {"where": " WHERE r.x IS NULL"}),
    "projection": ({"columns": "r.id, r.n"}, {"columns": "r.x + 1 AS y"}),
    "rows larger": ({"left": "[ROWS 1]"}, {"left": "[ROWS 5]"}),
    "rows smaller": ({"left": "[ROWS 5]"}, {"left": "[ROWS 1]"}),
    "rows to none": ({}, {"left": "[ROWS 0]", "right": "[ROWS 0]"}),
    "rows from none": ({"left": "[ROWS 0]", "right": "[ROWS 0]"}, {}),
    "range larger": (RANGES, {**RANGES, "left": "[RANGE 9 WATTR t SLACK 2]"}),
    "range smaller": (RANGES, {**RANGES, "left": "[RANGE 1 WATTR t SLACK 2]"}),
    "range right smaller": (RANGES, {**RANGES, "right": "[RANGE 1 WATTR t]"}),
    "slack larger": ({**RANGES, "left": "[RANGE 4 WATTR t]"}, RANGES),
    "slack smaller": (RANGES, {**RANGES, "left": "[RANGE 4 WATTR t]"}),
    "mixed": (
        {"left": "[ROWS 2]", "right": "[RANGE 3 WATTR t]", "on": "r.x = s.x"},
        {"left": "[ROWS 4]", "right": "[RANGE 5 WATTR t SLACK 1]", "on": "r.n = s.n"},
    ),
    "several at once": (
        {"columns": "r.n", "left": "[ROWS 1]", "on": "r.x > s.x"},
        {"columns": "r.t", "right": "[ROWS 1]", "on": "r.x <= s.x", "where": " WHERE r.id > 2"},
    ),
}


def texts(pair: str, kind: str) -> tuple[str, str]:
    before, after = (QUERY.format(**{**PLAIN, "kind": kind, **part}) for part in PAIRS[pair])
    return before, after


def placements(pair: str, kind: str) -> Iterator[list[Any]]:
    """The script with the query installed first and changed at each position."""
    before, after = texts(pair, kind)
    for at in range(len(SCRIPT) + 1):
        yield [Install("q", before), *SCRIPT[:at], Change("q", after), *SCRIPT[at:]]


def on_oracle(events: list[Any]) -> tuple[list[Any], list[Any]]:
    oracle = Oracle()
    for stream in STREAMS:
        oracle.create_stream(stream)
    for event in events:
        if isinstance(event, Install):
            oracle.install(event.query, event.text)
        elif isinstance(event, Change):
            oracle.change(event.query, event.text)
        elif isinstance(event, Drop):
            oracle.drop(event.query)
        else:
            oracle.feed([event])
    return oracle.rows["q"], [(position, stream) for position, stream, _ in oracle.late["q"]]


def on_engine(events: list[Any], together: bool) -> tuple[list[Any], list[Any]]:
    engine = Engine(compile_predicates=False)
    engine.feed([CreateStream(stream) for stream in STREAMS])
    rows: list[Any] = []
    late: list[Any] = []
    for part in [events] if together else [[event] for event in events]:
        engine.feed(part)
        for query in (*engine.dropped, *engine.queries.values()):
            for result in query.drain():
                columns = [physical_list(column) for column in result.batch.columns]
                values = zip(*columns, strict=True)
                rows += zip(result.positions.tolist(), values, strict=True)
            late += [(x.position, x.stream) for x in query.drain_letters("late")]
    return rows, late


@pytest.mark.product(4)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_change_between_any_two_tuples(pair: str) -> None:
    told_apart = 0
    for kind in KINDS:
        seen = set()
        for at, events in enumerate(placements(pair, kind)):
            expected = on_oracle(events)
            seen.add(str([row for _, row in expected[0]]) + str(len(expected[1])))
            assert on_engine(events, together=at % 2 == 0) == expected, (kind, at)
        told_apart += len(seen) > 1
    # The position must matter, or nobody would see a change that came too early or too late.
    assert told_apart >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_two_changes_between_any_tuples(kind: str) -> None:
    before, after = texts("several at once", kind)
    for first, second in itertools.combinations(range(0, 13, 2), 2):
        parts = (SCRIPT[:first], SCRIPT[first:second], SCRIPT[second:])
        events = [
            Install("q", before),
            *parts[0],
            Change("q", after),
            *parts[1],
            Change("q", before),
            *parts[2],
        ]
        assert on_engine(events, True) == on_oracle(events), (first, second)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranges", [False, True])
def test_an_install_and_a_drop_between_any_tuples(kind: str, ranges: bool) -> None:
    text = QUERY.format(**{**PLAIN, "kind": kind, "on": "r.x <= s.x", **(RANGES if ranges else {})})
    for start, stop in itertools.combinations(range(0, len(SCRIPT) + 1, 2), 2):
        events = [
            *SCRIPT[:start],
            Install("q", text),
            *SCRIPT[start:stop],
            Drop("q"),
            *SCRIPT[stop:],
        ]
        assert on_engine(events, True) == on_oracle(events), (start, stop)


# -- refused changes ------------------------------------------------------------------------

REMEDY = "Install it as a new query and drop this one."
START = "SELECT r.id FROM R [ROWS 3] AS r JOIN S [RANGE 4 WATTR t] AS s ON r.x = s.x"
REFUSED = {
    "SELECT r.id FROM S [ROWS 3] AS r JOIN S [RANGE 4 WATTR t] AS s ON r.x = s.x": (
        "query 'q' reads R, S; a change cannot make it read S, S"
    ),
    "SELECT id FROM R": "query 'q' reads R, S; a change cannot make it read R",
    "SELECT id FROM R UNION ALL SELECT id FROM S": (
        "a change cannot turn query 'q' into one of another shape (join, aggregate, order, "
        "selection or union)"
    ),
    "SELECT r.id FROM R [ROWS 3] AS r LEFT JOIN S [RANGE 4 WATTR t] AS s ON r.x = s.x": (
        "query 'q' is a join of kind inner; a change cannot make it left"
    ),
    "SELECT r.id FROM R [RANGE 3 WATTR t] AS r JOIN S [RANGE 4 WATTR t] AS s ON r.x = s.x": (
        "query 'q' has the window [ROWS 3] on t; a change may alter its size and slack, but cannot "
        "make it [RANGE 3 WATTR t]"
    ),
    "SELECT r.id FROM R [ROWS 3] AS r JOIN S [RANGE 4 WATTR id] AS s ON r.x = s.x": (
        "query 'q' has the window [RANGE 4 WATTR t]; a change may alter its size and slack, "
        "but cannot make it [RANGE 4 WATTR id]"
    ),
    "SELECT r.id FROM R [ROWS 3] AS r JOIN S [ROWS 4] AS s ON r.x = s.x": (
        "query 'q' has the window [RANGE 4 WATTR t]; a change may alter its size and slack, "
        "but cannot make it [ROWS 4]"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_change_is_refused_and_the_query_goes_on(text: str) -> None:
    expected = on_oracle([Install("q", START), *SCRIPT])[0]
    engine = Engine(compile_predicates=False)
    engine.feed([*map(CreateStream, STREAMS), Install("q", START)])
    q = engine.queries["q"]
    for event in SCRIPT:
        with pytest.raises(ChangeRefused) as caught:
            q.change(text)
        assert str(caught.value) == f"{REFUSED[text]}\n{REMEDY}"
        engine.feed([event])
    assert q.text == START
    assert [p for result in q.drain() for p in result.positions.tolist()] == [
        p for p, _ in expected
    ]


def test_the_kinds_of_a_tree_stay() -> None:
    engine = Engine(compile_predicates=False)
    engine.feed([CreateStream(stream) for stream in STREAMS])
    tree = (
        "SELECT a.id FROM R [ROWS 3] AS a JOIN S [ROWS 3] AS b ON a.x = b.x "
        "{} JOIN R [ROWS 3] AS c ON a.id {} c.id"
    )
    q = engine.install(tree.format("LEFT", "="), name="q")
    q.change(tree.format("LEFT", "<"))
    for kind, said in (("FULL", "inner and full"), ("", "inner")):
        with pytest.raises(ChangeRefused) as caught:
            q.change(tree.format(kind, "="))
        assert str(caught.value) == (
            f"query 'q' is a join of kind inner and left; a change cannot make it {said}\n{REMEDY}"
        )


def test_a_derived_stream_keeps_its_columns() -> None:
    engine = ps.connect("local", compile_predicates=False)
    engine.feed([CreateStream(stream) for stream in STREAMS])
    derived = engine.sql("CREATE STREAM D AS SELECT id, x FROM R WHERE x > 5")
    q = engine.install("SELECT id FROM D")
    with pytest.raises(ChangeRefused) as caught:
        derived.change("SELECT id, n FROM R")
    assert str(caught.value) == (
        "stream D has the columns (id int64, x int32); a change cannot make them (id int64, "
        "n string), since queries may read it\nKeep its columns, or derive a new stream."
    )
    derived.change("SELECT id, x + 0 AS x FROM R WHERE x > 4")
    engine.feed([event for event in SCRIPT if isinstance(event, Tuples)])
    assert q.rows().to_pydict() == {"id": [1, 4, 9, 10]}


def test_a_change_keeps_the_order_that_was_asked_for_at_install() -> None:
    engine = ps.connect("local", compile_predicates=False)
    engine.feed([CreateStream(stream) for stream in STREAMS])
    q = engine.install(START, order="inner")
    q.change(START.replace("=", "<"))
    assert q.program.order == "inner"


def test_a_refused_change_shows_windows_as_they_were_written() -> None:
    engine = Engine(compile_predicates=False)
    engine.sql("CREATE STREAM R (x INT, t TIMESTAMP); CREATE STREAM S (x INT, t TIMESTAMP)")
    join = "SELECT r.x FROM R [{}] AS r JOIN S [RANGE 1 HOUR WATTR t] AS s ON r.x = s.x"
    q = engine.install(join.format("RANGE 1 HOUR WATTR t SLACK 0 SECONDS"), name="q")
    with pytest.raises(ChangeRefused) as caught:
        q.change(join.format("ROWS 4"))
    assert str(caught.value) == (
        "query 'q' has the window [RANGE 1 HOUR WATTR t SLACK 0 SECONDS]; a change may alter its "
        f"size and slack, but cannot make it [ROWS 4] on t\n{REMEDY}"
    )


def test_a_query_that_has_failed_refuses_a_change_which_still_takes_its_position() -> None:
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (x BIGINT)")
        total = "SELECT SUM(x) AS n FROM R [ROWS 2 SLIDE 2]"
        failing = engine.install(total, name="total")
        other = engine.install("SELECT x FROM R", name="other")
        with pytest.raises(ps.QueryFailed) as failed:
            engine.push("R", [{"x": 2**63 - 1}, {"x": 1}])
        before = engine.position
        with pytest.raises(ps.QueryFailed) as again:
            failing.change(total.replace("SUM(x)", "MAX(x)"))
        assert (str(again.value), engine.position) == (str(failed.value), before + 1)
        assert failing.text == total
        engine.push("R", [{"x": 3}])
        assert other.drain()[-1].positions.tolist() == [before + 1]
