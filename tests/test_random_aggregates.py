"""Random aggregates: the embedded engine gives the oracle's rows, however its input is cut."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from penstock.engines.local.engine import Engine
from penstock.engines.local.state import restore
from penstock.errors import PenstockError
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import Change, CreateStream, Derive, Drop, Install
from penstock.streams.events import End, Malformed, Punctuation, Tuples
from penstock.streams.literals import physical_list
from penstock.streams.schema import Stream
from tests.effort import examples
from tests.random_aggregates import TIMES, aggregate_scripts, with_times
from tests.random_scripts import Step, Times
from tests.test_random_scripts import BATCHES, SIZES, batch_of

INT64 = TIMES["int64"]
Found = dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """A change that needs rows which a LIMIT has discarded."""

    change: Change

    def check(self, make: Callable[[], Any]) -> None:
        """The error says so, and what to do."""
        with pytest.raises(PenstockError) as caught:
            make()
        assert str(caught.value) == (
            f"query {self.change.query!r} holds no more rows for its end than its LIMIT asks for; "
            "a change cannot give it another ORDER BY or a larger LIMIT\n"
            "Install it as a new query and drop this one."
        )


def as_events(
    steps: list[Step], times: Times, kernel: str | None = None, encoded: bool = False
) -> list[Any]:
    """The script as an engine takes it; None ends all streams.

    ``encoded``: most tuples have words that are dictionary-encoded, each with its own dictionary.
    """
    events: list[Any] = [CreateStream(stream) for stream in times.streams.values()]
    for number, step in enumerate(steps):
        if step.verb == "tuple":
            batch = batch_of(step.subject, step.value, times)
            batch = with_dictionary(batch) if encoded and number % 5 else batch
            events.append(Tuples(step.subject, batch))
        elif step.verb == "empty":
            schema = times.streams[step.subject].schema
            events.append(Tuples(step.subject, pa.RecordBatch.from_pylist([], schema)))
        elif step.verb == "punctuate":
            events.append(Punctuation(step.subject, times.physical(step.value)))
        elif step.verb == "malformed":
            events.append(Malformed(step.subject, step.value, "no tuple"))
        elif step.verb == "end":
            events.append(End(step.subject) if step.subject else None)
        elif step.verb == "drop":
            events.append(Drop(step.subject))
        elif step.verb == "refuse":
            events.append(Refused(Change(step.subject, with_times(step.value, times))))
        else:
            kind = {"install": Install, "change": Change, "derive": Derive}[step.verb]
            event = kind(step.subject, with_times(step.value, times))
            if step.verb == "install" and "[RANGE" in step.value and "SLIDE" in step.value:
                event = replace(event, kernel=kernel)
            events.append(event)
    return events


def with_dictionary(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its words in a dictionary that has one more."""
    words = pa.array(["?", *batch.column(3).drop_null().to_pylist()])
    code = pa.array([None if batch.column(3).null_count else 1], pa.int8())
    columns = [*batch.columns[:3], pa.DictionaryArray.from_arrays(code, words), batch.column(4)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def on_oracle(steps: list[Step], times: Times = INT64) -> Found:
    """The oracle's rows, late tuples and dead letters of each query of a script."""
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
        elif isinstance(event, Refused):
            event.check(partial(oracle.change, event.change.query, event.change.text))
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


def run_on(
    engine: Any,
    steps: list[Step],
    sizes: list[int],
    times: Times = INT64,
    settle: Callable[[Any], Any] = lambda engine: engine,
    kernel: str | None = None,
    encoded: bool = False,
) -> Found:
    """An engine's output for a script fed in batches of these sizes.

    ``settle`` is called after every batch and returns the engine to continue with. ``kernel`` is
    used by the queries that it can serve, ``encoded`` is as in :func:`as_events`.
    """
    found: Found = {}
    waiting: list[Any] = []
    for number, event in enumerate(as_events(steps, times, kernel, encoded)):
        if event is None:
            engine.feed(waiting)
            engine.end()
            waiting = []
        elif isinstance(event, Refused):
            engine.feed(waiting)
            waiting = []
            event.check(partial(engine.feed, [event.change]))
        else:
            waiting.append(event)
        if len(waiting) >= sizes[number % len(sizes)]:
            engine.feed(waiting)
            waiting = []
            engine = settle(engine)
            collect(engine, found)
    engine.feed(waiting)
    collect(settle(engine), found)
    return found


def collect(engine: Any, found: Found) -> None:
    """Add what has come since the last time."""
    for query in (*engine.dropped, *engine.queries.values()):
        of = found.setdefault(query.name, {"rows": [], "late": [], "dead": []})
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
    check(steps, on_oracle(steps, times), run_on(Engine(**options), steps, sizes, times))


SCRIPTS = st.booleans().flatmap(lambda derived: aggregate_scripts(derived=derived))
MANY = examples(100)
SOME = examples(100)


@MANY
@given(aggregate_scripts(), SIZES, BATCHES, st.booleans())
def test_aggregates_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int, encoded: bool
) -> None:
    engine = Engine(batch_rows=batch_rows, compile_predicates=False)
    check(steps, on_oracle(steps), run_on(engine, steps, sizes, encoded=encoded))


@MANY
@given(aggregate_scripts(derived=True), SIZES, BATCHES)
def test_aggregates_over_derived_streams_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@SOME
@given(
    SCRIPTS,
    SIZES,
    BATCHES,
    st.sampled_from(sorted(TIMES)),
)
def test_aggregates_are_the_oracles_whatever_the_type_of_time(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str
) -> None:
    compare(steps, sizes, TIMES[times], batch_rows=batch_rows, compile_predicates=False)


def of_one_size(steps: list[Step]) -> list[Step]:
    """The script without the changes of a RANGE that slides: window modules do not take them."""
    sizes: dict[str, str] = {}
    kept = []
    for step in steps:
        if step.verb in ("install", "change"):
            found = re.search(r"\[RANGE (\d+) SLIDE", step.value)
            size = found[1] if found else ""
            if step.verb == "change" and sizes.get(step.subject, size) != size:
                continue
            sizes[step.subject] = size
        kept.append(step)
    return kept


@SOME
@given(
    SCRIPTS,
    SIZES,
    BATCHES,
    st.sampled_from(sorted(TIMES)),
)
def test_aggregates_by_window_modules_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str
) -> None:
    steps, kind = of_one_size(steps), TIMES[times]
    engine = Engine(batch_rows=batch_rows, compile_predicates=False)
    check(steps, on_oracle(steps, kind), run_on(engine, steps, sizes, kind, kernel="wid"))


@SOME
@given(
    SCRIPTS,
    SIZES,
    st.sampled_from(("panes", "wid")),
)
def test_aggregates_go_on_from_a_saved_state(
    steps: list[Step], sizes: list[int], kernel: str
) -> None:
    if kernel == "wid":
        steps = of_one_size(steps)
    pieces = itertools.count(1)
    with tempfile.TemporaryDirectory() as folder:

        def saved(engine: Engine) -> Engine:
            if next(pieces) % 4:
                return engine
            engine.save(Path(folder) / "state")
            return restore(Path(folder) / "state", compile_predicates=False)

        found = run_on(Engine(compile_predicates=False), steps, sizes, settle=saved, kernel=kernel)
    check(steps, on_oracle(steps), found)


LARGE = Stream.of(
    "R",
    pa.schema({"t": pa.int64(), "x": pa.int64(), "d": pa.decimal128(38, 2), "k": pa.bool_()}),
    bounded=True,
)
LARGE_INTEGERS = st.sampled_from((1, -1, 2**63 - 1, -(2**63), 2**62))
LARGE_DECIMALS = st.sampled_from(tuple(map(Decimal, ("1.00", "-1.00", f"{10**35}.00"))))
ROWS = st.tuples(st.integers(0, 30), LARGE_INTEGERS, LARGE_DECIMALS, st.booleans())
SUMS = (
    "SELECT k, SUM(x) AS s FROM R [RANGE 10 SLIDE 5 WATTR t SLACK 4] GROUP BY k",
    "SELECT SUM(d) AS s, window_start FROM R [RANGE 7 SLIDE 5 WATTR t SLACK 4]",
    "SELECT SUM(x) AS s, COUNT(*) AS n FROM R [ROWS 4 SLIDE 3]",
    "SELECT k, AVG(d) AS a, SUM(x) AS s FROM R GROUP BY k",
)


@SOME
@given(st.lists(ROWS, max_size=25), st.sampled_from(SUMS), BATCHES)
def test_a_sum_that_does_not_fit_stops_the_query_at_its_window(
    rows: list[Any], text: str, piece: int
) -> None:
    columns = [[row[index] for row in rows] for index in range(len(LARGE.schema))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, LARGE.schema, strict=True)],
        schema=LARGE.schema,
    )
    batches = [batch.slice(start, piece) for start in range(0, len(rows), piece)]
    events = [*(Tuples("R", part) for part in batches), End("R")]
    oracle, engine = Oracle(), Engine()
    oracle.create_stream(LARGE)
    oracle.install("q", text)
    engine.feed([CreateStream(LARGE), Install("q", text)])
    stopped = [failure(oracle.feed, [event]) for event in events]
    failed = [failure(engine.feed, [event]) for event in events]
    found: Found = {}
    collect(engine, found)
    assert same_rows(found["q"]["rows"], oracle.rows["q"])
    assert failed == [
        error
        and (f"query 'q' is stopped: {error[0]}; every other query has taken the input", error[1])
        for error in stopped
    ]


def failure(feed: Any, events: list[Any]) -> tuple[str, str] | None:
    """The text of the error, if there is one."""
    try:
        feed(events)
    except PenstockError as error:
        return error.what, error.remedy
    return None
