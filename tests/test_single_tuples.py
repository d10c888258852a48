"""Single-tuple pushes give the oracle's rows, on every path through the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.streams.events import Tuples
from penstock.streams.literals import physical_list
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import SOME, as_events, on_oracle, plain


class Driver:
    """An engine that gets a script's tuples by push, and is saved and restored on the way."""

    def __init__(self, path: Path, after: list[str]) -> None:
        self.engine = Engine(compile_predicates=False)
        self.engine._single_pushes.patience = 0
        self.rows: dict[str, list[Any]] = {}
        self.taken = 0
        self._path = path
        self._after = after

    def run(self, steps: list[Step]) -> None:
        """Send every step; after each, do what is next in turn: nothing, drain, restore."""
        waiting: list[Any] = []
        for number, event in enumerate(as_events(steps)):
            then = self._after[number % len(self._after)]
            if event is None:
                self._feed(waiting)
                self.engine.end()
            elif isinstance(event, Tuples) and then != "wait":
                self._feed(waiting)
                values = [physical_list(column)[0] for column in event.batch.columns]
                row = dict(zip(event.batch.schema.names, values, strict=True))
                self.engine.push(event.stream, [row])
            else:
                waiting.append(event)
            if then == "drain":
                self._feed(waiting)
                self.collect()
            elif then == "restore":
                self._feed(waiting)
                self.restore()
        self._feed(waiting)
        self.collect()
        self.taken += self.engine._single_pushes.fast_tuples

    def _feed(self, waiting: list[Any]) -> None:
        self.engine.feed(waiting)
        waiting.clear()

    def restore(self) -> None:
        for query in self.engine.dropped:
            self._drain(query)  # what has been dropped is not saved
        self.taken += self.engine._single_pushes.fast_tuples
        self.engine.save(self._path)
        self.engine = ps.restore(str(self._path))
        self.engine._single_pushes.patience = 0

    def collect(self) -> None:
        for query in (*self.engine.dropped, *self.engine.queries.values()):
            self._drain(query)

    def _drain(self, query: Any) -> None:
        for result in query.drain():
            values = zip(*(physical_list(column) for column in result.batch.columns), strict=True)
            self.rows.setdefault(query.name, []).extend(
                (position, tuple(map(plain, row)))
                for position, row in zip(result.positions.tolist(), values, strict=True)
            )


@pytest.fixture(scope="module")
def singly_in_plain_python() -> Iterator[Counter[str]]:
    """Kernels are not compiled, segments hold a tuple or two. Counts who was taken singly."""
    ways: Counter[str] = Counter()
    with tuning.given(longest_tail=2, candidate_share=2.0, most_loose_texts=3):
        yield ways
    # The comparison below proves little unless many tuples took the single-tuple path.
    assert ways["singly"] * 4 > ways["pushed"], ways


THEN = st.lists(
    st.sampled_from(("nothing",) * 6 + ("drain", "wait", "restore")), min_size=1, max_size=5
)


@pytest.mark.long
@SOME
@given(scripts(count_windows=True), THEN)
def test_tuples_pushed_one_by_one_give_the_oracles_rows(
    singly_in_plain_python: Counter[str],
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[Step],
    then: list[str],
) -> None:
    driver = Driver(tmp_path_factory.getbasetemp() / "engine.penstock", then)
    driver.run(steps)
    for name, wanted in on_oracle(steps)[0].items():
        assert driver.rows.get(name, []) == wanted, name
    singly_in_plain_python["singly"] += driver.taken
    singly_in_plain_python["pushed"] += sum(step.verb == "tuple" for step in steps)
