r"""Scripts of events, one a line: the language of ``.flow`` files.

::

    stream R (id int64, x int32) [TIMESTAMP BY id [MAX LEAD 60]] [unbounded]
    derive big: SELECT ...                   # or CREATE STREAM big AS SELECT ...
    install pairs: SELECT ...
    R: 1, 10                                 # a tuple of R
    punctuate R: 120                         # or punctuate R.x: 120
    change pairs: SELECT ...
    expect pairs: 1, 7; 2, 8                 # nothing after the colon: no rows
    expect ordered pairs: 1, 7
    expect late pairs: R: 5, 1
    expect dead pairs: R: 1, 'x' (reason)
    drop pairs
    end R                                    # end alone: every stream

A ``\`` at the end continues a line, a ``#`` at its start or after a space begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from penstock.errors import SURROGATE, InputError, ScriptError
from penstock.streams.lead import UNIT_SECONDS, lead_from_sql
from penstock.streams.literals import ParsedLiteral, parse_prefix, parse_values
from penstock.streams.schema import Stream, parse_type


@dataclass(frozen=True)
class Line:
    """The position of a step: the number of its first line, and its text."""

    number: int
    text: str


@dataclass(frozen=True)
class StreamStep:
    line: Line
    stream: Stream


@dataclass(frozen=True)
class DeriveStep:
    line: Line
    name: str
    sql: str


@dataclass(frozen=True)
class InstallStep:
    line: Line
    query: str
    sql: str


@dataclass(frozen=True)
class ChangeStep:
    line: Line
    query: str
    sql: str


@dataclass(frozen=True)
class DropStep:
    line: Line
    query: str


@dataclass(frozen=True)
class TupleStep:
    line: Line
    stream: str
    values: tuple[ParsedLiteral, ...]


@dataclass(frozen=True)
class PunctuateStep:
    line: Line
    stream: str
    attribute: str | None
    value: ParsedLiteral


@dataclass(frozen=True)
class EndStep:
    """End of ``stream``, or of every stream that has not ended if it is None."""

    line: Line
    stream: str | None


@dataclass(frozen=True)
class ExpectedRow:
    """An expected row; for letters also the stream and, if it is written, the reason."""

    values: tuple[ParsedLiteral, ...]
    stream: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ExpectStep:
    """The outputs expected since the last expectation of this query and kind: rows, late, dead."""

    line: Line
    query: str
    kind: str
    ordered: bool
    rows: tuple[ExpectedRow, ...]


Step = (
    StreamStep
    | DeriveStep
    | InstallStep
    | ChangeStep
    | DropStep
    | TupleStep
    | PunctuateStep
    | EndStep
    | ExpectStep
)

NAME = r"[^\W\d]\w*"
LEAD = (
    r"(?:MAX\s+LEAD\s+(\d{1,30}(?:\.\d{1,30})?)"
    rf"(?:\s+({'|'.join((*UNIT_SECONDS, 'MONTH', 'QUARTER', 'YEAR'))})S?)?)?"
)
KINDS = (
    "Write a tuple (R: 1, 2) or one of: stream, derive, install, change, drop, punctuate, end, "
    "expect."
)


def parse_script(text: str) -> list[Step]:
    """The steps of a script. A malformed line is a ScriptError with its number."""
    steps: list[Step] = []
    for line in _lines(text):
        if SURROGATE.search(line.text):
            raise ScriptError.at_line(
                line.number,
                line.text,
                "half of a character (a lone surrogate)",
                "Write the whole character; decode the script as the encoding that it has.",
            )
        step = _parse_line(line)
        last = steps[-1] if steps else None
        if isinstance(step, ExpectStep) and isinstance(last, ExpectStep) and _same(last, step):
            steps[-1] = replace(last, rows=last.rows + step.rows)
        else:
            steps.append(step)
    return steps


def _same(last: ExpectStep, step: ExpectStep) -> bool:
    """Whether two adjacent expectations belong to the same bag or list."""
    previous = (last.query.lower(), last.kind, last.ordered)
    return bool(last.rows and step.rows) and previous == (
        step.query.lower(),
        step.kind,
        step.ordered,
    )


def _lines(text: str) -> Iterator[Line]:
    """The non-empty lines, with continuations joined and comments removed."""
    start, pieces = 0, ""
    # Not splitlines, which also cuts at characters that a string may contain.
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff")), 1):
        piece = _without_comment(pieces + raw)[len(pieces) :] if pieces else _without_comment(raw)
        piece = piece.rstrip()
        start = start or number
        if piece.endswith("\\"):
            pieces += piece[:-1].rstrip() + " "
            continue
        whole = (pieces + piece).strip()
        if whole:
            yield Line(start, whole)
        start, pieces = 0, ""
    if pieces.strip():
        raise ScriptError.at_line(
            start, pieces.strip(), "the last line ends in \\", "Write the line it continues with."
        )


def _without_comment(line: str) -> str:
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character == "#" and (index == 0 or line[index - 1].isspace()):
            return line[:index]
    return line


def _parse_line(line: Line) -> Step:
    match = re.match(rf"({NAME})\b", line.text)
    word = match[1].lower() if match else ""
    rest = line.text[match.end() :] if match else ""
    if re.match(r"\s*:", rest):
        return _tuple(line)
    parser = _PARSERS.get(word)
    if parser is None:
        raise ScriptError.at_line(
            line.number, line.text, "neither a command nor a tuple of a stream", KINDS
        )
    return parser(line, rest.strip())


def _tuple(line: Line) -> TupleStep:
    name, text = (part.strip() for part in line.text.split(":", 1))
    return TupleStep(line, name, _values(line, text))


def _values(line: Line, text: str) -> tuple[ParsedLiteral, ...]:
    try:
        return tuple(parse_values(text))
    except ValueError as reason:
        raise _bad_value(line, reason) from None


def _bad_value(line: Line, reason: ValueError) -> ScriptError:
    return ScriptError.at_line(
        line.number,
        line.text,
        str(reason),
        "Write SQL literals with commas between them: 1, 1.5, 'text', TRUE, NULL, "
        "DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00'.",
    )


def _stream(line: Line, rest: str) -> StreamStep:
    match = re.fullmatch(
        rf"({NAME})\s*\((.*)\)\s*(?:TIMESTAMP\s+BY\s+({NAME}))?\s*{LEAD}\s*(bounded|unbounded)?;?",
        rest,
        re.IGNORECASE,
    )
    if match is None:
        raise ScriptError.at_line(
            line.number,
            line.text,
            "not the declaration of a stream",
            "Write stream R (id int64, x int32), perhaps with TIMESTAMP BY id after it.",
        )
    try:
        fields = [_column(line, column) for column in re.split(r",(?![^(]*\))", match[2])]
        bounded = (match[6] or "bounded").lower() == "bounded"
        lead = None
        if match[4] is not None:
            time = next(
                (f for f in fields if f.name.lower() == (match[3] or "").lower()), fields[0]
            )
            lead = lead_from_sql(Decimal(match[4]), match[5] and match[5].upper(), time.type)
        stream = Stream.of(match[1], pa.schema(fields), match[3], bounded, max_lead=lead)
    except InputError as error:
        raise ScriptError.at_line(line.number, line.text, error.what, error.remedy) from None
    return StreamStep(line, stream)


def _column(line: Line, text: str) -> pa.Field[pa.DataType]:
    match = re.fullmatch(rf"\s*({NAME})\s+(.+)", text)
    if match is None:
        raise ScriptError.at_line(
            line.number,
            line.text,
            f"{text.strip()!r} is not a column",
            "Write a name and a type: id int64.",
        )
    return pa.field(match[1], parse_type(match[2]))


def _create(line: Line, rest: str) -> StreamStep | DeriveStep:
    match = re.fullmatch(rf"STREAM\s+({NAME})\s+AS\s+(.+)", rest, re.IGNORECASE | re.DOTALL)
    if match:
        return DeriveStep(line, match[1], match[2].removesuffix(";"))
    match = re.fullmatch(r"STREAM\s+(.+)", rest, re.IGNORECASE)
    if match:
        return _stream(line, match[1])
    raise ScriptError.at_line(
        line.number,
        line.text,
        "nothing but streams can be created",
        "Write CREATE STREAM R (id int64, x int32) or CREATE STREAM big AS SELECT ....",
    )


def _named_sql(line: Line, rest: str, word: str) -> tuple[str, str]:
    match = re.fullmatch(rf"({NAME})\s*:\s*(.+)", rest, re.DOTALL)
    if match is None:
        raise ScriptError.at_line(
            line.number,
            line.text,
            f"{word} needs a name, a colon and a query",
            f"Write {word} pairs: SELECT ....",
        )
    return match[1], match[2]


def _derive(line: Line, rest: str) -> DeriveStep:
    return DeriveStep(line, *_named_sql(line, rest, "derive"))


def _install(line: Line, rest: str) -> InstallStep:
    return InstallStep(line, *_named_sql(line, rest, "install"))


def _change(line: Line, rest: str) -> ChangeStep:
    return ChangeStep(line, *_named_sql(line, rest, "change"))


def _drop(line: Line, rest: str) -> DropStep:
    if not re.fullmatch(NAME, rest):
        raise ScriptError.at_line(
            line.number, line.text, "drop needs the name of a query", "Write drop pairs."
        )
    return DropStep(line, rest)


def _end(line: Line, rest: str) -> EndStep:
    if rest and not re.fullmatch(NAME, rest):
        raise ScriptError.at_line(
            line.number,
            line.text,
            f"end cannot take {rest!r}",
            "Write end R for one stream, or end alone for all of them.",
        )
    return EndStep(line, rest or None)


def _punctuate(line: Line, rest: str) -> PunctuateStep:
    match = re.fullmatch(rf"({NAME})(?:\.({NAME}))?\s*:\s*(.*)", rest)
    values = _values(line, match[3]) if match else ()
    if match is None or len(values) != 1:
        raise ScriptError.at_line(
            line.number,
            line.text,
            "punctuate needs a stream, a colon and one value",
            "Write punctuate R: 120, or with its attribute punctuate R.t: 120.",
        )
    if values[0].kind == "null":
        raise ScriptError.at_line(
            line.number, line.text, "NULL is no punctuation", "Write the value: punctuate R: 120."
        )
    return PunctuateStep(line, match[1], match[2], values[0])


def _expect(line: Line, rest: str) -> ExpectStep:
    match = re.fullmatch(
        rf"(?:(ordered|late|dead)\s+)?({NAME})\s*:\s*(.*)", rest, re.IGNORECASE | re.DOTALL
    )
    if match is None:
        raise ScriptError.at_line(
            line.number,
            line.text,
            "expect needs a query, a colon and its rows",
            "Write expect pairs: 1, 7; 2, 8, or expect ordered, late or dead pairs: ....",
        )
    word = (match[1] or "rows").lower()
    kind = "rows" if word == "ordered" else word
    rows = _expected_rows(line, kind, match[3])
    return ExpectStep(line, match[2], kind, word == "ordered", tuple(rows))


def _expected_rows(line: Line, kind: str, text: str) -> Iterator[ExpectedRow]:
    rest = text.strip()
    while rest:
        row, rest = _expected_row(line, kind, rest)
        yield row
        if rest:
            if not rest.startswith(";"):
                raise _bad_value(
                    line, ValueError(f"{rest!r} is no literal, nor a comma and a literal")
                )
            rest = rest[1:].strip()


def _expected_row(line: Line, kind: str, text: str) -> tuple[ExpectedRow, str]:
    stream = None
    if kind != "rows":
        match = re.match(rf"({NAME})\s*:\s*", text)
        if match is None:
            raise ScriptError.at_line(
                line.number,
                line.text,
                f"a {kind} tuple needs its stream",
                f"Write expect {kind} pairs: R: 1, 2.",
            )
        stream, text = match[1], text[match.end() :]
    try:
        values, end = parse_prefix(text)
    except ValueError as reason:
        raise _bad_value(line, reason) from None
    rest = text[end:]
    # The reason may contain parentheses and semicolons: it ends at the line's end or before a ";".
    match = re.match(r"\((.*?)\)\s*(?=;|$)", rest, re.DOTALL) if stream else None
    if match is None:
        return ExpectedRow(tuple(values), stream), rest
    return ExpectedRow(tuple(values), stream, match[1]), rest[match.end() :]


_PARSERS: dict[str, Callable[[Line, str], Step]] = {
    "stream": _stream,
    "create": _create,
    "derive": _derive,
    "install": _install,
    "change": _change,
    "drop": _drop,
    "end": _end,
    "punctuate": _punctuate,
    "expect": _expect,
}
