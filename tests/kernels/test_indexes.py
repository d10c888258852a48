"""Every index finds what the nested loop finds, on friendly and on hostile data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.thresholds import low_thresholds

from penstock.blocks.join.matcher import Matcher
from penstock.engines.local.engine import Engine
from penstock.errors import InputError
from penstock.streams.events import Merged
from penstock.streams.schema import Stream

R = Stream.of(
    "R",
    pa.schema(
        {"t": pa.int64(), "i": pa.int32(), "k": pa.int64(), "f": pa.float32(), "s": pa.string()}
    ),
    bounded=True,
)
S = Stream.of("S", R.schema, bounded=True)

HASHED = {
    "r.i = s.i": "hash",
    "r.k = s.k AND r.s = s.s": "hash",
    "r.s = s.s": "hash",
    "r.f = s.f": "hash",
    "r.i = s.k + 1 AND r.f < s.f": "hash",
}
RANGED = {
    "r.i BETWEEN s.i - 2 AND s.i + 2": "band",
    "r.i BETWEEN s.i - 2 AND s.i + 2 AND r.f BETWEEN s.f - 1.5e0 AND s.f + 1.5e0": "band",
    "ABS(r.f - s.f) <= 0.25": "band",
    "ABS(r.k - s.k) < 3 AND r.s <> s.s": "band",
    "r.k >= s.k AND r.k <= s.k + 1": "band",
    "s.f > r.f - 1e0 AND s.f < r.f + 2e0 AND r.i <> s.i": "band",
    "r.i < s.i": "sorted",
    "r.f >= s.f AND r.i <> s.i": "sorted",
    "r.k - s.k > 2": "sorted",
}
WINDOWS = ("[ROWS 40]", "[ROWS 1]", "[RANGE 30 WATTR t SLACK 9]", "[UNBOUNDED]")


def column(rng: np.random.Generator, shape: str, count: int) -> np.ndarray[Any, Any]:
    """Whole numbers of some distribution."""
    if shape == "equal":
        return np.full(count, 7)
    if shape == "zipf":
        return np.minimum(rng.zipf(1.3, count), 1 << 30)
    if shape == "sorted":
        return np.arange(count)
    if shape == "drifting":
        return np.arange(count) // 3 + rng.integers(0, 4, count)
    if shape == "extreme":
        edges = np.array([-(1 << 31), (1 << 31) - 1, 0, -1, 1])
        return edges[rng.integers(0, len(edges), count)]
    return rng.integers(-20, 20, count)


def arrivals(seed: int, shape: str, count: int, nulls: bool) -> Merged:
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 2, count).astype(np.int8)
    batches = []
    for side in (0, 1):
        at = np.flatnonzero(which == side)
        rows = len(at)
        numbers = column(rng, shape, rows)
        floats = numbers.astype(np.float32) / 4
        special = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
        odd = rng.random(rows) < 0.05
        floats[odd] = special[rng.integers(0, 4, int(odd.sum()))]
        large = numbers.astype(np.int64)
        if shape == "extreme":
            ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, 5])
            large = ends[rng.integers(0, 4, rows)]
        gone = (rng.random(rows) < 0.1) if nulls else np.zeros(rows, np.bool_)
        words = np.array(["a", "b", "", "ab"])[numbers % 4]
        arrays = [
            pa.array(at - rng.integers(0, 9, rows), pa.int64()),
            pa.array(numbers, pa.int32(), mask=gone),
            pa.array(large, pa.int64(), mask=np.roll(gone, 1)),
            pa.array(floats, pa.float32(), mask=np.roll(gone, 2)),
            pa.array(words, pa.string(), mask=np.roll(gone, 3)),
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=R.schema))
    return Merged(("R", "S"), (batches[0], batches[1]), which)


def rows_of(on: str, window: str, join: str, merged: Merged, batch: int, **how: Any) -> list[Any]:
    options = {name: how.pop(name, None) for name in ("kernel", "flow", "cores")}
    engine = Engine(batch_rows=batch, buffer_rows=1 << 24, **how)
    for stream in (R, S):
        engine.stream(stream.name, stream.schema, bounded=True)
    columns = (
        "r.t AS rt, r.k AS rk"
        if join in ("SEMI JOIN", "ANTI JOIN")
        else "r.t AS rt, s.t AS st, r.k AS rk, s.k AS sk"
    )
    query = engine.install(
        f"SELECT {columns} FROM R {window} AS r {join} S {window} AS s ON {on}", **options
    )
    engine.feed([merged])
    engine.end()
    rows = [row for result in query.drain() for row in zip(result.positions.tolist(), *(
        column.to_pylist() for column in result.batch.columns
    ), strict=True)]  # fmt: skip
    engine.close()
    return rows


def rows_of_every_pair(on: str, window: str, join: str, merged: Merged) -> list[Any]:
    """The rows, with no key and no loop: every pair is evaluated as where sums might overflow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Matcher, "in_range", lambda matcher: False)
        return rows_of(on, window, join, merged, 1000)


@pytest.fixture
def eager() -> Iterator[None]:
    """Indexes are used from the second tuple on, even useless ones."""
    with low_thresholds():
        yield


@pytest.mark.product(3, by="shape")
@pytest.mark.parametrize("on", HASHED | RANGED)
@pytest.mark.parametrize("shape", ["equal", "zipf", "sorted", "drifting", "extreme", "even"])
def test_an_index_finds_what_evaluating_every_pair_finds(eager: None, on: str, shape: str) -> None:
    kernels = [(HASHED | RANGED)[on], None]
    if on in RANGED:
        kernels.append("sorted")
    for number, window in enumerate(WINDOWS):
        merged = arrivals(len(on) + number, shape, 240, nulls=number % 2 == 1)
        join = ("JOIN", "LEFT JOIN", "SEMI JOIN", "FULL JOIN")[number]
        expected = rows_of_every_pair(on, window, join, merged)
        for kernel in kernels:
            batch = (7, 1000, 64)[number % 3]
            how = {"kernel": kernel, "compile_predicates": False}
            assert rows_of(on, window, join, merged, batch, **how) == expected


@examples(60)
@given(
    st.sampled_from(sorted(HASHED | RANGED)),
    st.sampled_from(WINDOWS),
    st.sampled_from(("equal", "zipf", "sorted", "drifting", "extreme", "even")),
    st.sampled_from(("JOIN", "RIGHT JOIN", "ANTI JOIN")),
    st.integers(0, 1 << 20),
    st.sampled_from((1, 5, 33, 400)),
)
def test_random_data_and_batches(
    on: str, window: str, shape: str, join: str, seed: int, batch: int
) -> None:
    with low_thresholds(longest_tail=3):
        merged = arrivals(seed, shape, 120, nulls=bool(seed % 2))
        expected = rows_of_every_pair(on, window, join, merged)
        assert rows_of(on, window, join, merged, batch, compile_predicates=False) == expected


@pytest.mark.product(5)
@pytest.mark.parametrize("on", HASHED | RANGED)
def test_cores_find_the_same_for_single_tuples(eager: None, on: str) -> None:
    """Windows are full and drop tuples, some keys are NULL, and the index is updated often."""
    shapes = ("even", "drifting", "extreme", "zipf")
    for number, (window, shape) in enumerate(zip(WINDOWS, shapes, strict=True)):
        merged = arrivals(len(on) + number, shape, 90, nulls=number % 2 == 1)
        expected = rows_of_every_pair(on, window, "JOIN", merged)
        for kernel in ((HASHED | RANGED)[on], "nested-loop"):
            how: dict[str, Any] = {"kernel": kernel, "flow": "splitjoin", "cores": 2}
            how["compile_predicates"] = False
            rows = rows_of(on, window, "JOIN", merged, 1, **how)
            assert sorted(rows, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("on", ["r.s = s.s", "ABS(r.k - s.k) < 3 AND r.s <> s.s"])
def test_single_probes_notice_that_the_index_has_changed(eager: None, on: str) -> None:
    """A batch that a probe could not take alone brings the index up to date meanwhile."""
    merged = arrivals(len(on) + 3, "zipf", 90, nulls=True)
    expected = rows_of_every_pair(on, "[UNBOUNDED]", "JOIN", merged)
    how: dict[str, Any] = {"kernel": (HASHED | RANGED)[on], "flow": "splitjoin", "cores": 2}
    rows = rows_of(on, "[UNBOUNDED]", "JOIN", merged, 1, compile_predicates=False, **how)
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_single_probes_in_cores_compare_few_of_the_entries_behind_the_segments() -> None:
    """Entries that are in no segment yet are in chains, for cores as for the join block."""
    rng = np.random.default_rng(3)
    table = pa.record_batch({"k": rng.integers(0, 1 << 20, 4_000)})
    with low_thresholds(fewest_linked=8, longest_tail=2_000):
        engine = Engine()
        for name in ("R", "S"):
            engine.stream(name, table.schema)
        query = engine.install(
            "SELECT r.k FROM R [ROWS 8000] AS r JOIN S [ROWS 8000] AS s ON r.k = s.k",
            flow="splitjoin",
            cores=2,
        )
        engine.feed([Merged(("R", "S"), (table, table), np.repeat([0, 1], 4_000).astype(np.int8))])
        engine.push("R", [{"k": 1}])
        compared = query.metrics()["comparisons"]
        for number in range(400):
            engine.push("S", [{"k": 1 << 21}])
            engine.push("R", [{"k": number}])
        compared = query.metrics()["comparisons"] - compared
    assert compared < 800 * 20, "a scan compares 400 with 200 entries on average"


def test_every_index_is_used_where_it_can_be() -> None:
    """A predicate that an index can serve really uses an index."""
    for on, kernel in (HASHED | RANGED).items():
        engine = Engine()
        engine.stream("R", R.schema)
        engine.stream("S", S.schema)
        query = engine.install(
            f"SELECT r.t FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON {on}", kernel=kernel
        )
        (join,) = query.pipeline.of_kind("join")
        assert [stored.keys.index is not None for stored in join.matcher.keys] == [True, True], on


def test_a_large_window_wraps_and_is_indexed_anew() -> None:
    merged = arrivals(5, "even", 30_000, nulls=False)
    on, window = "r.i = s.i AND r.f BETWEEN s.f - 1e0 AND s.f + 1e0", "[ROWS 3000]"
    expected = rows_of(on, window, "JOIN", merged, 30_000, kernel="nested-loop")
    for kernel in (None, "hash", "band"):
        assert rows_of(on, window, "JOIN", merged, 4_000, kernel=kernel) == expected


def test_the_most_selective_condition_is_used() -> None:
    """The equality holds for every pair here, the range for few: the range is indexed."""
    rng = np.random.default_rng(1)
    which = np.tile(np.array([0, 1], np.int8), 4_000)
    table = pa.record_batch({"k": np.zeros(4_000, np.int64), "x": rng.integers(0, 1 << 30, 4_000)})
    engine = Engine(buffer_rows=1 << 24)
    for name in ("R", "S"):
        engine.stream(name, table.schema)
    query = engine.install(
        "SELECT r.x FROM R [ROWS 9999] AS r JOIN S [ROWS 9999] AS s "
        "ON r.k = s.k AND r.x BETWEEN s.x - 9 AND s.x + 9"
    )
    engine.feed([Merged(("R", "S"), (table, table), which)])
    assert query.metrics()["kernels"] == [("band", "band")]
    assert "kernel hash: equality on (r.k = s.k); or a range of (r.x >= (s.x - 9)) and " in (
        query.explain()
    )


def test_equal_keys_everywhere_cost_no_more_than_the_nested_loop() -> None:
    merged = arrivals(1, "equal", 20_000, nulls=False)
    engine = Engine(buffer_rows=1 << 28)
    engine.stream("R", R.schema)
    engine.stream("S", S.schema)
    query = engine.install(
        "SELECT r.t FROM R [ROWS 2000] AS r JOIN S [ROWS 2000] AS s ON r.i = s.i AND r.t = s.t + 1"
    )
    nested = engine.install(
        "SELECT r.t FROM R [ROWS 2000] AS r JOIN S [ROWS 2000] AS s ON r.i = s.i AND r.t = s.t + 1",
        kernel="nested-loop",
    )
    engine.feed([merged])
    assert query.rows().equals(nested.rows())
    assert query.metrics()["comparisons"] <= nested.metrics()["comparisons"]


@pytest.mark.parametrize(
    ("on", "kernel", "message"),
    [
        (
            "r.i < s.i",
            "hash",
            "the kernel 'hash' cannot serve the join predicate (r.i < s.i)\n"
            "It needs an equality between a column of each side; leave the kernel out, or write "
            "nested-loop.",
        ),
        (
            "r.i = s.i",
            "band",
            "the kernel 'band' cannot serve the join predicate (r.i = s.i)\n"
            "It needs a column of one side between two bounds of the other; leave the kernel out, "
            "or write nested-loop.",
        ),
        (
            "r.i = s.i OR r.k = s.k",
            "sorted",
            "the kernel 'sorted' cannot serve the join predicate ((r.i = s.i) OR (r.k = s.k))\n"
            "It needs an inequality between a column of each side; leave the kernel out, or write "
            "nested-loop.",
        ),
        (
            "TRUE",
            "grid",
            "unknown kernel 'grid'\nWrite one of: nested-loop, hash, band, sorted, panes, wid.",
        ),
    ],
)
def test_a_kernel_that_cannot_serve_is_refused(on: str, kernel: str, message: str) -> None:
    engine = Engine()
    engine.stream("R", R.schema)
    engine.stream("S", S.schema)
    with pytest.raises(InputError) as caught:
        engine.install(
            f"SELECT r.t FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON {on}", kernel=kernel
        )
    assert str(caught.value) == message


def test_an_index_that_cannot_tell_tuples_apart_is_given_up() -> None:
    """No pair of the sample satisfies the second condition, but all keys are in one cell."""
    which = np.tile(np.array([0, 1], np.int8), 4_000)
    table = pa.record_batch({"k": np.full(4_000, 7)})
    engine = Engine(buffer_rows=1 << 24)
    for name in ("R", "S"):
        engine.stream(name, table.schema)
    query = engine.install(
        "SELECT r.k FROM R [ROWS 4000] AS r JOIN S [ROWS 4000] AS s "
        "ON r.k BETWEEN s.k - 1 AND s.k + 1 AND r.k * 2 - s.k * 2 = 1"
    )
    merged = Merged(("R", "S"), (table, table), which)
    engine.feed([merged, merged])  # it is tried twice, then not for a long time
    assert query.metrics()["kernels"] == [("nested-loop", "nested-loop")]
    before = query.metrics()["comparisons"]
    engine.feed([merged])
    # The work of the nested loop only, without that of the index.
    assert query.metrics()["comparisons"] - before == 8_000 * 4_000
    assert query.rows().num_rows == 0


def kernels_after(batches: list[np.ndarray[Any, Any]]) -> object:
    """The kernels of an equality over count windows of 3,000 after these keys, pushed in turn."""
    engine = Engine(buffer_rows=1 << 24)
    for name in ("R", "S"):
        engine.stream(name, pa.schema({"k": pa.int64()}))
    query = engine.install(
        "SELECT r.k FROM R [ROWS 3000] AS r JOIN S [ROWS 3000] AS s ON r.k = s.k AND r.k + s.k < 0"
    )
    for keys in batches:
        for name in ("R", "S"):
            engine.push(name, pa.table({"k": keys}))
    return query.metrics()["kernels"]


@pytest.mark.parametrize("size", [100, 700, 1_000])
def test_small_batches_are_indexed_too(size: int) -> None:
    rng = np.random.default_rng(2)
    batches = [rng.integers(0, 1 << 40, size) for _ in range(4_000 // size)]
    assert kernels_after(batches) == [("hash", "hash")]


def test_an_index_comes_back_once_it_is_of_use() -> None:
    rng = np.random.default_rng(3)
    equal = [np.full(1_500, 7) for _ in range(8)]
    distinct = [rng.integers(0, 1 << 40, 1_500) for _ in range(8)]
    assert kernels_after(equal) == [("nested-loop", "nested-loop")]
    assert kernels_after([*equal, *distinct]) == [("hash", "hash")]


@pytest.mark.parametrize("on", ["r.f - s.f > 90", "r.f - s.f >= 90", "90 < s.f - r.f"])
def test_a_difference_that_is_nan_is_above_every_bound(on: str) -> None:
    floats = np.arange(2_000, dtype=np.float32) % 100
    floats[::500] = np.nan
    floats[1::500] = np.inf
    found = []
    for kernel in ("nested-loop", None):
        engine = Engine(buffer_rows=1 << 24)
        for name in ("R", "S"):
            engine.stream(name, pa.schema({"f": pa.float32()}))
        query = engine.install(
            f"SELECT r.f, s.f AS g FROM R [ROWS 5000] AS r JOIN S [ROWS 5000] AS s ON {on}",
            kernel=kernel,
        )
        engine.push("R", pa.table({"f": floats}))
        engine.push("S", pa.table({"f": floats}))
        found.append(query.rows().num_rows)
    assert found[0] == found[1] > 2_000 * 8


def test_a_range_that_ends_at_nan_has_every_number_above_its_start(eager: None) -> None:
    starts = np.arange(200, dtype=np.float64) % 50
    ends = starts + 0.5
    ends[::50] = np.nan
    found = []
    for kernel in ("nested-loop", "band"):
        engine = Engine(compile_predicates=False)
        for name in ("R", "S"):
            engine.stream(name, pa.schema({"y": pa.float64(), "z": pa.float64()}))
        query = engine.install(
            "SELECT r.y, s.y AS g FROM R [ROWS 500] AS r JOIN S [ROWS 500] AS s "
            "ON r.y >= s.y AND r.y <= s.z",
            kernel=kernel,
        )
        for name in ("S", "R"):
            engine.push(name, pa.table({"y": starts, "z": ends}))
        found.append(query.rows().num_rows)
        assert query.metrics()["kernels"][0][1] == kernel
    # The four ranges from 0 to NaN have all 200 tuples instead of 4 each.
    assert found == [200 * 4 + 4 * 196] * 2


def test_a_weak_condition_beside_a_one_sided_one_does_not_spoil_its_index() -> None:
    rng = np.random.default_rng(4)
    engine = Engine(buffer_rows=1 << 24)
    for name in ("R", "S"):
        engine.stream(name, pa.schema({"x": pa.int64(), "y": pa.int64()}))
    query = engine.install(
        "SELECT r.x FROM R [ROWS 5000] AS r JOIN S [ROWS 5000] AS s "
        "ON r.x > s.x + 990000 AND ABS(r.y - s.y) <= 1000000"
    )
    for _ in range(4):
        for name in ("R", "S"):
            columns = {column: rng.integers(0, 1_000_000, 5_000) for column in "xy"}
            engine.push(name, pa.table(columns))
    assert query.metrics()["kernels"] == [("sorted", "sorted")]
    assert query.metrics()["comparisons"] < 40_000 * 100


def test_long_words_that_have_gone_are_forgotten() -> None:
    engine = Engine(buffer_rows=1 << 24)
    for name in ("R", "S"):
        engine.stream(name, pa.schema({"w": pa.string()}))
    query = engine.install("SELECT r.w FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON r.w = s.w")
    (join,) = query.pipeline.of_kind("join")
    for start in range(0, 1_000, 100):
        for name in ("R", "S"):
            words = [f"{name}{start + i}" + "w" * 20_000 for i in range(100)]
            engine.push(name, pa.table({"w": words}))
        assert join.matcher.dictionary.nbytes < 24_000_000
