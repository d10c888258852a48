"""What an engine knows: its streams, its queries, and what has been promised of the streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.engines.local.query import Query
from penstock.errors import InputError
from penstock.program.blocks import Program
from penstock.program.compile import compile_plan
from penstock.sql.bind import bind
from penstock.sql.catalog import Catalog
from penstock.sql.parse import parse_query
from penstock.sql.plan import Plan
from penstock.streams.schema import Stream


class Registry:
    """Streams and queries by name, without regard to case.

    ``promises`` has the source promise of each stream by column (None: of whatever column a window
    is on), ``ended`` the streams that have ended. Both know derived streams too.
    """

    def __init__(self, windows_required: bool, order_column: str | None) -> None:
        self.catalog = Catalog(windows_required=windows_required)
        self.order_column = order_column
        self.queries: dict[str, Query] = {}
        self.dropped: list[Query] = []
        self.promises: dict[str, dict[int | None, Any]] = {}
        self.ended: set[str] = set()

    def stream(self, name: str) -> Stream:
        """The stream of that name, to which tuples can be pushed."""
        stream = self.catalog.get(name)
        if stream is None:
            raise self.unknown(name)
        query = self.queries.get(name.lower())
        if query is not None and query.derived:
            raise InputError(
                f"stream {name} is derived; nothing can be pushed to it",
                f"Push to what it reads: {', '.join(s.stream.name for s in query.program.scans)}.",
            )
        return stream

    def query(self, name: str) -> Query:
        """The running query or derived stream of that name."""
        query = self.queries.get(name.lower())
        if query is None:
            known = ", ".join(q.name for q in self.queries.values()) or "none"
            raise InputError(f"unknown query {name!r}", f"Queries there are: {known}.")
        return query

    def unknown(self, name: str) -> InputError:
        """The error for a stream that is not there."""
        known = ", ".join(s.name for s in self.catalog) or "none yet"
        return InputError(
            f"unknown stream {name!r}",
            f"Create it first: CREATE STREAM {name} (...). Streams there are: {known}.",
        )

    def open_streams(self) -> list[str]:
        """The streams that can be ended, oldest first."""
        derived = {query.name.lower() for query in self.queries.values() if query.derived}
        closed = derived | self.ended
        return [s.name for s in self.catalog if s.name.lower() not in closed]

    def sources(self, query: Query) -> set[str]:
        """The streams with tuples of their own that reach a query, directly or derived."""
        reached: set[str] = set()
        for scan in query.program.scans:
            name = scan.stream.name.lower()
            derived = self.queries.get(name)
            reached |= {name} if derived is None else self.sources(derived)
        return reached

    def check_free(self, name: str) -> None:
        """A name may be used once."""
        if not name.strip():
            raise InputError("a query or stream needs a name", "Give one, or none at all.")
        if name.lower() in self.queries or name in self.catalog:
            raise InputError(
                f"there is a stream or query named {name!r} already",
                "Choose another name, or drop that one first.",
            )

    def bind(self, sql: str) -> Plan:
        """A query bound to the streams there are."""
        return bind(parse_query(sql), self.catalog, order_column=self.order_column)

    def program(self, text: str, order: str | None, kernel: str | None = None) -> Program:
        """The program of a query; ``order`` overrides what its text says."""
        plan = self.bind(text)
        if order is not None:
            if order not in ("none", "outer", "inner"):
                raise InputError(f"unknown order {order!r}", "Write none, outer or inner.")
            plan = replace(plan, order=order)
        return compile_plan(plan, kernel)
