"""Tables of benchmarks: rows as Markdown, and the command that puts a table into a page of docs.

``python -m bench.fqp_table docs/figures/fqp.json`` prints the table of a benchmark; ``--into
docs/topologies.md`` writes it there, between the marks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, str]
Table = Callable[[dict[str, Any]], str]


def markdown(head: Row, rows: Iterable[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = [head, ("---",) * 4, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def marks(benchmark: str) -> tuple[str, str]:
    """The lines of a page between which the table of a benchmark stands."""
    return f"<!-- {benchmark}: begin -->", f"<!-- {benchmark}: end -->"


def put(text: str, document: str, benchmark: str) -> str:
    """The document with the text between the marks of the benchmark."""
    begin, end = marks(benchmark)
    if document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"the document needs the lines {begin} and {end}, once each")
    before, after = document.split(begin)[0], document.split(end)[1]
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def command(
    module: str, benchmark: str, table: Table, about: str | None, given: list[str] | None = None
) -> None:
    """``python -m bench.MODULE RESULT.json [--into DOCUMENT.md]``."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{module}", description=about)
    parser.add_argument("result", type=Path, metavar=f"{benchmark.upper()}.json")
    parser.add_argument("--into", type=Path, metavar="DOCUMENT.md")
    arguments = parser.parse_args(given)
    text = table(json.loads(arguments.result.read_text(encoding="utf-8"))[benchmark])
    if arguments.into is None:
        print(text, end="")
        return
    document = arguments.into.read_text(encoding="utf-8")
    arguments.into.write_text(put(text, document, benchmark), encoding="utf-8")
