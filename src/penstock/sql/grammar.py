"""The grammar above expressions: statements, queries, joins, window clauses."""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import Expressions, Span, token_span
from penstock.sql.literals import MONTHS, UNIT_SECONDS
from penstock.sql.syntax import (
    Item,
    JoinClause,
    Name,
    Quantity,
    QueryClause,
    SelectClause,
    StreamReference,
    WindowClause,
)

UNITS = UNIT_SECONDS.keys() | MONTHS.keys()

NOT_YET = {
    TokenType.GROUP_BY: "Aggregates and groups are not in this version; leave GROUP BY out.",
    TokenType.HAVING: "Aggregates are not in this version; write the condition in WHERE.",
    TokenType.ORDER_BY: "Rows come as they are made; write EMIT ORDER outer or EMIT ORDER inner "
    "at the end to have them by arrival.",
    TokenType.LIMIT: "A continuous query has no last row; leave LIMIT out and stop reading.",
    TokenType.OFFSET: "A continuous query has no last row; leave OFFSET out.",
    TokenType.FETCH: "A continuous query has no last row; leave FETCH out and stop reading.",
    TokenType.QUALIFY: "Window functions are not in this version; leave QUALIFY out.",
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

NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
WINDOW_REMEDY = (
    "Write [ROWS 1000], [RANGE 10 MINUTES WATTR t SLACK 5 SECONDS], [NOW] or [UNBOUNDED]."
)


class Queries(Expressions):
    """The grammar of queries."""

    def name(self, what: str, remedy: str) -> Name:
        """An identifier, or fail."""
        if not self._match_set(NAMES):
            if self._curr.text.isidentifier():
                remedy += f' To use a word of the language as a name, write "{self._curr.text}".'
            self.fail(f"syntax error: expected {what} but found {self.found()}", remedy)
        return Name(self._prev.text, token_span(self._prev))

    def since(self, start: int) -> Span:
        """The piece of text from ``start`` to the last token read."""
        return (start, self._prev.end + 1)

    def not_supported(self, what: str, remedy: str) -> NoReturn:
        """Refuse what stands here, by its name."""
        self.fail(f"{what} is not supported", remedy)

    def query(self) -> QueryClause:
        """``SELECT … [UNION ALL SELECT …]* [EMIT ORDER …]``."""
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
        self.refuse_modifiers()
        order, precision = self.emit() if self._match_text_seq("EMIT") else ("none", 1)
        return QueryClause(tuple(selects), order, precision)

    def branch(self) -> SelectClause:
        """A select, perhaps in parentheses."""
        if self._match(TokenType.L_PAREN):
            inner = self.branch()
            self.expect(")")
            return inner
        return self.select()

    def select(self) -> SelectClause:
        """``SELECT items FROM stream [join] [WHERE condition]``."""
        start = self._curr.start
        if self._match(TokenType.WITH, advance=False):
            self.not_supported(
                "WITH", "Name the sub-query first: CREATE STREAM t AS SELECT ..., and read t."
            )
        self.expect("SELECT")
        if self._match(TokenType.DISTINCT, advance=False):
            self.not_supported("DISTINCT", "Leave it out; every row that is made is given out.")
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
        self.refuse_modifiers()
        return SelectClause(tuple(items), left, join, where, self.since(start))

    def refuse_modifiers(self) -> None:
        """Name the clause that stands here, if it is one we do not have."""
        remedy = NOT_YET.get(self._curr.token_type)
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
        """Whether the word is the start of ``EMIT ORDER`` and no alias."""
        return word.upper() == "EMIT" and self._curr.text.upper() == "ORDER"

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

    def window(self) -> WindowClause:
        """``[kind size SLIDE d WATTR a SLACK l]``."""
        start = self._curr.start
        self._advance()
        kind = self._curr.text.upper()
        if kind not in ("ROWS", "RANGE", "NOW", "UNBOUNDED"):
            self.fail(f"syntax error: no window is called {self.found()}", WINDOW_REMEDY)
        self._advance()
        size = self.quantity(kind) if kind in ("ROWS", "RANGE") else None
        attribute = None
        lengths: dict[str, Quantity] = {}
        while not self._match(TokenType.R_BRACKET):
            word = self._curr.text.upper()
            if word in lengths or (word == "WATTR" and attribute):
                self.fail(f"syntax error: {word} is written twice", f"Leave one {word} out.")
            if self._match_text_seq("WATTR"):
                attribute = self.name("a column", "Write the name of a column after WATTR.")
            elif (word == "SLACK" and kind == "RANGE") or (word == "SLIDE" and size):
                self._advance()
                lengths[word] = self.quantity(word)
            else:
                self.fail(
                    f"syntax error: unexpected {self.found()} in a {kind} window", WINDOW_REMEDY
                )
        return WindowClause(
            kind, self.since(start), size, lengths.get("SLIDE"), attribute, lengths.get("SLACK")
        )

    def quantity(self, after: str) -> Quantity:
        """A number, perhaps negative, perhaps with a unit."""
        start = self._curr.start
        sign = "-" if self._match(TokenType.DASH) else ""
        point = "0." if self._match(TokenType.DOT) else ""
        if not self._match(TokenType.NUMBER):
            self.fail(
                f"syntax error: expected a number after {after} but found {self.found()}",
                WINDOW_REMEDY,
            )
        number = Decimal(f"{sign}{point}{self._prev.text}")
        unit = self._curr.text.upper().removesuffix("S")
        if unit not in UNITS or self._curr.token_type != TokenType.VAR:
            return Quantity(number, None, self.since(start))
        self._advance()
        return Quantity(number, unit, self.since(start))

    def emit(self) -> tuple[str, int]:
        """``ORDER none|outer|inner [PRECISION n]``, after EMIT."""
        remedy = "Write EMIT ORDER none, outer or inner."
        if not self._match_text_seq("ORDER"):
            self.fail(f"syntax error: expected ORDER but found {self.found()}", remedy)
        order = self._curr.text.lower()
        if order not in ("none", "outer", "inner"):
            self.fail(f"syntax error: no order is called {self.found()}", remedy)
        self._advance()
        if not self._match_text_seq("PRECISION", advance=False):
            return order, 1
        if order == "none":
            self.fail(
                "a PRECISION without an order",
                "Write EMIT ORDER outer or inner before it, or leave it out.",
            )
        self._advance()
        text = self._curr.text
        if self._curr.token_type != TokenType.NUMBER or not text.isdigit() or int(text) < 1:
            self.fail(
                f"syntax error: PRECISION {self.found()}", "Write a whole number of at least 1."
            )
        self._advance()
        return order, int(text)
