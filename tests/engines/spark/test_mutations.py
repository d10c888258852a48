"""Break the Spark engine on purpose: the random scripts must notice each of these."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.in_process import Cluster, connected
from tests.engines.spark.test_in_process import settled
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import check, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock.blocks.join.matcher import Matcher
from penstock.blocks.run import Share
from penstock.blocks.window.window import StoredWindow
from penstock.engines.spark.core import host
from penstock.engines.spark.core.trigger import CoreMemory
from penstock.engines.spark.resident import delivery
from penstock.engines.spark.resident.result_files import Results
from penstock.errors import QueryFailed, StateError
from penstock.kernels.probe.entry_index import EntryIndex

Patch = pytest.MonkeyPatch


def every_core_stores_every_tuple(patch: Patch) -> None:
    patch.setattr(Share, "owns", lambda self, numbers: np.ones(len(numbers), np.bool_))


def no_core_stores_the_tuples_of_the_last(patch: Patch) -> None:
    owns = Share.owns
    patch.setattr(Share, "owns", lambda self, n: owns(self, n) & (self.core < self.cores - 1))


def memory_is_trusted_without_its_token(patch: Patch) -> None:
    def take(self: Any, place: Any, token: str) -> Any:
        return self._cores.pop(place, ("", None))[1]

    patch.setattr(CoreMemory, "take", take)


def a_failed_attempt_leaves_its_host_behind(patch: Patch) -> None:
    def take(self: Any, place: Any, token: str) -> Any:
        known, core = self._cores.get(place, ("", None))
        return core if known == token else None

    patch.setattr(CoreMemory, "take", take)


def frames_are_taken_as_they_come(patch: Patch) -> None:
    patch.setattr(host, "sorted", lambda frames, key: list(frames), raising=False)


def a_batch_is_taken_again(patch: Patch) -> None:
    patch.setattr(Results, "keep", lambda self, number, table: True)


def rows_of_cores_are_not_merged(patch: Patch) -> None:
    opened = delivery.open_batch
    patch.setattr(delivery, "open_batch", lambda number, table, cores: opened(number, table, 1))


def indexes_find_nothing(patch: Patch) -> None:
    nothing = np.empty(0, np.int64)
    patch.setattr(EntryIndex, "_search_segment", lambda self, *_: (nothing, 0))


def a_window_that_is_loaded_or_packed_keeps_its_old_keys(patch: Patch) -> None:
    rebuild = Matcher.rebuild

    def once(self: Any) -> None:
        if not any(len(side.rows) for side in self._sides):
            rebuild(self)

    patch.setattr(Matcher, "rebuild", once)


def a_third_window_is_loaded_without_its_oldest_tuple(patch: Patch) -> None:
    load = StoredWindow.load

    def loaded(self: Any, state: Any) -> None:
        load(self, state)
        if self.index > 1 and len(self.rows):
            self._drop(self.rows.first + 1, 1)

    patch.setattr(StoredWindow, "load", loaded)


BREAKAGES = (
    every_core_stores_every_tuple,
    no_core_stores_the_tuples_of_the_last,
    memory_is_trusted_without_its_token,
    a_failed_attempt_leaves_its_host_behind,
    frames_are_taken_as_they_come,
    a_batch_is_taken_again,
    rows_of_cores_are_not_merged,
    indexes_find_nothing,
    a_window_that_is_loaded_or_packed_keeps_its_old_keys,
    a_third_window_is_loaded_without_its_oldest_tuple,
)


GIVEN = given(scripts(), st.sampled_from(([50], [3])), st.integers(0, 1 << 30))


def compare(steps: list[Step], sizes: list[int], seed: int) -> None:
    expected = on_oracle(steps)
    cluster = Cluster(random.Random(seed))
    options = {"batch_rows": 7, "compile_predicates": False, "cores": 2}
    with low_thresholds(), connected(cluster, **options) as engine:
        check(steps, expected, run_on(engine, steps, sizes, settle=settled))


@pytest.mark.long
@examples(100)
@GIVEN
def test_what_is_whole_passes(steps: list[Step], sizes: list[int], seed: int) -> None:
    compare(steps, sizes, seed)


# As many examples whatever the profile: fewer would not notice what is broken.
@settings(max_examples=300, phases=[Phase.generate], database=None)
@GIVEN
def compare_many(steps: list[Step], sizes: list[int], seed: int) -> None:
    compare(steps, sizes, seed)


@pytest.mark.long
@pytest.mark.product(1)
@pytest.mark.parametrize("broken", BREAKAGES, ids=lambda broken: broken.__name__)
def test_random_scripts_notice(broken: Callable[[Patch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises((AssertionError, QueryFailed, StateError)):
            compare_many()
