"""What an aggregate costs follows its tuples and rows, however windows, groups and batches are cut.

Costs are counted, not timed: cells that are made, and functions that are called.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.blocks.aggregate.functions.count import Counts

CALLS = (
    "COUNT(*)",
    "SUM(x)",
    "AVG(x)",
    "MIN(x)",
    "VAR_POP(x)",
    "COUNT(DISTINCT x)",
    "FIRST(x)",
    "LAST(w)",
    "MAX(w)",
)
SHAPES = {
    "a window and a group for each tuple": ("[RANGE 1 SLIDE 1 WATTR t]", "GROUP BY k", 1, None),
    "a window for each tuple": ("[RANGE 1 SLIDE 1 WATTR t]", "", 1, None),
    "sliding windows": ("[RANGE 10 SLIDE 1 WATTR t]", "GROUP BY k", 1, None),
    "uneven windows": ("[RANGE 7 SLIDE 3 WATTR t]", "GROUP BY k", 1, None),
    "windows that stay open": ("[RANGE 2 SLIDE 1 WATTR t SLACK 100000]", "GROUP BY k", 1, None),
    "groups that come again": ("[RANGE 4 SLIDE 1 WATTR t]", "GROUP BY k % 50", 1, None),
    "counted windows": ("[ROWS 4 SLIDE 2]", "GROUP BY k", 1, None),
    "modules": ("[RANGE 3 SLIDE 1 WATTR t]", "GROUP BY k", 1, "wid"),
    "batches": ("[RANGE 1 SLIDE 1 WATTR t SLACK 100]", "GROUP BY k", 8, None),
}
LATE = {
    "late tuples": ("[RANGE 20 SLIDE 1 WATTR t]", "", 1, None),
    "late tuples of groups": ("[RANGE 20 SLIDE 4 WATTR t SLACK 3]", "GROUP BY k % 7", 1, None),
    "late tuples of many groups": ("[RANGE 5 SLIDE 1 WATTR t]", "GROUP BY k", 1, None),
    "late tuples of modules": ("[RANGE 3 SLIDE 1 WATTR t]", "GROUP BY k", 1, "wid"),
    "late tuples and empty windows": ("[RANGE 8 SLIDE 2 WATTR t]", "EMIT EMPTY", 1, None),
}
CALLS_PER_LETTER = 64
"""Calls and returns, at most, to tell that a tuple is late and which windows it missed."""


def cost(
    size: int, call: str, shape: tuple[str, str, int, str | None], late: bool = False
) -> tuple[int, int, int]:
    """The cells made and functions called for that many tuples, and their rows.

    ``late``: every other tuple is.
    """
    window, by, batches, kernel = shape
    engine = ps.connect("local")
    engine.sql("CREATE STREAM s (t BIGINT, k BIGINT, x BIGINT, w VARCHAR)")
    text = f"SELECT {call} AS a FROM s {window} {by}"
    query = engine.install(text, **({} if kernel is None else {"kernel": kernel}))
    numbers = np.arange(size)
    words = pa.array([f"w{i % 30}" for i in range(size)])
    times = numbers - numbers % 2 * (numbers % 13) if late else numbers
    table = pa.table({"t": times, "k": numbers * 7 % size, "x": numbers % 100, "w": words})
    cells = calls = 0
    make = Counts.__init__

    def noted(self: Counts, count: int) -> None:
        nonlocal cells
        cells += count
        make(self, count)

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Counts, "__init__", noted)
        sys.setprofile(profile)
        try:
            for start in range(0, size, size // batches):
                engine.push("s", table.slice(start, size // batches))
            engine.end()
        finally:
            sys.setprofile(None)
    return cells, calls, query.rows().num_rows


@pytest.mark.parametrize("name", SHAPES)
def test_a_cost_follows_tuples_and_rows(name: str) -> None:
    for call in CALLS:
        cost(3200, call, SHAPES[name])  # what is compiled on first use, is
        (cells, calls, rows), (more_cells, more_calls, more_rows) = (
            cost(size, call, SHAPES[name]) for size in (400, 3200)
        )
        units = (3200 + more_rows) / (400 + rows)
        assert more_cells <= 2 * units * max(cells, 4 * (400 + rows)), call
        assert more_calls <= 2 * calls, call


@pytest.mark.parametrize("name", LATE)
def test_late_tuples_between_windows_that_close_cost_no_more(name: str) -> None:
    """A step for every turn of late tuples and closed windows would call hundreds of functions."""
    for call in CALLS:
        cost(3200, call, LATE[name], late=True)
        (cells, calls, rows), (more_cells, more_calls, more_rows) = (
            cost(size, call, LATE[name], late=True) for size in (400, 3200)
        )
        units = (3200 + more_rows) / (400 + rows)
        assert more_cells <= 2 * units * max(cells, 4 * (400 + rows)), call
        assert more_calls <= 2 * calls + CALLS_PER_LETTER * 1600, call
