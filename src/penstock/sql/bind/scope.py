"""Scopes: the columns that an expression can name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.bind.window_examples import name_text, sliding_example
from penstock.sql.expressions import Column, Expression
from penstock.sql.parse.dialect import Span, span
from penstock.sql.parse.foreign_functions import CLOCKS, NO_CLOCK
from penstock.streams.schema import Stream, type_name

Names = Mapping[str, tuple[Expression, ...]]
"""Meanings of names without a stream, by the name in lower case; a name with several is ambiguous.
"""

RESULTS = -1
"""The side of columns that are aggregates, or borders of a window (numbered -2 and -1)."""

NO_PARAMETERS = "Write the value itself into the text, a string in quotes: 'text'."

PSEUDO_COLUMNS = ("window_start", "window_end")

AGGREGATED_JOIN = (
    "Name the join first and aggregate its rows: CREATE STREAM j AS SELECT ... JOIN ...; "
    "SELECT COUNT(*) FROM j [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]."
)
AGGREGATED_COUNTS = AGGREGATED_JOIN.replace(
    "[RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]", "[ROWS 1000 SLIDE 100]"
)
"""The same for a join without time windows, whose rows may have no time."""

NO_AGGREGATE = {
    "in WHERE": "WHERE chooses tuples before they are aggregated; write HAVING for a condition on "
    "aggregates.",
    "in ON": "Aggregate first, CREATE STREAM t AS SELECT ..., and join t.",
    "in GROUP BY": "Group by expressions of columns alone.",
    "in FILTER": "FILTER chooses the tuples of one aggregate; write a condition on columns.",
    "in an aggregate": "Aggregate in two steps: CREATE STREAM t AS SELECT with the inner one, and "
    "read t.",
    "in ORDER BY after UNION ALL": "Select it in every branch, and order by its name.",
}
"""Places where no aggregate is allowed, and what to write instead."""


@dataclass(frozen=True)
class Input:
    """A stream of FROM under its name in the query; ``joined`` if FROM has a join."""

    alias: str
    stream: Stream
    side: int
    joined: bool = False

    def column(self, index: int) -> Column:
        """The column at this index."""
        field = self.stream.schema.field(index)
        return Column(self.side, index, field.name, field.type, self.alias if self.joined else "")

    def columns(self) -> Iterator[Column]:
        """All columns, in order."""
        return map(self.column, range(len(self.stream.schema)))


@dataclass(frozen=True)
class Scope:
    """The inputs that can be named at some place of the query.

    ``hidden`` are inputs that cannot be named there: the right side of a semi or anti join, outside
    its own ON. ``later`` are those that stand to the right of an ON, which it cannot name.
    ``first`` are names that take precedence over the columns of the inputs, ``last`` those that
    come after them. ``aggregate`` binds an aggregate, if one is allowed; otherwise ``clause`` is
    the key of the place in :data:`NO_AGGREGATE`. ``windowed``: the query has sliding windows.
    ``named`` are names of the select list, in lower case, which cannot be used there.
    """

    source: str
    inputs: tuple[Input, ...]
    hidden: tuple[Input, ...] = ()
    later: tuple[Input, ...] = ()
    first: Names = field(default_factory=dict)
    last: Names = field(default_factory=dict)
    aggregate: Callable[[exp.Expr], Expression] | None = None
    clause: str = "in an aggregate"
    windowed: bool = False
    named: frozenset[str] = frozenset()

    def fail(self, at: Span, what: str, remedy: str) -> SqlError:
        """An error at a place of the query's text."""
        return SqlError.at(self.source, *at, what, remedy)

    def text(self, node: exp.Expr) -> str:
        """The text of the node."""
        start, end = span(node)
        return self.source[start:end]

    def input_named(self, alias: str, at: Span) -> Input:
        """The input of this name, or an error."""
        for candidate in self.inputs:
            if candidate.alias.lower() == alias.lower():
                return candidate
        for candidate in self.hidden:
            if candidate.alias.lower() == alias.lower():
                own = "its own " if self.clause == "in ON" else ""
                raise self.fail(
                    at,
                    f"{candidate.alias} can be named in {own}ON only",
                    "A semi or anti join gives out columns of its left stream alone; write JOIN "
                    "for columns of both.",
                )
        for candidate in self.later:
            if candidate.alias.lower() == alias.lower():
                raise self.fail(
                    at,
                    f"{candidate.alias} is joined further right, and this ON cannot name it yet",
                    f"Write the condition in the ON of {candidate.alias}, or in WHERE.",
                )
        names = " or ".join(candidate.alias for candidate in self.inputs)
        raise self.fail(at, f"FROM has no stream or alias '{alias}'", f"Write {names}.")

    def resolve(self, node: exp.Column) -> Expression:
        """The column that ``x`` or ``r.x`` names, or the item of the select list with that name."""
        at, name = span(node), node.name
        if node.args.get("db") is not None:
            raise self.fail(
                at, f"'{self.text(node)}' has too many parts", "Write column or stream.column."
            )
        if node.table:
            owner = self.input_named(node.table, at)
            index = owner.stream.index_of(name)
            if index is None:
                raise self.unknown(at, name, (owner,))
            return owner.column(index)
        if name.lower() in self.first:
            return self.known(name, self.first[name.lower()], at)
        found = [
            (candidate, index)
            for candidate in self.inputs
            if (index := candidate.stream.index_of(name)) is not None
        ]
        if not found and name.lower() in self.last:
            return self.known(name, self.last[name.lower()], at)
        if not found:
            raise self.unknown(at, name, self.inputs)
        if len(found) > 1:
            choices = " or ".join(f"{candidate.alias}.{name}" for candidate, _ in found)
            raise self.fail(at, f"ambiguous column '{name}'", f"Write {choices}.")
        owner, index = found[0]
        return owner.column(index)

    def known(self, name: str, meant: tuple[Expression, ...], at: Span) -> Expression:
        """The meaning of a name; an error if it is ambiguous."""
        if len(meant) > 1:
            raise self.fail(
                at,
                f"ambiguous name '{name}': {len(meant)} columns of the result have it",
                "Write the position of the one that is meant, or name it with AS.",
            )
        return meant[0]

    def unknown(self, at: Span, name: str, inputs: tuple[Input, ...]) -> SqlError:
        """The error for a column that no input has."""
        if name.lower() in PSEUDO_COLUMNS:
            return self.no_window(at, name)
        if name.upper() in CLOCKS:
            return self.fail(at, f"{name.upper()} is not supported", NO_CLOCK)
        for owner in inputs:
            for left_out, why in owner.stream.left_out:
                if left_out.lower() == name.lower():
                    return self.fail(
                        at,
                        f"column '{left_out}' of {owner.alias} {why}",
                        _declaration(owner.stream, left_out)
                        or "Leave it out of the query, or give it a type that Penstock has: cast "
                        "it before, or declare the stream.",
                    )
        if name.lower() in self.named:
            return self.fail(
                at,
                f"unknown column '{name}': the select list names it, after {self.clause[3:]}",
                "Write the expression itself, or for a condition on aggregates HAVING.",
            )
        if name.startswith("$"):
            return self.fail(at, f"the parameter {name} is not supported", NO_PARAMETERS)
        for candidate in (*self.hidden, *self.later) if inputs == self.inputs else ():
            if candidate.stream.index_of(name) is not None:
                self.input_named(candidate.alias, at)
        names = [
            (field.name if len(self.inputs) == 1 else f"{candidate.alias}.{field.name}", field.name)
            for candidate in inputs
            for field in candidate.stream.schema
        ]
        if inputs == self.inputs:
            names += [(name, name) for name in {**self.first, **self.last} if name.isidentifier()]
        close = get_close_matches(name.lower(), [short.lower() for _, short in names], 3)
        near = [full for full, short in names if short.lower() in close]
        of = f" of {inputs[0].alias}" if len(inputs) == 1 else ""
        remedy = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else f"The columns are {', '.join(full for full, _ in names)}."
        )
        if not near and self.source[at[0]] == '"' and "'" not in name:
            remedy = f"Write '{name}' for a text; what stands in double quotes is a name."
        return self.fail(at, f"unknown column '{name}'{of}", remedy)

    def no_window(self, at: Span, name: str) -> SqlError:
        """The error for a window's border where there is no window, or none yet."""
        if self.windowed:
            return self.fail(
                at,
                f"{name} {self.clause}, where the tuple is in no window yet",
                "Write it in the select list, in HAVING or in ORDER BY.",
            )
        remedy = "Aggregate a stream by windows: FROM R [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]."
        if self.inputs and self.inputs[0].joined:
            remedy = AGGREGATED_JOIN
        elif self.inputs:
            example = sliding_example(self.inputs[0].stream)
            remedy = f"Aggregate, and write SLIDE in the window clause: FROM {example}."
        return self.fail(at, f"{name} without windows that slide", remedy)

    def star(self, node: exp.Expr) -> list[Column]:
        """The columns of ``*`` or ``r.*``."""
        owners = self.inputs
        if isinstance(node, exp.Column):
            owners = (self.input_named(node.table, span(node)),)
        for owner in owners:
            for name, why in owner.stream.left_out:
                raise self.fail(
                    span(node),
                    f"* stands for all columns, and column '{name}' of {owner.alias} {why}",
                    _declaration(owner.stream, name)
                    or f"Name those that are wanted: {', '.join(owner.stream.schema.names)}.",
                )
        return [column for owner in owners for column in owner.columns()]


def _declaration(stream: Stream, column: str) -> str:
    """The remedy for a column whose values have several types; empty for others."""
    usual = dict(stream.usual)
    if column not in usual:
        return ""
    types = {**{field.name: type_name(field.type) for field in stream.schema}, **usual}
    columns = ", ".join(f"{name_text(name)} {kind}" for name, kind in types.items())
    return (
        "Declare the stream before the query, with one type for each column; what has another is "
        f"a dead letter then: CREATE STREAM {name_text(stream.name)} ({columns});"
    )
