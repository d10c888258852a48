"""A block that is defined outside the package: installed, changed and restarted on both engines."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.blocks.contract import Batch, Instructions, Message, Sent
from penstock.blocks.run import Run
from penstock.flows.make import KINDS
from penstock.oracle.oracle import Oracle
from penstock.sql import own_blocks
from penstock.streams.schema import Stream
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.own_blocks.dedup import DedupBlock

STREAM = "CREATE STREAM R (id BIGINT, x BIGINT)"
BY_ID = "SELECT id, x FROM dedup(R, key => id)"
BY_X = "SELECT id, x FROM dedup(R, key => x)"
ROWS = [(1, 5), (1, 6), (2, 6), (2, 6), (1, 6), (1, 7)]


@pytest.fixture(autouse=True)
def dedup() -> Iterator[None]:
    ps.register_block("dedup", DedupBlock)
    yield
    KINDS.pop("dedup", None)
    own_blocks._REGISTERED.pop("dedup", None)


def tuples(*rows: tuple[int, int]) -> list[dict[str, int]]:
    return [{"id": one, "x": x} for one, x in rows]


def found(query: Any) -> list[tuple[int, int]]:
    return [(row["id"], row["x"]) for row in query.rows().to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 6])
def test_it_runs_in_this_process(size: int) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID)
        for start in range(0, len(ROWS), size):
            engine.push("R", tuples(*ROWS[start : start + size]))
        assert found(query) == [(1, 5), (2, 6), (1, 6)]
        assert query.metrics()["duplicates"] == 3
        assert "#1 dedup #0: key => id" in str(query.explain())


def test_a_live_change_takes_effect_at_its_position() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID)
        engine.push("R", tuples(*ROWS[:3]))
        query.change(BY_X)
        engine.push("R", tuples(*ROWS[3:]))
        assert found(query) == [(1, 5), (2, 6), (2, 6), (1, 7)]


def test_a_saved_engine_goes_on(tmp_path: Path) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:4]))
        engine.save(tmp_path / "saved")
    with ps.restore(tmp_path / "saved") as again:
        again.push("R", tuples((2, 9), *ROWS[4:]))
        assert found(again.queries["q"]) == [(1, 5), (2, 6), (1, 6)]


def test_a_process_that_has_not_registered_it_finds_it_by_its_module(tmp_path: Path) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:4]))
        engine.save(tmp_path / "saved")
    del KINDS["dedup"], own_blocks._REGISTERED["dedup"]
    with ps.restore(tmp_path / "saved") as again:
        again.push("R", tuples(*ROWS[4:]))
        assert found(again.queries["q"]) == [(1, 5), (2, 6), (1, 6)]


def test_its_rows_can_be_named_and_joined() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.sql("CREATE STREAM D AS SELECT id, x FROM dedup(R, key => id)")
        query = engine.install(
            "SELECT a.id AS id, b.x AS x FROM D [ROWS 9] AS a JOIN D [ROWS 9] AS b ON a.x < b.x"
        )
        engine.push("R", tuples(*ROWS))
        assert found(query) == [(1, 6), (1, 6)]


TIMED = "CREATE STREAM R (id BIGINT, x BIGINT, t BIGINT); CREATE STREAM S (y BIGINT, t BIGINT)"
THROUGH = "dedup(R, key => id)"
OVER_A_STREAM = {
    "window": "SELECT d.id FROM {d} [ROWS 3] AS d",
    "left side": "SELECT d.id, s.y FROM {d} [ROWS 4] AS d JOIN S [ROWS 3] AS s ON d.x >= s.y",
    "right side": "SELECT d.id, s.y FROM S [ROWS 4] AS s JOIN {d} [ROWS 3] AS d ON d.x >= s.y",
    "both sides": "SELECT a.x, b.x AS y FROM {d} [ROWS 4] AS a JOIN {d} [ROWS 3] AS b ON a.x < b.x",
    "time windows": "SELECT d.id, s.y FROM {d} [RANGE 4 WATTR t] AS d "
    "JOIN S [RANGE 5 WATTR t] AS s ON d.x >= s.y",
    "outer join": "SELECT d.id, s.y FROM {d} [RANGE 4 WATTR t SLACK 1] AS d "
    "FULL JOIN S [RANGE 5 WATTR t] AS s ON d.x = s.y",
    "aggregate": "SELECT COUNT(*) AS n, SUM(d.x) AS x FROM {d} [RANGE 6 SLIDE 2 WATTR t] AS d",
    "groups": "SELECT d.id, COUNT(*) AS n FROM {d} [RANGE 6 SLIDE 2 WATTR t SLACK 2] AS d "
    "GROUP BY d.id",
    "counted": "SELECT LAST(d.x) AS x FROM {d} [ROWS 4 SLIDE 2] AS d",
    "union": "SELECT d.x FROM {d} AS d UNION ALL SELECT y FROM S",
    "union of a join": "SELECT d.x, s.y FROM {d} [ROWS 4] AS d JOIN S [ROWS 4] AS s ON d.x < s.y "
    "UNION ALL SELECT id, x FROM R",
}


def output(sql: str, name: str | None, size: int, seed: int) -> Any:
    """The rows with their positions, and the letters, of a query over ``dedup(R, key => id)``.

    ``name``: it is a derived stream of that name; None: it stands in the query itself.
    """
    random_input = random.Random(seed)
    with ps.connect("local") as engine:
        engine.sql(TIMED)
        # Either takes a position.
        engine.sql(f"CREATE STREAM {name or 'Idle'} AS SELECT * FROM {THROUGH}")
        query = engine.install(sql.format(d=name or THROUGH))
        time = 0
        for step in range(14):
            stream = random_input.choice("RRS")
            rows = []
            for _ in range(random_input.choice((1, 2, 5))):
                time += random_input.choice((0, 0, 1))
                when = random_input.choice((time, time, time - 1, time - 3, None))
                x = random_input.randrange(4)
                values = {"y": x} if stream == "S" else {"id": x // 2, "x": x}
                rows.append({**values, "t": when})
            for start in range(0, len(rows), size):
                engine.push(stream, rows[start : start + size])
            if step % 3 == 2:
                engine.punctuate(stream, time - 3, "t")
            if step == 8:
                query.change(sql.format(d=name or THROUGH).replace("ROWS 4", "ROWS 2"))
        engine.end()
        letters = [*query.late().to_pylist(), *query.dead_letters().to_pylist()]
        for letter in letters:
            letter["stream"] = "D" if letter["stream"] in (name, THROUGH) else letter["stream"]
        rows = [
            pair
            for result in query.drain()
            for pair in zip(result.positions.tolist(), result.batch.to_pylist(), strict=True)
        ]
        return rows, sorted(letters, key=str)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", OVER_A_STREAM)
@pytest.mark.filterwarnings("ignore:query .* has the window")
@pytest.mark.filterwarnings("ignore:a punctuation of stream")
def test_it_stands_wherever_a_stream_can(shape: str, seed: int) -> None:
    sql = OVER_A_STREAM[shape]
    rows, letters = output(sql, "D", 5, seed)
    assert rows
    assert output(sql, None, 1, seed) == (rows, letters)
    assert output(sql, None, 5, seed) == (rows, letters)


def test_it_runs_in_cores_that_restart_and_fail(tmp_path: Path) -> None:
    cluster = Cluster(random.Random(5))
    with connected(cluster, checkpoint=tmp_path / "c", cores=2) as engine:
        engine.sql(STREAM)
        query = engine.install(BY_ID, name="q")
        engine.push("R", tuples(*ROWS[:3]))
        finish(engine)
        made = found(query)
        query.change(BY_X)
        engine.push("R", tuples(ROWS[3]))
        finish(engine)
        made += found(query)
    with connected(cluster, checkpoint=tmp_path / "c", cores=2) as again:
        again.push("R", tuples(*ROWS[4:]))
        finish(again)
        made += found(again.queries["q"])
    assert made == [(1, 5), (2, 6), (2, 6), (1, 7)]


def test_it_is_joined_in_cores_that_restart(tmp_path: Path) -> None:
    joined = "SELECT a.x, b.x AS y FROM dedup(R, key => id) [ROWS 9] AS a JOIN R [ROWS 2] AS b ON "
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install(f"{joined} a.x < b.x")
        engine.push("R", tuples(*ROWS))
        expected = query.rows().to_pylist()
    cluster = Cluster(random.Random(5))
    made: list[Any] = []
    for part in (ROWS[:3], ROWS[3:5], ROWS[5:]):
        with connected(cluster, checkpoint=tmp_path / "c", cores=2) as engine:
            if "q" not in engine.queries:
                engine.sql(STREAM)
                engine.install(f"{joined} a.x < b.x", name="q")
            engine.push("R", tuples(*part))
            finish(engine)
            made += engine.queries["q"].rows().to_pylist()
    assert made == expected and made


class LastBlock(DedupBlock):
    """Gives the last row when it is told something, and nothing before."""

    def step(self, port: str, message: Message) -> Iterator[Sent]:
        if isinstance(message, Batch) and self._key is not None:
            [batch] = message.run.inputs
            if batch.num_rows:
                self._rows = batch.slice(batch.num_rows - 1)
            yield "out", message.made(message.run.after(len(message.run)), True)
        elif isinstance(message, Instructions) and message.bodies and self._key is not None:
            yield "out", message
            yield "out", message.made(Run((self._rows,), np.array([message.position])))
        else:
            yield from super().step(port, message)


def test_rows_that_a_change_brings_out_are_joined() -> None:
    ps.register_block("last_one", LastBlock)
    sql = "SELECT s.x FROM last_one(R, key => id) [ROWS 9] AS d JOIN S [ROWS 9] AS s ON d.x >= s.x"
    try:
        with ps.connect("local") as engine:
            engine.sql("CREATE STREAM R (id BIGINT, x BIGINT); CREATE STREAM S (x BIGINT)")
            query = engine.install(sql)
            engine.push("S", [{"x": 1}, {"x": 2}, {"x": 3}])
            engine.push("R", tuples((1, 1), (1, 2)))
            assert found_x(query) == []
            query.change(sql)
            assert found_x(query) == [1, 2]
    finally:
        del KINDS["last_one"], own_blocks._REGISTERED["last_one"]


def found_x(query: Any) -> list[int]:
    return [row["x"] for row in query.rows().to_pylist()]


def test_a_window_that_nothing_closes_is_warned_of() -> None:
    with ps.connect("local") as engine:
        engine.sql(TIMED)
        with pytest.warns(UserWarning) as caught:
            engine.install(
                "SELECT COUNT(*) AS n FROM dedup(R, key => id) [RANGE 6 SLIDE 2 WATTR t]", name="q"
            )
    assert [str(one.message) for one in caught] == [
        "query 'q' has the window [RANGE 6 SLIDE 2 WATTR t] over the derived stream "
        "dedup(R, key => id) without SLACK; it waits for punctuations of R.t, and none has come "
        "yet. Punctuate R.t, or write SLACK, for instance [RANGE 6 SLIDE 2 WATTR t SLACK 0] if "
        "its rows come in order of t."
    ]


def test_the_oracle_says_that_it_does_not_know_it() -> None:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int64()})))
    with pytest.raises(ps.InputError, match=r"the oracle does not know what dedup\(\) means"):
        oracle.install("q", BY_ID)
    with pytest.raises(ps.InputError, match=r"the oracle does not know what dedup\(\) means"):
        oracle.install("q", f"SELECT COUNT(*) AS n FROM {THROUGH} [ROWS 4 SLIDE 2]")


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT id FROM dedup(R)", "dedup lacks the argument key"),
        ("SELECT id FROM dedup(R, k => id)", "dedup has no argument k here"),
        ("SELECT id FROM dedup(R, key => id + 1)", "key => (id + 1) is neither a column nor a"),
        ("SELECT id FROM dedup(R, key id)", "syntax error: expected => but found 'id'"),
        (
            "SELECT COUNT(*) FROM dedup(R, key => id)",
            "an aggregate over stream dedup(R, key => id), which has no end, needs windows",
        ),
        (
            "SELECT a.id FROM dedup(R, KEY => id) AS a JOIN R [ROWS 9] AS b ON a.x = b.x",
            "join without a window on stream dedup(R, key => id), which has no end",
        ),
        (
            "SELECT x FROM dedup(R, key => id) [ROWS 9] JOIN R [ROWS 9] ON R.x = x",
            "both streams are named R",
        ),
        ("SELECT id FROM dedup(Q, key => id)", "unknown stream 'Q'"),
        ("SELECT id FROM dedupe(R, key => id)", "the function DEDUPE in FROM is not supported"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(sql: str, what: str) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        with pytest.raises(ps.SqlError) as caught:
            engine.install(sql)
    assert str(caught.value).startswith(what)


def test_a_name_is_of_one_block() -> None:
    class Other(DedupBlock):
        pass

    with pytest.raises(ps.InputError, match="there is a block named 'dedup' already"):
        ps.register_block("dedup", Other)
    with pytest.raises(ps.InputError, match="join is a kind of block that there is"):
        ps.register_block("join", Other)


def test_a_saved_engine_says_which_block_to_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved"
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        engine.install(BY_ID, name="q")
        engine.save(path)
    del KINDS["dedup"], own_blocks._REGISTERED["dedup"]
    monkeypatch.delattr("tests.own_blocks.dedup.DedupBlock")
    options: list[dict[str, Any]] = [{}, {"batch_rows": 7}]
    for one in options:
        with pytest.raises(ps.StateError) as raised:
            ps.restore(path, **one)
        assert str(raised.value) == (
            f"{path} has a query through a block of your own: the block dedup is not registered "
            "here, and tests.own_blocks.dedup:DedupBlock cannot be imported (module "
            "'tests.own_blocks.dedup' has no attribute 'DedupBlock')\n"
            'Register it first: ps.register_block("dedup", DedupBlock), and then ps.restore.'
        )


class FailingBlock(DedupBlock):
    """Raises an error for its tuples."""

    error: Exception

    def _kept(self, run: Run, key: int) -> Run:
        raise self.error


class WordlessBlock(DedupBlock):
    """Has a step that gives None."""

    def step(self, port: str, message: Message) -> Any:
        """Forget what to give."""


@pytest.fixture
def failing() -> Iterator[None]:
    names = {"failing": FailingBlock, "wordless": WordlessBlock}
    for name, block in names.items():
        ps.register_block(name, block)
    yield
    for name in names:
        del KINDS[name], own_blocks._REGISTERED[name]


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("on_spark", [False, True], ids=["embedded", "Spark"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ps.InputError("no key", "Give one."), "InputError: no key"),
    ],
    ids=["ValueError", "InputError"],
)
def test_an_error_of_its_code_is_not_a_defect_of_penstock(
    monkeypatch: pytest.MonkeyPatch, on_spark: bool, error: Exception, said: str
) -> None:
    monkeypatch.setattr(FailingBlock, "error", error, raising=False)
    with connected(Cluster()) if on_spark else ps.connect("local") as engine:
        engine.sql(STREAM)
        query = engine.install("SELECT id FROM failing(R, key => id)", name="b")
        with pytest.raises(ps.QueryFailed) as raised:
            engine.push("R", tuples(*ROWS))
            finish(engine)
            query.rows()
    assert str(raised.value) == (
        f"query 'b' is stopped: the code of the block failing raised {said}; every other query has "
        "taken the input\n"
        "Correct the code of the block. Then drop the query, and install it again."
    )


@pytest.mark.usefixtures("failing")
def test_a_step_that_gives_nothing_to_go_through_is_named() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAM)
        with pytest.raises(ps.PenstockError) as raised:
            engine.install("SELECT id FROM wordless(R, key => id)", name="w")
        assert list(engine.queries) == []
    assert str(raised.value) == (
        "the code of the block wordless raised TypeError: 'NoneType' object is not iterable\n"
        "Correct the code of the block."
    )
