"""The table of forms: each instruction, its chunks, and the fields of bits in them.

Encoder, decoder, assembler, disassembler and ``docs/isa.md`` follow from this table. What a field
means is not said again here: it is that of a field of a record in
:mod:`penstock.program.isa.table`, which is the table of what bodies say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.program.isa.codecs import OneOf, Record, Several, Truth
from penstock.program.isa.op_instructions import PORTS
from penstock.program.isa.table import BYPASS, JOIN, PART, PROJECT, READ_PORTS, RESET, SELECT
from penstock.program.isa.words.codes import OPERATORS, TYPES
from penstock.program.isa.words.layout import (
    OPERATOR_BITS,
    RESULT_PORT_BITS,
    SIDE_BITS,
    TRUTH_BITS,
    TYPE_BITS,
    WordLayout,
)

INSTS = ("selection", "projection", "join", "reset")
"""The instructions, by the bits of Inst."""


@dataclass(frozen=True, eq=False)
class BitField:
    """A field of bits in a chunk.

    Parameters
    ----------
    name
        What it is called in text and in errors.
    width
        How many bits it has.
    meaning
        What it says.
    words
        What its numbers stand for; None: for themselves.
    is_optional
        Whether a text may leave it out where it is 0.
    """

    name: str
    width: Callable[[WordLayout], int]
    meaning: str
    words: tuple[str, ...] | None = None
    is_optional: bool = False


def _fixed(width: int) -> Callable[[WordLayout], int]:
    return lambda layout: width


def _of(
    record: Record, name: str, width: Callable[[WordLayout], int], called: str = ""
) -> BitField:
    """The bits for a field of a record, with its name, its meaning and its words."""
    one = record.field(name)
    codec = one.codec.of if isinstance(one.codec, Several) else one.codec
    words = None
    if isinstance(codec, OneOf):
        words = codec.words
    elif isinstance(codec, Truth):
        words = ("no", "yes")
    return BitField(called or name, width, one.meaning, words, isinstance(codec, Truth))


def _half(layout: WordLayout) -> int:
    return layout.attribute // 2


S = BitField("S", _fixed(1), "1 in the first chunk of an instruction, 0 in those after it")
Q = BitField("Q", _fixed(1), "1: an instruction; 0: a tuple")
INST = BitField("Inst", lambda layout: layout.inst, "which instruction", INSTS)
B_ID = BitField("B-ID", lambda layout: layout.b_id, "the number of the block, less one")
CC = BitField("CC", lambda layout: layout.cc, "how many chunks the instruction has")
QUERY = BitField("query", lambda layout: layout.query, "the number of the query; results carry it")
FORM = BitField("form", lambda layout: layout.form, "which form of the instruction")
MORE = BitField("more", lambda layout: layout.more, "how many instructions of its series follow")
STEP = BitField("step", lambda layout: layout.step, "the number of the block in the program")
INPUT = _of(SELECT, "input", lambda layout: layout.step)
SEQUENCE = BitField(
    "sequence",
    lambda layout: layout.header_bits - 2,
    "the number of the chunk in its instruction, from 0 for the first; the lowest bits of it",
)

ATTRIBUTE = BitField(
    "attribute", lambda layout: layout.attribute, "the number of a column of the input, from 0"
)
VALUE = BitField("value", lambda layout: layout.value, "the constant; 0 for NULLs")
OPERATOR = BitField("operator", _fixed(OPERATOR_BITS), "how attribute and value compare", OPERATORS)
TYPE = BitField("type", _fixed(TYPE_BITS), "the type of the attribute, and of the value", TYPES)
SIDE = BitField(
    "side", _fixed(SIDE_BITS), "the input of a join that the attribute is of, from 0", None, True
)
CLAUSE = BitField(
    "clause",
    lambda layout: layout.clause,
    "the clause that the comparison is in, from 0: all clauses have to hold, and of a clause one "
    "comparison",
    is_optional=True,
)


@dataclass(frozen=True, eq=False)
class Form:
    """A form of an instruction.

    Parameters
    ----------
    name
        Its mnemonic.
    inst, code
        Which instruction it is a form of, and the number of the form.
    record
        The record of bodies that it says something of.
    meaning
        What it says.
    has_steps
        Whether its first chunk has ``step`` and ``input``.
    policies
        The fields of its policies.
    chunks
        The fields of each chunk after the first.
    repeated
        The fields of each of any number of chunks after those.
    text
        What the text is that its further chunks have; None: no text.
    """

    name: str
    inst: str
    code: int
    record: Record
    meaning: str
    has_steps: bool = False
    policies: tuple[BitField, ...] = ()
    chunks: tuple[tuple[BitField, ...], ...] = ()
    repeated: tuple[BitField, ...] | None = None
    text: str | None = None

    def chunk(self, number: int) -> tuple[BitField, ...]:
        """The fields of a chunk after the first, by its number, from 0."""
        return self.chunks[number] if number < len(self.chunks) else self.repeated or ()


_TABLE = "JSON of the record `{}` of [program.md](program.md), without `is` and what is for people"

FORMS = (
    Form(
        "selection",
        "selection",
        0,
        SELECT,
        "One comparison of an attribute with a value. A condition in clauses is a series of these, "
        "clause after clause.",
        True,
        chunks=(
            (ATTRIBUTE, VALUE),
            (OPERATOR, TYPE, SIDE, CLAUSE),
        ),
    ),
    Form("selection.all", "selection", 1, SELECT, "Keep every row.", True),
    Form(
        "selection.columns",
        "selection",
        2,
        SELECT,
        "The columns that are handed on, a chunk each; it ends a series of selections. Without it "
        "all are.",
        True,
        repeated=(ATTRIBUTE,),
    ),
    Form(
        "selection.table",
        "selection",
        3,
        SELECT,
        "A selection by any other condition.",
        text=_TABLE.format("select"),
    ),
    Form(
        "projection",
        "projection",
        0,
        PROJECT,
        "One attribute of the result.",
        True,
        chunks=((ATTRIBUTE, TYPE, SIDE),),
    ),
    Form(
        "projection.names",
        "projection",
        1,
        PROJECT,
        "The names of the attributes; it ends a series of projections.",
        True,
        text="JSON list of the names",
    ),
    Form(
        "projection.table",
        "projection",
        2,
        PROJECT,
        "A projection with computed columns.",
        text=_TABLE.format("project"),
    ),
    Form(
        "join",
        "join",
        0,
        JOIN,
        "One comparison of an attribute of R with one of S. The `compiled` condition of a join is "
        "a series of these, if it is in clauses, clause after clause.",
        chunks=(
            (
                BitField("r", _half, "the number of the column of R, from 0"),
                BitField("s", _half, "the number of the column of S, from 0"),
                BitField("operator", _fixed(OPERATOR_BITS), "how the two compare", OPERATORS),
                BitField("type", _fixed(TYPE_BITS), "the type of both", TYPES),
                BitField("left", _fixed(SIDE_BITS), "whose column stands on the left", PORTS, True),
                CLAUSE,
            ),
        ),
    ),
    Form(
        "join.windows",
        "join",
        1,
        JOIN,
        "The `windows` of a join, if both count tuples; it begins a series.",
        chunks=(
            (
                BitField("r", lambda layout: layout.port // 2, "how many tuples of R are live"),
                BitField("s", lambda layout: layout.port // 2, "how many tuples of S are live"),
            ),
        ),
    ),
    Form(
        "join.table",
        "join",
        2,
        JOIN,
        "What is left of a join; it ends a series.",
        text=_TABLE.format("join")
        + ", and without `windows` and `compiled` where they are said before "
        "it in the series",
    ),
    Form(
        "reset",
        "reset",
        0,
        RESET,
        RESET.meaning,
        policies=(
            _of(RESET, "result_port", _fixed(RESULT_PORT_BITS)),
            _of(RESET, "every_query", _fixed(TRUTH_BITS)),
        ),
    ),
    Form("bypass", "reset", 1, BYPASS, BYPASS.meaning),
    Form(
        "ports",
        "reset",
        2,
        READ_PORTS,
        READ_PORTS.meaning + " A chunk for each, and one for the stream that its rows are, if they "
        "are one.",
        repeated=(
            BitField(
                "stream", lambda layout: layout.stream, "the number of a stream of the topology"
            ),
            _of(READ_PORTS, "ports", _fixed(1), called="port"),
            BitField("role", _fixed(1), "whether it is read or given", ("reads", "gives"), True),
        ),
    ),
    Form(
        "part",
        "reset",
        3,
        PART,
        PART.meaning,
        chunks=(
            (
                _of(PART, "part", lambda layout: layout.port // 4),
                _of(PART, "parts", lambda layout: layout.port // 4),
                _of(PART, "window", lambda layout: layout.port // 2),
            ),
        ),
    ),
)
"""Every form. Its number and that of its instruction are its bits: new ones go behind the others of
their instruction."""


FORM_OF = {(INSTS.index(one.inst), one.code): one for one in FORMS}
"""Each form by the bits of Inst and of its number."""
FORM_NAMED = {one.name: one for one in FORMS}
"""Each form by its name."""


@dataclass(frozen=True)
class Word:
    """An instruction as the numbers in its fields; ``text`` is that of its further chunks.

    ``policies`` and ``chunks`` are in the order of the fields of its form.
    """

    form: Form
    block: int
    query: int
    step: int = 0
    input: int = 0
    policies: tuple[int, ...] = ()
    chunks: tuple[tuple[int, ...], ...] = ()
    text: bytes = b""
    more: int = 0
