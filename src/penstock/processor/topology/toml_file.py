"""Topologies as TOML: reading with errors that name the line, and writing.

A file has the topology's name, its widths, its units, and under ``[wiring]`` what
:class:`penstock.processor.topology.topology.Topology` has, with ports as ``block-1.r-out`` and
wires as ``block-1.r-out -> block-2.r``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from penstock.errors import InputError, Problem, TopologyError
from penstock.processor.topology.check import near
from penstock.processor.topology.kinds import KINDS, PARAMETERS
from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.processor.topology.topology import Topology
from penstock.program.isa.words.layout import WordLayout, layout_from, option
from penstock.streams.display import listed

LONGEST_TEXT = 1 << 22
"""Characters of a file at most: several times what the largest topology takes."""
PORT = re.compile(r"\s*([^.\s]+)\s*\.\s*([^.\s]+)\s*")


class _Wrong(Exception):
    """Something that is no part of a topology."""

    def __init__(self, what: str, remedy: str, piece: str = "") -> None:
        super().__init__(what)
        self.problem = Problem(what, remedy, piece)


def read_toml(text: str, source: str) -> Topology:
    """The topology that a text describes; ``source`` is what errors call the text."""
    problems: Sequence[Problem]
    try:
        return _topology(_parsed(text))
    except _Wrong as error:
        problems = [error.problem]
    except TopologyError as error:
        problems = error.problems
    raise TopologyError.of(source, [_placed(problem, text) for problem in problems])


def _parsed(text: str) -> Mapping[str, Any]:
    """The text as TOML."""
    if len(text) > LONGEST_TEXT:
        raise _Wrong(
            f"{len(text):,} characters",
            f"Describe a topology in at most {LONGEST_TEXT:,} characters.",
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _Wrong(f"not TOML: {error}", "Correct the text at this place.") from error
    except ValueError as error:  # Python reads no numbers of thousands of digits
        raise _Wrong("a number is too long", "Shorten it.") from error
    except RecursionError as error:
        raise _Wrong("brackets are too deep", "Write arrays of strings, and tables.") from error


def _placed(problem: Problem, text: str) -> Problem:
    """The problem with the line where the piece of text stands that it is about, if one does."""
    if not problem.piece:
        return problem
    piece = re.escape(problem.piece)
    key = re.search(rf"^\s*{problem.key}\s*=", text, re.MULTILINE) if problem.key else None
    # Of a string the last one: what is said twice is wrong where it is repeated.
    strings = list(re.compile(rf"[\"']{piece}[\"']").finditer(text, key.end() if key else 0))
    keys = list(re.finditer(rf"^\s*(?:{piece}\s*=|\[+\s*{piece}\s*\])", text, re.MULTILINE))
    found = (strings[:1] if key else strings[-1:]) or keys[:1]
    if not found:
        return problem
    line = text.count("\n", 0, found[0].end()) + 1
    return problem._replace(what=f"line {line}: {problem.what}")


# -- reading --------------------------------------------------------------------------------------


def _topology(parts: Mapping[str, Any]) -> Topology:
    _only(parts, ("name", "segments", "widths", "unit", "wiring"), "a topology")
    name = _of_type(parts, "name", str, 'name = "two-branches" at the top of the file')
    wiring = _of_type(parts, "wiring", dict, '[wiring] and below it exit = "block-1.final"')
    _only(wiring, ("entries", "ends", "exit", "wires"), "[wiring]")
    return Topology(
        name,
        tuple(_unit(unit) for unit in _units(parts)),
        tuple(map(_wire, _strings(wiring, "wires", "block-1.r-out -> block-2.r"))),
        tuple(map(_port, _strings(wiring, "entries", "block-1.r"))),
        tuple(map(_port, _strings(wiring, "ends", "block-1.s-out"))),
        _port(_of_type(wiring, "exit", str, 'exit = "node-1.out" below [wiring]')),
        _widths(parts),
        "segments" in parts and _of_type(parts, "segments", bool, "segments = true"),
    )


def _only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse keys that a table does not have."""
    names = list(known)
    for key in table:
        if key not in names:
            raise _Wrong(f"{where} has no {key!r}", f"Write {near(key, names)}.", key)


def _of_type(table: Mapping[str, Any], key: str, kind: type, example: str) -> Any:
    if key not in table:
        raise _Wrong(f"there is no {key}", f"Write {example}.")
    if not isinstance(table[key], kind):
        raise _Wrong(f"{key} is {_shown(table[key])}", f"Write {example}.", key)
    return table[key]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = f"{value!r}"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _units(parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    example = '[[unit]] and below it kind = "op-block"'
    found = parts.get("unit", [])
    if not isinstance(found, list) or not all(isinstance(unit, dict) for unit in found):
        raise _Wrong("unit is no array of tables", f"Write {example}, once for each unit.", "unit")
    return found


def _unit(table: Mapping[str, Any]) -> Unit:
    where = _called(table)
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise _Wrong(
            f"{where} has no kind" if kind is None else f"the kind of {where} is {_shown(kind)}",
            f"Write {listed((f'kind = {_string(name)}' for name in KINDS), 'or')}.",
            _piece(table),
        )
    _only(table, ("kind", "name", "width", *PARAMETERS), where)
    # Of kinds that there are not, and of parameters that a kind does not have, the check tells.
    parameters = KINDS[kind].parameters if kind in KINDS else ()
    for key in parameters:
        if key not in table:
            raise _Wrong(
                f"{where} has no {key}",
                f"Write {key} = N: {PARAMETERS[key].summary}.",
                _piece(table),
            )
    given = {key: _number(table, key, where) for key in ("width", *PARAMETERS) if key in table}
    for key, value in given.items():
        if value == 0 and key not in parameters:  # which would say that there is none
            raise _Wrong(f"the {key} of {where} is 0", "Leave it out.", _piece(table))
    name = table.get("name", f"block-{given['number']}" if "number" in given else None)
    if not isinstance(name, str):
        raise _Wrong(
            f"a {kind} has no name" if name is None else f"the name of a {kind} is {_shown(name)}",
            'Write name = "node-1".',
        )
    return Unit(name, kind, **given)


def _called(table: Mapping[str, Any]) -> str:
    """What an error calls a unit that is being read."""
    return f"unit {_piece(table)}" if _piece(table) else "a unit"


def _piece(table: Mapping[str, Any]) -> str:
    name = table.get("name")
    return name if isinstance(name, str) else ""


def _number(table: Mapping[str, Any], key: str, where: str) -> int:
    value = table[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong(
            f"the {key} of {where} is {_shown(value)}",
            "Write a whole number from 1 on.",
            _piece(table) or key,
        )
    return value


def _widths(parts: Mapping[str, Any]) -> WordLayout:
    table = parts.get("widths", {})
    if not isinstance(table, dict):
        raise _Wrong("widths is no table", "Write [widths] and below it port = 64.", "widths")
    _only(table, map(option, _names_of(WordLayout)), "[widths]")
    given = {key: _number(table, key, "[widths]") for key in table}
    try:
        return layout_from(given)
    except InputError as error:
        raise _Wrong(error.what, error.remedy, "widths") from error


def _strings(table: Mapping[str, Any], key: str, example: str) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _Wrong(f"{key} is no array of strings", f'Write {key} = ["{example}"].', key)
    return found


def _port(text: str) -> UnitPort:
    found = PORT.fullmatch(text)
    if found is None:
        raise _Wrong(
            f"{_shown(text)} is no port", "Write the unit, a dot and its port: block-1.r.", text
        )
    return UnitPort(*found.groups())


def _wire(text: str) -> Wire:
    source, arrow, target = text.partition("->")
    ends = [PORT.fullmatch(end) for end in (source, target)]
    if not arrow or None in ends:
        raise _Wrong(
            f"{_shown(text)} is no wire",
            "Write the output, an arrow and the input: block-1.r-out -> block-2.r.",
            text,
        )
    return Wire(*(UnitPort(*end.groups()) for end in ends if end is not None))


# -- writing --------------------------------------------------------------------------------------


def write_toml(topology: Topology) -> str:
    """The topology as a text that :func:`read_toml` reads."""
    lines = [f"name = {_string(topology.name)}"]
    lines += ["segments = true"] * topology.segments
    lines += ["", "[widths]"]
    widths = {option(key): getattr(topology.widths, key) for key in _names_of(WordLayout)}
    lines += [f"{key} = {value}" for key, value in widths.items()]
    for unit in topology.units:
        lines += ["", "[[unit]]", f"kind = {_string(unit.kind)}", f"name = {_string(unit.name)}"]
        given = {key: getattr(unit, key) for key in (*PARAMETERS, "width")}
        lines += [f"{key} = {value}" for key, value in given.items() if value]
    lines += ["", "[wiring]"]
    lines += _array("entries", topology.entries)
    lines += _array("ends", topology.ends)
    lines += [f"exit = {_string(str(topology.exit))}"]
    lines += _array("wires", topology.wires)
    return "\n".join(lines) + "\n"


def _names_of(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _array(key: str, values: Iterable[object]) -> list[str]:
    return [f"{key} = [", *(f"    {_string(str(value))}," for value in values), "]"]


def _string(text: str) -> str:
    """A basic string of TOML: a string of JSON, in which DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
