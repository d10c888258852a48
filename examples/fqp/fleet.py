"""A fleet: 1,000 queries on one topology, which come, change and go while tuples flow.

``python -m examples.fqp.fleet`` lets a million tuples of two streams flow through 950 selections
and 50 joins. Before every 50,000 of them some queries, drawn at random, are changed, dropped or
installed. NumPy has the rows of every query by its definition; a difference ends the program with
status 1. The same is done with 1,000 separate queries, without a topology, and with one selection
alone, in turns, to compare their times. ``--tuples 10000000`` takes ten times as many. ``--engine
spark`` runs the fleet alone, as one streaming query on Spark whose run id stays.
"""

from __future__ import annotations

from penstock.cli.exit_signals import end_on_signals

if __name__ == "__main__":
    end_on_signals("fleet")  # before the other imports, which take a while

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console

import penstock as ps
from penstock.streams.events import Merged

STREAMS = ("Requests", "Payments")
COLUMNS = "id BIGINT, customer INT, amount INT"
AMOUNTS, CUSTOMERS = 1_000, 100_000
SLICE = 50_000
"""Tuples between two bursts of changes."""
MOVES = 12
"""Changes of a burst, for 1,000 queries."""
JOINS = 20
"""Of this number of queries, one is a join."""
LONGEST = 1_024
"""The largest window of a join."""
FLEET, ONE = "on the topology", "one selection alone"
Numbers = npt.NDArray[Any]


# -- input ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Tuples of both streams by the order of their arrival; ``which`` is 0 for requests."""

    which: Numbers
    customers: Numbers
    amounts: Numbers
    first: int

    def merged(self) -> Merged:
        """The same, as an engine takes it. A tuple's id is its place in the input."""
        ids = np.arange(self.first, self.first + len(self.which))
        batches = tuple(
            pa.RecordBatch.from_arrays(
                [pa.array(c[self.which == side]) for c in (ids, self.customers, self.amounts)],
                ["id", "customer", "amount"],
            )
            for side in (0, 1)
        )
        return Merged(STREAMS, batches, self.which)


def arrivals(chance: np.random.Generator, count: int, first: int) -> Part:
    """So many tuples, of either stream at random."""
    return Part(
        chance.integers(0, 2, count).astype(np.int8),
        chance.integers(0, CUSTOMERS, count).astype(np.int32),
        chance.integers(0, AMOUNTS, count).astype(np.int32),
        first,
    )


# -- queries, and what they are by definition -----------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Tuples of a stream with an amount from ``low`` to ``high``, perhaps of few customers."""

    stream: int
    low: int
    high: int
    below: int | None = None

    @property
    def sql(self) -> str:
        """Its text."""
        amount = (
            f"amount = {self.low}"
            if self.low == self.high
            else f"amount BETWEEN {self.low} AND {self.high}"
        )
        few = "" if self.below is None else f" AND customer < {self.below}"
        return f"SELECT id FROM {STREAMS[self.stream]} WHERE {amount}{few}"

    def rows(self, part: Part) -> Numbers:
        """The ids that it gives, by its definition."""
        chosen = (
            (part.which == self.stream) & (part.amounts >= self.low) & (part.amounts <= self.high)
        )
        if self.below is not None:
            chosen &= part.customers < self.below
        return np.flatnonzero(chosen) + part.first


@dataclass(frozen=True)
class Join:
    """Requests and payments of one customer, in count windows; the payment is above a limit."""

    window: int
    limit: int

    @property
    def sql(self) -> str:
        """Its text."""
        sides = (f"{name} [ROWS {self.window}] AS {name[0].lower()}" for name in STREAMS)
        left, right = sides
        return (
            f"SELECT r.id AS r, p.id AS p FROM {left} JOIN {right} "
            f"ON r.customer = p.customer AND p.amount > {self.limit}"
        )


@dataclass(frozen=True)
class Pairs:
    """Requests and payments of one customer whose younger tuple is in one part.

    ``apart``: how many tuples the older one's stream has had from it on until the younger came.
    """

    requests: Numbers
    payments: Numbers
    amounts: Numbers
    apart: Numbers

    def rows(self, join: Join, start: int) -> Numbers:
        """The pairs of ids that a join gives that began at this place in the input."""
        chosen = (self.apart <= join.window) & (self.amounts > join.limit)
        chosen &= np.minimum(self.requests, self.payments) >= start
        return self.requests[chosen] << 32 | self.payments[chosen]


class Partners:
    """Finds :class:`Pairs` part by part; remembers the last ``longest`` tuples of each stream."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._stored = [np.empty((3, 0), np.int64)] * 2  # customers, ids, amounts
        self._counts = [0, 0]

    def of(self, part: Part) -> Pairs:
        """The pairs of a part; a tuple's older partner is in it too, or remembered."""
        ids = np.arange(part.first, part.first + len(part.which))
        old = [stored.shape[1] for stored in self._stored]
        for side in (0, 1):
            own = part.which == side
            new = np.stack([part.customers[own].astype(np.int64), ids[own], part.amounts[own]])
            self._stored[side] = np.concatenate([self._stored[side], new], axis=1)
        found: list[list[Numbers]] = [[], [], [], []]
        for side in (0, 1):
            theirs = self._stored[1 - side]
            before = old[1 - side] + np.cumsum(part.which != side)[part.which == side]
            customers = theirs[0] << 32 | np.arange(theirs.shape[1])
            order = np.argsort(customers)
            own = self._stored[side][:, old[side] :]
            begin = np.searchsorted(
                customers[order], own[0] << 32 | np.maximum(before - self._longest, 0)
            )
            end = np.searchsorted(customers[order], own[0] << 32 | before)
            younger = np.repeat(np.arange(own.shape[1]), end - begin)
            within = np.arange(len(younger)) - np.repeat(
                np.cumsum(end - begin) - (end - begin), end - begin
            )
            older = order[begin[younger] + within]
            pair = own[:, younger], theirs[:, older]
            request, payment = pair if side == 0 else pair[::-1]
            for column, values in zip(
                found, (request[1], payment[1], payment[2], before[younger] - older), strict=True
            ):
                column.append(values)
        self._stored = [stored[:, -self._longest :] for stored in self._stored]
        return Pairs(*map(np.concatenate, found))


# -- the fleet ------------------------------------------------------------------------------------

Move = tuple[str, str, str]
"""``install``, ``change`` or ``drop``, the name of a query, and its text."""


@dataclass
class Fleet:
    """The queries that there are, by name, with where in the input they began."""

    chance: np.random.Generator
    queries: dict[str, tuple[Selection | Join, int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def install(self, is_join: bool, at: int) -> Move:
        """A query that begins here."""
        name = f"q{self.counts['install']}"
        return self._moved("install", name, self._drawn(is_join), at)

    def moves(self, count: int, at: int) -> list[Move]:
        """So many changes at random; a query that is dropped makes room for another."""
        found: list[Move] = []
        while len(found) < count:
            names = list(self.queries)
            name = names[int(self.chance.integers(len(names)))]
            old, start = self.queries[name]
            if self.chance.random() < 0.8:
                found.append(self._moved("change", name, self._changed(old), start))
                continue
            del self.queries[name]
            self.counts["drop"] += 1
            found += [("drop", name, ""), self.install(isinstance(old, Join), at)]
        return found

    def _moved(self, what: str, name: str, query: Selection | Join, start: int) -> Move:
        self.queries[name] = (query, start)
        self.counts[what] += 1
        return what, name, query.sql

    def _drawn(self, is_join: bool) -> Selection | Join:
        chance = self.chance
        if is_join:
            return Join(int(chance.integers(16, 1 + LONGEST)), int(chance.integers(0, AMOUNTS)))
        low = int(chance.integers(0, AMOUNTS))
        high = low + int(chance.choice((0, 0, 0, 1, 5)))
        below = None if chance.random() < 0.7 else int(chance.integers(0, CUSTOMERS))
        return Selection(int(chance.integers(0, 2)), low, high, below)

    def _changed(self, old: Selection | Join) -> Selection | Join:
        """Other constants; windows become smaller, since larger ones would fill only later."""
        if isinstance(old, Join):
            drawn = self._drawn(True)
            assert isinstance(drawn, Join)
            window = min(drawn.window, old.window) if self.chance.random() < 0.2 else old.window
            return replace(drawn, window=window)
        drawn = self._drawn(False)
        assert isinstance(drawn, Selection)
        return replace(drawn, stream=old.stream)

    def rows(self, part: Part, pairs: Pairs) -> dict[str, Numbers]:
        """What each query gives for a part, by its definition."""
        return {
            name: query.rows(part) if isinstance(query, Selection) else pairs.rows(query, start)
            for name, (query, start) in self.queries.items()
        }


class Contestant:
    """An engine, and the time that it takes."""

    def __init__(self, engine: Any, only: str | None = None) -> None:
        self.engine = engine
        self._only = only
        self.seconds = 0.0
        self.tuples = 0
        self.rows = 0
        self.moves: list[float] = []
        for name in STREAMS:
            engine.sql(f"CREATE STREAM {name} ({COLUMNS})")
        self.queries: dict[str, Any] = {}

    def move(self, moves: Sequence[Move]) -> None:
        """Install, change and drop; of one query alone, only its installation."""
        for what, name, text in moves:
            if self._only not in (None, name) or (self._only and what != "install"):
                continue
            start = time.perf_counter()
            if what == "install":
                self.queries[name] = self.engine.install(text, name=name)
            elif what == "change":
                self.queries[name].change(text)
            else:
                self.queries.pop(name).drop()
            self.moves.append(time.perf_counter() - start)

    def take(self, merged: Merged) -> dict[str, Numbers]:
        """Let tuples flow, and drain the rows of every query: ids, or pairs of them, in order."""
        start = time.perf_counter()
        self.engine.feed([merged])
        self.engine.wait()
        tables = {name: query.rows() for name, query in self.queries.items()}
        self.seconds += time.perf_counter() - start
        self.tuples += len(merged.which)
        found = {}
        for name, table in tables.items():
            columns = [column.to_numpy() for column in table.columns]
            found[name] = columns[0] if len(columns) == 1 else columns[0] << 32 | columns[1]
            self.rows += table.num_rows
        return found


def differences(found: dict[str, Numbers], wanted: dict[str, Numbers]) -> list[str]:
    """The queries whose rows are not those that they should be; their order in a batch is free."""
    return [
        name
        for name, rows in found.items()
        if not np.array_equal(np.sort(rows), np.sort(wanted[name]))
    ]


def flow(
    those: dict[str, Contestant], tuples: int, queries: int, seed: int
) -> tuple[Fleet, list[str]]:
    """Let tuples flow through the queries; returns these and what was wrong."""
    chance = np.random.default_rng(seed)
    fleet, partners = Fleet(chance), Partners(LONGEST)
    begin = [fleet.install(number % JOINS == 0, 0) for number in range(queries)]
    for one in those.values():
        one.move(begin)
        one.moves.clear()
    wrong: list[str] = []
    for first in range(0, tuples, SLICE):
        moves = fleet.moves(max(1, MOVES * queries // 1_000), first) if first else []
        part = arrivals(chance, min(SLICE, tuples - first), first)
        merged, wanted = part.merged(), fleet.rows(part, partners.of(part))
        for kind, one in those.items():
            one.move(moves)
            found = one.take(merged)
            if not first:
                one.seconds = 0.0  # what comes first compiles
                one.tuples = 0
            if kind == ONE:
                continue
            assert found.keys() == wanted.keys()
            wrong += [
                f"{kind}, {name}, tuples from {first:,}" for name in differences(found, wanted)
            ]
    return fleet, wrong


def report(
    fleet: Fleet,
    those: dict[str, Contestant],
    tuples: int,
    wrong: Sequence[str],
    console: Console,
) -> None:
    """Print what there was, whether it was right, and how long it took after the first slice."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    first = next(iter(those.values()))
    counts = fleet.counts
    say(
        f"{tuples:,} tuples; {counts['install']:,} queries installed, {counts['change']:,} "
        f"changed, {counts['drop']:,} dropped"
    )
    for line in wrong[:10]:
        say(f"wrong rows: {line}")
    said = "the same" if not wrong else f"others {len(wrong):,} times"
    say(f"{first.rows:,} rows; NumPy has {said}")
    for kind, one in those.items():
        if not one.tuples:
            continue
        took = f"{one.seconds:.2f} s, {one.tuples / one.seconds / 1e6:.3g} M tuples/s"
        if those.keys() >= {ONE} and kind != ONE:
            took += f", {one.seconds / those[ONE].seconds:.1f} times one selection alone"
        say(f"{kind}: {took}")
        if one.moves:
            half, most = 1e3 * np.percentile(one.moves, [50, 99])
            say(f"  a change, installation or drop: p50 {half:.2f} ms, p99 {most:.2f} ms")


def main(given: list[str] | None = None, console: Console | None = None) -> int:
    """``python -m examples.fqp.fleet [--tuples N] [--queries N] [--engine local|spark]``."""
    about = (__doc__ or "").replace("``", "")
    parser = argparse.ArgumentParser(prog="python -m examples.fqp.fleet", description=about)
    parser.add_argument("--tuples", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--queries", type=int, default=1_000, metavar="N")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--seed", type=int, default=18, metavar="N", help="of all that is random")
    arguments = parser.parse_args(given)
    for name in ("tuples", "queries"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)}: write a number from 1 on")
    console = console or Console(file=sys.stdout)
    # Each join has a block, and the selections share one.
    topology = f"fqp:chain:{-(-arguments.queries // JOINS) + 1}"
    console.print(
        f"{arguments.queries:,} queries on {topology}, engine {arguments.engine}", highlight=False
    )
    with ExitStack() as stack:

        def connected(kind: str, **options: Any) -> Any:
            return stack.enter_context(ps.connect(kind, **options))  # type: ignore[call-overload]

        those = {FLEET: Contestant(connected(arguments.engine, topology=topology))}
        if arguments.engine == "local":
            those["separate queries"] = Contestant(connected("local"))
            those[ONE] = Contestant(connected("local", topology="fqp:chain:1"), only="q1")
        run_id = getattr(those[FLEET].engine, "run_id", None)
        fleet, wrong = flow(those, arguments.tuples, arguments.queries, arguments.seed)
        report(fleet, those, arguments.tuples, wrong, console)
        if arguments.engine == "spark":
            same = those[FLEET].engine.run_id == run_id
            now = "the same" if same else "NOT the same"
            console.print(f"Spark's run id {run_id} is {now} at the end", highlight=False)
            return 1 if wrong or not same else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
