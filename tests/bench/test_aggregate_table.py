"""The table of the window aggregates, as Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.aggregate_table import main, table
from bench.tables import marks

BEGIN, END = marks("aggregates")


def entry(millions: float, **more: Any) -> dict[str, Any]:
    shape = {"range": 600, "slide": 60, "modules": 11, "batch": 1 << 20}
    return {**shape, "tuples_per_second": {"median": millions * 1e6}, **more}


RESULTS: dict[str, Any] = {
    "q3": [
        entry(330), entry(363, range=3600, modules=61),
        entry(300, range=10_000, slide=1, modules=10_060),
    ],
    "q3_shapes": [entry(310, share=0.5, disorder=60), entry(320, share=1 / 16, disorder=0)],
    "q3_batches": [entry(300), entry(40, batch=1 << 14)],
    "together": {"all": entry(110)},
    "grouped": {"symbol": entry(45), "integer": entry(41)},
    "wid_against_panes": [entry(300, kernel="panes"), entry(30, kernel="wid")],
    "against_duckdb": {
        "tuples": 1_000, "groups": 10, "penstock": entry(40), "duckdb, copied": entry(1.5),
        "rows": 3, "duckdb_version": "2.0",
    },
    "memory": {"tuples": 10**9, "growth": 1.014, "samples": [{"tuples": 1, "bytes": 3 << 20}]},
}  # fmt: skip
TABLE = """\
| work | published or stock | goal | measured |
| --- | --- | --- | --- |
| Query Q3, `RANGE` 600 s and up, then `RANGE/SLIDE` = 10,000: 11 / 61 / 10,060 windows; batches \
of 2^20 | circuit 157 M; LightSaber 470 M on 16 cores | 300 M t/s, flat within 10 % | 330 / 363 / \
300 M t/s, 11 to 61 windows 10 % apart |
| Query Q3, by the share of tuples that it counts | – | – | 1 in 2, up to a minute late: 310 M \
t/s; 1 in 16, in order: 320 M t/s |
| Query Q3, by the size of a batch | – | – | 2^20: 300 M t/s; 2^14: 40 M t/s |
| `COUNT`, `SUM`, `MIN`, `MAX`, `AVG` together | – | 100 M t/s | all 110 M t/s |
| grouped by 10,000 keys, `COUNT` and `SUM` | – | 40 M t/s | symbol 45 M t/s; integer 41 M t/s |
| kernels, 11 windows | circuit 157 M | – | `panes` 300 M t/s; `wid` 30 M t/s |
| grouped, over one table of 1,000 tuples, 10 keys | DuckDB 2.0: copied 1.5 M t/s | – | 40.0 M t/s |
| memory of four queries over 1,000,000,000 tuples | – | flat | at most 1.01 times that after a \
tenth of them; 3 MiB |
"""


def test_all_parts_have_a_line() -> None:
    assert table(RESULTS) == TABLE


def test_what_was_not_measured_has_none() -> None:
    assert table({}) == "".join(TABLE.splitlines(keepends=True)[:2])


def test_the_command_prints_it_or_puts_it_into_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, page = tmp_path / "a.json", tmp_path / "page.md"
    result.write_text(json.dumps({"aggregates": RESULTS}))
    main([str(result)])
    assert capsys.readouterr().out == TABLE
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    main([str(result), "--into", str(page)])
    assert page.read_text() == f"before\n{BEGIN}\n\n{TABLE}\n{END}\nafter\n"
