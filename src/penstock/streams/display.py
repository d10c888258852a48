"""Display of objects: one line of text, or HTML tables in notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 120
"""The longest text that is shown on one line, in characters."""


def one_line(text: str) -> str:
    """The text on one line, cut if it is long.

    >>> one_line("SELECT x   FROM R")
    'SELECT x FROM R'
    """
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def listed(names: Iterable[str], word: str = "and") -> str:
    """Names as a sentence has them.

    >>> listed(["R"]), listed(["R", "S"]), listed(["R", "S", "Q"], "or")
    ('R', 'R and S', 'R, S or Q')
    """
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def counted(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun, in the singular or plural.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "query", "queries")
    ('1 row', '2,000 rows', '2 queries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def html_line(text: str) -> str:
    """A line as HTML."""
    return f"<div>{escape(text)}</div>"


def html_text(text: str) -> str:
    """A text as HTML that keeps its lines and spaces."""
    return f"<pre>{escape(text)}</pre>"


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as HTML.

    >>> html_table(["x"], [["<b>"]])
    '<table><thead><tr><th>x</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
