"""Tuples pushed one by one: the same rows and state as in batches, and who is taken singly."""

from __future__ import annotations

import datetime
import decimal
import math
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns.interrupts import Call, Interrupts
from tests.effort import examples

import penstock as ps
from penstock import tuning
from penstock.errors import BufferFull, InputError, MemoryLimit, QueryFailed

DDL = "CREATE STREAM R (x INT, y FLOAT); CREATE STREAM S (a INT, b FLOAT)"
BAND = (
    "SELECT r.x, r.y, s.a, s.b FROM R [ROWS {w}] AS r JOIN S [ROWS {w}] AS s "
    "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
)
Arrival = tuple[str, dict[str, Any]]


def engine_for(ddl: str, singly: bool = True, compiled: bool = False, **options: Any) -> Any:
    engine = ps.connect("local", compile_predicates=compiled, **options)
    engine.sql(ddl)
    engine._single_pushes.patience = 0 if singly else math.inf
    return engine


def drained(query: Any) -> list[tuple[Any, ...]]:
    return [
        (position, *("NaN" if v != v else v for v in row.values()))
        for result in query.drain()
        for position, row in zip(result.positions.tolist(), result.batch.to_pylist(), strict=True)
    ]


def both_ways(
    ddl: str, query: str, arrivals: list[Arrival], compiled: bool = False
) -> tuple[list[Any], int]:
    """The rows, which must be the same both ways, and how many tuples were taken singly."""
    found = []
    for singly in (False, True):
        with engine_for(ddl, singly, compiled) as engine:
            q = engine.install(query)
            for stream, row in arrivals:
                engine.push(stream, [row])
            metrics = q.metrics()
            for varying in ("comparisons", "kernels", "window_bytes"):
                del metrics[varying]
            metrics.pop("latency", None)
            for core in metrics["cores"]:
                del core["comparisons"]
            found.append((metrics, drained(q), drained_letters(q)))
            taken = engine._single_pushes.fast_tuples
    assert found[0] == found[1]
    return found[1][1], taken


def interrupted_pushes(ddl: str, query: str, arrivals: list[Arrival], count: int) -> int:
    """The number of rows of single-tuple pushes, which signals at ``count`` places do not change.

    First one signal, which no query may fail by; then one there and another one soon after.
    """

    def run(places: list[int]) -> tuple[list[Any] | None, int]:
        """What comes out, or None if the query has failed; and the number of places."""
        interrupts = Interrupts(places)
        with engine_for(ddl) as engine:
            q = engine.install(query, "q")
            for stream, row in arrivals:
                position, calls = engine.position, 0
                while engine.position == position and calls < 3:
                    calls += 1
                    with (
                        suppress(KeyboardInterrupt, QueryFailed),
                        interrupts.during(Call("push")),
                    ):
                        engine.push(stream, [row])
            with suppress(QueryFailed):
                engine.wait()  # what is left of the last push
            metrics = q.metrics()
            counts = (metrics["matches"], metrics["window_tuples"], metrics["tuples_in"])
            return None if q.failure else [counts, *drained(q)], interrupts.count

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        wanted, places = run([])
        assert wanted is not None
        for number, place in enumerate(range(1, places, max(1, places // count))):
            assert run([place])[0] == wanted, place
            after = place + 1 + number % 40
            assert run([place, after])[0] in (None, wanted), (place, after)
    finally:
        signal.signal(signal.SIGINT, before)
    return len(wanted) - 1


def drained_letters(query: Any) -> list[Any]:
    return [(x.kind, x.position, x.stream, x.text, x.reason) for x in query.drain_letters()]


def band_arrivals(count: int, seed: int = 1) -> list[Arrival]:
    rng = np.random.default_rng(seed)
    numbers = zip(rng.integers(1, 300, count).tolist(), rng.random(count) * 300, strict=True)
    return [
        ("R", {"x": x, "y": float(y)}) if side else ("S", {"a": x, "b": float(y)})
        for side, (x, y) in zip(rng.integers(0, 2, count).tolist(), numbers, strict=True)
    ]


# -- compiled -------------------------------------------------------------------------------


@pytest.mark.product(1)
@pytest.mark.parametrize("window", [0, 1, 100, 2_500])
def test_the_band_join_gives_the_same_rows_in_batches_and_one_by_one(window: int) -> None:
    arrivals = band_arrivals(6_000)
    with engine_for(DDL, compiled=True) as engine:
        one = engine.install(BAND.format(w=window))
        for stream, row in arrivals:
            engine.push(stream, [row])
        assert engine._single_pushes.fast_tuples == len(arrivals)
        assert one.metrics()["tuples_in"] == {
            name: sum(stream == name for stream, _ in arrivals) for name in "RS"
        }
        found = drained(one)
    with engine_for(DDL, singly=False, compiled=True) as engine:
        other = engine.install(BAND.format(w=window))
        position = 0
        while position < len(arrivals):
            stream = arrivals[position][0]
            batch = []
            while position < len(arrivals) and arrivals[position][0] == stream:
                batch.append(arrivals[position][1])
                position += 1
            engine.push(stream, batch)
        assert drained(other) == found
    assert len(found) > 20 or window < 2


def test_strings_decimals_and_a_filter_one_by_one() -> None:
    ddl = "CREATE STREAM R (k STRING, d DECIMAL(6, 2), on_ BOOLEAN); CREATE STREAM S (l STRING)"
    query = (
        "SELECT r.k, r.d, s.l, r.on_ FROM R [ROWS 40] AS r JOIN S [ROWS 30] AS s "
        "ON r.k = s.l AND r.d > 1.5"
    )
    rng = np.random.default_rng(3)
    arrivals: list[Arrival] = []
    for n in rng.integers(0, 50, 3_000).tolist():
        if n % 2:
            value = decimal.Decimal(n - 20) / 4
            arrivals.append(("R", {"k": f"ü{n % 7}", "d": value, "on_": n > 9}))
        else:
            arrivals.append(("S", {"l": f"ü{n % 11}"}))
    rows, taken = both_ways(ddl, query, arrivals, compiled=True)
    assert taken == len(arrivals)
    assert len(rows) > 1_000


# -- values ---------------------------------------------------------------------------------

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "i BIGINT": st.sampled_from((0, 1, -1, 2**63 - 1, -(2**63), 2**62)) | st.integers(-3, 3),
    "u UBIGINT": st.sampled_from((0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1)),
    "t TINYINT": st.sampled_from((0, 1, -128, 127)) | st.integers(-128, 127),
    "f FLOAT": st.sampled_from((0.0, -0.0, 0.1, 16777217.0, 3.4028235e38, 1e-46, 1, 2**53 - 1))
    | st.floats(width=32),
    "g DOUBLE": st.sampled_from((0.0, -0.0, 0.1, 1e308, 5e-324, 3)) | st.floats(),
    "b BOOLEAN": st.booleans(),
    "d DATE": st.dates(),
    "m TIMESTAMP": st.datetimes(),
    "c DECIMAL(6, 2)": st.decimals(-9999, 9999, places=2),
    "w DECIMAL(30, 3)": st.decimals(-(10**26), 10**26, places=3),
    "s STRING": st.sampled_from(("", "a", "b", "é", "\ud800")),
    "r BINARY": st.binary(max_size=2),
}
SCHEMA = ", ".join(COLUMNS)
NAMES = [column.split()[0] for column in COLUMNS]
CONDITIONS = (
    *(f"p.{name} = q.{name}" for name in NAMES),
    *(f"p.{name} < q.{name}" for name in "iutfgdmc"),
    "p.i + 1 > q.i",
    "p.i - 5 < q.i - 9223372036854775807",
    "p.t * 2 <= q.t - 100",
    "p.f + 0.1 < q.f",
    "p.f <> q.f - 1",
    "p.g * 1e300 >= q.g",
    "p.i - q.i < 3",
    "ABS(p.t - q.t) <= 2",
    "p.f - q.f < 1",
    "NOT p.f < q.f AND p.t > 0",
    "p.g = p.f OR q.b = (q.t > 5)",
    "p.d <= DATE '2000-01-01'",
    "p.c > 12.5 AND p.b = q.b",
    "p.i = q.i AND q.s <> p.s",
)


def odd(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The values, and rarely one that no column holds as it is."""
    strange = st.sampled_from((None, 2**70, 1e39, "x", True, decimal.Decimal("NaN"), -(2**65)))
    return st.integers(0, 60).flatmap(lambda n: values if n else strange)


ROWS = st.tuples(
    st.sampled_from("PQ"),
    st.fixed_dictionaries({name: odd(v) for name, v in zip(NAMES, COLUMNS.values(), strict=True)}),
)


@examples(150)
@given(
    st.lists(ROWS, max_size=25),
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2),
    st.sampled_from(("AND", "AND", "OR")),
    st.sampled_from((0, 1, 3, 9)),
    st.sampled_from(("*", "q.w, p.s, q.r, p.c", "p.i + q.i AS sum, p.s", "1 AS one, p.w")),
)
def test_any_value_gives_the_same_rows_one_by_one(
    arrivals: list[Arrival], terms: list[str], word: str, window: int, outputs: str
) -> None:
    on = f" {word} ".join(f"({term})" for term in terms)
    query = f"SELECT {outputs} FROM P [ROWS {window}] AS p JOIN Q [ROWS 4] AS q ON {on}"
    ddl = f"CREATE STREAM P ({SCHEMA}); CREATE STREAM Q ({SCHEMA})"
    both_ways(ddl, query, arrivals)


PLAIN_ROW = {
    "i": 1, "u": 2, "t": 3, "f": 0.5, "g": 1.5, "b": True, "d": datetime.date(2000, 1, 1),
    "m": datetime.datetime(2000, 1, 1, 12), "c": decimal.Decimal("1.25"),
    "w": decimal.Decimal("123456789012345678901.5"), "s": "é", "r": b"\x00",
}  # fmt: skip


@pytest.mark.parametrize("on", [c for c in CONDITIONS if "p.w" not in c])
def test_these_conditions_are_evaluated_for_single_tuples(on: str) -> None:
    ddl = f"CREATE STREAM P ({SCHEMA}); CREATE STREAM Q ({SCHEMA})"
    query = f"SELECT p.*, q.w FROM P [ROWS 3] AS p JOIN Q [ROWS 3] AS q ON {on}"
    _, taken = both_ways(ddl, query, [("PQ"[n % 2], PLAIN_ROW) for n in range(10)])
    # Until both sides have values, nobody knows whether differences between them overflow.
    assert taken >= 8


@pytest.mark.product(1)
@pytest.mark.parametrize("part", range(4))
def test_every_type_and_operation_compiles(part: int) -> None:
    known = [condition for condition in CONDITIONS if "p.w" not in condition][part::4]
    ddl = f"CREATE STREAM P ({SCHEMA}); CREATE STREAM Q ({SCHEMA})"
    on = " OR ".join(f"({condition})" for condition in known)
    query = f"SELECT p.*, q.w FROM P [ROWS 3] AS p JOIN Q [ROWS 3] AS q ON {on}"
    rows, taken = both_ways(
        ddl, query, [("PQ"[n % 2], PLAIN_ROW) for n in range(10)], compiled=True
    )
    assert len(rows) > 20
    assert taken >= 8


def test_differences_of_numbers_that_grow_are_taken_singly_until_they_may_overflow() -> None:
    query = "SELECT r.x, s.a FROM R [ROWS 9] r JOIN S [ROWS 9] s ON ABS(r.x - s.a) <= 3"
    sizes = [*range(0, 100, 2), *range(2**29, 2**31, 2**27), -(2**31)]
    arrivals: list[Arrival] = []
    for n in sizes:
        arrivals += [("R", {"x": n, "y": 0.0}), ("S", {"a": max(n - 1, 0), "b": 0.0})]
    rows, taken = both_ways(DDL, query, arrivals)
    assert len(rows) > 150
    # Both first ones, and those that differences to the least number might not fit for.
    assert 2 * sum(n <= 2**29 for n in sizes) - 5 < taken < len(arrivals) - 5


# -- who is taken singly, and who is not ----------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.x FROM R [ROWS 2] r LEFT JOIN S [ROWS 2] s ON r.x = s.a",
        "SELECT r.x FROM R [ROWS 2] r JOIN R [ROWS 2] s ON r.x = s.x",
        "SELECT x FROM R WHERE x > 1",
        "SELECT x FROM R UNION ALL SELECT a FROM S",
        "SELECT r.x FROM R [RANGE 5 WATTR x] r JOIN S [RANGE 5 WATTR a] s ON r.x > s.a",
        "SELECT r.x FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.x / s.a > 1",
        "SELECT r.x FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.x % 2 = s.a % 2",
    ],
)
def test_other_queries_go_the_way_of_a_batch(query: str) -> None:
    arrivals: list[Arrival] = [
        ("R", {"x": n, "y": 1.0}) if n % 3 else ("S", {"a": n - 1, "b": 1.0}) for n in range(20)
    ]
    rows, taken = both_ways(DDL, query, arrivals)
    assert rows
    assert taken == 0


@pytest.mark.parametrize(
    "row",
    [
        {"x": None, "y": 1.0},
        {"x": 1},
        {"X": 1, "y": 1.0},
        {"x": 1, "y": 1.0, "z": 1},
        {"x": 2**31, "y": 1.0},
        {"x": 2**64, "y": 1.0},
        {"x": 1, "y": 1e39},
        {"x": True, "y": 1.0},
        {"x": "1", "y": 1.0},
        {"x": np.int32(1), "y": 1.0},
        {"x": 1, "y": 2**53 + 1},
        {"x": 2**31 - 1, "y": 1.0},
    ],
)
def test_other_tuples_go_the_way_of_a_batch(row: dict[str, Any]) -> None:
    query = (
        "SELECT r.x, r.y, s.a FROM R [ROWS 9] r JOIN S [ROWS 9] s ON r.x + 1 = s.a OR r.y >= s.b"
    )
    usual: list[Arrival] = [("R", {"x": 1, "y": 1.0}), ("S", {"b": 1, "a": 2})]
    _, taken = both_ways(DDL, query, [*usual, ("R", row), *usual])
    assert taken == 4


def test_a_row_may_have_its_columns_in_any_order_and_a_whole_number_for_a_float() -> None:
    with engine_for(DDL) as engine:
        q = engine.install(BAND.format(w=3))
        engine.push("r", [{"y": 7, "x": 5}])
        engine.push("S", [{"b": 7.5, "a": 5}])
        assert q.rows().to_pylist() == [{"x": 5, "y": 7.0, "a": 5, "b": 7.5}]
        assert engine._single_pushes.fast_tuples == 2


def test_a_stream_is_examined_after_a_number_of_single_tuples() -> None:
    with engine_for(DDL) as engine:
        engine._single_pushes.patience = 3
        engine.install(BAND.format(w=3))
        for n in range(10):
            engine.push("R", [{"x": n, "y": 1.0}])
        engine.push("R", [{"x": 1, "y": 1.0}, {"x": 2, "y": 2.0}])
        assert engine._single_pushes.fast_tuples == 7


# -- beside other things --------------------------------------------------------------------


def test_several_queries_on_one_stream() -> None:
    arrivals = band_arrivals(300)
    texts = [BAND.format(w=20), "SELECT r.x, s.b FROM R [ROWS 9] r JOIN S [ROWS 2] s ON r.x > s.a"]
    others = ["SELECT x FROM R WHERE x > 100", BAND.format(w=5).replace("JOIN", "LEFT JOIN")]
    found = []
    for singly in (True, False):
        with engine_for(DDL, singly) as engine:
            queries = [engine.install(text) for text in texts]
            for number, (stream, row) in enumerate(arrivals):
                if number == 100:
                    queries += [engine.install(text) for text in others]
                    assert engine._single_pushes.fast_tuples == (100 if singly else 0)
                if number == 200:
                    engine.drop(queries[2].name)
                    engine.drop(queries[3].name)
                engine.push(stream, [row])
            assert engine._single_pushes.fast_tuples == (200 if singly else 0)
            found.append([drained(query) for query in queries])
    assert found[0] == found[1]
    assert all(found[0])


def test_a_tuple_that_one_query_refuses_is_taken_by_none() -> None:
    with engine_for(DDL) as engine:
        first = engine.install("SELECT r.x FROM R [ROWS 9] r JOIN S [ROWS 9] s ON r.x = s.a")
        second = engine.install("SELECT r.x FROM R [ROWS 9] r JOIN S [ROWS 9] s ON r.x + 1 = s.a")
        engine.push("R", [{"x": 1, "y": 1.0}])
        engine.push("R", [{"x": 2**31 - 1, "y": 1.0}])
        assert engine._single_pushes.fast_tuples == 1
        assert [q.metrics()["window_tuples"] for q in (first, second)] == [[2, 0], [2, 0]]
        assert [q.metrics()["expression_failures"] for q in (first, second)] == [0, 1]


def test_rows_are_there_when_push_returns_and_stand_in_order() -> None:
    with engine_for(DDL) as engine:
        q = engine.install(BAND.format(w=9))
        for n in (3, 1, 2):
            engine.push("R", [{"x": n, "y": 1.0}])
        engine.push("S", [{"a": 2, "b": 1.0}])
        assert q.metrics()["undrained_rows"] == 3
        engine.push("S", [{"a": 5, "b": 1.0}, {"a": 6, "b": 1.0}])
        engine.push("S", [{"a": 7, "b": 1.0}])
        assert q.rows()["x"].to_pylist() == [3, 1, 2] * 4
        assert q.rows().num_rows == 0


def test_a_change_keeps_the_rows_of_the_old_columns_apart() -> None:
    with engine_for(DDL) as engine:
        q = engine.install(BAND.format(w=9))
        engine.push("R", [{"x": 1, "y": 1.0}])
        engine.push("S", [{"a": 1, "b": 1.0}])
        q.change(BAND.format(w=1).replace("r.x, r.y, s.a, s.b", "s.b AS only"))
        engine.push("S", [{"a": 2, "b": 2.0}])
        assert q.rows().to_pylist() == [{"x": 1, "y": 1.0, "a": 1, "b": 1.0}]
        assert q.rows().to_pylist() == [{"only": 2.0}]
        assert q.metrics()["window_tuples"] == [1, 1]
        assert engine._single_pushes.fast_tuples == 3


def test_a_saved_engine_goes_on_with_loose_rows_and_texts(tmp_path: Path) -> None:
    ddl = "CREATE STREAM R (k STRING, n INT); CREATE STREAM S (l STRING)"
    with engine_for(ddl) as engine:
        engine.install("SELECT r.k, r.n, s.l FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.k = s.l", "q")
        for n in range(5):
            engine.push("R", [{"k": f"k{n % 2}", "n": n}])
        engine.push("S", [{"l": "k1"}])
        engine.save(tmp_path / "engine")
    with ps.restore(str(tmp_path / "engine")) as engine:
        engine._single_pushes.patience = 0
        engine.push("S", [{"l": "k0"}])
        rows = engine.queries["q"].rows().to_pylist()
        assert rows == [{"k": "k1", "n": 3, "l": "k1"}, {"k": "k0", "n": 4, "l": "k0"}]
        assert engine._single_pushes.fast_tuples == 1


def test_a_stream_that_has_ended_takes_no_single_tuple() -> None:
    with engine_for(DDL) as engine:
        q = engine.install(BAND.format(w=9))
        engine.push("R", [{"x": 1, "y": 1.0}])
        engine.end("R")
        with pytest.raises(InputError, match="stream R has ended"):
            engine.push("R", [{"x": 1, "y": 1.0}])
        engine.push("S", [{"a": 1, "b": 1.0}])
        assert q.rows().num_rows == 1
        assert q.metrics()["window_tuples"] == [1, 0]
        engine.close()
        with pytest.raises(InputError, match="the engine is closed"):
            engine.push("S", [{"a": 1, "b": 1.0}])


def test_interrupts_anywhere_in_a_single_push_lose_nothing() -> None:
    """In plain Python, kernels have such places too."""
    with tuning.given(longest_tail=2, candidate_share=2.0, fewest_linked=1):
        query = BAND.replace("10", "99").format(w=6)
        assert interrupted_pushes(DDL, query, band_arrivals(24), 40) > 10


def test_a_full_buffer_stops_single_tuples_too() -> None:
    with engine_for(DDL, buffer_rows=2, push_timeout=0) as engine:
        q = engine.install(BAND.format(w=9))
        for _ in range(3):
            engine.push("R", [{"x": 1, "y": 1.0}])
        engine.push("S", [{"a": 1, "b": 1.0}])
        assert q.metrics()["undrained_rows"] == 3
        with pytest.raises(BufferFull, match="holds 3 rows"):
            engine.push("S", [{"a": 1, "b": 1.0}])
        assert q.rows().num_rows == 3
        engine.push("S", [{"a": 1, "b": 1.0}])
        assert q.rows().num_rows == 3
        assert engine._single_pushes.fast_tuples == 5


def test_the_limit_of_window_memory_holds_for_single_tuples() -> None:
    taken = []
    for singly in (True, False):
        with engine_for(DDL, singly, window_memory=6_000) as engine:
            q = engine.install(BAND.format(w=10_000), kernel="nested-loop")
            with pytest.raises(MemoryLimit, match="would pass the limit of 6000"):
                for _ in range(10_000):
                    engine.push("R", [{"x": 1, "y": 1.0}])
            assert (engine._single_pushes.fast_tuples > 0) == singly
            taken.append((engine.position, q.metrics()["window_bytes"]))
    assert taken[0] == taken[1]
