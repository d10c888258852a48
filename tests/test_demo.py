"""The demo: it tells what it does, and its check can fail."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import demo
from penstock.demo import Size, run_demo

SMALL = Size(window=500, arrivals=8_000, chunk=500)


def test_it_shows_the_query_the_rates_the_change_and_the_check() -> None:
    lines: list[str] = []
    assert run_demo(lines.append, SMALL)
    text = "\n".join(lines)
    for part in (
        "FROM R [ROWS 500] AS r JOIN S [ROWS 500] AS s",
        "tuples/s",
        "G comparisons/s on one core",
        "Now the band becomes ±20 instead of ±10",
        "rows, the same.",
    ):
        assert part in text


def test_it_notices_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    real = demo._flow

    def one_row_short(*arguments: object) -> pa.Table:
        return real(*arguments).slice(1)  # type: ignore[arg-type]

    monkeypatch.setattr(demo, "_flow", one_row_short)
    lines: list[str] = []
    assert not run_demo(lines.append, SMALL)
    assert "NOT the same" in lines[-1]


def test_the_data_are_as_published() -> None:
    data = demo.generate(20_000)
    x, y = data.r.column("x").to_pylist(), data.r.column("y").to_pylist()
    assert str(data.r.schema.field("y").type) == "float"
    assert 1 <= min(x) <= 20
    assert 9_980 <= max(x) <= 10_000
    assert 1 <= min(y) <= 20
    assert 9_980 <= max(y) <= 10_000
    assert all(len(z) == 20 for z in data.r.column("z").to_pylist())
