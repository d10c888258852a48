"""What a change may make of an aggregate while it runs.

It may alter what is computed and what counts: WHERE, HAVING, the select list, the calls, RANGE and
SLACK. It keeps the panes, so that groups, SLIDE, START AT and the kind of windows stay, and a new
RANGE must put no border inside a pane.
"""

from __future__ import annotations

from penstock.errors import ChangeRefused
from penstock.program.blocks import AggregateRows
from penstock.sql.expressions import Expression
from penstock.streams.windows import AggregateWindow, Sliding, as_written

NEW_QUERY = "Install it as a new query and drop this one."


def check_aggregate_change(name: str, before: AggregateRows, after: AggregateRows) -> None:
    """Refuse what the running aggregate cannot become."""
    if before.groups != after.groups:
        raise ChangeRefused(
            f"query {name!r} groups by {_groups(before.groups)}; a change cannot make it group by "
            f"{_groups(after.groups)}",
            NEW_QUERY,
        )
    if before.emit_empty != after.emit_empty:
        raise ChangeRefused(
            f"a change cannot {'add' if after.emit_empty else 'take'} EMIT EMPTY "
            f"{'to' if after.emit_empty else 'from'} query {name!r}",
            NEW_QUERY,
        )
    if not _same_steps(before, after):
        raise ChangeRefused(
            f"query {name!r} has the windows {_clause(before)}; a change may alter their RANGE (or "
            f"ROWS) and SLACK, but cannot make them {_clause(after)}",
            NEW_QUERY,
        )
    _check_borders(name, before.window, after.window)
    one, other = before.window, after.window
    if before.kernel == "wid" and one is not None and other is not None and one.size != other.size:
        raise ChangeRefused(
            f"query {name!r} runs on the kernel 'wid', whose modules have taken tuples in for the "
            f"windows {_clause(before)}; a change cannot make them {_clause(after)}",
            NEW_QUERY,
        )


def _groups(groups: tuple[Expression, ...]) -> str:
    return ", ".join(map(str, groups)) or "nothing"


def _clause(aggregate: AggregateRows) -> str:
    if aggregate.window is None:
        return "of the whole input"
    by = f" on {aggregate.time.name}" if aggregate.time else ""
    return f"{as_written(aggregate.window)}{by}"


def _same_steps(before: AggregateRows, after: AggregateRows) -> bool:
    one, other = before.window, after.window
    if type(one) is not type(other):
        return False
    times = [None if a.time is None else a.time.column for a in (before, after)]
    if isinstance(one, Sliding) and isinstance(other, Sliding):
        return times[0] == times[1] and (one.slide, one.start) == (other.slide, other.start)
    # Elsewhere the attribute is for FIRST and LAST alone, and comes and goes with them.
    if None not in times and times[0] != times[1]:
        return False
    return one is None or other is None or one.slide == other.slide


def _check_borders(
    name: str, before: AggregateWindow | None, after: AggregateWindow | None
) -> None:
    """A window of another length must begin and end where panes do."""
    if before is None or after is None:
        return
    rest = before.size % before.slide
    if after.size % after.slide in (0, rest):
        return
    multiple = "a multiple of SLIDE"
    lengths = f"{multiple}, or one plus {rest}" if rest else multiple
    word = "RANGE" if isinstance(before, Sliding) else "ROWS"
    raise ChangeRefused(
        f"query {name!r} has the windows {as_written(before)}; windows {as_written(after)} would "
        "begin inside the panes that it keeps",
        f"Write as {word} {lengths}{_ticks(before) if rest else ''}; or install it as a new query "
        "and drop this one.",
    )


def _ticks(window: AggregateWindow) -> str:
    return " steps of the time attribute" if isinstance(window, Sliding) else " tuples"
