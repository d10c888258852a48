"""The plain window finds the pairs that the compiled one finds."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.inputs import Script, scripts

from penstock.blocks.join.partner_search import FoundPairs
from penstock.flows.sub_window import SubWindow
from penstock.testing.plain_window import PlainGroup, PlainWindow


def found(pairs: Iterable[FoundPairs]) -> list[tuple[int, int, int]]:
    return sorted(
        (int(r), int(s), int(rank))
        for some in pairs
        for r, s, rank in zip(some.left, some.right, some.ranks, strict=True)
    )


@examples(200)
@given(scripts(), st.sampled_from([0, 1]), st.integers(0, 8), st.integers(0, 8))
def test_it_finds_the_same_older_and_younger_ones(
    script: Script, side: int, dropped: int, met_before: int
) -> None:
    tuples = script.tuples()
    stored = PlainGroup(side, tuple(t for s, t in tuples if s == side))
    probes = PlainGroup(1 - side, tuple(t for s, t in tuples if s != side))
    plain, real = PlainWindow(side, script.matches), SubWindow(side, script.rule())
    plain.append(stored)
    real.append(script.columns(stored))
    dropped = min(dropped, len(stored))
    plain.drop(dropped)
    real.drop(dropped)
    columns = script.columns(probes)
    assert found(plain.older(probes)) == found(real.older(columns))
    younger = found(real.younger(columns, met_before))
    assert found(plain.younger(probes, met_before)) == younger
    assert plain.count_before(met_before) == real.count_before(met_before)
    assert len(plain) == len(real)
