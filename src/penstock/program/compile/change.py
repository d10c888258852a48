"""Which changes a running query can take: from one program to the next.

A change keeps the windows. So the streams, the kinds of blocks, the kinds of joins and windows, and
their time attributes stay. Of an aggregate it may alter WHERE, HAVING, the select list, the calls,
RANGE and SLACK. It keeps the panes: groups, SLIDE, START AT and the kind of windows stay, and a new
RANGE must put no border inside a pane.
"""

from __future__ import annotations

from penstock.errors import ChangeRefused
from penstock.program.isa.block_instructions import (
    AggregateRows,
    BlockInstruction,
    JoinStreams,
    OrderRows,
    OwnRows,
    Program,
    UnionRows,
)
from penstock.sql.expressions import Expression
from penstock.streams.display import listed
from penstock.streams.windows import (
    AggregateWindow,
    Range,
    Sliding,
    TimeAttribute,
    Window,
    as_written,
)

NEW_QUERY = "Install it as a new query and drop this one."

_Timed = tuple[Window, TimeAttribute | None]
"""A window, and its time attribute."""


def check_change(name: str, old: Program, new: Program) -> None:
    """Refuse a change to other streams, another kind of join or another kind of window."""
    why = _not_a_change(name, old, new)
    if why is not None:
        raise ChangeRefused(why, NEW_QUERY)
    for before, after in zip(old.aggregates, new.aggregates, strict=True):
        _check_aggregate(name, before, after)


def _not_a_change(name: str, old: Program, new: Program) -> str | None:
    streams = [[scan.stream.name.lower() for scan in p.scans] for p in (old, new)]
    if streams[0] != streams[1]:
        return (
            f"query {name!r} reads {', '.join(s.stream.name for s in old.scans)}; "
            f"a change cannot make it read {', '.join(s.stream.name for s in new.scans)}"
        )
    if [type(i) for i in old.instructions] != [type(i) for i in new.instructions]:
        return (
            f"a change cannot turn query {name!r} into one of another shape "
            "(join, aggregate, order, selection or union)"
        )
    pairs = list(zip(old.instructions, new.instructions, strict=True))
    for before, after in pairs:
        if (
            isinstance(before, OwnRows)
            and isinstance(after, OwnRows)
            and before.implementation != after.implementation
        ):
            return (
                f"query {name!r} goes through {before.name}; a change cannot make it go through "
                f"{after.name}"
            )
    for before, after in pairs:
        if (
            isinstance(before, JoinStreams)
            and isinstance(after, JoinStreams)
            and _kinds(before) != _kinds(after)
        ):
            return (
                f"query {name!r} is a join of kind {listed(_kinds(before))}; "
                f"a change cannot make it {listed(_kinds(after))}"
            )
    if any(_is_cut_otherwise(before, after, old) for before, after in pairs):
        return (
            f"query {name!r} holds no more rows for its end than its LIMIT asks for; a change "
            "cannot give it another ORDER BY or a larger LIMIT"
        )
    if _holds_union(old) and old.schema != new.schema:
        return (
            f"query {name!r} holds the rows of its UNION ALL for its end; a change cannot give it "
            "other columns"
        )
    windows = (_windows(old), _windows(new))
    changed = [pair for pair in zip(*windows, strict=True) if not _same_but_for_size(*pair)]
    # A count window's attribute may come from another input's time window: blame that one.
    changed.sort(key=lambda pair: not any(isinstance(window, Range) for window, _ in pair))
    for was, wanted in changed[:1]:
        return (
            f"query {name!r} has the window {_clause(was)}; a change may alter "
            f"its size and slack, but cannot make it {_clause(wanted)}"
        )
    return None


def _kinds(join: JoinStreams) -> tuple[str, ...]:
    """The kinds of the joins, in the order of FROM; one for all of an inner join."""
    return (*((join.kind,) * min(join.core - 1, 1)), *(step.kind for step in join.steps))


def _windows(program: Program) -> list[_Timed]:
    """The windows of all joins, each with its time attribute."""
    return [pair for join in program.joins for pair in zip(join.windows, join.times, strict=True)]


def _is_cut_otherwise(before: BlockInstruction, after: BlockInstruction, old: Program) -> bool:
    """Whether the old ORDER BY and LIMIT have dropped rows that the new ones need."""
    if not isinstance(before, OrderRows) or not isinstance(after, OrderRows):
        return False
    # The rows of an aggregate are made when a window or the input ends, so the order drops none
    # before; after a union, they wait in the order for those of the other branches.
    if before.limit is None or (old.aggregates and not _holds_union(old)):
        return False
    return before.sort != after.sort or after.limit is None or after.limit > before.limit


def _holds_union(program: Program) -> bool:
    """Whether rows of a union, already projected, wait for the end of the input."""
    kinds = {type(instruction) for instruction in program.instructions}
    return kinds >= {UnionRows, OrderRows}


def _same_but_for_size(before: _Timed, after: _Timed) -> bool:
    # The factor may differ: a window of another size may need a finer clock.
    columns = [None if time is None else time.column for _, time in (before, after)]
    return type(before[0]) is type(after[0]) and columns[0] == columns[1]


def _clause(timed: _Timed) -> str:
    window, time = timed
    text = as_written(window)
    if time is None or "wattr" in text.lower():
        return text
    return f"{text} on {time.name}"


def _check_aggregate(name: str, before: AggregateRows, after: AggregateRows) -> None:
    """Refuse a change that a running aggregate cannot take."""
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
            f"query {name!r} has the windows {_aggregate_clause(before)}; a change may alter their "
            f"RANGE (or ROWS) and SLACK, but cannot make them {_aggregate_clause(after)}",
            NEW_QUERY,
        )
    _check_borders(name, before.window, after.window)
    one, other = before.window, after.window
    if before.kernel == "wid" and one is not None and other is not None and one.size != other.size:
        raise ChangeRefused(
            f"query {name!r} runs on the kernel 'wid', whose modules have taken tuples in for the "
            f"windows {_aggregate_clause(before)}; a change cannot make them "
            f"{_aggregate_clause(after)}",
            NEW_QUERY,
        )


def _groups(groups: tuple[Expression, ...]) -> str:
    return ", ".join(map(str, groups)) or "nothing"


def _aggregate_clause(aggregate: AggregateRows) -> str:
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
    # In other windows only FIRST and LAST need the attribute, so it may appear or disappear.
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
    lengths = f"{multiple}, or as much beyond one as now" if rest else multiple
    word = "RANGE" if isinstance(before, Sliding) else "ROWS"
    raise ChangeRefused(
        f"query {name!r} has the windows {as_written(before)}; windows {as_written(after)} would "
        "begin inside the panes that it keeps",
        f"Write as {word} {lengths}; or install it as a new query and drop this one.",
    )
