"""Comparing flows: turns, digests, and the error if rows differ."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from bench import flow_runs
from bench.flow_latency import Stages, paced, quantiles
from bench.flow_runs import (
    Contestant,
    FlowOptions,
    Made,
    Work,
    band,
    compare,
    contestant,
    digest,
    full,
)
from bench.flow_shapes import CLOSE

X, Y = pa.array([1, 2, 3], pa.int32()), pa.array([0.5, 0.25, 2.0], pa.float32())


def test_a_digest_does_not_depend_on_the_order_of_rows_but_on_every_value() -> None:
    table = pa.table([X, Y], ["x", "y"])
    turned = table.take([2, 0, 1])
    crossed = pa.table([X, Y.take(pa.array([1, 0, 2]))], ["x", "y"])
    assert digest(table) == digest(turned)
    assert digest(table) != digest(crossed)
    assert digest(table) == digest(table.slice(0, 1)) + digest(table.slice(1))
    assert digest(table.slice(0, 0)) == Made()


def test_contestants_take_the_same_turns_and_are_measured_by_them() -> None:
    work = Work(CLOSE.format(window=64, near=500))
    flows = {
        "one": FlowOptions("three-step"),
        "two": FlowOptions("splitjoin", 2, "nested-loop", "outer"),
    }
    found = compare(work, 64, flows, turn=300, turns=2)
    assert list(found) == ["one", "two"]
    assert found["one"]["rows"] == found["two"]["rows"] > 0
    assert found["two"]["tuples_per_second"]["runs"] == 2
    # 600 arrivals, each of which sees a full window.
    assert found["two"]["rows_per_arrival"] == found["two"]["rows"] / 600
    compared = found["two"]["comparisons_per_second"]["median"]
    assert compared / found["two"]["tuples_per_second"]["median"] == pytest.approx(64)


def test_who_is_too_slow_is_measured_by_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_runs, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(flow_runs, "BATCH", 100)
    flows = {"one": FlowOptions("three-step"), "two": FlowOptions("three-step")}
    found = compare(band(64), 64, flows, turn=300, turns=3)
    assert found["one"]["tuples_per_second"]["runs"] == 3
    assert found["two"]["tuples_per_second"]["runs"] == 1


def test_other_rows_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([[Made(3, 7)], [Made(3, 8)]])
    monkeypatch.setattr(Contestant, "take", lambda *_: next(taken))
    flows = {"one": FlowOptions("three-step"), "two": FlowOptions("three-step")}
    with pytest.raises(AssertionError) as error:
        compare(band(64), 64, flows, turn=10, turns=1)
    said = "two gives Made(rows=3, digest=8), but one Made(rows=3, digest=7)"
    assert str(error.value).splitlines()[0] == said


def test_single_tuples_at_a_pace_are_timed_pair_by_pair() -> None:
    work = Work(CLOSE.format(window=64, near=3_000))
    rng = np.random.default_rng(1)
    with contestant(
        work, FlowOptions("splitjoin", 2, "nested-loop", "outer"), full(work, 64, rng)
    ) as one:
        stages = Stages()
        stages.watch(one)
        found = paced(one, work.make(rng, 50), per_second=10_000)
    assert found["visiting"]["count"] == found["rows"] > 0
    assert found["processing"]["count"] == found["push_to_rows"]["count"] == 50
    assert found["visiting"]["p99"] <= found["push_to_rows"]["p99"]
    # Two cores have seen every tuple.
    counts = {name: taken["count"] for name, taken in stages.summary().items()}
    assert counts == {"distribution": 100, "execution": 100, "gathering": 50, "end to end": 50}


def test_quantiles_of_nothing_are_none() -> None:
    assert quantiles([]) is None
    assert quantiles([1.0, 2.0, 6.0]) == {
        "p50": 2.0, "p99": pytest.approx(5.92), "mean": 3.0, "count": 3,
    }  # fmt: skip
