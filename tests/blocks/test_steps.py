"""The bounded-step loop goes through every probe once, with a bounded number of pairs a step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.blocks.window.steps import Steps


@given(
    st.lists(st.integers(0, 12), max_size=60),
    st.integers(1, 80),
    st.integers(1, 20),
    st.none() | st.integers(1, 7),
)
def test_every_probe_is_in_one_step_and_its_pairs_fit(
    pairs: list[int], largest: int, most: int, longest: int | None
) -> None:
    def search(start: int, stop: int) -> list[int] | None:
        part = pairs[start:stop]
        return None if sum(part) > most else part

    steps, seen = Steps(largest), []
    for found, start, stop in steps.through(0, len(pairs), most, search, sum, longest):
        assert stop - start <= min(2 * largest, longest or 2 * largest)
        assert found is not None or (stop - start == 1 and pairs[start] > most)
        seen += pairs[start:stop]
    assert seen == pairs


def test_a_step_is_halved_until_its_pairs_fit_and_doubled_while_they_are_few() -> None:
    tried, many = [], range(4, 8)

    def search(start: int, stop: int) -> int | None:
        tried.append((start, stop))
        found = sum(4 if probe in many else 0 for probe in range(start, stop))
        return None if found > 8 else found

    steps = Steps(8)
    found = list(steps.through(0, 24, 8, search, lambda pairs: pairs))
    assert tried == [(0, 8), (0, 4), (4, 12), (4, 8), (4, 6), (6, 8), (8, 10), (10, 14), (14, 22),
                     (22, 24)]  # fmt: skip
    assert [(start, stop) for _, start, stop in found] == [
        (0, 4), (4, 6), (6, 8), (8, 10), (10, 14), (14, 22), (22, 24)
    ]  # fmt: skip
    assert steps.size == 8, "and never larger than it began"


def test_a_single_probe_with_too_many_pairs_gives_none() -> None:
    found = list(Steps(4).through(0, 2, 1, lambda start, stop: None, len))
    assert found == [(None, 0, 1), (None, 1, 2)]
