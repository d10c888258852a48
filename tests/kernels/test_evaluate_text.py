"""Functions of strings and LIKE, by hand-written cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.text import matcher
from penstock.kernels.expressions.vector import Failures
from penstock.sql.expressions import Call, Column, Literal

BOOL, INT32, STRING, BINARY = pa.bool_(), pa.int32(), pa.string(), pa.binary()
NULL_COUNT = Literal(None, INT32)


def text(value: str | None) -> Literal:
    return Literal(value, STRING)


def number(value: int) -> Literal:
    return Literal(value, INT32)


def test_case_changes_character_by_character(run: Any) -> None:
    words = (STRING, ["straße", "ǆ", "ᾳŉ", "Éa", None])
    assert run("upper", STRING, words)[0] == ["STRAßE", "Ǆ", "ᾳŉ", "ÉA", None]
    assert run("lower", STRING, (STRING, ["ΑΣ", "İX", "Éa"]))[0] == ["ασ", "İx", "éa"]
    assert run("upper", STRING, (STRING, ["abc", None, ""]))[0] == ["ABC", None, ""]
    assert run("lower", STRING, (STRING, [None, None]))[0] == [None, None]


def test_lengths(run: Any) -> None:
    assert run("length", INT32, (STRING, ["", "é🎉", None])) == ([0, 2, None], 0)
    assert run("length", INT32, (BINARY, [b"", "é🎉".encode(), None])) == ([0, 6, None], 0)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (1, 2, "ab"), (0, 2, "ab"), (2, None, "bcde"), (6, 3, ""), (-2, None, "de"), (-2, 1, "d"),
        (-7, 4, "ab"), (-7, 2, ""), (-7, None, "abcde"), (2, 0, ""), (2, -1, ""), (-5, 5, "abcde"),
        (2, 2**31 - 1, "bcde"), (-(2**31), 2**31 - 1, "abcd"), (0, None, "abcde"),
    ],
)  # fmt: skip
def test_substring(run: Any, start: int, count: int | None, expected: str) -> None:
    words = (STRING, ["abcde", None])
    literal = Literal(count, INT32)
    assert run("substring", STRING, words, number(start), literal)[0] == [expected, None]
    starts = (INT32, [start, start])
    if count is None:
        assert run("substring", STRING, words, starts, NULL_COUNT)[0] == [expected, None]
    else:
        counts = (INT32, [count, None])
        assert run("substring", STRING, words, starts, counts)[0] == [expected, None]


def test_a_null_place_or_count_gives_null(run: Any) -> None:
    words, places = (STRING, ["abc", "abc"]), (INT32, [1, None])
    assert run("substring", STRING, words, number(1), places)[0] == ["a", None]
    assert run("substring", STRING, words, places, NULL_COUNT)[0] == ["abc", None]


def test_left_and_right(run: Any) -> None:
    words, counts = (STRING, ["é🎉x"] * 4), (INT32, [2, 0, -1, 9])
    assert run("left", STRING, words, counts)[0] == ["é🎉", "", "", "é🎉x"]
    assert run("right", STRING, words, counts)[0] == ["🎉x", "", "", "é🎉x"]
    for count, left, right in ((2, "é🎉", "🎉x"), (0, "", ""), (-1, "", ""), (9, "é🎉x", "é🎉x")):
        assert run("left", STRING, words, number(count))[0] == [left] * 4
        assert run("right", STRING, words, number(count))[0] == [right] * 4


def test_only_spaces_are_trimmed(run: Any) -> None:
    words = (STRING, ["  a b ", "\t\u00a0x ", "   ", None])
    assert run("trim", STRING, words)[0] == ["a b", "\t\u00a0x", "", None]
    assert run("ltrim", STRING, words)[0] == ["a b ", "\t\u00a0x ", "", None]
    assert run("rtrim", STRING, words)[0] == ["  a b", "\t\u00a0x", "", None]


def test_replace(run: Any) -> None:
    words = (STRING, ["aaa", "banana", None])
    assert run("replace", STRING, words, text("aa"), text("b"))[0] == ["ba", "banana", None]
    assert run("replace", STRING, words, text(""), text("b"))[0] == ["aaa", "banana", None]
    olds = (STRING, ["", "an", "x"])
    assert run("replace", STRING, words, olds, text("-"))[0] == ["aaa", "b--a", None]
    assert run("replace", STRING, words, text(None), text("-"))[0] == [None] * 3


def test_concat(run: Any) -> None:
    words = (STRING, ["a", None, ""])
    assert run("concat", STRING, words, text("-"), words)[0] == ["a-a", None, "-"]
    assert run("concat", STRING, words, text(None))[0] == [None] * 3
    batch = pa.record_batch({"x": pa.array([1, 2], INT32)})
    constant = evaluate(Call("concat", (text("a"), text("b")), STRING), [batch], Failures())
    assert constant.to_arrow().to_pylist() == ["ab", "ab"]


def test_searches(run: Any) -> None:
    words = (STRING, ["abc", "", None])
    for op, part in (("starts_with", "ab"), ("ends_with", "bc"), ("contains", "b")):
        assert run(op, BOOL, words, text(part))[0] == [True, False, None]
        assert run(op, BOOL, words, text(""))[0] == [True, True, None]
        assert run(op, BOOL, words, text(None))[0] == [None] * 3
        assert run(op, BOOL, words, (STRING, [part, part, part]))[0] == [True, False, None]


LIKE_CASES = [
    ("abc", "abc", True), ("abc", "ab", False), ("abc", "%", True), ("", "%", True), ("", "", True),
    ("", "_", False), ("abc", "a%", True), ("abc", "%c", True), ("abc", "%b%", True),
    ("abc", "a_c", True), ("abc", "_%_", True), ("a", "_%_", False), ("a\nb", "a_b", True),
    ("a\nb", "a%", True), ("ab\n", "ab", False), ("é🎉", "__", True), ("a.c", "a.c", True),
    ("abc", "a.c", False), ("50%", r"50\%", True), ("50x", r"50\%", False), ("a_b", r"a\_b", True),
    ("a\\b", r"a\\b", True), ("ab", r"a\b", True), ("a\\", "a\\", True), ("aXbXc", "a%X%c", True),
    ("ABC", "abc", False), ("%", r"\%", True), ("x%y", r"%\%%", True), ("ab", "%%", True),
    ("a\0b", "a\0_", True), ("aab", "%ab", True), ("a+(b)", "a+(_)", True),
]  # fmt: skip


@pytest.mark.parametrize(("value", "pattern", "expected"), LIKE_CASES)
def test_like(run: Any, value: str, pattern: str, expected: bool) -> None:
    values, escape = (STRING, [value, None]), text("\\")
    assert run("like", BOOL, values, text(pattern), escape)[0] == [expected, None]
    assert run("like", BOOL, values, (STRING, [pattern, pattern]), escape)[0] == [expected, None]


def test_like_with_null_or_another_escape(run: Any) -> None:
    values = (STRING, ["a%", "ab"])
    assert run("like", BOOL, values, text(None), text("\\"))[0] == [None, None]
    assert run("like", BOOL, values, text("a!%"), text("!"))[0] == [True, False]
    assert run("like", BOOL, values, (STRING, ["a!%", None]), text("!"))[0] == [True, None]


def test_like_with_a_very_long_pattern(run: Any) -> None:
    long = "_%é" * 20_000
    assert run("like", BOOL, (STRING, ["aé" * 20_000, "a", None]), text(long), text("\\"))[0] == [
        True,
        False,
        None,
    ]


def naive(value: str, pattern: str) -> bool:
    """LIKE without an escape, by backtracking."""
    if not pattern:
        return not value
    if pattern[0] == "%":
        return any(naive(value[place:], pattern[1:]) for place in range(len(value) + 1))
    return bool(value) and pattern[0] in ("_", value[0]) and naive(value[1:], pattern[1:])


@given(value=st.text("ab\n", max_size=8), pattern=st.text("ab\n%_", max_size=7))
def test_like_against_trying_everything(value: str, pattern: str) -> None:
    batch = pa.record_batch({"x": pa.array([value])})
    column = Column(0, 0, "x", STRING)
    call = Call("like", (column, text(pattern), text("\\")), BOOL)
    expected = naive(value, pattern)
    assert evaluate(call, [batch], Failures()).to_arrow().to_pylist() == [expected]
    assert (matcher(pattern, "\\").fullmatch(value) is not None) == expected


def test_like_with_many_runs_does_not_take_forever() -> None:
    pattern = "%a" * 30 + "%b"
    assert matcher(pattern, "\\").fullmatch("a" * 5000) is None
