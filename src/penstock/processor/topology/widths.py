"""The widths of a topology: of its ports, and of the fields of the words that pass through them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Widths:
    """Bits of the ports and of the fields of words (Najafi 2019 §4.1.2).

    Parameters
    ----------
    port
        A tuple, or a segment of one: any number of attribute-value pairs.
    attribute, value
        An attribute's number, and a value.
    instruction
        What an instruction does (Inst).
    block
        The number of the block that an instruction is for (B-ID).
    query
        The number of the query that an instruction and its results belong to.
    count
        The number of chunks of an instruction (CC).
    """

    port: int = 64
    attribute: int = 32
    value: int = 32
    instruction: int = 4
    block: int = 8
    query: int = 16
    count: int = 16


MOST_BITS = {
    "port": 65_536,
    "attribute": 64,
    "value": 64,
    "instruction": 8,
    "block": 16,
    "query": 32,
    "count": 32,
}
"""The most bits that each width may have."""
