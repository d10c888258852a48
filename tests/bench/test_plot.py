"""Plots: scales and ticks by hand, and the SVG read back as XML."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from bench.plot import (
    COLOURS,
    HEIGHT,
    WIDTH,
    Axis,
    Mark,
    Plot,
    Point,
    Scale,
    Series,
    linear_scale,
    log_scale,
    spread,
    square_scale,
    svg,
)

LINEAR = Axis("linear")
LINE = Series("line", [Point(1, 1), Point(4, 2), Point(16, 4)])


def plot(*series: Series, **changes: object) -> Plot:
    given: dict[str, object] = {"title": "t", "x": Axis("x", log=2), "y": LINEAR}
    return Plot(series=series, **(given | changes))  # type: ignore[arg-type]


def elements(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def texts(text: str) -> list[str]:
    return ["".join(element.itertext()) for element in elements(text, "text")]


def markers(text: str) -> list[tuple[float, float]]:
    found = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", text)
    return [(float(x), float(y)) for x, y in found]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([0], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([53], (0, 10, 20, 30, 40, 50, 60)),
        ([5.2e9, 4.4e9], (0, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9)),
        ([-3, 9], (-4, -2, 0, 2, 4, 6, 8, 10)),
        ([-5], (-5, -4, -3, -2, -1, 0)),
        ([0.013], (0, 0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015)),
    ],
)
def test_a_linear_axis_shows_zero_and_goes_in_round_steps(
    values: list[float], ticks: tuple[float, ...]
) -> None:
    scale = linear_scale(values)
    assert scale.ticks == pytest.approx(ticks)
    assert (scale.low, scale.high) == (scale.ticks[0], scale.ticks[-1])


@pytest.mark.parametrize(
    ("values", "powers", "ends"),
    [
        ([], range(2), (0, 1)),
        ([1 << 14], range(13, 16), (13, 15)),
        ([1 << 14, 1 << 22], range(14, 23), (14, 22)),
        ([1 << 12, 1 << 22], range(12, 23, 2), (12, 22)),
        ([1 << 13, 1 << 23], range(14, 23, 2), (13, 23)),
        ([0.3, 5], range(-2, 4), (-2, 3)),
    ],
)
def test_ticks_of_base_two_are_powers_with_even_gaps(
    values: list[float], powers: range, ends: tuple[int, int]
) -> None:
    scale = log_scale(values, 2)
    assert scale.ticks == tuple(2.0**power for power in powers)
    assert (scale.low, scale.high) == (2.0 ** ends[0], 2.0 ** ends[1])


@pytest.mark.parametrize(
    ("values", "ticks", "ends"),
    [
        ([300e3, 6e6], (2e5, 5e5, 1e6, 2e6, 5e6, 1e7), (2e5, 1e7)),
        ([1000], (500, 1000, 2000), (500, 2000)),
        ([4.9e3, 1.2e7], (1e4, 1e5, 1e6, 1e7), (2e3, 2e7)),
        ([0.004, 0.03], (0.002, 0.005, 0.01, 0.02, 0.05), (0.002, 0.05)),
        ([1, 1e12], tuple(10.0**power for power in range(0, 13, 2)), (1, 1e12)),
    ],
)
def test_ticks_of_base_ten_are_powers_or_their_doubles_and_fivefolds(
    values: list[float], ticks: tuple[float, ...], ends: tuple[float, float]
) -> None:
    scale = log_scale(values, 10)
    assert scale.ticks == pytest.approx(ticks)
    assert (scale.low, scale.high) == pytest.approx(ends)


def test_equal_factors_are_equal_lengths_on_a_logarithmic_axis_and_sums_on_a_linear_one() -> None:
    logarithmic, linear = Scale(1, 16, (), 2), Scale(0, 16, ())
    assert [logarithmic.share(value) for value in (1, 2, 4, 16)] == [0, 0.25, 0.5, 1]
    assert [linear.share(value) for value in (0, 2, 4, 16)] == [0, 0.125, 0.25, 1]


def test_labels_are_short() -> None:
    scale = Scale(0, 1, ())
    values = (0, 0.05, 999, 1000, 2.5e6, -5e9, 3e12)
    expected = ["0", "0.05", "999", "1 K", "2.5 M", "−5 G", "3 T"]
    assert [scale.label(value) for value in values] == expected


def test_points_are_where_their_values_say() -> None:
    (x1, y1), (x2, y2), (x3, y3) = markers(svg(plot(LINE)))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)  # 1, 4, 16
    assert 2 * (y1 - y2) == pytest.approx(y2 - y3, abs=0.2)  # 1, 2, 4


def test_names_stand_apart_and_above_the_bottom() -> None:
    assert spread([], 18, 100) == []
    assert spread([10, 12, 60], 18, 100) == [10, 28, 60]
    assert spread([95, 96, 97], 18, 100) == [64, 82, 100]


def test_the_same_plot_gives_the_same_bytes() -> None:
    first = svg(plot(LINE, marks=[Mark(2, "m")]))
    again = Series("line", [Point(1.0, 1.0), Point(4.0, 2.0), Point(16.0, 4.0)])
    assert svg(plot(again, marks=[Mark(2, "m")])) == first


def test_everything_lies_on_the_white_background() -> None:
    text = svg(plot(LINE, Series("a long name of a line", LINE.points), marks=[Mark(16, "m")]))
    (background,) = elements(text, "rect")
    assert background.attrib | {"rx": ""} == {
        "width": str(WIDTH), "height": str(HEIGHT), "rx": "", "fill": "#ffffff",
    }  # fmt: skip
    for x, y in markers(text):
        assert 0 < x < WIDTH and 0 < y < HEIGHT
    for element in elements(text, "text"):
        assert 0 < float(element.attrib["x"]) < WIDTH
        assert 0 < float(element.attrib["y"]) < HEIGHT


def test_an_empty_series_is_not_drawn_but_keeps_its_colour() -> None:
    text = svg(plot(Series("nothing", []), LINE))
    assert "nothing" not in texts(text) and "line" in texts(text)
    assert COLOURS[0] not in text and COLOURS[1] in text


@pytest.mark.parametrize("axis", [LINEAR, Axis("two", log=2), Axis("ten", log=10)])
def test_no_points_at_all_give_axes_that_say_so(axis: Axis) -> None:
    text = svg(plot(Series("nothing", []), x=axis, y=axis))
    assert "no data" in texts(text)
    assert markers(text) == []


@pytest.mark.parametrize("axis", [LINEAR, Axis("two", log=2), Axis("ten", log=10)])
def test_a_single_point_is_one_marker_with_its_name(axis: Axis) -> None:
    text = svg(plot(Series("alone", [Point(1000, 1000)]), x=axis, y=axis))
    assert len(markers(text)) == 1
    assert texts(text).count("alone") == 1
    assert "no data" not in texts(text)


def test_a_bar_goes_from_the_lowest_to_the_highest_and_the_axis_shows_both() -> None:
    text = svg(plot(Series("line", [Point(2, 5, 2, 9)])))
    ((x, _),) = markers(text)
    (bar,) = re.findall(rf'd="M{x} ([\d.]+)L{x} ([\d.]+)" fill="none" stroke="{COLOURS[0]}"', text)
    zero, ten = (
        float(element.attrib["y"])
        for label in ("0", "10")
        for element in elements(text, "text")
        if element.text == label
    )
    pixel = (zero - ten) / 10
    assert (float(bar[0]) - float(bar[1])) / pixel == pytest.approx(7, abs=0.05)


def test_a_mark_is_drawn_where_it_is_and_left_out_beyond_the_axis() -> None:
    text = svg(plot(LINE, marks=[Mark(4, "L2 2 MiB"), Mark(64, "L3")]))
    (label,) = (element for element in elements(text, "text") if element.text == "L2 2 MiB")
    assert float(label.attrib["x"]) == markers(text)[1][0]
    assert "L3" not in texts(text)


def test_labels_are_escaped() -> None:
    odd = 'r.x < s.a & "b" </text>'
    text = svg(
        plot(
            Series(odd, LINE.points), title=odd, subtitle=odd, x=Axis(odd, log=2), y=Axis(odd),
            marks=[Mark(2, odd)],
        )
    )  # fmt: skip
    assert texts(text).count(odd) == 6
    assert [element.text for element in elements(text, "title")] == [odd]


def test_a_value_that_an_axis_cannot_show_is_refused() -> None:
    with pytest.raises(ValueError) as refused:
        svg(plot(Series("line", [Point(1, 0)]), y=Axis("y", log=10)))
    assert str(refused.value) == "0 has no place on a logarithmic axis; use a linear one"
    with pytest.raises(ValueError) as refused:
        svg(plot(Series("line", [Point(1, float("nan"))])))
    assert str(refused.value) == "nan has no place on the axis 'linear'; leave it out"


def test_an_axis_of_squares_goes_from_zero_and_leaves_room_for_labels() -> None:
    scale = square_scale([1_400, 4_400])
    assert (scale.low, scale.high) == (0, 5_000)
    assert scale.ticks == (0, 2_000, 3_000, 4_000, 5_000)
    assert [scale.share(value) for value in (0, 2_500, 5_000)] == [0, 0.25, 1]


def test_what_grows_with_the_root_is_a_straight_line_on_an_axis_of_squares() -> None:
    roots = Series("roots", [Point(cores, cores**0.5 * 1_000) for cores in (1, 2, 4, 9)])
    drawn = svg(plot(roots, x=LINEAR, y=Axis("rate", square=True)))
    places = markers(drawn)
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(places)]
    assert max(slopes) - min(slopes) < 0.01


def test_a_negative_value_has_no_place_on_an_axis_of_squares() -> None:
    with pytest.raises(ValueError, match=r"^-1 has no place on an axis of squares; use a linear"):
        square_scale([-1, 4])
