"""Writes ``docs/program.md`` from the table of fields.

``python -m penstock.program.isa.document > docs/program.md`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.program.isa.codecs import IS, Record, Union
from penstock.program.isa.encoding import FORMAT
from penstock.program.isa.table import (
    AGGREGATE_WINDOW,
    CALL,
    EXPRESSIONS,
    FLOW,
    INSTRUCTIONS,
    JOIN_STEP,
    KEY,
    OUTPUT,
    SENT,
    SORT_KEY,
    STREAM,
    TIME,
    WINDOW,
)
from penstock.program.isa.values import type_meaning, value_meaning
from penstock.sql.operations import OPERATIONS

BEGINNING = f"""# Programs

`python -m penstock.program.isa.document` writes this page from the table of fields that encodes and
decodes programs (`src/penstock/program/isa/table.py`).

A query that is compiled is a *program*: a list of instructions for blocks, with block numbers and
typed fields. `Program.to_json()` gives it as one JSON object, `Program.from_json(text)` takes it
back, `penstock explain --format json` prints it, and `engine.install(program)` starts it. Logs,
checkpoints, saved engines and jobs on Spark hold programs in this form: the SQL is parsed once.

- The JSON is canonical: keys are sorted, there are no spaces, everything is ASCII.
- `format` is {FORMAT}. A program in another format is refused.
- Types, constants and expressions stand in three tables, `types`, `constants` and `expressions`.
  Everything else refers to their entries by index. An expression refers to expressions that stand
  before it, so that there is no limit to its depth, and equal ones stand there once.
- Fields that are marked *for people* (the SQL, reasons, aliases) go along and mean nothing. Those
  marked *placement* say how cores are to share the query, as far as it was asked for, so that
  `engine.install(program)` starts it with the same flow; `program.placed()` is the same query
  without them, for another engine. `Program.digest`, a SHA-256 over the canonical JSON without
  both, identifies a program: two spellings of a query, and any number of cores, have the same.
- What is no program is refused with a `ProgramError` that names the field, as in
  `instructions[2].condition: expected an index below 7, found 9`.

## Tables

| table | its entries |
| --- | --- |
| `types` | {type_meaning} |
| `constants` | objects with `type` (index of a type) and `value`: {value_meaning} |
| `expressions` | objects of the kinds below |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([BEGINNING, *_sections()])


def _sections() -> Iterator[str]:
    yield from _union(
        "What is sent",
        "A program stands alone, or in an instruction that a user sends. The tables and `format` "
        "are fields of the same object.",
        SENT,
    )
    yield from _union(
        "Instructions for blocks", "In the order in which the blocks get them.", INSTRUCTIONS
    )
    yield from _union("Expressions", "Columns, constants, calls and conversions.", EXPRESSIONS)
    yield from _union("Windows of joins", "Times are in ticks of the query's clock.", WINDOW)
    yield from _union("Windows of aggregates", "Times are in ticks.", AGGREGATE_WINDOW)
    yield "## Other objects\n"
    for record in (STREAM, TIME, OUTPUT, KEY, CALL, SORT_KEY, JOIN_STEP, FLOW):
        yield from _record(record)
    yield "## Operations\n\nWhat a call takes and gives.\n"
    yield "| operation | takes |\n| --- | --- |"
    for name, operation in sorted(OPERATIONS.items()):
        yield f"| `{name}` | {operation.signature.takes} |"
    yield ""


def _union(title: str, meaning: str, union: Union) -> Iterator[str]:
    yield f"## {title}\n\n{meaning} The field `{IS}` says which it is.\n"
    for record in union.records:
        yield from _record(record)


def _record(record: Record) -> Iterator[str]:
    yield f"### {record.name}\n\n{record.meaning}\n"
    if not record.fields:
        return
    yield "| field | JSON | meaning |\n| --- | --- | --- |"
    for one in record.fields:
        mark = " *(for people)*" if one.for_people else " *(placement)*" if one.placement else ""
        yield f"| `{one.name}` | {one.codec.meaning} | {one.meaning}{mark} |"
    yield ""


if __name__ == "__main__":
    print(page(), end="")
