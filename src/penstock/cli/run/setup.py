"""Turns the text of a run into the instructions an engine needs before the first tuple."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.run.inputs import COMMAND_LINE, Wording
from penstock.connectors.files import FileSource, Source, TableSource
from penstock.errors import InputError, SqlError
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.program.isa.instructions import CreateStream, Derive, Install, Instruction
from penstock.sql.parse import statements
from penstock.sql.parse.parser import parse
from penstock.streams.schema import Stream
from penstock.tuning import TUNING

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query
    from penstock.processor.topology.topology import Topology

RESULT = "result"


@dataclass(frozen=True)
class InstalledQuery:
    """The result query of a text, on an engine that has its streams, and their sources.

    ``setup`` has the engine's instructions; ``start_again`` starts another engine with the same.
    """

    engine: Engine
    query: Query[Any]
    sources: dict[str, Source]
    setup: list[Instruction]
    start_again: Callable[[], Engine]


def install(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    wording: Wording = COMMAND_LINE,
    kernel: str | None = None,
    explained: bool = False,
    flow: FlowChoice = ANY_FLOW,
    on_spark: bool = False,
    topology: Topology | None = None,
) -> InstalledQuery:
    """Declare the streams and install the last SELECT of the text, on an embedded engine.

    The engine runs the query, or proves that another engine accepts the same instructions.
    ``streams`` has paths or data by name. A stream that the text does not declare has the columns
    of its file or table. ``wording`` tells the user how to pass a missing stream. With
    ``explained``, the SELECT of an EXPLAIN counts too. With ``on_spark``, the flow is one of Spark,
    which decides it: this engine has others. ``topology`` is what the query stands on.
    """
    from penstock.engines.local.engine import Engine

    found = parse(text)
    select = _last_select(found, wording, explained)
    declared = {
        s.stream.name.lower(): s.stream for s in found if isinstance(s, statements.CreateStream)
    }
    sources = _open_sources(streams, declared)
    setup = _instructions(found, declared, sources)
    here = replace(flow, name=None) if on_spark else flow
    setup.append(Install(RESULT, select.text, order, kernel, here))

    def start() -> Engine:
        started = Engine(
            # More than any event has, so that an event is accepted whole or not at all.
            batch_rows=max(1 << 20, TUNING.run_batch_rows * (len(streams) + 1)),
            push_timeout=0.0,
            windows_required=False,
            order_column=order_by,
            topology=topology,
        )
        started.feed(setup)
        return started

    try:
        started = start()
    except SqlError as refused:
        error = in_place(refused, found)
        remedy = _remedy(error, sources, wording) or error.remedy
        raise SqlError(error.what, remedy) from None
    return InstalledQuery(started, started.queries[RESULT], sources, setup, start)


def _remedy(error: SqlError, sources: Mapping[str, Source], wording: Wording) -> str | None:
    """The remedy for an error when streams are files; None keeps the error's own."""
    if error.what.startswith("unknown stream '"):
        return wording.stream.format(name=error.what.split("'")[1])
    refused = re.match(r"column (.+) of (.+) is .+ and cannot be a time attribute", error.what)
    source = sources.get(refused[2].lower()) if refused else None
    if refused is None or not isinstance(source, FileSource) or not source.inferred:
        return None
    return (
        f"{error.remedy} The type was inferred from {source.files[0].name}, and one value unlike "
        f"the others makes it another: declare the stream, CREATE STREAM {refused[2]} "
        f"({refused[1]} type, ...), and such a row is a dead letter."
    )


def _last_select(
    found: list[statements.Statement], wording: Wording, explained: bool
) -> statements.QueryText:
    selects: list[statements.QueryText] = []
    for statement in found:
        if isinstance(statement, statements.QueryText):
            selects.append(statement)
        elif explained and isinstance(statement, statements.Explain):
            selects.append(statement.query)
    if selects:
        return selects[-1]
    if any(isinstance(statement, statements.Explain) for statement in found):
        raise InputError(
            "the text has no SELECT but one to EXPLAIN, which makes no rows",
            f"Leave EXPLAIN out, or use {wording.explain} to see its plan.",
        )
    raise InputError("the text has no SELECT", "Write the query whose rows are the result.")


def _open_sources(
    streams: Mapping[str, object], declared: Mapping[str, Stream]
) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for name, data in streams.items():
        if name.lower() in sources:
            raise InputError(f"stream {name} is given twice", "Give each stream once.")
        known = declared.get(name.lower())
        if isinstance(data, (str, Path)):
            sources[name.lower()] = FileSource.open(name, data, known)
        else:
            sources[name.lower()] = TableSource.open(name, data, known)
    return sources


def in_place(error: SqlError, found: list[statements.Statement]) -> SqlError:
    """The error of a query, at its place in the whole text."""
    for statement in found:
        query = getattr(statement, "query", statement)
        if isinstance(query, statements.QueryText) and error.place and query.text == error.place[0]:
            return error.within(query.source, query.start)
    return error


def _instructions(
    found: list[statements.Statement],
    declared: Mapping[str, Stream],
    sources: Mapping[str, Source],
) -> list[Instruction]:
    """The instructions that create the streams that the query can read."""
    made: list[Instruction] = [
        CreateStream(source.stream) for name, source in sources.items() if name not in declared
    ]
    for statement in found:
        if isinstance(statement, statements.CreateStream):
            made.append(CreateStream(replace(statement.stream, bounded=True)))
        elif isinstance(statement, statements.DeriveStream):
            made.append(Derive(statement.name, statement.query.text))
    return made
