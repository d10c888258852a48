"""``--watch``: draws what the cores of a query do and what its aggregates hold, while it runs.

It reads only a query's metrics. A metric that is missing is drawn as a dash, since flows differ in
what they measure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table

INTERVAL = {True: 0.25, False: 1.0}
"""Seconds between two drawings: on a terminal, and in a file, where each is another line."""
NOTHING = "-"
_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR = 8
_WIDEST = 24


class Watch:
    """Draws the metrics of a query at intervals: a table on a terminal, else a line.

    Parameters
    ----------
    console
        Where it draws.
    metrics
        Returns the query's metrics.
    clock
        Returns seconds since some moment; tests drive it.
    """

    def __init__(
        self,
        console: Console,
        metrics: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._metrics = metrics
        self._clock = clock
        self._started = self._drawn = clock()
        self._live: Live | None = None

    def __enter__(self) -> Watch:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Draw the final state, and leave it on the screen."""
        try:
            self._draw()
        finally:
            if self._live is not None:
                self._live.__exit__(*error)

    def moved(self) -> None:
        """Draw the query's progress, unless it was drawn just now."""
        if self._clock() - self._drawn >= INTERVAL[self._live is not None]:
            self._draw()

    def _draw(self) -> None:
        self._drawn = self._clock()
        seconds, metrics = self._drawn - self._started, self._metrics()
        if self._live is None:
            self._console.print(line(metrics, seconds), soft_wrap=True, highlight=False)
        else:
            self._live.update(picture(metrics, seconds), refresh=True)


def picture(metrics: Mapping[str, Any], seconds: float) -> Group:
    """Tables with a row per core of the joins, per aggregate, and per kind of latency."""
    from rich.console import Group
    from rich.text import Text

    tables = (_core_table(metrics), _aggregate_table(metrics), _latency_table(metrics))
    shown = [table for table in tables if table.row_count]
    return Group(Text(_counts(metrics, seconds)), *shown)


def _core_table(metrics: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    cores = Table(box=box.SIMPLE_HEAD)
    for name in ("core", "load"):
        cores.add_column(name)
    for name in ("window", "queue", "stored", "probed", "comparisons", "matches"):
        cores.add_column(name, justify="right")
    for core in _cores(metrics):
        names = ("window", "depth", "stored", "probed", "comparisons", "matched")
        shown = [number(core.get(name)) for name in names]
        cores.add_row(number(core.get("core")), _load(core.get("busy")), *shown)
    return cores


def _aggregate_table(metrics: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    aggregates = Table(box=box.SIMPLE_HEAD)
    aggregates.add_column("aggregate")
    found = _aggregates(metrics)
    names = list(found[0]) if found else []
    for name in names:
        aggregates.add_column(name, justify="right")
    for i, figures in enumerate(found):
        aggregates.add_row(number(i), *(number(figures[name]) for name in names))
    return aggregates


def _latency_table(metrics: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    latencies = Table(box=box.SIMPLE_HEAD)
    for name in ("latency", "p50", "p99", "max", "histogram"):
        latencies.add_column(name)
    for kind, latency in _latencies(metrics):
        figures = [duration(latency.get(name)) for name in ("p50", "p99", "max")]
        latencies.add_row(kind, *figures, sparkline(latency.get("histogram") or []))
    return latencies


def line(metrics: Mapping[str, Any], seconds: float) -> str:
    """The metrics on one line, for log files.

    >>> line({"rows_out": 2, "tuples_in": {"R": 3}, "cores": [{"core": 0, "busy": 0.5}]}, 1.0)
    '1.0 s: 3 tuples in, 2 rows out; core 0: load 50%'
    """
    parts = [_counts(metrics, seconds)]
    named = {
        "window": "window",
        "depth": "queue",
        "comparisons": "comparisons",
        "matched": "matches",
    }
    for core in _cores(metrics):
        figures_of_core = [] if core.get("busy") is None else [f"load {core['busy']:.0%}"]
        figures_of_core += [
            f"{title} {number(core[name])}"
            for name, title in named.items()
            if core.get(name) is not None
        ]
        parts.append(f"core {number(core.get('core'))}: {', '.join(figures_of_core) or NOTHING}")
    for i, figures in enumerate(_aggregates(metrics)):
        counts = ", ".join(f"{title} {number(count)}" for title, count in figures.items())
        parts.append(f"aggregate {i}: {counts}")
    for kind, latency in _latencies(metrics):
        parts.append(
            f"{kind} p50 {duration(latency.get('p50'))}, p99 {duration(latency.get('p99'))}"
        )
    return "; ".join(parts)


def _counts(metrics: Mapping[str, Any], seconds: float) -> str:
    counts = {
        "tuples in": sum(metrics.get("tuples_in", {}).values()),
        "rows out": metrics.get("rows_out", 0),
        "shed": sum(metrics.get("shed", {}).values()),
    }
    always = ("tuples in", "rows out")
    shown = [f"{n:,} {name}" for name, n in counts.items() if n or name in always]
    return f"{seconds:.1f} s: {', '.join(shown)}"


def _cores(metrics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metrics of each core; a single core also has the comparisons and window of the query."""
    cores: list[Mapping[str, Any]] = list(metrics.get("cores", []))
    if len(cores) != 1:
        return cores
    whole = {"comparisons": metrics.get("comparisons"), "window": metrics.get("window_tuples")}
    return [{**whole, **cores[0]}]


def _aggregates(metrics: Mapping[str, Any]) -> list[dict[str, int]]:
    """The metrics of each aggregate, by their titles."""
    unit = "modules" if any(metrics.get("modules", [])) else "panes"
    names = {"groups": "groups", unit: unit, "windows_open": "open windows"}
    columns = {title: metrics[name] for name, title in names.items() if metrics.get(name)}
    return [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]


def _latencies(metrics: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    latencies = metrics.get("latency") or {}
    return [(kind, latencies[kind]) for kind in ("processing", "visiting") if latencies.get(kind)]


def number(value: Any) -> str:
    """A count, or the counts of all windows of a join.

    >>> number(1234), number([5, 6]), number(None)
    ('1,234', '5 + 6', '-')
    """
    if value is None:
        return NOTHING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " + ".join(map(number, value))
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """Seconds with three digits and a fitting unit.

    >>> duration(1.03e-7), duration(0.00213), duration(61.0), duration(0.0), duration(None)
    ('103 ns', '2.13 ms', '61 s', '0 s', '-')
    """
    if seconds is None:
        return NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def sparkline(histogram: Sequence[Sequence[float]]) -> str:
    """A bar for each power of two, from the first to the last that has durations.

    >>> sparkline([[1e-06, 8], [4e-06, 1], [8e-06, 16]])
    '▄ ▁█ below 1 µs .. 8 µs'
    """
    if not histogram:
        return NOTHING
    first = histogram[0][0]
    counts: dict[int, float] = {}
    for upper, count in histogram:
        place = round(math.log2(upper / first))
        counts[place] = counts.get(place, 0) + count
    most, last = max(counts.values()), max(counts)
    bars = [_block(counts.get(place, 0) / most) for place in range(last + 1)]
    ends = f"below {duration(first)} .. {duration(histogram[-1][0])}"
    return f"{''.join(bars[-_WIDEST:])} {ends}"


def _block(part: float) -> str:
    return _BLOCKS[max(0, math.ceil(part * len(_BLOCKS)) - 1)] if part > 0 else " "


def _load(busy: float | None) -> str:
    if busy is None:
        return NOTHING
    full = min(_BAR, max(0, round(busy * _BAR)))
    return f"{'█' * full}{'░' * (_BAR - full)} {busy:4.0%}"
