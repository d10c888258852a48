"""A query's requirements on its input: its streams, their order, and punctuations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.program.isa.block_instructions import OwnRows, Program, ScanStream, SelectRows
from penstock.streams.display import listed
from penstock.streams.order import order_columns
from penstock.streams.schema import Stream
from penstock.streams.windows import Range, Unbounded

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query


@dataclass(frozen=True)
class Wording:
    """The parts of messages that differ between the command line and ``ps.sql``."""

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
    """The pushed streams that a query reads, also through derived ones, in order of its text."""
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
    """Refuse windows over streams that are read one after another: they have no arrival order."""
    derived = [other.program for other in engine.queries.values() if other.derived]
    windows = [
        window
        for program in [query.program, *derived]
        for join in program.joins
        for window in join.windows
    ]
    if all(isinstance(window, Unbounded) for window in windows):
        return
    common = [name for name in streams[0].schema.names if _orders(streams, name)]
    times = _times([query.program, *derived], streams)
    likely = [name for name in common if name.lower() in times] or common
    option = wording.order.format(column=likely[0] if len(likely) == 1 else "COLUMN")
    choice = f", one of {', '.join(common)}" if len(common) > 1 else ""
    remedy = f"Pass the column that they are sorted by{choice}: {option}."
    if not common:
        remedy = f"Give them a column in common that they are sorted by, and pass it: {option}."
    names = listed(stream.name for stream in streams)
    raise InputError(
        f"the windows of the query need an arrival order of {names}, and none is given", remedy
    )


def _times(programs: Sequence[Program], streams: Sequence[Stream]) -> set[str]:
    """The names of the query's time attributes or, without any, of columns with a time type."""
    found = [time for program in programs for join in program.joins for time in join.times]
    found += [one.time for program in programs for one in program.aggregates]
    attributes = [time.name for time in found if time is not None]
    attributes += [stream.time for stream in streams if stream.time is not None]
    return {name.lower() for name in attributes} or {
        field.name.lower()
        for stream in streams
        for field in stream.schema
        if pa.types.is_temporal(field.type)
    }


def _orders(streams: Sequence[Stream], column: str) -> bool:
    """Whether the streams can be merged by the column."""
    try:
        order_columns(streams, column)
    except InputError:
        return False
    return True


def unpunctuated_streams(engine: Engine, query: Query[Any], order_by: str | None) -> set[str]:
    """The streams that nothing punctuates though a time window waits for it.

    A count window has no punctuator, and neither has a derived selection, or a block of the user's
    own. These streams are sorted by the order column, so the run punctuates them.
    """
    if order_by is None:
        return set()
    derived = [other.program for other in engine.queries.values() if other.derived]
    found = {name for program in derived for name in _passed_through(program)}
    for program in [query.program, *derived]:
        found |= set(_with_count_window(program, order_by))
        found |= {scan.stream.name for scan in program.scans if _is_read_by_own(program, scan)}
    return found


def _is_read_by_own(program: Program, scan: ScanStream) -> bool:
    return any(isinstance(i, OwnRows) and i.input == scan.block for i in program.instructions)


def _passed_through(program: Program) -> Iterator[str]:
    """The streams whose tuples a program passes on after only selection and projection."""
    scans = {scan.block: scan.stream.name for scan in program.scans}
    for instruction in program.instructions:
        if isinstance(instruction, SelectRows) and instruction.input in scans:
            yield scans[instruction.input]


def _with_count_window(program: Program, order_by: str) -> Iterator[str]:
    """The streams with a count window that are joined with a time window on the order column."""
    for join in program.joins:
        for number, window, time in zip(join.inputs, join.windows, join.times, strict=True):
            by_order = time is not None and time.name.lower() == order_by.lower()
            scan = program.scan_of(number)
            if by_order and not isinstance(window, Range) and scan is not None:
                yield scan.stream.name


def first_kernel(query: Query[Any]) -> str | None:
    """The kernel of the query's first join or, without one, of its first aggregate."""
    program = query.program
    kernels = [join.kernel for join in program.joins]
    kernels += [aggregate.kernel for aggregate in program.aggregates]
    return kernels[0] if kernels else None
