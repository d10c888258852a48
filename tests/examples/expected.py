"""What the oracle says of the example's queries, as the lines that it has to print."""

from __future__ import annotations

import pyarrow as pa
from examples.trades.run import install

from penstock.program.isa.instructions import CreateStream, Derive, Install
from penstock.sql.parse import statements
from penstock.sql.parse.parser import parse
from penstock.streams.convert import to_batches
from penstock.streams.events import End
from penstock.streams.schema import Stream
from penstock.testing import OracleTarget

Lines = dict[str, list[str]]


class Declared:
    """The oracle, with as much of an engine as installs queries."""

    def __init__(self) -> None:
        self.target = OracleTarget()
        self.streams: dict[str, Stream] = {}

    def sql(self, text: str) -> None:
        (statement,) = parse(text)
        if isinstance(statement, statements.CreateStream):
            self.streams[statement.stream.name] = statement.stream
            self.target.feed([CreateStream(statement.stream)])
        else:
            assert isinstance(statement, statements.DeriveStream)
            self.target.feed([Derive(statement.name, statement.query.text)])

    def install(self, text: str, name: str) -> None:
        self.target.feed([Install(name, text)])


def expected_lines(trades: pa.Table, names: tuple[str, ...]) -> Lines:
    """The rows and the late tuples of every query; a derived stream has late tuples alone."""
    oracle = Declared()
    install(oracle, names)
    oracle.target.feed([*to_batches(oracle.streams["Trades"], trades), End("Trades")])
    found = [output for output in oracle.target.outputs() if not hidden(output.query, output.kind)]
    return by_query([output.line for output in found])


def hidden(query: str, kind: str) -> bool:
    return kind == "rows" and query in ("LastMinute", "TenMinutes")


def by_query(lines: list[str]) -> Lines:
    """Lines by what stands before their first colon, late tuples without their reason."""
    found: Lines = {}
    for line in lines:
        name, _, text = line.partition(": ")
        found.setdefault(name, []).append(text.partition(" (Time = ")[0])
    return found
