"""The text of words: an assembler and a disassembler.

A line is an instruction: its form, the fields of its first chunk, and after each ``|`` those of a
further one, as ``name=value`` in any order. A form that has a text ends with that, as JSON. A line
that begins with ``+`` is of the same series as the line before, whose block, query, step and input
it has. ``side``, ``clause``, ``left``, ``role`` and ``every_query`` may be left out where they are
0, and ``;`` begins a comment::

    reset block=1 query=0 result_port=stream-r
    selection block=1 query=0 step=1 input=0 | attribute=1 value=25 | operator=gt type=int32
    projection block=1 query=0 step=2 input=1 | attribute=0 type=string
    + projection.names ["Name"]

The counts (CC, ``more``), S, Q and the numbers of chunks are the assembler's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn

import pyarrow as pa

from penstock.errors import AssemblyError, ProgramError, WordError
from penstock.program.isa.codecs import canonical
from penstock.program.isa.encoding import parsed
from penstock.program.isa.values import constant_from, constant_of
from penstock.program.isa.words.codes import OPERATORS, constant_of_bits, type_of_code, value_bits
from penstock.program.isa.words.decoding import all_series, decode, instruction_of
from penstock.program.isa.words.forms import (
    B_ID,
    FORM_NAMED,
    INPUT,
    OPERATOR,
    QUERY,
    STEP,
    TYPE,
    VALUE,
    BitField,
    Form,
    Word,
)
from penstock.program.isa.words.layout import WordLayout
from penstock.program.isa.words.packing import REMEDY, TEXT, pack, unpack
from penstock.sql.expressions import Literal
from penstock.streams.display import listed
from penstock.streams.schema import type_name

BLOCK = "block"
"""What B-ID is called in text, where it is the number of the block itself."""
_TOKEN = re.compile(r"[^\s|;]+")
_NUMBER = re.compile(r"[0-9]{1,40}|0x[0-9a-fA-F]{1,32}")
_PAGE = "docs/isa.md has every form, its fields and what they can be."


# -- words to text --------------------------------------------------------------------------


def disassemble(words: bytes, layout: WordLayout) -> str:
    """The text of some words; :func:`assemble` gives them back."""
    lines: list[str] = []
    for series in all_series(unpack(words, layout)):
        instruction_of(series, layout)
        lines += _series_lines([read.word for read in series], layout)
    return "".join(f"{line}\n" for line in lines)


def _series_lines(series: Sequence[Word], layout: WordLayout) -> Iterator[str]:
    """The lines of a series; the pieces of a text are one line."""
    text = b""
    first = True
    for word, following in zip(series, [*series[1:], None], strict=True):
        text += word.text
        if word.text and following is not None and following.form is word.form:
            continue
        yield _line(word, text.decode("ascii"), layout, first)
        text, first = b"", False


def _line(word: Word, text: str, layout: WordLayout, is_first: bool) -> str:
    form = word.form
    parts = [form.name]
    if is_first:
        parts += [f"{BLOCK}={word.block}", f"{QUERY.name}={word.query}"]
        if form.has_steps:
            parts += [f"{STEP.name}={word.step}", f"{INPUT.name}={word.input}"]
    else:
        parts.insert(0, "+")
    parts += map(_written, form.policies, word.policies)
    value = _value_text(word, layout) if form is FORM_NAMED["selection"] else ""
    for number, chunk in enumerate(word.chunks):
        parts.append("|")
        for one, bits in zip(form.chunk(number), chunk, strict=True):
            parts.append(f"{one.name}={value}" if one is VALUE else _written(one, bits))
    return " ".join([*parts, text] if text else parts)


def _written(one: BitField, bits: int) -> str:
    return f"{one.name}={bits if one.words is None else one.words[bits]}"


def _value_text(word: Word, layout: WordLayout) -> str:
    (_, bits), (operator, code, _, _) = word.chunks
    if OPERATORS[operator].startswith("is_"):
        return "0"
    value = constant_of(constant_of_bits(bits, type_of_code(code), layout.value))
    return value if isinstance(value, str) else canonical(value)


# -- text to words --------------------------------------------------------------------------


class Piece(NamedTuple):
    """A piece of the text: where it begins and ends, and what it says."""

    start: int
    end: int
    said: str


@dataclass
class _Line:
    """A line that was read: its form, its fields by chunk and name, and its text."""

    form: Form
    at: Piece
    fields: dict[tuple[int, str], Piece]
    chunks: int
    continues: bool
    json: Piece | None = None
    word: Word = field(init=False)

    def place(self, chunk: int, name: str) -> Piece:
        """Where a field was written; the form if it was not."""
        if name == TEXT and self.json is not None:
            return self.json
        return self.fields.get((chunk, BLOCK if name == B_ID.name else name), self.at)


def assemble(text: str, layout: WordLayout) -> bytes:
    """The words of a text; an AssemblyError has the line and the column of what is wrong."""
    source = _Source(text, layout)
    lines = source.lines()
    owners: list[_Line] = []
    words = b""
    for series in _by_series(lines):
        pieces = [(line, word) for line in series for word in source.pieces(line)]
        if len(pieces) > 1 << layout.more:
            what = f"a series has {1 << layout.more} instructions at most, found {len(pieces)}"
            source.refuse(series[0].at, what, "Give more or CC wider fields.")
        for left, (line, word) in zip(reversed(range(len(pieces))), pieces, strict=True):
            owners.append(line)
            words += pack(replace(word, more=left), layout)
    try:
        decode(words, layout)
    except WordError as error:
        number, chunk, name = error.place
        remedy = _PAGE if error.remedy == REMEDY else error.remedy
        source.refuse(owners[number].place(chunk, name), f"{name}: {error.problem}", remedy)
    return words


def _by_series(lines: Sequence[_Line]) -> list[list[_Line]]:
    series: list[list[_Line]] = []
    for line in lines:
        if line.continues:
            series[-1].append(line)
        else:
            series.append([line])
    return series


class _Source:
    """A text that is read, on one layout."""

    def __init__(self, text: str, layout: WordLayout) -> None:
        self._text = text
        self._layout = layout

    def refuse(self, piece: Piece, what: str, remedy: str = _PAGE) -> NoReturn:
        """Refuse a piece of the text."""
        raise AssemblyError.at(self._text, piece.start, piece.end, what, remedy)

    def lines(self) -> list[_Line]:
        """The instructions of the text, each with the numbers in its fields."""
        found: list[_Line] = []
        start = 0
        for text in self._text.split("\n"):
            line = self._line(start, start + len(text))
            start += len(text) + 1
            if line is None:
                continue
            if line.continues and not found:
                what = "nothing is before this line that it could continue"
                self.refuse(line.at, what, "Leave out the + of the first line.")
            line.word = self._word(line, found[-1].word if line.continues else None)
            found.append(line)
        return found

    def _line(self, start: int, end: int) -> _Line | None:
        """A line from ``start`` to ``end``; None: there is nothing on it."""
        tokens = list(self._tokens(start, end))
        continues = bool(tokens) and tokens[0].said == "+"
        tokens = tokens[continues:]
        if not tokens:
            if continues:
                self.refuse(Piece(start, end, ""), "expected a form after the +, found none")
            return None
        name = tokens[0]
        form = FORM_NAMED.get(name.said)
        if form is None:
            what = f"expected a form, found {name.said!r}"
            self.refuse(name, what, f"Write {listed(FORM_NAMED, 'or')}.")
        line = _Line(form, name, {}, 0, continues)
        for token in tokens[1:]:
            self._take(line, token)
        return line

    def _tokens(self, start: int, end: int) -> Iterator[Piece]:
        at = start
        while at < end:
            here = self._text[at]
            if here == ";":
                return
            if here.isspace():
                at += 1
                continue
            stop = at + 1
            if here in "{[":
                stop = self._json_end(at, end)
            elif here != "|":
                found = _TOKEN.match(self._text, at, end)
                assert found is not None
                stop = found.end()
            yield Piece(at, stop, self._text[at:stop])
            at = stop

    def _json_end(self, at: int, end: int) -> int:
        try:
            _, stop = json.JSONDecoder().raw_decode(self._text[at:end])
        except (ValueError, RecursionError) as error:
            self.refuse(Piece(at, end, ""), f"no JSON ({error})", "Write JSON on one line.")
        return at + stop

    def _take(self, line: _Line, token: Piece) -> None:
        """Take a token after the form."""
        form = line.form
        if line.json is not None:
            self.refuse(token, f"nothing may follow the text of {form.name}", "Leave it out.")
        if token.said[0] in "{[":
            if form.text is None:
                self.refuse(token, f"{form.name} has no text", "Leave it out.")
            line.json = token
        elif token.said == "|":
            line.chunks += 1
            if form.repeated is None and line.chunks > len(form.chunks):
                what = f"{form.name} has {len(form.chunks)} chunks after the first"
                self.refuse(token, what, f"Leave out the chunk. {_PAGE}")
        else:
            name, equals, said = token.said.partition("=")
            known = _names(form, line.chunks)
            if not equals or name not in known:
                where = f"chunk {line.chunks + 1} of {form.name}"
                named = listed([f"{one}=" for one in known], "or") if known else "nothing"
                self.refuse(token, f"{where}: expected {named}, found {token.said!r}")
            if (line.chunks, name) in line.fields:
                self.refuse(token, f"{name} stands twice in a chunk", "Write each field once.")
            value_at = token.start + len(name) + 1
            line.fields[line.chunks, name] = Piece(value_at, token.end, said)

    def _word(self, line: _Line, before: Word | None) -> Word:
        """The numbers of a line; ``before`` is that of the line that it continues."""
        form = line.form
        least = len(form.chunks) + (form.repeated is not None)
        if line.chunks < least:
            what = f"{form.name} has {least} chunks after the first, found {line.chunks}"
            self.refuse(line.at, what, f"Begin each with |. {_PAGE}")
        if form.text is not None and line.json is None:
            self.refuse(line.at, f"{form.name} has a text, and there is none", _PAGE)
        if before is not None and before.form.inst != form.inst:
            what = f"{form.name} is no {before.form.inst}, and cannot continue one"
            self.refuse(line.at, what, "Leave out the +.")
        steps = (STEP, INPUT) if form.has_steps else ()
        block, query, *rest = (
            self._head(line, one, None if before is None else _head_of(before, one))
            for one in (B_ID, QUERY, *steps)
        )
        step, input_ = rest or (0, 0)
        return Word(
            form,
            block,
            query,
            step,
            input_,
            tuple(self._number(line, 0, one) for one in form.policies),
            tuple(
                tuple(self._number(line, chunk, one) for one in form.chunk(chunk - 1))
                for chunk in range(1, line.chunks + 1)
            ),
            b"" if line.json is None else self._canonical(line.json),
        )

    def _head(self, line: _Line, one: BitField, before: int | None) -> int:
        """A field that all instructions of a series have in common."""
        name, first = (BLOCK, 1) if one is B_ID else (one.name, 0)
        piece = line.fields.get((0, name))
        if piece is None:
            if before is None:
                self.refuse(line.at, f"{name} of {line.form.name} is missing", f"Write {name}=1.")
            return before
        last = (1 << one.width(self._layout)) - 1 + first
        number = self._whole(piece, name, first, last)
        if before is not None and number != before:
            what = f"{name} is {number}, and {before} on the line that this one continues"
            self.refuse(piece, what, f"Leave out the + or {name}.")
        return number

    def _number(self, line: _Line, chunk: int, one: BitField) -> int:
        """The bits of a field."""
        piece = line.fields.get((chunk, one.name))
        if piece is None:
            if not one.is_optional:
                word = one.words[-1] if one.words else 0
                what = f"{one.name} is missing in chunk {chunk + 1} of {line.form.name}"
                self.refuse(line.at, what, f"Write it there, such as {one.name}={word}.")
            return 0
        if one is VALUE:
            return self._value(line, piece)
        if one.words is None:
            return self._whole(piece, one.name, 0, (1 << one.width(self._layout)) - 1)
        if piece.said not in one.words:
            what = f"{one.name}: unknown word {piece.said!r}"
            self.refuse(piece, what, f"Write {listed(one.words, 'or')}.")
        return one.words.index(piece.said)

    def _whole(self, piece: Piece, name: str, least: int, most: int) -> int:
        number = int(piece.said, 0) if _NUMBER.fullmatch(piece.said) else -1
        if not least <= number <= most:
            what = f"{name}: expected a whole number from {least} to {most}, found {piece.said!r}"
            self.refuse(piece, what, "Write one that fits, or give the words wider fields.")
        return number

    def _value(self, line: _Line, piece: Piece) -> int:
        """The bits of a constant, by its type and its operator."""
        kind = type_of_code(self._number(line, 2, TYPE))
        if OPERATORS[self._number(line, 2, OPERATOR)].startswith("is_"):
            return self._whole(piece, VALUE.name, 0, 0)
        name = type_name(kind)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            what = f"a {name} does not fit a value"
            self.refuse(piece, what, "Write a selection.table.")
        said = piece.said if piece.said in ("nan", "inf", "-inf") else _json(piece.said)
        try:
            bits = value_bits(Literal(constant_from(said, kind), kind), self._layout.value)
        except ValueError as error:
            what = f"value: expected {error} for {name}, found {piece.said!r}"
            self.refuse(piece, what, "Write a value of the type, or the type of the value.")
        if bits is None:
            what = f"{piece.said} does not fit the {self._layout.value} bits of a value"
            self.refuse(piece, what, "Write a selection.table.")
        return bits

    def _canonical(self, piece: Piece) -> bytes:
        """A JSON text as words have it."""
        try:
            return canonical(parsed(piece.said)).encode("ascii")
        except ProgramError as error:
            self.refuse(piece, error.what, "Write each field of an object once.")
        except (ValueError, RecursionError) as error:
            self.refuse(piece, f"the text cannot be sent ({error})", "Write finite numbers.")

    def pieces(self, line: _Line) -> list[Word]:
        """The instructions of a line: several, if its text does not fit one."""
        word = line.word
        size = ((1 << self._layout.cc) - 2) * self._layout.port_bytes
        starts = range(0, max(1, len(word.text)), size)
        return [replace(word, text=word.text[at : at + size]) for at in starts]


def _names(form: Form, chunk: int) -> list[str]:
    """The names of the fields that a line may give in a chunk."""
    if chunk:
        return [one.name for one in form.chunk(chunk - 1)]
    steps = [STEP.name, INPUT.name] if form.has_steps else []
    return [BLOCK, QUERY.name, *steps, *(one.name for one in form.policies)]


def _head_of(word: Word, one: BitField) -> int:
    return {B_ID: word.block, QUERY: word.query, STEP: word.step, INPUT: word.input}[one]


def _json(text: str) -> object:
    """The value of a JSON number or truth; of anything else the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, float) and not math.isfinite(found) else found


# -- hexadecimal digits ---------------------------------------------------------------------


def to_hex(words: bytes, layout: WordLayout) -> str:
    """Words as hexadecimal digits, a chunk a line."""
    size = layout.chunk_bytes
    return "".join(f"{words[at : at + size].hex()}\n" for at in range(0, len(words), size))


def from_hex(text: str) -> bytes:
    """The words of hexadecimal digits; spaces and lines between bytes mean nothing."""
    wrong = re.search(r"[^0-9a-fA-F \t\r\n]", text)
    if wrong is not None:
        what = f"expected hexadecimal digits, found {wrong[0]!r}"
        remedy = "Write words as asm gives them, or pass --format bytes."
        raise AssemblyError.at(text, wrong.start(), wrong.end(), what, remedy)
    odd = re.search(r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2})*[0-9a-fA-F](?![0-9a-fA-F])", text)
    if odd is not None:
        what = "expected two digits for a byte, found one"
        raise AssemblyError.at(text, odd.end() - 1, odd.end(), what, "Write the digit before it.")
    return bytes.fromhex(text)
