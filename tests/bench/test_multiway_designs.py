"""A short run of the benchmark of designs; and its error."""

from __future__ import annotations

import pytest
from bench import multiway_designs
from bench.multiway_designs import DesignLoad

from penstock.flows.linear import linear
from penstock.flows.network.threads import Threads


@pytest.mark.long
def test_all_of_it_runs() -> None:
    found = multiway_designs.run(quick=True)["designs"]
    assert len(found) == 10
    for entry in found:
        assert set(entry["designs"]) == {
            "mjoin",
            "circular",
            "stash disabled",
            "stashed",
            "stashed as published",
        }
        states = {name: d["stash"] and d["stash"]["state"] for name, d in entry["designs"].items()}
        assert states["mjoin"] is states["circular"] is None
        assert states["stash disabled"] == "disabled"
        assert states["stashed"] in ("valid", "invalid")


def test_a_stash_spares_the_arrivals_of_the_third_stream_most_comparisons() -> None:
    load = DesignLoad(1e-4, 0.8, window=256, batch=2048)
    found = multiway_designs.beside_each_other(load, 1)["designs"]
    compared = {name: figures["comparisons_per_arrival"] for name, figures in found.items()}
    assert compared["stashed"] < 0.5 * compared["stash disabled"]
    assert found["stashed"]["stash"]["misses"] == 0


def test_a_design_with_other_rows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def __init__(self) -> None:
            self._search = linear(Threads)

        def __getattr__(self, name: str) -> object:
            return getattr(self._search, name)

        def take(self, arrived: object) -> list[object]:
            list(self._search.take(arrived))  # type: ignore[arg-type]
            return []

    monkeypatch.setattr(multiway_designs, "circular", lambda driver: Nothing())
    with pytest.raises(AssertionError, match=r"the designs have {'mjoin': [1-9]"):
        multiway_designs.beside_each_other(DesignLoad(1e-2, window=64, batch=512), 1)
