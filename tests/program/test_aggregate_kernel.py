"""Which kernel an aggregate has, why, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.program.choose.aggregate_kernel import window_modules
from penstock.program.isa.block_instructions import Program

JOIN = "FROM B [ROWS 5] AS a JOIN B [ROWS 5] AS b ON a.i = b.i"


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 500))
def test_modules_are_those_of_the_equations(size: int, slide: int, slack: int) -> None:
    whole = -(-size // slide)
    extra = Fraction(slack + size, slide) - whole
    x = next(x for x in range(1, 2000) if x >= extra)
    assert window_modules(size, slide, slack) == whole + x


REASONS = {
    "COUNT(*) FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t SLACK 1 MINUTE]": (
        "panes of 60 s, whatever the windows; 11 windows are open at a time; COUNT(*) subtracts"
    ),
    "SUM(x), MIN(x), MAX(x) FROM R [RANGE 90 SLIDE 60 WATTR i]": (
        "panes of 30 and 30, whatever the windows; 2 windows are open at a time; "
        "SUM(x) subtracts; MIN(x), MAX(x) use two stacks"
    ),
    "AVG(x), COUNT(DISTINCT k), FIRST(x) FROM R [RANGE 1 DAY SLIDE 7 DAYS WATTR d]": (
        "panes of 1 day and 6 days, whatever the windows; 1 window is open at a time; "
        "AVG(x), COUNT(DISTINCT k) subtract; FIRST(x) uses two stacks"
    ),
    "STDDEV(x) FROM R [RANGE 1.75 SLIDE 0.5 WATTR p]": (
        "panes of 0.25 and 0.25, whatever the windows; 4 windows are open at a time; "
        "STDDEV_SAMP(x) subtracts"
    ),
    "LAST(x) FROM R [RANGE 1500 MILLISECONDS SLIDE 1500 MILLISECONDS WATTR t]": (
        "panes of 1.5 s, whatever the windows; 1 window is open at a time; LAST(x) uses two stacks"
    ),
    "COUNT(*) FROM R [ROWS 10 SLIDE 1]": (
        "panes of 1 tuple, whatever the windows; 10 windows are open at a time; COUNT(*) subtracts"
    ),
    "COUNT(*) FROM B": "one pane, the whole input",
}


@pytest.mark.parametrize("text", REASONS)
def test_panes_and_why(program: Callable[..., Program], text: str) -> None:
    (aggregate,) = program(f"SELECT {text}").aggregates
    assert (aggregate.kernel, aggregate.reason) == ("panes", REASONS[text])
    (forced,) = program(f"SELECT {text}", "panes").aggregates
    assert (forced.kernel, forced.reason) == ("panes", f"asked for; {REASONS[text]}")


def test_window_modules(program: Callable[..., Program]) -> None:
    sql = "SELECT COUNT(*) FROM R [RANGE 600 SLIDE 60 WATTR i SLACK 60]"
    (aggregate,) = program(sql, "wid").aggregates
    assert (aggregate.kernel, aggregate.reason) == (
        "wid",
        "asked for; 11 window modules, of which each tuple visits all",
    )
    without_slack = program(sql.replace(" SLACK 60", ""), "wid").aggregates[0]
    assert "11 window modules" in without_slack.reason


def test_a_kernel_of_aggregates_leaves_the_join_its_own(program: Callable[..., Program]) -> None:
    found = program(f"SELECT COUNT(*) {JOIN}", "panes")
    assert (found.joins[0].kernel, found.joins[0].kernel_is_forced) == ("hash", False)
    found = program(f"SELECT COUNT(*) {JOIN}", "nested-loop")
    assert (found.joins[0].kernel, found.aggregates[0].kernel) == ("nested-loop", "panes")


REFUSED = [
    (
        "SELECT COUNT(*) FROM B",
        "hash",
        "the kernel 'hash' is for joins, and the query has none\n"
        "Leave the kernel out, or write one for aggregates: panes, wid.",
    ),
    (
        "SELECT k FROM R",
        "nested-loop",
        "the kernel 'nested-loop' is for joins, and the query has none\nLeave the kernel out.",
    ),
    (
        "SELECT k FROM R",
        "wid",
        "the kernel 'wid' is for aggregates, and the query has none\n"
        "Leave the kernel out, or write one for joins: nested-loop, hash, band, sorted.",
    ),
    (
        f"SELECT a.k {JOIN}",
        "panes",
        "the kernel 'panes' is for aggregates, and the query has none\n"
        "Leave the kernel out, or write one for joins: nested-loop, hash, band, sorted.",
    ),
    (
        "SELECT COUNT(*) FROM B",
        "grid",
        "unknown kernel 'grid'\nWrite one of: nested-loop, hash, band, sorted, panes, wid.",
    ),
    (
        "SELECT COUNT(*) FROM R [ROWS 5 SLIDE 5]",
        "wid",
        "the kernel 'wid' has modules for windows of a RANGE that slides\n"
        "Write [RANGE ... SLIDE ...] after the stream, or leave the kernel out.",
    ),
    (
        "SELECT COUNT(*) FROM R [RANGE 1 DAY SLIDE 1 MICROSECOND WATTR t]",
        "wid",
        "the kernel 'wid' would need 86400000001 window modules\n"
        "Leave the kernel out, or write a longer SLIDE: at most 65536 modules.",
    ),
]


@pytest.mark.parametrize(("sql", "kernel", "message"), REFUSED)
def test_a_kernel_that_cannot_serve_is_refused(
    program: Callable[..., Program], sql: str, kernel: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        program(sql, kernel)
    assert str(caught.value) == message
