"""A condition as sets of values: for each expression that it compares with constants, one set.

Why the sets say what the condition says. A comparison of an expression with a constant is true for
one set of its values, false for another, and unknown for the rest, where NULL is a value too. NOT
exchanges the two sets; AND is true where all its arguments are, and false where any is; OR is the
opposite. So anything that AND, OR and NOT make of comparisons of *one* expression has a set of
values for which it is true. A condition on several expressions is a conjunction of such sets, or
there is none; NOT in front of an OR makes a conjunction too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.vector import (
    PLAIN_TYPES,
    SMALL_DECIMAL,
    constant_vector,
    is_text,
)
from penstock.sql.expressions import COMPARISONS, Call, Column, Expression, Literal

BEFORE, AFTER, LOWEST, HIGHEST, BEFORE_NULL, AFTER_NULL = range(6)
"""Kinds of ends: before and after a constant; before and after all values; those of NULL."""

Key = Any
"""A constant as Python sorts it: its physical value; of a float, first whether it is NaN."""


class Cut(NamedTuple):
    """A place in the order of values: before a constant, or after it."""

    key: Key
    kind: int


@dataclass(frozen=True)
class ValueSet:
    """Some of the values that an expression can have.

    Parameters
    ----------
    lowest
        Whether the lowest values are among them.
    cuts
        Where, in the order of the values, they begin or end.
    null
        Whether NULL is among them.
    """

    lowest: bool
    cuts: tuple[Cut, ...]
    null: bool = False

    @property
    def highest(self) -> bool:
        """Whether the highest values are among them."""
        return self.lowest != bool(len(self.cuts) % 2)

    @property
    def width(self) -> tuple[bool, int]:
        """What sets of few values have less of: open ends first, then intervals."""
        return self.lowest or self.highest or self.null, len(self.cuts)

    def ends(self) -> Iterator[tuple[Key | None, int]]:
        """The ends of its intervals, two by two."""
        if self.lowest:
            yield None, LOWEST
        yield from self.cuts
        if self.highest:
            yield None, HIGHEST
        if self.null:
            yield None, BEFORE_NULL
            yield None, AFTER_NULL


NOTHING = ValueSet(False, ())
NULL = ValueSet(False, (), True)
NOT_NULL = ValueSet(True, ())


class TruthSets(NamedTuple):
    """For which values of an expression a condition is true, and for which it is false.

    ``times``: how often the condition evaluates the expression.
    """

    expression: Expression
    true: ValueSet
    false: ValueSet
    times: int


class Term(NamedTuple):
    """An expression, the values of it that satisfy a condition, and how often that evaluates it."""

    expression: Expression
    values: ValueSet
    times: int


def terms_of(condition: Expression) -> tuple[Term, ...] | None:
    """The sets whose conjunction a condition is, one for each expression; None if it is not that.

    >>> x = Column(0, 0, "x", pa.int64())
    >>> over, under = (Call(op, (x, Literal(5, x.type)), pa.bool_()) for op in ("gt", "lt"))
    >>> [term] = terms_of(Call("or", (over, under), pa.bool_()))
    >>> [(cut.key, cut.kind == AFTER) for cut in term.values.cuts], term.values.lowest
    ([(5, False), (5, True)], True)
    """
    found: dict[Expression, Term] = {}
    for truth, negated in _conjuncts(condition, False):
        if truth is None:
            return None
        expression, values = truth.expression, truth.false if negated else truth.true
        known = found.get(expression)
        found[expression] = Term(
            expression,
            values if known is None else _both(known.values, values),
            truth.times + (0 if known is None else known.times),
        )
    return tuple(found.values())


def _conjuncts(condition: Expression, negated: bool) -> Iterator[tuple[TruthSets | None, bool]]:
    """The terms of a conjunction, each with whether it is negated."""
    if isinstance(condition, Call) and condition.op == "not":
        yield from _conjuncts(condition.args[0], not negated)
    elif isinstance(condition, Call) and condition.op == ("or" if negated else "and"):
        for one in condition.args:
            yield from _conjuncts(one, negated)
    else:
        yield _truth(condition), negated


def _truth(condition: Expression) -> TruthSets | None:
    """What a condition on one expression says of its values; None if it is on more, or on none."""
    if isinstance(condition, Column):  # it is boolean
        return _compared("eq", condition, Literal(True, pa.bool_()))
    if not isinstance(condition, Call):
        return None
    if condition.op in COMPARISONS:
        left, right = condition.args
        if isinstance(left, Literal):
            return _compared(_MIRRORED[condition.op], right, left)
        return _compared(condition.op, left, right)
    if condition.op == "in":
        return _in(condition.args[0], condition.args[1:])
    if condition.op == "is_null" and _is_ordered(condition.args[0]):
        return TruthSets(condition.args[0], NULL, NOT_NULL, 1)
    if condition.op not in ("and", "or", "not"):
        return None
    parts = [_truth(one) for one in condition.args]
    known = [one for one in parts if one is not None]
    if len(known) < len(parts) or len({one.expression for one in known}) > 1:
        return None
    if condition.op == "not":
        return known[0]._replace(true=known[0].false, false=known[0].true)
    true, false = (_both, _either) if condition.op == "and" else (_either, _both)
    return TruthSets(
        known[0].expression,
        reduce(true, [one.true for one in known]),
        reduce(false, [one.false for one in known]),
        sum(one.times for one in known),
    )


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _compared(op: str, expression: Expression, constant: Expression) -> TruthSets | None:
    if not isinstance(constant, Literal) or not _is_ordered(expression):
        return None
    if constant.value is None:
        return TruthSets(expression, NOTHING, NOTHING, 1)
    key = _key(constant)
    before, after = Cut(key, BEFORE), Cut(key, AFTER)
    true = {
        "eq": ValueSet(False, (before, after)),
        "ne": ValueSet(True, (before, after)),
        "lt": ValueSet(True, (before,)),
        "le": ValueSet(True, (after,)),
        "gt": ValueSet(False, (after,)),
        "ge": ValueSet(False, (before,)),
    }[op]
    return TruthSets(expression, true, _others(true), 1)


def _in(expression: Expression, choices: tuple[Expression, ...]) -> TruthSets | None:
    if not _is_ordered(expression) or not all(isinstance(one, Literal) for one in choices):
        return None
    constants = [one for one in choices if isinstance(one, Literal)]
    keys = sorted({_key(one) for one in constants if one.value is not None})
    true = ValueSet(False, tuple([Cut(key, kind) for key in keys for kind in (BEFORE, AFTER)]))
    unknown = any(one.value is None for one in constants)
    return TruthSets(expression, true, NOTHING if unknown else _others(true), 1)


def _is_ordered(expression: Expression) -> bool:
    """Whether an expression varies, and its values are numbers of up to 64 bits, or texts."""
    kind = expression.type
    if isinstance(expression, Literal):
        return False
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= SMALL_DECIMAL)
    return kind.id in PLAIN_TYPES or is_text(kind) or pa.types.is_boolean(kind)


def _key(constant: Literal) -> Key:
    """A constant as Python sorts it."""
    if is_text(constant.type):
        return constant.value
    value = constant_vector(constant.value, constant.type, 1).values[0].item()
    if not isinstance(value, float):
        return value
    return (True, 0.0) if value != value else (False, value + 0.0)


def value_of(key: Key) -> Any:
    """The physical value of a constant."""
    if not isinstance(key, tuple):
        return key
    return np.nan if key[0] else key[1]


# -- sets -----------------------------------------------------------------------------------------


def _others(values: ValueSet) -> ValueSet:
    """All other values, NULL not among them."""
    return ValueSet(not values.lowest, values.cuts)


def _both(left: ValueSet, right: ValueSet) -> ValueSet:
    return _combined(left, right, lambda one, other: one and other)


def _either(left: ValueSet, right: ValueSet) -> ValueSet:
    return _combined(left, right, lambda one, other: one or other)


def _combined(left: ValueSet, right: ValueSet, rule: Callable[[bool, bool], bool]) -> ValueSet:
    """The values that the rule takes, by whether each of two sets has them."""
    here = [left.lowest, right.lowest]
    lowest = inside = rule(*here)
    kept: list[Cut] = []
    sides = [list(left.cuts), list(right.cuts)]
    places = [0, 0]
    while any(place < len(cuts) for place, cuts in zip(places, sides, strict=True)):
        waiting = [
            cuts[place] for place, cuts in zip(places, sides, strict=True) if place < len(cuts)
        ]
        cut = min(waiting)
        for side in (0, 1):
            if places[side] < len(sides[side]) and sides[side][places[side]] == cut:
                places[side] += 1
                here[side] = not here[side]
        if rule(*here) != inside:
            inside = not inside
            kept.append(cut)
    return ValueSet(lowest, tuple(kept), rule(left.null, right.null))
