"""A batch added in pieces gives the windows and the late tuples of single tuples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock.kernels.aggregate.panes import Panes, cells_of
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST, Ends, survey
from penstock.streams.windows import Sliding

TOP, BOTTOM = HIGHEST, LOWEST


def windows_of(window: Sliding, tick: int) -> range:
    """The numbers of the windows that a tick is in."""
    at = tick - (window.start or 0)
    first = (at - window.size) // window.slide + 1
    return range(first if window.start is None else max(first, 0), at // window.slide + 1)


def end_of(window: Sliding, number: int) -> int:
    return (window.start or 0) + number * window.slide + window.size


@dataclass
class Model:
    """Tuple by tuple, window by window."""

    window: Sliding
    punctuation: int = -(1 << 70)
    open: Counter[int] = field(default_factory=Counter)
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def take(self, position: int, tick: int) -> None:
        numbers = windows_of(self.window, tick)
        missed = [k for k in numbers if end_of(self.window, k) <= self.punctuation]
        if missed:
            self.late.append(position)
        self.open.update(k for k in numbers if k not in missed)
        if self.window.slack is not None:
            self.punctuate(position, tick - self.window.slack)

    def punctuate(self, position: int, punctuation: int) -> None:
        self.punctuation = max(self.punctuation, punctuation)
        for k in sorted(k for k in self.open if end_of(self.window, k) <= self.punctuation):
            self.rows.append((position, k, self.open.pop(k)))


@dataclass
class Pieces:
    """Batch by batch, with panes; windows are closed after each piece."""

    window: Sliding
    seen: int = LOWEST
    border: int = LOWEST
    counts: Counter[int] = field(default_factory=Counter)
    touched: set[int] = field(default_factory=set)
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def take(self, position: int, ticks: Any) -> None:
        panes = Panes.of(self.window)
        found = survey(ticks, self.seen, self.border, self.window.slack, Ends.of(self.window))
        assert (found.low, found.high) == (int(ticks.min()), int(ticks.max()))
        self.late += [
            position + i for i in found.late.tolist() if windows_of(self.window, int(ticks[i]))
        ]
        border = self.border
        for start, stop, closings, borders in found.parts():
            self.counts.update(panes.numbers(ticks[start:stop]).tolist())
            for tick in ticks[start:stop].tolist():
                self.touched.update(windows_of(self.window, tick))
            for at, closed in zip(closings.tolist(), borders.tolist(), strict=True):
                assert start <= at < stop and closed > border
                self.close(position + at, border, closed)
                border = closed
        assert border == found.border
        self.seen, self.border = found.seen, found.border

    def close(self, position: int, border: int, closed: int) -> None:
        panes = Panes.of(self.window)
        for k in sorted(self.touched):
            end = end_of(self.window, k)
            if border < end <= closed:
                begin = end - self.window.size
                inside = range(panes.number(begin), panes.number(end))
                assert panes.first_tick(inside.start) == begin
                assert panes.first_tick(inside.stop) == end
                count = sum(self.counts[pane] for pane in inside)
                if count:
                    self.rows.append((position, k, count))

    def punctuate(self, position: int, punctuation: int) -> None:
        closed = Ends.of(self.window).closed_by(punctuation)
        if closed > self.border:
            self.close(position, self.border, closed)
            self.border = closed


@st.composite
def scripts(draw: st.DrawFn) -> tuple[Sliding, list[Any]]:
    window = Sliding(
        size=draw(st.integers(1, 12)),
        slide=draw(st.integers(1, 12)),
        start=draw(st.none() | st.integers(-9, 9)),
        slack=draw(st.none() | st.integers(0, 9)),
    )
    low = -40 if window.start is None else window.start
    shift = draw(st.sampled_from([0, 0, 1 << 40, -(1 << 40)])) if window.start is None else 0
    step = st.integers(low, 60).map(lambda tick: tick + shift)
    batch = st.lists(step, min_size=1, max_size=12) | st.integers(0, 40).flatmap(
        lambda top: st.lists(st.integers(max(low, top - 9), top + 12), min_size=1, max_size=12).map(
            lambda ticks: [tick + shift for tick in ticks]
        )
    )
    return window, draw(st.lists(batch | st.tuples(step), max_size=6))


@examples(300)
@given(scripts())
def test_pieces_give_what_tuples_give(script: tuple[Sliding, list[Any]]) -> None:
    window, steps = script
    model, pieces = Model(window), Pieces(window)
    position = 0
    for step in steps:
        if isinstance(step, tuple):
            model.punctuate(position, step[0])
            pieces.punctuate(position, step[0])
            continue
        for i, tick in enumerate(step):
            model.take(position + i, tick)
        pieces.take(position, np.array(step, np.int64))
        position += len(step)
    assert pieces.rows == model.rows
    assert pieces.late == model.late


def test_long_batches_are_searched_in_stretches() -> None:
    rng = np.random.default_rng(7)
    window = Sliding(size=50, slide=20, slack=30)
    ticks = np.arange(20_000) // 40 + rng.integers(0, 30, 20_000)
    ticks[[5, 4_095, 4_096, 9_999, 19_999]] -= 70
    model, pieces = Model(window), Pieces(window)
    for i, tick in enumerate(ticks.tolist()):
        model.take(i, tick)
    pieces.take(0, ticks)
    assert pieces.rows == model.rows
    assert pieces.late == model.late == [5, 4_095, 4_096, 9_999, 19_999]


def test_a_batch_in_time_is_one_piece() -> None:
    window = Sliding(size=10, slide=5, slack=3)
    found = survey(np.arange(100), LOWEST, LOWEST, 3, Ends.of(window))
    assert [(start, stop) for start, stop, _, _ in found.parts()] == [(0, 100)]
    assert found.late.tolist() == found.cuts.tolist() == []
    assert found.closings.tolist() == [0, *range(3, 100, 5)]
    assert found.borders.tolist() == [-5, *range(0, 100, 5)]
    assert (found.seen, found.border) == (99, 95)


def test_a_tuple_that_missed_everything_cuts_nothing() -> None:
    window = Sliding(size=10, slide=10, slack=0)
    found = survey(np.array([100, 105, 111, 5, 112, 101]), 99, 90, 0, Ends.of(window))
    assert found.late.tolist() == [3, 5]
    assert found.cuts.tolist() == [5]


@pytest.mark.parametrize("slack", [0, 5, 1 << 62, (1 << 63) - 1])
def test_ticks_at_the_ends_of_64_bits(slack: int) -> None:
    for window in (
        Sliding(10, 10),
        Sliding(25, 10),
        Sliding(1 << 62, 1 << 61),
        Sliding(3, 1 << 62),
    ):
        window = Sliding(window.size, window.slide, None, slack)
        for ticks in ([BOTTOM, TOP, BOTTOM + 1, 0], [TOP - 3, TOP, TOP - 1], [BOTTOM, BOTTOM + 40]):
            model, pieces = Model(window), Pieces(window)
            for i, tick in enumerate(ticks):
                model.take(i, tick)
            pieces.take(0, np.array(ticks))
            # An end that 64 bits cannot hold is never reached.
            wanted = [row for row in model.rows if LOWEST < end_of(window, row[1]) <= TOP]
            assert pieces.rows == wanted
            assert pieces.late == model.late


@given(
    st.integers(-50, 50),
    st.integers(1, 40),
    st.integers(0, 39),
    st.sampled_from([0, 1 << 35, 1 << 52, -(1 << 61)]),
    st.lists(st.integers(-300, 300) | st.sampled_from([1 << 51, 1 << 49]), min_size=1, max_size=20),
    st.booleans(),
)
def test_cells_are_those_of_panes(
    start: int, slide: int, split: int, shift: int, offsets: list[int], grouped: bool
) -> None:
    panes = Panes(start, slide, split % slide)
    ticks = np.array([offset + shift for offset in offsets])
    wanted = [panes.number(tick) for tick in ticks.tolist()]
    for number, tick in zip(wanted, ticks.tolist(), strict=True):
        assert panes.first_tick(number) <= tick < panes.first_tick(number + 1)
    assert panes.numbers(ticks).tolist() == wanted
    if max(wanted) - min(wanted) > 2_000:
        return
    groups = np.arange(len(ticks), dtype=np.int32) % 3 if grouped else None
    starts = np.arange(max(wanted) - min(wanted) + 1)[::-1] * 3
    extent = int(ticks.min()), int(ticks.max())
    cells = cells_of(ticks, extent, panes, starts, groups)
    first = min(wanted)
    more = [0] * len(ticks) if groups is None else groups.tolist()
    assert cells.tolist() == [
        int(starts[number - first]) + group for number, group in zip(wanted, more, strict=True)
    ]


def test_panes_farther_apart_than_64_bits() -> None:
    panes = Panes(0, 1 << 61, 5)
    ticks = np.array([BOTTOM, TOP, 0, 4, 5])
    wanted = [-8, 7, 0, 0, 1]
    assert panes.numbers(ticks).tolist() == wanted
    assert panes.numbers(ticks[:0]).tolist() == []
    groups = np.array([0, 0, 1, 0, 0], np.int32)
    cells = cells_of(ticks, (BOTTOM, TOP), panes, np.arange(16) * 2, groups)
    assert cells.tolist() == [0, 30, 17, 16, 18]
    assert cells_of(ticks, (BOTTOM, TOP), panes, np.arange(16)).tolist() == [0, 15, 8, 8, 9]


@pytest.mark.parametrize("slide", [1, 3, 7, 60, 86_400, 10**9 + 7])
def test_borders_are_found_exactly_without_dividing(slide: int) -> None:
    # The hardest ticks are those just before and at a border, far from the first.
    for high in ((1 << 31) // slide, 1000):
        turns = np.arange(max(high - 500, 0), high)
        ticks = np.concatenate(([0], turns * slide, turns * slide - 1 + (slide == 1)))
        ticks = np.clip(ticks, 0, (1 << 50) - 1)
        panes = Panes(0, slide, slide // 2)
        wanted = panes.numbers(ticks)
        starts = np.arange(int(wanted.max()) + 1, dtype=np.int32) if wanted.max() < 4_000 else None
        if starts is not None:
            extent = 0, int(ticks.max())
            assert (cells_of(ticks, extent, panes, starts) == wanted).all()
