"""Warnings of windows over derived streams that no punctuation can close.

A time window over a derived stream without SLACK closes, and expires tuples, by the punctuations of
the derived stream. Whether any can arrive follows from its query: a computed column has none, and a
selection passes on those of the stream that it reads, which has to be punctuated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.engines.shared.registry import Registry
from penstock.errors import warn
from penstock.program.isa.block_instructions import (
    AggregateRows,
    JoinStreams,
    OrderRows,
    OwnRows,
    Program,
    ProjectColumns,
    ScanStream,
    ScreenRows,
    SelectRows,
)
from penstock.sql.expressions import Column
from penstock.streams.display import listed
from penstock.streams.schema import Stream
from penstock.streams.windows import (
    AggregateWindow,
    Range,
    Sliding,
    TimeAttribute,
    Window,
    as_written,
)

Needed = frozenset[tuple[str, str]]
"""Streams that are pushed to, each with a column that has to be punctuated."""


def warn_of_silent_windows(registry: Registry[Any], name: str, program: Program) -> None:
    """Warn of each window of a new query that waits for punctuations, or for the end."""
    for label, stream, column, window in _open_windows(program):
        if stream.bounded:
            continue
        clause = as_written(window)
        needed = _needed_of(registry, stream, column)
        with_slack = f"{clause[:-1]} SLACK 0]"
        advice = f"Write SLACK, for instance {with_slack} if its rows come in order of {column}"
        if needed is None:
            why = f"there are no punctuations of {label}.{column}: it waits for the end"
        else:
            missing = [f"{s}.{c}" for s, c in sorted(needed) if not _is_punctuated(registry, s, c)]
            if not missing:
                continue
            names = listed(missing)
            why = f"it waits for punctuations of {names}, and none has come yet"
            advice = f"Punctuate {names}, or write{advice.removeprefix('Write')}"
        warn(
            f"query {name!r} has the window {clause} over the derived stream {label} without "
            f"SLACK; {why}. {advice}."
        )


def _open_windows(program: Program) -> Iterator[tuple[str, Stream, str, Range | Sliding]]:
    """The windows over derived streams without SLACK.

    Each comes with the name of its stream, the stream that the query reads for it (another only if
    that goes through a block of the user's own), and its time attribute.
    """
    for source in program.instructions:
        if not isinstance(source, AggregateRows | JoinStreams):
            continue
        names = source.streams if isinstance(source, JoinStreams) else (source.stream,)
        for name, (stream, window, time) in zip(names, _windows(program, source), strict=False):
            if isinstance(window, Range | Sliding) and window.derived and window.slack is None:
                assert time is not None
                yield name, stream, time.name, window


def _windows(
    program: Program, source: AggregateRows | JoinStreams
) -> list[tuple[Stream, Window | AggregateWindow | None, TimeAttribute | None]]:
    """The windows of a block over streams, with the streams; none of an aggregate over a join."""
    over: Iterable[tuple[int, Window | AggregateWindow | None, TimeAttribute | None]] = (
        zip(source.inputs, source.windows, source.times, strict=True)
        if isinstance(source, JoinStreams)
        else [(source.input, source.window, source.time)]
    )
    scans = [(program.scan_of(block), window, time) for block, window, time in over]
    return [(scan.stream, window, time) for scan, window, time in scans if scan is not None]


def _is_punctuated(registry: Registry[Any], stream: str, column: str) -> bool:
    known = registry.streams.get(stream)
    columns = registry.punctuations.get(stream.lower(), {})
    return known is not None and (None in columns or known.index_of(column) in columns)


def _needed_of(registry: Registry[Any], stream: Stream, column: str) -> Needed | None:
    """The columns that must be punctuated so that this one is; None: it never can be."""
    if not stream.derived:
        return frozenset({(stream.name, column)})
    program = registry.query(stream.name).program
    index = stream.index_of(column)
    outputs = [i for i in program.instructions if isinstance(i, ProjectColumns)]
    sources = [_source(program, one.input) for one in outputs]
    ordered = any(isinstance(i, OrderRows) for i in program.instructions)
    if index is None or (ordered and not all(isinstance(s, AggregateRows) for s in sources)):
        return None
    return _all(_needed(registry, program, one, index) for one in outputs)


def _all(several: Iterator[Needed | None]) -> Needed | None:
    found: Needed = frozenset()
    for needed in several:
        if needed is None:
            return None
        found |= needed
    return found


def _source(program: Program, block: int) -> ScanStream | JoinStreams | AggregateRows:
    """The scan, join or aggregate that the rows of a block come from."""
    found = program.block(block)
    while isinstance(found, SelectRows | OrderRows | OwnRows | ScreenRows):
        found = program.block(found.input)
    assert isinstance(found, ScanStream | JoinStreams | AggregateRows)
    return found


def _needed(
    registry: Registry[Any], program: Program, project: ProjectColumns, place: int
) -> Needed | None:
    """As :func:`_needed_of`, for one output of a SELECT."""
    output = project.columns[place].expression
    if not isinstance(output, Column):
        return None
    index = output.index
    block = program.block(project.input)
    while isinstance(block, SelectRows | OrderRows | OwnRows | ScreenRows):
        if isinstance(block, SelectRows) and block.columns is not None:
            index = block.columns[index]
        block = program.block(block.input)
    if isinstance(block, ScanStream):
        return _needed_of(registry, block.stream, block.stream.schema.names[index])
    assert isinstance(block, JoinStreams | AggregateRows)
    windows = _windows(program, block)
    if isinstance(block, AggregateRows):
        borders = len(block.schema) - 2
        if not isinstance(block.window, Sliding) or index < borders:
            return None
        return _own(registry, *windows[0])
    _, window, time = windows[output.side]
    column = block.columns[output.side][index]
    if time is None or time.column != column or not isinstance(window, Range):
        return None
    return _all(_own(registry, *one) for one in windows)


def _own(
    registry: Registry[Any],
    stream: Stream,
    window: Window | AggregateWindow | None,
    time: TimeAttribute | None,
) -> Needed | None:
    """What a window needs besides its own punctuator."""
    if isinstance(window, Range | Sliding) and not (window.derived and window.slack is None):
        return frozenset()
    return None if time is None else _needed_of(registry, stream, time.name)
