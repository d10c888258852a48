"""Line plots as SVG, with the standard library only.

``svg`` is a pure function: the same plot gives the same bytes, so that a figure under version
control changes only when its numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal
from xml.sax.saxutils import escape

# Each at least 4.5:1 against white, as names are written in them; markers do not rely on hue.
COLOURS = ("#0067a5", "#c24100", "#00734f", "#963484", "#806000", "#4a5568")
# Circle, square, diamond, triangle: paths around their centre.
MARKERS = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "M-4.5 -4.5h9v9h-9z",
    "M0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z",
    "M0 -6.5l6 11h-12z",
)
INK, GREY, GRID = "#1a1a1a", "#5c5c5c", "#e4e4e4"
WIDTH, HEIGHT = 720, 440
TEXT, LINE = 13, 18  # pixels: the size of labels, and from one line of text to the next
GLYPH = 0.6 * TEXT  # what a character takes on average in a generic font, with some reserve
MOST_TICKS = 9
CLOSEST_TICKS = 0.07  # of the axis: two labels closer than that would touch
THOUSANDS = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " K"))
DASHED = 'stroke-dasharray="4 4"'


@dataclass(frozen=True)
class Point:
    """A measurement, with the smallest and the largest one if there were several."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A line. Without points it is not drawn, but still reserves its colour."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """``log`` is the base of a logarithmic axis; a linear one (``None``) always shows zero.

    On a ``square`` axis lengths are the squares of values, from zero on: a cost that grows with the
    square of a rate is a straight line there.
    """

    title: str
    log: Literal[2, 10] | None = None
    square: bool = False


@dataclass(frozen=True)
class Mark:
    """A vertical line at ``x``; not drawn outside of the axis."""

    x: float
    label: str


@dataclass(frozen=True)
class Plot:
    """The contents of a figure, without its looks."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    subtitle: str = ""
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Scale:
    """The ends of an axis, and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: Literal[2, 10] | None = None
    square: bool = False

    def share(self, value: float) -> float:
        """The fraction of the axis below ``value``."""
        if self.square:
            return (value / self.high) ** 2
        if self.log is None:
            return (value - self.low) / (self.high - self.low)
        return math.log2(value / self.low) / math.log2(self.high / self.low)

    def label(self, tick: float) -> str:
        """A power of two, or a number with K, M, G or T for its thousands; as SVG."""
        if self.log == 2:
            power = f"{math.log2(tick):.0f}".replace("-", "−")
            return f'2<tspan dy="-5" font-size="{TEXT - 3}">{power}</tspan>'
        reached = (thousand for thousand in THOUSANDS if abs(tick) >= thousand[0])
        factor, letter = next(reached, (1.0, ""))
        return f"{tick / factor:g}{letter}".replace("-", "−")


def linear_scale(values: Sequence[float]) -> Scale:
    """Round steps from zero, or from below zero if a value is."""
    low, high = min([0.0, *values]), max([0.0, *values])
    rough = (high - low or 1.0) / (MOST_TICKS - 3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10, 20) if s * power >= rough)
    last = math.ceil(high / step) if high > low else math.ceil(1 / step)
    ticks = tuple(i * step for i in range(math.floor(low / step), last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def square_scale(values: Sequence[float]) -> Scale:
    """Round steps from zero, as far as their labels have room."""
    if any(value < 0 for value in values):
        raise ValueError(f"{min(values):g} has no place on an axis of squares; use a linear one")
    even = linear_scale(values)
    whole = Scale(0, even.high, even.ticks, square=True)
    ticks = [even.high]
    for tick in reversed(even.ticks):
        room = whole.share(ticks[-1]) - whole.share(tick)
        if tick == 0 or min(room, whole.share(tick)) >= CLOSEST_TICKS:
            ticks.append(tick)
    return Scale(0, even.high, tuple(reversed(ticks)), square=True)


def log_scale(values: Sequence[float], base: Literal[2, 10]) -> Scale:
    """From one power to another; of ten, also from or to its double and its fivefold."""
    if any(value <= 0 for value in values):
        raise ValueError(f"{min(values):g} has no place on a logarithmic axis; use a linear one")
    low, high = min(values, default=1), max(values, default=base)
    logarithm, rungs = (math.log2, (1,)) if base == 2 else (math.log10, (1, 2, 5))
    # One power more on each side: a single value needs room, and logarithms are rounded.
    powers = range(math.floor(logarithm(low)) - 1, math.ceil(logarithm(high)) + 2)
    ladder = [(rung * float(base) ** power, rung, power) for power in powers for rung in rungs]
    first = max(i for i, step in enumerate(ladder) if step[0] <= low)
    last = min(i for i, step in enumerate(ladder) if step[0] >= high)
    steps = ladder[first : last + 1] if first < last else ladder[first - 1 : last + 2]
    ends = steps[0][0], steps[-1][0]
    if len(steps) > MOST_TICKS:
        steps = [step for step in steps if step[1] == 1]
    stride = math.ceil(len(steps) / MOST_TICKS)
    return Scale(*ends, tuple(value for value, _, power in steps if power % stride == 0), base)


def scale(axis: Axis, values: Sequence[float]) -> Scale:
    """The scale of an axis that shows all of ``values``."""
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place on the axis {axis.title!r}; leave it out")
    if axis.square:
        return square_scale(values)
    return linear_scale(values) if axis.log is None else log_scale(values, axis.log)


def spread(wanted: Sequence[float], gap: float, bottom: float) -> list[float]:
    """Heights close to the wanted ones, which ascend: at least ``gap`` apart, above ``bottom``."""
    heights = list(accumulate(wanted, lambda above, height: max(height, above + gap)))
    return [min(h, bottom - gap * (len(heights) - 1 - i)) for i, h in enumerate(heights)]


@dataclass(frozen=True)
class Frame:
    """The rectangle of the lines, and the mapping from values to pixels."""

    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale

    def across(self, x: float) -> float:
        return self.left + self.x.share(x) * (self.right - self.left)

    def down(self, y: float) -> float:
        return self.bottom - self.y.share(y) * (self.bottom - self.top)


def text(x: float, y: float, content: str, style: str = f'fill="{INK}"') -> str:
    """A text; ``content`` and ``style`` are SVG already, so ``content`` is escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{content}</text>'


def path(corners: Sequence[tuple[float, float]], style: str) -> str:
    """A line through all corners."""
    return f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in corners)}" fill="none" {style}/>'


def surroundings(plot: Plot, frame: Frame) -> Iterator[str]:
    """Titles, grid, ticks and marks."""
    yield text(20, 30, escape(plot.title), f'font-size="16" font-weight="bold" fill="{INK}"')
    if plot.subtitle:
        yield text(20, 32 + LINE, escape(plot.subtitle), f'fill="{GREY}"')
    yield text(20, frame.top - 16 - LINE * bool(plot.marks), escape(plot.y.title))
    x, middle = (frame.left + frame.right) / 2, 'text-anchor="middle"'
    yield text(x, HEIGHT - 16, escape(plot.x.title), f'fill="{INK}" {middle}')
    for tick in frame.y.ticks:
        y = frame.down(tick)
        yield path([(frame.left, y), (frame.right, y)], f'stroke="{GRID}"')
        yield text(frame.left - 8, y + 4.5, frame.y.label(tick), 'text-anchor="end"')
    for tick in frame.x.ticks:
        x = frame.across(tick)
        yield path([(x, frame.bottom), (x, frame.bottom + 5)], f'stroke="{GREY}"')
        yield text(x, frame.bottom + 22, frame.x.label(tick), middle)
    yield path([(frame.left, frame.bottom), (frame.right, frame.bottom)], f'stroke="{GREY}"')
    for mark in plot.marks:
        if frame.x.low <= mark.x <= frame.x.high:
            x = frame.across(mark.x)
            yield path([(x, frame.top), (x, frame.bottom)], f'stroke="{GREY}" {DASHED}')
            yield text(x, frame.top - 8, escape(mark.label), middle)


def drawn(points: Sequence[Point], index: int, frame: Frame) -> Iterator[str]:
    """The line of the ``index``-th series, its bars from lowest to highest, and its markers."""
    colour = COLOURS[index % len(COLOURS)]
    corners = [(frame.across(point.x), frame.down(point.y)) for point in points]
    yield path(corners, f'stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"')
    for point, (x, y) in zip(points, corners, strict=True):
        if point.low is not None and point.high is not None:
            bar = [(x, frame.down(point.low)), (x, frame.down(point.high))]
            yield path(bar, f'stroke="{colour}" stroke-width="1.5"')
        at = f'transform="translate({x:.1f} {y:.1f})" d="{MARKERS[index % len(MARKERS)]}"'
        yield f'<path {at} fill="{colour}" stroke="#ffffff" stroke-width="1.5"/>'


def names(series: Sequence[Series], frame: Frame) -> Iterator[str]:
    """Each name to the right of the end of its line, and a thin line to it."""
    ends = sorted((frame.down(s.points[-1].y), i) for i, s in enumerate(series) if s.points)
    heights = spread([y for y, _ in ends], LINE, frame.bottom)
    for (end, i), height in zip(ends, heights, strict=True):
        colour, start = COLOURS[i % len(COLOURS)], frame.across(series[i].points[-1].x)
        corners = [(start, end), (frame.right, end), (frame.right + 14, height)]
        yield path(corners, f'stroke="{colour}" stroke-opacity="0.5" {DASHED}')
        style = f'fill="{colour}" font-weight="bold"'
        yield text(frame.right + 18, height + 4.5, escape(series[i].name), style)


def svg(plot: Plot) -> str:
    """The figure, as the text of an SVG file."""
    points = [point for series in plot.series for point in series.points]
    heights = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    longest = max((len(series.name) for series in plot.series if series.points), default=0)
    frame = Frame(
        left=66,
        right=WIDTH - 40 - GLYPH * longest,
        top=60 + LINE * (1 + bool(plot.subtitle) + bool(plot.marks)),
        bottom=HEIGHT - 62,
        x=scale(plot.x, [point.x for point in points]),
        y=scale(plot.y, heights),
    )
    parts = [*surroundings(plot, frame), *names(plot.series, frame)]
    for index, series in enumerate(plot.series):
        parts += drawn(series.points, index, frame) if series.points else ()
    if not points:
        parts.append(text(frame.left + 20, frame.top + 40, "no data"))
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    root = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {HEIGHT}"'
    font = f'role="img" font-family="sans-serif" font-size="{TEXT}" fill="{GREY}"'
    title = f"<title>{escape(plot.title)}</title>"
    background = f'<rect {size} rx="6" fill="#ffffff"/>'
    return "\n".join([f"{root} {font}>", title, background, *parts, "</svg>\n"])
