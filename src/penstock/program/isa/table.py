"""The table of fields: every record of a program and of the instructions that a user sends.

What is encoded, decoded and documented follows from this table alone. A new field, block or
instruction is an entry here.
"""

from __future__ import annotations

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
    UnionRows,
)
from penstock.program.isa.check import check_program
from penstock.program.isa.codecs import (
    Columns,
    ConstantIndex,
    ExpressionIndex,
    Field,
    Maybe,
    Nested,
    Number,
    OneOf,
    Ratio,
    Record,
    Several,
    Text,
    Truth,
    TypeIndex,
    Union,
    Whole,
)
from penstock.program.isa.flow import (
    ADMISSIONS,
    DESIGN_NAMES,
    FLOWS,
    PROBE_ORDERS,
    FlowChoice,
)
from penstock.program.isa.instructions import Change, CreateStream, Derive, Drop, Install, Reset
from penstock.program.isa.kernels import AGGREGATE_KERNELS, JOIN_KERNELS
from penstock.program.isa.op_instructions import (
    PORTS,
    RESULT_PORTS,
    Bypass,
    JoinPart,
    ReadPorts,
    ResetBlock,
    check_part,
    check_ports,
)
from penstock.sql.aggregates import AGGREGATES
from penstock.sql.expressions import Call as ExpressionCall
from penstock.sql.expressions import Cast, Column, Literal
from penstock.sql.operations import OPERATIONS
from penstock.sql.plan import (
    JOIN_KINDS,
    ORDERS,
    Argument,
    Call,
    JoinStep,
    Output,
    SortKey,
)
from penstock.streams.schema import Stream
from penstock.streams.windows import (
    Range,
    Rows,
    Sliding,
    SlidingRows,
    TimeAttribute,
    Unbounded,
)

ALL_KERNELS = (*JOIN_KERNELS, *AGGREGATE_KERNELS)
COUNT = Whole(0)
BLOCK = Whole(0)
EXPRESSION = ExpressionIndex()

EXPRESSIONS = Union(
    "expression",
    (
        Record(
            "column",
            Column,
            (
                Field("side", COUNT, "the number of the input, from 0 in the order of FROM"),
                Field("index", COUNT, "which column of that input"),
                Field("type", TypeIndex(), "its type"),
                Field("name", Text(), "its name", for_people=True),
                Field("alias", Text(), "the name of the input in the query", for_people=True),
            ),
            "A column of an input.",
        ),
        Record(
            "constant",
            Literal,
            (Field("constant", ConstantIndex(), "which constant"),),
            "A constant.",
            parts=lambda literal: {"constant": literal},
            make=lambda constant: constant,
        ),
        Record(
            "call",
            ExpressionCall,
            (
                Field("op", OneOf(tuple(OPERATIONS)), "the operator or function"),
                Field("args", Several(EXPRESSION, least=1), "its arguments, which stand before it"),
                Field("type", TypeIndex(), "the type of the result"),
            ),
            "An operator or a function; `docs/expressions.md` says what each of them gives.",
        ),
        Record(
            "cast",
            Cast,
            (
                Field("arg", EXPRESSION, "what is converted, which stands before it"),
                Field("type", TypeIndex(), "the type that it is converted to"),
            ),
            "A conversion; a value that does not fit becomes NULL.",
        ),
    ),
)

_SLACK = Field("slack", Maybe(Number()), "by how much a tuple may be late; null: not written")
_CLAUSE = Field("text", Text(), "the clause as it was written", for_people=True)
_DERIVED = Field("derived", Truth(), "whether the stream is derived and punctuates by itself")

WINDOW = Union(
    "window",
    (
        Record("rows", Rows, (Field("size", COUNT, "how many tuples"),), "The last tuples."),
        Record(
            "range",
            Range,
            (
                Field("size", Number(), "how long a tuple is live, in ticks"),
                Field("inclusive", Truth(), "whether the end of that time still finds it"),
                _SLACK,
                _DERIVED,
                _CLAUSE,
            ),
            "The tuples whose time plus the size has not been reached.",
        ),
        Record("unbounded", Unbounded, (), "All tuples."),
    ),
)
AGGREGATE_WINDOW = Union(
    "aggregate window",
    (
        Record(
            "sliding",
            Sliding,
            (
                Field("size", Whole(1), "how long a window is, in ticks"),
                Field("slide", Whole(1), "the distance between the beginnings of two windows"),
                Field("start", Maybe(Whole()), "where the first window begins; null: at no tick"),
                Field("slack", Maybe(COUNT), _SLACK.meaning),
                _DERIVED,
                _CLAUSE,
            ),
            "Windows of time.",
        ),
        Record(
            "sliding rows",
            SlidingRows,
            (
                Field("size", Whole(1), "how many tuples a window has"),
                Field("slide", Whole(1), "after how many tuples the next one ends"),
            ),
            "Windows that count tuples.",
        ),
    ),
)
TIME = Record(
    "time",
    TimeAttribute,
    (
        Field("column", COUNT, "which column of the stream"),
        Field("name", Text(), "its name"),
        Field("factor", Number(), "ticks of the query's clock for a unit of the column"),
    ),
    "Where a stream's time is, and how it is read.",
)
_PAIRS = Several(Several(Text(), 2))
STREAM = Record(
    "stream",
    Stream,
    (
        Field("name", Text(), "its name"),
        Field("schema", Columns(), "its columns"),
        Field("time", Maybe(Text()), "the column of its time attribute (`TIMESTAMP BY`)"),
        Field("bounded", Truth(), "whether it is known to end"),
        Field("derived", Truth(), "whether its tuples are the rows of a query"),
        Field("slack", Maybe(Ratio()), "the slack of clauses that have none, in seconds"),
        Field("max_lead", Maybe(Ratio()), "how far ahead of its stream a time may be"),
        Field("left_out", _PAIRS, "columns without a type, each with the reason", True, absent=()),
        Field("usual", _PAIRS, "the usual types of columns with several", True, absent=()),
    ),
    "A stream's declaration.",
)
OUTPUT = Record(
    "output",
    Output,
    (
        Field("name", Text(), "the name of the column"),
        Field("expression", EXPRESSION, "its value"),
    ),
    "A column of the select list.",
)
KEY = Record(
    "key",
    Output,
    (
        Field("expression", EXPRESSION, "its value"),
        Field("name", Text(), "how the key is shown", for_people=True),
    ),
    "A key of GROUP BY.",
)
SORT_KEY = Record(
    "sort key",
    SortKey,
    (
        Field("expression", EXPRESSION, "what is sorted by"),
        Field("descending", Truth(), "whether the largest comes first"),
        Field("nulls_first", Truth(), "whether NULL comes first"),
    ),
    "A key of ORDER BY.",
)
ARGUMENT = Record(
    "argument",
    Argument,
    (
        Field("name", Text(), "its name"),
        Field("value", EXPRESSION, "a column of the input, or a constant"),
    ),
    "An argument of a block of the user's own.",
)
CALL = Record(
    "aggregate",
    Call,
    (
        Field("name", OneOf(tuple(AGGREGATES)), "which aggregate"),
        Field("argument", Maybe(EXPRESSION), "what it is of; null: of rows"),
        Field("type", TypeIndex(), "the type of the result"),
        Field("distinct", Truth(), "whether equal values count once"),
        Field("condition", EXPRESSION, "which rows count (FILTER)"),
    ),
    "An aggregate of the rows of a group.",
)

JOIN_STEP = Record(
    "join step",
    JoinStep,
    (
        Field("kind", OneOf(JOIN_KINDS), "which rows there are"),
        Field("on", EXPRESSION, "the condition, over the inputs up to its own"),
    ),
    "A join of the combinations of all inputs before it with one more input.",
)

_BLOCK = Field("block", BLOCK, "the number of the block that it is for")
_INPUT = Field("input", BLOCK, "the number of the block whose rows it reads")
_REASON = Field("reason", Text(), "why that kernel", for_people=True)
_NUMBERS = Several(COUNT)

JOIN = Record(
    "join",
    JoinStreams,
    (
        _BLOCK,
        Field("inputs", Several(BLOCK, least=2), "the numbers of the blocks that it reads"),
        Field("streams", Several(Text(), least=2), "the names of the inputs"),
        Field("schemas", Several(Columns(), least=2), "the columns of the inputs"),
        Field("windows", Several(WINDOW, least=2), "the windows of the inputs"),
        Field(
            "times",
            Several(Maybe(Nested(TIME)), least=2),
            "their time attributes, if needed",
        ),
        Field("kind", OneOf(JOIN_KINDS), "which rows there are"),
        Field(
            "filters",
            Several(EXPRESSION, least=2),
            "what a tuple of each input must satisfy",
        ),
        Field("compiled", EXPRESSION, "the condition on pairs that kernels evaluate"),
        Field("residual", EXPRESSION, "the condition on the pairs that are left"),
        Field("columns", Several(_NUMBERS, least=2), "the columns of each input that are read"),
        Field("float_clock", Truth(), "whether ticks are floats"),
        Field("kernel", OneOf(tuple(JOIN_KERNELS)), "how partners are found"),
        Field("kernel_is_forced", Truth(), "whether that kernel was asked for"),
        _REASON,
        Field(
            "steps",
            Several(Nested(JOIN_STEP)),
            "the joins of a tree after its inner join, one for each of the last inputs",
        ),
    ),
    "Join two or more inputs.",
)
SELECT = Record(
    "select",
    SelectRows,
    (
        _BLOCK,
        _INPUT,
        Field("condition", EXPRESSION, "which rows are kept"),
        Field("columns", Maybe(_NUMBERS), "the columns that are handed on; null: all"),
    ),
    "Keep the rows that satisfy a condition.",
)
PROJECT = Record(
    "project",
    ProjectColumns,
    (
        _BLOCK,
        _INPUT,
        Field("columns", Several(Nested(OUTPUT)), "the columns of the select list"),
    ),
    "Compute the select list.",
)

INSTRUCTIONS = Union(
    "instruction",
    (
        Record(
            "scan",
            ScanStream,
            (_BLOCK, Field("stream", Nested(STREAM), "the stream")),
            "Read a stream.",
        ),
        JOIN,
        Record(
            "aggregate",
            AggregateRows,
            (
                _BLOCK,
                _INPUT,
                Field("stream", Text(), "the name of its input; empty if that is a join"),
                Field("where", EXPRESSION, "which rows count"),
                Field("keys", Several(Nested(KEY)), "what is grouped by"),
                Field("calls", Several(Nested(CALL)), "what is computed of a group"),
                Field("window", Maybe(AGGREGATE_WINDOW), "its windows; null: the whole input"),
                Field("time", Maybe(Nested(TIME)), "its time attribute, if it needs one"),
                Field("emit_empty", Truth(), "whether empty windows have rows (EMIT EMPTY)"),
                Field("schema", Columns(named=False), "the columns of its rows"),
                Field("kernel", OneOf(tuple(AGGREGATE_KERNELS)), "how windows are aggregated"),
                Field("groups", Several(EXPRESSION), "the keys over whole tuples of the streams"),
                Field("counted", Several(Nested(CALL)), "the calls over whole tuples"),
                _REASON,
            ),
            "Aggregate rows by window and group.",
        ),
        SELECT,
        Record(
            "order",
            OrderRows,
            (
                _BLOCK,
                _INPUT,
                Field("sort", Several(Nested(SORT_KEY)), "what rows are sorted by"),
                Field("limit", Maybe(COUNT), "how many rows are kept; null: all"),
                Field("window_column", Maybe(COUNT), "the column that tells windows apart"),
            ),
            "Sort and cut the rows of a window, or of the whole.",
        ),
        PROJECT,
        Record(
            "own",
            OwnRows,
            (
                _BLOCK,
                _INPUT,
                Field("name", Text(), "what SQL calls the block"),
                Field("implementation", Text(), "where its class is, `module:Class`"),
                Field("arguments", Several(Nested(ARGUMENT)), "its arguments"),
            ),
            "Let rows go through a block of the user's own.",
        ),
        Record(
            "screen",
            ScreenRows,
            (
                _BLOCK,
                _INPUT,
                Field("stream", Text(), "the name of the rows"),
                Field("time", Maybe(Nested(TIME)), "their time attribute; null: none is needed"),
                Field("float_clock", Truth(), "whether ticks are floats"),
            ),
            "Set aside the rows of a user's own block whose time windows cannot use.",
        ),
        Record(
            "union",
            UnionRows,
            (_BLOCK, Field("inputs", Several(BLOCK, least=1), "the blocks whose rows it reads")),
            "Put the rows of several inputs into one.",
        ),
    ),
)

RESET = Record(
    "reset",
    ResetBlock,
    (
        Field("result_port", OneOf(RESULT_PORTS), "where the rows of the query leave the block"),
        Field("every_query", Truth(), "whether all queries leave the block"),
    ),
    "Empty the Query Buffer and the windows, and set the result port.",
)
BYPASS = Record("bypass", Bypass, (), "Forget the query: what it reads passes by.")
READ_PORTS = Record(
    "ports",
    ReadPorts,
    (
        Field("streams", Several(COUNT, least=1), "the streams that a query reads in a block"),
        Field("ports", Several(OneOf(PORTS), least=1), "the port by which each comes"),
        Field("gives", Maybe(COUNT), "the stream that its rows are; null: none"),
    ),
    "Read streams of the topology, in the order of the query's inputs.",
    check=check_ports,
)
PART = Record(
    "part",
    JoinPart,
    (
        Field("part", COUNT, "the place of the block, from 0"),
        Field("parts", Whole(1), "how many blocks the join spans"),
        Field("window", COUNT, "how many tuples of each stream the block has room for"),
    ),
    "A block's place in a join that spans several, from the left.",
    check=check_part,
)
BODIES = Union("body", (SELECT, PROJECT, JOIN, RESET, BYPASS, READ_PORTS, PART))
"""What an instruction for an OP-Block says; words say the same in bits."""

FLOW = Record(
    "flow",
    FlowChoice,
    (
        Field("name", Maybe(OneOf(tuple(FLOWS))), "the flow"),
        Field("cores", Maybe(Whole(1)), "among how many cores"),
        Field("branching", Maybe(Whole(2)), "how many branches a node of its tree has"),
        Field("precision", Maybe(Whole(1)), "the precision of the order"),
        Field("admission", Maybe(OneOf(ADMISSIONS)), "what happens to input when output is full"),
        Field(
            "design", Maybe(OneOf(DESIGN_NAMES)), "the design of joins of three and more streams"
        ),
        Field("probe_order", Maybe(OneOf(PROBE_ORDERS)), "how such a join orders its probes"),
        Field("stash", Maybe(Whole(1)), "the pairs that the stash of the design stashed holds"),
        Field(
            "blocks", Maybe(Several(Whole(1), least=1)), "the blocks of a topology that serve it"
        ),
    ),
    "How cores share joins, as far as it was asked for; null: the engine decides.",
)

PROGRAM = Record(
    "program",
    Program,
    (
        Field(
            "instructions", Several(INSTRUCTIONS, least=1), "the instructions for blocks, in order"
        ),
        Field("schema", Columns(), "the columns of the result"),
        Field("order", OneOf(ORDERS), "the order of the rows (EMIT ORDER)"),
        Field("precision", Whole(1), "how exact that order is (PRECISION)"),
        Field("flow", Nested(FLOW), "how cores are to share it", placement=True),
        Field("text", Text(), "the SQL", for_people=True),
    ),
    "A query, compiled.",
    check=check_program,
)

_NAME = Field("query", Text(), "the name of the query or derived stream")
_PROGRAM = Field("program", Nested(PROGRAM), "the query, compiled")

SENT = Union(
    "message",
    (
        PROGRAM,
        Record(
            "create",
            CreateStream,
            (Field("stream", Nested(STREAM), "the stream"),),
            "Declare a stream that tuples can be pushed to.",
        ),
        Record(
            "derive",
            Derive,
            (Field("name", Text(), "the name of the stream"), _PROGRAM),
            "Start a query whose rows are a stream.",
        ),
        Record(
            "install",
            Install,
            (
                _NAME,
                _PROGRAM,
                Field("order", Maybe(OneOf(ORDERS)), "the order that was asked for"),
                Field("kernel", Maybe(OneOf(ALL_KERNELS)), "the kernel that was asked for"),
            ),
            "Start a query, with empty windows. What was asked for holds for changes too.",
        ),
        Record("change", Change, (_NAME, _PROGRAM), "Give a query another program."),
        Record("drop", Drop, (_NAME,), "Stop a query, or forget a derived stream."),
        Record("reset", Reset, (), "Forget every query and every stream."),
    ),
)
"""What stands alone: a program, or an instruction that a user sends."""
