"""Random scripts: the embedded engine gives the oracle's rows, whatever its batch size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from penstock.engines.local.engine import Engine
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import Change, CreateStream, Derive, Drop, Install
from penstock.streams.events import End, Malformed, Punctuation, Tuples
from penstock.streams.literals import physical_list
from tests.effort import examples
from tests.random_scripts import TIMES, Step, Times, scripts
from tests.thresholds import low_thresholds

INT64 = TIMES["int64"]


def batch_of(stream: str, row: tuple[Any, ...], times: Times) -> pa.RecordBatch:
    schema = times.streams[stream].schema
    time = None if row[0] is None else times.physical(row[0])
    arrays = [physical_array([time], times.type)]
    arrays += [pa.array([v], f.type) for v, f in zip(row[1:], list(schema)[1:], strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def physical_array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    storage = {"date32[day]": pa.int32()}.get(str(kind), pa.int64())
    moment = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return pa.array(values, storage).cast(kind) if moment else pa.array(values, kind)


def as_events(steps: list[Step], times: Times = INT64) -> list[Any]:
    """The script as an engine takes it; None ends all streams."""
    events: list[Any] = [CreateStream(stream) for stream in times.streams.values()]
    for step in steps:
        if step.verb == "tuple":
            events.append(Tuples(step.subject, batch_of(step.subject, step.value, times)))
        elif step.verb == "punctuate":
            events.append(Punctuation(step.subject, times.physical(step.value)))
        elif step.verb == "malformed":
            events.append(Malformed(step.subject, step.value, "no tuple"))
        elif step.verb == "end":
            events.append(End(step.subject) if step.subject else None)
        elif step.verb == "drop":
            events.append(Drop(step.subject))
        else:
            kind = {"install": Install, "change": Change, "derive": Derive}[step.verb]
            events.append(kind(step.subject, times.text(step.value)))
    return events


def on_oracle(steps: list[Step], times: Times = INT64) -> tuple[dict[str, Any], ...]:
    oracle = Oracle()
    for stream in times.streams.values():
        oracle.create_stream(stream)
    for step in steps:
        if step.verb == "tuple":
            oracle.tuples(step.subject, batch_of(step.subject, step.value, times))
        elif step.verb == "punctuate":
            oracle.punctuate(step.subject, times.physical(step.value))
        elif step.verb == "malformed":
            oracle.malformed(step.subject, step.value, "no tuple")
        elif step.verb == "end":
            oracle.end(step.subject or None)
        elif step.verb == "drop":
            oracle.drop(step.subject)
        else:
            getattr(oracle, step.verb)(step.subject, times.text(step.value))
    rows = {name: [(p, tuple(map(plain, row))) for p, row in r] for name, r in oracle.rows.items()}
    late = {name: sorted((p, s) for p, s, _ in found) for name, found in oracle.late.items()}
    dead = {name: sorted((p, s) for p, s, *_ in found) for name, found in oracle.dead.items()}
    return rows, late, dead


def on_engine(
    steps: list[Step], sizes: list[int], times: Times = INT64, **options: Any
) -> tuple[dict[str, Any], ...]:
    return run_on(Engine(**options), steps, sizes, times)


def run_on(
    engine: Any,
    steps: list[Step],
    sizes: list[int],
    times: Times = INT64,
    settle: Callable[[Any], Any] = lambda engine: engine,
) -> tuple[dict[str, Any], ...]:
    """An engine's output for a script fed in batches of these sizes.

    ``settle`` is called after every batch and returns the engine to continue with.
    """
    output = _Output()

    def collect() -> None:
        output.collect((*engine.dropped, *engine.queries.values()))

    waiting = []
    events = as_events(steps, times)
    for number, event in enumerate(events):
        if event is None:
            engine.feed(waiting)
            engine.end()
            waiting = []
        else:
            waiting.append(event)
        if len(waiting) >= sizes[number % len(sizes)]:
            engine.feed(waiting)
            waiting = []
            engine = settle(engine)
            collect()
    engine.feed(waiting)
    engine = settle(engine)
    collect()
    return output.found()


def collected(handles: list[Any], first: int) -> tuple[dict[str, Any], ...]:
    """The output of the handles, with positions counted from the first of the script."""
    output = _Output(first)
    output.collect(handles)
    return output.found()


class _Output:
    """Rows and letters by query; positions count from ``first``."""

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._rows: dict[str, list[Any]] = {}
        self._letters: dict[str, list[Any]] = {}

    def collect(self, queries: Iterable[Any]) -> None:
        for query in queries:
            rows = self._rows.setdefault(query.name, [])
            for result in query.drain():
                columns = [physical_list(column) for column in result.batch.columns]
                values = zip(*columns, strict=True)
                rows += [
                    (position - self._first, tuple(map(plain, row)))
                    for position, row in zip(result.positions.tolist(), values, strict=True)
                ]
            self._letters.setdefault(query.name, []).extend(query.drain_letters())

    def found(self) -> tuple[dict[str, Any], ...]:
        late, dead = (
            {
                name: sorted((x.position - self._first, x.stream) for x in found if x.kind == kind)
                for name, found in self._letters.items()
            }
            for kind in ("late", "dead")
        )
        return self._rows, late, dead


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def compare(steps: list[Step], sizes: list[int], times: Times = INT64, **options: Any) -> None:
    check(steps, on_oracle(steps, times), on_engine(steps, sizes, times, **options))


def in_any_order(found: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """What was found, each query's rows by position, where no order is promised."""
    rows, *letters = found
    return {name: sorted(each, key=repr) for name, each in rows.items()}, *letters


def check(
    steps: list[Step], expected: tuple[dict[str, Any], ...], found: tuple[dict[str, Any], ...]
) -> None:
    """The rows, late tuples and dead letters that came are those expected."""
    for step in steps:
        note(f"{step.verb} {step.subject} {step.value}")
    derived = {step.subject for step in steps if step.verb == "derive"}
    for what, wanted, got in zip(("rows", "late", "dead"), expected, found, strict=True):
        for name in wanted.keys() - (derived if what == "rows" else set()):
            assert got.get(name, []) == wanted[name], f"{what} of {name}"


SIZES = st.lists(st.sampled_from((1, 1, 2, 3, 5, 50)), min_size=1, max_size=3)
BATCHES = st.sampled_from((1, 2, 7, 1000))
MANY = examples(450)
SOME = examples(200)


@MANY
@given(scripts(), SIZES, BATCHES)
def test_rows_are_the_oracles_by_the_nested_loop(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@pytest.fixture(scope="module")
def eager_indexes() -> Iterator[None]:
    with low_thresholds():
        yield


@MANY
@given(scripts(), SIZES, BATCHES)
def test_rows_are_the_oracles_by_indexes(
    eager_indexes: None, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@MANY
@given(scripts(derived=True), SIZES, BATCHES)
def test_rows_over_derived_streams_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@SOME
@given(
    st.booleans().flatmap(lambda derived: scripts(derived=derived)),
    SIZES,
    BATCHES,
    st.sampled_from(sorted(TIMES)),
)
def test_rows_are_the_oracles_whatever_the_type_of_time(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str
) -> None:
    compare(steps, sizes, TIMES[times], batch_rows=batch_rows, compile_predicates=False)


def without_slack(step: Step) -> Step:
    """A query with none of its windows having a SLACK."""
    return replace(step, value=re.sub(r" SLACK \d+", "", step.value))


@MANY
@given(scripts(derived=True), SIZES, BATCHES)
def test_no_row_of_a_derived_stream_is_late_without_slack(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    """As long as the sources respect their punctuations, and derived columns keep their meaning."""
    derived = {step.subject for step in steps if step.verb == "derive"}
    kept = [
        without_slack(step) if step.verb in ("install", "change") else step
        for step in steps
        if step.verb != "punctuate" and (step.verb != "change" or step.subject not in derived)
    ]
    _, late, _ = on_engine(kept, sizes, batch_rows=batch_rows, compile_predicates=False)
    of_derived = {n: [x for x in found if x[1] in derived] for n, found in late.items()}
    assert not any(of_derived.values()), of_derived
