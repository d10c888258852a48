"""Random scripts with joins of three to ten streams: every design gives the oracle's rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.flows.designs import DRIVERS, always_partial, on_threads, searching, using
from tests.random_multiway import multiway_queries, wide_shapes
from tests.random_scripts import ALIKE, Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, compare, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.flows import make
from penstock.flows.circular.circular import circular_units
from penstock.flows.linear import linear_units
from penstock.flows.multi_flow import MakeUnits
from penstock.flows.network.threads import Threads
from penstock.flows.parallel import parallel_units
from penstock.flows.stashed.stashed import published_stash, stashed_units
from penstock.program.choose.stash import StashPlan
from penstock.program.isa import flow as flow_table
from penstock.program.isa.flow import Flow
from penstock.streams.events import Tuples

INEXACT = {name for name, design in flow_table.DESIGNS.items() if not design.exact}
NO_STASH = StashPlan(0, 1, 2, None, "disabled")


def for_three(units: MakeUnits) -> MakeUnits:
    """A design for three streams; joins of more have another."""
    others = circular_units()
    return lambda program: (units if len(program.sides) == 3 else others)(program)


DESIGNS: dict[str, Callable[[], MakeUnits]] = {
    "circular": circular_units,
    "circular, OBuf of one": lambda: circular_units(obuf_size=1),
    "linear": linear_units,
    **{f"parallel, {k} cores": functools.partial(parallel_units, k) for k in (1, 2, 3, 5)},
    "parallel, rings": lambda: parallel_units(2, search=circular_units(obuf_size=1)),
    "parallel, stashes": lambda: parallel_units(3, search=for_three(stashed_units())),
    "parallel, stashes for two pairs": lambda: parallel_units(
        2, search=for_three(stashed_units(size=2))
    ),
    "parallel, always partial": lambda: parallel_units(
        2, search=for_three(stashed_units(None, 2, always_partial))
    ),
    "parallel, stashes as published": lambda: parallel_units(
        2, search=for_three(stashed_units(None, 2, published_stash))
    ),
    "stashed": lambda: for_three(stashed_units()),
    "stashed, room for one pair": lambda: for_three(stashed_units(size=1)),
    "stashed, room for two pairs": lambda: for_three(stashed_units(size=2)),
    "stashed, room for seven pairs": lambda: for_three(stashed_units(size=7)),
    "stashed, always partial": lambda: for_three(stashed_units(None, 2, always_partial)),
    "stashed as published": lambda: for_three(stashed_units(make_stash=published_stash)),
    "stashed as published, two": lambda: for_three(stashed_units(None, 2, published_stash)),
    "stashed as published, seven": lambda: for_three(stashed_units(None, 7, published_stash)),
    "stash disabled": lambda: for_three(stashed_units(NO_STASH)),
}


DRIVER = pytest.mark.parametrize("driver", DRIVERS)
DESIGN = pytest.mark.parametrize("design", DESIGNS)
SCRIPTS = st.booleans().flatmap(lambda derived: scripts(derived=derived, multiway=True))
SEEDS = st.integers(0, 1 << 20)


@pytest.fixture(params=[1, 2, 1000])
def few_arrivals_in_a_set(request: pytest.FixtureRequest) -> Iterator[None]:
    few = {"ranks_per_set": request.param, "ranks_per_chunk": request.param}
    with low_thresholds(pairs_per_message=2, **few):
        yield


@DRIVER
@DESIGN
@pytest.mark.product(1, by="design")
@pytest.mark.usefixtures("few_arrivals_in_a_set")
@examples(12)
@given(SCRIPTS, SIZES, BATCHES, SEEDS)
def test_rows_are_the_oracles(
    design: str, driver: str, steps: list[Step], sizes: list[int], batch_rows: int, seed: int
) -> None:
    with using(DESIGNS[design](), DRIVERS[driver](seed)):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@DESIGN
@pytest.mark.product(1, by="design")
@pytest.mark.usefixtures("few_arrivals_in_a_set")
@examples(9)
@given(scripts(multiway=True), SIZES)
def test_rows_are_the_oracles_after_a_save_and_a_restore(
    design: str, steps: list[Step], sizes: list[int]
) -> None:
    """After every batch; what is restored goes on with the design, and its threads.

    The rows of a dropped query are not saved.
    """
    steps = [step for step in steps if step.verb != "drop"]

    def again(engine: Engine) -> Engine:
        return saved_and_restored(engine, compile_predicates=False)

    with using(DESIGNS[design](), on_threads):
        found = run_on(Engine(compile_predicates=False), steps, sizes, settle=again)
    check(steps, on_oracle(steps), found)


WIDE_ROW = st.builds(
    lambda values, later: (later, *values), st.sampled_from(ALIKE), st.sampled_from((0, 1, 1, 2))
)


@st.composite
def wide_scripts(draw: Any, kinds: bool = False) -> list[Step]:
    """A join of six to ten streams, tuples by turns, and another predicate amid them."""
    shape, text = draw(multiway_queries(draw(wide_shapes(kinds))))
    steps = [Step("install", "found", text)]
    for number, (later, *values) in enumerate(draw(st.lists(WIDE_ROW, min_size=20, max_size=20))):
        if number == 14:
            steps.append(Step("change", "found", draw(multiway_queries(shape))[1]))
        early = draw(st.sampled_from((0, 0, 0, 1, 3)))
        steps.append(Step("tuple", "RSQ"[number % 3], (number + later - early, *values)))
    return [*steps, Step("end")]


@pytest.mark.parametrize(
    "design", sorted({"mjoin", *make.DESIGNS} - {"stashed", "parallel-stashed"} - INEXACT)
)
@pytest.mark.product(1, by="design")
@pytest.mark.usefixtures("few_arrivals_in_a_set")
@examples(6)
@given(wide_scripts(), SIZES)
def test_rows_of_six_to_ten_streams_are_the_oracles(
    design: str, steps: list[Step], sizes: list[int]
) -> None:
    flow = Flow("three-step", 2, 2, "inner", 1, "wait", design=design)
    with searching(lambda: make.DESIGNS[design](flow)) if design != "mjoin" else nullcontext():
        compare(steps, sizes, compile_predicates=False)


@examples(10)
@given(wide_scripts(kinds=True), SIZES)
def test_rows_of_wide_trees_are_the_oracles(steps: list[Step], sizes: list[int]) -> None:
    compare(steps, sizes, compile_predicates=False)


SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "w": pa.string()})
LARGE = """SELECT a.t AS a, b.t AS b, c.t AS c, d.t AS d FROM A [ROWS 400] AS a
    JOIN B [RANGE 500 WATTR t SLACK 20] AS b ON a.k = b.k
    JOIN C [ROWS 300] AS c ON b.w = c.w AND c.k < b.k + 9
    JOIN D [RANGE 300 WATTR t SLACK 20] AS d ON d.k BETWEEN a.k - 1 AND a.k AND c.k = d.k"""


def large_batches(stream: str) -> Iterator[pa.RecordBatch]:
    chance = np.random.default_rng(ord(stream))
    for start in range(0, 3000, 500):
        times = np.arange(start, start + 500) - chance.integers(0, 20, 500)
        keys = chance.integers(0, 60, 500)
        words = [f"w{number}" for number in chance.integers(0, 5, 500)]
        yield pa.RecordBatch.from_pydict({"t": times, "k": keys, "w": words}, schema=SCHEMA)


def on_large_batches() -> tuple[list[pa.RecordBatch], dict[str, Any]]:
    with Engine(batch_rows=4000, buffer_rows=1 << 24) as engine:
        for stream in "ABCD":
            engine.stream(stream, SCHEMA)
        query = engine.install(LARGE)
        for together in zip(*map(large_batches, "ABCD"), strict=True):
            engine.feed([Tuples(s, batch) for s, batch in zip("ABCD", together, strict=True)])
        return query.rows().to_pylist(), query.metrics()


@functools.cache
def mjoin_on_large_batches() -> tuple[list[pa.RecordBatch], dict[str, Any]]:
    return on_large_batches()


@pytest.mark.parametrize("design", ["circular", "linear"])
def test_large_batches_give_the_rows_of_mjoin_in_order(design: str) -> None:
    """With compiled predicates, and on threads of which each has a window of its own, or none."""
    expected, _ = mjoin_on_large_batches()
    assert len(expected) > 1000
    with tuning.given(ranks_per_set=150), using(DESIGNS[design](), Threads):
        found, metrics = on_large_batches()
    assert found == expected
    assert metrics["comparisons"] == sum(core["comparisons"] for core in metrics["cores"])
    stored = np.sum([core["stored"] for core in metrics["cores"]], axis=0)
    assert stored.tolist() == list(metrics["tuples_in"].values()) == [3000] * 4
    assert all(core["busy"] > 0 for core in metrics["cores"])


@pytest.mark.parametrize(
    "design", sorted(make.DESIGNS.keys() - {"stashed", "parallel-stashed"})
)  # for three streams only
def test_every_design_of_the_table_gives_the_rows_of_mjoin_but_for_the_inexact_ones(
    design: str,
) -> None:
    flow = Flow("three-step", 2, 2, "inner", 1, "wait")
    expected, _ = mjoin_on_large_batches()
    with searching(lambda: make.DESIGNS[design](flow)):
        found, metrics = on_large_batches()
    if not flow_table.DESIGNS[design].exact:
        rows = {tuple(row.values()) for row in expected}
        assert 0 < len(found) < len(expected)
        assert {tuple(row.values()) for row in found} < rows
    else:
        assert found == expected
    assert len(metrics["cores"]) == 1 if design == "cascade" else len(metrics["cores"]) > 1
