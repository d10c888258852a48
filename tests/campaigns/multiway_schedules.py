"""Multiway designs in random schedules: no standstill with FIFOs of one slot, and the right rows.

Joins of three to five streams, as chain, star, cycle or cross product; small windows, few keys, so
that most tuples have partners; times out of order; chunks of one tuple and of several, messages of
one combination and of many, order buffers and FIFOs of one slot and more; slow units.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.engines.local.engine import Engine
from penstock.flows.circular.circular import circular_units
from penstock.flows.linear import linear_units
from penstock.flows.multi_flow import MakeUnits
from penstock.flows.network.network import Driver, Network
from penstock.flows.parallel import parallel_units
from penstock.flows.stashed.stashed import published_stash, recomputing_stash, stashed_units
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import CreateStream, Install
from penstock.streams.events import Tuples
from penstock.streams.schema import Stream
from tests.flows.designs import Watched, always_partial, using
from tests.thresholds import low_thresholds

COUNT = 3000
SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64()})
STREAMS = {name: Stream.of(name, SCHEMA) for name in "ABCDE"}
DESIGNS: dict[str, Callable[[random.Random], MakeUnits]] = {
    "circular": lambda chance: circular_units(chance.choice((None, None, 1, 2))),
    "linear": lambda chance: linear_units(),
    "parallel": lambda chance: parallel_units(chance.choice((1, 2, 3, 5)), chance.choice((2, 3))),
    "stashed": lambda chance: stashed_units(
        size=chance.choice((1, 2, 3, 7, 50)),
        make_stash=chance.choice((recomputing_stash, always_partial, published_stash)),
    ),
}


def run(seed: int, count: int) -> int:
    """Run that many schedules; returns how many went wrong."""
    wrong = 0
    for case in range(count):
        try:
            check(random.Random(f"{seed} {case}"))
        except Exception:
            wrong += 1
            print(f"case {case} of --seed {seed}")
            traceback.print_exc(limit=-4)
    return wrong


def check(chance: random.Random) -> None:
    """One schedule of one input gives the oracle's rows."""
    streams = "ABCDE"[: chance.choice((3, 3, 3, 4, 5))]
    text = query(chance, streams)
    events = arrivals(chance, streams)
    design = chance.choice([d for d in sorted(DESIGNS) if d != "stashed" or len(streams) == 3])
    ranks = chance.choice((1, 1, 2, 5))
    sizes = {
        "ranks_per_set": ranks,
        "ranks_per_chunk": ranks,
        "pairs_per_message": chance.choice((1, 9)),
    }
    with low_thresholds(**sizes), using(DESIGNS[design](chance), driver(chance)):
        found = on_engine(streams, text, events)
    assert found == on_oracle(streams, text, events), (design, text, events)


def query(chance: random.Random, streams: str) -> str:
    """A join of all streams, by their keys."""
    kind = chance.choice(("chain", "chain", "star", "cycle", "cross"))
    pairs = [(0 if kind == "star" else i - 1, i) for i in range(1, len(streams))]
    if kind == "cycle":
        pairs.append((len(streams) - 1, 0))
    if kind == "cross":
        pairs = pairs[:1]
    # Not all of these are equalities of columns, which are transitive.
    forms = ("{0}.k = {1}.k", "{0}.k = {1}.k + 0", "{0}.k <= {1}.k")
    terms = [chance.choice(forms).format(*(streams[i].lower() for i in p)) for p in pairs]
    sources = [f"{name} [{window(chance)}] AS {name.lower()}" for name in streams]
    columns = ", ".join(f"{name}.t AS {name}" for name in streams.lower())
    return f"SELECT {columns} FROM {', '.join(sources)} WHERE {' AND '.join(terms)}"


def window(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return f"ROWS {chance.choice((1, 1, 2, 3))}"
    return f"RANGE {chance.choice((1, 2, 4))} WATTR t SLACK {chance.choice((0, 2))}"


def arrivals(chance: random.Random, streams: str) -> list[Tuples]:
    """Single tuples of these streams."""
    found, now = [], 0
    for _ in range(chance.choice((chance.randrange(3, 26), chance.randrange(26, 80)))):
        now += chance.choice((0, 0, 1, 1))
        row = {"t": [now - chance.choice((0, 0, 0, 1, 2))], "k": [chance.choice((1, 1, 2))]}
        found.append(Tuples(chance.choice(streams), pa.RecordBatch.from_pydict(row, schema=SCHEMA)))
    return found


def driver(chance: random.Random) -> Callable[[Network], Driver]:
    """Steps by a seed; some units are slow."""
    capacity, seed = chance.choice((1, 1, 1, 4)), chance.randrange(1 << 30)

    def make(network: Network) -> Driver:
        names = [unit.name for unit in network.units]
        slow = {name: 7 for name in names if chance.random() < 0.2}
        return Watched(network, seed, capacity, slow)

    return make


def on_engine(streams: str, text: str, events: list[Tuples]) -> list[Any]:
    with Engine(compile_predicates=False) as engine:
        engine.feed([CreateStream(STREAMS[name]) for name in streams])
        engine.feed([Install("q", text), *events])
        found = [result.batch for result in engine.queries["q"].drain()]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def on_oracle(streams: str, text: str, events: list[Tuples]) -> list[Any]:
    oracle = Oracle()
    for name in streams:
        oracle.create_stream(STREAMS[name])
    oracle.install("q", text)
    for event in events:
        oracle.tuples(event.stream, event.batch)
    return [tuple(row) for _, row in oracle.rows["q"]]
