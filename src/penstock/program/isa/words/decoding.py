"""The decoding of words: instructions for OP-Blocks, or an error that names a field of bits.

Why nothing is decoded but what was encoded: a body has one encoding
(:mod:`penstock.program.isa.words.encoding`), and what has been decoded is encoded again and
compared. Words that say the same in another way are refused with the field in which they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from penstock.errors import ProgramError
from penstock.program.isa.block_instructions import JoinStreams, ProjectColumns, SelectRows
from penstock.program.isa.check import check_instruction
from penstock.program.isa.codecs import Record
from penstock.program.isa.encoding import record_from_json
from penstock.program.isa.op_instructions import (
    PORTS,
    RESULT_PORTS,
    Body,
    Bypass,
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
)
from penstock.program.isa.table import JOIN, PROJECT, SELECT
from penstock.program.isa.words.clauses import Comparison, JoinComparison, condition_of
from penstock.program.isa.words.codes import OPERATORS, constant_of_bits, type_of_code
from penstock.program.isa.words.encoding import words_of
from penstock.program.isa.words.forms import (
    B_ID,
    FORM,
    INPUT,
    INST,
    MORE,
    QUERY,
    STEP,
    Word,
)
from penstock.program.isa.words.layout import WordLayout
from penstock.program.isa.words.packing import REMEDY, TEXT, Read, refuse, unpack
from penstock.sql.expressions import Column, Expression
from penstock.sql.plan import Output
from penstock.streams.display import counted, listed
from penstock.streams.windows import Rows

IN_ORDER = "Send every instruction of a series once, in their order, with nothing between them."


def decode(words: bytes, layout: WordLayout) -> list[OPInstruction]:
    """The instructions of some words; a ProgramError names the field of bits that is wrong."""
    return [instruction_of(series, layout) for series in all_series(unpack(words, layout))]


def all_series(reads: Iterable[Read]) -> Iterator[list[Read]]:
    """The instructions, a series at a time."""
    series: list[Read] = []
    for read in reads:
        if series:
            _check_next(series[-1], read)
        series.append(read)
        if not read.word.more:
            yield series
            series = []
    if series:
        last = series[-1]
        what = f"it says that {last.word.more} more of its series follow, and the words end here"
        refuse(last, 0, MORE.name, what, IN_ORDER)


def _check_next(last: Read, read: Read) -> None:
    """Refuse what does not follow in a series."""
    one, other = last.word, read.word
    for field, expected, found in (
        (INST, one.form.inst, other.form.inst),
        (B_ID, one.block - 1, other.block - 1),
        (QUERY, one.query, other.query),
        (MORE, one.more - 1, other.more),
        (STEP, one.step, other.step),
        (INPUT, one.input, other.input),
    ):
        if expected != found:
            what = f"expected {expected}, as instruction {last.number + 1} says, found {found}"
            refuse(read, 0, field.name, what, IN_ORDER)


def instruction_of(series: Sequence[Read], layout: WordLayout) -> OPInstruction:
    """The instruction that a series says."""
    first = series[0].word
    body = _MEANT[first.form.name](series, layout)
    made = OPInstruction(first.block, first.query, body)
    _check_same(series, words_of(made, layout))
    return made


def _check_same(series: Sequence[Read], expected: Sequence[Word]) -> None:
    """Refuse words that say in another way what has one encoding."""
    for read, same in zip(series, expected, strict=False):
        if read.word != same:
            _refuse_other(read, read.word, same)
    if len(series) != len(expected):
        last = series[min(len(series), len(expected)) - 1]
        what = f"expected a series of {len(expected)}, found one of {len(series)}"
        refuse(last, 0, MORE.name, what)


def _refuse_other(read: Read, found: Word, expected: Word) -> None:
    if found.form is not expected.form:
        what = f"expected {expected.form.name}, which says the same, found {found.form.name}"
        refuse(read, 0, FORM.name, what)
    if found.text != expected.text:
        what = "expected JSON with sorted keys, without spaces, with each entry of a table once"
        refuse(read, 1, TEXT, what)
    for chunk, (values, right) in enumerate(zip(found.chunks, expected.chunks, strict=False)):
        for field, value, one in zip(found.form.chunk(chunk), values, right, strict=True):
            if value != one:
                refuse(read, chunk + 1, field.name, f"expected {one}, found {value}")
    refuse(read, 0, MORE.name, f"expected {expected.more}, found {found.more}")


# -- reset and its forms --------------------------------------------------------------------


def _reset(series: Sequence[Read], layout: WordLayout) -> Body:
    port, every = _single(series).word.policies
    return ResetBlock(RESULT_PORTS[port], bool(every))


def _bypass(series: Sequence[Read], layout: WordLayout) -> Body:
    _single(series)
    return Bypass()


def _ports(series: Sequence[Read], layout: WordLayout) -> Body:
    read = _single(series)
    *reads, last = read.word.chunks
    stream, _, is_given = last
    gives = stream if is_given else None
    if not is_given:
        reads.append(last)
    for chunk, (_, _, role) in enumerate(reads):
        if role:
            refuse(read, chunk + 1, "role", "expected gives in the last chunk alone")
    if not reads:
        refuse(read, 1, "role", "expected a stream that is read before the one that is given")
    streams, ports, _ = zip(*reads, strict=True)
    return ReadPorts(streams, tuple(PORTS[port] for port in ports), gives)


def _part(series: Sequence[Read], layout: WordLayout) -> Body:
    read = _single(series)
    part, parts, window = read.word.chunks[0]
    if part >= parts:
        what = f"expected a number below {parts}, the number of parts, found {part}"
        refuse(read, 1, "part", what, "Number the blocks of a join from 0, from the left.")
    return JoinPart(part, parts, window)


def _single(series: Sequence[Read]) -> Read:
    """The only instruction of a series that has no others."""
    if len(series) > 1:
        word = series[0].word
        refuse(series[0], 0, MORE.name, f"expected 0 for {word.form.name}, found {word.more}")
    return series[0]


# -- selections and projections -------------------------------------------------------------


def _selection(series: Sequence[Read], layout: WordLayout) -> Body:
    forms = _by_form(series, "selection.all", "selection", "selection.columns")
    condition = _condition(forms["selection"], _comparison, 1, layout)
    columns = [column for read in forms["selection.columns"] for (column,) in read.word.chunks]
    handed_on = tuple(columns) if forms["selection.columns"] else None
    word = series[0].word
    return SelectRows(word.step, word.input, condition, handed_on)


def _comparison(read: Read, layout: WordLayout) -> Comparison:
    (attribute, value), (operator, code, side, _) = read.word.chunks
    kind = type_of_code(code)
    column = Column(side, attribute, "", kind)
    if OPERATORS[operator].startswith("is_"):
        return Comparison(column, OPERATORS[operator], None)
    try:
        constant = constant_of_bits(value, kind, layout.value)
    except ValueError as error:
        refuse(read, 1, "value", f"expected {error}, found {value}")
    return Comparison(column, OPERATORS[operator], constant)


def _condition(
    reads: Sequence[Read],
    term: Callable[[Read, WordLayout], Any],
    chunk: int,
    layout: WordLayout,
) -> Expression:
    """The condition of comparisons whose clause is the last field of that further chunk."""
    last = -1
    for read in reads:
        clause = read.word.chunks[chunk][-1]
        allowed = {max(last, 0), last + 1}
        if clause not in allowed:
            expected = listed(map(str, sorted(allowed)), "or")
            remedy = "Number clauses from 0, and send the comparisons of one after the other."
            refuse(read, chunk + 1, "clause", f"expected {expected}, found {clause}", remedy)
        last = clause
    clauses = groupby(reads, lambda read: read.word.chunks[chunk][-1])
    return condition_of(tuple(tuple(term(one, layout) for one in some) for _, some in clauses))


def _selection_table(series: Sequence[Read], layout: WordLayout) -> Body:
    made: SelectRows = _from_text(series, SELECT)
    if made.condition.type != pa.bool_():
        what = f"condition: expected boolean, found {made.condition.type}"
        refuse(series[0], 1, TEXT, what)
    return made


def _projection(series: Sequence[Read], layout: WordLayout) -> Body:
    forms = _by_form(series, "projection", "projection.names")
    columns = [
        Column(side, attribute, "", type_of_code(code))
        for read in forms["projection"]
        for attribute, code, side in read.word.chunks
    ]
    if not forms["projection.names"]:
        last = series[-1]
        what = "expected projection.names after the attributes, found the end of the series"
        refuse(last, 0, FORM.name, what, IN_ORDER)
    text = forms["projection.names"]
    names = _names(text)
    if len(names) != len(columns):
        what = (
            f"expected {counted(len(columns), 'name')}, one for each attribute, found {len(names)}"
        )
        refuse(text[0], 1, TEXT, what)
    outputs = tuple(Output(name, one) for name, one in zip(names, columns, strict=True))
    word = series[0].word
    return ProjectColumns(word.step, word.input, outputs)


def _names(series: Sequence[Read]) -> list[str]:
    try:
        names = json.loads(_text_of(series))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse(series[0], 1, TEXT, "expected a JSON list of names")
    return names


def _projection_table(series: Sequence[Read], layout: WordLayout) -> Body:
    made: ProjectColumns = _from_text(series, PROJECT)
    return made


# -- joins ----------------------------------------------------------------------------------


def _join(series: Sequence[Read], layout: WordLayout) -> Body:
    forms = _by_form(series, "join.windows", "join", "join.table")
    said: dict[str, Any] = {}
    if forms["join.windows"]:
        (r, s), *_ = forms["join.windows"][0].word.chunks
        said["windows"] = (Rows(r), Rows(s))
    if forms["join"]:
        said["compiled"] = _condition(forms["join"], _join_comparison, 0, layout)
    table = forms["join.table"]
    if not table:
        what = "expected join.table at the end of the series, found the end of the series"
        refuse(series[-1], 0, FORM.name, what, IN_ORDER)
    body = JoinStreams(**_from_text(table, JOIN.without(said)), **said)
    inputs = {
        block: (tuple(schema.types),)
        for block, schema in zip(body.inputs, body.schemas, strict=False)
    }
    try:
        check_instruction(body, inputs, "")
    except ProgramError as error:
        refuse(table[0], 1, TEXT, error.what.removeprefix("."), error.remedy)
    return body


def _join_comparison(read: Read, layout: WordLayout) -> JoinComparison:
    r, s, operator, code, left, _ = read.word.chunks[0]
    if OPERATORS[operator].startswith("is_"):
        refuse(read, 1, "operator", f"expected 0 to 5 in a join, found {operator}")
    kind = type_of_code(code)
    return JoinComparison(Column(0, r, "", kind), Column(1, s, "", kind), OPERATORS[operator], left)


# -- series and texts -----------------------------------------------------------------------


def _by_form(series: Sequence[Read], *names: str) -> dict[str, list[Read]]:
    """The instructions of a series by their forms, which stand in that order."""
    found: dict[str, list[Read]] = {name: [] for name in names}
    at = 0
    for read in series:
        name = read.word.form.name
        if name not in names[at:]:
            what = f"expected {listed(names[at:], 'or')} here in the series, found {name}"
            refuse(read, 0, FORM.name, what, IN_ORDER)
        at = names.index(name)
        found[name].append(read)
    return found


def _text_of(series: Sequence[Read]) -> bytes:
    return b"".join(read.word.text for read in series)


def _from_text(series: Sequence[Read], record: Record) -> Any:
    """What the text of a series says of a record."""
    name = series[0].word.form.name
    _by_form(series, name)
    try:
        return record_from_json(record, _text_of(series))
    except ProgramError as error:
        refuse(series[0], 1, TEXT, error.what, REMEDY)


_MEANT: dict[str, Callable[[Sequence[Read], WordLayout], Body]] = {
    "reset": _reset,
    "bypass": _bypass,
    "ports": _ports,
    "part": _part,
    "selection": _selection,
    "selection.all": _selection,
    "selection.columns": _selection,
    "selection.table": _selection_table,
    "projection": _projection,
    "projection.names": _projection,
    "projection.table": _projection_table,
    "join": _join,
    "join.windows": _join,
    "join.table": _join,
}
"""For the first form of a series, what the series means."""
