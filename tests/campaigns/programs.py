"""Encoded programs, damaged: an equal program, a valid other one, or an error that names the field.

The text of a program or instruction is damaged (characters flipped, deleted, replaced, the end cut
off), or a value of its JSON (deleted, repeated, replaced by another value of it, or by any other).
What is decoded must be encoded to a text that decodes to the same; an error is a ProgramError.
"""

from __future__ import annotations

import copy
import json
import random
import traceback
from collections import Counter
from typing import Any

from penstock.errors import ProgramError
from penstock.program.isa.encoding import from_json, to_json
from tests.programs import conformance

COUNT = 100_000
ODD = (None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63) - 1, 0.5, -0.0, 1e308)
ODD_TEXTS = ("", "int64", "x", "1", "-1", "nan", "1e400", "\ud800", "eq", "join", "none", "0/0")


def run(seed: int, count: int) -> int:
    """Damage that many encoded programs; returns how many went wrong."""
    texts = [to_json(one) for those in conformance().values() for one in those]
    wrong = 0
    outcomes: Counter[str] = Counter()
    for case in range(count):
        chance = random.Random(f"{seed} {case}")
        text = damaged(chance, chance.choice(texts), texts)
        try:
            outcomes[outcome(text)] += 1
        except Exception:
            wrong += 1
            print(f"case {case} of --seed {seed}: {text!r}")
            traceback.print_exc(limit=-4)
    print(", ".join(f"{number} {kind}" for kind, number in sorted(outcomes.items())))
    return wrong


def outcome(text: str) -> str:
    """What becomes of a damaged text; an error that is not ours goes on."""
    try:
        found = from_json(text)
    except ProgramError as error:
        assert error.what and error.remedy
        return "refused"
    again = from_json(to_json(found))
    assert to_json(again) == to_json(found)
    return "equal" if to_json(found) == text else "valid"


def damaged(chance: random.Random, text: str, others: list[str]) -> str:
    """The text with one damage, or a few."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if chance.random() < 0.5:
            text = _damaged_text(chance, text, others)
            continue
        try:
            found = json.loads(text)
        except ValueError:
            continue
        text = json.dumps(_damaged_value(chance, found))
    return text


def _damaged_text(chance: random.Random, text: str, others: list[str]) -> str:
    if not text:
        return chance.choice(others)
    at = chance.randrange(len(text))
    kind = chance.choice(("flip", "delete", "replace", "truncate", "splice"))
    if kind == "truncate":
        return text[:at]
    if kind == "flip":
        return text[:at] + chr(ord(text[at]) ^ (1 << chance.randrange(7))) + text[at + 1 :]
    size = chance.choice((1, 1, 2, 5, 40))
    if kind == "delete":
        return text[:at] + text[at + size :]
    if kind == "replace":
        put = "".join(chance.choice('{}[]",:0123456789.-eabns \\u') for _ in range(size))
        return text[:at] + put + text[at + size :]
    other = chance.choice(others)
    cut = chance.randrange(len(other))
    return text[:at] + other[cut : cut + size] + text[at + size :]


def _damaged_value(chance: random.Random, found: Any) -> Any:
    found = copy.deepcopy(found)
    places = list(_places(found))
    if not places:
        return chance.choice(ODD)
    holder, key = chance.choice(places)
    kind = chance.choice(("delete", "replace", "replace", "take", "repeat", "add"))
    if kind == "delete":
        del holder[key]
    elif kind == "replace":
        holder[key] = chance.choice((*ODD, *ODD_TEXTS, [], {}, [[]], 1, 2, 3, 4, 5))
    elif kind == "take":
        other, place = chance.choice(places)
        holder[key] = copy.deepcopy(other[place])
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]) if kind == "repeat" else chance.choice(ODD))
    else:
        holder[chance.choice(("is", "type", "x", "columns"))] = chance.choice(ODD)
    return found


def _places(found: Any) -> Any:
    """Every place of a value inside another: what holds it, and its key or index there."""
    waiting = [found]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys if isinstance(holder, dict | list) else ():
            yield holder, key
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
