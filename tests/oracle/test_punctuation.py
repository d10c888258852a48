"""Punctuations, lateness, expiry, and malformed tuples."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.oracle.oracle import Oracle
from penstock.streams.events import Malformed, Punctuation
from penstock.streams.schema import Stream

Start = Callable[..., Any]
COLUMNS = pa.schema({"id": pa.int64(), "t": pa.int64()})


def join(left: str, right: str, kind: str = "INNER", on: str = "r.id <> 99") -> str:
    return f"SELECT r.id AS r, s.id AS s FROM R {left} AS r {kind} JOIN S {right} AS s ON {on}"


RANGE = "[RANGE 10 WATTR t]"


def test_without_slack_whatever_is_before_the_latest_is_late(play: Start) -> None:
    p = play(join(RANGE, RANGE))
    for key, time in ((1, 10), (2, 10), (3, 9), (4, 11)):
        p.r(key, time)
    assert p.oracle.late["q"] == [(5, "R", (3, 9))]
    # It found no window.
    assert p.s(7, 10) == [(7, (1, 7)), (7, (2, 7)), (7, (4, 7))]


def test_a_late_tuple_finds_no_partner(play: Start) -> None:
    p = play(join(RANGE, RANGE))
    p.s(7, 10)
    assert p.r(1, 12) == [(4, (1, 7))]
    assert p.r(2, 11) == []
    assert p.oracle.late["q"] == [(5, "R", (2, 11))]


def test_with_slack_the_punctuator_is_that_far_behind(play: Start) -> None:
    p = play(join("[RANGE 10 WATTR t SLACK 3]", RANGE))
    for key, time in ((1, 10), (2, 7), (3, 6), (4, 12), (5, 8)):
        p.r(key, time)
    assert p.oracle.late["q"] == [(5, "R", (3, 6)), (7, "R", (5, 8))]


def test_after_a_source_punctuates_the_default_slack_stops(play: Start) -> None:
    p = play(join(RANGE, RANGE))
    p.r(1, 3)
    p.punctuate("R", 5)
    for key, time in ((2, 10), (3, 6), (4, 4), (5, 5)):
        p.r(key, time)
    assert p.oracle.late["q"] == [(7, "R", (4, 4))]


def test_the_larger_of_slack_and_source_counts(play: Start) -> None:
    p = play(join("[RANGE 10 WATTR t SLACK 3]", RANGE))
    p.punctuate("R", 5)
    p.r(1, 6)
    p.r(2, 4)
    p.r(3, 20)
    p.r(4, 16)
    assert p.oracle.late["q"] == [(5, "R", (2, 4)), (7, "R", (4, 16))]


def test_a_punctuation_that_goes_back_is_ignored(play: Start) -> None:
    p = play(join(RANGE, RANGE))
    p.punctuate("R", 5)
    p.punctuate("R", 2)
    p.r(1, 3)
    assert p.oracle.late["q"] == [(5, "R", (1, 3))]


def test_a_punctuation_from_before_the_install_counts(play: Start) -> None:
    p = play("SELECT id FROM R")
    p.punctuate("R", 5)
    p.oracle.install("pairs", join(RANGE, RANGE))
    p.r(1, 4)
    p.r(2, 9)
    p.r(3, 8)
    assert p.oracle.late["pairs"] == [(5, "R", (1, 4))]


def test_a_stream_with_a_count_window_is_never_late(play: Start) -> None:
    p = play(join(RANGE, "[ROWS 5]"))
    p.s(7, 10)
    p.punctuate("S", 10)
    p.s(8, 3)
    assert p.oracle.late["q"] == []


def test_lateness_is_by_the_own_stream_and_expiry_by_the_other(play: Start) -> None:
    p = play(join(RANGE, RANGE, "LEFT"))
    p.s(7, 100)
    # Not late, however far S has come; but no later tuple can join it.
    assert p.r(1, 1) == [(4, (1, None))]
    assert p.r(2, 90) == [(5, (2, None))]
    assert p.r(3, 91) == [(6, (3, 7))]
    assert p.oracle.late["q"] == []


def test_punctuations_of_the_other_stream_let_tuples_expire(play: Start) -> None:
    p = play(join("[RANGE 10 WATTR t SLACK 50]", RANGE, "LEFT"))
    p.r(1, 8)
    p.r(2, 5)
    assert p.punctuate("S", 14) == []
    assert p.punctuate("S", 15) == [(6, (2, None))]
    # An expired tuple joins none, though its time would allow it.
    assert p.s(7, 15) == [(7, (1, 7))]
    assert p.punctuate("R", 1000) == []


def test_a_punctuation_is_of_one_attribute() -> None:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", COLUMNS, time="t"))
    oracle.create_stream(Stream.of("S", COLUMNS, time="t"))
    oracle.install("q", join("[RANGE 10]", "[RANGE 10]", "LEFT"))
    oracle.tuples("R", pa.RecordBatch.from_pylist([{"id": 1, "t": 5}], COLUMNS))
    oracle.feed([Punctuation("S", 100, "id")])
    assert oracle.rows["q"] == []
    oracle.feed([Punctuation("S", 15)])
    assert oracle.rows["q"] == [(5, (1, None))]


def punctuation_of(stream: str, attribute: str, oracle: Oracle) -> object:
    """The punctuation of a stream: the first whole time at which a partner of size 1 expires."""
    name = f"probe_{oracle.position}"
    text = (
        f"SELECT x.t FROM X [RANGE 1 WATTR t SLACK 10000] AS x "
        f"LEFT JOIN {stream} [RANGE 1 WATTR {attribute}] AS y ON FALSE"
    )
    oracle.install(name, text)
    times = range(200)
    batch = pa.RecordBatch.from_pydict({"id": [0] * 200, "t": list(times)}, COLUMNS)
    oracle.tuples("X", batch)
    oracle.drop(name)
    expired = [row[0] for _, row in oracle.rows[name]]
    assert expired == list(times[: len(expired)])
    return len(expired) or None


def push(oracle: Oracle, stream: str, time: int) -> None:
    oracle.tuples(stream, pa.RecordBatch.from_pylist([{"id": 1, "t": time}], COLUMNS))


@pytest.fixture
def streams() -> Oracle:
    oracle = Oracle()
    for name in ("R", "S", "X"):
        oracle.create_stream(Stream.of(name, COLUMNS))
    return oracle


def test_after_a_join_the_smaller_punctuation_counts(streams: Oracle) -> None:
    streams.derive(
        "D",
        "SELECT r.t AS rt, s.t AS st, r.id AS k "
        "FROM R [RANGE 10 WATTR t] AS r JOIN S [RANGE 20 WATTR t] AS s ON r.id = s.id",
    )
    assert punctuation_of("D", "rt", streams) is None
    push(streams, "R", 100)
    assert punctuation_of("D", "rt", streams) is None
    push(streams, "S", 60)
    assert punctuation_of("D", "rt", streams) == 50  # of 100 and 60 - 10
    assert punctuation_of("D", "st", streams) == 60  # of 60 and 100 - 20
    push(streams, "S", 150)
    assert punctuation_of("D", "rt", streams) == 100
    assert punctuation_of("D", "st", streams) == 80
    assert punctuation_of("D", "k", streams) is None


def test_an_ended_stream_has_punctuated_everything(streams: Oracle) -> None:
    streams.derive("D", f"SELECT r.t AS rt FROM R {RANGE} AS r JOIN S {RANGE} AS s ON r.id = s.id")
    push(streams, "R", 100)
    streams.end("S")
    assert punctuation_of("D", "rt", streams) == 100


def test_the_stored_tuples_of_an_ended_stream_still_hold_the_punctuation_back(
    streams: Oracle,
) -> None:
    streams.derive("D", f"SELECT r.t AS rt FROM R {RANGE} AS r JOIN S {RANGE} AS s ON r.id = s.id")
    push(streams, "R", 50)
    streams.end("R")
    push(streams, "S", 90)
    assert punctuation_of("D", "rt", streams) == 80


def test_a_selection_passes_on_the_punctuation_of_a_column(streams: Oracle) -> None:
    streams.derive("D", "SELECT t AS u, t + 1 AS v FROM R WHERE id > 0")
    streams.punctuate("R", 70)
    assert punctuation_of("D", "u", streams) == 70
    assert punctuation_of("D", "v", streams) is None


def test_a_union_punctuates_the_smallest_of_its_branches(streams: Oracle) -> None:
    streams.derive("D", "SELECT t FROM R UNION ALL SELECT t FROM S")
    streams.punctuate("R", 70)
    assert punctuation_of("D", "t", streams) is None
    streams.punctuate("S", 40)
    assert punctuation_of("D", "t", streams) == 40
    streams.end("S")
    assert punctuation_of("D", "t", streams) == 70


def test_a_derived_stream_ends_with_its_last_input(streams: Oracle) -> None:
    streams.derive("D", "SELECT id FROM R UNION ALL SELECT id FROM S")
    streams.install("q", "SELECT x.id FROM X [ROWS 9] AS x LEFT JOIN D [ROWS 9] AS d ON FALSE")
    push(streams, "X", 0)
    streams.end("R")
    assert streams.rows["q"] == []
    streams.end("S")
    assert streams.rows["q"] == [(7, (1,))]


def test_a_null_time_is_a_dead_letter_that_the_query_does_not_see(play: Start) -> None:
    p = play(join(RANGE, "[ROWS 1]", "LEFT"))
    p.s(7, 5)
    p.s(8, None)
    assert p.r(1, 5) == [(5, (1, 7))]
    assert p.r(2, None) == []
    assert p.oracle.dead["q"] == [
        (4, "S", (8, None), "NULL in time attribute t"),
        (6, "R", (2, None), "NULL in time attribute t"),
    ]
    assert p.end() == []


def test_where_no_time_is_needed_a_null_is_a_value(play: Start) -> None:
    p = play(join("[ROWS 1]", "[ROWS 1]"))
    p.r(1, None)
    assert p.s(7, None) == [(4, (1, 7))]
    assert p.oracle.dead["q"] == []


def test_a_malformed_record_reaches_every_query_that_reads_its_stream(play: Start) -> None:
    p = play(join(RANGE, RANGE))
    p.oracle.derive("D", "SELECT id FROM R")
    p.oracle.install("reads_d", "SELECT id FROM D")
    p.oracle.install("reads_s", "SELECT id FROM S")
    p.oracle.feed([Malformed("R", "1,x", "'x' is no int64")])
    letters = [(6, "R", "1,x", "'x' is no int64")]
    assert p.oracle.dead == {"q": letters, "D": letters, "reads_d": [], "reads_s": []}


def test_end_without_a_name_ends_the_open_streams_in_order_of_creation(play: Start) -> None:
    p = play("SELECT id FROM R")
    p.end("R")
    p.end()
    assert p.oracle.position == 5
    with pytest.raises(InputError) as caught:
        p.s(1)
    assert str(caught.value) == "stream S has ended\nSend nothing after its end."
    assert p.oracle.position == 5


@pytest.mark.parametrize("time", [2**62 // 1000 + 1, -(2**62) // 1000, 2**63 - 1])
def test_a_time_beyond_the_clock_is_one_dead_letter(time: int) -> None:
    oracle = Oracle()
    millis = pa.schema({"t": pa.timestamp("ms")})
    for name, kind in (("R", "ms"), ("S", "us")):
        oracle.create_stream(Stream.of(name, pa.schema({"t": pa.timestamp(kind)})))
    both = "SELECT r.t FROM R [RANGE 1 SECOND WATTR t] AS r JOIN {} AS s ON TRUE"
    oracle.install("far", both.format("S [ROWS 1 WATTR t]") + " UNION ALL SELECT t FROM R")
    oracle.install("itself", both.format("R [RANGE 1 SECOND WATTR t]"))
    nearer = time - 1 if time > 0 else time + 1
    oracle.tuples("R", pa.RecordBatch.from_pydict({"t": [nearer, time]}, millis))
    assert oracle.dead["far"][-1:] == [(5, "R", (time,), "t does not fit the query's clock")]
    assert oracle.rows["far"] == ([] if time == 2**63 - 1 else [(4, (nearer,))])
    # Milliseconds alone make a clock of milliseconds, which goes farther.
    seen = abs(time) < 2**62
    assert oracle.dead["itself"] == ([] if seen else oracle.dead["far"])


def test_a_clock_of_floats_reads_a_decimal_as_the_nearest_double() -> None:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", pa.schema({"t": pa.decimal128(5, 1)})))
    oracle.create_stream(Stream.of("S", pa.schema({"t": pa.float64()})))
    oracle.install(
        "q",
        "SELECT r.t, s.t AS s FROM R [RANGE 1 WATTR t] AS r JOIN S [RANGE 1 WATTR t] AS s ON TRUE",
    )
    decimals = pa.array(["0.3"]).cast(pa.decimal128(5, 1))
    oracle.punctuate("R", 3 * 0.1)
    oracle.tuples("R", pa.RecordBatch.from_arrays([decimals], names=["t"]))
    # 3 * 0.1 is a little more than 0.3, which is therefore late.
    assert oracle.late["q"] == [(4, "R", (Decimal("0.3"),))]
