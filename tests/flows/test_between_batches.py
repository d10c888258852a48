"""Between batches the block changes its windows; no unit of a design may read them meanwhile.

A unit may be at work after its last message, while the caller has gone on to the next batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest
from tests.flows.designs import Resting, by_seed, using
from tests.flows.test_circular import STREAMS, Row, query
from tests.flows.test_random_designs import DESIGNS
from tests.thresholds import low_thresholds

from penstock.engines.local.engine import Engine
from penstock.flows.linear import linear_units
from penstock.flows.multi_flow import MakeUnits
from penstock.flows.stashed.stashed import published_stash, stashed_units
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import CreateStream, Install
from penstock.streams.events import End, Tuples

Batch = Sequence[Tuples | End]
ENDS = [End(name) for name in "ABC"]
WINDOWS = {
    "counts": ("ROWS 3", "ROWS 4", "ROWS 2"),
    "times": ("RANGE 12 WATTR t", "RANGE 15 WATTR t", "RANGE 12 WATTR t"),
    "out of order": ("RANGE 12 WATTR t SLACK 9",) * 3,
    "both": ("ROWS 3", "RANGE 15 WATTR t SLACK 9", "ROWS 4"),
}


@pytest.fixture(autouse=True, params=[1, 100])
def arrivals_in_a_chunk(request: pytest.FixtureRequest) -> Iterator[None]:
    few = {"ranks_per_set": request.param, "ranks_per_chunk": request.param}
    with low_thresholds(pairs_per_message=4, **few):
        yield


def arrived(stream: str, time: int, key: int = 1) -> Tuples:
    schema = STREAMS[0].schema
    return Tuples(stream, pa.RecordBatch.from_pydict({"t": [time], "k": [key]}, schema=schema))


def check(text: str, batches: Sequence[Batch], units: MakeUnits, seed: int = 0) -> None:
    """Units that rest as long as they can give the rows of the oracle."""
    oracle = Oracle()
    for stream in STREAMS:
        oracle.create_stream(stream)
    oracle.install("q", text)
    with using(units, by_seed(seed, 4, Resting)), Engine(compile_predicates=False) as engine:
        engine.feed([*map(CreateStream, STREAMS), Install("q", text)])
        for batch in batches:
            engine.feed(batch)
            for event in batch:
                if isinstance(event, End):
                    oracle.end(event.stream)
                else:
                    oracle.tuples(event.stream, event.batch)
        found = [result.batch for result in engine.queries["q"].drain()]
    rows: list[Row] = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
    assert rows == [tuple(row) for _, row in oracle.rows["q"]]
    assert rows


@pytest.mark.product(2, by="design")
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("design", DESIGNS)
def test_rows_are_the_oracles(design: str, windows: str) -> None:
    """Times leap, so that the punctuations of a batch let much of the one before expire."""
    delays = (0, 0, 5) if "SLACK" in WINDOWS[windows][1] else (0,)
    for seed in range(2):
        chance, now = random.Random(seed), 0
        batches: list[list[Tuples | End]] = []
        for _ in range(12):
            batches.append([])
            for _ in range(chance.randint(1, 9)):
                now += chance.choice((0, 1, 1, 2, 9))
                time, key = now - chance.choice(delays), chance.randint(1, 2)
                batches[-1].append(arrived(chance.choice("ABC"), time, key))
        batches[-1] += ENDS
        check(query(WINDOWS[windows]), batches, DESIGNS[design](), seed)


@pytest.mark.parametrize(
    "units", [stashed_units, lambda: stashed_units(make_stash=published_stash)]
)
@pytest.mark.parametrize(
    ("windows", "rest"),
    [
        ("counts", [arrived("C", 2), *ENDS]),
        ("times", [arrived("C", 2), arrived("C", 99)]),
    ],
)
def test_the_pairs_of_a_batch_are_in_the_stash_before_the_next_batch_comes(
    windows: str, rest: Batch, units: Callable[[], MakeUnits]
) -> None:
    """After the first C of the second batch, by its punctuations, no pair is live."""
    check(query(WINDOWS[windows]), [[arrived("A", 0), arrived("B", 1)], rest], units())


def test_a_stage_of_linear_knows_what_is_stored_before_it_has_been_told() -> None:
    """The first chunk of the second batch is there before the storage unit's last message is."""
    before = [arrived("A", 0, key=1), arrived("C", 1, key=2)]
    after = [arrived("A", 2, key=2), arrived("B", 3, key=2)]
    for seed in range(20):
        check(query(WINDOWS["counts"]), [before, after], linear_units(), seed)
