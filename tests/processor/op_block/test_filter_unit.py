"""The Filter Unit: bits of clauses over segments, and segments that do not come as they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock.errors import InputError
from penstock.processor.op_block.filter_unit import FilterUnit

REMEDY = "Send the segments of a run once each, in their order, before those of the next run."


def bits(text: str) -> np.ndarray:
    return np.array([letter == "1" for letter in text])


def test_a_tuple_passes_if_every_clause_holds_in_some_segment() -> None:
    unit = FilterUnit(segments=3, clauses=2)
    unit.begin(4)
    assert unit.take(0, [((0,), bits("1100"))]) is None
    assert unit.take(1, []) is None
    passed = unit.take(2, [((0,), bits("0010")), ((1,), bits("1011"))])
    assert passed is not None and passed.tolist() == [True, False, True, False]


def test_a_clause_without_any_bit_lets_nothing_pass_and_no_clause_lets_everything_pass() -> None:
    unit = FilterUnit(segments=1, clauses=1)
    unit.begin(2)
    passed = unit.take(0, [])
    assert passed is not None and passed.tolist() == [False, False]
    unit = FilterUnit(segments=1, clauses=0)
    unit.begin(2)
    passed = unit.take(0, [])
    assert passed is not None and passed.tolist() == [True, True]


@examples(100)
@given(st.data())
def test_runs_by_definition(data: st.DataObject) -> None:
    segments, clauses = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4))
    unit = FilterUnit(segments, clauses)
    for _ in range(data.draw(st.integers(1, 3))):
        tuples = data.draw(st.integers(0, 5))
        numbers = st.sets(st.integers(0, clauses - 1)) if clauses else st.just(set())
        masks = st.lists(st.booleans(), min_size=tuples, max_size=tuples)
        results = st.lists(st.tuples(numbers.map(tuple), masks), max_size=3)
        given_ = [data.draw(results) for _ in range(segments)]
        unit.begin(tuples)
        for number, segment in enumerate(given_):
            passed = unit.take(number, [(one, np.array(mask, np.bool_)) for one, mask in segment])
            assert (passed is None) == (number < segments - 1)
        assert passed is not None
        assert passed.tolist() == [
            all(
                any(clause in one and mask[place] for segment in given_ for one, mask in segment)
                for clause in range(clauses)
            )
            for place in range(tuples)
        ]


@pytest.mark.parametrize(
    ("come", "missing"), [(1, "the segments 2, 3 and 4"), (3, "the segment 4")]
)
def test_a_segment_that_never_comes(come: int, missing: str) -> None:
    unit = FilterUnit(segments=4, clauses=0)
    unit.begin(1000)
    for number in range(come):
        unit.take(number, [])
    with pytest.raises(InputError) as error:
        unit.begin(5)
    assert str(error.value) == (
        f"of a run of 1,000 tuples in 4 segments, {missing} never came\n{REMEDY}"
    )


@pytest.mark.parametrize(("number", "due"), [(1, 1), (0, 2), (2, 2)])
def test_a_segment_that_comes_early_or_twice(number: int, due: int) -> None:
    unit = FilterUnit(segments=3, clauses=0)
    unit.begin(1)
    for earlier in range(due - 1):
        unit.take(earlier, [])
    with pytest.raises(InputError) as error:
        unit.take(number, [])
    assert str(error.value) == (
        f"segment {number + 1} of 3 came where segment {due} was due\n{REMEDY}"
    )


def test_a_run_that_has_not_begun_may_be_left_out() -> None:
    unit = FilterUnit(segments=2, clauses=0)
    unit.begin(1)
    unit.begin(2)
    unit.take(0, [])
    passed = unit.take(1, [])
    assert passed is not None and passed.tolist() == [True, True]
