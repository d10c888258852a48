"""The difference of two texts: the expected one, the present one, and the changed places."""

from __future__ import annotations

import difflib
import re

_MOST = 8
"""The number of differences to list; texts with more have little in common."""


def difference(before: str, now: str) -> str:
    """Both texts, each on a line of its own, and the places that differ.

    >>> print(difference("SELECT x FROM R  [ROWS 5]", "SELECT x, y FROM R [ROWS 6]"))
      then: SELECT x FROM R [ROWS 5]
      now:  SELECT x, y FROM R [ROWS 6]
      differs: ', y' is new; '5' was, '6' is
    """
    then, new = " ".join(before.split()), " ".join(now.split())
    return f"  then: {then}\n  now:  {new}\n  differs: {'; '.join(_places(then, new)) or 'spaces'}"


def _places(then: str, now: str) -> list[str]:
    old, new = ([*re.finditer(r"\w+|[<>=!]+|\S", text)] for text in (then, now))
    old_words, new_words = [word[0] for word in old], [word[0] for word in new]
    steps = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes()
    places = [
        _change(_slice(then, old[a:b]), _slice(now, new[c:d]))
        for kind, a, b, c, d in steps
        if kind != "equal"
    ]
    return places if len(places) <= _MOST else [*places[:_MOST], "and more"]


def _slice(text: str, words: list[re.Match[str]]) -> str:
    return text[words[0].start() : words[-1].end()] if words else ""


def _change(then: str, now: str) -> str:
    if not then:
        return f"{now!r} is new"
    return f"{then!r} is gone" if not now else f"{then!r} was, {now!r} is"
