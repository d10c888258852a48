"""The text of ``pss.sql``: derived streams, if any, and the query whose rows are the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import SqlError
from penstock.sql.parse.parser import parse, split
from penstock.sql.parse.statements import CreateStream, DeriveStream, QueryText
from penstock.sql.parse.syntax import StreamReference

_FORM = "Write CREATE STREAM ... AS SELECT ...; for each derived stream, and one SELECT at the end."


@dataclass(frozen=True)
class Script:
    """``CREATE STREAM name AS SELECT ...; ...; SELECT ...``, read."""

    derived: tuple[DeriveStream, ...]
    query: QueryText

    @property
    def queries(self) -> Iterator[QueryText]:
        """All queries, in the order of the text."""
        yield from (one.query for one in self.derived)
        yield self.query

    @property
    def reads(self) -> list[str]:
        """The names in FROM that no statement before has derived, each once, in their order."""
        found: dict[str, str] = {}
        known: set[str] = set()
        for statement in (*self.derived, None):
            query = self.query if statement is None else statement.query
            for name in names_read(query):
                if name.lower() not in known:
                    found.setdefault(name.lower(), name)
            if statement is not None:
                known.add(statement.name.lower())
        return list(found.values())


def parse_script(text: str) -> Script:
    """The statements of a text, or an error that says which of them is out of place."""
    statements = parse(text)
    places = [(tokens[0].start, tokens[-1].end + 1) for tokens in split(text)]
    if not statements:
        raise SqlError.at(text, 0, len(text), "no query", "Write SELECT ... FROM ....")
    derived: list[DeriveStream] = []
    last = len(statements) - 1
    for number, (statement, place) in enumerate(zip(statements, places, strict=True)):
        if isinstance(statement, QueryText) and number == last:
            return Script(tuple(derived), statement)
        if isinstance(statement, DeriveStream) and number < last:
            derived.append(statement)
            continue
        if isinstance(statement, DeriveStream):
            what, remedy = (
                "no query after it",
                f"Add what reads it: SELECT ... FROM {statement.name}.",
            )
        elif isinstance(statement, QueryText):
            what = "a query before the last statement"
            remedy = f"Name it: CREATE STREAM t AS SELECT .... {_FORM}"
        elif isinstance(statement, CreateStream):
            name = statement.stream.name
            what = "a DataFrame declares its columns itself"
            remedy = f"Leave the statement out, and pass the DataFrame: pss.sql(..., {name}=df)."
            if statement.stream.time is not None:
                remedy += f" Name the time in the window clause: WATTR {statement.stream.time}."
        else:
            what = "neither a query nor a derived stream"
            remedy = f"{_FORM} pss.explain explains them."
        raise SqlError.at(text, *place, what, remedy)
    raise AssertionError("the last statement returns or is refused")


def references(query: QueryText) -> Iterator[StreamReference]:
    """The streams in the query's FROM, in its order."""
    for select in query.ast.selects:
        yield from select.references


def names_read(query: QueryText) -> Iterator[str]:
    """The streams that a query names, in its order."""
    return (reference.stream.text for reference in references(query))
