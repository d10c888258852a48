"""Groups of keys of every type are numbered as by a Python dict."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.key_values import COLUMNS, NAN, columns, plain, sort_key

from penstock import tuning
from penstock.kernels.aggregate.groups import Groups, WordKeys
from penstock.kernels.aggregate.int_table import IntTable
from penstock.kernels.expressions.vector import Vector, vector_of


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    few = st.lists(row, min_size=1, max_size=4).flatmap(
        lambda rows: st.lists(st.sampled_from(rows), max_size=12)
    )
    batches = draw(st.lists(few | st.lists(row, max_size=6), min_size=1, max_size=4))
    return [COLUMNS[name][0] for name in names], batches


def rows_of(arrays: list[pa.Array[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*(map(plain, array.to_pylist()) for array in arrays), strict=True))


@given(tables(), st.data())
def test_groups_are_those_of_a_dict(
    table: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]], data: st.DataObject
) -> None:
    types, batches = table
    groups = Groups(types)
    known: dict[tuple[Any, ...], int] = {}
    for rows in batches:
        vectors = columns(types, rows)
        found = groups.numbers(vectors, len(rows)).tolist()
        # Floats of 32 bits must be those of Arrow.
        keys = rows_of([vector.to_arrow() for vector in vectors])
        assert found == [known.setdefault(key, len(known)) for key in keys]
    originals = list(known)
    assert len(groups) == len(known)
    every_group = np.arange(len(groups))
    arrays = groups.keys_of(every_group)
    assert [array.type for array in arrays] == types
    assert rows_of(arrays) == originals
    some = np.array(
        data.draw(st.permutations(range(len(known))))[: data.draw(st.integers(0, 9))], np.int32
    )
    ordered = some[groups.order(some)].tolist()
    by_key = sorted(some.tolist(), key=lambda n: sort_key(unplain(originals[n])))
    assert ordered == by_key
    again = Groups(types)
    again.load(groups.state())
    mapping = again.keep(some)
    kept = sorted(some.tolist())
    assert mapping.tolist() == [kept.index(n) if n in kept else -1 for n in range(len(known))]
    assert rows_of(again.keys_of(np.arange(len(again)))) == [originals[n] for n in kept]


def unplain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(NAN if value == "NaN" else value for value in row)


def test_without_keys_there_is_one_group() -> None:
    groups = Groups([])
    assert groups.numbers([], 3).tolist() == [0, 0, 0]
    assert len(groups) == 1
    assert groups.keys_of(np.array([0])) == []
    assert groups.order(np.array([0])).tolist() == [0]
    assert groups.keep(np.array([0])).tolist() == [0]
    again = Groups([])
    again.load(groups.state())
    assert len(again) == 1


def test_a_dictionary_of_arrow_is_read_by_its_codes() -> None:
    dictionary = pa.array(["b", "a", None, "b", "unused"])
    groups = Groups([pa.string()])

    def numbers(indices: list[int | None], dictionary: Any = dictionary) -> list[int]:
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), dictionary)
        return groups.numbers([Vector(array, None, pa.string())], len(array)).tolist()

    first = numbers([1, 0, 3, None, 2])
    assert first == [0, 1, 1, 2, 2]
    assert len(groups) == 3, "a word that no tuple has is no group"
    assert numbers([0, 1, None]) == [first[1], first[0], first[3]]
    # Another dictionary, plain strings, and slices name the same groups.
    assert numbers([0, 1], pa.array(["a", "c"])) == [first[0], 3]
    plain = vector_of(pa.array(["x", "c", "b", None, "a"])[1:])
    assert groups.numbers([plain], 4).tolist() == [3, first[1], first[3], first[0]]
    assert groups.keys_of(np.array(first))[0].to_pylist() == ["a", "b", "b", None, None]
    assert groups.order(np.arange(4)).tolist() == [first[3], first[0], first[1], 3]


def test_a_dictionary_that_comes_again_as_a_copy_is_not_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[Any] = []
    number = WordKeys._number

    def noted(self: WordKeys, word: Any) -> int:
        looked_up.append(word)
        return number(self, word)

    monkeypatch.setattr(WordKeys, "_number", noted)
    keys = WordKeys(pa.string())
    for words in (["a", "b"], ["a", "b"], ["b", "a"]):
        codes = pa.array([1, 0, 1], pa.int32())
        array: Any = pa.DictionaryArray.from_arrays(codes, pa.array(words))
        found = keys.numbers(Vector(array, None, pa.string()))
        assert found.tolist() == ([0, 1, 0] if words == ["a", "b"] else [1, 0, 1])
    assert looked_up == ["b", "a", "a", "b"]


def test_a_dictionary_type_is_a_key_like_its_values() -> None:
    groups = Groups([pa.dictionary(pa.int32(), pa.string())])
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    assert groups.numbers([Vector(array, None, array.type, array)], 3).tolist() == [0, 1, 0]
    assert groups.keys_of(np.array([1]))[0].equals(pa.array(["b"]))


@pytest.mark.parametrize("spread", [1, 7, 1 << 40])
def test_many_integers_by_table_and_by_hash(spread: int) -> None:
    rng = np.random.default_rng(spread)
    table = IntTable()
    known: dict[int, int] = {}
    # The range moves and widens, so that tables are rebuilt and given up.
    for step in (0, 10, 3_000, -4_000, 900_000):
        keys = (rng.integers(0, 3_000, 5_000) + step) * spread
        numbers = table.numbers(keys).tolist()
        for key, number in zip(keys.tolist(), numbers, strict=True):
            assert known.setdefault(key, number) == number
    assert sorted(known.values()) == list(range(len(known))) == list(range(len(table)))
    assert table.keys().tolist() == list(known)
    assert table.nbytes > 8 * len(known)


@tuning.given(small_int_table=16)
def test_a_range_that_fills_becomes_a_table_again() -> None:
    table = IntTable()
    hashed = table.numbers(np.arange(0, 4_000, 100)).tolist()
    assert hashed == list(range(40))
    assert len(table._table) == 0
    assert table.numbers(np.arange(0, 4_000)).tolist()[::100] == hashed
    assert table.numbers(np.arange(0, 4_000)).tolist()[::100] == hashed
    assert len(table._table) > 0 and len(table) == 4_000
    far = np.array([1 << 62, 5, -(1 << 63), (1 << 63) - 1])
    assert table.numbers(far).tolist()[0::2] == [4_000, 4_001]
    assert len(table._table) == 0
    assert table.numbers(far[1:2]).tolist() == table.numbers(np.array([5], np.int32)).tolist()


def test_null_has_a_number_from_the_first_time_on() -> None:
    table = IntTable()
    assert table.null == -1
    assert table.numbers(np.array([9, 9]), np.array([False, False])).tolist() == [0, 0]
    assert table.numbers(np.array([9, 5, 0]), np.array([True, False, True])).tolist() == [1, 0, 2]
    assert table.null == 0
    later = IntTable()
    assert later.numbers(np.array([9, 5, 0]), np.array([True, False, True])).tolist() == [0, 1, 2]


def test_wide_decimals_sort_by_value() -> None:
    values = [Decimal("1e30"), None, Decimal("-1e30"), Decimal(2)]
    groups = Groups([pa.decimal128(38, 0)])
    groups.numbers([vector_of(pa.array(values, pa.decimal128(38, 0)))], 4)
    assert groups.order(np.arange(4)).tolist() == [1, 2, 3, 0]
