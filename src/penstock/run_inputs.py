"""What a query needs of its input: which streams, in which order, with which promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError
from penstock.program.blocks import JoinStreams, SetWindow
from penstock.streams.order import order_columns
from penstock.streams.schema import Stream
from penstock.streams.windows import Range, Unbounded

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query


@dataclass(frozen=True)
class Wording:
    """How a user of this interface gives a stream and the order, and explains a query."""

    stream: str
    order: str
    explain: str


COMMAND_LINE = Wording(
    "Pass its file: --stream {name}=path.",
    "--order-by {column}",
    "penstock explain QUERY.sql",
)
PYTHON = Wording(
    "Pass its table or path: ps.sql(..., {name}=...).",
    "order_by='{column}'",
    "engine.sql('EXPLAIN SELECT ...') of a connected engine",
)


def streams_read(engine: Engine, query: Query[Any]) -> Iterator[str]:
    """The streams with tuples of their own that a query reads, in the order of its text."""
    seen: set[str] = set()
    waiting = [query]
    while waiting:
        current = waiting.pop(0)
        derived: list[Query[Any]] = []
        for scan in current.program.scans:
            name = scan.stream.name
            if name.lower() in seen:
                continue
            seen.add(name.lower())
            if name in engine.queries:
                derived.append(engine.queries[name])
            else:
                yield name
        waiting = derived + waiting


def check_unordered(
    engine: Engine, query: Query[Any], streams: Sequence[Stream], wording: Wording
) -> None:
    """Streams that are read one after another have no arrival order that a window could mean."""
    derived = [other.program for other in engine.queries.values() if other.derived]
    windows = [
        instruction.window
        for program in [query.program, *derived]
        for instruction in program.instructions
        if isinstance(instruction, SetWindow)
    ]
    if all(isinstance(window, Unbounded) for window in windows):
        return
    common = [name for name in streams[0].schema.names if _orders(streams, name)]
    option = wording.order.format(column=common[0] if common else "COLUMN")
    choice = f", one of {', '.join(common)}" if len(common) > 1 else ""
    remedy = f"Pass the column that they are sorted by{choice}: {option}."
    if not common:
        remedy = f"Give them a column in common that they are sorted by, and pass it: {option}."
    names = " and ".join(stream.name for stream in streams)
    raise InputError(
        f"the windows of the query need an arrival order of {names}, and none is given", remedy
    )


def _orders(streams: Sequence[Stream], column: str) -> bool:
    """Whether all of the streams can be merged by the column."""
    try:
        order_columns(streams, column)
    except InputError:
        return False
    return True


def silent(query: Query[Any], order_by: str | None) -> set[str]:
    """The streams that would promise nothing by themselves, beside a time window that waits for it.

    A count window has no punctuator of its own. Its stream is sorted by the order column, so the
    run can promise in its place.
    """
    program = query.program
    scans = {scan.block: scan.stream.name for scan in program.scans}
    joins = [i for i in program.instructions if isinstance(i, JoinStreams)]
    return {
        scans[join.inputs[window.side]]
        for join in joins
        for window in program.instructions
        if isinstance(window, SetWindow)
        and window.block == join.block
        and not isinstance(window.window, Range)
        and window.time is not None
        and order_by is not None
        and window.time.name.lower() == order_by.lower()
    }


def first_kernel(query: Query[Any]) -> str | None:
    """The kernel of the query's first join; without one, of its first aggregate."""
    program = query.program
    kernels = [join.kernel for join in program.joins]
    kernels += [aggregate.kernel for aggregate in program.aggregates]
    return kernels[0] if kernels else None
