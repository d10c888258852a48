"""Parses SQL text into statements."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pyarrow as pa
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import SURROGATE, InputError, SqlError
from penstock.sql.parse.clauses import NAMES
from penstock.sql.parse.dialect import Penstock, span
from penstock.sql.parse.foreign_functions import NO_NESTING
from penstock.sql.parse.grammar import Queries
from penstock.sql.parse.statements import (
    CreateStream,
    DeriveStream,
    Describe,
    Explain,
    QueryText,
    ShowQueries,
    ShowStreams,
    Statement,
)
from penstock.streams.lead import lead_from_sql
from penstock.streams.schema import Stream, parse_type

STATEMENTS = (
    "Write SELECT, CREATE STREAM, SHOW STREAMS, SHOW QUERIES, DESCRIBE name or EXPLAIN SELECT."
)
COMMENT_MARK = re.compile(r"/\*|\*/")
QUERY_START = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})
INSTEAD = {
    "INSERT": "Push tuples to the stream instead: engine.push(stream, data).",
    "UPSERT": "Push tuples to the stream instead: engine.push(stream, data).",
    "MERGE": "Push tuples to the stream instead: engine.push(stream, data).",
    "COPY": "Push tuples to the stream, engine.push(stream, data), or run over files: penstock run "
    "--stream R=FILE --out FILE.",
    "LOAD": "Push tuples to the stream, engine.push(stream, data), or run over files: penstock run "
    "--stream R=FILE.",
    "UPDATE": "Tuples do not change once they have arrived; push new ones.",
    "DELETE": "Tuples leave by their window; write a window clause.",
    "TRUNCATE": "Tuples leave by their window; engine.reset() forgets every stream and query.",
    "DROP": "Drop a query or a derived stream from Python, engine.drop(name); engine.reset() "
    "forgets every stream and query.",
    "TERMINATE": "Drop a query from Python: engine.drop(name).",
    "PAUSE": "Drop a query from Python, engine.drop(name), and install it again later.",
    "ALTER": "Change a query by its handle, query.change(sql); a stream keeps its columns.",
    "SET": "Options are those of ps.connect and engine.install; penstock run --help has the "
    "command's.",
    "RESET": "Options are those of ps.connect and engine.install.",
    "PRAGMA": "Options are those of ps.connect and engine.install.",
    "USE": "There are no databases; name a stream alone.",
    "PRINT": "Install the query, SELECT * FROM the stream, and drain its handle: query.rows().",
    "SUBSCRIBE": "Install the query, SELECT * FROM the stream, and drain its handle: query.rows().",
    "DECLARE": "Install the query, and drain its handle: query.rows().",
    "FETCH": "Install the query, and drain its handle: query.rows().",
    "VALUES": "Push tuples to a stream instead: engine.push('R', [{'x': 1}]).",
    "TABLE": "Write SELECT * FROM and the name of a stream.",
    "FROM": "Write SELECT before FROM: SELECT * FROM R.",
    "BEGIN": "There are no transactions; leave it out.",
    "COMMIT": "There are no transactions; leave it out.",
    "ROLLBACK": "There are no transactions; leave it out.",
    "GRANT": "There are no users.",
    "REFRESH": "A query is always up to date; leave it out.",
    "ANALYZE": "The planner looks at the data while it runs; EXPLAIN SELECT shows what it chose.",
    "VACUUM": "Expired tuples are cleared away by themselves; leave it out.",
}
"""Statements of other engines, by their first word."""

CREATED = {
    "SINK": "Drain the query's handle, query.rows(), or write files: penstock run --out FILE.",
    "INDEX": "The planner builds the indexes it needs; EXPLAIN SELECT shows which, and kernel= of "
    "engine.install forces one.",
    "FUNCTION": "There are no functions of the user's; compute columns before the push, or write "
    "the expression.",
    "AGGREGATE": "There are no aggregates of the user's; select the values themselves.",
    "TYPE": "There are no types of the user's; write a column for each value.",
    "DATABASE": "There are no databases; every engine has its own streams.",
    "SCHEMA": "There are no schemas; every engine has its own streams.",
    "CATALOG": "There are no catalogs; every engine has its own streams.",
    "CONNECTION": "Push tuples to a stream: engine.push(stream, data).",
    "CONNECTOR": "Push tuples to a stream: engine.push(stream, data).",
    "TRIGGER": "A query is asked at every tuple; install one.",
    "SEQUENCE": "query.drain() gives rows with their positions in the input.",
}
"""What other engines create and Penstock lacks, by its keyword."""

BEFORE_KIND = frozenset(
    {"TEMP", "TEMPORARY", "EXTERNAL", "MATERIALIZED", "RECURSIVE", "UNLOGGED", "GLOBAL", "LOCAL"}
    | {"LIVE", "STREAMING", "SINGLE", "REFRESH", "UNIQUE", "TRANSIENT", "DYNAMIC", "OR", "REPLACE"}
)
KINDS = ("TABLE", "VIEW", "SOURCE", "STREAM")
"""Keywords of other engines for a stream, or for the rows of a query."""

CONSTRAINTS = frozenset(
    {"NOT", "NULL", "PRIMARY", "DEFAULT", "CHECK", "UNIQUE", "KEY", "COMMENT", "REFERENCES"}
    | {"METADATA", "GENERATED", "COLLATE", "HEADER"}
)
TABLE_CONSTRAINTS = ("PRIMARY", "CONSTRAINT", "UNIQUE", "FOREIGN", "CHECK", "PERIOD")
AFTER_COLUMNS = frozenset(
    {"WITH", "PARTITIONED", "PARTITION", "COMMENT", "LOCATION", "STORED", "USING", "ENGINE", "FROM"}
    | {"TBLPROPERTIES", "APPEND", "INCLUDE", "FORMAT", "ROW", "OPTIONS", "CLUSTERED", "LIKE"}
)
NESTED_TYPES = ("ARRAY", "MAP", "STRUCT", "ROW", "JSON", "JSONB", "MULTISET", "LIST", "VARIANT")


def parse(sql: str) -> list[Statement]:
    """Parse the statements of a text, separated by ``;``.

    >>> parse("SHOW STREAMS; DESCRIBE r")
    [ShowStreams(), Describe(name='r')]
    """
    if not isinstance(sql, str):
        raise InputError(f"{sql!r} is no SQL text", "Pass a string: 'SELECT ... FROM ...'.")
    lone = SURROGATE.search(sql)
    if lone is not None:
        raise SqlError.at(
            sql,
            lone.start(),
            lone.end(),
            "half of a character (a lone surrogate)",
            "Write the whole character; decode the text as the encoding that it has.",
        )
    try:
        return [Statements(sql, tokens).statement() for tokens in split(sql)]
    except RecursionError:
        raise too_deep(sql) from None


def parse_query(sql: str) -> QueryText:
    """Parse a text that is one query.

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
    """The error for an expression that would overflow the stack."""
    return SqlError.at(
        sql, 0, 1, "the text is nested too deeply", "Split it: CREATE STREAM t AS SELECT ...."
    )


def split(sql: str) -> list[list[Token]]:
    """The tokens of each statement, without empty statements."""
    statements: list[list[Token]] = [[]]
    for token in tokenize(sql):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [tokens for tokens in statements if tokens]


def tokenize(sql: str) -> list[Token]:
    """The tokens; an error points at the first invalid piece."""
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
    """The place of the last quote or comment that was opened, and its opening symbol.

    The symbol is empty if it was closed.
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
    """The end of the comment that starts here (comments nest), or None if it is not closed."""
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
        """Read the statement, with nothing after it."""
        statement = self.query_text() if self._curr.token_type in QUERY_START else self.other()
        if self._curr:
            self.refuse_modifiers()
            self.refuse_idiom()
            self.no_operator()
            self.fail(
                f"syntax error: unexpected {self.found()}",
                "Remove it, or correct what stands before it.",
            )
        return statement

    def query_text(self) -> QueryText:
        """Read the query that starts here, with its own text."""
        start = self._curr.start
        ast = self.query()
        begin, end = self.since(start)
        return QueryText(ast, self.sql[begin:end], self.sql, begin)

    def other(self) -> Statement:
        """Read a statement that is no query."""
        word = self._curr.text.upper()
        if self._match_text_seq("CREATE"):
            return self.create()
        if self._match_text_seq("SHOW"):
            return self.show()
        if self._match_text_seq("DESCRIBE") or self._match_text_seq("DESC"):
            self.check_described()
            return Describe(self.name("a name", "Write the name of a stream or a query.").text)
        if self._match_text_seq("EXPLAIN"):
            self.check_explained()
            return Explain(self.query_text())
        if word == "INSERT" and (query := self.query_ahead()):
            name = self._tokens[2].text if len(self._tokens) > 2 else "t"
            self.not_supported(word, f"Name the rows as a stream: CREATE STREAM {name} AS {query}.")
        if word in INSTEAD:
            self.not_supported(word, INSTEAD[word])
        self.fail(f"syntax error: no statement starts with {self.found()}", STATEMENTS)

    def query_ahead(self) -> str:
        """The text from the next SELECT on, for a remedy to quote; empty without one."""
        for token in self._tokens[self._index :]:
            if token.token_type == TokenType.SELECT:
                return self.quotable(token.start, self._tokens[-1].end + 1) or "SELECT ..."
        return ""

    def check_described(self) -> None:
        """Refuse anything but a name after DESCRIBE."""
        if self._match(TokenType.SELECT, advance=False):
            self.fail("DESCRIBE of a query", f"Write EXPLAIN {self.query_ahead()}.")
        if self._curr and self._next and self._next.token_type in NAMES:
            self.fail(
                f"syntax error: DESCRIBE {self._curr.text} {self._next.text}",
                f"Write DESCRIBE {self._tokens[-1].text}.",
            )

    def check_explained(self) -> None:
        """Refuse anything but a query after EXPLAIN."""
        if self._curr.token_type not in QUERY_START and (query := self.query_ahead()):
            self.not_supported(
                f"EXPLAIN {self._curr.text.upper()}",
                f"Write EXPLAIN {query}; query.metrics() tells what a running query does.",
            )

    def show(self) -> ShowStreams | ShowQueries:
        """Read what follows SHOW."""
        if self._match_text_seq("STREAMS"):
            return ShowStreams()
        if self._match_text_seq("QUERIES"):
            return ShowQueries()
        remedy = "Write SHOW STREAMS or SHOW QUERIES."
        if self._curr.text.upper() in ("CREATE", "COLUMNS", "FIELDS"):
            remedy = f"Write DESCRIBE {self._tokens[-1].text}."
        self.fail(f"syntax error: cannot show {self.found()}", remedy)

    def create(self) -> CreateStream | DeriveStream:
        """Read what follows CREATE."""
        start = self._prev.start
        self.check_created()
        name = self.name("a name", "Write a name for the stream.")
        if self._match(TokenType.ALIAS):
            if self._curr and self._curr.token_type in NAMES:
                self.fail(
                    f"syntax error: expected SELECT but found {self.found()}",
                    f"Write CREATE STREAM {name.text} AS SELECT * FROM {self._curr.text}.",
                )
            return self.derived(name.text)
        if self._match(TokenType.SELECT, advance=False):
            self.expect("AS")
        if not self._match(TokenType.L_PAREN):
            self.fail(
                f"syntax error: expected ( or AS but found {self.found()}",
                f"Write CREATE STREAM {name.text} (column type, ...) or "
                f"CREATE STREAM {name.text} AS SELECT ....",
            )
        by_name: dict[str, pa.Field[Any]] = {}
        while True:
            field = self.column(name.text, by_name)
            by_name[field.name.lower()] = field
            if not self._match(TokenType.COMMA):
                break
        fields = list(by_name.values())
        self.expect(")")
        self.check_after_columns(name.text)
        time = self.time_attribute(name.text, fields)
        self.check_after_columns(name.text)
        lead = self.max_lead(fields, time)
        self.check_after_columns(name.text)
        begin, end = self.since(start)
        stream = Stream.of(name.text, pa.schema(fields), time, max_lead=lead)
        return CreateStream(stream, self.sql[begin:end])

    def derived(self, name: str) -> DeriveStream:
        """Read ``CREATE STREAM name AS query``."""
        query = self.query_text()
        if self.stands_here(("TIMESTAMP", "BY")) or self.stands_here(("BY",)):
            self.not_supported(
                "TIMESTAMP BY of a derived stream",
                f"Write WATTR in the windows of queries: FROM {name} [RANGE 10 MINUTES WATTR t].",
            )
        return DeriveStream(name, query)

    def check_created(self) -> None:
        """Refuse everything but CREATE STREAM, up to the name."""
        start, words = self._index, list[str]()
        while self._curr and self._curr.text.upper() in BEFORE_KIND:
            words.append(self._curr.text.upper())
            self._advance()
        kind = self._curr.text.upper() if self._curr else ""
        if kind in CREATED:
            self.not_supported(f"CREATE {' '.join([*words, kind])}", CREATED[kind])
        if kind not in KINDS:
            self.fail(
                f"syntax error: expected STREAM but found {self.found()}",
                "Write CREATE STREAM name (column type, ...) or CREATE STREAM name AS SELECT ....",
            )
        words.append(kind)
        self._advance()
        if kind == "SOURCE" and self._curr and self._curr.text.upper() in ("STREAM", "TABLE"):
            self._advance()
        last = self._tokens[self._index - 1]
        if self.stands_here(("IF", "NOT", "EXISTS")):
            words += ["IF", "NOT", "EXISTS"]
            last = self._tokens[self._index + 2]
            self._advance(3)
        if words == ["STREAM"]:
            return
        what = f"CREATE {' '.join(words)} is not supported"
        name = self._curr.text if self._curr else "name"
        remedy = f"Write {self.created_instead(name)}."
        if "EXISTS" in words:
            remedy += f" In Python, do so only if engine.catalog.get('{name}') is None."
        if "REPLACE" in words:
            remedy += (
                " Nothing is replaced: engine.drop drops a derived stream, and a stream that is "
                "pushed to keeps its columns."
            )
        self.fail(what, remedy, (self._tokens[start].start, last.end + 1))

    def created_instead(self, name: str) -> str:
        """The declaration from here on as a CREATE STREAM, or an example of one."""
        if self._curr:
            text = self.quotable(self._curr.start, self._tokens[-1].end + 1)
            try:
                parse(f"CREATE STREAM {text}")
            except SqlError:
                text = ""
            if text:
                return f"CREATE STREAM {text}"
        if query := self.query_ahead():
            return f"CREATE STREAM {name} AS {query}"
        return f"CREATE STREAM {name} (column type, ...)"

    def check_after_columns(self, stream: str) -> None:
        """Refuse table options of other engines after the columns."""
        word = self._curr.text.upper() if self._curr else ""
        if word == "SLACK":
            self.fail(
                "syntax error: SLACK after the columns",
                f"Write it in the window of a query: FROM {stream} [RANGE 10 MINUTES SLACK 5 "
                "SECONDS].",
            )
        if word == "WATERMARK":
            self.not_supported(
                word,
                "Write TIMESTAMP BY t after the columns, and in the windows of queries how late "
                f"tuples may come: FROM {stream} [RANGE 10 MINUTES SLACK 5 SECONDS].",
            )
        if word in AFTER_COLUMNS:
            self.not_supported(
                f"{word} after the columns",
                f"Leave it out; a stream is what is pushed to it, engine.push('{stream}', data), "
                f"or read from files, penstock run --stream {stream}=FILE.",
            )

    def check_column(self, stream: str) -> None:
        """Refuse constraints and other entries that are no column."""
        word = self._curr.text.upper()
        if word == "WATERMARK" and self._next.text.upper() == "FOR":
            place = self._index + 2
            time = self._tokens[place].text if place < len(self._tokens) else "t"
            self.not_supported(
                "WATERMARK FOR",
                f"Write TIMESTAMP BY {time} after the columns, and in the windows of queries how "
                f"late tuples may come: FROM {stream} [RANGE 10 MINUTES SLACK 5 SECONDS].",
            )
        if word in TABLE_CONSTRAINTS and self._next.text.upper() in ("KEY", "(", "FOR"):
            self.not_supported("a constraint", "Leave it out; a stream has no keys.")

    def check_type(self, stream: str) -> None:
        """Refuse computed columns and nested types."""
        word = self._curr.text.upper() if self._curr else ""
        if self._match(TokenType.ALIAS, advance=False):
            self.not_supported(
                "a column that is computed",
                f"Compute it in a derived stream: CREATE STREAM t AS SELECT *, ... FROM {stream}.",
            )
        if word in NESTED_TYPES:
            self.not_supported(f"the type {word}", NO_NESTING)

    def column(self, stream: str, others: dict[str, pa.Field[Any]]) -> pa.Field[Any]:
        """Read ``name type``."""
        self.check_column(stream)
        name = self.name("the name of a column", "Write a name and a type: id int64.")
        if name.text.lower() in others:
            self.fail(
                f"two columns are named '{name.text}'",
                "Rename one of them; names are compared without regard to case.",
                name.at,
            )
        self.check_type(stream)
        node = self._parse_types()
        try:
            kind = parse_type(node.name)
        except InputError as error:
            self.fail(error.what, error.remedy, span(node))
        if self._curr.text.upper() in CONSTRAINTS:
            self.not_supported("a constraint on a column", "Leave it out.")
        if self._curr.token_type == TokenType.ALIAS:
            self.check_type(stream)
        return pa.field(name.text, kind)

    def max_lead(self, fields: list[pa.Field[Any]], time: str | None) -> Fraction | None:
        """Read ``MAX LEAD length``, after TIMESTAMP BY, if it is there."""
        if not self._match_text_seq("MAX", "LEAD"):
            return None
        start = self._tokens[self._index - 2].start
        if time is None:
            self.fail(
                "MAX LEAD without TIMESTAMP BY",
                "Write TIMESTAMP BY and the column that it is of before it: TIMESTAMP BY t MAX "
                "LEAD 1 HOUR.",
                self.since(start),
            )
        length = self.quantity("MAX LEAD")
        kind = next(field.type for field in fields if field.name.lower() == time.lower())
        try:
            return lead_from_sql(length.number, length.unit, kind)
        except InputError as error:
            self.fail(error.what, error.remedy, self.since(start))

    def time_attribute(self, stream: str, fields: list[pa.Field[Any]]) -> str | None:
        """Read ``TIMESTAMP BY column``, if it is there."""
        if self.stands_here(("TIMESTAMP", "*")) and not self.stands_here(("TIMESTAMP", "BY")):
            self.fail(
                "syntax error: TIMESTAMP without BY", f"Write TIMESTAMP BY {self._next.text}."
            )
        if not self._match_text_seq("TIMESTAMP", "BY"):
            return None
        if self._match(TokenType.L_PAREN, advance=False):
            self.fail(
                "syntax error: TIMESTAMP BY with parentheses",
                f"Write TIMESTAMP BY {self._next.text}.",
            )
        name = self.name("a column", "Write the name of a column after TIMESTAMP BY.")
        if name.text.lower() not in {field.name.lower() for field in fields}:
            self.fail(
                f"stream {stream} has no column '{name.text}' to be its time attribute",
                f"Write one of: {', '.join(field.name for field in fields)}.",
                name.at,
            )
        return name.text
