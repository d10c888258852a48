"""Multiway designs on every driver, in an engine whose joins of three streams use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from penstock.blocks.multiway.block import MultiwayBlock
from penstock.blocks.multiway.combination_search import CombinationSearch, SearchProgram
from penstock.flows import make
from penstock.flows.multi_flow import MakeUnits, MultiFlow
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import Threads
from penstock.flows.stashed.recomputing_stash import RecomputingStash
from penstock.flows.stashed.stash import Interval, Live
from penstock.flows.stashed.stashed import recomputing_stash
from penstock.flows.stashed.storage import Roles
from penstock.testing.schedule import Schedule

MakeDriver = Callable[[Network], Driver]


class Standstill(AssertionError):
    """Nothing moves, and something is still under way."""


class Watched(Schedule):
    """A schedule that is waited for only if it can go on."""

    def wait(self) -> None:
        before = len(self.steps)
        super().wait()
        if len(self.steps) == before:
            waiting = {name: depth for name, depth in self.depths().items() if depth}
            raise Standstill(f"messages wait before {waiting} after {before} steps")


class Resting(Watched):
    """A schedule in which a step rests after every message, until nothing else can move.

    So what a unit does after its last message comes as late as on any thread.
    """

    def __init__(self, network: Network, seed: int, capacity: int) -> None:
        super().__init__(network, seed, capacity, resting=1)
        self._is_rest_over = False

    def advance(self) -> bool:
        self._is_rest_over = False
        if super().advance():
            return True
        self._is_rest_over = True
        return super().advance()

    def _enabled(self) -> list[Any]:
        return [one for one in super()._enabled() if self._is_rest_over or not one[0].resting]


def by_seed(seed: int, capacity: int = 1, kind: type[Schedule] = Watched) -> MakeDriver:
    """One step after the other; every network that is made has another order."""
    seeds = itertools.count(seed)
    return lambda network: kind(network, next(seeds), capacity)


def on_threads(network: Network) -> Driver:
    """A thread for each unit, and FIFOs of one slot."""
    return Threads(network, capacity=1)


DRIVERS: dict[str, Callable[[int], MakeDriver]] = {
    "inline": lambda seed: Inline,
    "threads": lambda seed: on_threads,
    "threads with room": lambda seed: Threads,
    "one step by a seed": by_seed,
    "one step by a seed with room": lambda seed: by_seed(seed, 4),
    "steps that rest": lambda seed: by_seed(seed, 4, Resting),
}
"""What makes a driver, given a seed."""


class AlwaysPartial(RecomputingStash):
    """A stash that recomputes intervals, even if the whole window would be compared sooner."""

    def missing(self, live: Live) -> list[Interval]:
        return [one for one in (stash.interval(live) for stash in self.stashes) if len(one)]


def always_partial(program: SearchProgram, roles: Roles, size: int) -> AlwaysPartial:
    """Makes such a stash: with small windows an interval seldom pays."""
    made = recomputing_stash(program, roles, size)
    assert isinstance(made, RecomputingStash)
    first, second = (stash.direction for stash in made.stashes)
    return AlwaysPartial(size, program.sides[roles.first].clock, (first, second))


@contextmanager
def searching(make_search: Callable[[], CombinationSearch]) -> Iterator[None]:
    """Joins of three and more streams have this design meanwhile; its threads end with it."""
    made: list[CombinationSearch] = []

    def search(flow: object) -> CombinationSearch:
        made.append(make_search())
        return made[-1]

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(make.KINDS, "multiway", lambda number: MultiwayBlock(number, search))
            yield
    finally:
        for one in made:
            one.close()


def using(units: MakeUnits, driver: MakeDriver) -> AbstractContextManager[None]:
    """The same for a design that is a network, on a driver."""
    return searching(lambda: MultiFlow(units, driver))
