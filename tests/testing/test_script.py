"""The script language: the meaning of each line, and the error for each malformed one."""

from __future__ import annotations

import pytest

from penstock.errors import ScriptError
from penstock.testing.script import (
    ChangeStep,
    DeriveStep,
    DropStep,
    EndStep,
    ExpectStep,
    InstallStep,
    PunctuateStep,
    StreamStep,
    TupleStep,
    parse_script,
)


def test_every_kind_of_line() -> None:
    script = """\
# a comment
stream R (t int64, x decimal(4, 2)) TIMESTAMP BY t  # after a space
CREATE STREAM S (x int32);
derive big: SELECT x FROM R \\
  WHERE x > 1   # comments end continued lines too
CREATE STREAM small AS SELECT x FROM S WHERE x < 1;
install q: SELECT '# no comment', a#b FROM R
R: 1, 'a # b'
change q: SELECT x FROM R
punctuate R: 120
punctuate S.x: 7
drop q
end R
end
"""
    steps = parse_script(script)
    kinds = [StreamStep, StreamStep, DeriveStep, DeriveStep, InstallStep, TupleStep, ChangeStep,
             PunctuateStep, PunctuateStep, DropStep, EndStep, EndStep]  # fmt: skip
    assert [type(step) for step in steps] == kinds
    assert [step.line.number for step in steps] == [2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    declared, created, derived, second, installed, arrived = steps[:6]
    assert repr(declared.stream) == "Stream R (t int64, x decimal(4, 2)) TIMESTAMP BY t"  # type: ignore[union-attr]
    assert declared.stream.bounded  # type: ignore[union-attr]
    assert repr(created.stream) == "Stream S (x int32)"  # type: ignore[union-attr]
    assert derived.sql == "SELECT x FROM R   WHERE x > 1"  # type: ignore[union-attr]
    assert (second.name, second.sql) == ("small", "SELECT x FROM S WHERE x < 1")  # type: ignore[union-attr]
    assert installed.sql == "SELECT '# no comment', a#b FROM R"  # type: ignore[union-attr]
    assert [value.value for value in arrived.values] == [1, "a # b"]  # type: ignore[union-attr]
    assert (steps[8].stream, steps[8].attribute) == ("S", "x")  # type: ignore[union-attr]
    assert (steps[10].stream, steps[11].stream) == ("R", None)  # type: ignore[union-attr]


def test_a_stream_may_have_the_name_of_a_command() -> None:
    (step,) = parse_script("end: 1")
    assert isinstance(step, TupleStep)
    assert step.stream == "end"


def test_a_stream_can_be_unbounded() -> None:
    (step,) = parse_script("stream R (x int32) unbounded")
    assert isinstance(step, StreamStep)
    assert not step.stream.bounded


def expected(text: str) -> list[tuple[str, str, bool, list[list[str]]]]:
    steps = [step for step in parse_script(text) if isinstance(step, ExpectStep)]
    return [
        (s.query, s.kind, s.ordered, [[value.text for value in row.values] for row in s.rows])
        for s in steps
    ]


def test_expectations_one_after_another_are_one_bag() -> None:
    text = """\
expect q: 1, 'a;b'; 2, 'c'

# still the same bag
expect Q: 3, 'd'
expect other: 1
expect q: 4, 'e'
R: 1
expect q: 5, 'f'
expect ordered q: 6, 'g'
expect q:
"""
    assert expected(text) == [
        ("q", "rows", False, [["1", "'a;b'"], ["2", "'c'"], ["3", "'d'"]]),
        ("other", "rows", False, [["1"]]),
        ("q", "rows", False, [["4", "'e'"]]),
        ("q", "rows", False, [["5", "'f'"]]),
        ("q", "rows", True, [["6", "'g'"]]),
        ("q", "rows", False, []),
    ]


def test_letters_have_their_stream_and_perhaps_a_reason() -> None:
    (step,) = parse_script("expect dead q: R: 1, 'x' (column x (int8): bad); S: 2; R: 3 (why)")
    assert isinstance(step, ExpectStep)
    assert [(row.stream, row.reason) for row in step.rows] == [
        ("R", "column x (int8): bad"), ("S", None), ("R", "why"),
    ]  # fmt: skip
    (late,) = parse_script("expect late q: R: 5, 1")
    assert isinstance(late, ExpectStep)
    assert (late.kind, late.rows[0].stream) == ("late", "R")


LITERALS = (
    "Write SQL literals with commas between them: 1, 1.5, 'text', TRUE, NULL, "
    "DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00'."
)
STREAM = "Write stream R (id int64, x int32), perhaps with TIMESTAMP BY id after it."
EXPECT = "Write expect pairs: 1, 7; 2, 8, or expect ordered, late or dead pairs: ...."


@pytest.mark.parametrize(
    ("line", "what", "remedy"),
    [
        ("R 1, 2", "neither a command nor a tuple of a stream",
         "Write a tuple (R: 1, 2) or one of: stream, derive, install, change, drop, punctuate, "
         "end, expect."),
        ("R: 1, foo", "'foo' is no literal", LITERALS),
        ("R: 1 2", "'2' is no literal, nor a comma and a literal", LITERALS),
        ("R:", "a literal is missing", LITERALS),
        ("stream R", "not the declaration of a stream", STREAM),
        ("stream R (x)", "'x' is not a column", "Write a name and a type: id int64."),
        ("stream R (x int32) TIMESTAMP BY t",
         "stream R has no column 't' to be its time attribute", "Write TIMESTAMP BY one of: x."),
        *(
            (f"stream R (t {kind}) TIMESTAMP BY T",
             f"column t of R is {kind} and cannot be a time attribute",
             "Use an integer up to int64, a float, a decimal of at most 18 digits, a date or a "
             "timestamp.")
            for kind in ("string", "boolean", "binary", "uint64", "decimal(19, 0)")
        ),
        ("stream R (x int32, X int32)", "stream R has two columns named 'X'",
         "Rename one of them; names are compared without regard to case."),
        ("CREATE TABLE t", "nothing but streams can be created",
         "Write CREATE STREAM R (id int64, x int32) or CREATE STREAM big AS SELECT ...."),
        ("install SELECT 1", "install needs a name, a colon and a query",
         "Write install pairs: SELECT ...."),
        ("change pairs:", "change needs a name, a colon and a query",
         "Write change pairs: SELECT ...."),
        ("derive", "derive needs a name, a colon and a query", "Write derive pairs: SELECT ...."),
        ("drop", "drop needs the name of a query", "Write drop pairs."),
        ("drop pairs now", "drop needs the name of a query", "Write drop pairs."),
        ("end R S", "end cannot take 'R S'",
         "Write end R for one stream, or end alone for all of them."),
        ("punctuate R 1", "punctuate needs a stream, a colon and one value",
         "Write punctuate R: 120, or with its attribute punctuate R.t: 120."),
        ("punctuate R: 1, 2", "punctuate needs a stream, a colon and one value",
         "Write punctuate R: 120, or with its attribute punctuate R.t: 120."),
        ("punctuate R: NULL", "NULL is no punctuation", "Write the value: punctuate R: 120."),
        ("expect 1, 2", "expect needs a query, a colon and its rows", EXPECT),
        ("expect q: 1, x", "'x' is no literal", LITERALS),
        ("expect q: 1 (why)", "'(why)' is no literal, nor a comma and a literal", LITERALS),
        ("expect late q: 1, 2", "a late tuple needs its stream",
         "Write expect late pairs: R: 1, 2."),
    ],
)  # fmt: skip
def test_a_malformed_line_says_which_and_what_to_write(line: str, what: str, remedy: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(f"# first\n\n{line}\n")
    assert str(caught.value) == f"line 3: {what}\n  {line}\n{remedy}"


def test_unknown_types_are_named_with_the_line() -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script("stream R (x complex)")
    assert caught.value.what == "line 1: unknown type 'complex'\n  stream R (x complex)"
    assert caught.value.remedy.startswith("Write one of: boolean, int8")


def test_a_continued_line_must_continue() -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script("end\ninstall q: SELECT \\")
    assert str(caught.value) == (
        "line 2: the last line ends in \\\n  install q: SELECT\nWrite the line it continues with."
    )
