"""The grammar above expressions: queries, unions and joins."""

from __future__ import annotations

import itertools
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.own_blocks import registered
from penstock.sql.parse.clauses import NAMES
from penstock.sql.parse.dialect import Span, token_span
from penstock.sql.parse.foreign_clauses import Foreign
from penstock.sql.parse.foreign_functions import ONE_LATEST
from penstock.sql.parse.syntax import (
    Item,
    JoinClause,
    Name,
    QueryClause,
    SelectClause,
    StreamReference,
    ThroughClause,
)

NOT_SUPPORTED = {
    TokenType.OFFSET: "Leave OFFSET out, and pass over the first rows that come.",
    TokenType.FETCH: "Write LIMIT and a number instead.",
    TokenType.QUALIFY: ONE_LATEST,
}

SET_OPERATIONS = (TokenType.INTERSECT, TokenType.EXCEPT)
JOIN_START = frozenset(
    {
        TokenType.JOIN,
        TokenType.INNER,
        TokenType.LEFT,
        TokenType.RIGHT,
        TokenType.FULL,
        TokenType.SEMI,
        TokenType.ANTI,
        TokenType.CROSS,
        TokenType.NATURAL,
        TokenType.LATERAL,
    }
)


class Queries(Foreign):
    """The grammar of queries."""

    def query(self) -> QueryClause:
        """Read ``SELECT … [UNION ALL SELECT …]* [ORDER BY …] [LIMIT n] [EMIT …]``."""
        selects = [self.branch()]
        while self._match(TokenType.UNION):
            union = self._prev
            if not self._match(TokenType.ALL):
                self.fail(
                    "UNION without ALL is not supported",
                    "Write UNION ALL, which keeps rows that occur twice. To drop them, name it, "
                    "CREATE STREAM u AS SELECT ... UNION ALL SELECT ..., and write SELECT DISTINCT "
                    "... FROM u [RANGE 10 MINUTES SLIDE 10 MINUTES WATTR t], with the window you "
                    "need (none for streams that end).",
                    token_span(union),
                )
            if self.stands_here(("BY", "NAME")):
                self.not_supported(
                    "BY NAME", "Select the columns in the same order in every branch."
                )
            selects.append(self.branch())
        sort, limit = self.order_by(), self.limit()
        if (sort or limit) and self._match(TokenType.UNION, advance=False):
            self.fail(
                f"syntax error: {'ORDER BY' if sort else 'LIMIT'} before UNION",
                "Write it once, after the last branch.",
            )
        self.refuse_modifiers()
        return QueryClause(tuple(selects), self.emit(), sort, limit)

    def branch(self) -> SelectClause:
        """Read a select, perhaps in parentheses."""
        if self._match(TokenType.L_PAREN):
            inner = self.branch()
            self.expect(")")
            return inner
        return self.select()

    def select(self) -> SelectClause:
        """Read ``SELECT [DISTINCT] … FROM stream [joins] [WHERE …] [GROUP BY …] [HAVING …]``."""
        start = self._curr.start
        if self._match(TokenType.WITH, advance=False):
            self.no_common_table()
        self.expect("SELECT")
        distinct, self.reading, self.joining = None, None, False
        if self._match(TokenType.DISTINCT):
            distinct = self.since(start)
            if self._match(TokenType.ON, advance=False):
                self.not_supported(
                    "DISTINCT ON",
                    "Write GROUP BY with its columns, and FIRST(x) or LAST(x) for every other one.",
                )
        else:
            self._match(TokenType.ALL)
        if self._curr.text.upper() == "TOP" and self._next.token_type == TokenType.NUMBER:
            self.not_supported("TOP", f"Write LIMIT {self._next.text} at the end of the query.")
        items = [self.item()]
        while self._match(TokenType.COMMA):
            items.append(self.item())
        if not self._match(TokenType.FROM):
            self.refuse_idiom()
            self.no_operator()
            self.fail(
                f"syntax error: expected FROM but found {self.found()}",
                "Write FROM and the name of a stream.",
            )
        left = self.reading = self.stream_reference()
        joins: list[JoinClause] = []
        while (join := self.join(left)) is not None:
            joins.append(join)
        self.joining = bool(joins)
        where = self.required_expression() if self._match(TokenType.WHERE) else None
        if self.stands_here(("GROUP BY", "GROUPING", "SETS")):
            self._advance()
            self.refuse_idiom()
        group = self.group_by()
        having = self.required_expression() if self._match(TokenType.HAVING) else None
        if self._match_set(SET_OPERATIONS, advance=False) or self.stands_here(("MINUS", "SELECT")):
            self.no_set_operation(tuple(items), left)
        self.refuse_modifiers()
        at = self.since(start)
        return SelectClause(tuple(items), left, tuple(joins), where, at, group, having, distinct)

    def refuse_modifiers(self) -> None:
        """Refuse the clause that begins here, by its name, if Penstock lacks it."""
        remedy = NOT_SUPPORTED.get(self._curr.token_type)
        if remedy:
            self.not_supported(" ".join(self._curr.text.upper().split()), remedy)

    def item(self) -> Item:
        """Read ``expression [AS name]``."""
        value = self.required_expression()
        if self._match(TokenType.ALIAS):
            return Item(value, self.name("a name", "Write a name after AS."))
        self.refuse_idiom_for_name()
        if self._match_set(NAMES) and not self.is_emit(self._prev.text):
            return Item(value, Name(self._prev.text, token_span(self._prev)))
        return Item(value, None)

    def is_emit(self, word: str) -> bool:
        """Whether the word begins ``EMIT ORDER`` or ``EMIT EMPTY`` and is no alias."""
        return word.upper() == "EMIT" and self._curr.text.upper() in ("ORDER", "EMPTY")

    def stream_reference(self) -> StreamReference:
        """Read ``stream [window] [AS alias]``; the stream may be ``block(stream, …)``."""
        is_call = self._next is not None and self._next.token_type == TokenType.L_PAREN
        if is_call and registered(self._curr.text) is not None:
            stream, through = self.through()
        else:
            self.refuse_table()
            stream, through = self.name("the name of a stream", "Write the name of a stream."), None
        if self._match(TokenType.DOT, advance=False):
            last = self._next.text if self._next.token_type in NAMES else "R"
            self.fail(
                "syntax error: unexpected '.' after the name of a stream",
                f"A stream's name has one part: write {last}, or "
                f'"{stream.text}.{last}" for a name with a dot in it.',
            )
        window = self.window() if self._match(TokenType.L_BRACKET, advance=False) else None
        alias = stream
        self.refuse_idiom_for_name()
        if self._match(TokenType.ALIAS):
            alias = self.name("a name", "Write a name after AS.")
        elif self._curr.token_type in NAMES and not self.is_clause():
            alias = self.name("a name", "Write a name.")
        if self._match(TokenType.L_BRACKET, advance=False):
            self.fail(
                "syntax error: a window clause stands before the alias",
                f"Write {stream.text} [...] AS {alias.text}.",
            )
        self.refuse_idiom_for_name()
        return StreamReference(stream, window, alias, through)

    def through(self) -> tuple[Name, ThroughClause]:
        """``block(stream, name => value, …)``."""
        start = self._curr.start
        block = self.name("the name of a block", "Write the name of a block.")
        self.expect("(")
        stream = self.name("the name of a stream", f"Write {block.text}(R, ...).")
        arguments: list[tuple[Name, exp.Expr]] = []
        while self._match(TokenType.COMMA):
            name = self.name("the name of an argument", "Write name => value.")
            if not self.stands_here(("=", ">")):
                self.fail(
                    f"syntax error: expected => but found {self.found()}",
                    f"Write {name.text} => and a column or a constant.",
                )
            self._advance(2)
            arguments.append((name, self.required_expression()))
        self.expect(")")
        return stream, ThroughClause(block, tuple(arguments), self.since(start))

    def is_clause(self) -> bool:
        """Whether a word that could be an alias begins a clause: EMIT, or one of other engines."""
        word, after = self._curr.text.upper(), self._next.token_type if self._next else None
        within = word == "WITHIN" and after in (TokenType.NUMBER, TokenType.L_PAREN)
        return word == "EMIT" or within or (word == "MINUS" and after == TokenType.SELECT)

    def join(self, left: StreamReference) -> JoinClause | None:
        """Read ``kind JOIN stream ON condition``, or a comma and a stream."""
        start = self._curr.start
        if self._match(TokenType.COMMA):
            return JoinClause("cross", self.stream_reference(), None, self.since(start))
        if not self._match_set(JOIN_START, advance=False):
            return None
        if self._match(TokenType.NATURAL, advance=False):
            self.no_natural(left)
        kind = self.join_kind()
        self.refuse_idiom()
        self.expect("JOIN")
        right = self.stream_reference()
        self.joining = True
        at = self.since(start)
        if self._match(TokenType.USING, advance=False):
            self.no_using(left, right)
        if self._curr.text.upper() == "WITHIN":
            length = self.sql[self._next.start : self.before_on()].strip(" ()") or "1 HOUR"
            self.no_within(left, length)
        on = None
        if self._match(TokenType.ON):
            on = self.required_expression()
            if self._curr.text.upper() == "WITHIN" and self._next.token_type == TokenType.NUMBER:
                words = self._tokens[self._index + 1 : self._index + 3]
                self.no_within(left, " ".join(token.text for token in words))
        self.check_on(kind, on, at)
        return JoinClause(kind, right, on, at)

    def no_within(self, left: StreamReference, length: str) -> NoReturn:
        """Refuse ``WITHIN length``."""
        names = [left.stream.text]
        for before, token in itertools.pairwise(self._tokens):
            if before.token_type == TokenType.JOIN and token.token_type in NAMES:
                names.append(token.text)
        windows = [f"{name} [RANGE {length} WATTR t]" for name in names]
        rest = "".join(f" ON ... JOIN {window}" for window in windows[2:])
        self.not_supported(
            "WITHIN",
            f"Write the windows after the streams: FROM {' JOIN '.join(windows[:2])}{rest}.",
        )

    def no_using(self, left: StreamReference, right: StreamReference) -> NoReturn:
        """Refuse ``USING (columns)``."""
        place = self._index + 1
        inside = self._tokens[place + 1 : self.closing(place)] if place < len(self._tokens) else []
        names = [token.text for token in inside if token.token_type in NAMES] or ["x"]
        both = (left.alias.text, right.alias.text)
        on = " AND ".join(f"{both[0]}.{name} = {both[1]}.{name}" for name in names)
        self.not_supported("USING", f"Write ON {on}.")

    def no_natural(self, left: StreamReference) -> NoReturn:
        """Refuse ``NATURAL JOIN``, after reading the stream that it names."""
        place = self._index
        self._advance()
        self.join_kind()
        self.expect("JOIN")
        right = self.stream_reference()
        self._retreat(place)
        self.not_supported(
            "NATURAL JOIN",
            "Write JOIN ... ON with the columns to compare, for instance ON "
            f"{left.alias.text}.id = {right.alias.text}.id.",
        )

    def before_on(self) -> int:
        """The place of the next ON, or of the end of the text."""
        starts = (t.start for t in self._tokens[self._index :] if t.token_type == TokenType.ON)
        return next(starts, len(self.sql))

    def check_on(self, kind: str, on: exp.Expr | None, at: Span) -> None:
        """Refuse a cross join with ON, and any other join without it."""
        if on is None and kind != "cross":
            self.fail(
                f"{'' if kind == 'inner' else kind.upper() + ' '}JOIN without ON",
                "Write ON and a condition, or CROSS JOIN for all pairs.",
                at,
            )
        if on is not None and kind == "cross":
            self.fail("CROSS JOIN with ON", "Write JOIN instead of CROSS JOIN.", at)

    def join_kind(self) -> str:
        """Read the words before JOIN, as one of inner, left, right, full, semi, anti, cross."""
        if self._match(TokenType.LATERAL, advance=False):
            self.refuse_idiom()
            self.not_supported(
                "LATERAL JOIN",
                "Write JOIN ... ON with the columns to compare, for instance ON R.id = S.id.",
            )
        side = ""
        if self._match_set((TokenType.LEFT, TokenType.RIGHT, TokenType.FULL)):
            side = self._prev.text.lower()
        if self._match_set((TokenType.SEMI, TokenType.ANTI)):
            kind = self._prev.text.lower()
            if side in ("right", "full"):
                self.fail(
                    f"{side.upper()} {kind.upper()} JOIN is not supported",
                    f"Exchange the two streams and write {kind.upper()} JOIN.",
                    token_span(self._prev),
                )
            return kind
        if side:
            self._match(TokenType.OUTER)
            return side
        if self._match(TokenType.CROSS):
            return "cross"
        self._match(TokenType.INNER)
        return "inner"
