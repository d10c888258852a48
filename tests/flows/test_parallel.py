"""Parallel-MJ: what each core stores and makes, other numbers of cores, as it was published."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.flows.designs import DRIVERS, always_partial, on_threads, using
from tests.flows.test_circular import (
    ALL_LINKED,
    BUSY,
    CHAIN_OF_THREE,
    STREAMS,
    WINDOWS,
    Row,
    meant,
    query,
    run,
    tuples,
)
from tests.flows.test_random_designs import (
    for_three,
    mjoin_on_large_batches,
    on_large_batches,
)
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import SIZES, check, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.blocks.multiway.combination_search import SearchProgram
from penstock.blocks.multiway.stretch_search import StretchSearch
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.flows.circular.circular import circular_units
from penstock.flows.multi_flow import MakeUnits, Units
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import Threads
from penstock.flows.parallel import (
    divided_stream,
    early,
    mjoin_units,
    parallel_units,
    published_parallel_units,
)
from penstock.flows.stashed.stashed import (
    MakeStash,
    published_stash,
    stashed_units,
)
from penstock.program.choose.stash import StashPlan


@pytest.fixture
def single_tuples() -> Iterator[None]:
    with low_thresholds(ranks_per_chunk=1, pairs_per_step=2):
        yield


@pytest.mark.product(2, by="windows")
@pytest.mark.usefixtures("single_tuples")
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_rows_are_the_oracles(windows: str, driver: str) -> None:
    text, events = query(WINDOWS[windows]), tuples(BUSY)
    for seed, cores in itertools.product(range(3), (1, 2, 3, 5)):
        with using(parallel_units(cores), DRIVERS[driver](seed)):
            assert run(text, events) == meant(text, events)


# -- as it was published ----------------------------------------------------------------------


def older(row: Row, arrivals: str) -> list[int]:
    """The numbers of a row's members but its youngest; a row has the times of arrivals."""
    numbers = [arrivals[:time].count(arrivals[time]) for time in row]
    return [number for number, time in zip(numbers, row, strict=True) if time != max(row)]


def test_as_published_a_combination_of_tuples_in_different_cores_is_lost() -> None:
    """The tuples of A are stored in cores 0 and 1, that of B in core 0."""
    text, events = query(("ROWS 2",) * 3), tuples("AABC")
    assert meant(text, events) == [(0, 2, 3), (1, 2, 3)]
    with using(published_parallel_units(2), Inline):
        assert run(text, events) == [(0, 2, 3)]
    with using(parallel_units(2), Inline):
        assert run(text, events) == [(0, 2, 3), (1, 2, 3)]


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
def test_as_published_only_combinations_of_tuples_in_one_core_are_found(cores: int) -> None:
    chance = random.Random(cores)
    arrivals = "".join(chance.choice("ABC") for _ in range(80))
    text, events = query(("ROWS 9",) * 3), tuples(arrivals)
    rows = meant(text, events)
    together = [row for row in rows if len({n % cores for n in older(row, arrivals)}) == 1]
    with using(published_parallel_units(cores), on_threads):
        assert run(text, events) == together
    assert len(rows) > 1000
    assert len(together) == pytest.approx(len(rows) / cores, rel=0.2)


# -- which stream is divided ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "on", "divided", "paths"),
    [
        # B is linked with both others, so both probe it first.
        (("ROWS 3", "ROWS 1", "ROWS 9"), CHAIN_OF_THREE, 1, [(1, 2), (0, 2), (1, 0)]),
        # All are linked with all: the largest window.
        (("ROWS 1", "ROWS 2", "ROWS 9"), ALL_LINKED, 2, [(2, 1), (2, 0), (0, 1)]),
        # C is linked with none, and comes last wherever A and B can be joined first.
        (("ROWS 2", "ROWS 3", "ROWS 9"), "ON a.k = b.k JOIN C [{2}] AS c ON TRUE", 1,
         [(1, 2), (0, 2), (1, 0)]),
    ],
)  # fmt: skip
def test_the_divided_stream_is_the_one_that_is_probed_earliest(
    windows: tuple[str, ...], on: str, divided: int, paths: list[tuple[int, ...]]
) -> None:
    found: list[Any] = []

    def make(program: SearchProgram) -> Units:
        which = divided_stream(program)
        orders = [early(program.terms, program.order(o), which) for o in range(3)]
        found.extend((which, [tuple(s.input for s in order.stages) for order in orders]))
        return parallel_units(2)(program)

    with using(make, Inline):
        run(query(windows, on), tuples("ABC"))
    assert found == [divided, paths]


@pytest.mark.parametrize("cores", [2, 3])
def test_a_core_has_its_share_of_one_stream_and_all_of_the_others(cores: int) -> None:
    expected, alone = mjoin_on_large_batches()
    with tuning.given(ranks_per_chunk=700), using(parallel_units(cores), Threads):
        found, metrics = on_large_batches()
    assert found == expected
    figures = metrics["cores"]
    stored = np.array([core["stored"] for core in figures])
    shared = [input for input in range(4) if (stored[:, input] == 3000).all()]
    (divided,) = {0, 1, 2, 3} - set(shared)
    assert stored[:, divided].tolist() == [3000 // cores] * cores
    probed = np.array([core["probed"] for core in figures])
    assert probed[:, divided].sum() == 3000
    assert sum(core["matched"] for core in figures) == len(expected)
    assert all(core["matched"] > 0 and core["busy"] > 0 for core in figures)
    window = np.array([core["window"] for core in figures])
    assert window[:, divided].sum() == alone["window_tuples"][divided]
    assert window[0, shared].tolist() == [alone["window_tuples"][input] for input in shared]


# -- another search in each core --------------------------------------------------------------


def figures_of(units: MakeUnits, windows: tuple[str, ...], arrivals: str) -> dict[str, Any]:
    """The metrics after arrivals one by one; the rows are the oracle's.

    A small letter is a tuple with another key.
    """
    text, events = query(windows, ALL_LINKED), []
    for letter, event in zip(arrivals, tuples(arrivals.upper()), strict=True):
        times = event.batch.column("t")
        columns = {"t": times, "k": [1 if letter.isupper() else 2]}
        batch = pa.RecordBatch.from_pydict(columns, schema=event.batch.schema)
        events.append(replace(event, batch=batch))
    with using(units, on_threads), Engine(compile_predicates=False) as engine:
        for stream in STREAMS:
            engine.stream(stream.name, stream.schema)
        found = engine.install(text)
        for event in events:
            engine.feed([event])
        rows = [tuple(row.values()) for row in found.rows().to_pylist()]
        assert rows == meant(text, events)
        return found.metrics()


def stashes(metrics: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    """These figures of the stash of each core."""
    found = [stash for core in metrics["cores"] for stash in core.get("stash", ())]
    return [tuple(stash[name] for name in names) for stash in found]


PAIR_AB = StashPlan(0, 1, 2, 64, "given")


def test_the_stash_of_a_core_has_the_pairs_of_its_own_tuples() -> None:
    """A is divided: of its five tuples three are core 0's, and each makes a pair with both of B."""
    metrics = figures_of(
        parallel_units(2, search=stashed_units(PAIR_AB)),
        ("ROWS 9", "ROWS 3", "ROWS 3"),
        "AABAABACCC",
    )
    assert stashes(metrics, "state", "fill", "hits", "partial", "misses") == [
        ("valid", 6, 3, 0, 0),
        ("valid", 4, 3, 0, 0),
    ]
    window = [core["window"] for core in metrics["cores"]]
    assert window == [[3, 2, 0], [0, 0, 3], [2, 2, 0], [0, 0, 3]]


def test_if_the_third_stream_is_divided_every_stash_has_all_pairs() -> None:
    """Each core compares its own tuples of C with them."""
    metrics = figures_of(
        parallel_units(2, search=stashed_units(PAIR_AB)),
        ("ROWS 3", "ROWS 3", "ROWS 9"),
        "AABABCCCCC",
    )
    assert stashes(metrics, "state", "fill", "hits", "partial", "misses") == [
        ("valid", 6, 3, 0, 0),
        ("valid", 6, 2, 0, 0),
    ]


@pytest.mark.parametrize(
    ("make_stash", "while_invalid"), [(always_partial, "partial"), (published_stash, "misses")]
)
def test_a_stash_in_a_core_sees_every_expiry_that_concerns_it(
    make_stash: MakeStash, while_invalid: str
) -> None:
    """With room for fewer pairs than are live it is invalid; they go when B's tuples have left."""
    units = parallel_units(2, search=stashed_units(replace(PAIR_AB, size=4), None, make_stash))
    windows = ("ROWS 9", "ROWS 3", "ROWS 3")
    names = ("state", "recoveries", "hits", while_invalid)
    full = figures_of(units, windows, "AAAAAABBBC")
    assert stashes(full, *names) == [("invalid", 0, 0, 1)] * 2
    recovered = figures_of(units, windows, "AAAAAABBBCbbbCC")
    assert [one[:1] + one[2:] for one in stashes(recovered, *names)] == [("valid", 2, 1)] * 2
    assert all(recoveries > 0 for (recoveries,) in stashes(recovered, "recoveries"))


def test_a_core_with_a_ring_has_a_stage_for_each_stream() -> None:
    """The stages of a core are numbered behind those of the one before it."""
    metrics = figures_of(
        parallel_units(2, search=circular_units()), ("ROWS 9", "ROWS 3", "ROWS 3"), "AABAABACCC"
    )
    figures = metrics["cores"]
    assert [core["core"] for core in figures] == list(range(6))
    assert all("stage_buffer" in core for core in figures)
    stored = [[0, 0, 0] for _ in range(6)]
    stored[0][0], stored[3][0] = 3, 2
    stored[1][1] = stored[4][1] = 2
    stored[2][2] = stored[5][2] = 3
    assert [core["stored"] for core in figures] == stored
    assert [core["window"] for core in figures] == stored
    assert metrics["comparisons"] == sum(core["comparisons"] for core in figures)


@examples(8)
@given(scripts(multiway=True), SIZES)
def test_a_stash_of_another_share_is_not_taken_over(steps: list[Step], sizes: list[int]) -> None:
    """At every live change, and after every restore, there is another number of cores."""
    steps = [step for step in steps if step.verb != "drop"]
    with (
        low_thresholds(ranks_per_chunk=2),
        using(other_numbers(for_three(stashed_units(size=3))), on_threads),
    ):
        found = run_on(Engine(compile_predicates=False), steps, sizes)
        check(steps, on_oracle(steps), found)


# -- other numbers of cores -------------------------------------------------------------------


def other_numbers(search: MakeUnits = mjoin_units) -> MakeUnits:
    """Whenever it is programmed, it has another number of cores."""
    cores = itertools.cycle((2, 5, 1, 3))
    return lambda program: parallel_units(next(cores), search=search)(program)


@examples(20)
@given(scripts(multiway=True), SIZES)
def test_rows_are_the_oracles_if_the_number_of_cores_changes(
    steps: list[Step], sizes: list[int]
) -> None:
    """At every live change, and after every batch by a save and a restore."""
    steps = [step for step in steps if step.verb != "drop"]

    def again(engine: Engine) -> Engine:
        return saved_and_restored(engine, compile_predicates=False)

    with low_thresholds(ranks_per_chunk=2), using(other_numbers(), on_threads):
        for settle in (lambda engine: engine, again):
            found = run_on(Engine(compile_predicates=False), steps, sizes, settle=settle)
            check(steps, on_oracle(steps), found)


# -- failures ---------------------------------------------------------------------------------


class BrokenSearch(StretchSearch):
    def of_origin(self, *given: Any) -> Any:
        raise ZeroDivisionError("boom")


@pytest.mark.parametrize("driver", [Inline, Threads])
def test_a_core_that_fails_stops_the_query(
    driver: Callable[[Network], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.flows.parallel.StretchSearch", BrokenSearch)
    with using(parallel_units(1), driver), pytest.raises(QueryFailed) as caught:
        run(query(WINDOWS["of one"]), tuples("A"))
    where = "CoreFailed: core 0 failed at the new tuples of ranks 0..0: " * (driver is Threads)
    assert str(caught.value) == (
        f"query 'q' has failed and is stopped ({where}ZeroDivisionError: boom); every other query "
        "has taken the input\nDrop it, and install it again once its cause is mended; this is a "
        "defect of Penstock."
    )
