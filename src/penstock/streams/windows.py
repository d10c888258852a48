"""Window specifications of a query, and the clock by which time windows are measured."""

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

    With ``inclusive`` (``[RANGE T INCLUSIVE]``) a tuple is still live at that time itself.
    ``slack`` is the clause's ``SLACK L``, or None without one. ``text`` is the clause as it was
    written, for messages. ``derived``: the window is over a derived stream, which punctuates by
    itself, so that no tuple is late unless the clause has a ``slack``.
    """

    size: int | float
    slack: int | float | None = None
    text: str = field(default="", compare=False)
    derived: bool = False
    inclusive: bool = False

    def __str__(self) -> str:
        inclusive = " INCLUSIVE" if self.inclusive else ""
        slack = "" if self.slack is None else f" SLACK {self.slack}"
        return f"[RANGE {self.size}{inclusive}{slack}]"


@dataclass(frozen=True)
class Unbounded:
    """``[UNBOUNDED]``: everything since the query was installed; on bounded input only."""

    def __str__(self) -> str:
        return "[UNBOUNDED]"


Window = Rows | Range | Unbounded


@dataclass(frozen=True)
class Sliding:
    """``[RANGE T SLIDE D START AT v SLACK L]``: windows of an aggregate, in integer ticks.

    Window ``k`` is ``[start + k·slide, start + k·slide + size)``, for ``k >= 0`` if the clause has
    a start, else for every integer ``k`` from tick 0. ``slack``, ``text`` and ``derived`` are as in
    :class:`Range`.
    """

    size: int
    slide: int
    start: int | None = None
    slack: int | None = None
    text: str = field(default="", compare=False)
    derived: bool = False

    def __str__(self) -> str:
        start = "" if self.start is None else f" START AT {self.start}"
        slack = "" if self.slack is None else f" SLACK {self.slack}"
        return f"[RANGE {self.size} SLIDE {self.slide}{start}{slack}]"


@dataclass(frozen=True)
class SlidingRows:
    """``[ROWS w SLIDE d]``: every ``slide`` tuples, a window over the last ``size`` of them."""

    size: int
    slide: int

    def __str__(self) -> str:
        return f"[ROWS {self.size} SLIDE {self.slide}]"


AggregateWindow = Sliding | SlidingRows


def as_written(window: Window | AggregateWindow) -> str:
    """The window clause as the user wrote it, if its text is known.

    >>> as_written(Range(60_000_000, text="[RANGE 1 MINUTE WATTR t]")), as_written(Rows(4))
    ('[RANGE 1 MINUTE WATTR t]', '[ROWS 4]')
    """
    return (isinstance(window, Range | Sliding) and window.text) or str(window)


@dataclass(frozen=True)
class TimeAttribute:
    """The column with a stream's time, and the factor from its values to the query's ticks.

    The tick is the physical value of the column (an integer: the days of a date, the units of a
    timestamp, the unscaled integer of a decimal) times ``factor``. A float column has ``factor``
    1.0 and float ticks; the clock then has floats on both sides.
    """

    column: int
    name: str
    factor: int | float
