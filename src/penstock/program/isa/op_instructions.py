"""Instructions for the OP-Blocks of a topology (Najafi 2019 §4.1.2).

A topology has blocks before it has queries. What tells a block to do a part of a query is an
instruction with the block's number (B-ID), the query's number, and what is to be done: one of the
instructions of the query's program, or one that only a topology has. Words
(:mod:`penstock.program.isa.words`) are what it is sent as, between the tuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from penstock.errors import ProgramError
from penstock.program.isa.block_instructions import JoinStreams, ProjectColumns, SelectRows

ResultPort = Literal["final", "stream-r", "both"]
"""Where a block sends the rows of a query: to the result, on to the next blocks, or both."""
RESULT_PORTS: tuple[ResultPort, ...] = get_args(ResultPort)
Port = Literal["r", "s"]
"""The port by which a stream comes."""
PORTS: tuple[Port, ...] = get_args(Port)


@dataclass(frozen=True)
class ResetBlock:
    """Empty the Query Buffer and the windows, and set the result port.

    Parameters
    ----------
    result_port
        Where the rows of the query leave the block.
    every_query
        Whether all queries leave the block; False: only this one starts anew.
    """

    result_port: ResultPort
    every_query: bool = False


@dataclass(frozen=True)
class Bypass:
    """Forget the query: what it reads passes by."""


@dataclass(frozen=True)
class ReadPorts:
    """The numbers of the streams that a query reads in this block, in the order of its inputs.

    Parameters
    ----------
    streams
        The number of each stream in the topology.
    ports
        The port by which each comes.
    gives
        The number of the stream that its rows are, where later blocks read them.
    """

    streams: tuple[int, ...]
    ports: tuple[Port, ...]
    gives: int | None = None


@dataclass(frozen=True)
class JoinPart:
    """A block's place in a join that spans several, from the left.

    Parameters
    ----------
    part, parts
        The place, from 0, and how many blocks there are.
    window
        How many tuples of each stream a block has room for.
    """

    part: int
    parts: int
    window: int


Body = ResetBlock | Bypass | ReadPorts | JoinPart | SelectRows | ProjectColumns | JoinStreams


@dataclass(frozen=True)
class OPInstruction:
    """An instruction for one OP-Block.

    Parameters
    ----------
    block
        The number of the OP-Block, from 1 (B-ID).
    query
        The number of the query; results carry it.
    body
        What the block is to do.
    """

    block: int
    query: int
    body: Body


def check_ports(ports: ReadPorts, path: str) -> None:
    """Refuse streams without ports; ``path`` is the prefix of the fields' names."""
    if len(ports.streams) != len(ports.ports):
        raise ProgramError(
            f"{path}ports: expected a list of {len(ports.streams)}, found one of "
            f"{len(ports.ports)}",
            "Give each stream the port by which it comes.",
        )


def check_part(part: JoinPart, path: str) -> None:
    """Refuse a place beyond the last block; ``path`` is the prefix of the fields' names."""
    if part.part >= part.parts:
        raise ProgramError(
            f"{path}part: expected a number below {part.parts}, the number of parts, found "
            f"{part.part}",
            "Number the blocks of a join from 0, from the left.",
        )
