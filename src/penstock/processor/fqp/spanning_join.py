"""A join that spans blocks: the chain of low-latency handshake join, with OP-Blocks as its cores.

A join with windows larger than those of a block takes neighbours (Najafi 2019 §4.2: 3 x 512 tuples
in three blocks). Its *front* stands outside, as of any flow: it admits tuples, computes their keys,
and makes rows of the pairs of numbers that come back. The cores are in the blocks of the topology,
and their messages travel by its wires, among those of other queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.blocks.contract import Block, BlockId
from penstock.blocks.join.block import JoinBlock
from penstock.blocks.join.partner_search import PartnerSearch
from penstock.flows.low_latency_handshake.low_latency_handshake import LowLatencyHandshake
from penstock.flows.network.network import Network
from penstock.processor.fqp.processor import Processor
from penstock.processor.op_block.messages import FAILED, ForCore, QueryOutput, Results
from penstock.processor.op_block.query_buffer import R, S
from penstock.program.isa.flow import Flow

ENTRIES = {"left": R, "right": S}
"""By which stream's end of a branch the front's messages enter, by the end of the chain."""


class ChainInBlocks:
    """A driver of a chain whose cores are in the blocks of a topology.

    Parameters
    ----------
    network
        The chain: its cores from left to right.
    processor
        The topology.
    query
        The number of the query on it.
    blocks
        The numbers of the blocks, from left to right.
    """

    def __init__(
        self, network: Network, processor: Processor, query: int, blocks: Sequence[int]
    ) -> None:
        self._processor = processor
        self._query = query
        self._blocks = [processor.blocks[number] for number in blocks]
        branch = processor.branch_of(blocks[0])
        self._entries = {end: f"{port} {branch}" for end, port in ENTRIES.items()}
        self._names = {
            block.name: core.name for block, core in zip(self._blocks, network.units, strict=True)
        }
        self._failure: Exception | None = None
        for block, core in zip(self._blocks, network.units, strict=True):
            block.queries.host(query, core)

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in at an end of the branch."""
        return self._processor.driver.send(self._entries[entry], ForCore(self._query, message))

    def received(self) -> Iterator[tuple[str, Any]]:
        """Take the pairs that have come out."""
        for exit_, message in self._processor.driver.received():
            assert isinstance(message, Results), message
            for output in message.outputs:
                assert isinstance(output, QueryOutput), output
                if output.port == FAILED:
                    self._failure = self._failure or output.message
                else:
                    yield exit_, output.message

    def wait(self) -> None:
        """Return once something has come out, there is room, or nothing moves any more."""
        self._processor.driver.wait()

    def settled(self) -> bool:
        """Whether nothing moves any more; raises the error of a core then, if there is one."""
        if not self._processor.driver.settled():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def depths(self) -> dict[str, int]:
        """How many messages wait before each core's block."""
        depths = self._processor.driver.depths()
        return {core: depths[block] for block, core in self._names.items()}

    def loads(self) -> dict[str, float]:
        """For which part of the time each core's block has been at work, if that is measured."""
        loads = self._processor.driver.loads()
        return {core: loads[block] for block, core in self._names.items() if block in loads}

    def close(self) -> None:
        """Let the cores go; the driver goes on with other queries."""
        for block in self._blocks:
            if self._query in block.queries.parts:
                block.queries.host(self._query, None)


def spanning_join(
    number: BlockId, processor: Processor, query: int, blocks: Sequence[int]
) -> Block:
    """The front of a join whose cores are in these blocks."""

    def search(flow: Flow | None, kind: str) -> PartnerSearch:
        return LowLatencyHandshake(
            len(blocks), lambda chain: ChainInBlocks(chain, processor, query, blocks)
        )

    return JoinBlock(number, search)
