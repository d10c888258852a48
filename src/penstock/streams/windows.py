"""The windows a query keeps of its streams, and the clock that time windows are measured with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rows:
    """``[ROWS w]``: the last ``size`` tuples of the stream. ``[NOW]`` is ``Rows(0)``."""

    size: int

    def __str__(self) -> str:
        return f"[ROWS {self.size}]" if self.size else "[NOW]"


@dataclass(frozen=True)
class Range:
    """``[RANGE T]``: the tuples whose time plus ``size`` has not been reached. In ticks.

    ``slack`` is what the clause said (``SLACK L``), or None if it said nothing. ``text`` is the
    clause as it was written, for a reader: ticks say little to one.
    """

    size: int | float
    slack: int | float | None = None
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        slack = "" if self.slack is None else f" SLACK {self.slack}"
        return f"[RANGE {self.size}{slack}]"


@dataclass(frozen=True)
class Unbounded:
    """``[UNBOUNDED]``: everything since the query was installed; on bounded input only."""

    def __str__(self) -> str:
        return "[UNBOUNDED]"


Window = Rows | Range | Unbounded


@dataclass(frozen=True)
class Sliding:
    """``[RANGE T SLIDE D START AT v SLACK L]``: windows of an aggregate, in ticks.

    Window ``k`` is ``[start + k·slide, start + k·slide + size)``: for ``k >= 0`` if a start was
    written, else for every integer ``k``, from tick 0. ``slack`` and ``text`` are as in
    :class:`Range`. Ticks are integers.
    """

    size: int
    slide: int
    start: int | None = None
    slack: int | None = None
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        start = "" if self.start is None else f" START AT {self.start}"
        slack = "" if self.slack is None else f" SLACK {self.slack}"
        return f"[RANGE {self.size} SLIDE {self.slide}{start}{slack}]"


@dataclass(frozen=True)
class SlidingRows:
    """``[ROWS w SLIDE d]``: every ``slide`` tuples, the last ``size`` of them."""

    size: int
    slide: int

    def __str__(self) -> str:
        return f"[ROWS {self.size} SLIDE {self.slide}]"


AggregateWindow = Sliding | SlidingRows


def as_written(window: Window | AggregateWindow) -> str:
    """The window clause as a reader knows it.

    >>> as_written(Range(60_000_000, text="[RANGE 1 MINUTE WATTR t]")), as_written(Rows(4))
    ('[RANGE 1 MINUTE WATTR t]', '[ROWS 4]')
    """
    return (isinstance(window, Range | Sliding) and window.text) or str(window)


@dataclass(frozen=True)
class TimeAttribute:
    """Where a stream's time is, and how to read it as ticks of the query's clock.

    The physical value of the column (an integer; the days of a date, the units of a timestamp, the
    unscaled integer of a decimal) times ``factor`` is the tick. A float column has ``factor`` 1.0
    and float ticks; its query's clock is then of floats on both sides.
    """

    column: int
    name: str
    factor: int | float
