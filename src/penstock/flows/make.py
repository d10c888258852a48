"""The table of kinds of blocks, and the cores and threads of a query's flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from penstock.blocks.aggregate.block import AggregateBlock
from penstock.blocks.contract import Block, BlockId
from penstock.blocks.guarded import GuardedBlock
from penstock.blocks.join.block import JoinBlock
from penstock.blocks.join.partner_search import PartnerSearch
from penstock.blocks.multiway.block import MultiwayBlock
from penstock.blocks.multiway.combination_search import CombinationSearch, Division
from penstock.blocks.order import OrderBlock
from penstock.blocks.project import ProjectBlock
from penstock.blocks.screen import ScreenBlock
from penstock.blocks.select import SelectBlock
from penstock.blocks.union import UnionBlock
from penstock.errors import InputError
from penstock.flows.cascade import Cascade
from penstock.flows.celljoin import celljoin
from penstock.flows.chain_as_published.chain_as_published import ChainAsPublished
from penstock.flows.circular.circular import circular, circular_units
from penstock.flows.handshake.handshake import Handshake
from penstock.flows.linear import linear
from penstock.flows.low_latency_handshake.low_latency_handshake import LowLatencyHandshake
from penstock.flows.multi_flow import MakeUnits
from penstock.flows.network.inline import Inline
from penstock.flows.network.threads import Threads
from penstock.flows.parallel import (
    divided_stream,
    mjoin_units,
    parallel,
    parallel_core,
    published_parallel,
)
from penstock.flows.shared import ThreadPool
from penstock.flows.shared_search import SharedSearch
from penstock.flows.splitjoin.gathering import Stars
from penstock.flows.splitjoin.splitjoin import splitjoin
from penstock.flows.stashed.stashed import stashed, stashed_units
from penstock.program.choose.design import MOST_COMBINATIONS
from penstock.program.isa import flow as flow_table
from penstock.program.isa.block_instructions import BlockInstruction, OwnRows
from penstock.program.isa.flow import Flow
from penstock.sql.own_blocks import register, registered


def core_threads_of(flow: Flow | None) -> ThreadPool | None:
    """The threads of a flow that is shared; None for others."""
    return (
        ThreadPool(flow.cores)
        if flow is not None and flow.name == "shared" and flow.cores > 1
        else None
    )


def partner_search_of(flow: Flow | None, kind: str) -> PartnerSearch | None:
    """The cores of a flow for joins of a kind; None where the join block does the work itself."""
    if flow is None:
        return None
    if kind != "inner":
        # A tuple without a partner is known once all pairs of its rank have come, in order.
        flow = replace(flow, order="outer", precision=1)
    return None if flow_table.FLOWS[flow.name].in_block else FLOWS[flow.name](flow)


FLOWS: dict[str, Callable[[Flow], PartnerSearch]] = {
    "splitjoin": lambda flow: splitjoin(flow.cores, flow.branching, _stars(flow), Threads),
    "celljoin": lambda flow: celljoin(flow.cores, _stars(flow), Threads),
    "handshake": lambda flow: Handshake(flow.cores, Threads),
    "low-latency-handshake": lambda flow: LowLatencyHandshake(flow.cores, Threads),
    # One run moves at a time, so that threads would only wait for each other.
    "chain-as-published": lambda flow: ChainAsPublished(flow.cores, Inline),
}
"""What makes the cores of each flow that is not in the join block itself."""


def _stars(flow: Flow) -> Stars:
    return Stars(flow.order, flow.precision)


CORE_SEARCHES: dict[str, Callable[[Flow], MakeUnits]] = {
    "mjoin": lambda flow: mjoin_units,
    "circular": lambda flow: circular_units(),
    "stashed": lambda flow: stashed_units(size=flow.stash),
}
"""What makes the units of each search that the cores of ``parallel`` can have."""


def _search_in_core(flow: Flow | None) -> MakeUnits:
    """What makes the units of a core that divides a stream with others."""
    return mjoin_units if flow is None else CORE_SEARCHES[flow_table.search_of(flow.design)](flow)


def _parallel(flow: Flow) -> CombinationSearch:
    """Cores on threads that divide a stream."""
    return parallel(flow.cores, flow.branching, _search_in_core(flow), Threads)


DESIGNS: dict[str, Callable[[Flow], CombinationSearch]] = {
    "cascade": lambda flow: Cascade(MOST_COMBINATIONS if flow.revises else None),
    "circular": lambda flow: circular(Threads),
    "linear": lambda flow: linear(Threads),
    "shared": lambda flow: SharedSearch(flow.cores),
    "parallel": _parallel,
    "parallel-circular": _parallel,
    "parallel-stashed": _parallel,
    "parallel-as-published": lambda flow: published_parallel(flow.cores, flow.branching, Threads),
    "stashed": lambda flow: stashed(Threads, size=flow.stash),
}
"""What makes the cores of each design that is not in the multiway block itself."""


def combination_search_of(flow: Flow | None) -> CombinationSearch | None:
    """The cores of a design; None where the multiway block does the work itself."""
    if flow is None or flow_table.DESIGNS[flow.design].in_block:
        return None
    return DESIGNS[flow.design](flow)


AMONG_PROCESSES = Division(
    divided_stream, lambda flow: parallel_core(_search_in_core(flow), Inline)
)
"""How multiway blocks in several processes divide a join."""


KINDS: dict[str, Callable[[BlockId], Block]] = {
    "join": lambda number: JoinBlock(number, partner_search_of, core_threads_of),
    "multiway": lambda number: MultiwayBlock(number, combination_search_of, AMONG_PROCESSES),
    "aggregate": lambda number: AggregateBlock(number, core_threads_of),
    "select": SelectBlock,
    "project": ProjectBlock,
    "union": UnionBlock,
    "order": OrderBlock,
    "screen": ScreenBlock,
}
"""What makes a block of each kind, unprogrammed, given its number."""


def register_block(name: str, block: type) -> None:
    """Let queries use a block of your own: ``FROM name(stream, argument => value)``.

    Parameters
    ----------
    name
        What SQL calls it, without regard to case.
    block
        A class as :class:`penstock.blocks.contract.Block` says, made with its number; its
        ``parameters`` are the names of its arguments. Spark imports it by the name of its module.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"{name!r} is no name that SQL could call a block", "Give a word.")
    if name.lower() in KINDS and registered(name) is None:
        raise InputError(f"{name} is a kind of block that there is", "Choose another name.")
    where = f"{block.__module__}:{block.__qualname__}"
    register(name, where, getattr(block, "parameters", ()))
    KINDS[name.lower()] = block


def make_block(instruction: BlockInstruction) -> Block:
    """The block that an instruction is for, unprogrammed.

    One of the user's own is found by the name of its class where it has not been registered.
    """
    kind = instruction.kind_of_block
    if not isinstance(instruction, OwnRows):
        return KINDS[kind](instruction.block)
    if kind not in KINDS:
        KINDS[kind] = _imported(instruction)
    return GuardedBlock(instruction.name, KINDS[kind], instruction.block)


class UnknownOwnBlock(InputError):
    """A block of a user's own that is neither registered here nor can be imported."""

    def __init__(self, block: OwnRows, error: Exception) -> None:
        super().__init__(
            f"the block {block.name} is not registered here, and "
            f"{block.implementation} cannot be imported ({error})",
            "Define it in a module that every process can import, and register it: "
            "ps.register_block(name, Block).",
        )
        self.block = block


def _imported(instruction: OwnRows) -> Callable[[BlockId], Block]:
    module, _, name = instruction.implementation.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownOwnBlock(instruction, error) from error
    made: Callable[[BlockId], Block] = found
    return made
