"""Which columns an expression can name, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.dialect import Span, span
from penstock.sql.expressions import Column, Expression
from penstock.sql.window_examples import sliding_example
from penstock.streams.schema import Stream

Names = Mapping[str, tuple[Expression, ...]]
"""What names without a stream stand for, by the name in lower case: one thing, or it is unclear."""

RESULTS = 2
"""The side of columns that are aggregates, or borders of a window (numbered -2 and -1)."""

PSEUDO_COLUMNS = ("window_start", "window_end")

AGGREGATED_JOIN = (
    "Name the join first and aggregate its rows: CREATE STREAM j AS SELECT ... JOIN ...; "
    "SELECT COUNT(*) FROM j [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]."
)

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
"""Where no aggregate can stand, and what to write instead."""


@dataclass(frozen=True)
class Input:
    """A stream of FROM, by the name it has in the query; ``joined`` if it is not alone there."""

    alias: str
    stream: Stream
    side: int
    joined: bool = False

    def column(self, index: int) -> Column:
        """Its column at that place."""
        field = self.stream.schema.field(index)
        return Column(self.side, index, field.name, field.type, self.alias if self.joined else "")

    def columns(self) -> Iterator[Column]:
        """All its columns, in order."""
        return map(self.column, range(len(self.stream.schema)))


@dataclass(frozen=True)
class Scope:
    """The inputs that can be named at some place of the query.

    ``hidden`` are inputs of the query that cannot be named there: the right side of a semi or anti
    join, outside ON. ``first`` are names that go before the columns of the inputs, ``last`` those
    that come after them. ``aggregate`` binds an aggregate, where one may stand; ``clause`` says
    where that is not so, as in :data:`NO_AGGREGATE`. ``windowed``: the query has windows that
    slide.
    """

    source: str
    inputs: tuple[Input, ...]
    hidden: tuple[Input, ...] = ()
    first: Names = field(default_factory=dict)
    last: Names = field(default_factory=dict)
    aggregate: Callable[[exp.Expr], Expression] | None = None
    clause: str = "in an aggregate"
    windowed: bool = False

    def fail(self, at: Span, what: str, remedy: str) -> SqlError:
        """An error at a place of the query's text."""
        return SqlError.at(self.source, *at, what, remedy)

    def text(self, node: exp.Expr) -> str:
        """The node as it was written."""
        start, end = span(node)
        return self.source[start:end]

    def input_named(self, alias: str, at: Span) -> Input:
        """The input of that name, or an error."""
        for candidate in self.inputs:
            if candidate.alias.lower() == alias.lower():
                return candidate
        for candidate in self.hidden:
            if candidate.alias.lower() == alias.lower():
                raise self.fail(
                    at,
                    f"{candidate.alias} can be named in ON only",
                    "A semi or anti join gives out columns of its left stream alone; write JOIN "
                    "for columns of both.",
                )
        names = " or ".join(candidate.alias for candidate in self.inputs)
        raise self.fail(at, f"unknown stream '{alias}'", f"Write {names}.")

    def resolve(self, node: exp.Column) -> Expression:
        """The column that ``x`` or ``r.x`` names, or what has that name in the select list."""
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
        """What the name stands for, if that is one thing."""
        if len(meant) > 1:
            raise self.fail(
                at,
                f"ambiguous name '{name}': {len(meant)} columns of the result have it",
                "Write the position of the one that is meant, or name it with AS.",
            )
        return meant[0]

    def unknown(self, at: Span, name: str, inputs: tuple[Input, ...]) -> SqlError:
        """The error for a column that none of the inputs has."""
        if name.lower() in PSEUDO_COLUMNS:
            return self.no_window(at, name)
        for candidate in self.hidden if inputs == self.inputs else ():
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
        return self.fail(at, f"unknown column '{name}'{of}", remedy)

    def no_window(self, at: Span, name: str) -> SqlError:
        """The error for a window's border where there is none, or none yet."""
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
        """The columns that ``*`` or ``r.*`` stands for."""
        if isinstance(node, exp.Column):
            return list(self.input_named(node.table, span(node)).columns())
        return [column for candidate in self.inputs for column in candidate.columns()]
