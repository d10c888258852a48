"""The grammar of a query's clauses: windows, groups, order, limit, and how rows are given out."""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import Expressions, Span, token_span
from penstock.sql.literals import MONTHS, UNIT_SECONDS
from penstock.sql.syntax import Emit, Limit, Name, Quantity, SortItem, WindowClause

UNITS = UNIT_SECONDS.keys() | MONTHS.keys()
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
WINDOW_REMEDY = (
    "Write [ROWS 1000], [RANGE 10 MINUTES WATTR t SLACK 5 SECONDS], [NOW] or [UNBOUNDED]; for "
    "aggregates [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t] or [ROWS 1000 SLIDE 100]."
)
BEFORE_EMIT = ("WHERE", "GROUP BY", "HAVING", "UNION", "ORDER BY", "LIMIT")
EMIT_REMEDY = "Write EMIT ORDER none, outer or inner, or EMIT EMPTY."


class Clauses(Expressions):
    """The grammar of clauses."""

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

    def window(self) -> WindowClause:
        """``[kind size SLIDE d START AT v WATTR a SLACK l]``."""
        start = self._curr.start
        self._advance()
        kind = self._curr.text.upper()
        if kind not in ("ROWS", "RANGE", "NOW", "UNBOUNDED"):
            self.fail(f"syntax error: no window is called {self.found()}", WINDOW_REMEDY)
        self._advance()
        size = self.quantity(kind) if kind in ("ROWS", "RANGE") else None
        attribute, first = None, None
        lengths: dict[str, Quantity] = {}
        while not self._match(TokenType.R_BRACKET):
            word = self._curr.text.upper()
            if (
                word in lengths
                or (word == "WATTR" and attribute)
                or (word == "START" and first is not None)
            ):
                self.fail(f"syntax error: {word} is written twice", f"Leave one {word} out.")
            if self._match_text_seq("WATTR"):
                attribute = self.name("a column", "Write the name of a column after WATTR.")
            elif word == "START" and kind == "RANGE":
                first = self.start_at()
            elif (word == "SLACK" and kind == "RANGE") or (word == "SLIDE" and size):
                self._advance()
                lengths[word] = self.quantity(word)
            else:
                self.fail(
                    f"syntax error: unexpected {self.found()} in a {kind} window", WINDOW_REMEDY
                )
        slide, slack = lengths.get("SLIDE"), lengths.get("SLACK")
        return WindowClause(kind, self.since(start), size, slide, attribute, slack, first)

    def start_at(self) -> exp.Expr:
        """``START AT literal``."""
        self._advance()
        self.expect("AT")
        value = self._parse_unary()
        if not isinstance(value, exp.Expr):
            self.fail(
                f"syntax error: expected a value after START AT but found {self.found()}",
                "Write where the first window begins: a number, or TIMESTAMP '2024-01-31 12:00'.",
            )
        return value

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

    def group_by(self) -> tuple[exp.Expr, ...]:
        """The expressions of GROUP BY; none if it does not stand here."""
        if not self._match(TokenType.GROUP_BY):
            return ()
        keys = [self.required_expression()]
        while self._match(TokenType.COMMA):
            keys.append(self.required_expression())
        return tuple(keys)

    def order_by(self) -> tuple[SortItem, ...]:
        """The keys of ORDER BY; none if it does not stand here."""
        if not self._match(TokenType.ORDER_BY):
            return ()
        start = self._prev.start
        keys = [self.sort_item(start)]
        while self._match(TokenType.COMMA):
            keys.append(self.sort_item(self._curr.start))
        return tuple(keys)

    def sort_item(self, start: int) -> SortItem:
        """``expression [ASC | DESC] [NULLS FIRST | LAST]``."""
        value = self.required_expression()
        descending = self._match_text_seq("DESC")
        if not descending:
            self._match_text_seq("ASC")
        nulls_first = not descending
        if self._match_text_seq("NULLS"):
            nulls_first = self._match_text_seq("FIRST")
            if not nulls_first and not self._match_text_seq("LAST"):
                self.fail(
                    f"syntax error: expected FIRST or LAST but found {self.found()}",
                    "Write NULLS FIRST or NULLS LAST.",
                )
        return SortItem(value, descending, nulls_first, self.since(start))

    def limit(self) -> Limit | None:
        """``LIMIT n``, if it stands here."""
        if not self._match(TokenType.LIMIT):
            return None
        start = self._prev.start
        sign = "-" if self._match(TokenType.DASH) else ""
        text = self._curr.text
        if self._curr.token_type != TokenType.NUMBER:
            self.fail(
                f"syntax error: expected a number after LIMIT but found {self.found()}",
                "Write how many rows, for instance LIMIT 10.",
            )
        self._advance()
        if sign or not text.isdigit() or int(text) >= 2**62:
            self.fail(
                f"LIMIT {sign}{text} is not a number of rows",
                "Write a whole number, 0 or more, for instance LIMIT 10.",
                self.since(start),
            )
        return Limit(int(text), self.since(start))

    def emit(self) -> Emit:
        """``EMIT ORDER … EMIT EMPTY``, in any order, as far as they stand here."""
        order: tuple[str, int] | None = None
        empty: Span | None = None
        while self._match_text_seq("EMIT"):
            start = self._prev.start
            if (self._curr.text.upper() == "EMPTY" and empty) or (
                self._curr.text.upper() == "ORDER" and order
            ):
                word = self._curr.text.upper()
                self.fail(
                    f"syntax error: EMIT {word} is written twice", f"Leave one EMIT {word} out."
                )
            if self._match_text_seq("EMPTY"):
                empty = self.since(start)
            else:
                order = self.emit_order()
            if self._curr and (word := self._curr.text.upper()) in BEFORE_EMIT:
                self.fail(
                    f"syntax error: {word} after EMIT",
                    "EMIT comes last: write it at the end of the query.",
                )
        return Emit(*(order or ("none", 1)), empty)

    def emit_order(self) -> tuple[str, int]:
        """``ORDER none|outer|inner [PRECISION n]``, after EMIT."""
        if not self._match_text_seq("ORDER"):
            self.fail(
                f"syntax error: expected ORDER or EMPTY but found {self.found()}", EMIT_REMEDY
            )
        order = self._curr.text.lower()
        if order not in ("none", "outer", "inner"):
            self.fail(
                f"syntax error: no order is called {self.found()}",
                "Write EMIT ORDER none, outer or inner.",
            )
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
