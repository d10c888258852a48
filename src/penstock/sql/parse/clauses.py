"""The grammar of a query's clauses: windows, GROUP BY, ORDER BY, LIMIT, EMIT."""

from __future__ import annotations

from itertools import takewhile
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.parse.dialect import Expressions, Span, token_span
from penstock.sql.parse.literals import (
    MONTHS,
    NUMBER,
    near_number,
    singular,
    unit_meant,
    unit_remedy,
    whole_number,
)
from penstock.sql.parse.syntax import Emit, Limit, Name, Quantity, SortItem, WindowClause
from penstock.streams.lead import UNIT_SECONDS

UNITS = UNIT_SECONDS.keys() | MONTHS.keys()
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
WINDOW_REMEDY = (
    "Write [ROWS 1000], [RANGE 10 MINUTES WATTR t SLACK 5 SECONDS], [NOW] or [UNBOUNDED]; for "
    "aggregates [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t] or [ROWS 1000 SLIDE 100]."
)
TUMBLING = "Write [RANGE 5 MINUTES SLIDE 5 MINUTES WATTR t]."
OTHER_WINDOWS = {
    "TUMBLING": TUMBLING,
    "TUMBLE": TUMBLING,
    "HOPPING": "Write [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t].",
    "HOP": "Write [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t].",
    "SLIDING": "Write [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t].",
    "SESSION": f"There are no session windows. {TUMBLING}",
    "PARTITION": "There are no windows for each key. Write [ROWS 1000] for the whole stream, and "
    "GROUP BY the key where it is aggregated.",
    "PRECEDING": "Leave it out: [ROWS 5] holds the last 5 tuples, [RANGE 5 SECONDS WATTR t] those "
    "of the last 5 seconds.",
    "BETWEEN": "Write [ROWS 5] for the last 5 tuples, [RANGE 5 SECONDS WATTR t] for those of the "
    "last 5 seconds.",
    "UNBOUNDED": "Write [UNBOUNDED].",
    "ON": "Write WATTR and the name of a column.",
    "BY": "Write WATTR and the name of a column.",
    "EVERY": "Write SLIDE and a length.",
    "STEP": "Write SLIDE and a length.",
    "ADVANCE": "Write SLIDE and a length.",
    "DELAY": "Write SLACK and a length.",
    "WATERMARK": "Write SLACK and a length.",
    "GRACE": "Write SLACK and a length.",
    "INCLUSIVE": "Write it once, after the length of a RANGE: [RANGE 60 SECONDS INCLUSIVE WATTR "
    "t] holds tuples of exactly 60 seconds ago too.",
    "EXCLUSIVE": "Leave it out: a RANGE without INCLUSIVE is exclusive.",
}
"""Words of other engines in a window clause, and what to write instead."""

NOT_INCLUSIVE = (
    "Leave INCLUSIVE out: a tuple on a border is in the window that begins there, so that none "
    "counts in one window too many."
)
BEFORE_EMIT = ("WHERE", "GROUP BY", "HAVING", "UNION", "ORDER BY", "LIMIT")
EMIT_REMEDY = "Write EMIT ORDER none, outer or inner, or EMIT EMPTY."


class Clauses(Expressions):
    """The grammar of clauses."""

    def name(self, what: str, remedy: str) -> Name:
        """Read an identifier, or fail."""
        if not self._match_set(NAMES):
            if self._curr.text.isidentifier():
                remedy += f' To use a word of the language as a name, write "{self._curr.text}".'
            self.fail(f"syntax error: expected {what} but found {self.found()}", remedy)
        return Name(self._prev.text, token_span(self._prev))

    def since(self, start: int) -> Span:
        """The text from ``start`` to the last token read."""
        return (start, self._prev.end + 1)

    def not_supported(self, what: str, remedy: str) -> NoReturn:
        """Refuse the construct at this place, by its name."""
        self.fail(f"{what} is not supported", remedy)

    def window(self) -> WindowClause:
        """Read ``[kind size INCLUSIVE SLIDE d START AT v WATTR a SLACK l]``."""
        start = self._curr.start
        self._advance()
        kind = self._curr.text.upper()
        if kind not in ("ROWS", "RANGE", "NOW", "UNBOUNDED"):
            self.fail(
                f"syntax error: no window is called {self.found()}",
                OTHER_WINDOWS.get(kind, WINDOW_REMEDY),
            )
        self._advance()
        size = self.quantity(kind) if kind in ("ROWS", "RANGE") else None
        inclusive = None
        if kind == "RANGE" and self._match_text_seq("INCLUSIVE"):
            inclusive = token_span(self._prev)
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
                remedy = OTHER_WINDOWS.get(word, WINDOW_REMEDY)
                if word == "INCLUSIVE" and kind != "RANGE":
                    remedy = f"Leave INCLUSIVE out: {kind} has no borders in time."
                elif word == "INCLUSIVE" and ("SLIDE" in lengths or self.slides()):
                    remedy = NOT_INCLUSIVE
                self.fail(f"syntax error: unexpected {self.found()} in a {kind} window", remedy)
        slide, slack = lengths.get("SLIDE"), lengths.get("SLACK")
        at = self.since(start)
        return WindowClause(kind, at, size, slide, attribute, slack, first, inclusive)

    def slides(self) -> bool:
        """Whether the current window clause has a SLIDE ahead."""
        rest = takewhile(lambda token: token.text != "]", self._tokens[self._index :])
        return any(token.text.upper() == "SLIDE" for token in rest)

    def start_at(self) -> exp.Expr:
        """Read ``START AT literal``."""
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
        """Read a number, perhaps negative, perhaps with a unit."""
        start = self._curr.start
        sign = "-" if self._match(TokenType.DASH) else ""
        point = "0." if self._match(TokenType.DOT) else ""
        if not self._match(TokenType.NUMBER):
            self.fail(
                f"syntax error: expected a number after {after} but found {self.found()}",
                self.length_remedy(after),
            )
        text = f"{sign}{point}{self._prev.text}"
        if NUMBER.fullmatch(text) is None:
            self.fail(
                f"syntax error: '{text}' is no number",
                f"Write a number, for instance {after} 10.",
                self.since(start),
            )
        number = near_number(text)
        if number is None:
            self.fail(
                f"{after} {short_text(text)} is beyond every clock and every count",
                f"Write a number between 1e-40 and 1e40, for instance {after} 10.",
                self.since(start),
            )
        unit = self._curr.text.upper().removesuffix("S")
        if unit not in UNITS or self._curr.token_type != TokenType.VAR:
            self.check_unit()
            return Quantity(number, None, self.since(start))
        self._advance()
        return Quantity(number, unit, self.since(start))

    def length_remedy(self, after: str) -> str:
        """The remedy for a length that is no number: an interval, a string, a SQL frame."""
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 3]]
        if words[:1] == ["INTERVAL"]:
            words = words[1:]
        text = " ".join(words).split()
        if len(text) > 1 and text[0].isdigit() and singular(text[1]) in UNITS:
            return f"Write {after} {text[0]} {text[1]}."
        return OTHER_WINDOWS.get(words[0] if words else "", WINDOW_REMEDY)

    def check_unit(self) -> None:
        """Refuse an unknown word after a number that was meant as a unit."""
        if self._curr and self._curr.token_type == TokenType.VAR and unit_meant(self._curr.text):
            self.fail(f"unknown unit {self.found()}", unit_remedy(self._curr.text, UNIT_SECONDS))

    def group_by(self) -> tuple[exp.Expr, ...]:
        """Read the expressions of GROUP BY; none without it."""
        if not self._match(TokenType.GROUP_BY):
            return ()
        if self._match(TokenType.ALL, advance=False):
            self.not_supported("GROUP BY ALL", "Write the columns, or their places: GROUP BY 1, 2.")
        keys = [self.required_expression()]
        while self._match(TokenType.COMMA):
            keys.append(self.required_expression())
        return tuple(keys)

    def order_by(self) -> tuple[SortItem, ...]:
        """Read the keys of ORDER BY; none without it."""
        if not self._match(TokenType.ORDER_BY):
            return ()
        start = self._prev.start
        if self._match(TokenType.ALL, advance=False):
            self.not_supported("ORDER BY ALL", "Write the columns, or their places: ORDER BY 1, 2.")
        keys = [self.sort_item(start)]
        while self._match(TokenType.COMMA):
            keys.append(self.sort_item(self._curr.start))
        return tuple(keys)

    def sort_item(self, start: int) -> SortItem:
        """Read ``expression [ASC | DESC] [NULLS FIRST | LAST]``."""
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
        """Read ``LIMIT n``, if it is here."""
        if not self._match(TokenType.LIMIT):
            return None
        start = self._prev.start
        sign = "-" if self._match(TokenType.DASH) else ""
        text = self._curr.text
        if self._match(TokenType.ALL, advance=False):
            self.not_supported("LIMIT ALL", "Leave LIMIT ALL out.")
        if self._curr.token_type != TokenType.NUMBER:
            self.fail(
                f"syntax error: expected a number after LIMIT but found {self.found()}",
                "Write how many rows, for instance LIMIT 10.",
            )
        self._advance()
        if self._match(TokenType.COMMA, advance=False):
            self.fail(
                "LIMIT with two numbers is not supported",
                "Write LIMIT and one number, and pass over the first rows that come.",
            )
        rows = None if sign else whole_number(text)
        if rows is None or rows >= 2**62:
            self.fail(
                f"LIMIT {sign}{short_text(text)} is not a number of rows",
                "Write a whole number, 0 or more, for instance LIMIT 10.",
                self.since(start),
            )
        return Limit(rows, self.since(start))

    def emit(self) -> Emit:
        """Read ``EMIT ORDER …`` and ``EMIT EMPTY``, in any order, if they are here."""
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
        """Read ``ORDER none|outer|inner [PRECISION n]``, after EMIT."""
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
        stars = whole_number(self._curr.text)
        if self._curr.token_type != TokenType.NUMBER or not stars or stars >= 2**62:
            self.fail(
                f"syntax error: PRECISION {self.found()}", "Write a whole number of at least 1."
            )
        self._advance()
        return order, stars


def short_text(text: str) -> str:
    """The text of a number, cut if it is long."""
    return text if len(text) <= 40 else f"{text[:20]}..."
