"""Joins of three to six streams, shared among the cores of the Spark engine by Parallel-MJ."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.in_process import Cluster, DictStore, connected, finish
from tests.thresholds import low_thresholds

import penstock as ps
from penstock.blocks.window.window import StoredWindow
from penstock.errors import InputError
from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

NAMES = "ABCDEF"
STREAMS = "; ".join(f"CREATE STREAM {name} (id BIGINT, x INT, t BIGINT)" for name in NAMES)
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("t", pa.int64())])
Arrival = tuple[str, dict[str, Any]]
SAME = ("tuples_in", "rows_out", "late", "matches")


@pytest.fixture(autouse=True)
def early() -> Iterator[None]:
    """Indexes and packed windows early, and chunks of a few tuples."""
    with low_thresholds(full_chunk=4, ranks_per_chunk=3):
        yield


# -- random joins -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """A join over streams; two of them over the same streams, by count and by time alike.

    Parameters
    ----------
    streams
        Their names, perhaps one twice.
    by_count
        For each, whether its window counts tuples.
    links
        Pairs of streams that a condition links.
    """

    streams: str
    by_count: tuple[bool, ...]
    links: tuple[tuple[int, int], ...]

    def sql(self, chance: random.Random) -> str:
        """The text, with windows and conditions by chance."""
        every = range(len(self.streams))
        read = ", ".join(f"{self._stream(i, chance)} AS m{i}" for i in every)
        terms = " AND ".join(_condition(chance).format(*pair) for pair in self.links)
        columns = ", ".join(f"m{i}.id AS c{i}" for i in every)
        return f"SELECT {columns} FROM {read} WHERE {terms} EMIT ORDER inner"

    def _stream(self, number: int, chance: random.Random) -> str:
        window = f"RANGE {chance.choice((4, 9, 20))} WATTR t SLACK 3"
        if self.by_count[number]:
            window = f"ROWS {chance.choice((0, 1, 2, 4))}"
        return f"{self.streams[number]} [{window}]"


def _condition(chance: random.Random) -> str:
    links = ("m{0}.x = m{1}.x",) * 4 + ("m{0}.x BETWEEN m{1}.x - 1 AND m{1}.x", "m{0}.x < m{1}.x")
    return chance.choice(links)


@st.composite
def joins(draw: st.DrawFn) -> Join:
    """Three to six streams in a chain, a star or a cycle, with windows of both kinds."""
    count = draw(st.integers(3, 6))
    streams = NAMES[:count]
    if draw(st.integers(0, 3)) == 0:
        streams = streams[:-1] + streams[0]  # a self-join
    shape = draw(st.sampled_from(("chain", "star", "cycle")))
    links = [(i - 1, i) for i in range(1, count)]
    if shape == "star":
        links = [(0, i) for i in range(1, count)]
    elif shape == "cycle":
        links.append((count - 1, 0))
    by_count = draw(st.tuples(*[st.booleans()] * count))
    return Join(streams, by_count, tuple(links))


def arrivals(join: Join, count: int, chance: random.Random) -> list[Arrival]:
    """Tuples of the streams by chance, out of order, some of them late, some without a time."""
    found: list[Arrival] = []
    for number in range(count):
        t = None if chance.random() < 0.03 else number - chance.choice((0, 0, 0, 2, 3, 5, 9))
        row = {"id": number, "x": chance.choice((0, 1, 2, None)), "t": t}
        found.append((chance.choice(sorted(set(join.streams))), row))
    return found


Step = Arrival | str
"""A tuple, or the text of a change."""
Found = tuple[list[tuple[Any, ...]], Counter[tuple[str, str]]]
"""The rows in their order, and the letters by kind and stream."""


def batch(row: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row], SCHEMA)


def drained(query: Any) -> Found:
    rows = [tuple(row.values()) for row in query.rows().to_pylist()]
    return rows, Counter((one.kind, one.stream) for one in query.drain_letters())


def by_oracle(sql: str, steps: Sequence[Step]) -> Found:
    oracle = Oracle()
    for name in NAMES:
        oracle.create_stream(Stream(name, SCHEMA))
    oracle.install("found", sql)
    for step in steps:
        if isinstance(step, str):
            oracle.change("found", step)
        else:
            oracle.tuples(step[0], batch(step[1]))
    letters = Counter(("late", stream) for _, stream, _ in oracle.late["found"])
    letters += Counter(("dead", stream) for _, stream, *_ in oracle.dead["found"])
    return [row for _, row in oracle.rows["found"]], letters


def take(engine: Any, steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, str):
            engine.change("found", step)
        else:
            engine.push(step[0], batch(step[1]))


def embedded(sql: str, steps: Sequence[Step]) -> tuple[Found, dict[str, Any]]:
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql(STREAMS)
        query = engine.install(sql, "found")
        take(engine, steps)
        return drained(query), query.metrics()


def on_cores(
    sql: str, steps: Sequence[Step], cores: int, chance: random.Random, **options: Any
) -> tuple[Found, dict[str, Any]]:
    """The rows, letters and metrics of an engine that is killed, as its workers are."""
    cluster = Cluster(random.Random(chance.random()))
    rows: list[tuple[Any, ...]] = []
    letters: Counter[tuple[str, str]] = Counter()
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoint"
        rest = list(steps)
        while rest or not measured:
            with connected(
                cluster, checkpoint=place, cores=cores, compile_predicates=False
            ) as engine:
                if engine.position == 0:
                    engine.sql(STREAMS)
                    engine.install(sql, "found", **options)
                here, rest = rest[:25], rest[25:]
                while here:
                    some = chance.choice((1, 2, 7))
                    take(engine, here[:some])
                    here = here[some:]
                    if chance.random() < 0.5:
                        engine._resident.batch()
                finish(engine)
                found = drained(engine.queries["found"])
                measured = engine.queries["found"].metrics()
                engine._checkpoint.close()  # a process that is killed holds no lock any more
            rows += found[0]
            letters += found[1]
    return (rows, letters), measured


@examples(20)
@given(
    joins(),
    st.sampled_from((2, 3)),
    st.sampled_from((None, "parallel", "parallel-circular", "parallel-stashed")),
    st.integers(0, 1 << 30),
)
def test_rows_letters_and_figures_are_the_oracles(
    join: Join, cores: int, design: Any, seed: int
) -> None:
    if design == "parallel-stashed" and len(join.streams) > 3:
        design = "parallel-circular"
    chance = random.Random(seed)
    sql = join.sql(chance)
    steps: list[Step] = [*arrivals(join, 60, chance)]
    for place in chance.sample(range(60), chance.choice((0, 1, 2))):
        steps.insert(place, join.sql(chance))
    note(f"{sql}\n{[step for step in steps if isinstance(step, str)]}")
    expected, figures = embedded(sql, steps)
    assert expected == by_oracle(sql, steps)
    found, measured = on_cores(sql, steps, cores, chance, design=design)
    assert found == expected
    assert {name: measured[name] for name in SAME} == {name: figures[name] for name in SAME}
    # Times out of order: what has expired behind a live tuple is still stored, in its own core.
    assert arrivals_of(measured) == arrivals_of(figures)
    check_cores(measured, cores)


def arrivals_of(figures: dict[str, Any]) -> list[int]:
    """Of each window, how many tuples have come, in time."""
    parts = zip(figures["window_tuples"], figures["expired_tuples"], strict=True)
    return [stored + expired for stored, expired in parts]


def check_cores(measured: dict[str, Any], cores: int) -> None:
    """All cores have all tuples but those of one stream, of which each has its turn."""
    each = measured["cores"]
    assert [core["core"] for core in each] == list(range(cores))
    assert sum(core["matched"] for core in each) == measured["matches"]
    assert sum(core["comparisons"] for core in each) == measured["comparisons"]
    divided = []
    for stream, count in enumerate(arrivals_of(measured)):
        stored = [core["stored"][stream] for core in each]
        assert [core["probed"][stream] for core in each] == stored
        window = [core["window"][stream] for core in each]
        if stored != [count] * cores:
            divided.append(stream)
            assert sum(stored) == count and max(stored) - min(stored) <= 1
            assert sum(window) == measured["window_tuples"][stream]
        else:
            assert window == [measured["window_tuples"][stream]] * cores
    assert len(divided) <= 1, "none, if nothing has come by the divided one"


# -- which stream is divided --------------------------------------------------------------------

CHAIN = (
    "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [ROWS {}] AS a, B [ROWS {}] AS b, "
    "C [ROWS {}] AS c WHERE a.x = b.x AND b.x = c.x EMIT ORDER inner"
)


def equal_keys(count: int) -> list[Arrival]:
    return [("ABC"[n % 3], {"id": n, "x": n % 4, "t": n}) for n in range(count)]


def divided_in(store: DictStore) -> int:
    """Which stream is divided, by the state of a core."""
    texts = {key: text for key, text in store.texts().items() if key.startswith("query ")}
    [summary] = [json.loads(text) for text in texts.values()]
    [divided] = {
        block["values"]["divided"]
        for block in summary["blocks"].values()
        if "divided" in block["values"]
    }
    return int(divided)


@pytest.mark.parametrize("restart", [False, True])
def test_the_divided_stream_stays_the_same_after_a_change(restart: bool, tmp_path: Path) -> None:
    """The largest window is divided; a change makes another one the largest, in vain."""
    given = equal_keys(120)
    before, after = CHAIN.format(5, 9, 8), CHAIN.format(30, 9, 8)
    steps: list[Step] = [*given[:60], after, *given[60:]]
    expected = by_oracle(before, steps)
    assert len(expected[0]) > 200
    cluster = Cluster()
    rows: list[tuple[Any, ...]] = []
    for part in (steps[:50], steps[50:70], steps[70:]):
        with connected(cluster, checkpoint=tmp_path / "checkpoint", cores=2) as engine:
            if engine.position == 0:
                engine.sql(STREAMS)
                engine.install(before, "found")
            take(engine, part)
            finish(engine)
            rows += drained(engine.queries["found"])[0]
            engine._checkpoint.close()
        assert [divided_in(store) for store in cluster.stores.values()] == [1, 1]
        if restart:
            cluster.memory.clear()
    assert rows == expected[0]


def test_a_core_keeps_its_own_tuples_of_the_divided_stream_alone() -> None:
    notes = "; ".join(f"CREATE STREAM {name} (x INT, text STRING)" for name in "ABC")
    sql = (
        "SELECT a.text FROM A [ROWS 100] AS a, B [ROWS 100] AS b, C [ROWS 100] AS c "
        "WHERE a.x = b.x AND b.x = c.x"
    )
    cluster = Cluster()
    with connected(cluster, cores=2) as engine:
        engine.sql(notes)
        engine.install(sql)
        for number in range(40):
            for stream in "ABC":
                text = f"{stream}{number % 2}" * 500
                engine.push(stream, [{"x": number, "text": text}])
        finish(engine)
    for core, store in cluster.stores.items():
        kept = b"".join(store.chunks().values())
        found = {text: kept.count(text * 500) for text in (b"A0", b"A1", b"B0", b"B1", b"C0")}
        own = {b"A0": 20 * (core == 0), b"A1": 20 * (core == 1)}
        assert found == {**own, b"B0": 20, b"B1": 20, b"C0": 20}


@pytest.mark.long
def test_a_packed_window_is_divided_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples get new numbers when a window is packed; each stays with its core."""
    packed: list[bool] = []
    pack = StoredWindow.pack

    def noted(side: StoredWindow) -> Any:
        packed.append(side.share is not None)
        return pack(side)

    monkeypatch.setattr(StoredWindow, "pack", noted)
    sql = (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM A [RANGE 9 WATTR t SLACK 60] AS a, "
        "B [RANGE 9 WATTR t SLACK 60] AS b, C [RANGE 9 WATTR t SLACK 60] AS c "
        "WHERE a.x = b.x AND b.x = c.x EMIT ORDER inner"
    )
    chance = random.Random(5)
    given: list[Step] = [
        (chance.choice("ABC"), {"id": n, "x": n % 2, "t": n - 59 * (chance.random() < 0.8)})
        for n in range(500)
    ]
    expected = by_oracle(sql, given)
    for cores in (2, 3):
        packed.clear()
        found, measured = on_cores(sql, given, cores, random.Random(cores))
        assert found == expected
        assert len(expected[0]) > 200
        assert sum(packed) > cores, "of the divided stream"
        check_cores(measured, cores)


# -- what is said ---------------------------------------------------------------------------------

SHARED = (
    "flow: none, since a join of three and more streams has a design\n"
    "design parallel: {}\n"
    "precision 1\n"
    "distribution: broadcast to 2 cores, each tuple of one stream stored and processed on one, "
    "those of the others on all (the design parallel)"
)
LEFT = (
    "SELECT a.id AS a, c.id AS c FROM A [ROWS 5] AS a JOIN B [ROWS 5] AS b ON a.x = b.x "
    "LEFT JOIN C [ROWS 5] AS c ON b.x = c.x"
)


def test_explain_says_how_the_cores_share_a_join() -> None:
    sql = CHAIN.format(5, 9, 8)
    with connected(Cluster(), cores=2) as engine:
        engine.sql(STREAMS)
        default = engine.explain(sql)
        assert SHARED.format("the one with which Spark's cores share it") in default
        by_program = (
            "asked for\nprobe orders by the program: an equality first, then another condition, "
            "then the smallest count window"
        )
        assert SHARED.format(by_program) in engine.explain(sql, design="parallel")
        for design in ("mjoin", "stashed", "circular", "linear"):
            text = engine.explain(sql, design=design)
            assert f"design {design}: asked for" in text
            assert f"distribution: one core (the design {design} is one core's)" in text
        tree = engine.explain(LEFT)
        assert "design mjoin: one core runs left joins among three and more streams\n" in tree
        assert "distribution: one core (a left join must know whom no core has matched)" in tree
    with connected(Cluster(), cores=1) as engine:
        engine.sql(STREAMS)
        alone = engine.explain(sql)
        assert "design mjoin: estimated cost of an arrival, in comparisons: 12 (mjoin), " in alone
        assert alone.endswith("precision 1\ndistribution: one core")


@pytest.mark.parametrize(
    ("design", "why"),
    [
        ("shared", "its cores share one memory, and tasks of a Spark stage have none in common"),
        (
            "parallel-as-published",
            "it loses rows, and is there to show this on the embedded engine",
        ),
    ],
)
def test_a_design_that_spark_cannot_run_is_refused(design: Any, why: str) -> None:
    with connected(Cluster(), cores=2) as engine:
        engine.sql(STREAMS)
        with pytest.raises(InputError) as caught:
            engine.install(CHAIN.format(5, 5, 5), design=design)
    assert str(caught.value) == (
        f"the design {design} cannot run on Spark: {why}\nAsk for the design parallel, "
        "parallel-circular, parallel-stashed, mjoin, cascade, stashed, circular or linear, or run "
        "it on the embedded engine: ps.connect('local') (--engine local)."
    )


def test_each_core_has_a_stash_and_uses_it() -> None:
    """Of the pairs of its own tuples, which it sees expire; the rows are the oracle's."""
    sql, given = CHAIN.format(5, 9, 8), equal_keys(60)
    cluster = Cluster()
    with connected(cluster, cores=2) as engine:
        engine.sql(STREAMS)
        query = engine.install(sql, "found", design="parallel-stashed", stash=1000)
        told = str(query.explain())
        assert "design parallel-stashed: asked for\nstash of 1000 pairs of " in told
        assert "state: the windows; the stash is made anew after a restart" in told
        assert "(the design parallel-stashed)" in told
        take(engine, given)
        finish(engine)
        assert drained(query) == by_oracle(sql, given)
        figures = [core["stash"] for core in query.metrics()["cores"]]
        assert [len(stashes) for stashes in figures] == [1, 1]
        for [stash] in figures:
            assert stash["state"] == "valid"
            assert stash["fill"] > 0 and stash["hits"] > 0
            assert stash["partial"] == stash["misses"] == 0
        check_cores(query.metrics(), 2)
    cluster.memory.clear()


@pytest.mark.parametrize("design", ["mjoin", "stashed", "circular", "linear"])
def test_the_other_designs_stay_in_one_core(design: Any) -> None:
    sql, given = CHAIN.format(5, 9, 8), equal_keys(40)
    cluster = Cluster()
    with connected(cluster, cores=2) as engine:
        engine.sql(STREAMS)
        with pytest.warns(UserWarning) as warned:
            query = engine.install(sql, "found", design=design)
        [warning] = warned
        assert str(warning.message) == (
            f"query 'found' runs on one of 2 cores: the design {design} is one core's"
        )
        take(engine, given)
        finish(engine)
        assert drained(query) == by_oracle(sql, given)
        count = {"mjoin": 1, "stashed": 2}.get(design, 3)
        assert [core["core"] for core in query.metrics()["cores"]] == list(range(count))
    cluster.memory.clear()


def test_a_query_over_a_derived_stream_stays_in_one_core() -> None:
    sql = (
        "SELECT d.id AS a, b.id AS b, c.id AS c FROM D2 [ROWS 5] AS d, B [ROWS 9] AS b, "
        "C [ROWS 8] AS c WHERE d.x = b.x AND b.x = c.x EMIT ORDER inner"
    )
    given = equal_keys(40)
    with connected(Cluster(), cores=2) as engine:
        engine.sql(f"{STREAMS}; CREATE STREAM D2 AS SELECT id, x FROM A WHERE x >= 0")
        costs = "design mjoin: estimated cost of an arrival, in comparisons: 12 (mjoin), "
        assert costs in engine.explain(sql)
        with pytest.warns(UserWarning, match="it reads a derived stream"):
            query = engine.install(sql, "found")
        take(engine, given)
        finish(engine)
        assert drained(query) == by_oracle(CHAIN.format(5, 9, 8), given)
