"""Replaying scripts: the output, the expectations, and errors with their lines."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engines.local.engine import Engine
from penstock.errors import ScriptError
from penstock.program.isa.flow import FlowChoice
from penstock.testing import replay_text, run_on_oracle
from penstock.testing.replay import QueryOptions, options_for

BATCHES = (1, 2, 3, 5, 100)
HEAD = """\
stream R (id int64, x int32)
stream S (id int64, a int32)
install pairs: SELECT r.id AS r, s.id AS s FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x < s.a
"""


@pytest.mark.parametrize("batch", BATCHES)
def test_rows_and_letters_are_printed_by_the_arrival_they_belong_to(batch: int) -> None:
    script = (
        HEAD
        + """\
install copies: SELECT id, 'it''s' AS s, CAST(x AS double) AS d FROM R
R: 1, 10
R: 2, 'x'
S: 7, 11
drop pairs
install pairs: SELECT id FROM R
R: 3, NULL
expect copies: 1, 'it''s', 10; 3, E'it''s', NULL
expect pairs: 1, 7; 3
expect dead pairs: R: 2, 'x'
end
"""
    )
    result = replay_text(script, batch=batch)
    assert result.failures == []
    assert result.lines == [
        "copies: 1, 'it''s', 10.0",
        "dead pairs: R: 2, 'x' (column x: 'x' does not fit int32)",
        "dead copies: R: 2, 'x' (column x: 'x' does not fit int32)",
        "pairs: 1, 7",
        "copies: 3, 'it''s', NULL",
        "pairs: 3",
    ]
    assert run_on_oracle(script).lines == result.lines


@pytest.mark.parametrize("batch", BATCHES)
def test_late_tuples_are_printed_without_their_reason(batch: int) -> None:
    script = """\
stream R (t int64, id int64)
stream S (t int64, id int64)
install q: SELECT r.id FROM R [RANGE 10 WATTR t] AS r JOIN S [RANGE 10 WATTR t] AS s ON TRUE
R: 5, 1
R: 4, 2
expect late q: R: 4, 2
expect q:
"""
    result = replay_text(script, batch=batch)
    assert result.failures == []
    assert result.lines == ["late q: R: 4, 2"]


@pytest.mark.parametrize("batch", BATCHES)
def test_a_failed_expectation_is_reported_with_a_diff_and_the_script_continues(
    batch: int,
) -> None:
    script = (
        HEAD
        + """\
R: 1, 10
R: 2, 10
S: 7, 11
expect pairs: 1, 7; 3, 7
S: 8, 11
expect ordered pairs: 2, 8; 1, 8
expect dead pairs: R: 1, 'x' (why)
S: 9, 11
expect pairs: 2, 9; 1, 9
"""
    )
    result = replay_text(script, batch=batch)
    assert result.failures == [
        "line 7: expect pairs is not met\n--- expected\n+++ came\n@@ -1,2 +1,2 @@\n"
        " 1, 7\n-3, 7\n+2, 7",
        "line 9: expect ordered pairs is not met\n--- expected\n+++ came\n@@ -1,2 +1,2 @@\n"
        "+1, 8\n 2, 8\n-1, 8",
        "line 10: expect dead pairs is not met\n--- expected\n+++ came\n@@ -1 +0,0 @@\n"
        "-R: 1, 'x' (why)",
    ]
    assert len(result.lines) == 6


def test_a_reason_counts_only_if_it_is_written() -> None:
    script = HEAD + "R: 1, 128000000000\nexpect dead pairs: R: 1, 128000000000{}\n"
    assert replay_text(script.format("")).failures == []
    reason = " (column x: 128000000000 does not fit int32)"
    assert replay_text(script.format(reason)).failures == []
    assert len(replay_text(script.format(" (another)")).failures) == 1


def test_an_extra_or_a_missing_row_is_reported() -> None:
    script = "stream R (x int32)\ninstall q: SELECT x FROM R\nR: 1\nR: 1\nexpect q: {}\n"
    assert replay_text(script.format("1; 1")).failures == []
    assert len(replay_text(script.format("1")).failures) == 1
    assert len(replay_text(script.format("1; 1; 1")).failures) == 1
    assert len(replay_text(script.format("")).failures) == 1


@pytest.mark.parametrize("batch", BATCHES)
def test_derived_streams_feed_others_and_print_nothing(batch: int) -> None:
    script = """\
stream R (x int32)
derive big: SELECT x FROM R WHERE x > 1
CREATE STREAM bigger AS SELECT x FROM big WHERE x > 2
install q: SELECT x FROM bigger
R: 2
R: 3
expect q: 3
end
"""
    assert replay_text(script, batch=batch).lines == ["q: 3"]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("install q: SELECT y FROM R",
         "line 5: unknown column 'y' of R\n  SELECT y FROM R\n         ^\n"
         "The columns are id, x."),
        ("T: 1", "line 5: there is no stream 'T'\n  T: 1\nDeclare it first: stream T (...)."),
        ("R: 1", "line 5: stream R has 2 columns and the line 1 values\n  R: 1\n"
         "Write a value for each of: id, x."),
        ("drop other", "line 5: unknown query 'other'\n  drop other\nQueries there are: pairs."),
        ("punctuate R.y: 1", "line 5: stream R has no column 'y'\n  punctuate R.y: 1\n"
         "Write one of: id, x."),
        ("punctuate R.x: 'a'", "line 5: 'a' does not fit int32\n  punctuate R.x: 'a'\n"
         "Write a value of x's type."),
        ("punctuate R: DATE '2024-01-31'",
         "line 5: DATE '2024-01-31' can be meant for no column of stream R\n"
         "  punctuate R: DATE '2024-01-31'\nWrite the attribute: punctuate R.id: ...."),
        ("expect other: 1", "line 5: no query 'other' was installed\n  expect other: 1\n"
         "Install it."),
    ],
)  # fmt: skip
def test_a_step_that_the_engine_refuses_is_reported_with_its_line(
    batch: int, line: str, message: str
) -> None:
    with pytest.raises(ScriptError) as caught:
        replay_text(f"{HEAD}R: 1, 10\n{line}\nS: 7, 11\n", batch=batch)
    assert str(caught.value) == message


@pytest.mark.parametrize("line", ["R: 1, 2", "punctuate R: 1", "end R"])
def test_nothing_comes_after_the_end(line: str) -> None:
    with pytest.raises(ScriptError) as caught:
        replay_text(f"{HEAD}end R\n{line}\n", batch=10)
    assert str(caught.value) == (
        f"line 5: stream R has ended\n  {line}\nPut the line before its end."
    )


def test_a_punctuation_is_read_in_the_units_of_its_column() -> None:
    script = """\
stream R (t timestamp(3), id int64)
stream S (t timestamp(3), id int64)
install q: SELECT r.id FROM R [RANGE 10 SECONDS WATTR t] AS r \\
  LEFT JOIN S [RANGE 10 SECONDS WATTR t] AS s ON FALSE
R: TIMESTAMP '2024-01-31 12:00:00', 1
punctuate S: TIMESTAMP '2024-01-31 12:00:09.999'
expect q:
punctuate S: TIMESTAMP '2024-01-31 12:00:10'
expect q: 1
end
"""
    assert replay_text(script).failures == []
    assert run_on_oracle(script).failures == []


MIXED = """\
stream R (x int64)
stream S (x int64)
install sums: SELECT SUM(x) AS s FROM R [ROWS 2 SLIDE 2]
install pairs: SELECT r.x AS r, s.x AS s FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x = s.x
R: 1
R: 2
S: 2
end
expect sums: 3
expect pairs: 2, 2
"""
TEXTS = [line.split(": ", 1)[1] for line in MIXED.splitlines() if line.startswith("install")]
ALONE = "stream R (x int64)\ninstall sums: SELECT SUM(x) AS s FROM R [ROWS 2 SLIDE 2]\nend\n"


def test_what_is_for_joins_goes_to_the_queries_that_have_one() -> None:
    asked: dict[str, Any] = {"kernel": "hash", "flow": FlowChoice("splitjoin", 2, 2)}
    with Engine() as engine:
        assert replay_text(MIXED, engine, **asked).failures == []
    installed = [options_for(text, QueryOptions(None, **asked), TEXTS) for text in TEXTS]
    assert [(one.kernel, one.flow) for one in installed] == [
        (None, FlowChoice(cores=2)),
        ("hash", FlowChoice("splitjoin", 2, 2)),
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"kernel": "hash"},
            "the kernel 'hash' is for joins, and the query has none\n  {}\n"
            "Leave the kernel out, or write one for aggregates: panes, wid.",
        ),
        (
            {"flow": FlowChoice("handshake")},
            "the flow handshake is asked for, and the query has no join that cores could share\n"
            "  {}\nLeave the flow out; cores=2 (--cores 2) alone lets two threads divide the "
            "batches of an aggregate.",
        ),
    ],
)
def test_where_no_query_has_a_join_it_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ScriptError) as error:
        replay_text(ALONE, **asked)
    assert str(error.value) == f"line 2: {message.format(ALONE.splitlines()[1])}"
