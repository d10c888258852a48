"""Statements of SQL, run on an engine, whichever it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from penstock.engines.shared.pieces import Event
from penstock.engines.shared.registry import Registry
from penstock.program.instructions import CreateStream, Derive, Instruction
from penstock.sql import statements
from penstock.sql.parse import parse
from penstock.streams.schema import type_name


class Steered(Protocol):
    """An engine that statements can be run on."""

    @property
    def registry(self) -> Registry[Any]: ...

    def feed(self, events: Iterable[Event | Instruction]) -> None: ...

    def install(self, sql: str) -> Any: ...

    def explain(self, sql: str) -> str: ...


def run_statements(engine: Steered, text: str) -> Any:
    """Run statements separated by ``;`` and return what the last one gives."""
    result: Any = None
    for statement in parse(text):
        result = _run(engine, statement)
    return result


def _run(engine: Steered, statement: statements.Statement) -> Any:
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
        return _table([(s.name, repr(s)) for s in registry.catalog], ("stream", "definition"))
    if isinstance(statement, statements.ShowQueries):
        return _table([(q.name, q.text) for q in registry.queries.values()], ("query", "text"))
    if isinstance(statement, statements.Describe):
        return _describe(registry, statement.name)
    return engine.explain(statement.query.text)


def _describe(registry: Registry[Any], name: str) -> pa.Table:
    stream = registry.catalog.get(name)
    query = registry.queries.get(name.lower())
    known = stream if stream is not None else query
    if known is None:
        raise registry.unknown(name)
    return _table([(f.name, type_name(f.type)) for f in known.schema], ("column", "type"))


def _table(rows: list[tuple[str, str]], names: tuple[str, str]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.Table.from_arrays(columns, names=list(names))
