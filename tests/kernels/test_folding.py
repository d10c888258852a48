"""Counts, extremes, first and last tuples by cell, compared with plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.key_values import COLUMNS, columns, plain, sort_key

from penstock.kernels.aggregate.counting import count
from penstock.kernels.aggregate.extremes import Extremes, OrderedWords
from penstock.kernels.aggregate.first_last import Firsts
from penstock.kernels.expressions.vector import Vector, vector_of

KINDS = sorted(set(COLUMNS) - {"null"})


@pytest.mark.parametrize("cells", [1, 7, 5_000])
def test_counts_by_cell(cells: int) -> None:
    rng = np.random.default_rng(cells)
    where = rng.integers(0, cells, 6_000).astype(np.int32)
    mask = rng.random(6_000) < 0.3
    counts = np.zeros(cells, np.int64)
    count(where, counts)
    count(where, counts, mask)
    count(where[:9], counts)
    wanted = sum(np.bincount(w, minlength=cells) for w in (where, where[mask], where[:9]))
    assert (counts == wanted).all()


def best(values: list[Any], largest: bool) -> Any:
    found = [value for value in values if value is not None]
    if not found:
        return None
    return plain((max if largest else min)(found, key=lambda value: sort_key((value,))))


def listed(array: pa.Array[Any]) -> list[Any]:
    return [plain(value) for value in array.to_pylist()]


@given(st.sampled_from(KINDS), st.booleans(), st.data())
def test_extremes_of_every_type(name: str, largest: bool, data: st.DataObject) -> None:
    kind, strategy = COLUMNS[name]
    extremes = Extremes(kind, largest, 3)
    panes = extremes.like(4)
    seen: list[list[Any]] = [[], [], []]
    kept: list[list[Any]] = [[], [], [], []]
    for _ in range(data.draw(st.integers(1, 3))):
        values = data.draw(st.lists(st.none() | strategy, max_size=8))
        (vector,) = columns([kind], [(value,) for value in values])
        values = vector.to_arrow().to_pylist()
        cells = [i % 2 for i in range(len(values))]
        encoded = extremes.encode(vector)
        extremes.add(np.array(cells, np.int32), encoded, vector.valid)
        for cell, value in zip(cells, values, strict=True):
            seen[cell].append(value)
        panes.add_at(3, encoded, vector.valid)
        kept[3] += values
        panes.add(np.array(cells, np.int32) + 1, encoded, vector.valid)
        kept[1] += values[0::2]
        kept[2] += values[1::2]
        assert listed(extremes.values(np.arange(3))) == [best(v, largest) for v in seen]
    found = panes.values(np.array([3, 1, 0]))
    assert found.type == kind
    assert listed(found) == [best(kept[n], largest) for n in (3, 1, 0)]
    extremes.merge(np.array([2, 0]), panes, np.array([3, 1]))
    seen = [seen[0] + kept[1], seen[1], seen[2] + kept[3]]
    extremes.merge_row(0, panes, 1, 2)
    seen = [seen[0] + kept[1], seen[1] + kept[2], seen[2]]
    assert listed(extremes.values(np.arange(3))) == [best(v, largest) for v in seen]
    again = Extremes(kind, largest)
    again.load(extremes.state())
    again.rearrange(4, np.array([3, 0]), np.array([0, 2]))
    wanted = [best(seen[2], largest), None, None, best(seen[0], largest)]
    assert listed(again.values(np.arange(4))) == wanted
    again.clear(np.array([3]))
    again.resize(5)
    assert listed(again.values(np.arange(5))) == [wanted[0], None, None, None, None]
    assert again.nbytes > 0


def test_a_cell_that_has_the_largest_value_has_a_value() -> None:
    for kind, value in ((pa.int64(), (1 << 63) - 1), (pa.float64(), math.nan)):
        for largest, worst in (
            (False, value),
            (True, -(1 << 63) if kind == pa.int64() else -math.inf),
        ):
            extremes = Extremes(kind, largest, 2)
            vector = vector_of(pa.array([worst], kind))
            extremes.add(np.array([0]), extremes.encode(vector))
            assert repr(extremes.values(np.arange(2)).to_pylist()) == repr([worst, None])


def test_minus_zero_is_zero() -> None:
    extremes = Extremes(pa.float64(), False, 1)
    extremes.add(np.array([0]), extremes.encode(vector_of(pa.array([-0.0]))))
    assert repr(extremes.values(np.array([0])).to_pylist()) == "[0.0]"


def test_words_without_a_holder_are_dropped() -> None:
    words = OrderedWords(pa.string())
    extremes = Extremes(pa.string(), True, 2, words)
    for start in range(0, 900, 100):
        vector = vector_of(pa.array([f"w{n:03}" for n in range(start, start + 100)]))
        extremes.add(np.arange(100, dtype=np.int32) % 2, extremes.encode(vector))
    assert extremes.values(np.arange(2)).to_pylist() == ["w898", "w899"]
    assert len(words) <= 102
    # A word that is used again, but has no holder, is not dropped while new ones are added.
    again = vector_of(pa.array(["w801", "new", None, "w801"]))
    assert words.values(words.encode(again)).to_pylist() == ["w801", "new", None, "w801"]


def test_a_null_in_a_dictionary_is_no_value() -> None:
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2], pa.int8()), pa.array(["b", None, "a", "unused"])
    )
    vector = Vector(array, None, pa.string())
    for largest, wanted in ((False, "a"), (True, "b")):
        extremes = Extremes(pa.string(), largest, 2)
        encoded = extremes.encode(vector)
        extremes.add(np.zeros(4, np.int32), encoded)
        extremes.add_at(1, encoded)
        assert extremes.values(np.arange(2)).to_pylist() == [wanted, wanted]


@given(
    st.booleans(),
    st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3), st.booleans()), max_size=6),
        max_size=4,
    ),
)
def test_first_and_last_tuples(last: bool, batches: list[list[tuple[int, int, bool]]]) -> None:
    whole, halves = Firsts(last, 2), [Firsts(last, 3), Firsts(last, 3)]
    seen: list[list[tuple[int, int]]] = [[], []]
    start = 100
    for number, batch in enumerate(batches):
        cells = np.array([cell for cell, _, _ in batch], np.int32)
        ticks = np.array([tick for _, tick, _ in batch], np.int64)
        valid = np.array([keep for _, _, keep in batch], bool)
        whole.add(cells, ticks, start, valid)
        halves[number % 2].add(cells + 1, ticks, start, valid)
        for i, (cell, tick, keep) in enumerate(batch):
            if keep:
                seen[cell].append((tick, start + i))
        start += len(batch)
    wanted = [(max if last else min)(found)[1] if found else -1 for found in seen]
    assert whole.rows(np.arange(2)).tolist() == wanted
    merged = whole.like(2)
    merged.merge_row(0, halves[1], 1, 2)
    merged.merge(np.array([1, 0]), halves[0], np.array([2, 1]))
    assert merged.rows(np.arange(2)).tolist() == wanted
    saved = Firsts(last)
    saved.load(merged.state())
    saved.rearrange(3, np.array([2]), np.array([1]))
    saved.resize(4)
    assert saved.rows(np.arange(4)).tolist() == [-1, -1, wanted[1], -1]
    saved.clear(slice(2, 3))
    assert saved.rows(np.arange(4)).tolist() == [-1] * 4
    assert len(saved) == 4 and saved.nbytes == 64
