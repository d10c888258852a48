"""Queries on topologies of OP-Blocks: ``python -m bench fqp [--quick]`` (Najafi 2019 §4.5).

Contestants of a comparison take the same input in turns, in one run, so that other load on the
machine affects all of them alike; a ratio is the median of those of the turns. Input comes from
Arrow memory, 2^20 tuples at a time, on one thread. A tuple has a key and a value of 32 bits. Every
turn is checked: contestants by a digest of their rows among each other, and the first one's rows
against NumPy.

The parts: what an OP-Block does (Table 4.5.5); a join that spans 16 of them; a query in a block
beside the same as the planner makes it; a change while tuples flow; many selections over one
stream; and the figures 4.5.2, 4.5.7 and 4.5.9.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock as ps
from bench import fqp_changes
from bench.flow_runs import Made, digest
from bench.measure import rate
from penstock.streams.events import Merged

BATCH = 1 << 20
"""Tuples of a turn, which an engine processes at once."""
QUICK = 1 << 13
STREAMS = "CREATE STREAM R (k INT, v INT); CREATE STREAM S (k INT, v INT)"
VALUES = 1_000
"""Values are uniform in 0 to 999."""
KEYS = 10_000
"""Keys are uniform in 0 to 9,999, unless a match probability says otherwise."""
Numbers = npt.NDArray[np.int64]


# -- input ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Tuples of both streams in the order of arrival; ``which`` is 0 for those of R."""

    keys: npt.NDArray[np.int32]
    values: npt.NDArray[np.int32]
    which: npt.NDArray[np.int8]

    def merged(self) -> Merged:
        """The same as an engine takes it."""
        batches = tuple(
            pa.RecordBatch.from_arrays(
                [pa.array(column[self.which == side]) for column in (self.keys, self.values)],
                ["k", "v"],
            )
            for side in (0, 1)
        )
        return Merged(("R", "S"), batches, self.which)


@dataclass(frozen=True)
class Input:
    """Where the tuples of a comparison come from; ``streams``: 1 for R alone, 2."""

    streams: int = 1
    keys: int = KEYS
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(45))

    def take(self, count: int) -> Part:
        """The next tuples."""
        rng = self.rng
        which = (
            rng.integers(0, 2, count).astype(np.int8)
            if self.streams == 2
            else np.zeros(count, np.int8)
        )
        keys = rng.integers(0, self.keys, count).astype(np.int32)
        return Part(keys, rng.integers(0, VALUES, count).astype(np.int32), which)


class Pairs:
    """The pairs of an equi-join over count windows, counted by their definition.

    A tuple meets those of the other stream's last ``window`` before it that have its key.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._last = Part(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.int8)))

    def count(self, part: Part) -> int:
        """The pairs whose younger tuple is in this part."""
        keys = np.concatenate([self._last.keys, part.keys]).astype(np.int64)
        which = np.concatenate([self._last.which, part.which])
        start = len(keys) - len(part.keys)
        found = 0
        for side in (0, 1):
            others = np.cumsum(which != side)  # of each arrival: how many of the others before it
            own = np.flatnonzero(which == side)
            own = own[own >= start]
            theirs = keys[which != side]
            there = np.sort(theirs << 32 | np.arange(len(theirs)))
            before = others[own]
            first = np.maximum(before - self._window, 0)
            ends = np.searchsorted(there, keys[own] << 32 | before)
            found += int((ends - np.searchsorted(there, keys[own] << 32 | first)).sum())
        kept = min((np.flatnonzero(which == side)[-self._window :][:1] for side in (0, 1)), key=sum)
        at = int(kept[0]) if len(kept) else 0
        values = np.zeros(len(keys) - at, np.int32)
        self._last = Part(keys[at:].astype(np.int32), values, which[at:])
        return found


# -- contestants ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A contestant: its queries, what they stand on, and the options of ``engine.install``."""

    texts: Sequence[str]
    topology: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Contestant:
    """An engine with its queries, and its measurements."""

    engine: Any
    queries: list[Any]
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)

    def take(self, part: Merged) -> Made:
        """Process a part, and drain all rows."""
        used, start = time.process_time(), time.perf_counter()
        if 1 in part.which:
            self.engine.feed([part])
        else:
            self.engine.push("R", part.batches[0])
        tables = [query.rows() for query in self.queries]
        self.seconds.append(time.perf_counter() - start)
        self.processor_seconds.append(time.process_time() - used)
        return sum(map(digest, tables), Made())


@contextmanager
def contestant(entry: Entry) -> Iterator[Contestant]:
    """An engine with the queries of an entry."""
    with ps.connect(
        "local", batch_rows=BATCH, buffer_rows=1 << 28, topology=entry.topology
    ) as engine:
        engine.sql(STREAMS)
        yield Contestant(engine, [engine.install(text, **entry.options) for text in entry.texts])


@dataclass(frozen=True)
class Effort:
    """Tuples of a turn, the turns that count, and those before them."""

    turn: int = BATCH
    turns: int = 5
    before: int = 2


WHOLE = Effort()
LITTLE = Effort(turn=QUICK, turns=2, before=1)
"""Enough to show that everything runs."""


def compare(
    entries: Mapping[str, Entry],
    given: Input,
    count: Callable[[Part], int],
    effort: Effort,
) -> dict[str, dict[str, Any]]:
    """Tuples per second of each contestant; ``count`` says by itself how many rows there are."""
    with ExitStack() as stack:
        those = {name: stack.enter_context(contestant(one)) for name, one in entries.items()}
        rows = 0
        for turn in range(effort.before + effort.turns):
            part = given.take(effort.turn)
            merged = part.merged()
            wanted = count(part)
            made: dict[str, Made] = {}
            for name in _turned(list(those), turn):
                made[name] = those[name].take(merged)
                assert made[name].rows == wanted, f"{name}: {made[name].rows} rows, not {wanted}"
            assert len(set(made.values())) == 1, f"other rows: {made}"
            rows += wanted if turn >= effort.before else 0
        for one in those.values():  # what comes first compiles, and fills windows
            del one.seconds[: effort.before], one.processor_seconds[: effort.before]
        found = {name: measured(one, effort) for name, one in those.items()}
    for name, entry in found.items():
        entry["rows_per_tuple"] = rows / (effort.turn * effort.turns)
        entry["of_the_first"] = ratio(those[next(iter(those))], those[name])
    return found


def _turned(names: list[str], by: int) -> list[str]:
    """The names, another one first in every turn."""
    by %= len(names)
    return [*names[by:], *names[:by]]


def measured(one: Contestant, effort: Effort) -> dict[str, Any]:
    """The rates of a contestant, by the clock and by the processor's."""
    return {
        "tuples_per_second": rate(effort.turn, one.seconds),
        "by_processor_time": effort.turn / statistics.median(one.processor_seconds),
    }


def ratio(first: Contestant, other: Contestant) -> float:
    """How many times as fast the second is as the first, turn by turn, by the processor's time."""
    pairs = zip(first.processor_seconds, other.processor_seconds, strict=True)
    return statistics.median(a / b for a, b in pairs)


# -- what an OP-Block does ------------------------------------------------------------------------

SELECTION = "SELECT k, v FROM R WHERE v < 500"
PROJECTION = "SELECT v FROM R"
COMPUTED = "SELECT k, v + 1 AS w FROM R WHERE k < 5000"
JOINED = "SELECT r.v AS rv, s.v AS sv FROM R [ROWS {0}] AS r JOIN S [ROWS {0}] AS s ON r.k = s.k"


def selected(part: Part) -> int:
    """The rows of ``SELECTION``."""
    return int((part.values < 500).sum())


def operators(effort: Effort) -> dict[str, Any]:
    """Table 4.5.5: selection, projection, join with a window of 16, and of 64 on four blocks."""
    found: dict[str, Any] = {}
    one = "fqp:chain:1:16"
    found["selection"] = compare({"block": Entry([SELECTION], one)}, Input(), selected, effort)[
        "block"
    ]
    found["projection"] = compare(
        {"block": Entry([PROJECTION], one)}, Input(), lambda part: len(part.keys), effort
    )["block"]
    for name, window, topology in (
        ("join", 16, one),
        ("chained join", 64, "fqp:chain:4:16"),
    ):
        entry = Entry([JOINED.format(window)], topology)
        found[name] = compare({name: entry}, Input(2), Pairs(window).count, effort)[name]
    return found


def spanning(effort: Effort) -> dict[str, Any]:
    """A join that spans 16 blocks, and the same on as many cores of the flow and on one block."""
    text = JOINED.format(256)
    cores = {"flow": "low-latency-handshake", "cores": 16}
    entries = {
        "low-latency-handshake, 16 cores": Entry([text], None, cores),
        "OP-Chain of 16": Entry([text], "fqp:chain:16:16"),
        "one block": Entry([text], "fqp:chain:1:256"),
    }
    return compare(entries, Input(2), Pairs(256).count, effort)


# -- beside the planner ---------------------------------------------------------------------------


def beside_the_planner(effort: Effort) -> list[dict[str, Any]]:
    """A query in one block, and the same as the planner makes it."""
    both = Input(2)
    large = 1 << 17 if effort is WHOLE else 1 << 10
    works: tuple[tuple[str, Input, Callable[[Part], int]], ...] = (
        (SELECTION, Input(), selected),
        ("SELECT k, v FROM R WHERE v = 7", Input(), lambda p: int((p.values == 7).sum())),
        (PROJECTION, Input(), lambda part: len(part.keys)),
        (COMPUTED, Input(), lambda p: int((p.keys < 5000).sum())),
        (JOINED.format(16), both, Pairs(16).count),
        (JOINED.format(1024), both, Pairs(1024).count),
        (JOINED.format(large), Input(2, 10 * large), Pairs(large).count),
    )  # fmt: skip
    found = []
    for text, given, count in works:
        entries = {"planner": Entry([text]), "block": Entry([text], "fqp:chain:1")}
        found.append({"query": text, **compare(entries, given, count, effort)})
    return found


# -- many selections ------------------------------------------------------------------------------


def many_selections(effort: Effort) -> dict[str, Any]:
    """1,000 selections over one stream, which give a row for each tuple together.

    Beside one of them, and beside one that gives half of the tuples.
    """
    texts = [f"SELECT k, v FROM R WHERE v = {value}" for value in range(VALUES)]
    topology = "fqp:chain:1"
    works: dict[str, tuple[Entry, Callable[[Part], int]]] = {
        "one": (Entry(texts[:1], topology), lambda p: int((p.values == 0).sum())),
        "one, every other tuple": (Entry([SELECTION], topology), selected),
        "1,000": (Entry(texts, topology), lambda part: len(part.keys)),
        "1,000, each with its own blocks": (Entry(texts), lambda part: len(part.keys)),
    }
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        those = {n: stack.enter_context(contestant(entry)) for n, (entry, _) in works.items()}
        given = Input()
        for turn in range(effort.before + effort.turns):
            part = given.take(effort.turn)
            merged = part.merged()
            made = {}
            for name in _turned(list(those), turn):
                wanted = works[name][1](part)
                made[name] = those[name].take(merged)
                assert made[name].rows == wanted, f"{name}: {made[name].rows} rows, not {wanted}"
            assert made["1,000"] == made["1,000, each with its own blocks"], made
        for name, one in those.items():
            del one.seconds[: effort.before], one.processor_seconds[: effort.before]
            found[name] = measured(one, effort)
        for name in works:
            found[name]["cost_of_one"] = 1 / ratio(those["one"], those[name])
            found[name]["cost_of_every_other"] = 1 / ratio(
                those["one, every other tuple"], those[name]
            )
    return found


# -- figures --------------------------------------------------------------------------------------

BLOCKS = 16
WINDOWS = (4, 8, 16, 32, 64, 128, 256)
MATCH_PROBABILITIES = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2)
PAIRS_OF_A_TUPLE = (1, 2, 4, 8, 16)


def by_window(effort: Effort) -> list[dict[str, Any]]:
    """Fig. 4.5.2: an equi-join on a chain of 16 blocks, by the window of a block."""
    found = []
    for window in WINDOWS:
        total = BLOCKS * window
        entry = Entry([JOINED.format(total)], f"fqp:chain:{BLOCKS}:{window}")
        made = compare({"chain": entry}, Input(2), Pairs(total).count, effort)["chain"]
        found.append({"blocks": BLOCKS, "window": window, **made})
    return found


def by_match_probability(effort: Effort) -> list[dict[str, Any]]:
    """Fig. 4.5.7: input and output of that join by the match probability, windows of 8 and 16."""
    found = []
    less = Effort(max(effort.turn // 8, 1), effort.turns, effort.before)
    for window in (8, 16):
        for probability in MATCH_PROBABILITIES:
            total = BLOCKS * window
            entry = Entry([JOINED.format(total)], f"fqp:chain:{BLOCKS}:{window}")
            given = Input(2, round(1 / probability))
            made = compare({"chain": entry}, given, Pairs(total).count, less)["chain"]
            found.append(
                {"blocks": BLOCKS, "window": window, "match_probability": probability, **made}
            )
    return found


def by_tuple_size(effort: Effort) -> list[dict[str, Any]]:
    """Fig. 4.5.9: a selection on tuples of 1 to 16 pairs, a segment for each."""
    topology = ps.topology("fqp:chain:1:32").to_toml()
    segmented = topology.replace("\n", "\nsegments = true\n", 1)
    found = []
    rng = np.random.default_rng(459)
    for pairs in PAIRS_OF_A_TUPLE:
        names = [f"a{i}" for i in range(pairs)]
        with ps.connect(
            "local", batch_rows=BATCH, buffer_rows=1 << 28,
            topology=ps.Topology.from_toml(segmented),
        ) as engine:  # fmt: skip
            engine.sql(f"CREATE STREAM R ({', '.join(f'{name} INT' for name in names)})")
            condition = " AND ".join(f"{name} < {500 if name == 'a0' else 1000}" for name in names)
            query = engine.install(f"SELECT * FROM R WHERE {condition}")
            seconds, used = [], []
            for turn in range(effort.before + effort.turns):
                columns = [rng.integers(0, VALUES, effort.turn).astype(np.int32) for _ in names]
                batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names)
                before, start = time.process_time(), time.perf_counter()
                engine.push("R", batch)
                rows = query.rows()
                if turn >= effort.before:
                    seconds.append(time.perf_counter() - start)
                    used.append(time.process_time() - before)
                wanted = np.flatnonzero(columns[0] < 500)
                for name, column in zip(names, columns, strict=True):
                    assert np.array_equal(rows[name].to_numpy(), column[wanted]), name
        found.append(
            {
                "pairs": pairs,
                "bytes": 8 * pairs,
                "tuples_per_second": rate(effort.turn, seconds),
                "by_processor_time": effort.turn / statistics.median(used),
            }
        )
    return found


def run(quick: bool = False) -> dict[str, Any]:
    """All parts."""
    effort = LITTLE if quick else WHOLE
    return {
        "operators": operators(effort),
        "spanning": spanning(effort),
        "beside_the_planner": beside_the_planner(effort),
        "changes": fqp_changes.run(quick),
        "many_selections": many_selections(effort),
        "by_window": by_window(effort),
        "by_match_probability": by_match_probability(effort),
        "by_tuple_size": by_tuple_size(effort),
    }
