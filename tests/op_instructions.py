"""Instructions for OP-Blocks: random ones, and ones with the parts of compiled programs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.program.isa.block_instructions import (
    JoinStreams,
    Program,
    ProjectColumns,
    SelectRows,
)
from penstock.program.isa.op_instructions import (
    PORTS,
    RESULT_PORTS,
    Bypass,
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
)
from penstock.program.isa.words.layout import WordLayout
from penstock.sql.expressions import Column, Expression, rebuild

LAYOUTS = (
    WordLayout(),
    WordLayout(b_id=10, query=20, stream=8),
    WordLayout(port=128, value=64, attribute=64, condition=40, cc=24, more=12),
    WordLayout(port=64, attribute=24, value=40, condition=24, cc=8, form=3, inst=3),
    WordLayout(port=56, attribute=16, value=32, condition=20, cc=6, more=9, policies=5, step=3),
)
"""Layouts in which everything below fits, apart from what goes into a text."""


def addressed(programs: Iterable[Program], chance: random.Random) -> list[OPInstruction]:
    """The selections, projections and joins of programs, each for a random block and query."""
    return [
        OPInstruction(chance.randint(1, 16), chance.randrange(1 << 16), body)
        for program in programs
        for body in program.instructions
        if isinstance(body, SelectRows | ProjectColumns | JoinStreams)
    ]


def control(chance: random.Random) -> OPInstruction:
    """A reset, or one of its forms."""
    parts = chance.randint(1, 16)
    count = chance.randint(1, 4)
    body = chance.choice(
        (
            ResetBlock(chance.choice(RESULT_PORTS), chance.random() < 0.5),
            Bypass(),
            ReadPorts(
                tuple(chance.randrange(256) for _ in range(count)),
                tuple(chance.choice(PORTS) for _ in range(count)),
                chance.choice((None, chance.randrange(256))),
            ),
            JoinPart(chance.randrange(parts), parts, chance.choice((0, 16, 512, 1 << 20))),
        )
    )
    return OPInstruction(chance.randint(1, 16), chance.randrange(1 << 16), body)


def plain(instruction: OPInstruction) -> OPInstruction:
    """The instruction without what is for people: names of columns in expressions, reasons."""
    return replace(instruction, body=_plain(instruction.body))


def _plain(value: Any) -> Any:
    if isinstance(value, Column):
        return replace(value, name="", alias="")
    if isinstance(value, Expression):
        return rebuild(value, _plain)
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if is_dataclass(value):
        parts = {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        return replace(value, **parts | ({"reason": ""} if "reason" in parts else {}))
    return value
