"""Instructions for blocks: a query's program is a list of these.

Each is addressed to a block by number. It defines the kind of the block, the blocks that it reads,
and how cores may divide its work: by ``tuple`` (each takes all and stores some), by ``group``, by
``run`` (each takes a part of every run), or not at all. Installing a query and changing it send the
same instructions; there is no other way to configure a block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import pyarrow as pa

from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.sql.expressions import TRUE, Expression
from penstock.sql.plan import Argument, Call, JoinStep, Output, SortKey
from penstock.streams.display import counted, html_text, listed, one_line
from penstock.streams.schema import Stream
from penstock.streams.windows import AggregateWindow, TimeAttribute, Unbounded, Window, as_written

SIDES = ("left", "right")
Division = Literal["tuple", "group", "run"]
INTAKE = -1
"""The number of the intake, the block by which streams enter a query."""


@dataclass(frozen=True)
class ScanStream:
    """Read a stream as named in FROM."""

    kind_of_block: ClassVar[str] = "scan"
    divisible: ClassVar[Division | None] = "run"
    reads: ClassVar[tuple[int, ...]] = ()
    block: int
    stream: Stream

    def __str__(self) -> str:
        return f"#{self.block} scan {self.stream.name}"


@dataclass(frozen=True)
class JoinStreams:
    """Join two or more inputs. The fields are those of :class:`penstock.sql.plan.Join`.

    ``streams`` are the names of the inputs, for letters; ``windows`` and ``times`` are of each
    input, ``times`` the time attributes.
    """

    block: int
    inputs: tuple[int, ...]
    streams: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    windows: tuple[Window, ...]
    times: tuple[TimeAttribute | None, ...]
    kind: str
    filters: tuple[Expression, ...]
    compiled: Expression
    residual: Expression
    columns: tuple[tuple[int, ...], ...]
    float_clock: bool
    kernel: str
    reason: str
    kernel_is_forced: bool = False
    steps: tuple[JoinStep, ...] = ()

    def __str__(self) -> str:
        inputs = listed(f"#{block}" for block in self.inputs[: self.core])
        lines = [f"#{self.block} join {self.kind} of {inputs}"]
        if self.core == 1:
            lines = [f"#{self.block} join, beginning with {inputs}"]
        names = SIDES if len(self.inputs) == 2 else tuple(map(str, range(1, len(self.inputs) + 1)))
        for name, condition in (
            *((f"filter {n}", f) for n, f in zip(names, self.filters, strict=True)),
            ("compiled", self.compiled),
            ("residual", self.residual),
        ):
            if condition != TRUE:
                lines.append(f"     {name}: {condition}")
        for number, step in enumerate(self.steps, start=self.core):
            lines.append(f"     then {step.kind} of #{self.inputs[number]}: {step.on}")
        for name, window, time in zip(names, self.windows, self.times, strict=True):
            by = f", time {time.name}" if time else ""
            lines.append(f"#{self.block} window {name} {as_written(window)}{by}")
        return "\n".join(lines)

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs

    @property
    def core(self) -> int:
        """The number of inputs before the steps."""
        return len(self.inputs) - len(self.steps)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its joins, in the order of FROM, without repetition."""
        inner = (self.kind,) if self.core > 1 else ()
        return tuple(dict.fromkeys((*inner, *(step.kind for step in self.steps))))

    @property
    def kind_of_block(self) -> str:
        return "join" if len(self.inputs) == 2 else "multiway"

    @property
    def divisible(self) -> Division | None:
        """By tuples, unless a core would have to know that no other one has found a partner."""
        return "tuple" if self.divided and not self.steps else None

    @property
    def divided(self) -> tuple[int, ...]:
        """The inputs of which each tuple is stored by one of several cores, if there are two.

        Of an outer, semi or anti join, that is the input whose unmatched tuples count: its cores
        have the whole other window. Of a full join it would have to be both.
        """
        return {"inner": (0, 1), "right": (1,), "full": ()}.get(self.kind, (0,))


@dataclass(frozen=True)
class SelectRows:
    """Keep the rows for which the condition is true.

    ``columns`` are those that later blocks read, None for all; expressions in later blocks index
    into them.
    """

    kind_of_block: ClassVar[str] = "select"
    divisible: ClassVar[Division | None] = "run"
    block: int
    input: int
    condition: Expression
    columns: tuple[int, ...] | None = None

    def __str__(self) -> str:
        every = self.condition == TRUE
        return (
            f"#{self.block} select from #{self.input}: {'every row' if every else self.condition}"
        )

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class ProjectColumns:
    """Compute the select list."""

    kind_of_block: ClassVar[str] = "project"
    divisible: ClassVar[Division | None] = "run"
    block: int
    input: int
    columns: tuple[Output, ...]

    def __str__(self) -> str:
        columns = ", ".join(f"{c.expression} AS {c.name}" for c in self.columns)
        return f"#{self.block} project #{self.input}: {columns}"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class UnionRows:
    """Put the rows of several inputs into one, by position and then by input."""

    kind_of_block: ClassVar[str] = "union"
    divisible: ClassVar[Division | None] = "run"
    block: int
    inputs: tuple[int, ...]

    def __str__(self) -> str:
        return f"#{self.block} union of {', '.join(f'#{i}' for i in self.inputs)}"

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs


@dataclass(frozen=True)
class AggregateRows:
    """Aggregate the rows of an input, by window and by group.

    The fields are those of :class:`penstock.sql.plan.Aggregate`; ``where`` is evaluated here, since
    the block's punctuator sees every tuple. ``stream`` is the name of the input, for letters; empty
    if it is none. ``schema`` is that of the result. ``kernel`` is ``panes`` or ``wid``.

    ``groups`` are the keys' expressions, and ``counted`` the calls, over the whole tuples of the
    streams. A join outputs only the columns that are read, so after a change the same call may read
    another column of its input; equal entries of ``counted`` identify it.
    """

    kind_of_block: ClassVar[str] = "aggregate"
    block: int
    input: int
    stream: str
    where: Expression
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    window: AggregateWindow | None
    time: TimeAttribute | None
    emit_empty: bool
    schema: pa.Schema
    kernel: str
    reason: str
    groups: tuple[Expression, ...] = ()
    counted: tuple[Call, ...] = ()

    def __str__(self) -> str:
        calls = ", ".join(map(str, self.calls)) or "groups"
        lines = [f"#{self.block} aggregate #{self.input}: {calls}"]
        if self.keys:
            lines.append(f"     group by: {', '.join(str(key.expression) for key in self.keys)}")
        if self.where != TRUE:
            lines.append(f"     where: {self.where}")
        if self.window is not None:
            by = f", time {self.time.name}" if self.time else ""
            lines.append(f"     window: {as_written(self.window)}{by}")
        return "\n".join(lines)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)

    @property
    def divisible(self) -> Division | None:
        """Without GROUP BY there is one group."""
        return "group" if self.keys else None


@dataclass(frozen=True)
class OrderRows:
    """Sort and cut the rows of each window of an aggregate, or all rows once the input has ended.

    It stands before the projection (of a union: after it). ``window_column`` is the input's column
    that identifies the window; None: sort at the end of the input.
    """

    kind_of_block: ClassVar[str] = "order"
    divisible: ClassVar[Division | None] = None
    block: int
    input: int
    sort: tuple[SortKey, ...]
    limit: int | None
    window_column: int | None

    def __str__(self) -> str:
        keys = ", ".join(map(str, self.sort))
        cut = "" if self.limit is None else f", the first {self.limit}"
        return f"#{self.block} order #{self.input}: {keys or 'as they come'}{cut}"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class OwnRows:
    """Send the rows of an input through a user's own block.

    ``name`` is its name in SQL, ``implementation`` its class as ``module:Class``.
    """

    divisible: ClassVar[Division | None] = None
    block: int
    input: int
    name: str
    implementation: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        given = ", ".join(f"{one.name} => {one.value}" for one in self.arguments)
        return f"#{self.block} {self.name} #{self.input}: {given or 'no arguments'}"

    @property
    def kind_of_block(self) -> str:
        return self.name

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)

    def argument(self, name: str) -> Expression:
        """The argument of that name: a Column of the stream, or a Literal."""
        return next(one.value for one in self.arguments if one.name == name)


@dataclass(frozen=True)
class ScreenRows:
    """Set aside the rows of a user's own block whose time windows cannot use.

    ``stream`` is the name of the rows, for letters; ``time`` their time attribute, None if the
    windows that read them need none. Of other streams the intake does it.
    """

    kind_of_block: ClassVar[str] = "screen"
    divisible: ClassVar[Division | None] = None
    block: int
    input: int
    stream: str
    time: TimeAttribute | None
    float_clock: bool

    def __str__(self) -> str:
        needs = "nothing is asked of it" if self.time is None else f"time {self.time.name}"
        return f"#{self.block} screen #{self.input}: {needs}"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.input,)


@dataclass(frozen=True)
class ReadStream:
    """How tuples of a stream enter a query.

    ``times`` are the time attributes, which must have a usable value; ``takes_words``: every reader
    of the stream can use dictionary-encoded columns.
    """

    stream: Stream
    times: tuple[TimeAttribute, ...]
    takes_words: bool


@dataclass(frozen=True)
class ReadStreams:
    """The instruction for the intake, computed from the others.

    ``readers`` are the blocks that read streams alone, each with its scans; a scan that is read
    beside rows of another block is a reader by itself. ``scans`` has the number of the stream of
    each scan. ``float_clock``: whether times are compared as floats; ``is_divided``:
    whether each of several cores takes a part of every run.
    """

    block: int
    streams: tuple[ReadStream, ...]
    scans: dict[int, int]
    readers: tuple[tuple[int, tuple[int, ...]], ...]
    float_clock: bool
    is_divided: bool


BlockInstruction = (
    ScanStream
    | JoinStreams
    | AggregateRows
    | SelectRows
    | ProjectColumns
    | UnionRows
    | OrderRows
    | OwnRows
    | ScreenRows
)


@dataclass(frozen=True)
class Program:
    """A query as instructions; every block comes after its inputs.

    ``flow`` is its placement: how cores are to share it, as far as it was asked for. It is no part
    of its identity.
    """

    instructions: tuple[BlockInstruction, ...]
    schema: pa.Schema
    text: str
    order: str
    precision: int
    flow: FlowChoice = ANY_FLOW

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))

    def __repr__(self) -> str:
        count = counted(len(self.instructions), "instruction")
        return f"<Program of {count}: {one_line(self.text)}>"

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def to_json(self) -> str:
        """The program as canonical JSON, which :meth:`from_json` reads; see ``docs/program.md``."""
        from penstock.program.isa.encoding import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Program:
        """The program that :meth:`to_json` wrote; a :class:`ProgramError` names what is wrong."""
        from penstock.program.isa.encoding import program_from_json

        return program_from_json(text)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the encoding, so that the depth of expressions has no limit."""
        return Program.from_json, (self.to_json(),)

    @cached_property
    def digest(self) -> str:
        """The identity of the program: a hash of all fields that its rows and state depend on.

        Two spellings of a query have the same digest, and so has it on any number of cores.
        """
        from penstock.program.isa.encoding import digest

        return digest(self)

    def placed(self, flow: FlowChoice = ANY_FLOW) -> Program:
        """The same query, placed as ``flow`` asks; without it, as the engine decides."""
        return self if flow == self.flow else replace(self, flow=flow)

    @property
    def most_joined(self) -> int:
        """The number of streams of its widest join; 0 without a join."""
        return max((len(join.inputs) for join in self.joins), default=0)

    def block(self, number: int) -> BlockInstruction:
        """The instruction for the block of that number."""
        return next(i for i in self.instructions if i.block == number)

    def scan_of(self, number: int) -> ScanStream | None:
        """The scan that a block is, or whose tuples go through it alone; None: it has no one."""
        found = self.block(number)
        while isinstance(found, OwnRows | ScreenRows):
            found = self.block(found.input)
        return found if isinstance(found, ScanStream) else None

    @cached_property
    def needs_end(self) -> bool:
        """Whether rows, or windows without a bound, wait for the end of the input."""
        return (
            any(isinstance(window, Unbounded) for join in self.joins for window in join.windows)
            or any(aggregate.window is None for aggregate in self.aggregates)
            or any(isinstance(i, OrderRows) and i.window_column is None for i in self.instructions)
        )

    @cached_property
    def joins(self) -> tuple[JoinStreams, ...]:
        return tuple(i for i in self.instructions if isinstance(i, JoinStreams))

    @cached_property
    def aggregates(self) -> tuple[AggregateRows, ...]:
        return tuple(i for i in self.instructions if isinstance(i, AggregateRows))

    @cached_property
    def scans(self) -> tuple[ScanStream, ...]:
        return tuple(i for i in self.instructions if isinstance(i, ScanStream))

    @cached_property
    def intake(self) -> ReadStreams:
        """The instruction for the intake."""
        names = list(dict.fromkeys(scan.stream.name.lower() for scan in self.scans))
        scans = {scan.block: names.index(scan.stream.name.lower()) for scan in self.scans}
        readers: list[tuple[int, tuple[int, ...]]] = []
        for i in self.instructions:
            read = tuple(number for number in i.reads if number in scans)
            if read and read == i.reads:
                readers.append((i.block, read))
            else:
                readers += [(number, (number,)) for number in read]
        timed = [pair for j in self.joins for pair in zip(j.inputs, j.times, strict=True)]
        timed += [(aggregate.input, aggregate.time) for aggregate in self.aggregates]
        aggregated = {aggregate.input for aggregate in self.aggregates}
        streams = [
            ReadStream(
                next(s.stream for s in self.scans if s.stream.name.lower() == name),
                tuple(dict.fromkeys(t for i, t in timed if t and scans.get(i) == number)),
                aggregated >= {scan for scan, which in scans.items() if which == number},
            )
            for number, name in enumerate(names)
        ]
        floating = any(join.float_clock and any(join.times) for join in self.joins)
        divided = all(i.divisible == "run" for i in self.instructions)
        return ReadStreams(INTAKE, tuple(streams), scans, tuple(readers), floating, divided)

    @cached_property
    def can_share(self) -> bool:
        """Whether blocks on several cores can share the work, with each row made once.

        A block that is divided by tuples or groups must be the only such block, without a union:
        a union needs the order of its branches.
        """
        kinds = [i.divisible for i in self.instructions]
        special = [kind for kind in kinds if kind != "run"]
        union = any(isinstance(i, UnionRows) for i in self.instructions)
        return None not in special and (not special or (len(special) == 1 and not union))
