"""Literals: parsing gives back the value that was formatted."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.streams.literals import (
    canonical,
    format_rows,
    format_value,
    parse_values,
    physical_array,
    to_physical,
)

INTEGERS = [
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 2**8 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
]
OTHERS = [
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (
        pa.decimal128(12, 3),
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.timestamp("s"), st.integers(-(10**12), 10**12)),
    (pa.timestamp("ns"), st.integers(-(2**63), 2**63 - 1)),
    (pa.timestamp("us", "Europe/Berlin"), st.integers(-(2**60), 2**60)),
    (pa.timestamp("ms", "-03:30"), st.integers(-(2**50), 2**50)),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.duration("us"), st.integers(-(2**62), 2**62)),
]
TYPED_VALUES = st.sampled_from(INTEGERS + OTHERS).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), st.none() | pair[1])
)


def same(left: object, right: object) -> bool:
    both_nan = isinstance(left, float) and isinstance(right, float) and left != left
    return (both_nan and right != right) or left == right


@given(TYPED_VALUES)
def test_a_value_reads_back_as_itself_from_one_line(typed: tuple[pa.DataType, object]) -> None:
    kind, value = typed
    text = format_value(value, kind)
    assert len(text.splitlines()) == 1
    (literal,) = parse_values(text)
    back = to_physical(literal, kind)
    assert same(back, value)
    if isinstance(value, float):
        assert math.copysign(1, value) == math.copysign(1, back) or value != value  # type: ignore[arg-type]


@given(st.lists(TYPED_VALUES, min_size=1, max_size=6))
def test_a_row_reads_back_as_itself(row: list[tuple[pa.DataType, object]]) -> None:
    arrays = [physical_array([value], kind) for kind, value in row]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(row))])
    (text,) = format_rows(batch)
    literals = parse_values(text)
    assert len(literals) == len(row)
    for literal, (kind, value) in zip(literals, row, strict=True):
        assert same(to_physical(literal, kind), value)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("NULL", pa.int32(), None),
        ("true", pa.bool_(), True),
        ("1e5", pa.int32(), 100_000),
        ("-1.0", pa.int8(), -1),
        (".5", pa.float64(), 0.5),
        ("-Infinity", pa.float64(), -math.inf),
        ("0.1", pa.float32(), float(np.float32(0.1))),
        ("1.5", pa.decimal128(4, 2), Decimal("1.50")),
        ("'it''s # no \\ comment'", pa.string(), "it's # no \\ comment"),
        (r"E'a\nb\\''\u00e9'", pa.string(), "a\nb\\'é"),
        ("X'00ff'", pa.binary(), b"\x00\xff"),
        ("DATE '1970-02-01'", pa.date32(), 31),
        ("'1970-02-01'", pa.date32(), 31),
        ("TIMESTAMP '1970-01-01 00:00:01.5'", pa.timestamp("ms"), 1500),
        ("TIMESTAMP '1970-01-01T02:00:01+02:00'", pa.timestamp("s", "UTC"), 1),
        ("DATE '1970-01-02'", pa.timestamp("s"), 86_400),
        ("INTERVAL '1.5' SECONDS", pa.duration("us"), 1_500_000),
    ],
)
def test_literal_as_a_value_of_a_type(text: str, kind: pa.DataType, value: object) -> None:
    (literal,) = parse_values(text)
    assert to_physical(literal, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("128", pa.int8(), "128 does not fit int8"),
        ("1.5", pa.int32(), "1.5 does not fit int32"),
        ("NaN", pa.int32(), "NaN does not fit int32"),
        ("1e999999999", pa.int64(), "1e999999999 does not fit int64"),
        ("1e39", pa.float32(), "1e39 does not fit float"),
        ("1.005", pa.decimal128(4, 2), "1.005 does not fit decimal(4, 2)"),
        ("100", pa.decimal128(4, 2), "100 does not fit decimal(4, 2)"),
        ("1", pa.bool_(), "1 does not fit boolean"),
        ("TRUE", pa.int32(), "TRUE does not fit int32"),
        ("'x'", pa.int32(), "'x' does not fit int32"),
        ("1", pa.string(), "1 does not fit string"),
        ("TIMESTAMP '2024-01-01 00:00:00.5'", pa.timestamp("s"),
         "TIMESTAMP '2024-01-01 00:00:00.5' does not fit timestamp(0)"),
        ("TIMESTAMP '2024-01-01 00:00:00Z'", pa.timestamp("us"),
         "TIMESTAMP '2024-01-01 00:00:00Z' does not fit timestamp: it has a time zone"),
        ("TIMESTAMP '2024-01-01 00:00:01'", pa.date32(),
         "TIMESTAMP '2024-01-01 00:00:01' does not fit date"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_so(text: str, kind: pa.DataType, reason: str) -> None:
    (literal,) = parse_values(text)
    with pytest.raises(ValueError) as caught:
        to_physical(literal, kind)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a literal is missing"),
        ("1,", "a literal is missing"),
        ("1, foo", "'foo' is no literal"),
        ("1 2", "'2' is no literal, nor a comma and a literal"),
        ("'open", '"\'open" is no literal'),
        ("X'0'", "\"X'0'\" is no literal"),
        ("1.2.3", "'1.2.3' is no literal"),
        ("DATE '2023-02-29'", "'2023-02-29' is no day of the calendar"),
        ("TIMESTAMP '2023-02-28 25:00:00'", "'2023-02-28 25:00:00' is no time of day"),
        ("DATE 'soon'", "'soon' is no date or timestamp"),
    ],
)
def test_what_is_no_literal_says_so(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_values(text)
    assert str(caught.value) == reason


def test_values_that_are_equal_are_equal_however_written() -> None:
    written = "1.50, 1e2, NaN, TIMESTAMP '2024-01-01T00:00:00Z', E'a', x'AB'"
    printed = "1.5, 100.0, nan, TIMESTAMP '2024-01-01 02:00:00+02:00', 'a', X'ab'"
    assert list(map(canonical, parse_values(written))) == list(
        map(canonical, parse_values(printed))
    )
    assert canonical(parse_values("DATE '2024-01-01'")[0]) != canonical(
        parse_values("TIMESTAMP '2024-01-01'")[0]
    )
