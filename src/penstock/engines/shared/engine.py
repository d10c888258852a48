"""The parts of the façade that both engines share: SQL statements, limits, display."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.engines.shared.input_slices import Event
from penstock.engines.shared.registry import Registry
from penstock.errors import InputError, SqlError, warn
from penstock.program.choose.probe_order import cross_products
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import FlowChoice
from penstock.program.isa.instructions import Change, CreateStream, Derive, Install, Instruction
from penstock.sql.parse import statements
from penstock.sql.parse.parser import parse
from penstock.streams.display import counted, html_line, html_table, one_line
from penstock.streams.lead import Lead
from penstock.streams.schema import Stream, describe, type_name


class SqlEngine(Protocol):
    """An engine that statements can be run on."""

    @property
    def registry(self) -> Registry[Any]: ...

    def feed(self, events: Iterable[Event | Instruction]) -> None: ...

    def install(self, sql: str) -> Any: ...

    def explain(self, sql: str) -> str: ...


def declare_stream(
    engine: SqlEngine,
    name: str,
    schema: pa.Schema,
    time: str | None,
    bounded: bool,
    max_lead: Lead | None,
) -> Stream:
    """Declare a stream, and return its declaration."""
    stream = Stream.of(name, schema, time, bounded, max_lead=max_lead)
    engine.feed([CreateStream(stream)])
    return stream


def install_query(
    engine: SqlEngine,
    sql: str | Program,
    name: str | None,
    order: str | None,
    kernel: str | None,
    choice: FlowChoice,
) -> Any:
    """Start a query, and return its handle; without a name it has one of ours."""
    name = engine.registry.new_name() if name is None else name
    engine.feed([Install(name, sql, order, kernel, choice)])
    return engine.registry.queries[name.lower()]


def change_query(engine: SqlEngine, name: str, sql: str | Program) -> None:
    """Give a query another program, and warn if that makes every combination."""
    engine.feed([Change(name, sql)])
    warn_of(name, cross_products(engine.registry.queries[name.lower()].program))


def warn_of(name: str, warnings: Iterable[str]) -> None:
    """Warn of a query."""
    for warning in warnings:
        warn(f"query {name!r}: {warning}")


def run_statements(engine: SqlEngine, text: str) -> Any:
    """Run statements separated by ``;`` and return the result of the last one."""
    result: Any = None
    for statement in parse(text):
        try:
            result = _run(engine, statement)
        except SqlError as error:
            query = _query_of(statement)
            raise (error if query is None else error.within(text, query.start)) from None
    return result


def _query_of(statement: statements.Statement) -> statements.QueryText | None:
    """The query in a statement, which is bound as a text of its own; None: it has none."""
    if isinstance(statement, statements.DeriveStream | statements.Explain):
        return statement.query
    return statement if isinstance(statement, statements.QueryText) else None


def _run(engine: SqlEngine, statement: statements.Statement) -> Any:
    registry = engine.registry
    if isinstance(statement, statements.CreateStream):
        engine.feed([CreateStream(statement.stream)])
        return None
    if isinstance(statement, statements.DeriveStream):
        engine.feed([Derive(statement.name, statement.query.text)])
        return registry.queries[statement.name.lower()]
    if isinstance(statement, statements.QueryText):
        return engine.install(statement.text)
    if isinstance(statement, statements.ShowStreams):
        return _table([(s.name, repr(s)) for s in registry.streams], ("stream", "definition"))
    if isinstance(statement, statements.ShowQueries):
        return _table([(q.name, q.text) for q in registry.queries.values()], ("query", "text"))
    if isinstance(statement, statements.Describe):
        return _describe(registry, statement.name)
    return engine.explain(statement.query.text)


def _describe(registry: Registry[Any], name: str) -> pa.Table:
    stream = registry.streams.get(name)
    query = registry.queries.get(name.lower())
    known = stream if stream is not None else query
    if known is None:
        raise registry.unknown(name)
    return _table([(f.name, type_name(f.type)) for f in known.schema], ("column", "type"))


def _table(rows: list[tuple[str, str]], names: tuple[str, str]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.Table.from_arrays(columns, names=list(names))


def check_limits(counts: Mapping[str, object], push_timeout: object) -> None:
    """Refuse counts below 1, a timeout below 0, and values that are no numbers."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{name} is {value!r}", "It must be a whole number, 1 or more.")
        if value < 1:
            raise InputError(f"{name} is {value}", "It must be 1 or more.")
    if not isinstance(push_timeout, int | float) or not push_timeout >= 0:
        raise InputError(f"push_timeout is {push_timeout!r}", "It must be 0 or more seconds.")


def show_engine(kind: str, closed: bool, registry: Registry[Any], figures: Sequence[str]) -> str:
    """The engine on one line; takes no lock."""
    queries = [query for query in list(registry.queries.values()) if not query.derived]
    parts = [
        "closed" if closed else "open",
        counted(len(registry.streams), "stream"),
        counted(len(queries), "query", "queries"),
        *figures,
    ]
    return f"<Engine {kind}: {', '.join(parts)}>"


def engine_html(line: str, registry: Registry[Any]) -> str:
    """The engine's line, and tables of its streams and queries; takes no lock."""
    streams = [
        (stream.name, describe(stream.schema), stream.time or "")
        for stream in list(registry.streams)
    ]
    queries = [query for query in list(registry.queries.values())]
    parts = [html_line(line.strip("<>"))]
    if streams:
        parts.append(html_table(("stream", "columns", "time attribute"), streams))
    if queries:
        counts = [query._known_counts() for query in queries]
        rows = [
            (query.name, query.state, *(f"{n:,}" for n in numbers.values()), one_line(query.text))
            for query, numbers in zip(queries, counts, strict=True)
        ]
        parts.append(html_table(("query", "state", *counts[0], "SQL"), rows))
    return "".join(parts)
