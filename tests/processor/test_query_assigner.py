"""The query assigner: which blocks serve a query, and what they are sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import InputError
from penstock.processor.fqp import processor
from penstock.processor.query_assigner.query_assigner import PlacedQueries, PlacedQuery
from penstock.program.isa.op_instructions import OPInstruction
from penstock.program.isa.words.decoding import decode

STREAMS = ("CREATE STREAM R (id INT, x INT, s STRING)", "CREATE STREAM S (id INT, a INT)")


def spied_words(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The words that processors of topologies send from here on, message by message."""
    sent: list[bytes] = []
    encode = processor.encode

    def noted(*given: object) -> bytes:
        sent.append(encode(*given))  # type: ignore[arg-type]
        return sent[-1]

    monkeypatch.setattr(processor, "encode", noted)
    return sent


def engine_with(topology: str, *queries: str) -> Engine:
    """An engine with the streams, and with queries of the names q1, q2 and so on."""
    engine = Engine(topology=topology, compile_predicates=False)
    for statement in (*STREAMS, *queries):
        engine.sql(statement)
    return engine


def blocks(engine: Engine) -> dict[str, tuple[int, ...]]:
    return {name: query.program.flow.blocks or () for name, query in engine.queries.items()}


def refusal(engine: Engine, query: str) -> str:
    with pytest.raises(InputError) as caught:
        engine.install(query, name="new")
    return str(caught.value)


def join(left: int, right: int, source: str = "R") -> str:
    return f"SELECT r.id FROM {source} [ROWS {left}] r JOIN S [ROWS {right}] s ON r.x = s.a"


# -- places ---------------------------------------------------------------------------------------


def test_selections_share_the_block_where_r_enters_and_joins_have_one_each() -> None:
    engine = engine_with(
        "fqp:chain:6:8",
        "SELECT id FROM R WHERE x > 1",
        "CREATE STREAM D AS SELECT * FROM R WHERE x > 2",
        join(8, 3),
        join(3, 8, "D"),
        "SELECT id FROM D WHERE x > 3",
    )
    assert blocks(engine) == {"q1": (1,), "D": (1,), "q2": (2,), "q3": (3,), "q4": (1,)}


@pytest.fixture(scope="module")
def six_placed() -> list[PlacedQuery]:
    """Two selections, two derived streams, a join, and one that spans blocks."""
    engine = engine_with(
        "fqp:chain:9:8",
        "SELECT id FROM R WHERE x > 1",
        "SELECT id, s FROM R WHERE x IN (1, 2)",
        "CREATE STREAM D AS SELECT * FROM R WHERE x > 2",
        "CREATE STREAM D2 AS SELECT * FROM R WHERE x > 2 OR id = 1",
        join(8, 3),
        join(30, 8),
    )
    return [PlacedQuery(one.name, one.derived, one.program) for one in engine.queries.values()]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 1), st.booleans())))
def test_what_blocks_serve_is_as_counted_anew(
    six_placed: list[PlacedQuery], steps: list[tuple[str, int, bool]]
) -> None:
    topology = ps.topology("fqp:chain:9:8")
    there, left = PlacedQueries(topology), dict[str, PlacedQuery]()
    for name, variant, comes in steps:
        # Two selections by turns, two derived streams by turns; a join has its blocks alone.
        which = {"a": 0, "b": 0, "c": 2, "d": 2}.get(name, 4 if name == "e" else 5)
        one = replace(six_placed[which + variant * (which < 4)], name=name.upper())
        if comes:
            there.place(one)
            left[name] = one
        else:
            there.leave(name)
            left.pop(name, None)
    anew = PlacedQueries(topology)
    for one in left.values():
        anew.place(one)
    assert there.loads == anew.loads
    assert there.makers == anew.makers == {k: o.blocks for k, o in left.items() if o.derived}
    assert there.keys() == left.keys()
    assert all(there.has(name, one.program) for name, one in left.items())
    serving = [sum(n in one.blocks for one in left.values()) for n in there.loads]
    assert [load.queries for load in there.loads.values()] == serving


def test_a_join_takes_as_many_neighbours_as_its_larger_window_needs() -> None:
    engine = engine_with("fqp:chain:9:512", join(1536, 20), "SELECT id FROM R", join(2, 2048))
    assert blocks(engine) == {"q1": (1, 2, 3), "q2": (4,), "q3": (5, 6, 7, 8)}


def test_a_reader_stands_to_the_right_of_what_it_reads() -> None:
    engine = engine_with("fqp:chain:3:4", join(4, 4), "CREATE STREAM D AS SELECT * FROM R")
    assert blocks(engine) == {"q1": (1,), "D": (2,)}
    engine.install(join(4, 4, "D"), name="reader")
    assert blocks(engine)["reader"] == (3,)
    engine.drop("q1")
    assert refusal(engine, join(4, 4, "D")) == (
        "query 'new' needs a join block with a window of 4, and none is free (to the right of the "
        "block that makes D); topology fqp:chain:3:4\nDrop a query, write smaller windows, "
        "take a larger topology, or run the query on an engine without a topology."
    )


def test_a_derived_selection_is_in_every_branch_and_a_derived_join_in_one() -> None:
    engine = engine_with(
        "fqp:partial:2x3:4",
        "CREATE STREAM D AS SELECT * FROM R WHERE x > 2",
        f"CREATE STREAM J AS {join(4, 4)}",
        "SELECT id FROM J",
    )
    # J begins where D has left room, in the first branch; its reader is in this branch too.
    assert blocks(engine) == {"D": (1, 4), "J": (2,), "q1": (3,)}


def test_a_derived_selection_takes_no_block_where_none_could_read_it() -> None:
    """In branches of one block it is in one; queries without a join read it in that block."""
    engine = engine_with(
        "fqp:parallel:3:8",
        "CREATE STREAM D AS SELECT id, x FROM R WHERE x > 1",
        "SELECT d.id FROM D AS d WHERE d.x = 2",
        join(8, 8),
    )
    assert blocks(engine) == {"D": (1,), "q1": (1,), "q2": (2,)}
    assert refusal(engine, join(8, 8, "D")) == (
        "query 'new' needs a join block with a window of 8, and none is free (to the right of the "
        "block that makes D); topology fqp:parallel:3:8\nDrop a query, write smaller windows, take "
        "a larger topology, or run the query on an engine without a topology."
    )


def test_a_change_keeps_the_blocks() -> None:
    engine = engine_with("fqp:chain:4:4", join(6, 2), "SELECT id FROM R")
    engine.change("q1", join(1, 8))
    assert blocks(engine) == {"q1": (1, 2), "q2": (3,)}
    with pytest.raises(ps.ChangeRefused) as caught:
        engine.change("q1", join(9, 1))
    assert str(caught.value) == (
        "query 'q1' needs a window of 9, and its blocks 1 to 2 have room for 8\n"
        "Write smaller windows; or install it as another query, which finds larger or more blocks, "
        "and drop this one."
    )
    engine.change("q1", join(1, 1))
    assert blocks(engine)["q1"] == (1, 2)


# -- words ----------------------------------------------------------------------------------------


def test_where_never_moves_before_a_count_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window holds what WHERE drops; to window a filtered stream, name it first."""
    sent = spied_words(monkeypatch)
    where = "SELECT r.id FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.id < s.id WHERE r.x > 10"
    named = "SELECT r.id FROM D [ROWS 2] r JOIN S [ROWS 2] s ON r.id < s.id"
    engine = engine_with(
        "fqp:chain:3:4", where, "CREATE STREAM D AS SELECT * FROM R WHERE x > 10", named
    )
    widths = ps.topology("fqp:chain:3:4").widths
    told: list[list[OPInstruction]] = [decode(words, widths) for words in sent]
    # One block has the join of the first query, and nothing else selects for it.
    assert [{one.block for one in of} for of in told] == [{1}, {2}, {3}]
    kinds = [[type(one.body).__name__ for one in of] for of in told]
    in_join = ["ResetBlock", "ReadPorts", "JoinStreams", "SelectRows", "ProjectColumns"]
    assert kinds == [
        in_join,
        ["ResetBlock", "ReadPorts", "SelectRows", "ProjectColumns"],
        in_join,
    ]
    engine.push("R", [{"id": 1, "x": 20}, {"id": 2, "x": 0}, {"id": 3, "x": 0}])
    engine.push("S", [{"id": 9}])
    rows = [engine.queries[name].rows().to_pylist() for name in ("q1", "q2")]
    assert rows == [[], [{"id": 1}]]


def test_a_change_sends_no_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with("fqp:chain:3:4", join(6, 6))
    sent = spied_words(monkeypatch)
    engine.change("q1", join(5, 5))
    [words] = sent
    told = decode(words, ps.topology("fqp:chain:3:4").widths)
    kinds = ["ReadPorts", "JoinPart", "JoinStreams", "SelectRows", "ProjectColumns"]
    assert [(one.block, type(one.body).__name__) for one in told] == [
        *((1, kind) for kind in kinds),
        *((2, kind) for kind in kinds),
    ]


# -- misfits --------------------------------------------------------------------------------------


def test_joins_that_find_no_room() -> None:
    remedy = (
        "\nDrop a query, write smaller windows, take a larger topology, or run the query on an "
        "engine without a topology."
    )
    engine = engine_with("fqp:chain:3:4", "SELECT id FROM R", join(4, 4))
    assert refusal(engine, join(5, 1)) == (
        "query 'new' needs a join block with a window of 5; the largest free one has 4, and free "
        f"neighbours together have no room for 5; topology fqp:chain:3:4{remedy}"
    )
    assert refusal(engine, f"{join(5, 1)} EMIT ORDER outer") == (
        "query 'new' needs a join block with a window of 5; the largest free one has 4, and the "
        f"join of a query with EMIT ORDER does not span several; topology fqp:chain:3:4{remedy}"
    )
    with pytest.raises(InputError) as caught:
        engine.sql(f"CREATE STREAM J AS {join(1, 5)}")
    assert str(caught.value) == (
        "query 'J' needs a join block with a window of 5; the largest free one has 4, and the join "
        f"of a derived stream does not span several; topology fqp:chain:3:4{remedy}"
    )
    engine.install(join(4, 1))
    assert refusal(engine, join(1, 1)) == (
        "query 'new' needs a join block with a window of 1, and all 3 blocks serve other "
        f"queries; topology fqp:chain:3:4{remedy}"
    )


def test_selections_that_find_no_room() -> None:
    """A block has room for half as many selections as its window has tuples (§4.5.7)."""
    engine = engine_with("fqp:chain:2:4", "SELECT id FROM R WHERE x > 1 AND id > 1", join(4, 4))
    assert refusal(engine, "SELECT x FROM R WHERE x = 1 OR x = 3") == (
        "query 'new' needs a block with room for 2 selections and 1 projection; block 1 has room "
        "for 0 selections and 3 projections; block 2 serves the join of q2; topology "
        "fqp:chain:2:4\nDrop a query, write smaller windows, take a larger topology, or run the "
        "query on an engine without a topology."
    )


FITS = "does not fit FQP: its blocks select, project, and join two streams"
ELSEWHERE = "Run the query on an engine without a topology."


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT COUNT(*) FROM R [ROWS 5 SLIDE 5]", f"an aggregate {FITS}\n{ELSEWHERE}"),
        ("SELECT id FROM R UNION ALL SELECT id FROM S", f"UNION ALL {FITS}\n{ELSEWHERE}"),
        (
            "SELECT r.id FROM R [ROWS 2] r ANTI JOIN S [ROWS 2] s ON r.x = s.a",
            f"an ANTI JOIN {FITS}\n{ELSEWHERE}",
        ),
        (
            "SELECT r.id FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.x = s.a JOIN S [ROWS 2] t "
            "ON s.a = t.a",
            f"a join of 3 streams {FITS}\n{ELSEWHERE}",
        ),
        (
            "SELECT r.id FROM R [RANGE 5 WATTR x] r JOIN S [RANGE 5 WATTR a] s ON r.x = s.a",
            "the window [RANGE 5 WATTR x] of R has no largest number of tuples, and the blocks of "
            "FQP have room for a number of them\nWrite a count window, as in R [ROWS 1000], or run "
            "the query on an engine without a topology.",
        ),
    ],
)
def test_operators_that_no_block_has(query: str, message: str) -> None:
    assert refusal(engine_with("fqp:chain:3:9"), query) == message


def test_flow_options_are_refused() -> None:
    engine = engine_with("fqp:chain:3:9")
    with pytest.raises(InputError) as caught:
        engine.install(join(2, 2), cores=2)
    assert str(caught.value) == (
        "cores=2 is asked for, and the engine has a topology, whose blocks share the work\n"
        "Leave cores out, or run the query on an engine without a topology."
    )
    with pytest.raises(InputError) as caught:
        engine.install(join(2, 2), admission="shed")
    assert str(caught.value) == (
        "the admission shed is asked for, and all queries of a topology take the same input\n"
        "Ask for the admission wait, or run the query on an engine without a topology."
    )


def test_a_program_on_blocks_that_it_cannot_have() -> None:
    """A program that has its blocks keeps them, or says why it cannot: a busy block is one."""
    first = engine_with("fqp:chain:3:4", join(4, 4))
    program = first.queries["q1"].program
    busy = engine_with("fqp:chain:3:4", "SELECT id FROM R")
    with pytest.raises(InputError) as caught:
        busy.install(program, name="new")
    assert str(caught.value) == (
        "query 'new' has no room on block 1 any more: block 1 has 0 selections and 1 projection\n"
        "Install it as another query, which finds a block of its own; then drop this one."
    )
    far = engine_with("fqp:chain:3:4", join(4, 4), join(4, 4), join(4, 4)).queries["q3"].program
    with pytest.raises(InputError) as caught:
        engine_with("fqp:chain:2:4").install(far, name="new")
    assert str(caught.value) == (
        f"query 'new' is placed on block 3, and fqp:chain:2:4 has the blocks 1 to 2\n{ANEW}"
    )


ANEW = "Leave its blocks out, so that it finds others: program.placed()."
MADE = "CREATE STREAM D AS SELECT id, x FROM R WHERE x > 1"
TOGETHER = "which do not follow each other from left to right in one branch"


@pytest.mark.parametrize(
    ("query", "kept", "message"),
    [
        (join(8, 8), (3, 2), f"blocks 3 and 2, {TOGETHER}\n{ANEW}"),
        (join(4, 4), (2, 2), f"blocks 2 and 2, {TOGETHER}\n{ANEW}"),
        (join(8, 8), (3, 4), f"blocks 3 to 4, {TOGETHER}\n{ANEW}"),
        ("SELECT id FROM R", (2, 3), f"blocks 2 to 3, and a query without a join has one\n{ANEW}"),
        ("SELECT id FROM R", (2, 5), f"blocks 2 and 5, {TOGETHER}\n{ANEW}"),
        (
            f"{join(8, 8)} EMIT ORDER inner",
            (2, 3),
            "blocks 2 to 3, and the join of a query with EMIT ORDER does not span several\n"
            "Leave EMIT ORDER out, or install it as another query.",
        ),
        (
            "SELECT d.id FROM D AS d",
            (1,),
            "block 1, and reads D of blocks 2 and 5: rows go to the right only, and a join has its "
            f"block alone\n{ANEW}",
        ),
        (
            "SELECT d.id FROM D [ROWS 2] AS d JOIN S [ROWS 2] AS s ON d.x = s.a",
            (1,),
            "block 1, and reads D of blocks 2 and 5: rows go to the right only, and a join has its "
            f"block alone\n{ANEW}",
        ),
    ],
)
def test_a_program_on_blocks_that_no_query_has_together(
    query: str, kept: tuple[int, ...], message: str
) -> None:
    engine = engine_with("fqp:partial:2x3:4", *[join(4, 4)] * 4)
    for name in ("q2", "q3"):
        engine.drop(name)
    if "FROM D" in query:
        engine.sql(MADE)
        assert blocks(engine)["D"] == (2, 5)
    for name in ("q1", "q4"):
        engine.drop(name)
    program = engine_with("fqp:chain:3:40", MADE).install(query).program
    with pytest.raises(InputError) as caught:
        engine.install(program.placed(replace(program.flow, blocks=kept)), name="new")
    assert str(caught.value) == f"query 'new' is placed on {message}"


def test_a_change_that_the_blocks_cannot_take_is_refused_as_a_change() -> None:
    engine = engine_with("fqp:chain:3:4", join(8, 8), "SELECT id FROM R WHERE x = 1")
    for name, query, message in (
        (
            "q1",
            f"{join(8, 8)} EMIT ORDER outer",
            "query 'q1' is placed on blocks 1 to 2, and the join of a query with EMIT ORDER does "
            "not span several\nLeave EMIT ORDER out, or install it as another query.",
        ),
        (
            "q2",
            "SELECT id FROM R WHERE x IN (1, 2, 3)",
            "query 'q2' needs 3 selections and 1 projection, and block 3 has room for 2 "
            "selections and 4 projections\n"
            "Install it as another query, which finds a block of its own; then drop this one.",
        ),
    ):
        with pytest.raises(ps.ChangeRefused) as caught:
            engine.change(name, query)
        assert str(caught.value) == message
    engine.push("R", [{"id": 7, "x": 1}])
    assert engine.queries["q2"].rows().to_pylist() == [{"id": 7}]


def test_explain_of_a_query_that_does_not_fit() -> None:
    engine = engine_with("fqp:chain:1:4", join(4, 4))
    with pytest.raises(InputError) as caught:
        engine.explain("SELECT id FROM R")
    assert str(caught.value) == (
        "the query needs a block with room for 0 selections and 1 projection; block 1 serves the "
        "join of q1; topology fqp:chain:1:4\n"
        "Drop a query, write smaller windows, take a larger topology, or run the query on an "
        "engine without a topology."
    )


def test_streams_that_no_branch_makes_together() -> None:
    engine = engine_with(
        "fqp:parallel:3:4", f"CREATE STREAM J AS {join(4, 4)}", f"CREATE STREAM K AS {join(4, 3)}"
    )
    assert blocks(engine) == {"J": (1,), "K": (2,)}
    query = "SELECT j.id FROM J [ROWS 2] j JOIN K [ROWS 2] k ON j.id = k.id"
    assert refusal(engine, query) == (
        "query 'new' reads J and K, which no branch makes together; topology fqp:parallel:3:4\n"
        "Drop a query, write smaller windows, take a larger topology, or run the query on an "
        "engine without a topology."
    )
