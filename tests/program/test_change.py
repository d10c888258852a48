"""What a running aggregate, and a join of several streams, may be changed to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import ChangeRefused
from penstock.program.compile.change import check_change
from penstock.program.isa.block_instructions import Program

FROM = "FROM R [RANGE 90 SLIDE 60 WATTR i]"
NEW_QUERY = "Install it as a new query and drop this one."
HAS = "query 'q' has the windows [RANGE 90 SLIDE 60 WATTR i] on i; a change may alter their RANGE "

FINE = [
    (f"SELECT COUNT(*) {FROM}", f"SELECT SUM(x), COUNT(*) {FROM} WHERE x > 1 HAVING SUM(x) > 1"),
    (f"SELECT COUNT(*) {FROM}", "SELECT COUNT(*) FROM R [RANGE 90 SLIDE 60 WATTR i SLACK 5]"),
    (f"SELECT COUNT(*) {FROM}", "SELECT COUNT(*) FROM R [RANGE 30 SLIDE 60 WATTR i]"),
    (f"SELECT COUNT(*) {FROM}", "SELECT COUNT(z.x) FROM R [RANGE 210 SLIDE 60 WATTR i] AS z"),
    (f"SELECT COUNT(*) {FROM}", "SELECT COUNT(*) FROM R [RANGE 120 SLIDE 60 WATTR i]"),
    (f"SELECT k, x + 1 {FROM} GROUP BY k, x + 1", f"SELECT MAX(i) {FROM} GROUP BY k, x + 1"),
    ("SELECT COUNT(*) FROM R [ROWS 5 SLIDE 2]", "SELECT LAST(x) FROM R [ROWS 7 SLIDE 2 WATTR i]"),
    ("SELECT COUNT(*) FROM B", "SELECT FIRST(x), COUNT(*) FROM B WHERE x > 1"),
    (
        "SELECT COUNT(*) FROM B [NOW] a JOIN B [NOW] b ON a.i = b.i GROUP BY b.p",
        "SELECT SUM(y.x) FROM B [NOW] z JOIN B [ROWS 9] y ON z.x < y.x GROUP BY y.p",
    ),
    (
        "SELECT a.k FROM R [ROWS 4] a JOIN B [RANGE 9 WATTR i] b ON a.i = b.i "
        "JOIN R [ROWS 2] c ON b.x = 1",
        "SELECT c.x + 1 AS y, a.i FROM R [ROWS 0] q JOIN B [RANGE 3 WATTR i SLACK 1] a ON TRUE "
        "JOIN R [ROWS 8] c ON a.x < c.x AND q.k = c.k",
    ),
    (f"SELECT k {FROM} GROUP BY k ORDER BY k", f"SELECT k {FROM} GROUP BY k ORDER BY COUNT(*)"),
    (f"SELECT k {FROM} GROUP BY k LIMIT 1", f"SELECT k {FROM} GROUP BY k ORDER BY k LIMIT 2"),
    ("SELECT k FROM B GROUP BY k LIMIT 1", "SELECT k FROM B GROUP BY k ORDER BY k LIMIT 2"),
    ("SELECT k FROM B ORDER BY k", "SELECT x FROM B ORDER BY i DESC LIMIT 7"),
    (
        "SELECT k FROM B UNION ALL SELECT k FROM B ORDER BY k",
        "SELECT k FROM B WHERE x > 1 UNION ALL SELECT k FROM B ORDER BY k DESC LIMIT 7",
    ),
    ("SELECT k FROM B ORDER BY k LIMIT 7", "SELECT x FROM B ORDER BY k LIMIT 6"),
]


@pytest.mark.parametrize(("before", "after"), FINE)
def test_fine(program: Callable[..., Program], before: str, after: str) -> None:
    check_change("q", program(before), program(after))


CUT = (
    "query 'q' holds no more rows for its end than its LIMIT asks for; a change cannot give it "
    f"another ORDER BY or a larger LIMIT\n{NEW_QUERY}"
)

THREE = "SELECT a.k FROM R [ROWS 4] a, B [RANGE 9 WATTR i] b, R [ROWS 2 WATTR i] c"
WINDOW = "a change may alter its size and slack, but cannot make it"

REFUSED = [
    (
        THREE,
        "SELECT a.k FROM R [ROWS 4] a, B [RANGE 9 WATTR i] b",
        f"query 'q' reads R, B, R; a change cannot make it read R, B\n{NEW_QUERY}",
    ),
    (
        THREE,
        "SELECT a.k FROM R [ROWS 4] a, R [ROWS 2 WATTR i] c, B [RANGE 9 WATTR i] b",
        f"query 'q' reads R, B, R; a change cannot make it read R, R, B\n{NEW_QUERY}",
    ),
    (
        THREE,
        THREE.replace("[ROWS 2 WATTR i]", "[RANGE 2 WATTR i]"),
        f"query 'q' has the window [ROWS 2] on i; {WINDOW} [RANGE 2 WATTR i]\n{NEW_QUERY}",
    ),
    (
        THREE,
        THREE.replace("[ROWS 2 WATTR i]", "[ROWS 2 WATTR x]"),
        f"query 'q' has the window [ROWS 2] on i; {WINDOW} [ROWS 2] on x\n{NEW_QUERY}",
    ),
    (
        f"{THREE} UNION ALL SELECT d.k FROM R [NOW] AS d, B [NOW] AS e WHERE d.i = e.x",
        "SELECT a.k FROM R [ROWS 4] a, B [ROWS 9] b UNION ALL "
        "SELECT c.k FROM R [ROWS 4] c, R [NOW] d, B [NOW] e WHERE d.i = e.x",
        "a change cannot turn query 'q' into one of another shape (join, aggregate, order, "
        f"selection or union)\n{NEW_QUERY}",
    ),
    ("SELECT k FROM B ORDER BY k LIMIT 7", "SELECT k FROM B ORDER BY k LIMIT 8", CUT),
    ("SELECT k FROM B ORDER BY k LIMIT 7", "SELECT k FROM B ORDER BY k DESC LIMIT 7", CUT),
    ("SELECT k FROM B LIMIT 7", "SELECT k FROM B ORDER BY k", CUT),
    (
        "SELECT k FROM B UNION ALL SELECT k FROM B ORDER BY 1",
        "SELECT k AS other FROM B UNION ALL SELECT k FROM B ORDER BY 1",
        "query 'q' holds the rows of its UNION ALL for its end; a change cannot give it other "
        f"columns\n{NEW_QUERY}",
    ),
    (
        "SELECT k FROM B GROUP BY k UNION ALL SELECT k FROM B LIMIT 7",
        "SELECT k FROM B GROUP BY k UNION ALL SELECT k FROM B LIMIT 8",
        CUT,
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        f"SELECT COUNT(*) {FROM} GROUP BY k",
        f"query 'q' groups by nothing; a change cannot make it group by k\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM} GROUP BY k, x",
        f"SELECT COUNT(*) {FROM} GROUP BY x, k",
        f"query 'q' groups by k, x; a change cannot make it group by x, k\n{NEW_QUERY}",
    ),
    (
        "SELECT COUNT(*) FROM B [NOW] a JOIN B [NOW] b ON a.i = b.i GROUP BY a.k",
        "SELECT COUNT(*) FROM B [NOW] a JOIN B [NOW] b ON a.i = b.i GROUP BY b.k",
        f"query 'q' groups by a.k; a change cannot make it group by b.k\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        f"SELECT COUNT(*) {FROM} EMIT EMPTY",
        f"a change cannot add EMIT EMPTY to query 'q'\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM} EMIT EMPTY",
        f"SELECT COUNT(*) {FROM}",
        f"a change cannot take EMIT EMPTY from query 'q'\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        "SELECT COUNT(*) FROM R [RANGE 90 SLIDE 30 WATTR i]",
        f"{HAS}(or ROWS) and SLACK, but cannot make them [RANGE 90 SLIDE 30 WATTR i] on i\n"
        f"{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        "SELECT COUNT(*) FROM R [RANGE 90 SLIDE 60 START AT 0 WATTR i]",
        f"{HAS}(or ROWS) and SLACK, but cannot make them [RANGE 90 SLIDE 60 START AT 0 WATTR i] "
        f"on i\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        "SELECT COUNT(*) FROM R [RANGE 90 SLIDE 60 WATTR x]",
        f"{HAS}(or ROWS) and SLACK, but cannot make them [RANGE 90 SLIDE 60 WATTR x] on x\n"
        f"{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        "SELECT COUNT(*) FROM R [ROWS 90 SLIDE 60]",
        f"{HAS}(or ROWS) and SLACK, but cannot make them [ROWS 90 SLIDE 60]\n{NEW_QUERY}",
    ),
    (
        "SELECT COUNT(*) FROM B",
        "SELECT COUNT(*) FROM B [ROWS 90 SLIDE 60]",
        "query 'q' has the windows of the whole input; a change may alter their RANGE (or ROWS) "
        f"and SLACK, but cannot make them [ROWS 90 SLIDE 60]\n{NEW_QUERY}",
    ),
    (
        "SELECT FIRST(x) FROM R [ROWS 9 SLIDE 6 WATTR i]",
        "SELECT FIRST(x) FROM R [ROWS 9 SLIDE 6 WATTR t]",
        "query 'q' has the windows [ROWS 9 SLIDE 6] on i; a change may alter their RANGE (or ROWS) "
        f"and SLACK, but cannot make them [ROWS 9 SLIDE 6] on t\n{NEW_QUERY}",
    ),
    (
        f"SELECT COUNT(*) {FROM}",
        "SELECT COUNT(*) FROM R [RANGE 100 SLIDE 60 WATTR i]",
        "query 'q' has the windows [RANGE 90 SLIDE 60 WATTR i]; windows [RANGE 100 SLIDE 60 "
        "WATTR i] would begin inside the panes that it keeps\n"
        "Write as RANGE a multiple of SLIDE, or as much beyond one as now; or install it as a new "
        "query and drop this one.",
    ),
    (
        "SELECT COUNT(*) FROM R [ROWS 9 SLIDE 6]",
        "SELECT COUNT(*) FROM R [ROWS 10 SLIDE 6]",
        "query 'q' has the windows [ROWS 9 SLIDE 6]; windows [ROWS 10 SLIDE 6] would begin inside "
        "the panes that it keeps\n"
        "Write as ROWS a multiple of SLIDE, or as much beyond one as now; or install it as a new "
        "query and drop this one.",
    ),
    (
        "SELECT COUNT(*) FROM R [ROWS 12 SLIDE 6]",
        "SELECT COUNT(*) FROM R [ROWS 9 SLIDE 6]",
        "query 'q' has the windows [ROWS 12 SLIDE 6]; windows [ROWS 9 SLIDE 6] would begin inside "
        "the panes that it keeps\n"
        "Write as ROWS a multiple of SLIDE; or install it as a new query and drop this one.",
    ),
    (
        "SELECT k FROM B",
        "SELECT k FROM B ORDER BY k",
        "a change cannot turn query 'q' into one of another shape (join, aggregate, order, "
        f"selection or union)\n{NEW_QUERY}",
    ),
    (
        "SELECT k FROM B",
        "SELECT k FROM B GROUP BY k",
        "a change cannot turn query 'q' into one of another shape (join, aggregate, order, "
        f"selection or union)\n{NEW_QUERY}",
    ),
]


@pytest.mark.parametrize(("before", "after", "message"), REFUSED)
def test_refused(program: Callable[..., Program], before: str, after: str, message: str) -> None:
    with pytest.raises(ChangeRefused) as caught:
        check_change("q", program(before), program(after))
    assert str(caught.value) == message


def test_modules_keep_their_size(program: Callable[..., Program]) -> None:
    before = program(f"SELECT COUNT(*) {FROM}", "wid")
    other = FROM.replace("90", "120")
    check_change("q", before, program(f"SELECT COUNT(*), MAX(x) {FROM} WHERE x > 1", "wid"))
    check_change("q", before, program(f"SELECT COUNT(*) {FROM.replace(']', ' SLACK 9]')}", "wid"))
    with pytest.raises(ChangeRefused) as caught:
        check_change("q", before, program(f"SELECT COUNT(*) {other}", "wid"))
    assert str(caught.value) == (
        "query 'q' runs on the kernel 'wid', whose modules have taken tuples in for the windows "
        "[RANGE 90 SLIDE 60 WATTR i] on i; a change cannot make them [RANGE 120 SLIDE 60 WATTR i] "
        f"on i\n{NEW_QUERY}"
    )
