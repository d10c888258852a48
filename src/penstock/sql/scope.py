"""Which columns an expression can name, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.dialect import Span, span
from penstock.sql.expressions import Column
from penstock.streams.schema import Stream


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
    join, outside ON.
    """

    source: str
    inputs: tuple[Input, ...]
    hidden: tuple[Input, ...] = ()

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

    def resolve(self, node: exp.Column) -> Column:
        """The column that ``x`` or ``r.x`` names."""
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
        found = [
            (candidate, index)
            for candidate in self.inputs
            if (index := candidate.stream.index_of(name)) is not None
        ]
        if not found:
            raise self.unknown(at, name, self.inputs)
        if len(found) > 1:
            choices = " or ".join(f"{candidate.alias}.{name}" for candidate, _ in found)
            raise self.fail(at, f"ambiguous column '{name}'", f"Write {choices}.")
        owner, index = found[0]
        return owner.column(index)

    def unknown(self, at: Span, name: str, inputs: tuple[Input, ...]) -> SqlError:
        """The error for a column that none of the inputs has."""
        for candidate in self.hidden if inputs == self.inputs else ():
            if candidate.stream.index_of(name) is not None:
                self.input_named(candidate.alias, at)
        names = [
            (field.name if len(self.inputs) == 1 else f"{candidate.alias}.{field.name}", field.name)
            for candidate in inputs
            for field in candidate.stream.schema
        ]
        close = get_close_matches(name.lower(), [short.lower() for _, short in names], 3)
        near = [full for full, short in names if short.lower() in close]
        of = f" of {inputs[0].alias}" if len(inputs) == 1 else ""
        remedy = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else f"The columns are {', '.join(full for full, _ in names)}."
        )
        return self.fail(at, f"unknown column '{name}'{of}", remedy)

    def star(self, node: exp.Expr) -> list[Column]:
        """The columns that ``*`` or ``r.*`` stands for."""
        if isinstance(node, exp.Column):
            return list(self.input_named(node.table, span(node)).columns())
        return [column for candidate in self.inputs for column in candidate.columns()]
