"""Words, damaged: instructions that are encoded to the same words, or an error that names a field.

Words of instructions with the parts of compiled programs are damaged: bits flipped, bytes replaced,
chunks lost, repeated, exchanged or moved, instructions too, the end cut off, a field given another
number with everything around it as it was, or the JSON of a text changed. What is decoded must be
encoded to the same words and disassembled to a text that is assembled to them; an error is a
WordError whose field is one of the instruction set.
"""

from __future__ import annotations

import json
import random
import traceback
from collections import Counter
from dataclasses import replace

from penstock.errors import ProgramError, WordError
from penstock.program.isa.words.assembly import assemble, disassemble
from penstock.program.isa.words.decoding import decode
from penstock.program.isa.words.encoding import encode, words_of
from penstock.program.isa.words.forms import FORMS, Word
from penstock.program.isa.words.layout import WordLayout
from penstock.program.isa.words.packing import instructions, pack
from tests.campaigns.programs import _damaged_text, _damaged_value
from tests.op_instructions import LAYOUTS, addressed, control
from tests.programs import conformance, programs_in

COUNT = 100_000
FIELDS = {
    *("S", "Q", "Inst", "B-ID", "CC", "query", "form", "more", "step", "input", "sequence"),
    *("reserved", "text"),
    *(
        field.name
        for form in FORMS
        for fields in (form.policies, *form.chunks, form.repeated or ())
        for field in fields
    ),
}


def run(seed: int, count: int) -> int:
    """Damage that many sequences of words; returns how many went wrong."""
    chance = random.Random(seed)
    programs = [program for those in conformance().values() for program in programs_in(those)]
    sent = [*addressed(programs, chance), *(control(chance) for _ in range(len(programs)))]
    wrong = 0
    outcomes: Counter[str] = Counter()
    for case in range(count):
        chance = random.Random(f"{seed} {case}")
        layout = chance.choice(LAYOUTS)
        some = [chance.choice(sent) for _ in range(chance.choice((1, 1, 2, 4)))]
        whole = encode(some, layout)
        words = damaged(chance, whole, [w for one in some for w in words_of(one, layout)], layout)
        try:
            outcomes[outcome(words, layout, whole)] += 1
        except Exception:
            wrong += 1
            print(f"case {case} of --seed {seed}: {words.hex()} in {layout}")
            traceback.print_exc(limit=-4)
    print(", ".join(f"{number} {kind}" for kind, number in sorted(outcomes.items())))
    return wrong


def outcome(words: bytes, layout: WordLayout, whole: bytes) -> str:
    """What becomes of damaged words; an error that names no field goes on."""
    try:
        found = decode(words, layout)
    except WordError as error:
        field = error.place[2]
        assert field in FIELDS and f", {field}: " in error.what and error.remedy
        return f"refused for {field}"
    assert encode(found, layout) == words
    assert assemble(disassemble(words, layout), layout) == words
    return "the same" if words == whole else "other instructions"


def damaged(chance: random.Random, words: bytes, parts: list[Word], layout: WordLayout) -> bytes:
    """The words with one damage, or a few."""
    if chance.random() < 0.4:
        return _repacked(chance, parts, layout)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        words = chance.choice((_bits, _bytes, _chunks, _instructions))(chance, words, layout)
    return words


def _bits(chance: random.Random, words: bytes, layout: WordLayout) -> bytes:
    if not words:
        return chance.randbytes(layout.chunk_bytes)
    # A short instruction has few bits, and a text many: half of the flips are in the first chunks.
    most = len(words) if chance.random() < 0.5 else min(len(words), 3 * layout.chunk_bytes)
    bit = chance.randrange(most * 8)
    found = bytearray(words)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def _bytes(chance: random.Random, words: bytes, layout: WordLayout) -> bytes:
    at = chance.randrange(len(words) + 1)
    size = chance.choice((1, 1, 2, 5, layout.chunk_bytes))
    kind = chance.choice(("replace", "delete", "insert", "truncate"))
    if kind == "truncate":
        return words[:at]
    put = b"" if kind == "delete" else chance.choice((bytes(size), chance.randbytes(size)))
    return words[:at] + put + words[at if kind == "insert" else at + size :]


def _chunks(chance: random.Random, words: bytes, layout: WordLayout) -> bytes:
    size = layout.chunk_bytes
    return b"".join(_moved(chance, [words[at : at + size] for at in range(0, len(words), size)]))


def _instructions(chance: random.Random, words: bytes, layout: WordLayout) -> bytes:
    try:
        pieces = [piece for _, piece in instructions(words, layout)]
    except WordError:
        return words
    return b"".join(_moved(chance, pieces))


def _moved(chance: random.Random, pieces: list[bytes]) -> list[bytes]:
    """The pieces with one lost, repeated, exchanged with another or put elsewhere."""
    if not pieces:
        return pieces
    one, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
    kind = chance.choice(("lose", "repeat", "exchange", "move"))
    if kind == "exchange":
        pieces[one], pieces[other] = pieces[other], pieces[one]
    elif kind == "repeat":
        pieces.insert(other, pieces[one])
    else:
        piece = pieces.pop(one)
        if kind == "move":
            pieces.insert(other, piece)
    return pieces


def _repacked(chance: random.Random, parts: list[Word], layout: WordLayout) -> bytes:
    """The words with a field of one instruction changed, and framed as they should be."""
    parts = list(parts)
    at = chance.randrange(len(parts))
    parts[at] = _changed(chance, parts[at], layout)
    if chance.random() < 0.2:
        parts = [replace(part, more=len(parts) - 1 - i) for i, part in enumerate(parts)]
    packed = b""
    for part in parts:
        try:
            packed += pack(part, layout)
        except (ValueError, ProgramError):  # numbers of another form, or too wide
            packed += chance.randbytes(layout.chunk_bytes)
    return packed


def _changed(chance: random.Random, word: Word, layout: WordLayout) -> Word:
    number = chance.choice((0, 1, 2, 3, 7, 15))
    kind = chance.choice(("chunks", "chunks", "text", "text", "form", "head", "more"))
    if kind == "chunks" and word.chunks:
        chunks = [list(chunk) for chunk in word.chunks]
        chunk = chance.randrange(len(chunks))
        field = chance.randrange(len(chunks[chunk]))
        width = word.form.chunk(chunk)[field].width(layout)
        bits = chance.choice((number, chance.getrandbits(width), (1 << width) - 1))
        chunks[chunk][field] = min(bits, (1 << width) - 1)
        return replace(word, chunks=tuple(map(tuple, chunks)))
    if kind == "text" and word.text:
        return replace(word, text=_other_text(chance, word.text) or b"0")
    if kind == "form":
        return replace(word, form=chance.choice(FORMS))
    if kind == "head":
        head = chance.choice(
            ("block", "query", *(("step", "input") if word.form.has_steps else ()))
        )
        return replace(word, **{head: max(1, min(number, (1 << layout.step) - 1))})
    return replace(word, more=min(number, (1 << layout.more) - 1))


def _other_text(chance: random.Random, text: bytes) -> bytes:
    try:
        found = json.loads(text)
    except ValueError:  # a piece of one
        found = None
    if found is None or chance.random() < 0.3:
        return _damaged_text(chance, text.decode("ascii"), [text.decode("ascii")]).encode()
    changed = _damaged_value(chance, found)
    return json.dumps(changed, sort_keys=True, separators=(",", ":")).encode()
