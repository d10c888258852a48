"""The text of words: both ways, and errors with line and column."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.op_instructions import LAYOUTS, addressed, control
from tests.programs import conformance, programs_in

from penstock.errors import AssemblyError
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.op_instructions import OPInstruction
from penstock.program.isa.words.assembly import assemble, disassemble, from_hex, to_hex
from penstock.program.isa.words.decoding import decode
from penstock.program.isa.words.encoding import encode
from penstock.program.isa.words.layout import WordLayout

LAYOUT = WordLayout()
PAGE = "docs/isa.md has every form, its fields and what they can be."
QUERY = """\
reset block=1 query=7 result_port=final every_query=no
ports block=1 query=7 | stream=0 port=r role=reads | stream=2 port=r role=gives
selection block=1 query=7 step=1 input=0 | attribute=1 value=25 | operator=gt type=int32 side=0 clause=0
+ selection | attribute=2 value=0 | operator=is_null type=string side=0 clause=1
+ selection | attribute=3 value=-0.5 | operator=lt type=float side=0 clause=1
+ selection.columns | attribute=1 | attribute=0
projection block=1 query=7 step=2 input=1 | attribute=1 type=string side=0
+ projection.names ["\\u00e4 {[|;"]
bypass block=2 query=7
part block=3 query=7 | part=0 parts=3 window=512
"""  # noqa: E501


def corpus(seed: int) -> list[OPInstruction]:
    chance = random.Random(seed)
    programs = [program for those in conformance().values() for program in programs_in(those)]
    sent = [*addressed(programs, chance), *(control(chance) for _ in range(300))]
    chance.shuffle(sent)
    return sent


# -- both ways ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: str(layout.chunk_bytes))
def test_the_parts_of_every_conformance_script_are_assembled_as_they_were(
    layout: WordLayout,
) -> None:
    words = encode(corpus(5), layout)
    text = disassemble(words, layout)
    assert assemble(text, layout) == words
    assert from_hex(to_hex(words, layout)) == words


def test_a_text_is_shown_as_it_was_assembled() -> None:
    assert disassemble(assemble(QUERY, LAYOUT), LAYOUT) == QUERY


def test_what_is_optional_may_be_left_out() -> None:
    short = """
        ; spaces, empty lines and comments mean nothing
        selection block=0x1 query=7   step=1 input=0|value=25 attribute=1|type=int32 operator=gt;
    """
    assert disassemble(assemble(short, LAYOUT), LAYOUT) == (
        "selection block=1 query=7 step=1 input=0 | attribute=1 value=25 | operator=gt type=int32 "
        "side=0 clause=0\n"
    )


def test_the_json_of_a_text_may_be_spaced() -> None:
    text = "projection block=1 query=0 step=2 input=1 | attribute=0 type=string side=0\n{}\n"
    plain = text.format('+ projection.names ["a"]')
    assert assemble(text.format('+ projection.names [ "\\u0061" ] ; one'), LAYOUT) == assemble(
        plain, LAYOUT
    )


def test_two_series_of_the_same_block_stay_two() -> None:
    line = (
        "selection block=1 query=7 step=1 input=0 | attribute=1 value=25 | operator=gt type=int32 "
        "side=0 clause=0\n"
    )
    assert len(decode(assemble(line + line, LAYOUT), LAYOUT)) == 2
    assert len(decode(assemble(f"{line}+ {line}", LAYOUT), LAYOUT)) == 1
    for text in (line + line, line + "+ selection" + line[line.index(" |") :]):
        assert disassemble(assemble(text, LAYOUT), LAYOUT) == text


def test_a_long_text_stays_one_line(program: Callable[..., Program]) -> None:
    narrow = WordLayout(cc=4, query=28)
    sql = "SELECT x AS {} FROM R WHERE k = '{}'".format("n" * 300, "t" * 300)
    words = encode(addressed([program(sql)], random.Random(0)), narrow)
    text = disassemble(words, narrow)
    assert [line.split()[:2] for line in text.splitlines()] == [
        ["selection.table", text.split()[1]],
        ["projection", text.splitlines()[1].split()[1]],
        ["+", "projection.names"],
    ]
    assert assemble(text, narrow) == words


# -- errors ---------------------------------------------------------------------------------

SELECTION = "selection block=1 query=0 step=1 input=0 | attribute=1 value={} | operator={} type={}"
NAMES = "projection block=1 query=0 step=2 input=1 | attribute=0 type=string\n"
REFUSED: tuple[tuple[str, str], ...] = (
    (
        "rest block=1",
        "expected a form, found 'rest' at line 1, column 1\n  rest block=1\n  ^^^^\nWrite "
        "selection, selection.all, selection.columns, selection.table, projection, "
        "projection.names, projection.table, join, join.windows, join.table, reset, bypass, ports "
        "or part.",
    ),
    (
        "; a comment\n+ bypass block=1 query=0",
        "nothing is before this line that it could continue at line 2, column 3\n"
        "  + bypass block=1 query=0\n    ^^^^^^\nLeave out the + of the first line.",
    ),
    (
        "bypass block=1 query=0\n+",
        "expected a form after the +, found none at line 2, column 1\n  +\n  ^\n" + PAGE,
    ),
    (
        "bypass query=0",
        "block of bypass is missing at line 1, column 1\n  bypass query=0\n  ^^^^^^\n"
        "Write block=1.",
    ),
    (
        "bypass block=17 query=0",
        "block: expected a whole number from 1 to 16, found '17' at line 1, column 14\n"
        "  bypass block=17 query=0\n               ^^\n"
        "Write one that fits, or give the words wider fields.",
    ),
    (
        "bypass block=one query=0",
        "block: expected a whole number from 1 to 16, found 'one' at line 1, column 14\n"
        "  bypass block=one query=0\n               ^^^\n"
        "Write one that fits, or give the words wider fields.",
    ),
    (
        "bypass block=1 block=2 query=0",
        "block stands twice in a chunk at line 1, column 16\n"
        "  bypass block=1 block=2 query=0\n                 ^^^^^^^\nWrite each field once.",
    ),
    (
        "bypass block=1 query=0 colour=3",
        "chunk 1 of bypass: expected block= or query=, found 'colour=3' at line 1, column 24\n"
        "  bypass block=1 query=0 colour=3\n                         ^^^^^^^^\n" + PAGE,
    ),
    (
        "bypass block=1 query=0 | stream=1",
        "bypass has 0 chunks after the first at line 1, column 24\n"
        "  bypass block=1 query=0 | stream=1\n                         ^\n"
        "Leave out the chunk. " + PAGE,
    ),
    (
        "ports block=1 query=0",
        "ports has 1 chunks after the first, found 0 at line 1, column 1\n"
        "  ports block=1 query=0\n  ^^^^^\nBegin each with |. " + PAGE,
    ),
    (
        "reset block=1 query=0",
        "result_port is missing in chunk 1 of reset at line 1, column 1\n"
        "  reset block=1 query=0\n  ^^^^^\nWrite it there, such as result_port=both.",
    ),
    (
        "reset block=1 query=0 result_port=east",
        "result_port: unknown word 'east' at line 1, column 35\n"
        "  reset block=1 query=0 result_port=east\n                                    ^^^^\n"
        "Write final, stream-r or both.",
    ),
    (
        SELECTION.format("'a'", "eq", "string"),
        "a string does not fit a value at line 1, column 62\n"
        "  selection block=1 query=0 step=1 input=0 | attribute=1 value='a' | operator=eq "
        f"type=string\n  {' ' * 61}^^^\nWrite a selection.table.",
    ),
    (
        SELECTION.format("2.5", "eq", "int64"),
        "value: expected a whole number for int64, found '2.5' at line 1, column 62\n"
        "  selection block=1 query=0 step=1 input=0 | attribute=1 value=2.5 | operator=eq "
        f"type=int64\n  {' ' * 61}^^^\nWrite a value of the type, or the type of the value.",
    ),
    (
        SELECTION.format("5000000000", "eq", "int64"),
        "5000000000 does not fit the 32 bits of a value at line 1, column 62\n"
        "  selection block=1 query=0 step=1 input=0 | attribute=1 value=5000000000 | operator=eq "
        f"type=int64\n  {' ' * 61}^^^^^^^^^^\nWrite a selection.table.",
    ),
    (
        SELECTION.format("1", "is_null", "int64"),
        "value: expected a whole number from 0 to 0, found '1' at line 1, column 62\n"
        "  selection block=1 query=0 step=1 input=0 | attribute=1 value=1 | operator=is_null "
        f"type=int64\n  {' ' * 61}^\nWrite one that fits, or give the words wider fields.",
    ),
    (
        SELECTION.format("1", "eq", "int64") + " clause=1",
        "clause: expected 0, found 1 at line 1, column 96\n"
        "  selection block=1 query=0 step=1 input=0 | attribute=1 value=1 | operator=eq "
        f"type=int64 clause=1\n  {' ' * 95}^\n"
        "Number clauses from 0, and send the comparisons of one after the other.",
    ),
    (
        NAMES,
        "form: expected projection.names after the attributes, found the end of the series at line "
        "1, column 1\n  projection block=1 query=0 step=2 input=1 | attribute=0 type=string\n"
        "  ^^^^^^^^^^\n"
        "Send every instruction of a series once, in their order, with nothing between them.",
    ),
    (
        NAMES + "+ projection.names",
        "projection.names has a text, and there is none at line 2, column 3\n"
        "  + projection.names\n    ^^^^^^^^^^^^^^^^\n" + PAGE,
    ),
    (
        NAMES + "+ projection.names ['a']",
        "no JSON (Expecting value: line 1 column 2 (char 1)) at line 2, column 20\n"
        "  + projection.names ['a']\n                     ^^^^^\nWrite JSON on one line.",
    ),
    (
        NAMES + '+ projection.names ["a","b"]',
        "text: expected 1 name, one for each attribute, found 2 at line 2, column 20\n"
        '  + projection.names ["a","b"]\n                     ^^^^^^^^^\n' + PAGE,
    ),
    (
        NAMES + '+ projection.names ["a"] query=0',
        "nothing may follow the text of projection.names at line 2, column 26\n"
        '  + projection.names ["a"] query=0\n                           ^^^^^^^\nLeave it out.',
    ),
    (
        'bypass block=1 query=0 ["a"]',
        'bypass has no text at line 1, column 24\n  bypass block=1 query=0 ["a"]\n'
        "                         ^^^^^\nLeave it out.",
    ),
    (
        NAMES + "+ selection.all",
        "selection.all is no projection, and cannot continue one at line 2, column 3\n"
        "  + selection.all\n    ^^^^^^^^^^^^^\nLeave out the +.",
    ),
    (
        NAMES + '+ projection.names query=4 ["a"]',
        "query is 4, and 0 on the line that this one continues at line 2, column 26\n"
        '  + projection.names query=4 ["a"]\n                           ^\n'
        "Leave out the + or query.",
    ),
    (
        'selection.table block=1 query=0 {"a":1,"a":2}',
        "the field 'a' stands twice in an object at line 1, column 33\n"
        '  selection.table block=1 query=0 {"a":1,"a":2}\n'
        f"  {' ' * 32}^^^^^^^^^^^^^\nWrite each field of an object once.",
    ),
    (
        'selection.table block=1 query=0 {"a":1e999}',
        "the text cannot be sent (Out of range float values are not JSON compliant) at line 1, "
        'column 33\n  selection.table block=1 query=0 {"a":1e999}\n'
        f"  {' ' * 32}^^^^^^^^^^^\nWrite finite numbers.",
    ),
)


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text[-30:] for text, _ in REFUSED])
def test_an_error_points_at_the_place(text: str, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(text, LAYOUT)
    assert str(caught.value) == message


NO_DIGITS: tuple[tuple[str, str], ...] = (
    (
        "f0 00\nxy",
        "expected hexadecimal digits, found 'x' at line 2, column 1\n  xy\n  ^\n"
        "Write words as asm gives them, or pass --format bytes.",
    ),
    (
        "f0\n012 00",
        "expected two digits for a byte, found one at line 2, column 3\n  012 00\n    ^\n"
        "Write the digit before it.",
    ),
)


@pytest.mark.parametrize(("text", "message"), NO_DIGITS)
def test_what_are_no_digits_of_bytes_is_refused(text: str, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        from_hex(text)
    assert str(caught.value) == message


PIECES = st.sampled_from(
    (
        *QUERY.replace("\n", " \n ").split(" "),
        *("|", "+", ";", "{", "[1]", '{"a":1}', "value=nan", "value=1e999", "=", "block=", "\r"),
        *("type=double", "value=true", "operator=is_not_null", "query=0xff", "\x85", "\u2028"),
    )
)


@given(st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=40))
@examples(300)
def test_any_other_text_is_refused_with_its_place(text: str) -> None:
    try:
        words = assemble(text, LAYOUT)
    except AssemblyError as error:
        assert " at line " in error.what
        assert error.remedy
    else:
        assert assemble(disassemble(words, LAYOUT), LAYOUT) == words
