"""The programs of scripts, compiled as an engine compiles them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
)
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream
from penstock.testing.script import (
    ChangeStep,
    DeriveStep,
    DropStep,
    InstallStep,
    StreamStep,
    parse_script,
)

SCRIPTS = sorted((Path(__file__).parent / "conformance").glob("*.flow"))


def compiled(instructions: Iterable[Instruction], order: str | None = None) -> list[Instruction]:
    """The instructions with programs instead of SQL."""
    return list(_compiled(instructions, Catalog(windows_required=False), order))


def _compiled(
    instructions: Iterable[Instruction], catalog: Catalog, order: str | None
) -> Iterator[Instruction]:
    for one in instructions:
        if isinstance(one, CreateStream):
            catalog.add(one.stream)
            yield one
        elif isinstance(one, Drop):
            if one.query in catalog:
                catalog.remove(one.query)
            yield one
        else:
            assert isinstance(one, Derive | Install | Change)
            program = compile_plan(bind(parse_query(one.text), catalog, order_column=order))
            if isinstance(one, Derive):
                bounded = all(scan.stream.bounded for scan in program.scans)
                catalog.add(Stream.of(one.name, program.schema, bounded=bounded, derived=True))
                yield Derive(one.name, program)
            elif isinstance(one, Install):
                yield Install(one.query, program)
            else:
                yield Change(one.query, program)


def instructions_of(script: str) -> list[Instruction]:
    """The compiled instructions of a ``.flow`` script."""
    found: list[Instruction] = []
    for step in parse_script(script):
        if isinstance(step, StreamStep):
            found.append(CreateStream(step.stream))
        elif isinstance(step, DeriveStep):
            found.append(Derive(step.name, step.sql))
        elif isinstance(step, InstallStep):
            found.append(Install(step.query, step.sql))
        elif isinstance(step, ChangeStep):
            found.append(Change(step.query, step.sql))
        elif isinstance(step, DropStep):
            found.append(Drop(step.query))
    return compiled(found)


@cache
def conformance() -> dict[str, list[Instruction]]:
    """The compiled instructions of every conformance script, by its name."""
    return {path.stem: instructions_of(path.read_text(encoding="utf-8")) for path in SCRIPTS}


def programs_in(instructions: Iterable[Instruction]) -> list[Program]:
    """The programs of instructions."""
    carried = (getattr(one, "program", None) for one in instructions)
    return [program for program in carried if isinstance(program, Program)]
