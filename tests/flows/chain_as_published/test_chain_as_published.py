"""The flow: the rows of the published rule, and how they differ from those of the windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.in_process import Cluster, standing_in
from tests.flows.chain_as_published.plain_chains import published_pairs
from tests.flows.inputs import Arrival, Script, Window, all_new, given_at, pairs_found_by, pairs_of

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import PenstockError
from penstock.flows.chain_as_published.chain_as_published import ChainAsPublished, capacity
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.flows.network.threads import Threads
from penstock.testing import run_on_oracle
from penstock.testing.schedule import Schedule

DRIVERS: dict[str, Callable[[Network], Driver]] = {
    "inline": Inline,
    "schedule": lambda network: Schedule(network, 11, 2),
    "threads": lambda network: Threads(network, 2),
}


@st.composite
def count_scripts(draw: st.DrawFn) -> Script:
    """Windows of rows, any cuts, one stream silent or not."""
    sides = draw(st.sampled_from(["RS", "RS", "RRRRS", "R", "S"]))
    drawn = draw(st.lists(st.tuples(st.sampled_from(sides), st.integers(0, 2)), max_size=40))
    arrivals = tuple(
        Arrival("RS".index(side), key, place) for place, (side, key) in enumerate(drawn)
    )
    rows = st.sampled_from([0, 1, 2, 5, 8, 100]).map(lambda count: Window(rows=count))
    cuts = draw(st.lists(st.integers(0, len(arrivals)), max_size=5))
    predicate = draw(st.sampled_from(["any", "equi", "band"]))
    return Script(arrivals, draw(st.tuples(rows, rows)), tuple(sorted(cuts)), predicate)


def one_after_another(script: Script, capacities: tuple[int, int]) -> list[tuple[int, int, int]]:
    """The arrivals as they come in: runs of a stream, by the rank of their first tuple."""
    keys = [[a.key for a in script.arrivals if a.side == side] for side in (0, 1)]
    came = []
    for chunk in script.plain_chunks():
        runs = []
        for group, size in zip(chunk.arrivals, capacities, strict=True):
            tuples: Any = group.tuples  # type: ignore[attr-defined]
            runs += [
                (tuples[start].rank, group.side, tuples[start : start + max(1, size)])
                for start in range(0, len(tuples), max(1, size))
            ]
        for _, side, run in sorted(runs):
            came += [(side, one.seq, keys[side][one.seq]) for one in run]
    return came


@examples(150)
@given(count_scripts(), st.integers(1, 5), st.sampled_from(sorted(DRIVERS)))
def test_the_pairs_are_those_of_the_published_rule_tuple_by_tuple(
    script: Script, blocks: int, driver: str
) -> None:
    r, s = (capacity(window.rows, blocks) for window in script.windows)
    expected = published_pairs(blocks, (r, s), one_after_another(script, (r, s)), script.matches)
    flow = ChainAsPublished(blocks, DRIVERS[driver])
    try:
        assert pairs_found_by(flow, script) == expected
    finally:
        flow.close()


def stream(count: int) -> tuple[Arrival, ...]:
    """R and S in turn, all with the same key."""
    return tuple(Arrival(i % 2, 0, i) for i in range(count))


def alone(script: Script) -> Script:
    """The same input, a tuple at a time."""
    return replace(script, cuts=tuple(range(1, len(script.arrivals))))


def found(script: Script, blocks: int) -> set[tuple[int, int]]:
    pairs = pairs_found_by(ChainAsPublished(blocks, Inline), script)
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def test_pairs_that_have_not_been_pushed_together_are_lost() -> None:
    """Of windows that the blocks divide evenly, and tuples that come one by one, only those."""
    script = alone(Script(stream(80), (Window(rows=6), Window(rows=6)), ()))
    by_definition, here = set(script.pairs()), found(script, 3)
    assert here < by_definition
    lost = by_definition - here
    # 40 tuples of each: those of the last windows that are still on their way to each other.
    assert lost and all(r >= 34 and s >= 34 for r, s in lost)
    assert found(alone(Script(stream(80), script.windows, ())), 1) == by_definition


def test_windows_that_the_blocks_do_not_divide_evenly_are_larger() -> None:
    script = alone(Script(stream(80), (Window(rows=7), Window(rows=7)), ()))
    by_definition, here = set(script.pairs()), found(script, 3)
    more = here - by_definition
    # A pair of tuples 7 or 8 apart, as in windows of 9.
    nine = replace(script, windows=(Window(rows=9), Window(rows=9)))
    assert more and more < set(nine.pairs())
    assert here == found(nine, 3)


def test_runs_of_the_two_streams_come_in_one_after_the_other() -> None:
    windows = (Window(rows=6), Window(rows=6))
    whole = Script(stream(80), windows, ())
    assert found(whole, 3) != found(alone(whole), 3)
    assert found(whole, 3) - set(whole.pairs())


def test_what_is_programmed_anew_meets_only_what_comes() -> None:
    """A change and a restored state lose the pairs of stored tuples that have not met."""
    windows = (Window(rows=6), Window(rows=6))
    script, cut = Script(stream(40), windows, ()), 20
    chunk, rest = next(script.chunks()).until(cut)
    assert rest.ranks == (20, 40)
    program = given_at(script, chunk)
    assert program.sent is not None
    r, s = (all_new(sent.arrivals.part(4, 10)) for sent in program.sent)
    flow = ChainAsPublished(3, Inline)
    flow.change(replace(program, sent=(r, s)))
    assert [core["window"] for core in flow.measures()["cores"]] == [[2, 2]] * 3
    assert (flow.oldest(0), flow.oldest(1)) == (4, 4)
    pairs = sorted(pairs_of(flow, flow.take(rest)))
    assert pairs and all(r >= 10 or s >= 10 for r, s in pairs)
    assert any(r < 10 for r, _ in pairs) and any(s < 10 for _, s in pairs)
    assert list(flow.complete()) == []


def test_after_a_barrier_no_tuple_that_has_left_its_window_is_in_a_pair() -> None:
    """The join block has forgotten it, though it may still be in the chain."""
    script = alone(Script(stream(60), (Window(rows=4), Window(rows=4)), ()))

    def pairs(barrier: Callable[[ChainAsPublished], object]) -> set[tuple[int, int]]:
        flow, found, live = ChainAsPublished(3, Inline), [], (0, 0)
        flow.change(script.program())
        for chunk in script.chunks():
            met = list(pairs_of(flow, flow.take(chunk)))
            if barrier(flow) == []:
                assert all(r >= live[0] and s >= live[1] for r, s in met)
            live = chunk.live
            found += met
        return set(found)

    with_barriers = pairs(lambda flow: list(flow.complete()))
    assert with_barriers and with_barriers < pairs(lambda flow: None)


# -- as users see it --------------------------------------------------------------------------

STREAMS = "CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)"
QUERY = "SELECT r.id AS r, s.id AS s FROM R [ROWS {0}] r JOIN S [ROWS {0}] s ON r.x = s.a"
OTHER_ROWS = (
    "the flow chain-as-published gives other rows: two tuples are compared only when full buffers "
    "have pushed them together, and are in the chain longer than in a window that the blocks do "
    "not divide evenly; the flow low-latency-handshake has the rows of the windows"
)


def rows(query: str, blocks: int, count: int) -> set[tuple[int, int]]:
    """What a query gives of R and S in turn, pushed one by one, all with the same value."""
    with Engine(compile_predicates=False) as engine:
        engine.sql(STREAMS)
        with pytest.warns(UserWarning) as warned:
            q = engine.install(query, "q", flow="chain-as-published", cores=blocks)
        assert [str(warning.message) for warning in warned] == [f"query 'q': {OTHER_ROWS}"]
        for number in range(count):
            engine.push("R", [{"id": number, "x": 1}])
            engine.push("S", [{"id": number, "a": 1}])
        engine.end()
        found = [tuple(row.values()) for row in q.rows().to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def meant(query: str, count: int) -> set[tuple[int, int]]:
    """The rows of the windows, by the oracle."""
    events = "".join(f"R: {number}, 1\nS: {number}, 1\n" for number in range(count))
    declared = "stream R (id int64, x int32)\nstream S (id int64, a int32)\n"
    lines = run_on_oracle(f"{declared}install q: {query}\n{events}end\n").lines
    return {tuple(map(int, line.removeprefix("q: ").split(", "))) for line in lines}  # type: ignore[misc]


def test_the_rows_of_a_query_are_other_than_the_oracles() -> None:
    """[ROWS 4] on 3 blocks: windows of 6, and of the last tuples the pairs that have not met."""
    query = QUERY.format(4)
    here, oracle = rows(query, 3, 20), meant(query, 20)
    arrivals = [(side, number, 1) for number in range(20) for side in (0, 1)]
    assert sorted(here) == published_pairs(3, (2, 2), arrivals, lambda r, s: r == s)
    lost, more = oracle - here, here - oracle
    print(f"{len(oracle)} rows by the oracle; {len(lost)} of them lost, {len(more)} others")
    assert (len(oracle), len(lost), len(more)) == (144, 12, 60)
    assert all(min(r, s) >= 16 for r, s in lost)  # of the last windows
    assert all(4 <= abs(r - s) <= 6 for r, s in more)  # of windows of 6


def test_explain_says_that_the_rows_are_others() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        text = engine.explain(QUERY.format(4), flow="chain-as-published", cores=3).splitlines()
    assert text[-2:] == [
        "flow chain-as-published on 3 cores: asked for",
        f"warning: {OTHER_ROWS}",
    ]


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (
            "SELECT r.id FROM R [RANGE 5 WATTR id] r JOIN S [ROWS 4] s ON r.x = s.a",
            {},
            "the flow chain-as-published has count windows only: full buffers push tuples on, and "
            "the window [RANGE 5 WATTR id] of R is not a number of tuples\n"
            "Write [ROWS n], or ask for the flow low-latency-handshake.",
        ),
        (
            QUERY.format(4).replace("JOIN", "LEFT JOIN"),
            {},
            "the flow chain-as-published does not offer left joins: no core of it knows whether a "
            "tuple has found a partner in another\n"
            "Ask for one of the flows three-step and splitjoin.",
        ),
        (
            QUERY.format(4),
            {"order": "inner"},
            "the flow chain-as-published does not offer the order inner: its rows come when two "
            "tuples meet\nAsk for the order none, or for the flow splitjoin.",
        ),
    ],
)
def test_what_is_refused(query: str, options: dict[str, Any], message: str) -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        with pytest.raises(PenstockError) as error:
            engine.install(query, "q", flow="chain-as-published", **options)
    assert str(error.value) == message


def test_spark_refuses_it() -> None:
    with standing_in(Cluster()), ps.connect("spark") as engine:
        engine.sql(STREAMS)
        with pytest.raises(PenstockError) as error:
            engine.install(QUERY.format(4), "q", flow="chain-as-published")
    assert str(error.value) == (
        "the flow chain-as-published cannot run on Spark: it gives other rows, and is there to "
        "show this on the embedded engine\n"
        "Leave the flow out: it is splitjoin for joins of two streams; or run it on the embedded "
        "engine: ps.connect('local') (--engine local)."
    )


def test_no_query_has_it_without_asking() -> None:
    with ps.connect("local") as engine:
        engine.sql(STREAMS)
        for options in ({}, {"cores": 2}, {"cores": 2, "branching": 2}):
            text = engine.explain(QUERY.format(4), **options)
            assert "chain-as-published" not in text
        with pytest.raises(PenstockError) as error:
            engine.install(QUERY.format(4), "q", flow="chain")
    assert str(error.value) == (
        "unknown flow 'chain'\nWrite one of: three-step, shared, splitjoin, celljoin, handshake, "
        "low-latency-handshake."
    )


def push(engine: Engine, numbers: range) -> None:
    for number in numbers:
        engine.push("R", [{"id": number, "x": number % 3}])
        engine.push("S", [{"id": number, "a": number % 2}])


def test_a_query_goes_on_after_a_change() -> None:
    """Its rows are of tuples that met, whatever the predicate and the windows become."""
    with Engine(compile_predicates=False) as engine:
        engine.sql(STREAMS)
        with pytest.warns(UserWarning, match="gives other rows"):
            q = engine.install(QUERY.format(6), "q", flow="chain-as-published", cores=3)
        push(engine, range(100))
        q.change(QUERY.format(9))
        push(engine, range(100, 200))
        q.change(QUERY.format(3).replace("r.x = s.a", "r.x > s.a"))
        push(engine, range(200, 300))
        came = [tuple(row.values()) for row in q.rows().to_pylist()]
        figures = q.metrics()["cores"]
    assert len(set(came)) == len(came)
    assert all(abs(r - s) <= 9 for r, s in came)
    first = [(r, s) for r, s in came if max(r, s) < 200]
    later = [(r, s) for r, s in came if max(r, s) >= 200]
    assert first and all(r % 3 == s % 2 for r, s in first)
    assert later and all(r % 3 > s % 2 for r, s in later)
    assert [core["window"] for core in figures] == [[1, 1]] * 3


def test_a_query_goes_on_after_a_restart(tmp_path: Path) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(STREAMS)
        with pytest.warns(UserWarning, match="gives other rows"):
            q = engine.install(QUERY.format(6), "q", flow="chain-as-published", cores=3)
        push(engine, range(50))
        before = [tuple(row.values()) for row in q.rows().to_pylist()]
        engine.save(tmp_path / "state")
    with ps.restore(tmp_path / "state") as engine:
        q = engine.queries["q"]
        assert (q.flow.name, q.flow.cores) == ("chain-as-published", 3)
        push(engine, range(50, 100))
        after = [tuple(row.values()) for row in q.rows().to_pylist()]
    assert before and after
    assert len({*before, *after}) == len(before) + len(after)
    assert all(r % 3 == s % 2 and max(r, s) >= 50 for r, s in after)
    assert any(min(r, s) < 50 for r, s in after)
