"""Aggregates on the embedded engine: state, memory, both kernels, and queries that are stopped."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.random_aggregates import aggregate_scripts
from tests.random_scripts import Step
from tests.test_random_aggregates import INT64, SIZES, Run, as_events, check, on_oracle

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import PenstockError
from penstock.program.instructions import Change, Install

SCRIPTS = st.booleans().flatmap(lambda derived: aggregate_scripts(derived=derived))


class Restored(Run):
    """A script on an engine that is saved and restored after every piece."""

    def _collect(self) -> None:
        super()._collect()
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "state")
            self.engine = ps.restore(Path(folder) / "state")


@settings(max_examples=max(60, settings().max_examples // 10))
@given(SCRIPTS, SIZES)
def test_an_engine_that_is_restored_all_the_time_gives_the_oracles_rows(
    steps: list[Step], sizes: list[int]
) -> None:
    engine = Engine(compile_predicates=False, batch_rows=3)
    check(steps, on_oracle(steps), Restored(engine).feed(as_events(steps, INT64), sizes))


def on_modules(events: list[Any]) -> list[Any]:
    """The script with every aggregate on window modules that can be, and without changes."""
    kept = [event for event in events if not isinstance(event, Change)]
    engine = Engine(compile_predicates=False)
    for i, event in enumerate(kept):
        if isinstance(event, Install):
            forced = Install(event.query, event.text, kernel="wid")
            try:
                engine.registry.program(event.text, None, "wid")
            except PenstockError:
                forced = event
            kept[i] = forced
        if event is not None and not hasattr(event, "batch"):
            engine.feed([kept[i]])
    return kept


@settings(max_examples=max(60, settings().max_examples // 10))
@given(SCRIPTS, SIZES, st.sampled_from((1, 2, 1000)))
def test_window_modules_give_the_oracles_rows(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    steps = [step for step in steps if step.verb != "change"]
    engine = Engine(compile_predicates=False, batch_rows=batch_rows)
    events = on_modules(as_events(steps, INT64))
    note([event for event in events if isinstance(event, Install)])
    check(steps, on_oracle(steps), Run(engine).feed(events, sizes))
