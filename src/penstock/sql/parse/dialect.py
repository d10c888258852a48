"""Penstock's SQL as a dialect of sqlglot: its keywords, and the grammar of expressions.

sqlglot reads the union of some thirty dialects. Ours is reduced to what the binder supports, so
that anything else is a syntax error at its place, and not a node that the binder silently ignores.
Every node records the piece of text it was read from, see :func:`span`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from penstock.errors import SqlError
from penstock.sql.parse.foreign_functions import substitute

WORDS = (
    "ALL",
    "AND",
    "ANTI",
    "BETWEEN",
    "CASE",
    "CROSS",
    "DISTINCT",
    "DIV",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "FALSE",
    "FETCH",
    "FROM",
    "FULL",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "OUTER",
    "OVER",
    "QUALIFY",
    "RIGHT",
    "SELECT",
    "SEMI",
    "THEN",
    "TRUE",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
)


class Words(Tokenizer):
    """The keywords of the language. Any other word is a name."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "==": TokenType.EQ,
        "::": TokenType.DCOLON,
        "||": TokenType.DPIPE,
        ">=": TokenType.GTE,
        "<=": TokenType.LTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "AS": TokenType.ALIAS,
        "GROUP BY": TokenType.GROUP_BY,
        "ORDER BY": TokenType.ORDER_BY,
        **{word: TokenType[word] for word in WORDS},
    }


Span = tuple[int, int]
"""The start and end of a piece of text; the end is exclusive."""

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


TRIMS = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}
QUERY_START = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)


class TypedLiteral(exp.Expression):
    """``DATE '…'`` or ``TIMESTAMP '…'``: ``this`` is the type, ``expression`` the string."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


def span(node: exp.Expr) -> Span:
    """The node's place in the text: as it was read, else around all its descendants."""
    own = node.meta_get("span")
    if own is not None:
        return (int(own[0]), int(own[1]))
    below = [span(child) for child in node.iter_expressions()]
    if not below:
        return (0, 0)
    return (min(start for start, _ in below), max(end for _, end in below))


def spanned(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a parser's method: the node it returns is marked with the text it consumed.

    The innermost method that returns a node knows its text best, so a node that is already marked
    stays as it is.
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
        "TRY_CAST": lambda self: self.no_other_cast(),
        "SAFE_CAST": lambda self: self.no_other_cast(),
        "POSITION": lambda self: self.no_position(),
        "TRIM": lambda self: self.parse_trim(),
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
        """Raise an error at the next token, or at ``at``."""
        start, end = at or self.here()
        raise SqlError.at(self.sql, start, end, what, remedy)

    def here(self) -> Span:
        """The place of the next token, or the end of the text."""
        return token_span(self._curr) if self._curr else self.end_of_text()

    def end_of_text(self) -> Span:
        """The empty place after the last token."""
        after = self._prev.end + 1 if self._prev else len(self.sql)
        return (after, after)

    def found(self) -> str:
        """The next token, as an error names it."""
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
        """Report sqlglot's errors in our words."""
        self.refuse_idiom()
        self.no_operator()
        if message.startswith("Expecting"):
            wanted = message.removeprefix("Expecting ")
            self.fail(
                f"syntax error: expected '{wanted}' but found {self.found()}",
                f"Write '{wanted}' here, or remove its opening counterpart.",
            )
        self.fail(f"syntax error: unexpected {self.found()}", "Write an expression here.")

    def required_expression(self) -> exp.Expr:
        """Read an expression, or fail."""
        node = self._parse_disjunction()
        if not isinstance(node, exp.Expr):
            self._parse_select()
            self.refuse_idiom()
            self.fail(
                f"syntax error: expected an expression but found {self.found()}",
                "Write an expression here.",
            )
        return node

    def _parse_expression(self) -> exp.Expr:
        """Read an expression of a list, without an alias, which only the select list has."""
        return self.required_expression()

    def _parse_assignment(self) -> exp.Expr:
        return self.required_expression()

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Read no bracket: there are no arrays, and a bracket begins a window clause."""
        return this

    def no_in_query(self, this: exp.Expr | None) -> NoReturn:
        """Refuse the query that starts here, after ``IN (``."""
        raise NotImplementedError

    def refuse_idiom(self) -> None:
        """Refuse another engine's construct that begins here."""
        raise NotImplementedError

    def no_operator(self) -> None:
        """Refuse another engine's operator, which the tokenizer splits into ours."""
        raise NotImplementedError

    def no_window_function(self, this: exp.Expr | None) -> NoReturn:
        """Refuse OVER, after a function."""
        raise NotImplementedError

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        if self._match(TokenType.R_PAREN, advance=False):
            return []
        distinct = self._match(TokenType.DISTINCT)
        args = [self.required_expression()]
        while self._match(TokenType.COMMA):
            args.append(self.required_expression())
        if self._match(TokenType.ORDER_BY, advance=False):
            self.fail(
                "ORDER BY in a function is not supported",
                "Leave it out; FIRST and LAST go by the time attribute of the window, and no other "
                "aggregate depends on the order.",
            )
        return [self.expression(exp.Distinct(expressions=args))] if distinct else args

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """Read what follows a function: ``FILTER (WHERE condition)``."""
        if self._match_text_seq("FILTER", "("):
            if this is not None and "start" in this.meta:
                this.meta["span"] = (this.meta["start"], self._tokens[self._index - 3].end + 1)
            self.expect("WHERE")
            condition = self.required_expression()
            self.expect(")")
            this = self.expression(exp.Filter(this=this, expression=condition))
        if self._match(TokenType.OVER, advance=False):
            self.no_window_function(this)
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
        """Read ``INTERVAL 10 MINUTES``, ``INTERVAL '1' DAY``, ``INTERVAL '1 day'``."""
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
        self.check_one_unit(words)
        amount = exp.Literal.string(" ".join(words[:-1]))
        return self.expression(exp.Interval(this=amount, unit=exp.Var(this=words[-1].upper())))

    def check_one_unit(self, words: list[str]) -> None:
        """Refuse an interval of several units."""
        several = len(words) > 2 and len(words) % 2 == 0
        pairs = zip(words[::2], words[1::2], strict=False)
        if several or self._match_text_seq("TO", advance=False):
            text = " + ".join(f"INTERVAL {n} {unit.upper().rstrip(',')}" for n, unit in pairs)
            self.fail(
                "an interval of several units is not supported",
                f"Write {text if several else 'INTERVAL 1 DAY + INTERVAL 2 HOURS'}.",
                token_span(self._prev),
            )

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr:
        """Read a type's name with its parameters, as text for :func:`parse_type`."""
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
        """Read ``CAST(x AS type)``, after its opening parenthesis."""
        value = self.required_expression()
        self.expect("AS")
        node = self.expression(exp.Cast(this=value, to=self._parse_types()))
        self.at_parenthesis()
        return node

    def at_parenthesis(self) -> None:
        """Fail if the arguments of a function do not end here."""
        if not self._match(TokenType.R_PAREN, advance=False):
            self.expect(")")

    def parse_trim(self) -> exp.Expr:
        """Read ``TRIM(x)``, after its opening parenthesis; refuse characters or an end to trim."""
        word = self._curr.text.upper()
        if word in TRIMS and self._next.token_type not in (TokenType.R_PAREN, TokenType.COMMA):
            name = self._tokens[self._index - 2]
            rest = self._tokens[self._index + 1 :]
            what = next((t.start for f, t in pairwise(rest) if f.token_type == TokenType.FROM), 0)
            close = next((t.start for t in rest if t.token_type == TokenType.R_PAREN), 0)
            text = self.sql[what:close].strip() if 0 < what < close else "x"
            self.fail(
                f"TRIM with {word} is not supported",
                f"Write {TRIMS[word]}({text}), which removes spaces.",
                token_span(name),
            )
        return self.expression(exp.Anonymous(this="TRIM", expressions=self._parse_function_args()))

    def no_other_cast(self) -> NoReturn:
        """Refuse ``TRY_CAST(x AS type)``, after its opening parenthesis."""
        name = self._tokens[self._index - 2]
        cast = self.parse_cast()
        start, end = span(cast.this)[0], span(cast.args["to"])[1]
        self.fail(
            f"the function {name.text.upper()} is not supported",
            f"Write CAST({self.sql[start:end]}), which gives NULL where it fails.",
            token_span(name),
        )

    def no_position(self) -> NoReturn:
        """Refuse ``POSITION(a IN b)``, after its opening parenthesis."""
        name = self._tokens[self._index - 2]
        part = self._parse_bitwise()
        texts = ["'a'", "x"]
        if isinstance(part, exp.Expr):
            texts[0] = self.sql[slice(*span(part))]
            if self._match(TokenType.IN) or self._match(TokenType.COMMA):
                whole = self._parse_bitwise()
                texts[1] = self.sql[slice(*span(whole))] if isinstance(whole, exp.Expr) else "x"
        self.fail(
            "the function POSITION is not supported",
            f"Write CONTAINS({texts[1]}, {texts[0]}); the place itself is not computed.",
            token_span(name),
        )

    def parse_extract(self) -> exp.Expr:
        """Read ``EXTRACT(unit FROM t)``, after its opening parenthesis."""
        unit = self._curr
        name = EXTRACTED.get(unit.text.upper())
        if name is None:
            remedy = "Write YEAR, MONTH, DAY, HOUR, MINUTE, SECOND or DAYOFWEEK."
            instead = substitute(unit.text)
            if instead is not None and instead.sql and self._next.token_type == TokenType.FROM:
                place = self._tokens[self._index + 2 : self._index + 3]
                remedy = instead.remedy([place[0].text if place else "t"], "R")
            self.fail(f"EXTRACT does not know {self.found()}", remedy)
        self._advance()
        self.expect("FROM")
        return self.expression(exp.Anonymous(this=name, expressions=[self.required_expression()]))

    def parse_substring(self) -> exp.Expr:
        """Read ``SUBSTRING(x, a [, n])`` or ``SUBSTRING(x FROM a [FOR n])``."""
        args = [self.required_expression()]
        if self._match(TokenType.FROM):
            args.append(self.required_expression())
            if self._match_text_seq("FOR"):
                args.append(self.required_expression())
        else:
            while self._match(TokenType.COMMA):
                args.append(self.required_expression())
        self.at_parenthesis()
        return self.expression(exp.Anonymous(this="SUBSTRING", expressions=args))

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        self.expect("AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        self.expect("(")
        if self._match_set(QUERY_START, advance=False):
            self.no_in_query(this)
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
    """The place of the token in the text."""
    return (token.start, token.end + 1)


class Penstock(Dialect):
    """The dialect, as sqlglot requires it: tokenizer and parser."""

    Tokenizer = Words
    Parser = Expressions
