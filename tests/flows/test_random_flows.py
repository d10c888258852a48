"""Random scripts: every flow gives the oracle's rows, in every order that it offers.

The scripts have ties, NULL, NaN, times out of order, windows of nothing and of one tuple, streams
that end early, changes and drops; here also empty batches, and streams that are silent for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.ways import WAYS, Way
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock.engines.local.engine import Engine
from penstock.flows import make
from penstock.flows.network.inline import Inline
from penstock.program.isa.instructions import Install
from penstock.streams.events import Tuples
from penstock.testing.replay import QueryOptions, streams_joined

SPECIAL = re.compile(r"\b(LEFT|RIGHT|FULL|SEMI|ANTI) JOIN\b")
SILENT = st.sampled_from(("", "", "", "R", "S"))
SOME = examples(24)
NETWORKS = ("splitjoin", "celljoin", "handshake", "low-latency-handshake")
"""The flows whose cores are units of a network."""


@pytest.fixture(scope="module", autouse=True)
def kernels_in_plain_python() -> Iterator[None]:
    with low_thresholds():
        yield


class Sharing:
    """An engine all of whose joins have one flow and order; before every batch an empty one."""

    def __init__(self, way: Way, order: str, batch_rows: int) -> None:
        self._engine = Engine(batch_rows=batch_rows, compile_predicates=False)
        self._asked = QueryOptions(order, None, way.choice())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def feed(self, events: list[Any]) -> None:
        given: list[Any] = []
        for event in events:
            if isinstance(event, Tuples):
                given.append(Tuples(event.stream, event.batch.slice(0, 0)))
            given.append(self._sharing(event) if isinstance(event, Install) else event)
        self._engine.feed(given)

    def _sharing(self, install: Install) -> Install:
        asked = self._asked if streams_joined(install.text) == 2 else self._asked.without_join()
        return replace(install, order=asked.order, flow=asked.flow)


def settled(engine: Sharing) -> Sharing:
    """Rows that come late have come."""
    engine.wait()
    return engine


def on_cores(
    steps: list[Step], sizes: list[int], way: Way, order: str, batch_rows: int
) -> tuple[dict[str, Any], ...]:
    engine = Sharing(way, order, batch_rows)
    try:
        return run_on(engine, steps, sizes, settle=settled)
    finally:
        engine.close()


def any_order(found: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    rows, *letters = found
    return {name: sorted(came, key=repr) for name, came in rows.items()}, *letters


def for_way(steps: list[Step], way: Way, silent: str) -> list[Step]:
    """The script without the tuples of a silent stream, and with joins that the flow has."""
    spoken = [s for s in steps if s.subject != silent or s.verb not in ("tuple", "punctuate")]
    if way.every_kind:
        return spoken
    return [
        replace(s, value=SPECIAL.sub("JOIN", s.value)) if s.verb in ("install", "change") else s
        for s in spoken
    ]


@pytest.mark.parametrize("way", WAYS, ids=str)
@SOME
@given(
    steps=scripts(multiway=False), sizes=SIZES, batch_rows=BATCHES, silent=SILENT, data=st.data()
)
def test_rows_are_the_oracles(
    way: Way, steps: list[Step], sizes: list[int], batch_rows: int, silent: str, data: Any
) -> None:
    order = data.draw(st.sampled_from(way.orders))
    steps = for_way(steps, way, silent)
    compare(steps, order, on_cores(steps, sizes, way, order, batch_rows))


def compare(steps: list[Step], order: str, found: tuple[dict[str, Any], ...]) -> None:
    """The output is the oracle's, in that order."""
    meant = on_oracle(steps)
    if order != "none":
        for name, rows in found[0].items():
            positions = [position for position, _ in rows]
            assert positions == sorted(positions), f"order of {name}"
    if order != "inner":
        meant, found = any_order(meant), any_order(found)
    check(steps, meant, found)


@pytest.mark.parametrize("way", [way for way in WAYS if way.flow in NETWORKS], ids=str)
@SOME
@given(steps=scripts(multiway=False), sizes=SIZES, batch_rows=BATCHES, data=st.data())
def test_rows_are_the_oracles_if_the_callers_thread_does_all_the_work(
    way: Way, steps: list[Step], sizes: list[int], batch_rows: int, data: Any
) -> None:
    order = data.draw(st.sampled_from(way.orders))
    steps = for_way(steps, way, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "Threads", Inline)
        compare(steps, order, on_cores(steps, sizes, way, order, batch_rows))
