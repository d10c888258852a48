"""The layout of words: how many bits each field has on a topology.

The widths that Najafi 2019 §4.1.2 gives are the defaults: a port of 64 bits, chunks of nine bytes,
one bit each for S and Q, two for Inst, four for B-ID, attributes and values of 32 bits. The others
are chosen here so that the rest of the first chunk is exactly one port wide.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from penstock.errors import InputError

OPERATOR_BITS, TYPE_BITS, SIDE_BITS = 4, 8, 4
"""The bits of the parts of a condition; its clause has the rest."""
RESULT_PORT_BITS, TRUTH_BITS = 2, 1
"""The bits of the policies."""
_SEVERAL = 1 << 12
"""The largest width of a port; a wider one is a slip of the hand."""


def _bits(default: int, name: str, meaning: str, least: int = 1) -> Any:
    return field(default=default, metadata={"name": name, "meaning": meaning, "least": least})


@dataclass(frozen=True)
class WordLayout:
    """The widths of the fields of words, in bits: parameters of a topology.

    A chunk is a header of whole bytes and a part as wide as the port. The header has S, Q, Inst and
    B-ID, and grows by whole bytes when these need more, or when the other fields of the first chunk
    do not fit the port.

    >>> WordLayout().chunk_bytes, WordLayout(b_id=10).chunk_bytes
    (9, 10)
    """

    port: int = _bits(64, "port", "the width of a port; a chunk has as many bits and its header", 8)
    inst: int = _bits(2, "Inst", "which instruction", 2)
    b_id: int = _bits(4, "B-ID", "the number of a block, less one")
    query: int = _bits(16, "query", "the number of a query")
    stream: int = _bits(16, "stream", "the number of a stream of the topology")
    cc: int = _bits(16, "CC", "how many chunks an instruction has", 2)
    attribute: int = _bits(32, "attribute", "the number of a column of a stream", 2)
    value: int = _bits(32, "value", "a constant")
    condition: int = _bits(
        32,
        "condition",
        "an operator, a type, a side and a clause",
        OPERATOR_BITS + TYPE_BITS + SIDE_BITS + 1,
    )
    policies: int = _bits(4, "policies", "how a block is reset", RESULT_PORT_BITS + TRUTH_BITS)
    form: int = _bits(4, "form", "which form of the instruction", 2)
    more: int = _bits(8, "more", "how many instructions of a series are still to come")
    step: int = _bits(8, "step", "the number of a block of the program")

    def __post_init__(self) -> None:
        for one in fields(self):
            width, least = getattr(self, one.name), one.metadata["least"]
            if type(width) is not int or not least <= width <= _SEVERAL:
                raise InputError(
                    f"the width of {one.metadata['name']} is {width!r}",
                    f"Write a number of bits from {least} to {_SEVERAL}.",
                )
        if self.port % 8:
            raise InputError(
                f"the width of port is {self.port} bits", "Write whole bytes: a multiple of 8."
            )
        for what, width in (
            ("attribute and value", self.attribute + self.value),
            ("attribute and condition", self.attribute + self.condition),
            ("stream, port and role", self.stream + 2),
        ):
            if width > self.port:
                raise InputError(
                    f"{what} need {width} bits, and the port has {self.port}",
                    f"Make the port at least {-(-width // 8) * 8} bits wide, or the fields "
                    "narrower.",
                )

    @cached_property
    def header_bits(self) -> int:
        """The bits before the port's part of a chunk."""
        address = 2 + self.inst + self.b_id
        control = self.cc + self.query + self.form + self.policies + self.more + 2 * self.step
        return -(-max(address, address + control - self.port) // 8) * 8

    @cached_property
    def chunk_bytes(self) -> int:
        """The bytes of a chunk."""
        return (self.header_bits + self.port) // 8

    @property
    def clause(self) -> int:
        """The bits of a clause: those of a condition that its other parts leave."""
        return self.condition - OPERATOR_BITS - TYPE_BITS - SIDE_BITS

    @property
    def port_bytes(self) -> int:
        """The bytes of the port's part of a chunk."""
        return self.port // 8

    @classmethod
    def fitting(cls, blocks: int, queries: int = 0, streams: int = 0) -> WordLayout:
        """The layout with the published widths, or wider where that many do not fit them.

        >>> WordLayout.fitting(16) == WordLayout(), WordLayout.fitting(17).b_id
        (True, 5)
        """
        plain = cls()
        return cls(
            b_id=max(plain.b_id, (blocks - 1).bit_length()),
            query=max(plain.query, (queries - 1).bit_length()),
            stream=max(plain.stream, (streams - 1).bit_length()),
        )


def option(name: str) -> str:
    """How the command line names a width: ``b-id`` for ``b_id``."""
    return name.replace("_", "-")


def layout_from(widths: dict[str, int]) -> WordLayout:
    """The layout with some widths given by their names on the command line."""
    names = {option(one.name): one.name for one in fields(WordLayout)}
    for name in widths:
        if name not in names:
            raise InputError(f"words have no field {name!r}", f"Write one of {', '.join(names)}.")
    return WordLayout(**{names[name]: width for name, width in widths.items()})
