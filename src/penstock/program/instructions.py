"""The instructions that travel in the input like tuples and take effect at their position.

These are the ones a user sends. What they become for the blocks is in
:mod:`penstock.program.blocks`. Their binary form will live beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.program.flow_choice import ANY_FLOW, FlowChoice
from penstock.streams.schema import Stream


@dataclass(frozen=True)
class CreateStream:
    """Declare a stream that tuples can be pushed to."""

    stream: Stream


@dataclass(frozen=True)
class Derive:
    """``CREATE STREAM name AS text``: a query whose rows are a stream that others can read."""

    name: str
    text: str


@dataclass(frozen=True)
class Install:
    """Start a query, with empty windows.

    ``order`` overrides its EMIT ORDER, ``kernel`` the choice of its joins' or aggregates' kernel,
    ``flow`` how cores share joins; all of it holds for later changes too.
    """

    query: str
    text: str
    order: str | None = None
    kernel: str | None = None
    flow: FlowChoice = ANY_FLOW


@dataclass(frozen=True)
class Change:
    """Give a running query another text. Its windows are kept."""

    query: str
    text: str


@dataclass(frozen=True)
class Drop:
    """Stop a query, or forget a derived stream that nobody reads. Emits nothing."""

    query: str


@dataclass(frozen=True)
class Reset:
    """Forget every query and every stream, and emit nothing. Positions go on."""


Instruction = CreateStream | Derive | Install | Change | Drop | Reset
