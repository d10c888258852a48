"""Exact sums equal sums of fractions: in any order, merged, and subtracted."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock import tuning
from penstock.kernels.aggregate.exact_sum import ExactSums
from penstock.kernels.aggregate.variance import variances

EXTREMES = [
    0.0,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    -5e-324,
    1.7976931348623157e308,
    2.0**-1022,
    0.1,
    1e16,
]
finite = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EXTREMES)
alike = st.floats(-1000, 1000) | st.integers(-8, 8).map(float)
floats = st.lists(finite | alike, max_size=30) | st.lists(alike, max_size=30)
integers = st.lists(
    st.integers(-(1 << 63), (1 << 63) - 1)
    | st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 32, -(1 << 32), (1 << 32) + 1]),
    max_size=30,
)
huge = st.lists(st.integers(-(10**38), 10**38), max_size=12)


def objects(values: list[int]) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def nearest(exact: Fraction) -> float:
    """The float nearest to a fraction: Python divides integers correctly."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def exactly(sums: ExactSums) -> list[Fraction]:
    unit = Fraction(2) ** sums.exponent
    return [unit * number for number in sums.as_integers(np.arange(len(sums)))]


def total(values: list[float] | list[int]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


@given(floats, st.integers(1, 3), st.integers())
def test_floats_are_added_exactly_and_rounded_once(
    values: list[float], count: int, seed: int
) -> None:
    cells = [i % count for i in range(len(values))]
    sums = ExactSums(count)
    sums.add(np.array(cells, np.int32), np.array(values, float))
    wanted = [total(values[c::count]) for c in range(count)]
    assert exactly(sums) == wanted
    assert sums.as_floats(np.arange(count)).tolist() == [nearest(w) for w in wanted]
    # Another order, other runs and other cuts give the same integers.
    order = list(range(len(values)))
    random.Random(seed).shuffle(order)
    other = ExactSums(count)
    for c in range(count):
        mine = [values[i] for i in order if cells[i] == c]
        other.add_at(c, np.array(mine[::2], float))
        other.add_at(c, np.array(mine[1::2], float))
    assert exactly(other) == wanted


@given(floats, st.integers(1, 1 << 40))
def test_a_mean_is_rounded_once(values: list[float], count: int) -> None:
    sums = ExactSums(2)
    sums.add_at(1, np.array(values, float))
    (mean,) = sums.as_floats(np.array([1]), np.array([count])).tolist()
    assert mean == nearest(total(values) / count)


@given(floats, floats, floats)
def test_what_is_taken_away_leaves_no_trace(
    first: list[float], second: list[float], third: list[float]
) -> None:
    panes, window = ExactSums(3), ExactSums(2)
    for pane, values in enumerate((first, second, third)):
        panes.add_at(pane, np.array(values, float))
    for pane in range(3):
        window.merge(np.array([1]), panes, np.array([pane]))
    assert exactly(window) == [Fraction(0), total(first) + total(second) + total(third)]
    window.merge_row(0, panes, 0, 2, -1)
    assert exactly(window) == [-total(first), total(first) + total(third)]
    window.merge(np.array([1, 0, 1]), panes, np.array([2, 0, 0]), -1)
    assert exactly(window) == [-2 * total(first), Fraction(0)]
    window.merge_row(0, panes, 0, 1, 1)
    window.merge(np.array([0]), window, np.array([0]))
    assert exactly(window) == [-2 * total(first), Fraction(0)]


@given(integers, st.booleans())
def test_integers_are_added_exactly(values: list[int], unsigned: bool) -> None:
    kind = np.uint64 if unsigned else np.int64
    values = [abs(v) for v in values] if unsigned else values
    scattered, run = ExactSums(1), ExactSums(1)
    scattered.add(np.zeros(len(values), np.int32), np.array(values, kind))
    run.add_at(0, np.array(values, kind))
    wanted = sum(values)
    assert scattered.as_integers(np.array([0])) == run.as_integers(np.array([0])) == [wanted]
    (number,), (fits,) = scattered.as_int64(np.array([0]))
    assert fits == (-(1 << 63) <= wanted < 1 << 63)
    assert not fits or number == wanted


@given(huge, st.data())
def test_integers_of_python_are_added_exactly(values: list[int], data: st.DataObject) -> None:
    valid = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    sums = ExactSums(2)
    sums.add(np.ones(len(values), np.int32), objects(values), np.array(valid, bool))
    wanted = sum(v for v, keep in zip(values, valid, strict=True) if keep)
    assert sums.as_integers(np.array([0, 1])) == [0, wanted]
    sums.add_at(1, objects(values))
    assert sums.as_integers(np.array([1])) == [wanted + sum(values)]
    fits = sums.as_int64(np.array([1]))[1][0]
    assert fits == (-(1 << 63) <= wanted + sum(values) < 1 << 63)


@given(floats, st.data())
def test_a_mask_leaves_out_what_it_hides(values: list[float], data: st.DataObject) -> None:
    count = len(values)
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    # The value of a NULL is undefined.
    hidden = np.where(valid, np.array(values, float), data.draw(st.sampled_from([math.nan, 1e300])))
    wanted = total([v for v, keep in zip(values, valid.tolist(), strict=True) if keep])
    sums = ExactSums(2)
    sums.add(np.zeros(count, np.int32), hidden, valid)
    sums.add_at(1, hidden, valid)
    assert exactly(sums) == [wanted, wanted]
    whole = np.where(valid, 7, 1 << 60)
    other = ExactSums(2)
    other.add(np.zeros(count, np.int32), whole, valid)
    other.add_at(1, whole, valid)
    assert other.as_integers(np.array([0, 1])) == [7 * int(valid.sum())] * 2


small = st.integers(-(1 << 60), 1 << 60)


@given(st.lists(finite | alike, min_size=2, max_size=9) | st.lists(small, min_size=2, max_size=9))
def test_variances_are_rounded_once(values: list[Any]) -> None:
    sums, squares, counts = ExactSums(2), ExactSums(2), np.array([len(values)] * 2)
    column = np.array(values)
    cells = np.ones(len(values), np.int32)
    sums.add(cells, column)
    squares.add_squares(cells, column)
    n, mean = len(values), total(values) / len(values)
    off = total([(Fraction(v) - mean) ** 2 for v in values])  # type: ignore[misc]
    for sample in (False, True):
        found = variances(sums, squares, counts, np.array([1, 0]), sample)
        assert found.tolist() == [nearest(off / (n - sample)), 0.0]
    wide = variances(sums, squares, np.array([1 << 33]), np.array([0]), True)
    assert wide.tolist() == [0.0]


def test_variances_of_wide_decimals_are_exact() -> None:
    values = objects([10**37, 10**37 + 3, -5])
    cells = np.zeros(3, np.int32)
    sums, squares = ExactSums(1), ExactSums(1)
    sums.add(cells, values)
    squares.add_squares(cells, values)
    mean = Fraction(sum(values), 3)
    wanted = nearest(sum((v - mean) ** 2 for v in values) / 3)
    assert variances(sums, squares, np.array([3]), np.array([0]), False).tolist() == [wanted]


def test_what_is_not_finite_is_counted_and_can_be_taken_away() -> None:
    inf, nan = math.inf, math.nan
    panes = ExactSums(4)
    panes.add(np.array([0, 0, 1, 1, 2, 3], np.int32), np.array([1.0, inf, 2.0, -inf, nan, 0.5]))
    panes.add_at(3, np.array([inf, inf, 0.25]))
    assert repr(panes.as_floats(np.arange(4)).tolist()) == "[inf, -inf, nan, inf]"
    window = ExactSums(1)
    for pane in range(2):
        window.merge(np.array([0]), panes, np.array([pane]))
    assert math.isnan(window.as_floats(np.array([0]))[0])
    window.merge_row(0, panes, 0, 1, -1)
    assert window.as_floats(np.array([0])).tolist() == [-inf]
    window.merge_row(0, panes, 1, 1, -1)
    assert window.as_floats(np.array([0])).tolist() == [0.0]
    panes.clear(np.array([0, 2, 3]))
    assert panes.as_floats(np.arange(4)).tolist() == [0.0, -inf, 0.0, 0.0]
    squares = ExactSums(1)
    squares.add_squares(np.zeros(2, np.int32), np.array([-inf, 2.0]))
    assert squares.as_floats(np.array([0])).tolist() == [inf]
    counts = np.array([2])
    assert math.isnan(variances(panes, squares, counts, np.array([1]), False)[0])


@pytest.mark.parametrize("room", [64, 1 << 28])
def test_carries_are_settled_in_time(room: int) -> None:
    top = (1 << 63) - 1
    sums = ExactSums(2)
    with tuning.given(additions_per_carry=room):
        for _ in range(40):
            sums.add(np.zeros(32, np.int32), np.full(32, top))
            sums.add_at(1, np.full(32, -top - 1))
        assert sums.as_integers(np.array([0, 1])) == [1280 * top, -1280 * (top + 1)]
        # Doubled a hundred times, a sum needs more limbs than its values did.
        for _ in range(100):
            sums.merge(np.array([0, 1]), sums, np.array([0, 1]))
    assert sums.as_integers(np.array([0, 1])) == [1280 * top << 100, -1280 * (top + 1) << 100]


def test_runs_of_any_length_and_mixture() -> None:
    rng = np.random.default_rng(5)
    for scale in (1.0, 1e300, 1e-310, 1e-20):
        values = rng.standard_normal(10_000) * scale
        values[rng.integers(0, 10_000, 50)] *= 1e-30
        run, scattered = ExactSums(1), ExactSums(1)
        run.add_at(0, values)
        scattered.add(np.zeros(len(values), np.int32), values)
        assert exactly(run) == exactly(scattered) == [total(values.tolist())]


def test_a_run_of_the_largest_numbers_of_its_size() -> None:
    for value in (np.nextafter(2.0, 0), -np.nextafter(2.0, 0), 2.0, -(2.0**-1000)):
        values = np.full(9_000, value)
        sums = ExactSums(3)
        sums.add_at(0, values)
        sums.add(np.full(9_000, 1, np.int32), values)
        sums.add(np.arange(9_000, dtype=np.int32) % 3, values)
        third = 3_000 * Fraction(value)
        assert exactly(sums) == [4 * third, 4 * third, third]


@pytest.mark.parametrize("count", [2, 40])
def test_few_cells_and_many_with_and_without_a_mask(count: int) -> None:
    rng = np.random.default_rng(count)
    cells = rng.integers(0, count, 9_000).astype(np.int32)
    valid = rng.random(9_000) < 0.8
    values = rng.standard_normal(9_000)
    values[::500] *= 1e-40  # some stretches have remainders
    whole = rng.integers(-(1 << 32), 1 << 32, 9_000, endpoint=True)
    for mask in (None, valid):
        chosen = np.ones(9_000, bool) if mask is None else mask
        for column in (values, whole):
            sums = ExactSums(count)
            sums.add(cells, column, mask)
            wanted = [total(column[chosen & (cells == c)].tolist()) for c in range(count)]
            assert exactly(sums) == wanted


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "u1", "u2", "u4", "f4", "f8"])
def test_columns_of_every_type_in_memory_that_is_not_ours(kind: str) -> None:
    values = np.array([1, 2, 3, 100], kind)
    frozen = np.frombuffer(values.tobytes(), values.dtype)
    repeated = np.broadcast_to(values[3:], (5,))
    sums, squares = ExactSums(1), ExactSums(1)
    sums.add(np.zeros(4, np.int64), frozen)
    sums.add_at(0, repeated)
    squares.add_squares(np.zeros(4, np.int32), frozen)
    assert exactly(sums) == [606]
    assert exactly(squares) == [10014]


def test_cells_can_grow_move_and_be_saved() -> None:
    sums = ExactSums(2)
    sums.add(np.array([0, 1, 1], np.int32), np.array([1.5, 2.5, math.inf]))
    sums.resize(4)
    sums.add(np.array([3], np.int32), np.array([1e-30]))
    sums.rearrange(3, np.array([0, 2]), np.array([3, 1]))
    assert sums.as_floats(np.arange(3)).tolist() == [1e-30, 0.0, math.inf]
    saved = {name: column.copy() for name, column in sums.state().items()}
    sums.add_at(1, np.array([9.0]))
    again = ExactSums()
    again.load(saved)
    assert len(again) == 3
    assert again.as_floats(np.arange(3)).tolist() == [1e-30, 0.0, math.inf]
    assert again.nbytes == sums.nbytes > 0
    empty = sums.like(2)
    assert (len(empty), empty.exponent, empty.as_floats(np.arange(2)).tolist()) == (
        2,
        sums.exponent,
        [0.0, 0.0],
    )


def test_nothing_is_zero() -> None:
    sums = ExactSums(2)
    sums.add(np.empty(0, np.int32), np.empty(0))
    sums.add_at(0, np.array([0.0, -0.0]))
    sums.merge(np.array([0]), ExactSums(1), np.array([0]))
    sums.merge_row(0, ExactSums(1), 0, 1)
    cells = np.array([0, 1])
    assert sums.as_integers(cells) == [0, 0]
    assert sums.as_floats(cells, np.array([0, 3])).tolist() == [0.0, 0.0]
    assert [part.tolist() for part in sums.as_int64(cells)] == [[0, 0], [True, True]]
    assert variances(sums, sums, cells, cells, False).tolist() == [0.0, 0.0]


@examples(30)
@given(st.lists(finite, min_size=1, max_size=20), st.lists(finite, min_size=1, max_size=20))
def test_sums_of_other_units_can_be_merged(left: list[float], right: list[float]) -> None:
    one, other = ExactSums(1), ExactSums(2)
    one.add_at(0, np.array(left))
    other.add_at(1, np.array(right))
    one.merge_row(0, other, 1, 1)
    assert exactly(one) == [total(left) + total(right)]
