"""The grammar above expressions: queries, unions and joins."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import Span, token_span
from penstock.sql.grammar_clauses import NAMES, Clauses
from penstock.sql.syntax import (
    Item,
    JoinClause,
    Name,
    QueryClause,
    SelectClause,
    StreamReference,
)

NOT_SUPPORTED = {
    TokenType.OFFSET: "Leave OFFSET out, and pass over the first rows that come.",
    TokenType.FETCH: "Write LIMIT and a number instead.",
    TokenType.QUALIFY: "Name the query first, CREATE STREAM t AS SELECT ..., and write WHERE.",
    TokenType.INTERSECT: "Write a SEMI JOIN with windows instead.",
    TokenType.EXCEPT: "Write an ANTI JOIN with windows instead.",
}

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


class Queries(Clauses):
    """The grammar of queries."""

    def query(self) -> QueryClause:
        """``SELECT … [UNION ALL SELECT …]* [ORDER BY …] [LIMIT n] [EMIT …]``."""
        selects = [self.branch()]
        while self._match(TokenType.UNION):
            union = self._prev
            if not self._match(TokenType.ALL):
                self.fail(
                    "UNION without ALL is not supported",
                    "Write UNION ALL; it keeps rows that occur twice.",
                    token_span(union),
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
        """A select, perhaps in parentheses."""
        if self._match(TokenType.L_PAREN):
            inner = self.branch()
            self.expect(")")
            return inner
        return self.select()

    def select(self) -> SelectClause:
        """``SELECT [DISTINCT] items FROM stream [join] [WHERE …] [GROUP BY …] [HAVING …]``."""
        start = self._curr.start
        if self._match(TokenType.WITH, advance=False):
            self.not_supported(
                "WITH", "Name the sub-query first: CREATE STREAM t AS SELECT ..., and read t."
            )
        self.expect("SELECT")
        distinct = None
        if self._match(TokenType.DISTINCT):
            distinct = self.since(start)
        else:
            self._match(TokenType.ALL)
        items = [self.item()]
        while self._match(TokenType.COMMA):
            items.append(self.item())
        if not self._match(TokenType.FROM):
            self.fail(
                f"syntax error: expected FROM but found {self.found()}",
                "Write FROM and the name of a stream.",
            )
        left = self.stream_reference()
        join = self.join()
        if join and (self._match_set(JOIN_START, advance=False) or self._curr.text == ","):
            self.not_supported(
                "a join of three or more streams",
                "Name a join of two first, CREATE STREAM t AS SELECT ... JOIN ..., and join t.",
            )
        where = self.required_expression() if self._match(TokenType.WHERE) else None
        group = self.group_by()
        having = self.required_expression() if self._match(TokenType.HAVING) else None
        self.refuse_modifiers()
        at = self.since(start)
        return SelectClause(tuple(items), left, join, where, at, group, having, distinct)

    def refuse_modifiers(self) -> None:
        """Name the clause that stands here, if it is one we do not have."""
        remedy = NOT_SUPPORTED.get(self._curr.token_type)
        if remedy:
            self.not_supported(" ".join(self._curr.text.upper().split()), remedy)

    def item(self) -> Item:
        """``expression [AS name]``."""
        value = self.required_expression()
        if self._match(TokenType.ALIAS):
            return Item(value, self.name("a name", "Write a name after AS."))
        if self._match_set(NAMES) and not self.is_emit(self._prev.text):
            return Item(value, Name(self._prev.text, token_span(self._prev)))
        return Item(value, None)

    def is_emit(self, word: str) -> bool:
        """Whether the word is the start of ``EMIT ORDER`` or ``EMIT EMPTY`` and no alias."""
        return word.upper() == "EMIT" and self._curr.text.upper() in ("ORDER", "EMPTY")

    def stream_reference(self) -> StreamReference:
        """``stream [window] [AS alias]``."""
        if self._match(TokenType.L_PAREN, advance=False):
            self.no_sub_query()
        if self._match_set((TokenType.VALUES, TokenType.LATERAL), advance=False):
            self.not_supported(self._curr.text.upper(), "Read a stream by its name.")
        stream = self.name("the name of a stream", "Write the name of a stream.")
        if self._match_set((TokenType.DOT, TokenType.L_PAREN), advance=False):
            self.fail(
                f"syntax error: unexpected {self.found()} after the name of a stream",
                'A stream\'s name has one part; write "..." around a name with a dot in it.',
            )
        window = self.window() if self._match(TokenType.L_BRACKET, advance=False) else None
        alias = stream
        if self._match(TokenType.ALIAS):
            alias = self.name("a name", "Write a name after AS.")
        elif self._curr.token_type in NAMES and self._curr.text.upper() != "EMIT":
            alias = self.name("a name", "Write a name.")
        if self._match(TokenType.L_BRACKET, advance=False):
            self.fail(
                "syntax error: a window clause stands before the alias",
                f"Write {stream.text} [...] AS {alias.text}.",
            )
        return StreamReference(stream, window, alias)

    def join(self) -> JoinClause | None:
        """``kind JOIN stream ON condition``, or a comma and a stream."""
        start = self._curr.start
        if self._match(TokenType.COMMA):
            return JoinClause("cross", self.stream_reference(), None, self.since(start))
        if not self._match_set(JOIN_START, advance=False):
            return None
        kind = self.join_kind()
        self.expect("JOIN")
        right = self.stream_reference()
        at = self.since(start)
        if self._match(TokenType.USING, advance=False):
            self.not_supported("USING", "Write ON with the columns of both sides: ON r.x = s.x.")
        on = None
        if self._match(TokenType.ON):
            on = self.required_expression()
        self.check_on(kind, on, at)
        return JoinClause(kind, right, on, at)

    def check_on(self, kind: str, on: exp.Expr | None, at: Span) -> None:
        """A cross join has no ON, every other join has one."""
        if on is None and kind != "cross" and not self._match_set(JOIN_START, advance=False):
            self.fail(
                f"{'' if kind == 'inner' else kind.upper() + ' '}JOIN without ON",
                "Write ON and a condition, or CROSS JOIN for all pairs.",
                at,
            )
        if on is not None and kind == "cross":
            self.fail("CROSS JOIN with ON", "Write JOIN instead of CROSS JOIN.", at)

    def join_kind(self) -> str:
        """The words before JOIN, as one of inner, left, right, full, semi, anti, cross."""
        if self._match_set((TokenType.NATURAL, TokenType.LATERAL), advance=False):
            self.not_supported(
                f"{self._curr.text.upper()} JOIN", "Write JOIN ... ON with the columns to compare."
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
