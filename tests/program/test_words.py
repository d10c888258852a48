"""Words: their layout, round trips, damages, and the errors that name a field of bits."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns import words as campaign
from tests.effort import examples
from tests.op_instructions import LAYOUTS, addressed, control, plain
from tests.programs import compiled, conformance, programs_in
from tests.random_scripts import Q, R, S, scripts
from tests.steps import Step

from penstock.errors import InputError, ProgramError
from penstock.oracle.evaluate import Failures, evaluate
from penstock.program.isa.block_instructions import Program, ProjectColumns, SelectRows
from penstock.program.isa.encoding import record_to_json
from penstock.program.isa.instructions import CreateStream, Derive, Drop, Install, Instruction
from penstock.program.isa.op_instructions import (
    Body,
    Bypass,
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
)
from penstock.program.isa.table import BODIES, SELECT
from penstock.program.isa.words.clauses import clauses_of, condition_of
from penstock.program.isa.words.decoding import decode
from penstock.program.isa.words.document import join_example, page, selection_example
from penstock.program.isa.words.encoding import encode, words_of
from penstock.program.isa.words.forms import FORM_NAMED, FORM_OF, FORMS, Word
from penstock.program.isa.words.layout import WordLayout, layout_from
from penstock.program.isa.words.packing import instructions, pack
from penstock.sql.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    chain,
    conjunction,
)
from penstock.sql.plan import Output

LAYOUT = WordLayout()
BOOL, INT, TEXT = pa.bool_(), pa.int32(), pa.string()
NAME, AGE = Column(0, 0, "Name", TEXT), Column(0, 1, "Age", INT)


def compare(op: str, column: Column, value: object) -> Call:
    return Call(op, (column, Literal(value, column.type)), BOOL)


def forms(instruction: OPInstruction, layout: WordLayout = LAYOUT) -> list[str]:
    return [word.form.name for word in words_of(instruction, layout)]


def bits(words: bytes, layout: WordLayout = LAYOUT) -> list[str]:
    """Each chunk as its bits."""
    size = layout.chunk_bytes
    chunks = (words[at : at + size] for at in range(0, len(words), size))
    return [f"{int.from_bytes(chunk):0{size * 8}b}" for chunk in chunks]


def select(condition: Expression, columns: tuple[int, ...] | None = None) -> OPInstruction:
    return OPInstruction(3, 5, SelectRows(1, 0, condition, columns))


OLDER = select(compare("gt", AGE, 25))


# -- the layout -----------------------------------------------------------------------------


def test_a_selection_is_three_chunks_of_nine_bytes_with_the_published_fields() -> None:
    words = encode([OLDER], LAYOUT)
    assert len(words) == 3 * 9
    assert bits(words) == [
        # S, Q, Inst (selection), B-ID (block 3), CC, query, form, policies, more, step, input
        "1" "1" "00" "0010" + f"{3:016b}" + f"{5:016b}" + "0000" "0000" + "00000000" "00000001"
        "00000000",
        # S, Q, sequence; attribute in bytes 2 to 5, value in bytes 6 to 9
        "0" "1" "000001" + f"{1:032b}" + f"{25:032b}",
        # S, Q, sequence; operator (gt), type (int32), side, clause
        "0" "1" "000010" + "0100" "00000011" "0000" + f"{0:016b}" + "0" * 32,
    ]  # fmt: skip


def test_an_attribute_of_a_projection_is_two_chunks_and_its_name_follows() -> None:
    project = OPInstruction(3, 5, ProjectColumns(2, 1, (Output("Name", NAME),)))
    assert bits(encode([project], LAYOUT)) == [
        "1" "1" "01" "0010" + f"{2:016b}" + f"{5:016b}" + "0000" "0000" + "00000001" "00000010"
        "00000001",
        "0" "1" "000001" + f"{0:032b}" + f"{17:08b}" "0000" + "0" * 20,
        "1" "1" "01" "0010" + f"{2:016b}" + f"{5:016b}" + "0001" "0000" + "00000000" "00000010"
        "00000001",
        "0" "1" "000001" + "".join(f"{byte:08b}" for byte in b'["Name"]'),
    ]  # fmt: skip


def test_a_reset_is_one_chunk_with_its_policies() -> None:
    reset = OPInstruction(16, 65535, ResetBlock("both", True))
    assert bits(encode([reset], LAYOUT)) == [
        "1" "1" "11" "1111" + f"{1:016b}" + "1" * 16 + "0000" "10" "1" "0" + "0" * 24
    ]  # fmt: skip


def test_a_comparison_of_a_join_is_two_chunks(program: Callable[..., Program]) -> None:
    body = program("SELECT a.x FROM R [ROWS 4] a JOIN R [ROWS 5] b ON b.i = a.i").joins[0]
    windows, comparison, *table = words_of(OPInstruction(1, 0, body), LAYOUT)
    assert windows.chunks == ((4, 5),)
    assert comparison.chunks == ((3, 3, 0, 4, 1, 0),)
    assert {word.form.name for word in table} == {"join.table"}
    assert (windows.more, comparison.more) == (2, 1)


def test_the_header_grows_where_fields_do_not_fit() -> None:
    assert LAYOUT.chunk_bytes == 9
    assert WordLayout(b_id=5).chunk_bytes == 10
    assert WordLayout(query=17).chunk_bytes == 10
    assert WordLayout(inst=1 + 1, b_id=12).header_bits == 16
    assert WordLayout(port=128).chunk_bytes == 17
    assert WordLayout.fitting(1000, 1 << 17, 3) == WordLayout(b_id=10, query=17)


WRONG_LAYOUTS: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"b-id": 0},
        "the width of B-ID is 0\nWrite a number of bits from 1 to 4096.",
    ),
    (
        {"condition": 16},
        "the width of condition is 16\nWrite a number of bits from 17 to 4096.",
    ),
    (
        {"port": 65},
        "the width of port is 65 bits\nWrite whole bytes: a multiple of 8.",
    ),
    (
        {"value": 40},
        "attribute and value need 72 bits, and the port has 64\n"
        "Make the port at least 72 bits wide, or the fields narrower.",
    ),
    (
        {"colour": 3},
        "words have no field 'colour'\n"
        "Write one of port, inst, b-id, query, stream, cc, attribute, value, condition, policies, "
        "form, more, step.",
    ),
)


@pytest.mark.parametrize(("widths", "message"), WRONG_LAYOUTS, ids=str)
def test_a_layout_that_cannot_be_is_refused(widths: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        layout_from(widths)
    assert str(caught.value) == message


# -- round trips ----------------------------------------------------------------------------


def check_round_trip(sent: Sequence[OPInstruction], layout: WordLayout = LAYOUT) -> None:
    words = encode(sent, layout)
    found = decode(words, layout)
    assert encode(found, layout) == words
    assert len(found) == len(sent)
    for one, other in zip(sent, found, strict=True):
        if isinstance(one.body, SelectRows) and not isinstance(one.body.condition, Literal):
            check_selection(one, other, layout)
        else:
            assert plain(one) == plain(other)


def check_selection(one: OPInstruction, other: OPInstruction, layout: WordLayout) -> None:
    """A condition in clauses comes back as the same clauses, any other as it was."""
    given, got = plain(one).body, plain(other).body
    assert isinstance(given, SelectRows) and isinstance(got, SelectRows)
    if forms(one, layout)[0] == "selection":
        limit = 1 << layout.more
        assert clauses_of(got.condition, limit) == clauses_of(given.condition, limit)
        assert given.columns == got.columns
        assert (one.block, one.query) == (other.block, other.query)
    else:
        assert plain(one) == plain(other)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: str(layout.chunk_bytes))
def test_the_parts_of_every_conformance_script_are_decoded_as_they_were(
    layout: WordLayout,
) -> None:
    chance = random.Random(1)
    sent = addressed((p for those in conformance().values() for p in programs_in(those)), chance)
    assert len(sent) > 500
    check_round_trip(sent, layout)
    check_round_trip([control(chance) for _ in range(500)], layout)


def programs_of(steps: list[Step]) -> list[Program]:
    made: list[Instruction] = [CreateStream(stream) for stream in (R, S, Q)]
    for step in steps:
        if step.verb == "derive":
            made.append(Derive(step.subject, step.value))
        elif step.verb in ("install", "change"):
            made.append(Install(step.subject, step.value))
        elif step.verb == "drop":
            made.append(Drop(step.subject))
    return programs_in(compiled(made))


@given(scripts(derived=True, multiway=True), st.randoms(), st.sampled_from(LAYOUTS))
def test_the_parts_of_random_queries_are_decoded_as_they_were(
    steps: list[Step], chance: random.Random, layout: WordLayout
) -> None:
    sent = [*addressed(programs_of(steps), chance), control(chance)]
    chance.shuffle(sent)
    check_round_trip(sent, layout)


def test_every_short_form_is_used(program: Callable[..., Program]) -> None:
    def parts(sql: str) -> list[list[str]]:
        return [forms(one) for one in addressed([program(sql)], random.Random(0))]

    assert parts("SELECT x FROM R WHERE x > 5") == [
        ["selection", "selection.columns"],
        ["projection", "projection.names"],
    ]
    clauses = "(x > 5 OR d IS NOT NULL) AND x IN (1, 2) AND 3 < i"
    assert parts(f"SELECT k FROM R WHERE {clauses}")[0] == [
        *["selection"] * 5,
        "selection.columns",
    ]
    assert parts("SELECT x + 1 AS y FROM R WHERE k = 'a'") == [
        ["selection.table"],
        ["projection.table"],
    ]
    join = "SELECT a.x FROM R [ROWS 4] a JOIN R [{}] b ON {}"
    assert parts(join.format("ROWS 5", "a.k = b.k AND a.x < b.x"))[0] == [
        *["join.windows", "join", "join", "join.table"]
    ]
    assert parts(join.format("RANGE 1 MINUTE WATTR t", "a.x + 1 < b.x + b.i"))[0] == ["join.table"]


X, Y, Z = (Column(0, i, name, INT) for i, name in enumerate("xyz"))
COMPARISONS = st.builds(
    compare,
    st.sampled_from(("eq", "ne", "lt", "le", "gt", "ge")),
    st.sampled_from((X, Y, Z)),
    st.sampled_from((0, 1)),
)
NULLS = st.sampled_from((X, Y, Z)).map(lambda column: Call("is_null", (column,), BOOL))
LEAVES = (
    COMPARISONS
    | COMPARISONS.map(
        lambda one: Call(
            {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(one.op, one.op),
            (one.args[1], one.args[0]),
            BOOL,
        )
    )
    | NULLS
    | NULLS.map(lambda null: Call("not", (null,), BOOL))
    | st.just(Call("in", (X, Literal(0, INT), Literal(None, INT)), BOOL))
    | st.just(TRUE)
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda below: st.builds(
        lambda op, args: Call(op, tuple(args), BOOL),
        st.sampled_from(("and", "or")),
        st.lists(below, min_size=2, max_size=3),
    ),
    max_leaves=8,
)
ROWS = tuple(itertools.product((None, 0, 1), repeat=3))


@given(CONDITIONS)
@examples(300)
def test_clauses_mean_what_the_condition_means(condition: Expression) -> None:
    clauses = clauses_of(condition, 256)
    if clauses is None:
        return
    same = condition_of(clauses)
    for row in ROWS:
        expected = evaluate(condition, (row,), Failures())
        assert evaluate(same, (row,), Failures()) == expected
    assert clauses_of(same, 256) == clauses


def test_a_disjunction_of_conjunctions_is_in_clauses_unless_that_is_long() -> None:
    pair = chain("and", (compare("gt", X, 1), compare("gt", Y, 1)))
    clauses = clauses_of(chain("or", (pair, pair)), 256)
    assert clauses is not None and [len(clause) for clause in clauses] == [2, 2, 2, 2]
    assert clauses_of(chain("or", (pair,) * 5), 256) is None
    assert clauses_of(chain("or", (compare("gt", X, 1),) * 256), 256) is not None
    assert clauses_of(chain("or", (compare("gt", X, 1),) * 257), 256) is None


def test_a_condition_of_many_levels_is_encoded() -> None:
    deep: Expression = compare("gt", AGE, 0)
    for value in range(10_000):
        deep = Call("and", (deep, compare("ne", AGE, value)), BOOL)
    words = encode([select(deep)], LAYOUT)
    assert encode(decode(words, LAYOUT), LAYOUT) == words
    shared: Expression = compare("gt", AGE, 0)
    for _ in range(20):
        shared = Call("or", (shared, shared), BOOL)
    words = encode([select(shared)], LAYOUT)
    assert encode(decode(words, LAYOUT), LAYOUT) == words


VALUES: tuple[tuple[object, pa.DataType, bool], ...] = (
    (True, BOOL, True),
    (None, BOOL, False),
    (-128, pa.int8(), True),
    (2**31 - 1, pa.int64(), True),
    (-(2**31), pa.int64(), True),
    (2**31, pa.int64(), False),
    (2**32 - 1, pa.uint64(), True),
    (2**32, pa.uint64(), False),
    (0.5, pa.float32(), True),
    (-0.0, pa.float32(), True),
    (float("nan"), pa.float32(), True),
    (float("-inf"), pa.float32(), True),
    (0.1, pa.float32(), False),
    (0.5, pa.float64(), False),
    (19_000, pa.date32(), True),
    (5, pa.timestamp("us"), True),
    (5, pa.timestamp("us", "UTC"), False),
    ("a", TEXT, False),
    (b"a", pa.binary(), False),
)


@pytest.mark.parametrize(("value", "kind", "is_short"), VALUES, ids=str)
def test_a_value_is_in_the_word_if_it_fits(
    value: object, kind: pa.DataType, is_short: bool
) -> None:
    column = Column(0, 7, "c", kind)
    sent = select(compare("le", column, value), (7, 3))
    assert (forms(sent) == ["selection", "selection.columns"]) == is_short
    check_round_trip([sent])
    [found] = decode(encode([sent], LAYOUT), LAYOUT)
    assert plain(found) == plain(sent)


def test_a_wide_value_is_in_the_word_of_a_wide_layout() -> None:
    wide = WordLayout(port=128, value=64)
    for value, kind in ((0.1, pa.float64()), (2**63 - 1, pa.timestamp("us")), (2**40, pa.int64())):
        sent = select(compare("eq", Column(0, 0, "c", kind), value))
        assert forms(sent, wide) == ["selection"]
        assert plain(decode(encode([sent], wide), wide)[0]) == plain(sent)


def test_a_long_text_is_sent_in_several_instructions() -> None:
    narrow = WordLayout(cc=4, query=28)
    sent = select(compare("eq", Column(0, 0, "c", TEXT), "x" * 1000))
    words = encode([sent], narrow)
    assert len(list(instructions(words, narrow))) > 8
    assert plain(decode(words, narrow)[0]) == plain(sent)


def test_a_block_passes_on_what_is_not_for_it_without_decoding_it() -> None:
    chance = random.Random(4)
    sent = [control(chance) for _ in range(50)]
    sent += addressed(
        itertools.chain(*(programs_in(one) for one in conformance().values())), chance
    )
    chance.shuffle(sent)
    pieces = list(instructions(encode(sent, LAYOUT), LAYOUT))
    for block in range(1, 17):
        own = b"".join(words for number, words in pieces if number == block)
        assert own == encode([one for one in sent if one.block == block], LAYOUT)


def test_instructions_are_told_apart_without_looking_at_their_fields() -> None:
    words = bytearray(encode([OLDER], LAYOUT))
    words[9 + 5 : 27] = b"\xff" * 4 + words[18:19] + b"\xff" * 8
    assert list(instructions(bytes(words), LAYOUT)) == [(3, bytes(words))]


# -- damages --------------------------------------------------------------------------------

RESET = OPInstruction(1, 5, ResetBlock("final"))
PROJECT = OPInstruction(3, 5, ProjectColumns(2, 1, (Output("Name", NAME), Output("Age", AGE))))
PORTS = OPInstruction(2, 5, ReadPorts((0, 3), ("r", "s"), 7))
PART = OPInstruction(2, 5, JoinPart(1, 3, 512))
TWO = select(conjunction((compare("gt", AGE, 25), compare("lt", AGE, 70))), (0, 1))
ORDER = "Send every chunk of an instruction once, in their order, and count them in CC."
SERIES = "Send every instruction of a series once, in their order, with nothing between them."
AGAIN = "Send what encode gave, or write the instructions as text and assemble them."


def chunks(instruction: OPInstruction) -> list[bytes]:
    words = encode([instruction], LAYOUT)
    return [words[at : at + 9] for at in range(0, len(words), 9)]


def with_bits(instruction: OPInstruction, chunk: int, first: int, found: str) -> bytes:
    """Its words with other bits in a chunk, from the bit of that number on, counted from 0."""
    pieces = chunks(instruction)
    old = f"{int.from_bytes(pieces[chunk]):072b}"
    new = old[:first] + found + old[first + len(found) :]
    pieces[chunk] = int(new, 2).to_bytes(9)
    return b"".join(pieces)


def named(text: bytes) -> bytes:
    """The words of PROJECT with another text in place of the names."""
    words = encode([PROJECT], LAYOUT)
    pieces = [piece for _, piece in instructions(words, LAYOUT)]
    put = text.ljust(-(-len(text) // 8) * 8, b"\0")
    count = 1 + len(put) // 8
    first = int.from_bytes(pieces[2][:9]) & ~(0xFFFF << 48) | count << 48
    made = [first.to_bytes(9)]
    made += [bytes([64 + i]) + put[8 * i - 8 : 8 * i] for i in range(1, count)]
    return b"".join((*pieces[:2], *made))


REFUSED: tuple[tuple[str, bytes, str], ...] = (
    (
        "a piece of a chunk",
        encode([RESET, RESET], LAYOUT)[:-1],
        "instruction 2 (byte 9), chunk 1, CC: the words end in a chunk, after 8 of its 9 bytes\n"
        + AGAIN,
    ),
    (
        "truncated",
        encode([RESET, OLDER], LAYOUT)[:-9],
        "instruction 2 (byte 9), chunk 1, CC: it says 3 chunks, and the words end after 2 chunks\n"
        + ORDER,
    ),
    (
        "a chunk lost before another instruction",
        b"".join(chunks(OLDER)[:2]) + encode([RESET], LAYOUT),
        "instruction 1 (byte 0), chunk 3, S: expected 0, a further chunk of the instruction, "
        "found 1, the first of another\n" + ORDER,
    ),
    (
        "the first chunk lost",
        encode([RESET], LAYOUT) + b"".join(chunks(OLDER)[1:]),
        "instruction 2 (byte 9), chunk 1, S: expected 1, the first chunk of an instruction, "
        "found 0, a further one\n" + ORDER,
    ),
    (
        "reordered",
        b"".join(chunks(OLDER)[i] for i in (0, 2, 1)),
        "instruction 1 (byte 0), chunk 2, sequence: expected 1, found 2\n" + ORDER,
    ),
    (
        "doubled",
        b"".join(chunks(OLDER)[i] for i in (0, 1, 1)),
        "instruction 1 (byte 0), chunk 3, sequence: expected 2, found 1\n" + ORDER,
    ),
    (
        "a tuple",
        bytes(9),
        "instruction 1 (byte 0), chunk 1, Q: expected 1, an instruction, found 0, a tuple\n"
        + AGAIN,
    ),
    (
        "a tuple within an instruction",
        with_bits(OLDER, 1, 1, "0"),
        "instruction 1 (byte 0), chunk 2, Q: expected 1, a further chunk of the instruction, found "
        "0, a tuple\n" + ORDER,
    ),
    (
        "no chunk",
        with_bits(RESET, 0, 8, f"{0:016b}"),
        "instruction 1 (byte 0), chunk 1, CC: expected 1 chunk or more, found 0\n" + AGAIN,
    ),
    (
        "wrong CC",
        with_bits(OLDER, 0, 8, f"{2:016b}")[:18],
        "instruction 1 (byte 0), chunk 1, CC: expected 3 for selection, found 2\n" + AGAIN,
    ),
    (
        "too few ports",
        with_bits(PORTS, 0, 8, f"{1:016b}")[:9],
        "instruction 1 (byte 0), chunk 1, CC: expected 2 or more for ports, found 1\n" + AGAIN,
    ),
    (
        "unknown form",
        with_bits(OLDER, 0, 40, "1111"),
        "instruction 1 (byte 0), chunk 1, form: expected 0 to 3, found 15\n"
        "Write 0 for selection, 1 for selection.all, 2 for selection.columns or 3 for "
        "selection.table.",
    ),
    (
        "unknown port",
        with_bits(RESET, 0, 44, "11"),
        "instruction 1 (byte 0), chunk 1, result_port: expected 0 to 2, found 3\n"
        "Write 0 for final, 1 for stream-r or 2 for both.",
    ),
    (
        "reserved bit",
        with_bits(RESET, 0, 71, "1"),
        "instruction 1 (byte 0), chunk 1, reserved: expected 0 in bit 72 of the chunk, which no "
        "field has, found 1\n" + AGAIN,
    ),
    (
        "unknown operator",
        with_bits(OLDER, 2, 8, "1010"),
        "instruction 1 (byte 0), chunk 3, operator: expected 0 to 7, found 10\n"
        "Write 0 for eq, 1 for ne, 2 for lt, 3 for le, 4 for gt, 5 for ge, 6 for is_null or 7 for "
        "is_not_null.",
    ),
    (
        "a value beyond its type",
        with_bits(select(compare("eq", Column(0, 0, "c", pa.int8()), 5)), 1, 40, f"{300:032b}"),
        "instruction 1 (byte 0), chunk 2, value: expected a number from -128 to 127, found 300\n"
        + AGAIN,
    ),
    (
        "a truth of 2",
        with_bits(select(compare("eq", Column(0, 0, "c", BOOL), True)), 1, 40, f"{2:032b}"),
        "instruction 1 (byte 0), chunk 2, value: expected 0 or 1, found 2\n" + AGAIN,
    ),
    (
        "a value of a text",
        with_bits(OLDER, 2, 12, f"{17:08b}"),
        "instruction 1 (byte 0), chunk 2, value: expected a type of numbers or times, found 25\n"
        + AGAIN,
    ),
    (
        "a value for NULL",
        with_bits(OLDER, 2, 8, "0110"),
        "instruction 1 (byte 0), chunk 2, value: expected 0, found 25\n" + AGAIN,
    ),
    (
        "a clause left out",
        with_bits(OLDER, 2, 24, f"{1:016b}"),
        "instruction 1 (byte 0), chunk 3, clause: expected 0, found 1\n"
        "Number clauses from 0, and send the comparisons of one after the other.",
    ),
    (
        "a series that ends",
        encode([TWO], LAYOUT)[:27],
        "instruction 1 (byte 0), chunk 1, more: it says that 2 more of its series follow, and the "
        "words end here\n" + SERIES,
    ),
    (
        "an instruction of a series twice",
        encode([TWO], LAYOUT)[:27] * 2 + encode([TWO], LAYOUT)[27:],
        "instruction 2 (byte 27), chunk 1, more: expected 1, as instruction 1 says, found 2\n"
        + SERIES,
    ),
    (
        "another instruction in a series",
        encode([TWO], LAYOUT)[:27] + encode([RESET], LAYOUT),
        "instruction 2 (byte 27), chunk 1, Inst: expected selection, as instruction 1 says, found "
        "reset\n" + SERIES,
    ),
    (
        "the columns first",
        b"".join(
            (
                (int.from_bytes(chunks(TWO)[6]) | 1 << 16).to_bytes(9),
                *chunks(TWO)[7:9],
                *chunks(OLDER),
            )
        ),
        "instruction 2 (byte 27), chunk 1, form: expected selection.columns here in the series, "
        "found selection\n" + SERIES,
    ),
    (
        "no names",
        with_bits(PROJECT, 0, 48, f"{0:08b}")[:18],
        "instruction 1 (byte 0), chunk 1, form: expected projection.names after the attributes, "
        "found the end of the series\n" + SERIES,
    ),
    (
        "a name too few",
        named(b'["Name"]'),
        "instruction 3 (byte 36), chunk 2, text: expected 2 names, one for each attribute, found "
        "1\n" + AGAIN,
    ),
    (
        "no JSON",
        named(b'["Name"'),
        "instruction 3 (byte 36), chunk 2, text: expected a JSON list of names\n" + AGAIN,
    ),
    (
        "other JSON",
        named(b'["Name", "Age"]'),
        "instruction 3 (byte 36), chunk 2, text: expected JSON with sorted keys, without spaces, "
        "with each entry of a table once\n" + AGAIN,
    ),
    (
        "a chunk of zeros",
        named(b'["Name","Age"]' + bytes(10)),
        "instruction 3 (byte 36), chunk 4, text: expected a piece of the text in the last chunk, "
        "found zeros\n" + AGAIN,
    ),
    (
        "no text",
        named(b""),
        "instruction 3 (byte 36), chunk 1, CC: expected the chunks of a text, found none\n" + AGAIN,
    ),
    (
        "a given stream that is not the last",
        with_bits(PORTS, 1, 25, "1"),
        "instruction 1 (byte 0), chunk 2, role: expected gives in the last chunk alone\n" + AGAIN,
    ),
    (
        "a part too many",
        with_bits(PART, 1, 8, f"{3:016b}"),
        "instruction 1 (byte 0), chunk 2, part: expected a number below 3, the number of parts, "
        "found 3\nNumber the blocks of a join from 0, from the left.",
    ),
    (
        "a reset that says more follow",
        with_bits(RESET, 0, 48, f"{1:08b}") + encode([RESET], LAYOUT),
        "instruction 1 (byte 0), chunk 1, more: expected 0 for reset, found 1\n" + AGAIN,
    ),
)


@pytest.mark.parametrize(
    ("words", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_malformed_words_are_refused_with_the_field(words: bytes, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        decode(words, LAYOUT)
    assert str(caught.value) == message


def test_an_instruction_that_the_set_does_not_have_is_refused() -> None:
    wide = WordLayout(inst=3, b_id=3)
    words = bytearray(encode([RESET], wide))
    words[0] |= 0b00111000
    with pytest.raises(ProgramError) as caught:
        decode(bytes(words), wide)
    assert str(caught.value) == (
        "instruction 1 (byte 0), chunk 1, Inst: expected 0 to 3, found 7\n"
        "Write 0 for selection, 1 for projection, 2 for join or 3 for reset."
    )


TABLES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"condition": 9}, "condition: expected an index below 3, found 9"),
    ({"condition": 0}, "condition: expected boolean, found string"),
    ({"input": "a"}, 'input: expected a whole number, 0 or more, found "a"'),
    ({"columns": [-1]}, "columns[0]: expected a whole number, 0 or more, found -1"),
    ({"format": 1}, "format: the program is in the format 1; this is Penstock "),
    ({"colour": 1}, "program: unknown field 'colour'"),
)


@pytest.mark.parametrize(("changed", "what"), TABLES, ids=str)
def test_an_error_in_a_table_names_its_field(changed: dict[str, Any], what: str) -> None:
    sent = select(compare("eq", NAME, "a"))
    text = b"".join(word.text for word in words_of(sent, LAYOUT))
    put = json.dumps(json.loads(text) | changed, sort_keys=True, separators=(",", ":"))
    [word] = words_of(sent, LAYOUT)
    with pytest.raises(ProgramError) as caught:
        decode(pack(replace(word, text=put.encode()), LAYOUT), LAYOUT)
    assert caught.value.what.startswith(f"instruction 1 (byte 0), chunk 2, text: {what}")


def test_a_short_form_may_not_be_said_by_a_table() -> None:
    body = OLDER.body
    assert isinstance(body, SelectRows)
    [word] = words_of(select(compare("eq", NAME, "a")), LAYOUT)
    text = record_to_json(SELECT, body).encode()
    with pytest.raises(ProgramError) as caught:
        decode(pack(replace(word, text=text), LAYOUT), LAYOUT)
    assert str(caught.value) == (
        "instruction 1 (byte 0), chunk 1, form: expected selection, which says the same, found "
        f"selection.table\n{AGAIN}"
    )


def test_a_join_whose_parts_do_not_belong_together_is_refused(
    program: Callable[..., Program],
) -> None:
    body = program("SELECT a.x FROM R [ROWS 4] a JOIN R [ROWS 5] b ON a.i = b.i").joins[0]
    windows, comparison, table = words_of(OPInstruction(1, 0, body), LAYOUT)

    def refused(*words: Word) -> str:
        with pytest.raises(ProgramError) as caught:
            decode(b"".join(pack(word, LAYOUT) for word in words), LAYOUT)
        return caught.value.what

    other = replace(comparison, chunks=((3, 77, 0, 4, 0, 0),))
    assert refused(windows, other, table) == (
        "instruction 3 (byte 36), chunk 2, text: compiled: there is no column 77 on side 1"
    )
    assert refused(replace(comparison, more=1), table) == (
        "instruction 2 (byte 18), chunk 2, text: program: the field 'windows' is missing"
    )
    assert refused(replace(windows, more=1), table) == (
        "instruction 2 (byte 18), chunk 2, text: program: the field 'compiled' is missing"
    )
    assert refused(windows, replace(comparison, more=2), replace(comparison, more=1), table) == (
        "instruction 2 (byte 18), chunk 1, more: expected 1, as instruction 1 says, found 2"
    )
    assert refused(replace(windows, more=1), replace(comparison, more=0)) == (
        "instruction 2 (byte 18), chunk 1, form: expected join.table at the end of the series, "
        "found the end of the series"
    )
    assert refused(windows, replace(comparison, chunks=((3, 3, 6, 4, 0, 0),)), table) == (
        "instruction 2 (byte 18), chunk 2, operator: expected 0 to 5 in a join, found 6"
    )
    assert refused(windows, replace(comparison, chunks=((3, 3, 0, 4, 2, 0),)), table) == (
        "instruction 2 (byte 18), chunk 2, left: expected 0 to 1, found 2"
    )


NOT_SENT: tuple[tuple[OPInstruction, str], ...] = (
    (
        OPInstruction(17, 0, Bypass()),
        "B-ID of bypass: expected a block from 1 to 16, found 17\n"
        "Number blocks from 1, or give the words of the topology a wider B-ID.",
    ),
    (
        OPInstruction(1, 1 << 16, Bypass()),
        "query of bypass: expected 0 to 65535, found 65536\n"
        "Write a number that fits, or give the words of the topology wider fields.",
    ),
    (
        OPInstruction(1, 0, JoinPart(3, 3, 512)),
        "part: expected a number below 3, the number of parts, found 3\n"
        "Number the blocks of a join from 0, from the left.",
    ),
    (
        OPInstruction(1, 0, ReadPorts((1, 2), ("r",))),
        "ports: expected a list of 2, found one of 1\nGive each stream the port by which it comes.",
    ),
)


@pytest.mark.parametrize(("sent", "message"), NOT_SENT, ids=lambda one: str(one)[:40])
def test_what_does_not_fit_the_layout_is_not_sent(sent: OPInstruction, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        encode([sent], LAYOUT)
    assert str(caught.value) == message


def test_damaged_words_are_refused_with_their_field_or_mean_something() -> None:
    assert campaign.run(seed=3, count=2000) == 0


# -- the table ------------------------------------------------------------------------------


def test_the_page_is_what_the_table_says() -> None:
    written = Path(__file__).parents[2] / "docs" / "isa.md"
    assert written.read_text(encoding="utf-8") == f"{page()}\n", (
        "run: python -m penstock.program.isa.words.document > docs/isa.md"
    )


def test_the_examples_of_the_page_are_words() -> None:
    for example in (selection_example(), join_example()):
        assert [plain(one) for one in decode(encode(example, LAYOUT), LAYOUT)] == [
            plain(one) for one in example
        ]


def test_every_body_has_words_and_every_form_a_number_of_its_own() -> None:
    kinds = {one.record.type for one in FORMS}
    assert kinds == set(get_args(Body)) == {one.type for one in BODIES.records}
    assert len(FORM_OF) == len(FORM_NAMED) == len(FORMS)
    for record in BODIES.records:
        fields = {one.name for one in dataclasses.fields(record.type)}
        assert {one.name for one in record.fields} == fields
