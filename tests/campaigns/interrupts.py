"""Interrupts at random moments of random scripts: nothing is lost, or the query says so.

A script is run on the embedded engine once as it is, which counts the places where Python looks for
signals in Penstock's code: where a function begins, and after a call of one that is written in C.
Then it is run again with an interrupt at one of these places, or with two, or with a timer, and
gone on with: a call that has moved the engine's position is not repeated, any other is. The rows,
late tuples and dead letters must be the same. After one interrupt no query may have failed; after
two, one that has says so, and all others have theirs. Wherever a call ends, and in some scripts
from another thread all the time, every tuple is in the accounts once. In the end no thread of a
flow is left.
"""

from __future__ import annotations

import _thread
import gc
import math
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.engines.shared.query import Result
from penstock.engines.shared.running_query import Letter
from penstock.processor.topology.topology import Topology
from penstock.program.isa.flow import DESIGN_NAMES, FlowChoice
from penstock.program.isa.instructions import Install
from penstock.streams.events import Tuples
from penstock.streams.literals import physical_list
from penstock.testing.replay import QueryOptions, streams_joined
from tests.flows.ways import WAYS, Way
from tests.random_aggregates import TIMES, aggregate_scripts
from tests.random_scripts import Step, scripts
from tests.random_topology import blocks_to_span, topology_scripts
from tests.test_random_aggregates import as_events
from tests.test_random_scripts import plain
from tests.thresholds import low_thresholds

COUNT = 1000
EACH = 20
"""Interrupts of one script."""
SOURCES = str(Path(ps.__file__).parent)
WHERE = ("stored", "expired", "passed", "late", "dead", "shed")


@dataclass(frozen=True)
class Call:
    """A call of the engine, and how many positions it takes."""

    verb: str
    given: Any = None
    size: int = 0


@dataclass
class Found:
    """What a run has given, by query."""

    results: dict[str, list[Result]] = field(default_factory=dict)
    letters: dict[str, list[Letter]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def of(self, name: str, ordered: bool) -> tuple[Any, Any]:
        """The rows with their positions, and the letters."""
        rows: list[Any] = []
        for result in self.results.get(name, []):
            columns = [physical_list(column) for column in result.batch.columns]
            values = [tuple(map(plain, row)) for row in zip(*columns, strict=True)]
            rows.extend(zip(result.positions.tolist(), values, strict=True))
        letters = [(x.kind, x.position, x.stream, x.text) for x in self.letters.get(name, [])]
        return rows if ordered else sorted(rows, key=repr), sorted(letters)


class Arrival:
    """``-arrival``: SIGINT arrives, and its handler runs once the function that profiles has ended.

    Python looks for signals after a call, but not after an operator. What a handler raises in the
    function that profiles would end the profiling, and no second interrupt would come.
    """

    __neg__ = partial(_thread.interrupt_main, signal.SIGINT)


class Interrupts:
    """Raises SIGINT at the given places, counted over all calls; counts them if there are none."""

    def __init__(self, places: list[int]) -> None:
        self._places = places
        self._sigint: Any = Arrival()
        self.count = 0

    @contextmanager
    def during(self, call: Call) -> Iterator[None]:
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<genexpr>":
            return  # what is raised where one is thrown away goes nowhere
        if event in ("call", "c_return") and code.co_filename.startswith(SOURCES):
            self.count += 1
            if self.count in self._places:
                -self._sigint  # noqa: B018


class Timer:
    """Raises SIGINT some time after the first call that brings input."""

    count = 0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @contextmanager
    def during(self, call: Call) -> Iterator[None]:
        seconds, self._seconds = self._seconds, self._seconds if not call.size else 0
        try:
            if call.size and seconds:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Driver:
    """Makes the calls of a script, each until it is taken."""

    def __init__(
        self,
        calls: list[Call],
        batch_rows: int,
        way: Way | None,
        path: Path,
        topology: Topology | None = None,
    ) -> None:
        self.engine = Engine(
            batch_rows=batch_rows, buffer_rows=10**6, compile_predicates=False, topology=topology
        )
        self.engine._single_pushes.patience = 0
        self.found = Found()
        self.uneven: list[Any] = []
        self.interrupts = 0
        self._calls = calls
        self._path = path
        self._way = way
        self._expected = 0

    def run(self, interrupts: Interrupts | Timer) -> Found:
        try:
            for call in self._calls:
                self._make(call, interrupts)
            for call in (Call("wait"), Call("drain")):
                self._make(call, interrupts)
            self.look()
            names = {query.name for query in self.engine.queries.values() if query.failure}
            self.found.failed |= names
        finally:
            self.engine.close()
        return self.found

    def _make(self, call: Call, interrupts: Interrupts | Timer) -> None:
        while True:
            try:
                with interrupts.during(call):
                    self._do(call)
            except KeyboardInterrupt:
                self.interrupts += 1
                self.look()
                if not call.size or self.engine.position <= self._expected:
                    continue  # nothing of it has happened, or once more is as once
            except ps.QueryFailed as error:
                self.found.failed.add(error.what.split("'")[1])
                if not call.size:
                    continue
            self._expected += call.size
            return

    def _do(self, call: Call) -> None:
        engine = self.engine
        if call.verb == "feed":
            engine.feed(call.given)
        elif call.verb == "push":
            engine.push(*call.given)
        elif call.verb == "end":
            engine.end()
        elif call.verb == "wait":
            engine.wait()
        elif call.verb == "save":
            engine.save(self._path)
        elif call.verb == "restore":
            self._restore()
        else:
            for query in (*engine.dropped, *engine.queries.values()):
                self._drain(query)

    def _restore(self) -> None:
        for query in self.engine.dropped:
            self._drain(query)  # what has been dropped is not saved
        self.engine.save(self._path)
        again = ps.restore(str(self._path))
        self.engine.close()
        self.engine = again
        self.engine._single_pushes.patience = 0

    def _drain(self, query: Any) -> None:
        """Take what a query has made. Nothing that an interrupt could lose happens to it here."""
        results = self.found.results.setdefault(query.name, [])
        letters = self.found.letters.setdefault(query.name, [])
        results.extend(query.drain())
        letters.extend(query.drain_letters())

    def look(self) -> None:
        """Find accounts that are not even."""
        for query in (*self.engine.dropped, *self.engine.queries.values()):
            for account in query.metrics()["accounts"]:
                if account["in"] != sum(account[kind] for kind in WHERE):
                    self.uneven.append((query.name, account))


def calls_of(steps: list[Step], way: Way | None, chance: random.Random) -> list[Call]:
    """The calls that a script becomes: several events at once, or single tuples."""
    calls: list[Call] = []
    waiting: list[Any] = []

    def feed() -> None:
        if waiting:
            calls.append(Call("feed", list(waiting), sum(map(_size, waiting))))
            waiting.clear()

    streams = set(TIMES["int64"].streams)
    for event in as_events(steps, TIMES["int64"]):
        if event is None:
            feed()
            calls.append(Call("end", None, len(streams)))
            streams.clear()
        elif isinstance(event, Tuples) and len(event) and chance.random() < 0.4:
            feed()
            values = [physical_list(column)[0] for column in event.batch.columns]
            row = dict(zip(event.batch.schema.names, values, strict=True))
            calls.append(Call("push", (event.stream, [row]), 1))
        else:
            if type(event).__name__ == "End":
                streams.discard(event.stream)
            waiting.append(_sharing(event, way, chance))
            if chance.random() < 0.3:
                feed()
        then = chance.random()
        if then < 0.2:
            feed()
            calls.append(
                Call(chance.choice(("drain", "drain", "drain", "wait", "save", "restore")))
            )
    feed()
    return calls


def _size(event: Any) -> int:
    return len(event) if isinstance(event, Tuples) else 1


def _sharing(event: Any, way: Way | None, chance: random.Random) -> Any:
    if not isinstance(event, Install):
        return event
    joined = streams_joined(event.text)
    if joined > 2 and not any(kind in event.text for kind in SPECIAL):
        return replace(event, flow=FlowChoice(design=chance.choice(DESIGN_NAMES)))
    if way is None or joined > 2:
        return event
    asked = QueryOptions(None, None, way.choice())
    return replace(event, flow=(asked if joined == 2 else asked.without_join()).flow)


SPECIAL = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")


def _inner(steps: list[Step], way: Way | None) -> list[Step]:
    """The script with joins that the flow has."""
    if way is None or way.every_kind:
        return steps
    changed = []
    for step in steps:
        if step.verb in ("install", "change", "derive"):
            for kind in SPECIAL:
                step = replace(step, value=step.value.replace(kind, "JOIN"))
        changed.append(step)
    return changed


SCRIPTS = st.one_of(
    scripts(),
    scripts(count_windows=True),
    scripts(count_windows=True),
    scripts(derived=True),
    aggregate_scripts(),
    aggregate_scripts(derived=True),
)

CHAIN, PARTIAL = ps.topology("fqp:chain:6:40"), ps.topology("fqp:partial:2x5:40")
SPANNED = (blocks_to_span(1), blocks_to_span(2))
"""Topologies on which joins span blocks, whose rows have no order."""


def _shared(way: Way | None) -> Setting:
    return st.tuples(SCRIPTS, st.just(way), st.none())


def _placed(topology: Topology) -> Setting:
    return st.tuples(topology_scripts(topology in SPANNED), st.none(), st.just(topology))


Setting = st.SearchStrategy[tuple[list[Step], Way | None, Topology | None]]
SETTINGS: Setting = st.one_of(
    st.sampled_from((None, None, None, *WAYS)).flatmap(_shared),
    st.sampled_from((None, None, None, *WAYS)).flatmap(_shared),
    st.sampled_from((CHAIN, PARTIAL, *SPANNED)).flatmap(_placed),
)
"""A script, and how cores share its joins or which topology its queries stand on."""


class Trial:
    """A script, and what it gives when nothing interrupts it."""

    def __init__(
        self,
        steps: list[Step],
        way: Way | None,
        batch_rows: int,
        chance: random.Random,
        topology: Topology | None = None,
    ) -> None:
        steps = [step for step in _inner(steps, way) if step.verb != "refuse"]
        self._steps = steps
        self._batch_rows, self._way, self._topology = batch_rows, way, topology
        self._folder = tempfile.TemporaryDirectory()
        self.calls = calls_of(steps, way, chance)
        counting = Interrupts([])
        first = self._driver()
        self.expected = first.run(counting)
        self.places = counting.count
        self.interrupted = False
        assert first.uneven == [], first.uneven

    def _driver(self) -> Driver:
        path = Path(self._folder.name, "state")
        return Driver(self.calls, self._batch_rows, self._way, path, self._topology)

    def wrong(self, interrupts: Interrupts | Timer, may_fail: bool, watched: bool) -> str | None:
        """What is wrong with a run that is interrupted; None: nothing."""
        driver = self._driver()
        with _watching(driver) if watched else _alone():
            try:
                found = driver.run(interrupts)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            finally:
                self.interrupted = driver.interrupts > 0
        if driver.uneven:
            return f"accounts that are not even: {driver.uneven[:2]}"
        more = found.failed - self.expected.failed
        if more and not may_fail:
            return f"failed: {sorted(more)}"
        for name in self.expected.results:
            ordered = self._way is None and self._topology not in SPANNED
            wanted, got = self.expected.of(name, ordered), found.of(name, ordered)
            if wanted != got and name not in found.failed and not self._reads(name, found.failed):
                return f"query {name}: {wanted} expected, {got} found"
        return None

    def _reads(self, name: str, failed: set[str]) -> bool:
        """Whether a query reads a stream that is derived by one that has failed."""
        return bool(failed & {"D", "E"}) and name not in failed


@contextmanager
def _alone() -> Iterator[None]:
    yield


@contextmanager
def _watching(driver: Driver) -> Iterator[None]:
    """Another thread looks at the accounts all the time."""
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            driver.look()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def run(first: int, count: int) -> int:
    """Interrupt scripts ``count`` times; returns how often something was wrong."""
    wrong = made = came = 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    @seed(first)
    @settings(
        max_examples=math.ceil(count / EACH),
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        SETTINGS,
        st.sampled_from((1, 2, 7, 1000)),
        st.integers(0, 2**32),
    )
    def scripts_of(
        setting: tuple[list[Step], Way | None, Topology | None], batch_rows: int, number: int
    ) -> None:
        nonlocal wrong, made, came
        if made >= count:
            return
        chance = random.Random(number)
        steps, way, topology = setting
        try:
            trial = Trial(steps, way, batch_rows, chance, topology)
        except ps.InputError:  # what sorts the rows of a join is not for a flow without order
            trial = Trial(steps, None, batch_rows, chance)
        for _ in range(min(EACH, count - made)):
            made += 1
            kind = chance.random()
            places = sorted(chance.randint(1, trial.places) for _ in range(2))
            how: Interrupts | Timer = Interrupts(places[:1])
            if 0.65 <= kind < 0.8:
                how = Interrupts([places[0], places[0] + chance.randint(1, 40)])
            elif 0.8 <= kind < 0.9:
                how = Interrupts(places)
            elif kind >= 0.9:
                how = Timer(chance.uniform(1e-5, 0.03))
            said = trial.wrong(how, 0.65 <= kind < 0.9, kind < 0.1)
            came += trial.interrupted
            if said is not None:
                wrong += 1
                where = way if topology is None else topology.name
                print(f"interrupt {made} ({kind:.3f}, {places}, {where}, {batch_rows}): {said}")
                for call in trial.calls:
                    print(f"    {call}"[:300])
                for step in steps:
                    print(f"    {step.verb} {step.subject} {step.value}")
            if made % 500 == 0:
                print(f"{made} runs, {came} interrupted, {wrong} wrong", flush=True)

    try:
        with low_thresholds():
            scripts_of()
    finally:
        signal.signal(signal.SIGALRM, before)
    left = threads_left()
    if left:
        print(f"threads are left: {left}")
    return wrong + len(left)


def threads_left(known: Collection[threading.Thread] = (), patience: float = 10.0) -> list[str]:
    """The threads of flows that have not ended, though nothing refers to their engine.

    ``known`` are those of engines that something else may refer to.
    """
    gc.collect()
    until = time.monotonic() + patience
    flows = [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("penstock ") and thread not in known
    ]
    for thread in flows:
        thread.join(max(0.0, until - time.monotonic()))
    return [thread.name for thread in flows if thread.is_alive()]
