"""Conditions in clauses: a conjunction of disjunctions of comparisons.

Selections in words are of this form, and so are the conditions that are evaluated segment by
segment: a clause holds if one of its comparisons does, in whichever segment, and a tuple passes if
all clauses hold. ``AND`` and ``OR`` of SQL distribute over each other, unknown values included, so
that a disjunction of conjunctions is in clauses too, if it does not grow beyond bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from penstock.program.isa.words.codes import FLIPPED
from penstock.sql.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    chain,
    children,
    conjunction,
)

MOST_DISTRIBUTED = 32
"""The comparisons that a condition may have after OR was distributed over AND: it may grow, and
each is evaluated."""
MOST_LITERALS = 1 << 16
"""The terms that a condition may have which is written in clauses."""


@dataclass(frozen=True)
class Comparison:
    """``column operator constant``; the constant of ``is_null`` and ``is_not_null`` is None."""

    column: Column
    operator: str
    constant: Literal | None

    @cached_property
    def expression(self) -> Expression:
        """The comparison as SQL has it."""
        if self.constant is not None:
            return Call(self.operator, (self.column, self.constant), pa.bool_())
        null = Call("is_null", (self.column,), pa.bool_())
        return null if self.operator == "is_null" else Call("not", (null,), pa.bool_())


@dataclass(frozen=True)
class JoinComparison:
    """``column operator column``, with a column of R and one of S; ``left`` is the side before."""

    r: Column
    s: Column
    operator: str
    left: int

    @cached_property
    def expression(self) -> Expression:
        """The comparison as SQL has it."""
        args = (self.s, self.r) if self.left else (self.r, self.s)
        return Call(self.operator, args, pa.bool_())


Term = TypeVar("Term")
Clauses = tuple[tuple[Term, ...], ...]
"""All clauses have to hold; of a clause one term has to."""


def clauses_of(condition: Expression, most: int) -> Clauses[Comparison] | None:
    """The clauses of a condition; None: it has none, or more than ``most`` comparisons.

    ``x IN (1, 2)`` is a clause of two comparisons, ``25 < x`` is ``x > 25``. TRUE has no clause.

    >>> x = Column(0, 1, "x", pa.int32())
    >>> more = Call("gt", (x, Literal(5, pa.int32())), pa.bool_())
    >>> [[str(one.expression) for one in clause] for clause in clauses_of(more, 9)]
    [['(x > 5)']]
    """
    return _clauses(condition, _comparisons, most, MOST_DISTRIBUTED)


def join_clauses_of(condition: Expression, most: int) -> Clauses[JoinComparison] | None:
    """The clauses of a condition on pairs, if it is written in clauses; else None."""
    return _clauses(condition, _join_comparison, most, 0)


def literals_of(condition: Expression) -> Clauses[Expression] | None:
    """The clauses of a condition whose terms are any conditions but AND and OR, as written.

    None: it would grow beyond bounds if OR were distributed over AND.
    """
    return _clauses(condition, lambda leaf: (leaf,), MOST_LITERALS, MOST_DISTRIBUTED)


def condition_of(clauses: Clauses[Comparison] | Clauses[JoinComparison]) -> Expression:
    """The condition that has these clauses."""
    return conjunction(
        tuple(chain("or", tuple(one.expression for one in clause)) for clause in clauses)
    )


def _clauses(
    root: Expression,
    terms: Callable[[Expression], tuple[Term, ...] | None],
    most: int,
    most_distributed: int,
) -> Clauses[Term] | None:
    """From the leaves up, without recursion: an expression may be deep."""
    known: dict[int, Clauses[Term]] = {}
    waiting = [root]
    while waiting:
        node = waiting[-1]
        if isinstance(node, Call) and node.op in ("and", "or"):
            below = [one for one in children(node) if id(one) not in known]
            if below:
                waiting += reversed(below)
                continue
            parts = [known[id(one)] for one in children(node)]
            made = _all(parts) if node.op == "and" else _any(parts, most, most_distributed)
        else:
            made = _leaf(node, terms)
        if made is None or sum(map(len, made)) > most:
            return None
        known[id(node)] = made
        waiting.pop()
    return known[id(root)]


def _leaf(
    node: Expression, terms: Callable[[Expression], tuple[Term, ...] | None]
) -> Clauses[Term] | None:
    if node == TRUE:
        return ()
    found = terms(node)
    return None if found is None else (found,)


def _all(parts: list[Clauses[Term]]) -> Clauses[Term]:
    return tuple(clause for part in parts for clause in part)


def _any(parts: list[Clauses[Term]], most: int, most_distributed: int) -> Clauses[Term] | None:
    """A clause for every choice of one clause of each part."""
    made: Clauses[Term] = ((),)
    for part in parts:
        bound = most if len(made) <= 1 and len(part) <= 1 else most_distributed
        size = sum(map(len, made)) * len(part) + sum(map(len, part)) * len(made)
        if size > bound:
            return None
        made = tuple(one + other for one in made for other in part)
    return made


def _comparisons(leaf: Expression) -> tuple[Comparison, ...] | None:
    if not isinstance(leaf, Call):
        return None
    if leaf.op == "in":
        tested, *listed = leaf.args
        found = [_comparison("eq", tested, one) for one in listed]
        return tuple(one for one in found if one) if found and None not in found else None
    if leaf.op in FLIPPED:
        one, other = leaf.args
        made = _comparison(leaf.op, one, other) or _comparison(FLIPPED[leaf.op], other, one)
        return None if made is None else (made,)
    negated = leaf.op == "not"
    null = leaf.args[0] if negated else leaf
    if isinstance(null, Call) and null.op == "is_null" and isinstance(null.args[0], Column):
        return (Comparison(null.args[0], "is_not_null" if negated else "is_null", None),)
    return None


def _comparison(operator: str, column: Expression, constant: Expression) -> Comparison | None:
    if not (isinstance(column, Column) and isinstance(constant, Literal)):
        return None
    return Comparison(column, operator, constant) if column.type == constant.type else None


def _join_comparison(leaf: Expression) -> tuple[JoinComparison, ...] | None:
    if not (isinstance(leaf, Call) and leaf.op in FLIPPED):
        return None
    one, other = leaf.args
    if not (isinstance(one, Column) and isinstance(other, Column)) or one.type != other.type:
        return None
    if (one.side, other.side) not in ((0, 1), (1, 0)):
        return None
    r, s = (one, other) if one.side == 0 else (other, one)
    return (JoinComparison(r, s, leaf.op, one.side),)
