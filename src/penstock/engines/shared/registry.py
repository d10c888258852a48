"""What an engine knows: its streams, its queries, and what has been promised of the streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from penstock.engines.shared.backwards import Promises
from penstock.engines.shared.pieces import Piece, check_event
from penstock.engines.shared.running import Known
from penstock.errors import ChangeRefused, InputError
from penstock.program.blocks import Program
from penstock.program.compile import check_change, compile_plan
from penstock.program.flow_choice import ANY_FLOW, Flow, FlowChoice, decide
from penstock.program.instructions import Change, CreateStream, Derive, Drop, Install
from penstock.sql.bind import bind
from penstock.sql.catalog import Catalog
from penstock.sql.parse import parse_query
from penstock.sql.plan import Plan
from penstock.streams.events import End, Merged
from penstock.streams.schema import Stream, describe

Q = TypeVar("Q", bound=Known)


class Registry(Generic[Q]):
    """Streams and queries by name, without regard to case.

    ``promises`` has the source promise of each stream by column (None: of whatever column a window
    is on), ``ended`` the streams that have ended. Both know derived streams too. ``new_query``
    makes what is kept of a query: of its name, its program, whether it is a derived stream, and its
    flow, which ``decide`` says, or refuses.
    """

    def __init__(
        self,
        windows_required: bool,
        order_column: str | None,
        new_query: Callable[[str, Program, bool, Flow], Q],
        decide: Callable[[FlowChoice, Program], Flow] = decide,
    ) -> None:
        self._new_query = new_query
        self.decide = decide
        self.catalog = Catalog(windows_required=windows_required)
        self.order_column = order_column
        self.queries: dict[str, Q] = {}
        self.dropped: list[Q] = []
        self.promises: dict[str, Promises] = {}
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

    def query(self, name: str) -> Q:
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

    def sources(self, query: Q) -> set[str]:
        """The streams with tuples of their own that reach a query, directly or derived."""
        reached: set[str] = set()
        for scan in query.program.scans:
            name = scan.stream.name.lower()
            derived = self.queries.get(name)
            reached |= {name} if derived is None else self.sources(derived)
        return reached

    def free_name(self, name: str) -> str | None:
        """The name if nothing has it yet."""
        return None if name.lower() in self.queries or name in self.catalog else name

    def check(self, piece: Piece) -> None:
        """Refuse a piece before anything of it is taken."""
        ended = set(self.ended)
        for event in piece.events:
            for name in event.streams if isinstance(event, Merged) else (event.stream,):
                stream = self.stream(name)
                if name.lower() in ended:
                    raise InputError(
                        f"stream {name} has ended",
                        "Push before end(); a stream that has ended stays so.",
                    )
                if isinstance(event, End):
                    ended.add(name.lower())
                check_event(stream, event)

    def check_free(self, name: str) -> None:
        """A name may be used once."""
        if not name.strip():
            raise InputError("a query or stream needs a name", "Give one, or none at all.")
        if name.lower() in self.queries or name in self.catalog:
            remedy = "Choose another name, or leave it out: a stream that is there stays."
            if name.lower() in self.queries:
                remedy = "Choose another name, or drop that one first."
            raise InputError(f"there is a stream or query named {name!r} already", remedy)

    def bind(self, sql: str) -> Plan:
        """A query bound to the streams there are."""
        return bind(parse_query(sql), self.catalog, order_column=self.order_column)

    def program(
        self,
        text: str,
        order: str | None,
        kernel: str | None = None,
        flow: FlowChoice = ANY_FLOW,
    ) -> Program:
        """The program of a query; ``order`` and a precision override what its text says."""
        return compile_plan(self.plan(text, order, flow), kernel)

    def plan(self, text: str, order: str | None, flow: FlowChoice) -> Plan:
        """The plan of a query, with the order that is asked for."""
        plan = self.bind(text)
        if order is not None:
            if order not in ("none", "outer", "inner"):
                raise InputError(f"unknown order {order!r}", "Write none, outer or inner.")
            plan = replace(plan, order=order)
        return plan if flow.precision is None else replace(plan, precision=flow.precision)

    # -- instructions -----------------------------------------------------------------------

    def create(self, instruction: CreateStream) -> None:
        """Know a stream that tuples can be pushed to."""
        self.check_free(instruction.stream.name)
        self.catalog.add(instruction.stream)

    def install(self, instruction: Install) -> Q:
        """Know a query, or refuse it."""
        self.check_free(instruction.query)
        order, kernel, choice = instruction.order, instruction.kernel, instruction.flow
        program = self.program(instruction.text, order, kernel, choice)
        query = self._new_query(instruction.query, program, False, self.decide(choice, program))
        query.order, query.kernel, query.flow = order, kernel, choice
        self.queries[query.name.lower()] = query
        return query

    def derive(self, instruction: Derive) -> Q:
        """Know a query whose rows are a stream, or refuse it."""
        self.check_free(instruction.name)
        plan = self.bind(instruction.text)
        bounded = all(scan.stream.bounded for scan in plan.scans)
        stream = Stream.of(instruction.name, plan.schema, bounded=bounded, derived=True)
        program = compile_plan(plan)
        query = self._new_query(stream.name, program, True, self.decide(ANY_FLOW, program))
        self.queries[query.name.lower()] = query
        self.catalog.add(stream)
        return query

    def changed(self, instruction: Change) -> tuple[Q, Program, Flow]:
        """The query to change, its new program and flow, which it can take.

        Nothing is changed yet.
        """
        query = self.query(instruction.query)
        program = self.program(instruction.text, query.order, query.kernel, query.flow)
        flow = self.decide(query.flow, program)
        check_change(query.name, query.program, program)
        if query.derived and not program.schema.equals(query.schema):
            raise ChangeRefused(
                f"stream {query.name} has the columns {describe(query.schema)}; a change cannot "
                f"make them {describe(program.schema)}, since queries may read it",
                "Keep its columns, or derive a new stream.",
            )
        return query, program, flow

    def reset(self) -> list[Q]:
        """Forget everything; returns the queries there were."""
        forgotten = list(self.queries.values())
        self.queries.clear()
        self.promises.clear()
        self.ended.clear()
        for stream in list(self.catalog):
            self.catalog.remove(stream.name)
        return forgotten

    def drop(self, instruction: Drop) -> Q:
        """Forget a query, or a derived stream that nobody reads."""
        query = self.query(instruction.query)
        name = query.name.lower()
        readers = [
            reader.name
            for reader in self.queries.values()
            if any(scan.stream.name.lower() == name for scan in reader.program.scans)
        ]
        if query.derived and readers:
            raise InputError(
                f"stream {query.name} is read by {', '.join(readers)}",
                "Drop the queries that read it first.",
            )
        del self.queries[name]
        if query.derived:
            self.catalog.remove(query.name)
            self.promises.pop(name, None)
            self.ended.discard(name)
        return query
