"""Writes ``docs/isa.md`` from the table of forms.

``python -m penstock.program.isa.words.document > docs/isa.md`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import pyarrow as pa

from penstock.program.isa.block_instructions import JoinStreams, ProjectColumns, SelectRows
from penstock.program.isa.op_instructions import JoinPart, OPInstruction, ReadPorts, ResetBlock
from penstock.program.isa.words.assembly import disassemble, to_hex
from penstock.program.isa.words.codes import OPERATORS, TYPES
from penstock.program.isa.words.encoding import encode
from penstock.program.isa.words.forms import (
    FORMS,
    INSTS,
    SEQUENCE,
    BitField,
    Form,
    Q,
    S,
)
from penstock.program.isa.words.layout import WordLayout, option
from penstock.program.isa.words.packing import FieldInChunk, address, control, further
from penstock.sql.expressions import TRUE, Call, Column, Literal
from penstock.sql.plan import Output
from penstock.streams.display import counted
from penstock.streams.windows import Rows

LAYOUT = WordLayout()

BEGINNING = """# The instruction set

`python -m penstock.program.isa.words.document` writes this page from the table of forms that
encodes, decodes, assembles and disassembles words (`src/penstock/program/isa/words/forms.py`).

The blocks of a topology are programmed by *words* that travel with the tuples (Najafi 2019
§4.1.2). An instruction has a number of *chunks* of nine bytes, as a tuple is one: a byte with S and
Q, and a part as wide as the port. Of the chunks of an instruction the first one has Inst, the
number of the block that it is for (B-ID), and the number of its chunks (CC), so that a block passes
on what is not for it without decoding it.

- The dissertation gives the chunk of nine bytes, S, Q, Inst of two bits, B-ID of four, attribute
  and value of four bytes each in the bytes 2 to 5 and 6 to 9, which fields an instruction has, and
  how many chunks: selection three, projection and join two, reset one. The places of the other
  fields, and their widths, are chosen here.
- Several instructions that say one thing together are a *series*: the comparisons of a condition,
  the attributes of a select list with their names. In each, `more` says how many are still to come.
- What no short form can say (other expressions, constants that do not fit `value`, schemas,
  windows of time, residual conditions, computed columns) is a *text*: the JSON of a record of
  [program.md](program.md), with its tables of types, constants and expressions, cut into chunks,
  and the last one filled with zeros. A text that is longer than CC can count goes on in the next
  instruction of the series.
- A body has one encoding: the short forms if they can say it, else the text. What says the same in
  another way is refused. Names for people (those of columns in expressions, reasons) are not sent.
- A condition is in short forms if it is a conjunction of disjunctions of comparisons of a column
  with a constant, and of `IS [NOT] NULL`; so are `IN` lists, and disjunctions of conjunctions whose
  product is short. A comparison that does not hold leaves its clause to the others, whichever
  segment of the tuple they are of.
- Bits that no field has are 0.
- Words that are malformed are refused with a `ProgramError` that names the instruction, the chunk
  and the field, as in `instruction 2 (byte 27), chunk 3, operator: expected 0 to 7, found 10`.

## Text

`penstock asm FILE [--out FILE] [--format hex|bytes] [--bits b-id=8 …]` makes words of a text, and
`penstock disasm FILE` shows the text of words, which makes the same words again. `--topology
FILE|NAME` gives the words the widths of a [topology](topologies.md). A line is an instruction: its
form, `name=value` for the fields of its first chunk, and after each `|` for those of a further one;
a form that has a text ends with that. A line that begins with `+` is of the same series as the line
before it, whose block, query, step and input it has. `;` begins a comment. The assembler counts
chunks and instructions. In text `block` is the number of the block, which is B-ID and 1, a field
with words is written as one of them, and `value` as the constant that it is: a number, `true` or
`false`, for dates the days since 1970-01-01, for timestamps their units since then.

## Chunks

Bits are counted from the left, from 1; bytes too. These are the usual widths.
"""

POLICIES = BitField("policies", lambda layout: layout.policies, "what a reset has of its own")
AGE = Column(0, 1, "Age", pa.int32())


def page() -> str:
    """The whole page."""
    return "\n".join([BEGINNING, *_sections()])


def _sections() -> Iterator[str]:
    yield "The first chunk of an instruction:\n"
    head = next(one for one in FORMS if one.has_steps)
    counts, more = control(LAYOUT, head)[:3], control(LAYOUT, head)[3:]
    at = more[0].shift + more[0].ones.bit_length()
    policies = FieldInChunk(POLICIES, at, (1 << LAYOUT.policies) - 1)
    yield from _bits((*address(LAYOUT), *counts, policies, *more))
    yield "`policies`, `step` and `input` are 0 in the forms that do not have them.\n"
    yield "The header of every further chunk, before the bits of its form:\n"
    yield from _bits(_from_left((S, Q, SEQUENCE)))
    yield "A tuple, or a segment of one, with as many attribute-value pairs as the port holds:\n"
    yield from _bits(_from_left(_tuple_fields()))
    yield from _widths()
    yield "## Codes\n"
    yield "| field | codes |\n| --- | --- |"
    for name, words in (("Inst", INSTS), ("operator", OPERATORS), ("type", TYPES)):
        coded = ", ".join(f"{code} `{word}`" for code, word in enumerate(words))
        yield f"| `{name}` | {coded} |"
    yield ""
    for inst in INSTS:
        yield f"## {inst.capitalize()}\n"
        for form in FORMS:
            if form.inst == inst:
                yield from _form(form)
    yield from _examples()


def _form(form: Form) -> Iterator[str]:
    yield f"### {form.name}\n\n{form.meaning}\n"
    further_ones = len(form.chunks)
    chunks = counted(1 + further_ones, "chunk")
    if form.repeated is not None:
        chunks = f"{2 + further_ones} chunks or more"
    if form.text is not None:
        chunks = "2 chunks or more"
    steps = ", `step` and `input`" if form.has_steps else ""
    yield f"Inst {INSTS.index(form.inst)}, form {form.code}, {chunks}{steps}.\n"
    if form.policies:
        yield "Policies:\n"
        placed = {one.field: one for one in control(LAYOUT, form)}
        yield from _bits([placed[one] for one in form.policies])
    for number, _ in enumerate(form.chunks):
        yield f"Chunk {number + 2}:\n"
        yield from _bits(further(LAYOUT, form, number))
    if form.repeated is not None:
        yield "Each further chunk:\n"
        yield from _bits(further(LAYOUT, form, further_ones))
    if form.text is not None:
        yield f"Further chunks: {form.text}.\n"


def _bits(placed: Iterable[FieldInChunk]) -> Iterator[str]:
    size = LAYOUT.chunk_bytes * 8
    yield "| bits | bytes | field | width | meaning |\n| --- | --- | --- | --- | --- |"
    for one, shift, ones in placed:
        width = ones.bit_length()
        first = size - shift - width + 1
        yield (
            f"| {_span(first, first + width - 1)} | "
            f"{_span((first - 1) // 8 + 1, (first + width - 2) // 8 + 1)} | `{one.name}` | {width} "
            f"| {_meaning(one)} |"
        )
    yield ""


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _meaning(one: BitField) -> str:
    if one.words is None or one.words in (OPERATORS, TYPES, INSTS):
        return one.meaning
    return f"{one.meaning}: {', '.join(f'{i} `{word}`' for i, word in enumerate(one.words))}"


def _from_left(given: Sequence[BitField]) -> list[FieldInChunk]:
    placed, at = [], LAYOUT.chunk_bytes * 8
    for one in given:
        at -= one.width(LAYOUT)
        placed.append(FieldInChunk(one, at, (1 << one.width(LAYOUT)) - 1))
    return placed


def _tuple_fields() -> tuple[BitField, ...]:
    return (
        BitField("S", lambda layout: 1, "the stream of the tuple: 0 R, 1 S"),
        BitField("Q", lambda layout: 1, "0: a tuple"),
        BitField("reserved", lambda layout: layout.header_bits - 2, "0"),
        BitField("attribute", lambda layout: layout.attribute, "which attribute"),
        BitField("value", lambda layout: layout.value, "its value"),
    )


def _widths() -> Iterator[str]:
    yield "## Widths\n"
    yield (
        "The widths are parameters of a topology. The header has whole bytes, and grows where S, "
        "Q, Inst and B-ID need more, or the rest of the first chunk does not fit the port. "
        "`--bits` gives a width by its name there.\n"
    )
    yield "| field | `--bits` | usual bits | least | what it is |\n| --- | --- | --- | --- | --- |"
    for one in fields(WordLayout):
        about = one.metadata
        yield (
            f"| {about['name']} | `{option(one.name)}` | {one.default} | {about['least']} | "
            f"{about['meaning']} |"
        )
    yield (
        "\nA port holds an attribute and a value, or an attribute and a condition, or a stream "
        f"with port and role. A clause has the {LAYOUT.clause} bits of a condition that operator, "
        "type and side leave.\n"
    )


# -- examples -------------------------------------------------------------------------------


def selection_example() -> list[OPInstruction]:
    """The query of Najafi 2019 §4.1.4, on block 1."""
    older = Call("gt", (AGE, Literal(25, pa.int32())), pa.bool_())
    names = (Output("Name", Column(0, 0, "Name", pa.string())),)
    price = (Output("Price", Column(0, 2, "Price", pa.int32())),)
    bodies = (
        ResetBlock("final"),
        ReadPorts((0,), ("r",)),
        SelectRows(1, 0, older),
        ProjectColumns(2, 1, names + price),
    )
    return [OPInstruction(1, 0, body) for body in bodies]


def join_example() -> list[OPInstruction]:
    """The first block of a join with windows of 1,536 that spans three blocks."""
    int32 = pa.int32()
    names = (("Name", pa.string()), ("Age", int32), ("Product_ID", int32))
    customer = pa.schema([pa.field(name, kind) for name, kind in names])
    product = pa.schema([pa.field("Product_ID", int32), pa.field("Price", int32)])
    keys = (
        Column(0, 2, "Product_ID", pa.int32()),
        Column(1, 0, "Product_ID", pa.int32()),
    )
    join = JoinStreams(
        2,
        (0, 1),
        ("Customer", "Product"),
        (customer, product),
        (Rows(1536), Rows(1536)),
        (None, None),
        "inner",
        (TRUE, TRUE),
        Call("eq", keys, pa.bool_()),
        TRUE,
        ((0,), (1,)),
        False,
        "hash",
        "",
    )
    bodies = (ResetBlock("final"), ReadPorts((0, 1), ("r", "s")), JoinPart(0, 3, 512), join)
    return [OPInstruction(2, 0, body) for body in bodies]


def _examples() -> Iterator[str]:
    yield "## Two examples\n"
    yield (
        "`SELECT Name, Price FROM Customer WHERE Age > 25` (§4.1.4) on block 1, as query 0, over "
        "stream 0 with the columns Name, Age and Price:\n"
    )
    yield from _example(selection_example())
    yield (
        "Chunk 3 of the selection, `424030000000000000`, is S 0, Q 1, sequence 2; then operator "
        "4 (`gt`), type 3 (`int32`), side 0, clause 0; and 32 zeros.\n"
    )
    yield (
        "`SELECT Name, Price FROM Customer [ROWS 1536] c JOIN Product [ROWS 1536] p ON "
        "c.Product_ID = p.Product_ID`, the first of three blocks with room for 512 tuples of each "
        "stream, block 2:\n"
    )
    yield from _example(join_example())
    yield "The beginning of its words:\n"
    words = to_hex(encode(join_example(), LAYOUT), LAYOUT).splitlines()
    yield "```text\n" + "\n".join(words[:12]) + "\n```"


def _example(sent: Sequence[OPInstruction]) -> Iterator[str]:
    words = encode(sent, LAYOUT)
    yield f"```text\n{disassemble(words, LAYOUT)}```\n"
    if len(words) < 40 * LAYOUT.chunk_bytes:
        yield f"```text\n{to_hex(words, LAYOUT)}```\n"


if __name__ == "__main__":
    print(page())
