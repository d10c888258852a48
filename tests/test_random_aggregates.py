"""Random aggregates: the embedded engine gives the oracle's rows, however its input is cut."""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

from penstock.engines.local.engine import Engine
from penstock.oracle.oracle import Oracle
from penstock.program.instructions import Change, CreateStream, Derive, Drop, Install
from penstock.streams.events import End, Malformed, Punctuation, Tuples
from penstock.streams.literals import physical_list
from tests.engines.test_state import saved_and_restored
from tests.random_aggregates import TIMES, aggregate_scripts, with_times
from tests.random_scripts import Step, Times
from tests.test_random_scripts import batch_of

INT64 = TIMES["int64"]
Found = dict[str, Any]
SLIDING = re.compile(r"\[RANGE (\d+) SLIDE")


def as_events(steps: list[Step], times: Times, kernel: str | None = None) -> list[Any]:
    """The script as an engine takes it; None ends all streams. Sliding windows get the kernel."""
    events: list[Any] = [CreateStream(stream) for stream in times.streams]
    for step in steps:
        if step.verb == "tuple":
            events.append(Tuples(step.subject, batch_of(step.subject, step.value, times)))
        elif step.verb == "empty":
            schema = times.streams["RS".index(step.subject)].schema
            events.append(Tuples(step.subject, pa.RecordBatch.from_pylist([], schema)))
        elif step.verb == "punctuate":
            events.append(Punctuation(step.subject, times.physical(step.value)))
        elif step.verb == "malformed":
            events.append(Malformed(step.subject, step.value, "no tuple"))
        elif step.verb == "end":
            events.append(End(step.subject) if step.subject else None)
        elif step.verb == "drop":
            events.append(Drop(step.subject))
        elif step.verb == "install":
            asked = kernel if SLIDING.search(step.value) else None
            events.append(Install(step.subject, with_times(step.value, times), None, asked))
        else:
            kind = {"change": Change, "derive": Derive}[step.verb]
            events.append(kind(step.subject, with_times(step.value, times)))
    return events


def of_one_size(steps: list[Step]) -> list[Step]:
    """The script without the changes of a RANGE that slides: modules do not take them."""
    sizes: dict[str, str] = {}
    kept = []
    for step in steps:
        if step.verb in ("install", "change", "drop"):
            found = SLIDING.search(step.value or "")
            size = found[1] if found else ""
            if step.verb == "change" and sizes.get(step.subject, size) != size:
                continue
            sizes[step.subject] = size
        kept.append(step)
    return kept


def on_oracle(steps: list[Step], times: Times = INT64) -> Found:
    """What the script means: for each query its rows, late tuples and dead letters."""
    oracle = Oracle()
    for event in as_events(steps, times):
        if isinstance(event, CreateStream):
            oracle.create_stream(event.stream)
        elif isinstance(event, Install):
            oracle.install(event.query, event.text)
        elif isinstance(event, Change):
            oracle.change(event.query, event.text)
        elif isinstance(event, Derive):
            oracle.derive(event.name, event.text)
        elif isinstance(event, Drop):
            oracle.drop(event.query)
        elif event is None:
            oracle.end()
        else:
            oracle.feed([event])
    found: Found = {}
    for name, rows in oracle.rows.items():
        reasons = zip(oracle.late[name], oracle.reasons[name], strict=True)
        late = [(p, stream, reason) for (p, stream, _), reason in reasons]
        dead = [(p, s, reason) for p, s, _, reason in oracle.dead[name]]
        found[name] = {"rows": rows, "late": late, "dead": dead}
    return found


class Run:
    """A script on an engine, fed in pieces of some sizes."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.found: Found = {}

    def feed(self, events: list[Any], sizes: list[int]) -> Found:
        waiting: list[Any] = []
        for number, event in enumerate(events):
            if event is None:
                self.engine.feed(waiting)
                self.engine.end()
                waiting = []
            else:
                waiting.append(event)
            if len(waiting) >= sizes[number % len(sizes)]:
                self.engine.feed(waiting)
                waiting = []
                self._collect()
        self.engine.feed(waiting)
        self._collect()
        return self.found

    def _collect(self) -> None:
        for query in (*self.engine.dropped, *self.engine.queries.values()):
            of = self.found.setdefault(query.name, {"rows": [], "late": [], "dead": []})
            for result in query.drain():
                values = zip(*map(physical_list, result.batch.columns), strict=True)
                of["rows"] += zip(result.positions.tolist(), values, strict=True)
            for letter in query.drain_letters():
                of[letter.kind].append((letter.position, letter.stream, letter.reason))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, floats but for their last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or math.isclose(one, other, rel_tol=1e-12)
    return type(one) is type(other) and bool(one == other)


def same_rows(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        p == q and len(row) == len(its) and all(map(same, row, its))
        for (p, row), (q, its) in zip(one, other, strict=True)
    )


def check(steps: list[Step], wanted: Found, got: Found) -> None:
    """The rows, late tuples and dead letters that came are those that are meant, reasons too."""
    for step in steps:
        note(f"{step.verb} {step.subject} {step.value}")
    texts = {step.subject: step.value for step in steps if step.verb in ("install", "derive")}
    for name, text in texts.items():
        came = got.get(name, {"rows": [], "late": [], "dead": []})
        if name != "D":
            meant = wanted[name]["rows"]
            assert same_rows(came["rows"], meant), f"{name}: {came['rows']} is not {meant}"
        for kind in ("late", "dead"):
            # Of joins the oracle tells the reason in ticks.
            length = 3 if "SLIDE" in text or kind == "dead" else 2
            found, meant = (sorted(f[kind]) for f in (came, wanted[name]))
            assert [x[:length] for x in found] == [x[:length] for x in meant], f"{kind} of {name}"


def compare(steps: list[Step], sizes: list[int], times: Times = INT64, **options: Any) -> None:
    wanted = on_oracle(steps, times)
    check(steps, wanted, Run(Engine(**options)).feed(as_events(steps, times), sizes))


SIZES = st.lists(st.sampled_from((1, 1, 2, 3, 5, 50)), min_size=1, max_size=3)
BATCHES = st.sampled_from((1, 2, 7, 1000))
# The fuzz profile asks for more than this, and gets it.
MANY = settings(max_examples=max(400, settings().max_examples))
SOME = settings(max_examples=max(150, settings().max_examples))


@MANY
@given(aggregate_scripts(), SIZES, BATCHES)
def test_aggregates_are_the_oracles(steps: list[Step], sizes: list[int], batch_rows: int) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@MANY
@given(aggregate_scripts(derived=True), SIZES, BATCHES)
def test_aggregates_over_derived_streams_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@SOME
@given(
    st.booleans().flatmap(lambda derived: aggregate_scripts(derived=derived)),
    SIZES,
    BATCHES,
    st.sampled_from(sorted(TIMES)),
)
def test_aggregates_are_the_oracles_whatever_the_type_of_time(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str
) -> None:
    compare(steps, sizes, TIMES[times], batch_rows=batch_rows, compile_predicates=False)


@given(
    st.booleans().flatmap(lambda derived: aggregate_scripts(derived=derived)),
    SIZES,
    BATCHES,
    st.sampled_from(sorted(TIMES)),
    st.integers(0, 40),
)
def test_aggregates_of_modules_are_the_oracles_even_if_restored(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str, saved: int
) -> None:
    steps = of_one_size(steps)
    wanted = on_oracle(steps, TIMES[times])
    events = as_events(steps, TIMES[times], "wid")
    run = Run(Engine(batch_rows=batch_rows, compile_predicates=False))
    run.feed(events[:saved], sizes)
    if saved < len(events):
        run.engine = saved_and_restored(run.engine)
        run.feed(events[saved:], sizes)
    check(steps, wanted, run.found)
