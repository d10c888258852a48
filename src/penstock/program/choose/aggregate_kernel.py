"""The choice of an aggregate kernel: panes, or the window modules of WID."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa

from penstock.errors import InputError
from penstock.sql.plan import Aggregate
from penstock.streams.windows import AggregateWindow, Sliding, SlidingRows

MOST_MODULES = 1 << 16
"""The largest number of window modules: with more, panes are faster in any case."""

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def window_modules(size: int, slide: int, slack: int) -> int:
    """``N_WIN``: the number of window modules for a window (Oge et al. 2013, equations 1 and 2).

    It is ``ceil(RANGE / SLIDE) + x``, with x the smallest positive integer that is not below
    ``(SLACK + RANGE) / SLIDE - ceil(RANGE / SLIDE)``.

    >>> [window_modules(size, 60, 60) for size in range(600, 3601, 600)]
    [11, 21, 31, 41, 51, 61]
    >>> window_modules(600, 60, 0), window_modules(90, 60, 600), window_modules(10, 60, 0)
    (11, 12, 2)
    """
    whole = -(-size // slide)
    return whole + max(1, math.ceil(Fraction(slack + size, slide)) - whole)


def choose_aggregate_kernel(aggregate: Aggregate, forced: str | None = None) -> tuple[str, str]:
    """The kernel and the reason for it; an error if window modules are forced but not possible."""
    if forced == "wid":
        return "wid", _why_modules(aggregate.window)
    asked = "asked for; " if forced == "panes" else ""
    return "panes", asked + _why_panes(aggregate)


def _why_modules(window: AggregateWindow | None) -> str:
    if not isinstance(window, Sliding):
        raise InputError(
            "the kernel 'wid' has modules for windows of a RANGE that slides",
            "Write [RANGE ... SLIDE ...] after the stream, or leave the kernel out.",
        )
    modules = window_modules(window.size, window.slide, window.slack or 0)
    if modules > MOST_MODULES:
        raise InputError(
            f"the kernel 'wid' would need {modules} window modules",
            f"Leave the kernel out, or write a longer SLIDE: at most {MOST_MODULES} modules.",
        )
    return f"asked for; {modules} window modules, of which each tuple visits all"


def _why_panes(aggregate: Aggregate) -> str:
    window = aggregate.window
    if window is None:
        return "one pane, the whole input"
    kind = aggregate.schema.field(aggregate.window_column).type
    lengths = " and ".join(_length(ticks, kind, window) for ticks in pane_lengths(window))
    slack = (window.slack or 0) if isinstance(window, Sliding) else 0
    count = -(-(window.size + slack) // window.slide)
    open_windows = "1 window is" if count == 1 else f"{count} windows are"
    parts = [f"panes of {lengths}, whatever the windows; {open_windows} open at a time"]
    kept = [call for call in aggregate.calls if call.is_invertible]
    stacked = [call for call in aggregate.calls if not call.is_invertible]
    for calls, one, several in (
        (kept, "subtracts", "subtract"),
        (stacked, "uses two stacks", "use two stacks"),
    ):
        if calls:
            parts.append(f"{', '.join(map(str, calls))} {one if len(calls) == 1 else several}")
    return "; ".join(parts)


def pane_lengths(window: AggregateWindow) -> tuple[int, ...]:
    """The distances between neighbouring borders of windows, in ticks or tuples.

    >>> pane_lengths(Sliding(600, 60)), pane_lengths(Sliding(90, 60)), pane_lengths(Sliding(10, 60))
    ((60,), (30, 30), (10, 50))
    """
    rest = window.size % window.slide
    return (window.slide,) if rest == 0 else (rest, window.slide - rest)


def _length(ticks: int, kind: pa.DataType, window: AggregateWindow) -> str:
    """A number of ticks with its unit, for EXPLAIN."""
    if isinstance(window, SlidingRows):
        return f"{ticks} tuple{'' if ticks == 1 else 's'}"
    if pa.types.is_date(kind):
        return f"{ticks} day{'' if ticks == 1 else 's'}"
    if pa.types.is_timestamp(kind):
        return f"{_decimal(Fraction(ticks, UNITS_PER_SECOND[kind.unit]))} s"
    return _decimal(Fraction(ticks, 10**kind.scale if pa.types.is_decimal(kind) else 1))


def _decimal(number: Fraction) -> str:
    """A fraction whose denominator is a power of ten, in digits."""
    whole, rest = divmod(number, 1)
    digits = f"{int(rest * 10**18):018d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
