"""The registry of an engine: its streams, its queries, and the punctuations of the streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from penstock.engines.shared.input_slices import InputSlice, check_event, streams_of
from penstock.engines.shared.max_lead import Furthest, within_lead
from penstock.engines.shared.running_query import RegisteredQuery
from penstock.errors import SURROGATE, ChangeRefused, InputError, named, warn
from penstock.processor.query_assigner.query_assigner import (
    PlacedQueries,
    PlacedQuery,
    QueryAssigner,
)
from penstock.program.choose.flow import check_choice, decide
from penstock.program.compile.change import check_change
from penstock.program.isa.block_instructions import Program, ScanStream
from penstock.program.isa.flow import ANY_FLOW, Flow, FlowChoice
from penstock.program.isa.instructions import Change, CreateStream, Derive, Drop, Install
from penstock.sql.plan import ORDERS, Plan
from penstock.streams.by_name import StreamsByName
from penstock.streams.events import End, Punctuation
from penstock.streams.literals import format_value
from penstock.streams.schema import Stream, describe

Punctuations = dict[int | None, Any]
"""The last punctuation of a stream by column number; None: it names no column."""


class PunctuationOrder:
    """Ignores punctuations that go back, counts them in ``count``, and warns once."""

    def __init__(self) -> None:
        self.count = 0
        self._warned = False

    def is_new(self, event: Punctuation, stream: Stream, known: Punctuations) -> bool:
        """Whether a punctuation is greater than the last one; if so, it becomes the last one."""
        column = column_of(event, stream)
        value: Any = event.value
        if column in known and value <= known[column]:
            if value < known[column]:
                self.count += 1
                self._warn(event, stream, column, known[column])
            return False
        known[column] = value
        return True

    def _warn(self, event: Punctuation, stream: Stream, column: int | None, before: Any) -> None:
        if self._warned:
            return
        self._warned = True
        values = [before, event.value]
        if column is not None:  # without an attribute, values are plain numbers
            values = [format_value(value, stream.schema.field(column).type) for value in values]
        warn(
            f"a punctuation of stream {stream.name} goes back, from {values[0]} to {values[1]}, "
            "and is ignored; the engine's ignored_punctuations counts all that do"
        )


def column_of(event: Punctuation, stream: Stream) -> int | None:
    """The number of the column that a punctuation is about; None if it names none."""
    attribute = event.attribute or stream.time
    return stream.index_of(attribute) if attribute is not None else None


Q = TypeVar("Q", bound=RegisteredQuery)

Compile = Callable[[str, StreamsByName, str | None, str | None, FlowChoice], Program]
"""Compiles SQL over streams to a program with the given order, kernel and flow."""


class Registry(Generic[Q]):
    """Streams and queries by name, without regard to case.

    ``punctuations`` has the last punctuation of each stream by column (None: of the column that a
    window is on), ``ended`` the streams that have ended. Both include derived streams. ``furthest``
    has the largest time of each stream with a MAX LEAD (:mod:`penstock.engines.shared.max_lead`).
    ``new_query`` creates the object for a query from its name, its program, whether it is a derived
    stream, and its flow. ``decide`` chooses the flow, or refuses the query. ``compile`` compiles
    SQL; a core has none, since it receives programs. ``assigner`` finds the blocks for a query
    where the engine has a topology.
    """

    def __init__(
        self,
        new_query: Callable[[str, Program, bool, Flow], Q],
        decide: Callable[[Program], Flow] = decide,
        compile: Compile | None = None,
        assigner: QueryAssigner | None = None,
    ) -> None:
        self._new_query = new_query
        self._assigner = assigner
        self._decide = decide
        self._compile = compile
        self.streams = StreamsByName()
        self.queries: dict[str, Q] = {}
        self.dropped: list[Q] = []
        self.punctuations: dict[str, Punctuations] = {}
        self.ended: set[str] = set()
        self.furthest: Furthest = {}
        self.names = 0
        """How many names :meth:`new_name` has counted."""
        self._has_leads = False
        self._placed: PlacedQueries | None = None
        """The queries on the topology, as they were when a place was last looked for."""

    def stream(self, name: str) -> Stream:
        """The stream of that name, to which tuples can be pushed."""
        stream = self.streams.get(name)
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
        query = self.queries.get(named("query", name).lower())
        if query is None:
            known = ", ".join(q.name for q in self.queries.values()) or "none"
            raise InputError(f"unknown query {name!r}", f"Queries there are: {known}.")
        return query

    def unknown(self, name: str) -> InputError:
        """The error for an unknown stream."""
        known = ", ".join(s.name for s in self.streams) or "none yet"
        return InputError(
            f"unknown stream {name!r}",
            f"Create it first: CREATE STREAM {name} (...). Streams there are: {known}.",
        )

    def open_streams(self) -> list[str]:
        """The streams that can be ended, oldest first."""
        derived = {query.name.lower() for query in self.queries.values() if query.derived}
        closed = derived | self.ended
        return [s.name for s in self.streams if s.name.lower() not in closed]

    def sources(self, query: Q) -> set[str]:
        """The pushed streams that a query reads, directly or through derived streams."""
        reached: set[str] = set()
        for scan in query.program.scans:
            name = scan.stream.name.lower()
            derived = self.queries.get(name)
            reached |= {name} if derived is None else self.sources(derived)
        return reached

    def new_name(self) -> str:
        """The next of q1, q2 and so on that no stream or query has."""
        self.names += 1
        while f"q{self.names}" in self.queries or f"q{self.names}" in self.streams:
            self.names += 1
        return f"q{self.names}"

    def check(self, piece: InputSlice) -> None:
        """Refuse a slice before anything of it is taken."""
        ended = set(self.ended)
        for event in piece.events:
            for name in streams_of(event):
                stream = self.stream(name)
                if name.lower() in ended:
                    raise InputError(
                        f"stream {name} has ended",
                        "Push before end(); a stream that has ended stays so.",
                    )
                if isinstance(event, End):
                    ended.add(name.lower())
                check_event(stream, event)

    def within_lead(self, piece: InputSlice) -> tuple[InputSlice, Furthest]:
        """The slice with dead letters for tuples too far ahead, and the largest times after it."""
        if not self._has_leads:
            return piece, self.furthest
        return within_lead(piece, self.streams, self.furthest)

    def check_free(self, name: str) -> None:
        """Refuse a name that is in use, or is no name."""
        if not named("query or stream", name).strip():
            raise InputError("a query or stream needs a name", "Give one, or none at all.")
        if SURROGATE.search(name):
            raise InputError(
                f"the name {name!r} has half of a character in it, a lone surrogate",
                "Write the whole character, or another name.",
            )
        if name.lower() in self.queries or name in self.streams:
            remedy = "Choose another name, or leave it out: a stream that is there stays."
            if name.lower() in self.queries:
                remedy = "Choose another name, or drop that one first."
            raise InputError(f"there is a stream or query named {name!r} already", remedy)

    def compiled(
        self,
        program: Program | str,
        order: str | None = None,
        kernel: str | None = None,
        flow: FlowChoice = ANY_FLOW,
    ) -> Program:
        """The program of a query, which reads the streams there are; made of SQL if it is that.

        ``order`` and a precision override what the query says; ``flow`` is where it is placed.
        """
        if not isinstance(program, Program):
            if self._compile is None:
                raise TypeError("SQL has come where programs are expected")
            return self._compile(program, self.streams, order, kernel, flow)
        return _asked(self._over_known(program), order, flow)

    def _over_known(self, program: Program) -> Program:
        """The program over the streams there are, which are as it knows them, or an error."""
        known = {scan: self._known(scan.stream, program) for scan in program.scans}
        if all(scan.stream == stream for scan, stream in known.items()):
            return program
        instructions = tuple(
            replace(one, stream=known[one]) if isinstance(one, ScanStream) else one
            for one in program.instructions
        )
        return replace(program, instructions=instructions)

    def _known(self, wanted: Stream, program: Program) -> Stream:
        """The stream that a program reads; refused if that is another than the program knows."""
        known = self.streams.get(wanted.name)
        if known is None:
            raise self.unknown(wanted.name)
        remedy = "Create the stream as the program knows it, or compile the query from its SQL."
        if not known.schema.equals(wanted.schema):
            raise InputError(
                f"the program reads stream {wanted.name} {describe(wanted.schema)}, and here it is "
                f"{describe(known.schema)}",
                remedy,
            )
        if known.derived != wanted.derived:
            what = ("is derived", "is not") if wanted.derived else ("is not derived", "is")
            raise InputError(
                f"the program reads stream {wanted.name} as one that {what[0]}, and here it "
                f"{what[1]}",
                remedy,
            )
        if wanted.bounded and not known.bounded and program.needs_end:
            raise InputError(
                f"the program needs the end of stream {wanted.name}, which is not bounded here",
                "Declare the stream with bounded=True, or write windows.",
            )
        return known

    def decide(self, program: Program) -> Flow:
        """The flow of a query, or an error."""
        self.check_design(program)
        return self._decide(program)

    def check_design(self, program: Program) -> None:
        """Refuse a design that is meant for the join of a derived stream."""
        check_choice(program.flow)
        asked = _part_of_design(program.flow)
        wide = None if asked is None or program.most_joined > 2 else self._wide_source(program)
        if wide is not None:
            raise InputError(
                f"{asked} is asked for, and the query joins fewer than three streams: the join of "
                f"{wide.program.most_joined} is that of the derived stream {wide.name}, which "
                "takes no options",
                f"Leave it out: the engine chooses the design of {wide.name}. Or install that "
                "join as a query of its own.",
            )

    def _wide_source(self, program: Program) -> Q | None:
        """A derived stream that a query reads and that joins three streams or more, if any."""
        for scan in program.scans:
            derived = self.queries.get(scan.stream.name.lower())
            if derived is not None:
                wide = derived.program.most_joined > 2
                found = derived if wide else self._wide_source(derived.program)
                if found is not None:
                    return found
        return None

    # -- instructions -----------------------------------------------------------------------

    def create(self, instruction: CreateStream) -> None:
        """Register a stream that tuples can be pushed to."""
        self.check_free(instruction.stream.name)
        self.streams.add(instruction.stream)
        self._has_leads = self._has_leads or instruction.stream.max_lead is not None

    def install(self, instruction: Install) -> Q:
        """Register a query, or refuse it."""
        self.check_free(instruction.query)
        given = (instruction.order, instruction.kernel, instruction.asked_flow)
        program = self.compiled(instruction.program, *given)
        program = self.assigned(instruction.query, program, False)
        query = self._new_query(instruction.query, program, False, self.decide(program))
        return self.remember(query, instruction)

    def derive(self, instruction: Derive) -> Q:
        """Register a query whose rows are a stream, or refuse it."""
        self.check_free(instruction.name)
        program = self.compiled(instruction.program, flow=instruction.asked_flow)
        program = self.assigned(instruction.name, program, True)
        flow = self.decide(program)
        derived_stream(instruction.name, program)  # or an error
        query = self._new_query(instruction.name, program, True, flow)
        return self.remember(query, instruction)

    def remember(self, query: Q, made_by: Install | Derive) -> Q:
        """Register a query of an instruction, and its stream if that is derived."""
        if isinstance(made_by, Install):
            query.order, query.kernel = made_by.order, made_by.kernel
        self.queries[query.name.lower()] = query
        if query.derived:
            self.streams.add(derived_stream(query.name, query.program))
        return query

    def changed(self, instruction: Change) -> tuple[Q, Program, Flow]:
        """The query to change, its new program and flow, which it can take.

        Nothing is changed yet.
        """
        query = self.query(instruction.query)
        given = (query.order, query.kernel, query.program.flow)
        program = self.compiled(instruction.program, *given)
        check_change(query.name, query.program, program)
        if query.derived and not program.schema.equals(query.schema):
            raise ChangeRefused(
                f"stream {query.name} has the columns {describe(query.schema)}; a change cannot "
                f"make them {describe(program.schema)}, since queries may read it",
                "Keep its columns, or derive a new stream.",
            )
        # What no change can make is refused first: no other flow or design would help.
        try:
            program = self.assigned(query.name, program, query.derived)
        except InputError as error:
            raise ChangeRefused(error.what, error.remedy) from error
        return query, program, self.decide(program)

    def assigned(self, name: str, program: Program, derived: bool) -> Program:
        """The program with the blocks of the topology that serve it, if there is a topology."""
        if self._assigner is None:
            return program
        # Taken while it is brought up to date: an interrupted call leaves none half counted.
        there, self._placed = self._placed or PlacedQueries(self._assigner.topology), None
        self._count_others(there, name.lower())
        self._placed = there
        return self._assigner.assigned(name, derived, program, there)

    def _count_others(self, there: PlacedQueries, name: str) -> None:
        """Bring it up to date: it has all queries but that one, and counts those that are new."""
        for key, query in self.queries.items():
            if not there.has(key, query.program):
                there.place(PlacedQuery(query.name, query.derived, query.program))
        for key in there.keys() - self.queries.keys():
            there.leave(key)
        there.leave(name)

    def as_placed(self, program: Program) -> tuple[Program, tuple[str, ...]]:
        """For EXPLAIN, the program with the blocks that it has or would have, and a line of them.

        Without a topology, the program as it is.
        """
        if self._assigner is None:
            return program, ()
        if program.flow.blocks is None:
            there = PlacedQueries(self._assigner.topology)  # others may call EXPLAIN meanwhile
            self._count_others(there, "")
            program = self._assigner.assigned("", False, program, there)
        return program, (self._assigner.explain(program),)

    def reset(self) -> list[Q]:
        """Remove everything; returns the removed queries."""
        forgotten = list(self.queries.values())
        self.queries.clear()
        self.punctuations.clear()
        self.ended.clear()
        self.furthest.clear()
        for stream in list(self.streams):
            self.streams.remove(stream.name)
        return forgotten

    def drop(self, instruction: Drop) -> Q:
        """Remove a query, or a derived stream that no query reads."""
        query = self.query(instruction.query)
        name = query.name.lower()
        readers = [
            reader.name
            for reader in (self.queries.values() if query.derived else ())
            if any(scan.stream.name.lower() == name for scan in reader.program.scans)
        ]
        if readers:
            raise InputError(
                f"stream {query.name} is read by {', '.join(readers)}",
                "Drop the queries that read it first.",
            )
        del self.queries[name]
        if query.derived:
            self.streams.remove(query.name)
            self.punctuations.pop(name, None)
            self.ended.discard(name)
        return query


def derived_stream(name: str, query: Program | Plan) -> Stream:
    """The stream that a query's rows are."""
    bounded = all(scan.stream.bounded for scan in query.scans)
    return Stream.of(name, query.schema, bounded=bounded, derived=True)


def _part_of_design(choice: FlowChoice) -> str | None:
    """What is asked for of a join of three and more streams; None: nothing."""
    if choice.design not in (None, "auto"):
        return f"the design {choice.design}"
    if choice.probe_order is not None:
        return "a probe order"
    return None if choice.stash is None else "a stash"


def _asked(program: Program, order: str | None, flow: FlowChoice) -> Program:
    """The program with the order, precision and flow that are asked for."""
    if order is not None and order not in ORDERS:
        raise InputError(f"unknown order {order!r}", "Write none, outer or inner.")
    if order is not None and order != program.order:
        program = replace(program, order=order)
    if flow.precision is not None and flow.precision != program.precision:
        program = replace(program, precision=flow.precision)
    return program.placed(flow)
