"""Functions of strings, and LIKE: Arrow's where they do exactly what we mean, else Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.vector import (
    Texts,
    Vector,
    boolean_vector,
    null_vector,
    text_vector,
)
from penstock.sql.expressions import Call, Expression, Literal


def constant_of(expression: Expression) -> Any:
    """The value of a literal; None if it is NULL or no literal."""
    return expression.value if isinstance(expression, Literal) else None


def per_row(call: Call, context: Context, function: Callable[..., Any]) -> Vector:
    """``function`` of the arguments in every row; NULL where any of them is."""
    columns = [context.vector(argument).to_arrow().to_pylist() for argument in call.args]
    results = [
        None if None in arguments else function(*arguments)
        for arguments in zip(*columns, strict=True)
    ]
    array = pa.array(results, call.type)
    return boolean_vector(array) if pa.types.is_boolean(call.type) else text_vector(array)


def per_distinct(array: Texts, function: Callable[[Any], Any], kind: pa.DataType) -> Any:
    """``function`` of every value, computed once for equal ones; NULL where the value is."""
    encoded = array.dictionary_encode()
    results = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(results, kind).take(encoded.indices)


def _concat(call: Call, context: Context) -> Vector:
    if all(isinstance(argument, Literal) for argument in call.args):
        return per_row(call, context, lambda *parts: parts[0][:0].join(parts))
    parts: list[Any] = [
        pa.scalar(argument.value, argument.type)
        if isinstance(argument, Literal)
        else context.vector(argument).values
        for argument in call.args
    ]
    nothing: Any = pa.scalar(b"" if pa.types.is_binary(call.type) else "", call.type)
    joined = pc.binary_join_element_wise(*parts, nothing, null_handling="emit_null")
    return text_vector(joined)


@cache
def _other_case(character: str, upper: bool) -> str:
    other = character.upper() if upper else character.lower()
    return other if len(other) == 1 else character


def _change_case(call: Call, context: Context) -> Vector:
    array = context.vector(call.args[0]).values
    upper = call.op == "upper"
    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return text_vector(pc.ascii_upper(array) if upper else pc.ascii_lower(array))

    def changed(text: str) -> str:
        return "".join([_other_case(character, upper) for character in text])

    return text_vector(per_distinct(array, changed, pa.string()))


def _length(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    text = pa.types.is_string(vector.type)
    lengths = pc.utf8_length(vector.values) if text else pc.binary_length(vector.values)
    values = np.frombuffer(lengths.buffers()[1], np.int32)[lengths.offset :][: len(lengths)]
    return Vector(values, vector.valid, call.type)


def piece(text: Any, start: int, count: int | None = None) -> Any:
    """``SUBSTRING(text, start, count)``.

    >>> piece("abc", -5, 4), piece("abc", 0, 2), piece("abc", 2), piece("abc", 2, -1)
    ('ab', 'ab', 'bc', '')
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if count is None else first + max(count, 0)
    return text[max(first, 0) : max(last, 0)]


def _substring(call: Call, context: Context) -> Vector:
    text, start = call.args[:2]
    count = call.args[2] if len(call.args) > 2 else Literal(None, pa.int32())
    to_the_end = isinstance(count, Literal) and count.value is None
    first, size = constant_of(start), constant_of(count)
    if pa.types.is_string(text.type) and first is not None and (to_the_end or size is not None):
        array = context.vector(text).values
        return text_vector(_slice(array, first, None if to_the_end else max(size, 0)))
    if to_the_end:
        return per_row(Call("substring", (text, start), call.type), context, piece)
    return per_row(call, context, piece)


def _slice(array: Texts, start: int, count: int | None) -> Texts:
    """Substrings at a constant place: Arrow slices as Python does."""
    first = start - 1 if start > 0 else start
    if count == 0:
        return pc.utf8_slice_codeunits(array, 0, 0)
    last = None if count is None else first + count
    if first < 0 and last is not None and last >= 0:
        last = None
    return pc.utf8_slice_codeunits(array, first, last)


def _left(call: Call, context: Context) -> Vector:
    count = constant_of(call.args[1])
    if count is None or not pa.types.is_string(call.type):
        return per_row(call, context, lambda text, count: text[: max(count, 0)])
    array = context.vector(call.args[0]).values
    return text_vector(pc.utf8_slice_codeunits(array, 0, max(count, 0)))


def _right(call: Call, context: Context) -> Vector:
    count = constant_of(call.args[1])
    if count is None or not pa.types.is_string(call.type):
        return per_row(call, context, lambda text, count: text[max(len(text) - max(count, 0), 0) :])
    array = context.vector(call.args[0]).values
    if count <= 0:
        return text_vector(pc.utf8_slice_codeunits(array, 0, 0))
    return text_vector(pc.utf8_slice_codeunits(array, -count, None))


TRIMS: dict[str, Callable[..., Any]] = {
    "trim": pc.utf8_trim,
    "ltrim": pc.utf8_ltrim,
    "rtrim": pc.utf8_rtrim,
}


def _trim(call: Call, context: Context) -> Vector:
    array = context.vector(call.args[0]).values
    return text_vector(TRIMS[call.op](array, characters=" "))


def _replace(call: Call, context: Context) -> Vector:
    old, new = constant_of(call.args[1]), constant_of(call.args[2])
    # Arrow does not terminate for an empty pattern.
    if old is None or new is None or len(old) == 0:
        return per_row(call, context, lambda text, a, b: text.replace(a, b) if a else text)
    array = context.vector(call.args[0]).values
    return text_vector(pc.replace_substring(array, pattern=old, replacement=new))


SEARCHES: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], bool]]] = {
    "starts_with": (pc.starts_with, lambda text, part: text.startswith(part)),
    "ends_with": (pc.ends_with, lambda text, part: text.endswith(part)),
    "contains": (pc.match_substring, lambda text, part: part in text),
}


def _search(call: Call, context: Context) -> Vector:
    arrow, python = SEARCHES[call.op]
    text, part = call.args
    if isinstance(part, Literal):
        if part.value is None:
            return null_vector(call.type, context.length)
        return boolean_vector(arrow(context.vector(text).values, pattern=part.value))
    return per_row(call, context, python)


# -- LIKE --------------------------------------------------------------------------------

ANY_RUN, ANY_ONE = None, True
"""The tokens for ``%`` and ``_``; others are plain characters."""
LONGEST_FOR_ARROW = 1000
"""Arrow limits the memory of regular expressions; longer patterns are matched in Python."""

Token = str | bool | None


def tokens(pattern: str, escape: str) -> list[Token]:
    r"""The tokens of a pattern: runs of plain text, ANY_RUN and ANY_ONE.

    The escape makes any next character a plain one; at the end it stands for itself.

    >>> tokens(r"a%b_\%", "\\")
    ['a', None, 'b', True, '%']
    """
    found: list[Token] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            token: Token = next(characters, escape)
        else:
            token = {"%": ANY_RUN, "_": ANY_ONE}.get(character, character)
        previous = found[-1] if found else None
        if isinstance(token, str) and isinstance(previous, str):
            found[-1] = previous + token
        elif token is not ANY_RUN or not found or previous is not ANY_RUN:
            found.append(token)
    return found


@lru_cache(maxsize=1024)
def matcher(pattern: str, escape: str) -> re.Pattern[str]:
    """A regular expression for the whole text.

    Each ``%`` except the last stops at the first place where the following piece matches; moving it
    further never helps, so it is atomic, and each costs at most one pass over the text.
    """
    pieces: list[list[str]] = [[]]
    for token in tokens(pattern, escape):
        if token is ANY_RUN:
            pieces.append([])
        else:
            pieces[-1].append("." if token is ANY_ONE else re.escape(str(token)))
    first, *rest = map("".join, pieces)
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    return re.compile(rf"{first}{middle}{last}", re.DOTALL)


def _like(call: Call, context: Context) -> Vector:
    escape = constant_of(call.args[2]) if len(call.args) > 2 else None
    escape = "\\" if escape is None else escape
    if isinstance(call.args[1], Literal):
        if call.args[1].value is None:
            return null_vector(call.type, context.length)
        pattern = str(call.args[1].value)
        if len(pattern) <= LONGEST_FOR_ARROW:
            found = tokens(pattern, escape)
            return boolean_vector(_match(context.vector(call.args[0]).values, found))

    def matches(text: str, pattern: str) -> bool:
        return matcher(pattern, escape).fullmatch(text) is not None

    return per_row(Call("like", call.args[:2], call.type), context, matches)


def _match(array: Texts, found: list[Token]) -> Texts:
    """A constant pattern, by Arrow, whose regular expressions never backtrack."""
    plain = [token for token in found if isinstance(token, str)]
    if ANY_ONE not in found and len(plain) <= 1:
        text = plain[0] if plain else ""
        if not plain and found:
            return pc.equal(array, array)  # true, but for NULLs
        if len(found) <= 1:
            return pc.equal(array, pa.scalar(text))
        if len(found) == 3:
            return pc.match_substring(array, pattern=text)
        return (pc.starts_with if found[0] is not ANY_RUN else pc.ends_with)(array, pattern=text)
    pieces = {ANY_RUN: ".*", ANY_ONE: "."}
    regex = "".join(_escaped(token) if isinstance(token, str) else pieces[token] for token in found)
    return pc.match_substring_regex(array, pattern=rf"(?s)\A{regex}\z")


def _escaped(text: str) -> str:
    """Plain text, escaped for Arrow's regular expressions."""
    return "".join(c if c.isalnum() or not c.isascii() else f"\\x{{{ord(c):x}}}" for c in text)


OPERATIONS: dict[str, Operation] = {
    "concat": _concat,
    "upper": _change_case,
    "lower": _change_case,
    "length": _length,
    "substring": _substring,
    "left": _left,
    "right": _right,
    **dict.fromkeys(TRIMS, _trim),
    "replace": _replace,
    **dict.fromkeys(SEARCHES, _search),
    "like": _like,
}
