"""Texts of other engines, cut, joined and mixed: a plan, or an error of ours with its advice."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

from penstock.errors import SqlError
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse, tokenize
from penstock.sql.parse.statements import CreateStream, DeriveStream, Explain, QueryText
from tests.sql.conftest import BOUNDED, STREAMS

COUNT = 20_000


@cache
def texts() -> list[list[str]]:
    """The tokens of every text for which a message is asserted, where they can be read."""
    found = []
    for path in sorted((Path(__file__).parents[1] / "sql").glob("errors*.txt")):
        for block in path.read_text().split("\n\n"):
            text = block.strip("\n").split("\n", 1)[1].split("\n----\n")[0]
            try:
                found.append([text[t.start : t.end + 1] for t in tokenize(text)])
            except SqlError:
                continue
    return found


def mixed(rng: random.Random) -> str:
    """A text with words of others in it."""
    words = list(rng.choice(texts()))
    for _ in range(rng.randint(1, 3)):
        place = rng.randint(0, len(words))
        other = rng.choice(texts())
        word = rng.choice(other)
        kind = rng.randrange(4)
        if kind == 0:
            words = words[:place]
        elif kind == 1:
            words.insert(place, word)
        elif kind == 2:
            words[place : place + 1] = [word]
        else:
            words = words[:place] + other[rng.randrange(len(other)) :]
    return " ".join(words)


def catalog() -> Catalog:
    """The streams that the texts name."""
    streams = [s.stream for s in parse(STREAMS) if isinstance(s, CreateStream)]
    ending = [replace(s, name=BOUNDED[s.name], bounded=True) for s in streams if s.name in BOUNDED]
    return Catalog([*streams, *ending])


def trouble(text: str, known: Catalog) -> str | None:
    """What is wrong with what is said of the text, if anything is."""
    try:
        for statement in parse(text):
            if isinstance(statement, QueryText):
                bind(statement, known)
            elif isinstance(statement, DeriveStream | Explain):
                bind(statement.query, known)
    except SqlError as error:
        if error.remedy[-1:] not in (".", "?", ";"):
            return f"its remedy does not end: {error.remedy}"
        if " at line " not in error.what:
            return f"it points nowhere: {error.what}"
    except Exception as error:
        return repr(error)
    return None


def run(seed: int, count: int) -> int:
    """Try that many texts; how many of them went wrong."""
    rng, known, wrong = random.Random(seed), catalog(), 0
    for _ in range(count):
        text = mixed(rng)
        said = trouble(text, known)
        if said is not None:
            wrong += 1
            print(f"{text!r}: {said}")
    return wrong
