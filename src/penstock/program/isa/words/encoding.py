"""The encoding of instructions for OP-Blocks as words.

An instruction with its body becomes a *series* of instructions of the set, each of them one of the
forms of :mod:`penstock.program.isa.words.forms`: a selection is one for each comparison, and what
no short form can say is a text, the JSON of the body's record (:mod:`penstock.program.isa.table`),
cut into chunks. A body has one encoding: the short forms if they can say it, else the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from penstock.errors import ProgramError
from penstock.program.isa.block_instructions import JoinStreams, ProjectColumns, SelectRows
from penstock.program.isa.codecs import canonical
from penstock.program.isa.encoding import record_to_json
from penstock.program.isa.op_instructions import (
    PORTS,
    RESULT_PORTS,
    Bypass,
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
)
from penstock.program.isa.table import BODIES, JOIN, PROJECT, SELECT
from penstock.program.isa.words.clauses import (
    Clauses,
    Comparison,
    clauses_of,
    condition_of,
    join_clauses_of,
)
from penstock.program.isa.words.codes import OPERATORS, type_code, value_bits
from penstock.program.isa.words.forms import FORM_NAMED, Word
from penstock.program.isa.words.layout import SIDE_BITS, WordLayout
from penstock.program.isa.words.packing import pack
from penstock.sql.expressions import Column
from penstock.streams.windows import Rows


def encode(instructions: Iterable[OPInstruction], layout: WordLayout) -> bytes:
    """The words of some instructions."""
    return b"".join(pack(word, layout) for one in instructions for word in words_of(one, layout))


def words_of(instruction: OPInstruction, layout: WordLayout) -> list[Word]:
    """The series of instructions that says one."""
    body = instruction.body
    check = BODIES.record_of(body).check
    if check is not None:
        check(body, "")
    words = _SAID[type(body)](_Head(instruction, layout), body)
    if len(words) > 1 << layout.more:
        raise ProgramError(
            f"more: the instruction needs {len(words)} instructions, and {layout.more} bits count "
            f"{1 << layout.more}",
            "Give CC or more wider fields on the topology.",
        )
    return [replace(word, more=len(words) - 1 - i) for i, word in enumerate(words)]


class _Head:
    """What all instructions of a series have in common."""

    def __init__(self, instruction: OPInstruction, layout: WordLayout) -> None:
        self.layout = layout
        self._block, self._query = instruction.block, instruction.query

    def word(self, form: str, **fields: Any) -> Word:
        """An instruction of that form."""
        return Word(FORM_NAMED[form], self._block, self._query, **fields)

    def texts(self, form: str, text: str, **fields: Any) -> list[Word]:
        """A text as instructions: as few as CC allows."""
        size = ((1 << self.layout.cc) - 2) * self.layout.port_bytes
        whole = text.encode("ascii")
        return [
            self.word(form, text=whole[at : at + size], **fields)
            for at in range(0, len(whole), size)
        ]

    def has_steps(self, *numbers: int) -> bool:
        """Whether the numbers of blocks of the program fit their fields."""
        return all(number < 1 << self.layout.step for number in numbers)


def _reset(head: _Head, body: ResetBlock) -> list[Word]:
    policies = (RESULT_PORTS.index(body.result_port), int(body.every_query))
    return [head.word("reset", policies=policies)]


def _bypass(head: _Head, body: Bypass) -> list[Word]:
    return [head.word("bypass")]


def _ports(head: _Head, body: ReadPorts) -> list[Word]:
    chunks = [
        (stream, PORTS.index(port), 0)
        for stream, port in zip(body.streams, body.ports, strict=True)
    ]
    if body.gives is not None:
        chunks.append((body.gives, 0, 1))
    return [head.word("ports", chunks=tuple(chunks))]


def _part(head: _Head, body: JoinPart) -> list[Word]:
    return [head.word("part", chunks=((body.part, body.parts, body.window),))]


def _selection(head: _Head, body: SelectRows) -> list[Word]:
    return _short_selection(head, body) or head.texts(
        "selection.table", record_to_json(SELECT, body)
    )


def _short_selection(head: _Head, body: SelectRows) -> list[Word] | None:
    layout = head.layout
    most = (1 << layout.more) - (body.columns is not None)
    clauses = clauses_of(body.condition, most)
    if clauses is None or not head.has_steps(body.block, body.input):
        return None
    steps = {"step": body.block, "input": body.input}
    words = [head.word("selection.all", **steps)] if not clauses else []
    for clause, one in _numbered(clauses):
        chunks = _comparison(one, clause, layout)
        if chunks is None:
            return None
        words.append(head.word("selection", chunks=chunks, **steps))
    if body.columns is not None:
        # A word counts its chunks, and has no way to say that there are none.
        if not 0 < len(body.columns) <= (1 << layout.cc) - 2:
            return None
        if any(column >> layout.attribute for column in body.columns):
            return None
        columns = tuple((column,) for column in body.columns)
        words.append(head.word("selection.columns", chunks=columns, **steps))
    return words


def _comparison(
    one: Comparison, clause: int, layout: WordLayout
) -> tuple[tuple[int, ...], ...] | None:
    """The chunks of a comparison; None: they cannot say it."""
    column, code = one.column, type_code(one.column.type)
    value = 0 if one.constant is None else value_bits(one.constant, layout.value)
    if code is None or value is None or clause >> layout.clause:
        return None
    if column.index >> layout.attribute or column.side >> SIDE_BITS:
        return None
    return (column.index, value), (OPERATORS.index(one.operator), code, column.side, clause)


def _numbered(clauses: Clauses[Any]) -> Iterator[tuple[int, Any]]:
    """The comparisons of clauses, each with the number of its clause."""
    return ((number, one) for number, clause in enumerate(clauses) for one in clause)


def _projection(head: _Head, body: ProjectColumns) -> list[Word]:
    return _short_projection(head, body) or head.texts(
        "projection.table", record_to_json(PROJECT, body)
    )


def _short_projection(head: _Head, body: ProjectColumns) -> list[Word] | None:
    if not head.has_steps(body.block, body.input):
        return None
    steps = {"step": body.block, "input": body.input}
    words = []
    for one in body.columns:
        column = one.expression
        code = type_code(column.type)
        if not isinstance(column, Column) or code is None:
            return None
        if column.index >> head.layout.attribute or column.side >> SIDE_BITS:
            return None
        chunk = (column.index, code, column.side)
        words.append(head.word("projection", chunks=(chunk,), **steps))
    names = canonical([one.name for one in body.columns])
    words += head.texts("projection.names", names, **steps)
    return words if body.columns and len(words) <= 1 << head.layout.more else None


def _join(head: _Head, body: JoinStreams) -> list[Word]:
    layout = head.layout
    windows = [one.size if isinstance(one, Rows) else None for one in body.windows]
    words, said = [], []
    if len(windows) == 2 and all(
        one is not None and not one >> layout.port // 2 for one in windows
    ):
        words.append(head.word("join.windows", chunks=(tuple(windows),)))
        said.append("windows")
    conditions = _join_conditions(head, body)
    if conditions:
        words += conditions
        said.append("compiled")
    table = record_to_json(JOIN.without(said), body)
    return words + head.texts("join.table", table)


def _join_conditions(head: _Head, body: JoinStreams) -> list[Word] | None:
    layout = head.layout
    clauses = join_clauses_of(body.compiled, (1 << layout.more) // 2)
    if not clauses or condition_of(clauses) != body.compiled:
        return None
    words = []
    for clause, one in _numbered(clauses):
        code = type_code(one.r.type)
        half = layout.attribute // 2
        if code is None or clause >> layout.clause or max(one.r.index, one.s.index) >> half:
            return None
        chunk = (one.r.index, one.s.index, OPERATORS.index(one.operator), code, one.left, clause)
        words.append(head.word("join", chunks=(chunk,)))
    return words


_SAID: dict[type[Any], Callable[[_Head, Any], list[Word]]] = {
    ResetBlock: _reset,
    Bypass: _bypass,
    ReadPorts: _ports,
    JoinPart: _part,
    SelectRows: _selection,
    ProjectColumns: _projection,
    JoinStreams: _join,
}
"""For each body, what its words are."""
