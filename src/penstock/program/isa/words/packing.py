"""Words as bytes: chunks, with the fields of each instruction at their bits.

Why a lost, repeated or exchanged chunk is found. Q is 1 in every chunk of an instruction, and S in
the first one alone, so that no chunk can be taken for the first of an instruction, and no first
chunk for a further one. The further chunks are numbered, and CC says how many there are: a number
that is missing, or one too many, stands out. (The numbers begin again after as many chunks as the
header has room for: exchanging two chunks that far apart changes a text, and not its framing.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, NoReturn

from penstock.errors import ProgramError, WordError
from penstock.program.isa.words.forms import (
    B_ID,
    CC,
    FORM,
    FORM_OF,
    FORMS,
    INPUT,
    INST,
    INSTS,
    MORE,
    QUERY,
    SEQUENCE,
    STEP,
    BitField,
    Form,
    Q,
    S,
    Word,
)
from penstock.program.isa.words.layout import WordLayout
from penstock.streams.display import counted, listed

REMEDY = "Send what encode gave, or write the instructions as text and assemble them."
RESERVED = "reserved"
"""What the bits that no field has are called."""


class FieldInChunk(NamedTuple):
    """A field in a chunk: how far its lowest bit is from the end, and its bits there as ones."""

    field: BitField
    shift: int
    ones: int


class Place(NamedTuple):
    """Where an instruction is: its number, from 0, and its first byte."""

    number: int
    start: int


class Frame(NamedTuple):
    """An instruction of which only the headers were read."""

    number: int
    start: int
    first: int
    chunks: int
    words: bytes


class Read(NamedTuple):
    """An instruction that was read."""

    number: int
    start: int
    word: Word


def refuse(
    at: Place | Frame | Read, chunk: int, name: str, what: str, remedy: str = REMEDY
) -> NoReturn:
    """Refuse a field of a chunk, which is numbered from 0."""
    raise WordError(at.start, (at.number, chunk, name), what, remedy)


# -- where fields are -----------------------------------------------------------------------


def _place(fields: Sequence[BitField], layout: WordLayout, start: int) -> tuple[FieldInChunk, ...]:
    """Fields one after the other, from a bit on that is counted from the left."""
    placed = []
    end = layout.chunk_bytes * 8
    for one in fields:
        width = one.width(layout)
        start += width
        placed.append(FieldInChunk(one, end - start, (1 << width) - 1))
    return tuple(placed)


@lru_cache(maxsize=64)
def address(layout: WordLayout) -> tuple[FieldInChunk, ...]:
    """S, Q, Inst and B-ID, at the beginning of the first chunk."""
    return _place((S, Q, INST, B_ID), layout, 0)


@lru_cache(maxsize=1024)
def control(layout: WordLayout, form: Form | None) -> tuple[FieldInChunk, ...]:
    """The other fields of the first chunk, which stand at its end; without a form, those of all."""
    end = layout.chunk_bytes * 8
    steps = end - 2 * layout.step
    policies = steps - layout.more - layout.policies
    form_at = policies - layout.form
    front = _place((CC, QUERY, FORM), layout, form_at - layout.query - layout.cc)
    return (
        *front,
        *_place(form.policies if form else (), layout, policies),
        *_place((MORE,), layout, steps - layout.more),
        *(_place((STEP, INPUT), layout, steps) if form and form.has_steps else ()),
    )


@lru_cache(maxsize=4096)
def further(layout: WordLayout, form: Form, number: int) -> tuple[FieldInChunk, ...]:
    """The fields of a further chunk of fixed or repeated fields, by its number from 0."""
    return _place(form.chunk(number), layout, layout.header_bits)


@lru_cache(maxsize=64)
def _headers(layout: WordLayout) -> tuple[bytes, ...]:
    """The headers of further chunks, by the lowest bits of their numbers."""
    size = layout.header_bits
    count = 1 << min(size - 2, 10)
    return tuple((1 << (size - 2) | number).to_bytes(size // 8) for number in range(count))


def _header(layout: WordLayout, number: int) -> bytes:
    headers = _headers(layout)
    if layout.header_bits <= 12:
        return headers[number % len(headers)]
    size = layout.header_bits
    return (1 << (size - 2) | number & ((1 << (size - 2)) - 1)).to_bytes(size // 8)


@lru_cache(maxsize=64)
def _headers_from(layout: WordLayout, number: int, count: int) -> bytes:
    """The headers of further chunks, from a number on, one after the other."""
    return b"".join([_header(layout, number + i) for i in range(count)])


# -- to bytes -------------------------------------------------------------------------------


def pack(word: Word, layout: WordLayout) -> bytes:
    """The chunks of an instruction."""
    form = word.form
    blocks = 1 << layout.b_id
    if not 1 <= word.block <= blocks:
        raise ProgramError(
            f"B-ID of {form.name}: expected a block from 1 to {blocks}, found {word.block}",
            "Number blocks from 1, or give the words of the topology a wider B-ID.",
        )
    texts = -(-len(word.text) // layout.port_bytes)
    chunks = 1 + len(word.chunks) + texts
    given = {
        S: 1,
        Q: 1,
        INST: INSTS.index(form.inst),
        B_ID: word.block - 1,
        CC: chunks,
        QUERY: word.query,
        FORM: form.code,
        MORE: word.more,
        STEP: word.step,
        INPUT: word.input,
        **dict(zip(form.policies, word.policies, strict=True)),
    }
    first = (*address(layout), *control(layout, form))
    size = layout.chunk_bytes
    made = [_chunk(0, ((one, given[one.field]) for one in first), form).to_bytes(size)]
    for number, values in enumerate(word.chunks):
        header = int.from_bytes(_header(layout, number + 1)) << layout.port
        placed = zip(further(layout, form, number), values, strict=True)
        made.append(_chunk(header, placed, form).to_bytes(size))
    if texts:
        made.append(_pack_text(word.text, 1 + len(word.chunks), texts, layout))
    return b"".join(made)


def _pack_text(text: bytes, number: int, count: int, layout: WordLayout) -> bytes:
    """The chunks of a text, numbered from ``number`` on: for each byte of a chunk, those of all."""
    size, header, step = layout.chunk_bytes, layout.header_bits // 8, layout.port_bytes
    headers = _headers_from(layout, number, count)
    filled = text.ljust(count * step, b"\0")
    chunks = bytearray(count * size)
    for i in range(header):
        chunks[i::size] = headers[i::header]
    for i in range(step):
        chunks[header + i :: size] = filled[i::step]
    return bytes(chunks)


def _chunk(chunk: int, values: Iterable[tuple[FieldInChunk, int]], form: Form) -> int:
    """A chunk with numbers put at their bits."""
    for placed, value in values:
        if not 0 <= value <= placed.ones:
            raise ProgramError(
                f"{placed.field.name} of {form.name}: expected 0 to {placed.ones}, found {value}",
                "Write a number that fits, or give the words of the topology wider fields.",
            )
        chunk |= value << placed.shift
    return chunk


# -- from bytes -----------------------------------------------------------------------------


def frames(words: bytes, layout: WordLayout) -> Iterator[Frame]:
    """The instructions of some words; of each only the headers of its chunks are read."""
    size = layout.chunk_bytes
    s, q, _, _ = address(layout)
    cc = control(layout, None)[0]
    number = start = 0
    while start < len(words):
        at = Place(number, start)
        whole = words[start : start + size]
        if len(whole) < size:
            what = f"the words end in a chunk, after {len(whole)} of its {size} bytes"
            refuse(at, 0, CC.name, what)
        first = int.from_bytes(whole)
        if not first >> q.shift & 1:
            refuse(at, 0, Q.name, "expected 1, an instruction, found 0, a tuple")
        if not first >> s.shift & 1:
            what = "expected 1, the first chunk of an instruction, found 0, a further one"
            refuse(at, 0, S.name, what, IN_ORDER)
        count = first >> cc.shift & cc.ones
        if count == 0:
            refuse(at, 0, CC.name, "expected 1 chunk or more, found 0")
        _check_further(at, words, count, layout)
        yield Frame(number, start, first, count, words[start : start + count * size])
        number, start = number + 1, start + count * size


IN_ORDER = "Send every chunk of an instruction once, in their order, and count them in CC."


def _check_further(at: Place, words: bytes, count: int, layout: WordLayout) -> None:
    """Refuse chunks after the first that are missing, or no chunks of the instruction."""
    size, header = layout.chunk_bytes, layout.header_bits // 8
    further = words[at.start + size : at.start + count * size]
    expected = _headers_from(layout, 1, count - 1)
    if len(further) == (count - 1) * size and all(
        [further[i::size] == expected[i::header] for i in range(header)]
    ):
        return
    for chunk in range(1, count):
        start = at.start + chunk * size
        if start + size > len(words):
            what = f"it says {count} chunks, and the words end after {counted(chunk, 'chunk')}"
            refuse(at, 0, CC.name, what, IN_ORDER)
        if words[start : start + header] != _header(layout, chunk):
            found = int.from_bytes(words[start : start + header])
            _refuse_header(at, chunk, found, layout)


def _refuse_header(at: Place, chunk: int, header: int, layout: WordLayout) -> NoReturn:
    top = layout.header_bits - 1
    if not header >> (top - 1) & 1:
        what = "expected 1, a further chunk of the instruction, found 0, a tuple"
        refuse(at, chunk, Q.name, what, IN_ORDER)
    if header >> top:
        what = "expected 0, a further chunk of the instruction, found 1, the first of another"
        refuse(at, chunk, S.name, what, IN_ORDER)
    ones = (1 << (top - 1)) - 1
    what = f"expected {chunk & ones}, found {header & ones}"
    refuse(at, chunk, SEQUENCE.name, what, IN_ORDER)


def instructions(words: bytes, layout: WordLayout) -> Iterator[tuple[int, bytes]]:
    """For each instruction the number of the block that it is for, and its words.

    A block passes on what is not for it without decoding it: only headers and CC are read.
    """
    b_id = address(layout)[3]
    for frame in frames(words, layout):
        yield (frame.first >> b_id.shift & b_id.ones) + 1, frame.words


def unpack(words: bytes, layout: WordLayout) -> Iterator[Read]:
    """The instructions of some words, with the numbers in their fields."""
    for frame in frames(words, layout):
        yield Read(frame.number, frame.start, _word(frame, layout))


def _word(frame: Frame, layout: WordLayout) -> Word:
    form = _form(frame, layout)
    b_id = address(layout)[3]
    placed = control(layout, form)
    values = _values(frame, 0, frame.first, (*address(layout), *placed), layout)
    is_text = form.text is not None
    return Word(
        form,
        (frame.first >> b_id.shift & b_id.ones) + 1,
        values[QUERY],
        values.get(STEP, 0),
        values.get(INPUT, 0),
        tuple(values[one] for one in form.policies),
        () if is_text else _chunks(frame, form, layout),
        _text(frame, layout) if is_text else b"",
        values[MORE],
    )


def _form(frame: Frame, layout: WordLayout) -> Form:
    """The form of an instruction, from Inst and form."""
    inst, at = address(layout)[2], control(layout, None)[2]
    code = frame.first >> inst.shift & inst.ones
    _check_word(frame, 0, INST, code)
    number = frame.first >> at.shift & at.ones
    names = tuple(one.name for one in FORMS if one.inst == INSTS[code])
    _check_word(frame, 0, replace(FORM, words=names), number)
    return FORM_OF[code, number]


def _values(
    frame: Frame, chunk: int, bits: int, placed: Sequence[FieldInChunk], layout: WordLayout
) -> dict[BitField, int]:
    """The numbers in a chunk; bits that no field has are 0."""
    values = {}
    rest = bits
    for field, shift, ones in placed:
        values[field] = bits >> shift & ones
        rest &= ~(ones << shift)
        _check_word(frame, chunk, field, values[field])
    if rest:
        bit = layout.chunk_bytes * 8 - rest.bit_length() + 1
        what = f"expected 0 in bit {bit} of the chunk, which no field has, found 1"
        refuse(frame, chunk, RESERVED, what)
    return values


def _check_word(frame: Frame, chunk: int, field: BitField, value: int) -> None:
    """Refuse bits that stand for nothing."""
    if field.words is not None and value >= len(field.words):
        what = f"expected 0 to {len(field.words) - 1}, found {value}"
        words = (f"{code} for {word}" for code, word in enumerate(field.words))
        refuse(frame, chunk, field.name, what, f"Write {listed(words, 'or')}.")


def _chunks(frame: Frame, form: Form, layout: WordLayout) -> tuple[tuple[int, ...], ...]:
    """The numbers in the further chunks."""
    size, least = layout.chunk_bytes, 1 + len(form.chunks) + (form.repeated is not None)
    if frame.chunks < least or (form.repeated is None and frame.chunks > least):
        expected = f"{least}{'' if form.repeated is None else ' or more'}"
        refuse(frame, 0, CC.name, f"expected {expected} for {form.name}, found {frame.chunks}")
    port = (1 << layout.port) - 1
    return tuple(
        tuple(
            _values(
                frame,
                chunk,
                int.from_bytes(frame.words[chunk * size : (chunk + 1) * size]) & port,
                further(layout, form, chunk - 1),
                layout,
            ).values()
        )
        for chunk in range(1, frame.chunks)
    )


def _text(frame: Frame, layout: WordLayout) -> bytes:
    """The text that the further chunks have, without the zeros that fill the last one."""
    padded = bytearray(frame.words[layout.chunk_bytes :])
    for size in range(layout.chunk_bytes, layout.port_bytes, -1):
        del padded[::size]  # the first byte of each chunk: its header, byte by byte
    text = bytes(padded).rstrip(b"\0")
    if not text:
        refuse(frame, 0, CC.name, "expected the chunks of a text, found none")
    if len(padded) - len(text) >= layout.port_bytes:
        what = "expected a piece of the text in the last chunk, found zeros"
        refuse(frame, frame.chunks - 1, TEXT, what)
    return text


TEXT = "text"
"""What the part of a chunk is called that has a piece of a text."""
