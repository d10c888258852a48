"""Every schedule of small SplitJoins and CellJoins: the pairs, their order, and their ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tests.flows.chains import orders, small_script
from tests.flows.inputs import Window
from tests.flows.one_way import (
    MakeNetwork,
    OrderedPairs,
    added,
    celljoin_cells,
    explore_one_way,
    seen,
    splitjoin_tree,
)
from tests.flows.ways import ORDERS

from penstock import tuning
from penstock.flows.network.network import Network, Port, Sent
from penstock.flows.splitjoin.gathering import Merger, Results, Stars
from penstock.testing.explore import Units

WINDOWS = {
    "count": (Window(rows=2), Window(rows=1)),
    "time": (Window(span=2), Window(span=3)),
}
WIDE = (Window(rows=3), Window(span=4))
FLOWS = pytest.mark.parametrize("flow", [splitjoin_tree, celljoin_cells])
SIZES = pytest.mark.parametrize(("cores", "each"), [(2, 3), (3, 2)])
MIXED = {("none", 1): 1, ("outer", 1): 1, ("inner", 1): 1, ("outer", 2): 2, ("inner", 2): 4}
"""By order and precision: how many arrivals, or candidates of two cores, may be mixed."""
ORDER = pytest.mark.parametrize("order", ORDERS)


@FLOWS
@SIZES
@ORDER
@pytest.mark.parametrize("windows", WINDOWS)
def test_tuple_by_tuple_every_schedule_keeps_the_order(
    flow: MakeNetwork, cores: int, each: int, order: str, windows: str
) -> None:
    units = Units(flow(cores, Stars(order, 1)), seen)
    scripts = [small_script(o, WINDOWS[windows]) for o in orders(each)]
    total = added(explore_one_way(units, script, OrderedPairs(script, order)) for script in scripts)
    print(f"{flow.__name__}, {cores} cores, {each} tuples a stream, {order}: {total}")
    assert total.orders > 10**7


@FLOWS
@ORDER
@pytest.mark.parametrize("most_pairs", [1, 100])
def test_with_many_messages_a_chunk_every_schedule_keeps_the_order(
    flow: MakeNetwork, order: str, most_pairs: int
) -> None:
    """Steps of two ranks; of fewer, and not the same in every core, where pairs are many."""
    scripts = [replace(small_script(o, WIDE), cuts=(1, 5)) for o in ("RSRSSR", "SSRRRS")]
    with tuning.given(ranks_per_chunk=2, pairs_per_message=most_pairs):
        total = added(
            explore_one_way(Units(flow(2, Stars(order, precision)), seen), script, expected)
            for script in scripts
            for precision in ((1,) if order == "none" else (1, 2))
            for expected in [OrderedPairs(script, order, MIXED[order, precision])]
        )
    print(f"{flow.__name__}, 2 cores, chunks of four, {order}: {total}")
    assert total.orders > 10**3


@pytest.mark.parametrize("order", ["none", "inner"])
@FLOWS
def test_orders_that_are_left_out_make_no_difference(flow: MakeNetwork, order: str) -> None:
    script = small_script("RSR", (Window(rows=2), Window(rows=2)))
    stars, expected = Stars(order, 1), OrderedPairs(script, order)
    units = Units(flow(2, stars), seen)
    some = explore_one_way(units, script, expected)
    all_of_them = explore_one_way(units, script, expected, leave_out=False)
    assert some.ends == all_of_them.ends
    assert some.orders < all_of_them.orders
    assert some.states < all_of_them.states


# -- what it finds if something is broken -----------------------------------------------------


def with_last(network: Network, last: Merger) -> Network:
    """The network with another combiner or collector."""
    network.units = [last if unit.name == last.name else unit for unit in network.units]
    return network


class Impatient(Merger):
    """Passes results on as if no order were asked for."""

    def _begin(self, order: str) -> None:
        super()._begin("none")


@pytest.mark.parametrize(
    ("flow", "last"), [(splitjoin_tree, "combiner"), (celljoin_cells, "collector")]
)
@pytest.mark.parametrize("order", ["outer", "inner"])
@tuning.given(ranks_per_chunk=1)
def test_if_the_last_merger_waits_for_nobody_a_schedule_breaks_the_order(
    flow: MakeNetwork, last: str, order: str
) -> None:
    script = replace(small_script("RSRS", WIDE), cuts=())
    inputs = 2 if flow is splitjoin_tree else 4
    network = with_last(flow(2, Stars(order, 1)), Impatient(last, inputs))
    units = Units(network, seen)
    explore_one_way(units, script, OrderedPairs(script, "none"))
    with pytest.raises(AssertionError, match="Row"):
        explore_one_way(units, script, OrderedPairs(script, order))


class Greedy:
    """A merger that takes from an input what belongs to the next chunk."""

    def __init__(self, merger: Merger) -> None:
        self.name = merger.name
        self.inputs = merger.inputs
        self.merger = merger

    def needs(self, port: Port) -> Sequence[Port]:
        return ("out",)

    def step(self, port: Port, message: Results) -> Iterable[Sent]:
        return self.merger.step(port, message)

    def forward(self, has_room: object) -> Iterable[Sent]:
        return ()

    def measures(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize("order", ORDERS)
def test_if_a_merger_takes_from_the_next_chunk_a_schedule_loses_the_end_of_one(order: str) -> None:
    script = small_script("RSRS", WIDE)
    network = splitjoin_tree(2, Stars(order, 1))
    network.units = [Greedy(u) if isinstance(u, Merger) else u for u in network.units]
    with pytest.raises(AssertionError):
        explore_one_way(Units(network, seen), script, OrderedPairs(script, order))
