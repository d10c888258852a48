"""Chains of OP-Blocks with plain windows; the published rule once more, tuple by tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.blocks.join.partner_search import Rule
from penstock.flows.chain_as_published.instructions import Instruction, JoinInstruction
from penstock.flows.chain_as_published.op_block import OPBlock
from penstock.flows.handshake.chain import chain_network
from penstock.flows.handshake.core import Tuples
from penstock.flows.network.network import Network
from penstock.kernels.compiled import load_plain
from penstock.kernels.predicate.predicate import Predicate
from penstock.sql.expressions import TRUE
from penstock.testing.plain_window import PlainGroup, PlainTuple, plain_parts

Pair = tuple[int, int]
RULE = Rule(Predicate.of(TRUE, load_plain), "nested-loop", (None, None))
EVERY = 1 << 62


def blocks_of(
    count: int, capacities: tuple[int, int], block: Callable[..., OPBlock] = OPBlock
) -> list[OPBlock]:
    """Blocks that join every two tuples, programmed."""
    made = [block(number, count, lambda rule: plain_parts()) for number in range(1, count + 1)]
    for one in made:
        join = Instruction(one.number, JoinInstruction(RULE, capacities))
        assert list(one._instruct(join)) == []
    return made


def chain(
    count: int, capacities: tuple[int, int], block: Callable[..., OPBlock] = OPBlock
) -> Network:
    return chain_network(blocks_of(count, capacities, block))


def arrival(side: int, number: int) -> tuple[str, Tuples]:
    """A tuple that is compared with all that it meets, and where it comes in."""
    group: Any = PlainGroup(side, (PlainTuple(number, number, 0, EVERY, 0),))
    return ("left", "right")[side], Tuples(group)


def pushed(blocks: int, capacities: tuple[int, int], sides: Iterable[int]) -> list[list[int]]:
    """Where every tuple of each stream ends, by its number.

    The place of a tuple is the number of blocks to the left of it. What has left the chain is one
    place before the first block, or after the last one.
    """
    counts = [0, 0]
    for side in sides:
        counts[side] += 1
    r, s = (
        [min(blocks, (count - 1 - n) // size) if size else blocks for n in range(count)]
        for count, size in zip(counts, capacities, strict=True)
    )
    return [r, [blocks - 1 - place for place in s]]


def published_pairs(
    blocks: int,
    capacities: tuple[int, int],
    arrivals: Sequence[tuple[int, int, int]],
    matches: Callable[[int, int], bool],
) -> list[Pair]:
    """The pairs by the published rule, of arrivals (side, number, key), one after another."""
    windows: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(blocks)]
    found: list[Pair] = []
    for side, *new in arrivals:
        carried: list[Any] | None = new
        for window in windows if side == 0 else reversed(windows):
            if carried is None:
                break
            number, key = carried
            for other, there in window[1 - side]:
                left, right = ((number, key), (other, there))[:: 1 if side == 0 else -1]
                if matches(left[1], right[1]):
                    found.append((left[0], right[0]))
            window[side].append(carried)
            carried = window[side].pop(0) if len(window[side]) > capacities[side] else None
    return sorted(found)
