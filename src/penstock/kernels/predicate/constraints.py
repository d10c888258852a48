"""Constraints on a stored tuple's keys, given a probe's: what an index is built on.

A conjunct that compares a number of the stored side with a number of the probe bounds the stored
number from one side or both. An index uses the bound to skip tuples; it never decides a match: the
predicate is always evaluated on the candidates. So a bound may be too wide, as it is where floats
round, but never too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa

from penstock.kernels.predicate.generate import FLIPPED
from penstock.kernels.predicate.predicate import (
    Both,
    Comparison,
    ComputedNumber,
    Condition,
    Constant,
    KeyOperand,
    Operand,
    Predicate,
)

LOOSE = 1.0 + 2.0**-20
"""Differences of floats are rounded; bounds on them are widened by more than that."""


@dataclass(frozen=True)
class Constraint:
    """The stored key lies in ``[probe + low, probe + high]``; ``equal`` if it is the probe's."""

    stored: int
    probe: int
    low: float = -math.inf
    high: float = math.inf
    equal: bool = False


def constraints(predicate: Predicate, stored_side: int) -> list[Constraint]:
    """One for each conjunct that bounds a key of ``stored_side``, in the order of the predicate."""
    condition = predicate.condition
    terms = condition.terms if isinstance(condition, Both) else (condition,)
    found = [
        constraint
        for term in _flat(terms)
        if isinstance(term, Comparison)
        for constraint in _constraint(predicate, term, stored_side)
    ]
    return found


def _flat(terms: tuple[Condition, ...]) -> list[Condition]:
    return [t for term in terms for t in (_flat(term.terms) if isinstance(term, Both) else [term])]


def _constraint(predicate: Predicate, term: Comparison, stored_side: int) -> list[Constraint]:
    left, right, op = term.left, term.right, term.op
    if isinstance(left, KeyOperand) and isinstance(right, KeyOperand):
        if left.side != stored_side:
            left, right, op = right, left, FLIPPED[op]
        return [Constraint(left.index, right.index, *bound, op == "eq") for bound in _bounds(op, 0)]
    left, right = _bare(left), _bare(right)
    if isinstance(right, ComputedNumber):
        left, right, op = right, left, FLIPPED[op]
    if not isinstance(left, ComputedNumber) or not isinstance(right, Constant):
        return []
    value = predicate.constants[right.index].value
    if not isinstance(value, int | float) or math.isnan(value):
        return []
    return _of_difference(left, op, float(value), stored_side)


def _of_difference(
    left: ComputedNumber, op: str, value: float, stored_side: int
) -> list[Constraint]:
    """Bounds from ``a - b <= c`` and ``abs(a - b) <= c``."""
    wide = value * LOOSE if value >= 0 else value / LOOSE
    if left.op == "abs":
        ends = _difference(_bare(left.args[0]), stored_side)
        if ends is None or op not in ("lt", "le", "eq"):
            return []
        return [Constraint(ends[0].index, ends[1].index, -abs(wide), abs(wide))]
    ends = _difference(left, stored_side)
    if ends is None:
        return []
    if op in ("gt", "ge") and pa.types.is_floating(left.type):
        # With NaN on either side the difference is NaN, which is above every bound.
        return []
    a = left.args[0]
    if isinstance(a, KeyOperand) and a.side != stored_side:
        # p - q <= c is q - p >= -c
        op, value = FLIPPED[op], -value
    low = value * LOOSE if value < 0 else value / LOOSE
    high = value * LOOSE if value >= 0 else value / LOOSE
    pairs = {
        "lt": [(-math.inf, high)],
        "le": [(-math.inf, high)],
        "gt": [(low, math.inf)],
        "ge": [(low, math.inf)],
        "eq": [(low, high)],
    }
    return [Constraint(ends[0].index, ends[1].index, *pair) for pair in pairs.get(op, [])]


def _difference(operand: Operand, stored_side: int) -> tuple[KeyOperand, KeyOperand] | None:
    """The stored and the probing key of a difference of two keys, one of each side."""
    if not isinstance(operand, ComputedNumber) or operand.op != "sub":
        return None
    a, b = operand.args
    if not isinstance(a, KeyOperand) or not isinstance(b, KeyOperand) or a.side == b.side:
        return None
    return (a, b) if a.side == stored_side else (b, a)


def _bare(operand: Operand) -> Operand:
    """The operand without widening casts, which change no number."""
    while isinstance(operand, ComputedNumber) and operand.op == "widen":
        operand = operand.args[0]
    return operand


def _bounds(op: str, offset: float) -> list[tuple[float, float]]:
    """Where the left operand may lie, relative to the right one."""
    return {
        "eq": [(offset, offset)],
        "lt": [(-math.inf, offset)],
        "le": [(-math.inf, offset)],
        "gt": [(offset, math.inf)],
        "ge": [(offset, math.inf)],
    }.get(op, [])


@dataclass(frozen=True)
class Dimension:
    """A stored key with a lower and an upper bound, possibly from two conjuncts.

    The upper bound is on the key ``stored`` itself. The lower bound may be on another key,
    ``other``, of the same tuple (``a - 10 <= x`` and ``x <= a + 10``): then ``stored`` is at least
    the bound less the largest difference between the two that the index has seen.
    """

    stored: int
    upper: Constraint | None
    lower: Constraint | None
    other: int | None = None


def dimensions(found: list[Constraint]) -> list[Dimension]:
    """Every way to bound a stored key: from both sides where two conjuncts pair up, else from one.

    Conjuncts pair up if they compare with the same key of the probe, or bound the same stored key.
    """
    uppers = [c for c in found if c.high < math.inf]
    lowers = [c for c in found if c.low > -math.inf]
    made: list[Dimension] = []
    used: set[int] = set()
    for upper in uppers:
        same = [c for c in lowers if c is upper or c.stored == upper.stored]
        paired = same or [c for c in lowers if c.probe == upper.probe]
        if paired:
            lower = paired[0]
            other = None if lower.stored == upper.stored else lower.stored
            made.append(Dimension(upper.stored, upper, lower, other))
            used |= {id(upper), id(lower)}
    for constraint in found:
        if id(constraint) not in used:
            upper_bound = constraint if constraint.high < math.inf else None
            lower_bound = constraint if constraint.low > -math.inf else None
            made.append(Dimension(constraint.stored, upper_bound, lower_bound))
    return list(dict.fromkeys(made))
