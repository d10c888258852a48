"""Constructs of other engines' SQL: refused by name, each with a remedy.

If a foreign keyword could be a name here (``FROM R asof JOIN S …``), the words after it decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import SqlError
from penstock.sql.bind.aggregate_functions import AGGREGATES, has_aggregate
from penstock.sql.parse.clauses import NAMES, Clauses
from penstock.sql.parse.dialect import QUERY_START, span, token_span
from penstock.sql.parse.foreign_functions import (
    HOPS,
    NO_BITS,
    NO_NESTING,
    NO_PATTERNS,
    WINDOWS,
    substitute,
    windows_written,
)
from penstock.sql.parse.syntax import Item, SelectClause, StreamReference

LONGEST = 100
"""The longest text, in characters, that a remedy quotes."""
LONGEST_JOIN = 4
"""The most words of a join: ``ASOF LEFT OUTER JOIN``."""

LEAVE_OUT = "Leave it out."
OVER_ROWS = (
    "Write the window after the stream: FROM {stream} [ROWS 100 SLIDE 1] answers after every "
    "tuple, over the last 100."
)
OVER_KEYS = (
    "There are no windows by key. To have the aggregate of each key beside its tuples, of a stream "
    "that ends, name it, CREATE STREAM g AS SELECT {key}, ... AS v FROM {stream} GROUP BY {key}; "
    "and join it, FROM {stream} JOIN g ON {stream}.{key} = g.{key}. To have the last tuples of one "
    "key, name them, CREATE STREAM one AS SELECT ... FROM {stream} WHERE {key} = ...; and write "
    "FROM one [ROWS 100 SLIDE 1], which answers after every tuple, over the last 100."
)
AT_CLOSE = "Leave it out: the row of a window comes once, when the window closes."
EMITTED_AT_ONCE = "Leave it out: every row comes as soon as it is made, and is never taken back."
SPREAD = "Leave it out; cores=4 in engine.install, or --cores 4, shares the work."
LATEST = (
    "For the tuple of {other} that arrived last, write FROM {stream} [NOW] JOIN {other} [ROWS 1] "
    "ON TRUE. By key, join FROM {stream} [NOW] JOIN {other} [RANGE 10 MINUTES WATTR t] ON "
    "{stream}.id = {other}.id, which has every partner of the last 10 minutes, and take the last "
    "of each from the rows that come."
)
GROUPINGS = "Write a query for each set of groups, with UNION ALL between them."
NO_SAMPLE = "Write a condition in WHERE, for instance id % 100 = 0 for one tuple in a hundred."
BESIDE_OR = (
    "Beside OR, write one query with SEMI JOIN and one with ANTI JOIN and the rest of the "
    "condition, and UNION ALL between them."
)
IN_LIST = (
    "In a select list, write one query with SEMI JOIN and TRUE there, one with ANTI JOIN and "
    "FALSE, and UNION ALL between them."
)
NO_VERSION = (
    "A query reads its streams from where it is installed; replay older data with penstock run or "
    "ps.sql."
)


@dataclass(frozen=True)
class Idiom:
    """A construct of other engines, and what to write instead.

    Parameters
    ----------
    words
        Its words in upper case; ``*`` is any one word.
    what
        Its name.
    remedy
        The remedy, with ``{stream}`` for the stream read and ``{other}`` for the joined one.
    """

    words: tuple[str, ...]
    what: str
    remedy: str


def _idioms(remedy: str, *words: str) -> list[Idiom]:
    """An idiom for each sequence of words; words after ``|`` are not part of its name."""
    found = []
    for sequence in words:
        named, _, rest = sequence.partition("|")
        found.append(Idiom((*named.split(), *rest.split()), named.strip(), remedy))
    return found


AFTER_STREAM = [
    *_idioms(LATEST, "ASOF JOIN", "ASOF | LEFT", "ASOF | INNER", "ASOF | RIGHT", "ASOF | FULL"),
    *_idioms(LATEST, "FOR SYSTEM_TIME | AS OF", "AS OF SYSTEM | TIME"),
    *_idioms(NO_VERSION, "FOR SYSTEM_TIME", "FOR VERSION", "FOR TIMESTAMP | AS", "VERSION AS OF"),
    *_idioms(NO_VERSION, "TIMESTAMP AS OF", "AS OF TIMESTAMP", "AS OF VERSION"),
    *_idioms(
        "Join the stream with itself for pairs of tuples that follow each other: FROM {stream} "
        "[RANGE 10 SECONDS WATTR t] AS a JOIN {stream} [NOW] AS b ON a.id = b.id AND a.t < b.t.",
        "MATCH_RECOGNIZE | (",
    ),
    *_idioms(
        "Write an aggregate for each column: SUM(x) FILTER (WHERE name = 'a') AS a.", "PIVOT | ("
    ),
    *_idioms("Write a SELECT for each column, with UNION ALL between them.", "UNPIVOT | ("),
    *_idioms(NO_SAMPLE, "TABLESAMPLE", "USING SAMPLE"),
    *_idioms(
        WINDOWS,
        "WINDOW TUMBLING",
        "WINDOW HOPPING",
        "WINDOW SESSION",
    ),
    *_idioms(OVER_ROWS, "WINDOW | * AS"),
    *_idioms(SPREAD, "PARTITION BY", "CLUSTER BY", "DISTRIBUTE BY"),
    *_idioms("Write ORDER BY, over a window that slides or input that ends.", "SORT BY"),
    *_idioms(NO_NESTING, "LATERAL VIEW", "CROSS APPLY", "OUTER APPLY"),
    *_idioms("Write JOIN ... ON.", "STRAIGHT_JOIN", "GLOBAL JOIN", "POSITIONAL JOIN"),
    *_idioms(
        "Write FROM {stream} [NOW] JOIN {other} [ROWS 1] ON TRUE for the last tuple alone.",
        "ANY JOIN",
    ),
    *_idioms(LEAVE_OUT, "FOR UPDATE", "FOR SHARE", "SETTINGS", "OPTION | (", "LOCK | IN"),
    *_idioms(SPREAD, "REPARTITION | BY"),
]
"""What can follow a stream in FROM."""

OPERATORS = [
    *_idioms("Write LOWER(x) LIKE 'a%', with the pattern in lower case.", "ILIKE", "NOT ILIKE"),
    *_idioms(NO_PATTERNS, "RLIKE", "REGEXP", "SIMILAR TO", "GLOB", "~", "NOT RLIKE", "NOT SIMILAR"),
    *_idioms(NO_PATTERNS, "NOT REGEXP", "NOT GLOB", "! | ~"),
    *_idioms("Write x * x for the square; there are no other powers but SQRT.", "^"),
    *_idioms(NO_BITS, "&", "> >", "< <"),
    *_idioms("Write FILTER (WHERE x IS NOT NULL) after the aggregate.", "IGNORE NULLS"),
    *_idioms("Leave it out: aggregates but COUNT(*) pass NULLs over.", "RESPECT NULLS"),
    *_idioms(
        "There are no quantiles; select the values themselves, and compute it from the rows that "
        "come.",
        "WITHIN GROUP",
    ),
    *_idioms("Write the columns that are wanted, with commas between.", "EXCEPT | (", "EXCLUDE"),
    *_idioms("Write the columns that are wanted, with commas between.", "REPLACE | (", "RENAME"),
    *_idioms("Name the rows as a stream: CREATE STREAM t AS SELECT ....", "INTO"),
    *_idioms("Write the value itself into the text, a string in quotes: 'text'.", "?", ": | *"),
    *_idioms(NO_NESTING, "[ | *"),
    *_idioms("Write (x >= a) AND (x <= b), or x BETWEEN a AND b.", "OVERLAPS"),
]
"""What can follow an expression."""

AFTER_QUERY = [
    *_idioms(EMITTED_AT_ONCE, "EMIT CHANGES"),
    *_idioms(AT_CLOSE, "EMIT FINAL", "EMIT ON | WINDOW CLOSE", "EMIT STREAM", "EMIT AFTER"),
    *_idioms(GROUPINGS, "GROUPING SETS", "WITH ROLLUP", "WITH CUBE"),
    *_idioms("Leave it out; LIMIT takes the first rows of the order.", "WITH TIES"),
    *_idioms("Write ORDER BY the key and LIMIT, in a query for each key.", "LIMIT | * BY"),
]
"""What can follow a query."""

IDIOMS = (*AFTER_STREAM, *OPERATORS, *AFTER_QUERY)
OPERAND = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.VAR, TokenType.L_PAREN})


class Foreign(Clauses):
    """The refusals of foreign constructs."""

    reading: StreamReference | None = None
    """The stream of the last FROM."""

    joining = False
    """Whether that FROM has a join."""

    def select(self) -> SelectClause:
        """A select; see :class:`penstock.sql.parse.grammar.Queries`."""
        raise NotImplementedError

    # -- words ------------------------------------------------------------------------------

    def refuse_idiom(self) -> None:
        """Refuse another engine's construct that begins here."""
        for idiom in IDIOMS:
            if self.stands_here(idiom.words):
                self.no_idiom(idiom)

    def refuse_idiom_for_name(self) -> None:
        """Refuse another engine's construct where a name is also possible."""
        for idiom in IDIOMS:
            lone = len(idiom.words) == 1
            if self.stands_here(idiom.words) and (not lone or self._next.token_type in OPERAND):
                self.no_idiom(idiom)

    def stands_here(self, words: tuple[str, ...]) -> bool:
        """Whether the next tokens are these words, without quotes."""
        tokens = self._tokens[self._index : self._index + len(words)]
        return len(tokens) == len(words) and all(
            word == "*" or (token.text.upper() == word and _is_bare(token))
            for word, token in zip(words, tokens, strict=True)
        )

    def no_idiom(self, idiom: Idiom) -> NoReturn:
        """Refuse the idiom that begins here."""
        count = len(idiom.what.split())
        at = (self._curr.start, self._tokens[self._index + count - 1].end + 1)
        what = f"{idiom.what} is not supported"
        remedy = idiom.remedy.replace("{stream}", self.stream_read())
        if "{window}" in remedy:
            last = self.closing(self._index + count)
            inside = self.sql[self._tokens[self._index].start : self._tokens[last].start]
            remedy = windows_written(remedy, inside)
        self.fail(what, remedy.replace("{other}", self.stream_joined()), at)

    def stream_read(self) -> str:
        """The name of the stream that the query reads: as read, else after the next FROM."""
        if self.reading is not None:
            return self.reading.stream.text
        return self.stream_after(self._index)

    def stream_after(self, place: int) -> str:
        """The name of the stream after the next FROM."""
        for word, name in pairwise(self._tokens[place:]):
            if word.token_type == TokenType.FROM and name.token_type in NAMES:
                return name.text
        return "R"

    def stream_joined(self) -> str:
        """The stream after the JOIN that begins here, else after the last one, else the next."""
        joins: list[tuple[int, str]] = []
        for place, (word, name) in enumerate(pairwise(self._tokens)):
            if word.token_type == TokenType.FROM and place < self._index:
                joins.clear()
            elif word.token_type == TokenType.JOIN and name.token_type in NAMES:
                joins.append((place, name.text))
        here = range(self._index, self._index + LONGEST_JOIN)
        found = [name for place, name in joins if place in here]
        found += [name for place, name in reversed(joins) if place < self._index]
        found += [name for _, name in joins]
        return found[0] if found else "S"

    def no_operator(self) -> None:
        """Refuse operators that the tokenizer splits into ours: ``->``, ``<=>``, ``//``, ``**``."""
        before = "".join(
            token.text for token in self._tokens[max(0, self._index - 2) : self._index]
        )
        here = self._curr.text if self._curr else ""
        at = (self._prev.start, self._curr.end + 1) if self._curr and self._prev else None
        if before.endswith("-") and here == ">":
            self.fail("-> is not supported", NO_NESTING, at)
        if before.endswith("<=") and here == ">":
            self.fail("<=> is not supported", "Write a = b OR (a IS NULL AND b IS NULL).", at)
        if before.endswith("/") and here == "/":
            self.fail("// is not supported", "Write x DIV y, which cuts toward zero.", at)
        if before.endswith("**"):
            self.fail(
                "** is not supported",
                "Write x * x for the square; there are no other powers but SQRT.",
                (self._tokens[self._index - 2].start, self._prev.end + 1),
            )

    def no_window_function(self, this: exp.Expr | None) -> NoReturn:
        """Refuse OVER, after a function."""
        while isinstance(this, exp.Filter):
            this = this.this
        name = this.name.upper() if isinstance(this, exp.Anonymous) else ""
        instead = substitute(name)
        stream = self.stream_read()
        aggregate = name in AGGREGATES or instead is None or bool(instead.sql)
        remedy = OVER_ROWS if aggregate or instead is None else instead.remedy((), stream)
        inside = self._tokens[self._index + 1 : self._index + 7]
        if [token.text.upper() for token in inside[:3]] == ["(", "PARTITION", "BY"]:
            if remedy == OVER_ROWS:
                first = inside[5:6] if [t.text for t in inside[4:5]] == ["."] else inside[3:4]
                key = next((t.text for t in first if t.token_type in NAMES), "id")
                remedy = OVER_KEYS.replace("{key}", key)
            elif "each key" not in remedy:
                remedy = f"There are no windows by key. For the stream as a whole: {remedy}"
        self.fail(
            "window functions are not supported",
            remedy.replace("{stream}", stream),
            (self._curr.start, self._curr.end + 1),
        )

    # -- tables -----------------------------------------------------------------------------

    def refuse_table(self) -> None:
        """Refuse anything in FROM but a stream: a sub-query, a function, a file."""
        if self._match(TokenType.L_PAREN, advance=False):
            self.no_table_query()
        word = self._curr.text.upper()
        if self._curr.token_type == TokenType.STRING:
            self.fail(
                "a file in FROM is not supported",
                "Give it a stream's name: penstock run --stream R=FILE, or ps.sql(text, R='FILE').",
            )
        if self.stands_here(("LATERAL", "(", "SELECT")):
            at = token_span(self._curr)
            self._advance()
            name, text = self.named_query()
            self.fail(
                "LATERAL is not supported",
                f"Name the sub-query first, CREATE STREAM {name} AS {text}; and join it, JOIN "
                f"{name} ON ..., with every condition on both streams after ON.",
                at,
            )
        if word in ("LATERAL", "UNNEST") and _is_bare(self._curr):
            self.not_supported(word, NO_NESTING)
        if word == "VALUES":
            self.not_supported(word, "Push the tuples to a stream: engine.push('R', [{'x': 1}]).")
        if word == "ONLY" and self._next.token_type in NAMES:
            self.not_supported(word, f"Write FROM {self._next.text}.")
        if self._next.token_type == TokenType.L_PAREN and self._curr.token_type == TokenType.VAR:
            self.no_table_function(word)

    def no_table_function(self, word: str) -> NoReturn:
        """Refuse a function in FROM, such as ``TABLE(TUMBLE(TABLE R, …))``."""
        names = [token.text for token in self._tokens[self._index :]]
        words = [name.upper() for name in names]
        kind = next((w for w in words[:4] if w in ("TUMBLE", "HOP", "CUMULATE", "SESSION")), None)
        if kind is None:
            self.fail(
                f"the function {word} in FROM is not supported",
                "Read a stream by its name; push to it, or give it files: penstock run --stream "
                "R=FILE. A block of your own is registered first: ps.register_block(name, Block).",
            )
        read = [name for name, upper in zip(names, words, strict=True) if upper not in _TABLE_WORDS]
        stream = read[0] if read else "R"
        none = "There are no session windows. " if kind == "SESSION" else ""
        inside = self.sql[self._curr.start : self._tokens[self.closing(self._index + 1)].start]
        remedy = (HOPS if kind in ("HOP", "CUMULATE") else WINDOWS).replace("{stream}", stream)
        time = next((name for name in read[1:] if name.isidentifier()), "t")
        if "DESCRIPTOR" not in words:
            inside = f"DESCRIPTOR({time}) {inside}"
        self.fail(
            f"the function {kind} in FROM is not supported",
            f"{none}{windows_written(remedy, inside)}",
        )

    def no_table_query(self) -> NoReturn:
        """Refuse a sub-query in FROM, or a join in parentheses."""
        if self._next.token_type != TokenType.SELECT and self._next.text.upper() != "WITH":
            self.fail(
                "parentheses around a part of FROM are not supported",
                "Write the streams one after the other, FROM A ... JOIN B ... ON ... JOIN C ... ON "
                "...: joins are read from left to right.",
            )
        name, text = self.named_query()
        self.fail(
            "a sub-query is not supported",
            f"Name it first, CREATE STREAM {name} AS {text}; and read {name} here.",
        )

    def named_query(self) -> tuple[str, str]:
        """A name for the sub-query whose parenthesis opens here, and its text."""
        close = self.closing(self._index)
        text = self.quotable(self._curr.end + 1, self._tokens[close].start)
        after = [
            token for token in self._tokens[close + 1 : close + 3] if token.text.upper() != "AS"
        ]
        name = after[0].text if after and after[0].token_type in NAMES else "sub"
        if name.lower() in self.names_between(self._index, close):
            name = "sub"
        return name, text or "SELECT ..."

    def no_common_table(self) -> NoReturn:
        """Refuse ``WITH name AS (query) …``."""
        if self.stands_here(("WITH", "RECURSIVE")):
            self.fail(
                "WITH RECURSIVE is not supported",
                "A query does not read its own rows; push what it gives to a stream of its own.",
            )
        statements, place = list[str](), self._index + 1
        while place + 2 < len(self._tokens) and self._tokens[place + 2].text == "(":
            close = self.closing(place + 2)
            if close + 1 >= len(self._tokens):
                break
            if self._tokens[place].text.lower() in self.names_between(place + 2, close):
                break
            inner = self.sql[self._tokens[place + 3].start : self._tokens[close].start].strip()
            statements.append(f"CREATE STREAM {self._tokens[place].text} AS {inner}")
            place = close + 1
            if self._tokens[place].text != ",":
                statements.append(self.sql[self._tokens[place].start : self._tokens[-1].end + 1])
                break
            place += 1
        text = "; ".join(statements)
        if len(statements) < 2 or len(text) > 2 * LONGEST or "\n" in text:
            text = "CREATE STREAM t AS SELECT ...; SELECT ... FROM t"
        self.fail("WITH is not supported", f"Name what it names first: {text};")

    # -- sub-queries in expressions ---------------------------------------------------------

    def _parse_select(self, *args: object, **options: object) -> exp.Expr | None:
        """Refuse a query inside an expression."""
        if self._match_set(QUERY_START, advance=False):
            self.no_sub_query()
        return None

    def no_sub_query(self) -> NoReturn:
        """Refuse the query that starts here, inside an expression."""
        before = [
            token.text.upper() for token in self._tokens[max(0, self._index - 3) : self._index]
        ]
        word = before[-2] if len(before) > 1 and before[-1] == "(" else ""
        inner = self.inner_query()
        if word == "EXISTS":
            self.no_exists(inner, negated=before[0] == "NOT" and len(before) == 3)
        if word in ("ANY", "SOME"):
            self.fail(
                f"{word} (SELECT ...) is not supported",
                f"{self.joined_instead('SEMI', inner, '...')} ON has the comparison.",
            )
        if word == "ALL":
            self.fail(
                "ALL (SELECT ...) is not supported",
                f"{self.joined_instead('ANTI', inner, '...')} ON has the opposite comparison.",
            )
        after = self.closing(self._index - 1)
        text, name = self.inner_value()
        outer = self.stream_after(after) if self.reading is None else self.reading.stream.text
        self.fail(
            "a sub-query is not supported",
            f"Name it first, CREATE STREAM sub AS {text}; join its last row, "
            f"FROM {outer} [NOW] JOIN sub [ROWS 1] ON TRUE (no windows for streams that end); and "
            f"write sub.{name} where the sub-query stands.",
        )

    def no_exists(self, inner: SelectClause | None, negated: bool) -> NoReturn:
        """Refuse ``[NOT] EXISTS (SELECT …)``."""
        on = "TRUE"
        if inner is None:
            on = "..."
        elif inner.where is not None:
            on = self.text_of(inner.where)
        kind = "ANTI" if negated else "SEMI"
        place = self._index - (3 if negated else 2)
        at = (self._tokens[place].start, self._tokens[self._index - 2].end + 1)
        self.fail(
            f"{'NOT ' if negated else ''}EXISTS (SELECT ...) is not supported",
            self.joined_instead(kind, inner, on),
            at,
        )

    def no_in_query(self, this: exp.Expr | None) -> NoReturn:
        """Refuse ``x [NOT] IN (SELECT …)``, after its parenthesis."""
        inner = self.inner_query()
        start = self._index - 2
        first = self.first_token(this)
        negated = self._tokens[start - 1].text.upper() == "NOT"
        start -= negated
        negated = negated or (first > 0 and self._tokens[first - 1].text.upper() == "NOT")
        lefts = list(this.expressions) if isinstance(this, exp.Tuple) else [this]
        left, right, on = self.column_text(lefts[0], self.reading), "its column", "..."
        if inner is not None and len(inner.items) == len(lefts):
            other = self.other_name(inner)
            rights = [self.column_text(i.value, inner.left, other) for i in inner.items]
            # In a join a bare column may be that of any stream.
            owner = None if self.joining else self.reading
            on = self.equal([self.column_text(one, owner) for one in lefts], rights)
            right = rights[0]
            if inner.where is not None:
                where = self.text_of(inner.where)
                on += f" AND ({where})" if isinstance(inner.where, exp.Or) else f" AND {where}"
        remedy = self.joined_instead("ANTI" if negated else "SEMI", inner, on)
        if negated:
            remedy += (
                f" It passes over NULLs of {right}, with one of which NOT IN gives no row; add "
                f"WHERE {left} IS NOT NULL to leave those out as NOT IN does."
            )
        at = (self._tokens[start].start, self._tokens[self._index - 2].end + 1)
        self.fail(f"{'NOT ' if negated else ''}IN (SELECT ...) is not supported", remedy, at)

    def no_set_operation(self, items: tuple[Item, ...], left: StreamReference) -> NoReturn:
        """Refuse INTERSECT, EXCEPT and MINUS between two selects."""
        word, at = self._curr.text.upper(), token_span(self._curr)
        self._advance()
        if self._curr and self._curr.text.upper() in ("ALL", "DISTINCT"):
            self._advance()
        inner = self.inner_query()
        on = "..."
        if inner is not None and len(inner.items) == len(items):
            other = self.other_name(inner)
            on = self.equal(
                [self.column_text(item.value, left) for item in items],
                [self.column_text(item.value, inner.left, other) for item in inner.items],
            )
        remedy = self.joined_instead("SEMI" if word == "INTERSECT" else "ANTI", inner, on)
        self.fail(f"{word} is not supported", f"{remedy} It keeps rows that occur twice.", at)

    def joined_instead(self, kind: str, inner: SelectClause | None, on: str) -> str:
        """The remedy: a semi or anti join of the stream read with the inner one."""
        outer = f"{self.stream_after(self.closing(self._index - 1))} [ROWS 1000]"
        outer = outer if self.reading is None else self.windowed(self.reading)
        right, named = "S [ROWS 1000]", ""
        direct = self.joining and inner is not None and not self.has_special_join()
        if self.joining and not direct:
            named = "Name the join first, CREATE STREAM j AS SELECT ... JOIN .... "
            outer, on = "j [ROWS 1000]", "..."
        if inner is None and self._tokens[self._index - 1].text == "(":
            named += f"Name the sub-query first, CREATE STREAM sub AS {self.inner_text()}. "
            right, on = "sub [ROWS 1000]", "..."
        elif inner is not None:
            right = self.windowed(inner.left, self.other_name(inner))
        remedy = (
            f"{named}Write FROM {outer} {kind} JOIN {right} ON {on}, with the windows you need "
            "(none for streams that end)."
        )
        if direct:
            remedy = (
                f"Write {kind} JOIN {right} ON {on} after the other joins, with the window you "
                "need (none for streams that end)."
            )
        if self.reading is None:
            return f"{remedy} {IN_LIST}"
        return f"{remedy} {BESIDE_OR}" if self.stands_beside_or() else remedy

    def has_special_join(self) -> bool:
        """Whether a join of the query is none that any join can follow."""
        words = {token.text.upper() for token in self._tokens}
        return not words.isdisjoint({"LEFT", "RIGHT", "FULL", "SEMI", "ANTI"})

    def stands_beside_or(self) -> bool:
        """Whether the query has an OR outside the sub-query that starts here."""
        close = self.closing(self._index - 1)
        outside = self._tokens[: self._index] + self._tokens[close:]
        return any(token.token_type == TokenType.OR for token in outside)

    def equal(self, lefts: Sequence[str], rights: Sequence[str]) -> str:
        """The condition that columns are equal, pairwise."""
        return " AND ".join(f"{a} = {b}" for a, b in zip(lefts, rights, strict=True))

    def other_name(self, inner: SelectClause | None) -> str:
        """The alias that the inner stream needs beside the outer one; empty if it needs none."""
        if inner is None or self.reading is None:
            return ""
        same = inner.left.alias.text.lower() == self.reading.alias.text.lower()
        return "other" if same else ""

    def windowed(self, reference: StreamReference, alias: str = "") -> str:
        """The stream as written in the FROM of a join: with its window and alias."""
        window = " [ROWS 1000]"
        if reference.window is not None:
            window = f" {self.sql[slice(*reference.window.at)]}"
        alias = alias or ("" if reference.alias == reference.stream else reference.alias.text)
        return f"{reference.stream.text}{window}{f' AS {alias}' if alias else ''}"

    def column_text(
        self, node: exp.Expr | None, owner: StreamReference | None, alias: str = ""
    ) -> str:
        """The expression as text; a bare column gets the name of its stream."""
        if node is None:
            return "..."
        if isinstance(node, exp.Column) and not node.table and owner is not None:
            return f"{alias or owner.alias.text}.{node.name}"
        return self.text_of(node)

    def inner_query(self) -> SelectClause | None:
        """The query that starts here, if it only selects from a stream; consumes nothing."""
        place, outer = self._index, (self.reading, self.joining)
        try:
            found = self.select()
            ended = not self._curr or self._match(TokenType.R_PAREN, advance=False)
            aggregates = any(has_aggregate(item.value) for item in found.items)
            plain = not (found.joins or found.group or found.having or aggregates)
            return found if ended and plain else None
        except SqlError:
            return None
        finally:
            self._retreat(place)
            self.reading, self.joining = outer

    def inner_text(self) -> str:
        """The text of the query that starts here, up to its closing parenthesis."""
        close = self.closing(self._index - 1)
        return self.quotable(self._curr.start, self._tokens[close].start) or "SELECT ..."

    def inner_value(self) -> tuple[str, str]:
        """The text of the query that starts here with an alias for its column, and that alias."""
        used = self.names_between(0, len(self._tokens))
        name = next(name for name in ("v", "value", "sub_value", "...") if name not in used)
        place, outer = self._index, (self.reading, self.joining)
        try:
            items = self.select().items
        except SqlError:
            items = ()
        finally:
            self._retreat(place)
            self.reading, self.joining = outer
        text = self.inner_text()
        if len(items) != 1 or text == "SELECT ...":
            return f"SELECT ... AS {name} FROM ...", name
        if items[0].alias is not None:
            return text, items[0].alias.text
        end = span(items[0].value)[1] - self._curr.start
        return f"{text[:end]} AS {name}{text[end:]}", name

    def names_between(self, start: int, end: int) -> set[str]:
        """The names between two tokens, in lower case, which a new stream cannot have."""
        tokens = self._tokens[start:end]
        return {token.text.lower() for token in tokens if token.token_type in NAMES}

    # -- text -------------------------------------------------------------------------------

    def closing(self, place: int) -> int:
        """The index of the token that closes the parenthesis at a token, or of the last token."""
        depth = 0
        for index in range(place, len(self._tokens)):
            kind = self._tokens[index].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                return index
        return len(self._tokens) - 1

    def quotable(self, start: int, end: int) -> str:
        """A piece of the text for a remedy to quote, if it is short and on one line; else empty."""
        text = self.sql[start:end].strip()
        return text if len(text) <= LONGEST and "\n" not in text else ""

    def text_of(self, node: exp.Expr) -> str:
        """The text of the expression."""
        start, end = span(node)
        return self.quotable(start, end) or "..."

    def first_token(self, node: exp.Expr | None) -> int:
        """The index of the expression's first token; 0 if it is not known."""
        start = -1 if node is None else span(node)[0]
        return next((n for n, token in enumerate(self._tokens) if token.start == start), 0)


_TABLE_WORDS = ("TABLE", "TUMBLE", "HOP", "CUMULATE", "SESSION", "(", ",", "DATA", "=", ">")


def _is_bare(token: Token) -> bool:
    """Whether the token is a word or a symbol, not a quoted name or a string."""
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
