"""Every schedule of small flows with a change between any two tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Any

import pytest
from tests.flows.chains import orders
from tests.flows.changed import Changed, Program, equal, unequal
from tests.flows.inputs import Window
from tests.flows.one_way import (
    MakeNetwork,
    OrderedPairs,
    added,
    celljoin_cells,
    seen,
    splitjoin_tree,
)
from tests.flows.ways import ORDERS

from penstock.blocks.join.partner_search import Change
from penstock.flows.handshake.chain import chain_network, signals
from penstock.flows.handshake.core import Flush, HandshakeCore, Mark
from penstock.flows.low_latency_handshake import core as low_latency
from penstock.flows.low_latency_handshake.core import LowLatencyCore
from penstock.flows.network.network import Network, Port, Sent
from penstock.flows.splitjoin.gathering import Stars
from penstock.flows.splitjoin.splitjoin import StorageCore
from penstock.flows.sub_window import Group
from penstock.testing.explore import Exploration, Phase, Units, explore
from penstock.testing.plain_window import PlainChange, plain_parts
from penstock.testing.schedule import Step

WIDE = (Window(rows=3), Window(rows=3))
COUNT = (Window(rows=2), Window(rows=1))
TIME = (Window(span=3), Window(span=2))
CHANGES: dict[str, tuple[Program, Program]] = {
    "larger counts": (Program(COUNT), Program((Window(rows=3), Window(rows=3)))),
    "smaller counts": (Program(COUNT), Program((Window(rows=1), Window(rows=0)))),
    "longer times": (Program(TIME), Program((Window(span=5), Window(span=5)))),
    "shorter times": (Program(TIME), Program((Window(span=1), Window(span=2)))),
    "another constant": (Program(COUNT), Program(COUNT, unequal)),
    "other keys": (Program(COUNT), Program(COUNT, equal, 1)),
    "other keys of times": (Program(TIME), Program(TIME, equal, 1)),
    "no filter": (Program(COUNT, filters=True), Program(COUNT)),
    "a filter of times": (Program(TIME), Program(TIME, unequal, filters=True)),
    "all of it": (
        Program(COUNT, filters=True),
        Program((Window(rows=1), Window(rows=2)), unequal, 1),
    ),
}
CHANGE = pytest.mark.parametrize("change", CHANGES)
TWO, THREE = tuple(orders(2)), tuple(orders(3))
SIZES = {
    "2 cores, 2 tuples a stream": (2, TWO),
    **{f"3 cores, {order}": (3, (order,)) for order in TWO},
    **{f"2 cores, {order}": (2, (order,)) for order in THREE},
}
"""The number of cores, and the orders in which tuples arrive: all of two tuples a stream or one."""
SIZE = pytest.mark.parametrize("size", SIZES)


def cases(change: str, arrivals: Iterable[str]) -> Iterator[Changed]:
    """A change before, between and after any two tuples."""
    for order in arrivals:
        for at in range(len(order) + 1):
            yield Changed(order, at, *CHANGES[change])


# -- chains -----------------------------------------------------------------------------------

Entering = list[tuple[str, Any]]
"""Messages with the entry of each."""


def handshake_change(change: PlainChange) -> Entering:
    return [("left", Flush((), change.before, True, change)), ("right", Mark())]


def low_latency_change(change: PlainChange) -> Entering:
    return [(entry, low_latency.Program(change)) for entry in ("left", "right")]


def phases(case: Changed, told: Callable[[PlainChange], Entering], flush: bool) -> list[Phase]:
    """All that the driver process sends, and at a standstill a flush."""
    sent: Entering = []
    expired = {"left": 0, "right": 0}
    for place in range(len(case.order) + 1):
        if place == case.at:
            sent += told(case.plain_change())
        for entry, message in (
            signals(case.plain_chunk(place), 1) if place < len(case.order) else ()
        ):
            before = getattr(message, "before", None)
            if before is None or before > expired[entry]:
                expired[entry] = before or expired[entry]
                sent.append((entry, message))
    end = [("left", Flush((), case.seen(len(case.order)), True)), ("right", Mark())]
    return [sent, end] if flush else [sent]


def explore_chain(units: Units, case: Changed, flush: bool) -> Exploration:
    """Every schedule gives every pair, once."""
    expected = case.pairs()
    told = handshake_change if flush else low_latency_change

    def check(came: list[Any], steps: list[Step]) -> None:
        assert came == expected, "\n".join([str(case), *map(str, steps)])

    return explore(units, phases(case, told, flush), check)


def chain(core: Callable[..., Any], cores: int) -> Network:
    part = plain_parts(equal)
    return chain_network([core(number, cores, part) for number in range(cores)])


CHAINS = pytest.mark.parametrize("core", [HandshakeCore, LowLatencyCore])


@pytest.mark.product(4, by="core")
@CHAINS
@SIZE
@CHANGE
def test_no_schedule_of_a_chain_misses_or_repeats_a_pair_at_a_change(
    core: type, size: str, change: str
) -> None:
    cores, arrivals = SIZES[size]
    units, flush = Units(chain(core, cores)), core is HandshakeCore
    total = added(explore_chain(units, case, flush) for case in cases(change, arrivals))
    print(f"{core.__name__}, {size}, {change}: {total}")
    assert total.orders > 10**4


# -- one-way flows ----------------------------------------------------------------------------


def explore_one_way(units: Units, case: Changed, order: str) -> Exploration:
    """Every schedule gives every pair, once, in this order, and then that all have come."""
    expected = OrderedPairs(case, order)  # type: ignore[arg-type]

    def check(came: list[Any], steps: list[Step]) -> None:
        try:
            expected.check(came, "coordinator" in units.names)
        except AssertionError as error:
            raise AssertionError("\n".join([str(case), str(error), *map(str, steps)])) from error

    return explore(units, [[("in", message) for message in case.messages()]], check)


@pytest.mark.product(4, by="flow")
@pytest.mark.parametrize("flow", [splitjoin_tree, celljoin_cells])
@pytest.mark.parametrize(
    ("size", "order"),
    [
        (size, order)
        for size in SIZES
        for order in ORDERS
        if order == "inner" or SIZES[size][1][0] in TWO
    ],
)
@CHANGE
def test_no_schedule_of_a_one_way_flow_misses_repeats_or_disorders_a_pair_at_a_change(
    flow: MakeNetwork, size: str, order: str, change: str
) -> None:
    cores, arrivals = SIZES[size]
    units = Units(flow(cores, Stars(order, 1)), seen)
    total = added(explore_one_way(units, case, order) for case in cases(change, arrivals))
    print(f"{flow.__name__}, {size}, {order}, {change}: {total}")
    assert total.orders > 10**4


@pytest.mark.product(4, by="flow")
@pytest.mark.parametrize("flow", [splitjoin_tree, celljoin_cells])
@SIZE
@pytest.mark.parametrize("orders", [*permutations(ORDERS, 2)], ids="-".join)
def test_no_schedule_disorders_a_pair_when_another_order_is_asked_for(
    flow: MakeNetwork, size: str, orders: tuple[str, str]
) -> None:
    (before, after), (cores, arrivals) = orders, SIZES[size]
    programs = Program(WIDE, order=before), Program(WIDE, unequal, order=after)
    units = Units(flow(cores, Stars(before, 1)), seen)
    total = added(
        explore_orders(units, Changed(order, at, *programs)) for order in arrivals for at in (2, 3)
    )
    print(f"{flow.__name__}, {size}, {before}, then {after}: {total}")
    assert total.orders > 10**4


def explore_orders(units: Units, case: Changed) -> Exploration:
    """In every schedule, the pairs of either side of a change come in the order of that side."""
    every = OrderedPairs(case, "none")  # type: ignore[arg-type]
    asked = [OrderedPairs(case, one.order or "none") for one in (case.before, case.after)]  # type: ignore[arg-type]

    def check(came: list[Any], steps: list[Step]) -> None:
        every.check(came, "coordinator" in units.names)
        found = [one for one in came if isinstance(one, tuple)]
        sides = [[pair for pair in found if case.is_new(pair) == new] for new in (False, True)]
        assert sides[0] + sides[1] == found
        for expected, pairs in zip(asked, sides, strict=True):
            expected.check_order(pairs)

    return explore(units, [[("in", message) for message in case.messages()]], check)


# -- what it finds if something is broken -------------------------------------------------------


class Hurried(LowLatencyCore):
    """Takes a change as soon as it has come by one side."""

    def _change(self, port: Port, program: low_latency.Program) -> Iterable[Sent]:
        self._is_changed = not self._is_changed
        if not self._is_changed:
            return
        if not (self._is_last if port == "left" else self._is_first):
            yield "right" if port == "left" else "left", program
        for side, window in enumerate(self._windows):
            window.change(program.change)
            self._due[side] = max(self._due[side], program.change.live[side])

    _is_changed = False


class Trusting(HandshakeCore):
    """Takes S-tuples for changed that were sent before the sender had taken the change."""

    def _as_changed(self, group: Group) -> tuple[Group, int]:
        return group, len(group)


@pytest.mark.parametrize("change", ["smaller counts", "another constant", "other keys"])
@pytest.mark.parametrize("core", [Hurried, Trusting])
def test_a_core_that_takes_a_change_too_early_is_found_out(core: type, change: str) -> None:
    units, flush = Units(chain(core, 2)), core is Trusting
    with pytest.raises((AssertionError, IndexError)):
        for case in cases(change, TWO):
            explore_chain(units, case, flush)


def test_a_core_that_counts_anew_at_a_change_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then two cores of SplitJoin store a tuple, and none another one."""
    change = StorageCore.change

    def counting_anew(core: StorageCore, message: Change) -> None:
        change(core, message)
        if core._position == 1:
            core._store_counter = 0

    monkeypatch.setattr(StorageCore, "change", counting_anew)
    with pytest.raises(AssertionError):
        for case in cases("another constant", TWO):
            explore_one_way(Units(splitjoin_tree(2, Stars("none", 1)), seen), case, "none")
