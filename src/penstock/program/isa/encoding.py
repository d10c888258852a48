"""The encoding of programs: one versioned, canonical JSON for logs, checkpoints, jobs and files.

An encoded program has tables of types, constants and expressions, and instructions that refer to
those by index; ``docs/program.md`` describes all fields. Decoding imports no parser and no binder.
Why a decoded program is the one that was encoded: every field of every record is in the table
(:mod:`penstock.program.isa.table`), each codec decodes what it has encoded, and expressions stand
before what refers to them, so that both directions are one loop without recursion.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from penstock.errors import ProgramError
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.codecs import (
    MOST_NODES,
    REMEDY,
    Constant,
    Decoder,
    Encoder,
    Record,
    TypeName,
    Union,
    canonical,
    wrong,
)
from penstock.program.isa.instructions import Instruction
from penstock.program.isa.table import EXPRESSIONS, SENT
from penstock.sql.expressions import Call, Expression, children
from penstock.sql.operations import OPERATIONS
from penstock.version import VERSION

FORMAT = 2
"""The version of the encoding; a program of another one is refused."""
TABLES = ("types", "constants", "expressions")


def encode(sent: Program | Instruction, identity: bool = False) -> dict[str, Any]:
    """A program or an instruction as a JSON object; ``identity``: without words and placement."""
    return _encoded(sent, SENT, identity)


def decode(found: Any) -> Program | Instruction:
    """Decode a program or an instruction; a ProgramError if it is neither."""
    sent: Program | Instruction = _decoded(found, SENT, Decoder())
    return sent


def record_to_json(record: Record, value: Any) -> str:
    """A record that stands alone, as canonical JSON without what is for people."""
    return canonical(_encoded(value, record, True))


def record_from_json(record: Record, text: str | bytes) -> Any:
    """Decode the JSON of :func:`record_to_json`; a ProgramError names the field that is wrong."""
    return _decoded(parsed(text), record, Decoder(identity=True))


def _encoded(value: Any, codec: Record | Union, identity: bool) -> dict[str, Any]:
    encoder = Encoder(EXPRESSIONS, identity)
    fields = codec.encode(value, encoder)
    return {"format": FORMAT, **encoder.tables, **fields}


def _decoded(found: Any, codec: Record | Union, decoder: Decoder) -> Any:
    if not isinstance(found, dict):
        wrong("", "an object", found)
    if found.get("format") != FORMAT:
        raise ProgramError(
            f"format: the program is in the format {found.get('format')!r}; this is Penstock "
            f"{VERSION}, which reads the format {FORMAT}",
            "Use the version that wrote it, or compile the query from its SQL again.",
        )
    for name in TABLES:
        if not isinstance(found.get(name), list):
            wrong(name, "a list", found.get(name))
    for i, one in enumerate(found["types"]):
        decoder.types.append(TypeName().decode(one, decoder, f"types[{i}]"))
    for i, one in enumerate(found["constants"]):
        decoder.constants.append(Constant().decode(one, decoder, f"constants[{i}]"))
    for i, one in enumerate(found["expressions"]):
        _take_expression(one, decoder, f"expressions[{i}]")
    rest = {name: one for name, one in found.items() if name not in ("format", *TABLES)}
    return codec.decode(rest, decoder, "")


def _take_expression(found: Any, decoder: Decoder, path: str) -> None:
    expression: Expression = EXPRESSIONS.decode(found, decoder, path)
    if isinstance(expression, Call):
        _check_call(expression, path)
    size = 1 + sum(decoder.sizes[id(one)] for one in children(expression))
    if size > MOST_NODES:
        raise ProgramError(f"{path}: the expression has more than {MOST_NODES} nodes", REMEDY)
    decoder.expressions.append(expression)
    decoder.sizes[id(expression)] = size


def _check_call(call: Call, path: str) -> None:
    signature = OPERATIONS[call.op].signature
    most = len(call.args) if signature.most is None else signature.most
    fits = signature.fewest <= len(call.args) <= most
    if not fits or not signature.allows([one.type for one in call.args], call.type):
        raise ProgramError(f"{path}.args: {call.op} takes {signature.takes}", REMEDY)


def to_json(sent: Program | Instruction) -> str:
    """A program or an instruction as canonical JSON."""
    return canonical(encode(sent))


def from_json(text: str | bytes) -> Program | Instruction:
    """Decode the JSON of :func:`to_json`; a ProgramError names the field that is wrong."""
    return decode(parsed(text))


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text in which no object has a field twice; a ProgramError if it is none.

    It may still be any value.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except ProgramError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"the program is no JSON ({error})", REMEDY) from None


def program_from_json(text: str | bytes) -> Program:
    """Decode the JSON of a program."""
    return as_program(from_json(text))


def instruction_from_json(text: str | bytes) -> Instruction:
    """Decode the JSON of an instruction."""
    sent = from_json(text)
    if isinstance(sent, Program):
        wrong("is", "an instruction", "program")
    return sent


def as_program(sent: Program | Instruction) -> Program:
    """The decoded object if it is a program; else an error."""
    if not isinstance(sent, Program):
        wrong("is", "program", type(sent).__name__.lower())
    return sent


def digest(program: Program) -> str:
    """The identity of a program: the same query spelt or placed otherwise has the same."""
    return hashlib.sha256(canonical(encode(program, identity=True)).encode()).hexdigest()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProgramError(f"the field {twice!r} stands twice in an object", REMEDY)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
