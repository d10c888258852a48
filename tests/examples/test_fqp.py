"""The case studies of the Flexible Query Processor: what they show, and their rows."""

from __future__ import annotations

import io

import pytest
from examples.fqp import run
from rich.console import Console
from tests.engines.spark.in_process import Cluster, standing_in

import penstock as ps
from penstock.program.isa.words.assembly import assemble, from_hex

SMALL = ("--tuples", "3000")
ROWS = {
    "operation": [("operation-1", 2_277)],
    "chain": [("customers-1", 1_065), ("customers-2", 395)],
    "branches": [("customers-1", 1_065), ("customers-2", 395)],
    "segments": [("segments-1", 1_718), ("segments-2", 710)],
}


def shown(*given: str) -> tuple[int, list[str]]:
    file = io.StringIO()
    status = run.main(list(given), Console(file=file, width=200))
    return status, [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("engine", ("local", "spark"))
@pytest.mark.parametrize("case", run.CASES)
def test_every_case_has_the_rows_of_duckdb(case: str, engine: str) -> None:
    with standing_in(Cluster(eager=True)):
        status, lines = shown(case, "--engine", engine, *SMALL)
    assert status == 0
    ends = [f"{name}: {rows:,} rows; DuckDB has the same" for name, rows in ROWS[case]]
    assert lines[-len(ends) :] == ends


def test_the_blocks_of_the_chain() -> None:
    """As in Fig. 4.2.2, but that both selections have room in the first block."""
    _, lines = shown("chain", *SMALL)
    table = [line.split()[1:5] for line in lines if line.startswith(";")][3:]
    assert table == [
        ["1", "512", "0", "Adults"],
        ["1", "512", "2", "Women"],
        *[[str(block), "512", "1", "customers-1"] for block in (2, 3, 4)],
        *[[str(block), "512", "3", "customers-2"] for block in (5, 6, 7, 8)],
    ]


def test_the_blocks_of_the_branches() -> None:
    """As in Fig. 4.2.3: the selections are in both branches, and a join in each."""
    _, lines = shown("branches", *SMALL)
    table = [line.split()[1:5] for line in lines if line.startswith(";")][3:]
    assert table == [
        ["1", "512", "0", "Adults"],
        ["1", "512", "2", "Women"],
        ["2", "1,536", "1", "customers-1"],
        ["3", "512", "0", "Adults"],
        ["3", "512", "2", "Women"],
        ["4", "2,048", "3", "customers-2"],
    ]


def test_the_words_are_those_of_the_text() -> None:
    _, lines = shown("operation", *SMALL)
    first = lines.index("35 chunks of 72 bits:")
    text = [line for line in lines[:first] if line.startswith(("reset", "ports", "selection", "+"))]
    assert text[0] == "reset block=1 query=0 result_port=stream-r every_query=no"
    widths = run.CASES["operation"].on.widths
    reset = assemble(text[0], widths)
    assert from_hex("".join(lines[first + 1 : first + 9])).startswith(reset)


def test_a_wrong_row_is_seen() -> None:
    case = run.CASES["segments"]
    pushes = case.pushes(500)
    with ps.connect("local", topology=case.on) as engine:
        rows = run.flow(case, engine, pushes)
    assert run.differences(case, rows, pushes) == {"segments-1": 0, "segments-2": 0}
    rows["segments-2"] = rows["segments-2"].slice(1)
    assert run.differences(case, rows, pushes) == {"segments-1": 0, "segments-2": 1}


def test_arguments_that_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["ring"], ["chain", "--tuples", "0"]):
        with pytest.raises(SystemExit) as ended:
            run.main(given)
        assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("--tuples 0: write a number from 1 on\n")
