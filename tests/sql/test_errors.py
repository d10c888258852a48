"""Bad SQL: every message in full, in ``errors*.txt`` (a title, the text, ``----``, the message)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SqlError
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import QueryText


def cases() -> list[tuple[str, str, str]]:
    found = []
    for path in sorted(Path(__file__).parent.glob("errors*.txt")):
        for block in path.read_text().split("\n\n"):
            title, rest = block.strip("\n").split("\n", 1)
            sql, message = rest.split("\n----\n")
            found.append((title.removeprefix("# "), sql, message))
    return found


CASES = cases()


@pytest.mark.parametrize(("sql", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_message(catalog: Catalog, sql: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        for statement in parse(sql):
            if isinstance(statement, QueryText):
                bind(statement, catalog)
    assert str(error.value) == message


@pytest.mark.parametrize("message", [c[2] for c in CASES])
def test_every_message_points_somewhere_and_ends_with_a_remedy(message: str) -> None:
    lines = message.splitlines()
    assert " at line " in lines[0]
    assert set(lines[2].strip()) == {"^"}
    assert lines[1][lines[2].index("^") : lines[2].index("^") + 1] != " "
    assert lines[-1][-1] in ".?;"  # SQL to copy ends with a semicolon
