"""SplitJoin and CellJoin on drivers that decide every step, and what may come out of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.flows.inputs import Pair, Script
from tests.flows.test_order import Row, is_ordered_inner, is_ordered_outer

from penstock.flows.celljoin import celljoin_network
from penstock.flows.network.network import Network
from penstock.flows.splitjoin.gathering import ALL_SECTIONS, Results, Stars
from penstock.flows.splitjoin.splitjoin import splitjoin_network
from penstock.testing.explore import Exploration, Phase, Units, explore
from penstock.testing.schedule import Step

MakeNetwork = Callable[[int, Stars], Network]


def splitjoin_tree(cores: int, stars: Stars) -> Network:
    """Two outputs a node: with three cores, trees of two levels."""
    return splitjoin_network(cores, 2, stars)


def celljoin_cells(cores: int, stars: Stars) -> Network:
    """The windows are divided anew after every two arrivals, or fewer."""
    return celljoin_network(cores, 2, stars)


@dataclass(frozen=True)
class Done:
    """All pairs of arrivals before this rank have come."""

    rank: int


def seen(results: Results) -> list[Hashable]:
    """Pairs as they come, and whether they are all."""
    pairs = zip(results.pairs.left.tolist(), results.pairs.right.tolist(), strict=True)
    return [*pairs, *([Done(results.rank)] if results.until == ALL_SECTIONS else [])]


class OrderedPairs:
    """The pairs of a script in the order of a flow, each before the message that all have come.

    ``mixed`` is how many arrivals may be mixed in outer order, or candidates in inner order.
    """

    def __init__(self, script: Script, order: str, mixed: int = 1) -> None:
        self._order = order
        self._mixed = mixed
        self._pairs = script.pairs()
        self._ranks: dict[Pair, int] = {(side, t.seq): t.rank for side, t in script.tuples()}
        starts = [0, *script.cuts, len(script.arrivals)]
        self._ends = sorted({stop for start, stop in pairwise(starts) if stop > start})

    def check(self, came: Sequence[Any], pieces: bool = False) -> None:
        """Raise if pairs or order are wrong. ``pieces``: chunks may end in several pieces."""
        pairs = [event for event in came if not isinstance(event, Done)]
        assert sorted(pairs) == self._pairs
        ends = [event.rank for event in came if isinstance(event, Done)]
        assert ends == sorted(set(ends))
        assert set(ends) >= set(self._ends) if pieces else ends == self._ends
        self._check_complete(came)
        self.check_order(pairs)

    def check_order(self, pairs: Sequence[Pair]) -> None:
        """Raise if these have come in another order than the one asked for."""
        rows = [self._row(pair) for pair in pairs]
        if self._order == "outer":
            assert is_ordered_outer(rows, self._mixed), rows
        if self._order == "inner":
            assert is_ordered_inner(rows, self._mixed), rows

    def _check_complete(self, came: Sequence[Any]) -> None:
        missing = set(self._pairs)
        for event in came:
            if isinstance(event, Done):
                late = [pair for pair in missing if self._row(pair).arrival < event.rank]
                assert not late, f"{late} had not come when all before {event.rank} were complete"
            else:
                missing.remove(event)

    def _row(self, pair: Pair) -> Row:
        left, right = self._ranks[0, pair[0]], self._ranks[1, pair[1]]
        return Row(max(left, right), pair[0] if left < right else pair[1])


def messages(script: Script) -> Phase:
    """The program, and the chunks."""
    return [("in", script.program()), *(("in", chunk) for chunk in script.chunks())]


def explore_one_way(
    units: Units, script: Script, expected: OrderedPairs, leave_out: bool = True
) -> Exploration:
    """Every schedule gives the expected pairs in the expected order."""
    pieces = "coordinator" in units.names

    def check(came: list[Any], steps: list[Step]) -> None:
        try:
            expected.check(came, pieces)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *map(str, steps)])) from error

    return explore(units, [messages(script)], check, leave_out=leave_out)


def added(parts: Iterable[Exploration]) -> Exploration:
    """All together."""
    total = Exploration()
    for part in parts:
        total.states += part.states
        total.steps += part.steps
        total.ends += part.ends
        total.orders += part.orders
    return total
