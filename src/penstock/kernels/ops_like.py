"""LIKE: patterns as regular expressions, or as a plain search where that is all they are."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.context import Context, Operation
from penstock.kernels.ops_text import constant_of, per_row
from penstock.kernels.vector import Texts, Vector, boolean_vector, null_vector
from penstock.sql.expressions import Call, Literal

ANY_RUN, ANY_ONE = None, True
"""What ``%`` and ``_`` are read as, beside plain characters."""
LONGEST_FOR_ARROW = 1000
"""Its regular expressions may take only so much memory, and refuse to run beyond it."""

Token = str | bool | None


def tokens(pattern: str, escape: str) -> list[Token]:
    r"""The pattern read: runs of plain text, ANY_RUN and ANY_ONE.

    The escape makes the next character a plain one, whatever it is; at the end it is itself.

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

    Each ``%`` but the last stops at the first place where what follows it fits; to move it further
    never helps, so it is atomic, and a text without a match costs no more than one pass each.
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
    """A constant pattern, by Arrow: its regular expressions never go back."""
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
    """Plain text in the syntax of Arrow's regular expressions, characters of no sort special."""
    return "".join(c if c.isalnum() or not c.isascii() else f"\\x{{{ord(c):x}}}" for c in text)


OPERATIONS: dict[str, Operation] = {"like": _like}
