"""Codes that order rows as their windows and keys do."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.blocks.aggregate.group_owners import owners, row_codes
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.expressions.vector import vector_of

COLUMNS = {
    "int64": pa.array([3, None, -1, 1 << 62, -(1 << 63), 0]),
    "uint64": pa.array([3, None, (1 << 64) - 1, 0], pa.uint64()),
    "float64": pa.array([1.5, -0.5, None, math.nan, math.inf, -math.inf, 0.0]),
    "float32": pa.array([1.5, -0.5, None, math.nan, 0.0], pa.float32()),
    "bool": pa.array([True, None, False]),
    "date": pa.array([date(1960, 1, 1), None, date(2020, 1, 1)]),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal(10) ** 30, None, -(Decimal(10) ** 30)], pa.decimal128(38, 0)),
    "string": pa.array(["b", None, "", "a", "a\0", "a\0b", "ab", "ä", "𝄞", "\uffff"]),
    "binary": pa.array([b"\xff", None, b"", b"\0", b"\0\0", b"\1"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_codes_order_as_groups_do(kind: str) -> None:
    column: Any = COLUMNS[kind]
    groups = Groups([column.type])
    groups.numbers([vector_of(column)], len(column))
    codes = row_codes(np.zeros(len(column), np.int64), [column])
    assert np.argsort(codes, kind="stable").tolist() == groups.in_order().tolist()
    assert len(set(codes.tolist())) == len(column)


def test_windows_come_before_keys_and_the_first_key_before_the_second() -> None:
    windows = np.array([5, -3, 5, 5])
    words, numbers = pa.array(["a", "z", "a", "aa"]), pa.array([2, 0, 1, 0])
    assert np.argsort(row_codes(windows, [words, numbers])).tolist() == [1, 2, 0, 3]


def test_codes_of_words_compare_with_those_of_other_blocks() -> None:
    here = row_codes(np.zeros(2, np.int64), [pa.array(["a", "a long word"]), pa.array([2, 1])])
    there = row_codes(np.zeros(2, np.int64), [pa.array(["a", "a"]), pa.array([1, 3])])
    assert np.argsort(np.concatenate((here, there))).tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_group_has_one_owner_however_it_comes(kind: str) -> None:
    column: Any = COLUMNS[kind]
    found = owners([column], 3)
    assert set(found.tolist()) <= {0, 1, 2}
    assert owners([column.dictionary_encode()], 3).tolist() == found.tolist()
    assert owners([column.slice(1)], 3).tolist() == found[1:].tolist()
