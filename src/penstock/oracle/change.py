"""Checks whether a running query may change to another plan."""

from __future__ import annotations

from penstock.errors import ChangeRefused
from penstock.oracle.order_by_at_end import OrderByAtEnd
from penstock.sql.plan import Aggregate, Join, Plan, Union
from penstock.streams.windows import AggregateWindow, Sliding, TimeAttribute


def check_change(name: str, old: Plan, new: Plan) -> None:
    """Refuse other streams and another kind of join, window or time."""
    if _shape(old) != _shape(new):
        raise ChangeRefused(
            f"query {name!r} cannot be changed to other streams, another kind of join, or another "
            "kind of window or time attribute",
            "Install it as a new query and drop this one.",
        )
    for before, after in zip(_aggregates(old), _aggregates(new), strict=True):
        _check_aggregate(name, before, after)
    if OrderByAtEnd.is_for(old) and old.limit is not None:
        _check_limit(name, old, new, old.limit)
    if OrderByAtEnd.is_for(old) and isinstance(old.body, Union) and old.schema != new.schema:
        raise ChangeRefused(
            f"query {name!r} holds the rows of its UNION ALL for its end; a change cannot give it "
            "other columns",
            "Install it as a new query and drop this one.",
        )


def _check_limit(name: str, old: Plan, new: Plan, limit: int) -> None:
    """Refuse a larger LIMIT and another order: the rows beyond the old LIMIT may be discarded."""
    if old.sort != new.sort or new.limit is None or new.limit > limit:
        raise ChangeRefused(
            f"query {name!r} holds no more rows for its end than its LIMIT asks for; a change "
            "cannot give it another ORDER BY or a larger LIMIT",
            "Install it as a new query and drop this one.",
        )


def _shape(plan: Plan) -> list[object]:
    """The parts of a plan that no change may touch."""
    shape: list[object] = [bool(plan.sort or plan.limit is not None)]
    for select in plan.selects:
        source = select.source
        if isinstance(source, Aggregate):
            shape.append(_window_shape(source.window, source.time))
            source = source.source
        shape.append(source.kind if isinstance(source, Join) else "select")
        if isinstance(source, Join):
            shape.append(tuple(step.kind for step in source.steps))
        for scan in source.inputs if isinstance(source, Join) else (source,):
            shape.append(scan.stream.name.lower())
            if isinstance(source, Join):
                shape.append((type(scan.window), scan.time and scan.time.column))
    return shape


def _window_shape(window: AggregateWindow | None, time: TimeAttribute | None) -> object:
    """The kind of a window; a count window needs a time only for FIRST and LAST."""
    return type(window), time.column if isinstance(window, Sliding) and time is not None else None


def _aggregates(plan: Plan) -> list[Aggregate]:
    return [s.source for s in plan.selects if isinstance(s.source, Aggregate)]


def _check_aggregate(name: str, old: Aggregate, new: Aggregate) -> None:
    """Refuse other groups and window borders: what is already counted cannot be regrouped."""
    if [key.expression for key in old.keys] != [key.expression for key in new.keys]:
        raise _refused(name, "other GROUP BY keys")
    if old.emit_empty != new.emit_empty:
        raise _refused(name, "emit empty windows" if new.emit_empty else "emit no empty windows")
    if old.window is None or new.window is None:
        return
    if old.window.slide != new.window.slide:
        raise _refused(name, "another SLIDE")
    if _start(old.window) != _start(new.window):
        raise _refused(name, "another START AT")
    if new.window.size % new.window.slide not in (0, old.window.size % old.window.slide):
        raise _refused(name, f"the window {new.window}, which begins or ends inside the old panes")


def _start(window: AggregateWindow) -> int | None:
    return window.start if isinstance(window, Sliding) else None


def _refused(name: str, what: str) -> ChangeRefused:
    return ChangeRefused(
        f"the aggregate {name!r} cannot be changed to {what}",
        "Install it as a new query and drop this one.",
    )
