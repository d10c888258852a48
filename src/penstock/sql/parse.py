"""Read SQL: text in, statements out."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import InputError, SqlError
from penstock.sql.dialect import Penstock, span
from penstock.sql.grammar import Queries
from penstock.sql.statements import (
    CreateStream,
    DeriveStream,
    Describe,
    Explain,
    QueryText,
    ShowQueries,
    ShowStreams,
    Statement,
)
from penstock.streams.schema import Stream, parse_type

STATEMENTS = (
    "Write SELECT, CREATE STREAM, SHOW STREAMS, SHOW QUERIES, DESCRIBE name or EXPLAIN SELECT."
)
COMMENT_MARK = re.compile(r"/\*|\*/")
QUERY_START = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})
INSTEAD = {
    "INSERT": "Push tuples to the stream instead: engine.push(stream, data).",
    "UPDATE": "Tuples do not change once they have arrived; push new ones.",
    "DELETE": "Tuples leave by their window; write a window clause.",
    "DROP": "Drop a query by its handle: query.drop().",
    "ALTER": "Change a query by its handle: query.change(sql).",
}


def parse(sql: str) -> list[Statement]:
    """The statements of a text, separated by ``;``.

    >>> parse("SHOW STREAMS; DESCRIBE r")
    [ShowStreams(), Describe(name='r')]
    """
    if not isinstance(sql, str):
        raise InputError(f"{sql!r} is no SQL text", "Pass a string: 'SELECT ... FROM ...'.")
    try:
        return [Statements(sql, tokens).statement() for tokens in split(sql)]
    except RecursionError:
        raise too_deep(sql) from None


def parse_query(sql: str) -> QueryText:
    """The one query that the text is.

    >>> parse_query("SELECT x FROM R;").text
    'SELECT x FROM R'
    """
    statements = parse(sql)
    if len(statements) == 1 and isinstance(statements[0], QueryText):
        return statements[0]
    if not statements:
        raise SqlError.at(sql, 0, len(sql), "no query", "Write SELECT ... FROM ....")
    first = next((s for s in statements if not isinstance(s, QueryText)), None)
    if first is None:
        second = split(sql)[1]
        raise SqlError.at(
            sql,
            second[0].start,
            second[-1].end + 1,
            "more than one query",
            "Install one query at a time, each with a name of its own.",
        )
    tokens = split(sql)[statements.index(first)]
    raise SqlError.at(
        sql,
        tokens[0].start,
        tokens[-1].end + 1,
        "not a query",
        "Write SELECT ... FROM ... here; other statements go to engine.sql.",
    )


def too_deep(sql: str) -> SqlError:
    """The error for an expression that would need more stack than there is."""
    return SqlError.at(
        sql, 0, 1, "the text is nested too deeply", "Split it: CREATE STREAM t AS SELECT ...."
    )


def split(sql: str) -> list[list[Token]]:
    """The tokens of each statement; empty statements are passed over."""
    statements: list[list[Token]] = [[]]
    for token in tokenize(sql):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [tokens for tokens in statements if tokens]


def tokenize(sql: str) -> list[Token]:
    """The tokens, or an error that points at the piece that is none."""
    try:
        return Penstock().tokenize(sql)
    except TokenError:
        start, opened = open_piece(sql)
        what = f"{opened} is not closed" if opened else "this is no word, number or string"
        closing = "*/" if opened == "/*" else opened
        remedy = f"Write {closing} where it ends." if opened else "Write X'00FF' for bytes."
        end = start + max(1, len(opened))
        raise SqlError.at(sql, start, end, f"syntax error: {what}", remedy) from None


def open_piece(sql: str) -> tuple[int, str]:
    """Where the last quote or comment that was opened stands, and what opened it.

    That is ``''`` if it was closed.
    """
    position, start, opened = 0, 0, ""
    while position < len(sql):
        character = sql[position]
        if opened:
            opened = "" if character == opened else opened
        elif sql.startswith("--", position):
            position = sql.find("\n", position)
            if position < 0:
                break
        elif sql.startswith("/*", position):
            end = comment_end(sql, position)
            if end is None:
                return position, "/*"
            position = end - 1
        elif character in "'\"`":
            start, opened = position, character
        position += 1
    return start, opened


def comment_end(sql: str, start: int) -> int | None:
    """Where the comment that starts there ends; comments nest. None: it does not end."""
    depth = 0
    for mark in COMMENT_MARK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


class Statements(Queries):
    """The grammar of one statement."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        super().__init__(dialect=Penstock)
        self.sql = sql
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    def statement(self) -> Statement:
        """The statement, and nothing after it."""
        statement = self.query_text() if self._curr.token_type in QUERY_START else self.other()
        if self._curr:
            self.refuse_modifiers()
            self.fail(
                f"syntax error: unexpected {self.found()}",
                "Remove it, or correct what stands before it.",
            )
        return statement

    def query_text(self) -> QueryText:
        """The query that starts here, with its own text."""
        start = self._curr.start
        ast = self.query()
        begin, end = self.since(start)
        return QueryText(ast, self.sql[begin:end], self.sql)

    def other(self) -> Statement:
        """A statement that is no query."""
        word = self._curr.text.upper()
        if self._match_text_seq("CREATE"):
            return self.create()
        if self._match_text_seq("SHOW"):
            return self.show()
        if self._match_text_seq("DESCRIBE") or self._match_text_seq("DESC"):
            return Describe(self.name("a name", "Write the name of a stream or a query.").text)
        if self._match_text_seq("EXPLAIN"):
            return Explain(self.query_text())
        if word in INSTEAD:
            self.not_supported(word, INSTEAD[word])
        self.fail(f"syntax error: no statement starts with {self.found()}", STATEMENTS)

    def show(self) -> ShowStreams | ShowQueries:
        """What follows SHOW."""
        if self._match_text_seq("STREAMS"):
            return ShowStreams()
        if self._match_text_seq("QUERIES"):
            return ShowQueries()
        self.fail(
            f"syntax error: cannot show {self.found()}", "Write SHOW STREAMS or SHOW QUERIES."
        )

    def create(self) -> CreateStream | DeriveStream:
        """What follows CREATE."""
        start = self._prev.start
        if not self._match_text_seq("STREAM"):
            self.fail(
                f"syntax error: expected STREAM but found {self.found()}",
                "Write CREATE STREAM name (column type, ...) or CREATE STREAM name AS SELECT ....",
            )
        name = self.name("a name", "Write a name for the stream.")
        if self._match(TokenType.ALIAS):
            return DeriveStream(name.text, self.query_text())
        if not self._match(TokenType.L_PAREN):
            self.fail(
                f"syntax error: expected ( or AS but found {self.found()}",
                f"Write CREATE STREAM {name.text} (column type, ...) or "
                f"CREATE STREAM {name.text} AS SELECT ....",
            )
        fields = [self.column({})]
        while self._match(TokenType.COMMA):
            fields.append(self.column({field.name.lower(): field for field in fields}))
        self.expect(")")
        time = self.time_attribute(name.text, fields)
        begin, end = self.since(start)
        stream = Stream.of(name.text, pa.schema(fields), time)
        return CreateStream(stream, self.sql[begin:end])

    def column(self, others: dict[str, pa.Field[Any]]) -> pa.Field[Any]:
        """``name type``."""
        name = self.name("the name of a column", "Write a name and a type: id int64.")
        if name.text.lower() in others:
            self.fail(
                f"two columns are named '{name.text}'",
                "Rename one of them; names are compared without regard to case.",
                name.at,
            )
        node = self._parse_types()
        try:
            kind = parse_type(node.name)
        except InputError as error:
            self.fail(error.what, error.remedy, span(node))
        if self._curr.text.upper() in ("NOT", "NULL", "PRIMARY", "DEFAULT", "CHECK", "UNIQUE"):
            self.not_supported("a constraint on a column", "Leave it out.")
        return pa.field(name.text, kind)

    def time_attribute(self, stream: str, fields: list[pa.Field[Any]]) -> str | None:
        """``TIMESTAMP BY column``, if it is there."""
        if not self._match_text_seq("TIMESTAMP", "BY"):
            return None
        name = self.name("a column", "Write the name of a column after TIMESTAMP BY.")
        if name.text.lower() not in {field.name.lower() for field in fields}:
            self.fail(
                f"stream {stream} has no column '{name.text}' to be its time attribute",
                f"Write one of: {', '.join(field.name for field in fields)}.",
                name.at,
            )
        return name.text
