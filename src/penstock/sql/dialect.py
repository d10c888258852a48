"""Penstock's SQL as a dialect of sqlglot: the words, and the grammar of expressions.

sqlglot reads the union of some thirty dialects. Ours is cut down to what the binder knows, so that
anything else is a syntax error where it stands and not a node that somebody forgets to look at.
Every node remembers which piece of the text it was read from, see :func:`span`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import SqlError
from penstock.sql.words import Words

Span = tuple[int, int]
"""The first character of a piece of text, and the one after its last."""

TYPED_LITERALS = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp"}

EXTRACTED = {
    "YEAR": "YEAR",
    "MONTH": "MONTH",
    "DAY": "DAY",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
    "DOW": "DAYOFWEEK",
    "DAYOFWEEK": "DAYOFWEEK",
}


class TypedLiteral(exp.Expression):
    """``DATE '…'`` or ``TIMESTAMP '…'``: ``this`` is the type, ``expression`` the string."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


def span(node: exp.Expr) -> Span:
    """Where the node stands in the text: as it was read, else around everything below it."""
    own = node.meta_get("span")
    if own is not None:
        return (int(own[0]), int(own[1]))
    below = [span(child) for child in node.iter_expressions()]
    if not below:
        return (0, 0)
    return (min(start for start, _ in below), max(end for _, end in below))


def spanned(method: Callable[..., Any]) -> Callable[..., Any]:
    """A parser's method that marks the node it returns with the text it consumed for it.

    The innermost method that returns a node is the one that knows its text best, so a node that
    has been marked is left alone.
    """

    def marked(self: Parser, *args: Any, **options: Any) -> Any:
        first = self._curr
        node = method(self, *args, **options)
        if isinstance(node, exp.Expr) and node.meta_get("span") is None and self._prev:
            node.meta["span"] = (first.start, self._prev.end + 1)
        return node

    return marked


class Expressions(Parser):
    """The grammar of expressions."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {"CASE": lambda self: self._parse_case()}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: self.parse_cast(),
        "EXTRACT": lambda self: self.parse_extract(),
        "SUBSTRING": lambda self: self.parse_substring(),
        "SUBSTR": lambda self: self.parse_substring(),
    }
    PRIMARY_PARSERS: ClassVar[Any] = {
        kind: Parser.PRIMARY_PARSERS[kind]
        for kind in (
            TokenType.STRING,
            TokenType.NUMBER,
            TokenType.HEX_STRING,
            TokenType.NULL,
            TokenType.TRUE,
            TokenType.FALSE,
        )
    } | {TokenType.STAR: lambda self, token: self.expression(exp.Star(), token)}
    PLACEHOLDER_PARSERS: ClassVar[Any] = {}
    RANGE_PARSERS: ClassVar[Any] = {
        kind: Parser.RANGE_PARSERS[kind]
        for kind in (TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE)
    }
    COLUMN_OPERATORS: ClassVar[Any] = {
        kind: Parser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }
    UNARY_PARSERS: ClassVar[Any] = {
        kind: Parser.UNARY_PARSERS[kind] for kind in (TokenType.PLUS, TokenType.NOT, TokenType.DASH)
    }
    ASSIGNMENT: ClassVar[dict[TokenType, type[exp.Expr]]] = {}
    BITWISE: ClassVar[Any] = {}
    EQUALITY: ClassVar[Any] = {TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    TERM: ClassVar[Any] = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR: ClassVar[Any] = {
        TokenType.DIV: exp.IntDiv,
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    ID_VAR_TOKENS: ClassVar[set[Any]] = {TokenType.VAR}
    BRACKETS: ClassVar[frozenset[Any]] = frozenset()

    _parse_disjunction = spanned(Parser._parse_disjunction)
    _parse_conjunction = spanned(Parser._parse_conjunction)
    _parse_equality = spanned(Parser._parse_equality)
    _parse_comparison = spanned(Parser._parse_comparison)
    _parse_range = spanned(Parser._parse_range)
    _parse_bitwise = spanned(Parser._parse_bitwise)
    _parse_term = spanned(Parser._parse_term)
    _parse_factor = spanned(Parser._parse_factor)
    _parse_unary = spanned(Parser._parse_unary)
    _parse_column = spanned(Parser._parse_column)
    _parse_primary = spanned(Parser._parse_primary)
    _parse_function_call = spanned(Parser._parse_function_call)
    _parse_id_var = spanned(Parser._parse_id_var)

    def fail(self, what: str, remedy: str, at: Span | None = None) -> NoReturn:
        """Raise, pointing at the next token unless told otherwise."""
        start, end = at or self.here()
        raise SqlError.at(self.sql, start, end, what, remedy)

    def here(self) -> Span:
        """Where the next token is, or the end of the text."""
        return token_span(self._curr) if self._curr else self.end_of_text()

    def end_of_text(self) -> Span:
        """The empty piece after the last token."""
        after = self._prev.end + 1 if self._prev else len(self.sql)
        return (after, after)

    def found(self) -> str:
        """What stands where something else was expected."""
        start, end = self.here()
        return f"'{self.sql[start:end]}'" if self._curr else "the end of the text"

    def expect(self, *words: str) -> None:
        """Consume these words or symbols, or fail."""
        for word in words:
            if not self._match_text_seq(word):
                self.fail(
                    f"syntax error: expected {word} but found {self.found()}", f"Write {word} here."
                )

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Report what sqlglot found wrong, in our words."""
        if message.startswith("Expecting"):
            wanted = message.removeprefix("Expecting ")
            self.fail(
                f"syntax error: expected '{wanted}' but found {self.found()}",
                f"Write '{wanted}' here, or remove its opening counterpart.",
            )
        self.fail(f"syntax error: unexpected {self.found()}", "Write an expression here.")

    def required_expression(self) -> exp.Expr:
        """An expression, or fail."""
        node = self._parse_disjunction()
        if not isinstance(node, exp.Expr):
            self.fail(
                f"syntax error: expected an expression but found {self.found()}",
                "Write an expression here.",
            )
        return node

    def _parse_expression(self) -> exp.Expr:
        """An expression of a list. Names for it are the select list's business."""
        return self.required_expression()

    def _parse_assignment(self) -> exp.Expr:
        return self.required_expression()

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """There are no arrays; a bracket is a window clause and not an expression's."""
        return this

    def _parse_select(self, *args: Any, **options: Any) -> exp.Expr | None:
        """A query inside an expression."""
        if self._match_set((TokenType.SELECT, TokenType.WITH, TokenType.VALUES), advance=False):
            self.no_sub_query()
        return None

    def no_sub_query(self) -> NoReturn:
        """Refuse the query that starts here."""
        self.fail(
            "a sub-query is not supported",
            "Name it first, CREATE STREAM t AS SELECT ..., and read t here.",
        )

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        if self._match(TokenType.R_PAREN, advance=False):
            return []
        distinct = self._match(TokenType.DISTINCT)
        args = [self.required_expression()]
        while self._match(TokenType.COMMA):
            args.append(self.required_expression())
        return [self.expression(exp.Distinct(expressions=args))] if distinct else args

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """What follows a function: ``FILTER (WHERE condition)``."""
        if self._match_text_seq("FILTER", "("):
            if this is not None and "start" in this.meta:
                this.meta["span"] = (this.meta["start"], self._tokens[self._index - 3].end + 1)
            self.expect("WHERE")
            condition = self.required_expression()
            self.expect(")")
            this = self.expression(exp.Filter(this=this, expression=condition))
        if self._match(TokenType.OVER, advance=False):
            self.fail(
                "window functions are not supported",
                "Write the window after the stream, FROM R [RANGE ... SLIDE ...], and leave "
                "OVER (...) out.",
            )
        return this

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        word, following = self._curr, self._next
        if word.token_type == TokenType.VAR and following.token_type == TokenType.STRING:
            kind = TYPED_LITERALS.get(word.text.upper())
            if kind:
                self._advance()
                return self.expression(TypedLiteral(this=kind, expression=self._parse_primary()))
        if word.token_type == TokenType.INTERVAL:
            return self.parse_interval()
        atom = self._parse_atom()
        return atom if atom is not None else self._parse_column()

    def parse_interval(self) -> exp.Expr:
        """``INTERVAL 10 MINUTES``, ``INTERVAL '1' DAY``, ``INTERVAL '1 day'``."""
        self._advance()
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            self.fail(
                f"syntax error: expected a number after INTERVAL but found {self.found()}",
                "Write for instance INTERVAL 10 MINUTES.",
            )
        words = f"{sign}{self._prev.text.strip()}".split()
        if len(words) < 2:
            if self._curr.token_type != TokenType.VAR:
                self.fail(
                    f"syntax error: expected a unit but found {self.found()}",
                    "Write for instance INTERVAL 10 MINUTES.",
                )
            self._advance()
            words.append(self._prev.text)
        amount = exp.Literal.string(" ".join(words[:-1]))
        return self.expression(exp.Interval(this=amount, unit=exp.Var(this=words[-1].upper())))

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr:
        """A type's name with its parameters, as text: :func:`parse_type` understands it."""
        start = self._curr
        if not self._match_set((TokenType.VAR, TokenType.IDENTIFIER)):
            self.fail(
                f"syntax error: expected a type but found {self.found()}",
                "Write a type's name, for instance int64.",
            )
        if start.text.upper() == "DOUBLE":
            self._match_text_seq("PRECISION")
        elif start.text.upper() == "TIMESTAMP":
            self._match_text_seq("WITH", "TIME", "ZONE")
        if self._match(TokenType.L_PAREN):
            while self._curr and not self._match(TokenType.R_PAREN, advance=False):
                self._advance()
            self.expect(")")
        node = exp.Var(this=self._find_sql(start, self._prev))
        node.meta["span"] = (start.start, self._prev.end + 1)
        return node

    def parse_cast(self) -> exp.Expr:
        """``CAST(x AS type)``, after its opening parenthesis."""
        value = self.required_expression()
        self.expect("AS")
        return self.expression(exp.Cast(this=value, to=self._parse_types()))

    def parse_extract(self) -> exp.Expr:
        """``EXTRACT(unit FROM t)``, after its opening parenthesis."""
        unit = self._curr
        name = EXTRACTED.get(unit.text.upper())
        if name is None:
            self.fail(
                f"EXTRACT does not know {self.found()}",
                "Write YEAR, MONTH, DAY, HOUR, MINUTE, SECOND or DAYOFWEEK.",
            )
        self._advance()
        self.expect("FROM")
        return self.expression(exp.Anonymous(this=name, expressions=[self.required_expression()]))

    def parse_substring(self) -> exp.Expr:
        """``SUBSTRING(x, a [, n])`` or ``SUBSTRING(x FROM a [FOR n])``."""
        args = [self.required_expression()]
        if self._match(TokenType.FROM):
            args.append(self.required_expression())
            if self._match_text_seq("FOR"):
                args.append(self.required_expression())
        else:
            while self._match(TokenType.COMMA):
                args.append(self.required_expression())
        return self.expression(exp.Anonymous(this="SUBSTRING", expressions=args))

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        self.expect("AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        self.expect("(")
        self._parse_select()
        values = self._parse_function_args()
        if not values:
            self.fail("IN needs at least one value", "Write for instance x IN (1, 2).")
        self.expect(")")
        return self.expression(exp.In(this=this, expressions=values))

    def _parse_case(self) -> exp.Expr:
        operand = None
        if not self._match(TokenType.WHEN, advance=False):
            operand = self.required_expression()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self.required_expression()
            self.expect("THEN")
            branches.append(exp.If(this=condition, true=self.required_expression()))
        if not branches:
            self.expect("WHEN")
        default = self.required_expression() if self._match(TokenType.ELSE) else None
        self.expect("END")
        return self.expression(exp.Case(this=operand, ifs=branches, default=default))


def token_span(token: Token) -> Span:
    """Where the token stands in the text."""
    return (token.start, token.end + 1)


class Penstock(Dialect):
    """The dialect, as sqlglot wants it: its words and its grammar."""

    Tokenizer = Words
    Parser = Expressions
