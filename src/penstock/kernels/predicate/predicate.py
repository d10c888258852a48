"""A join predicate as kernels need it: keys of each side, and a condition over them.

An operand that depends on one side only is a *key*, computed once per tuple. What remains inside
the kernel's loop are comparisons of keys, sums and differences of numbers of both sides, and the
logic between them. The condition has no NOT and no NULL: a node is either certainly true for a pair
or not, which is all that a join needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.kernels.compiled import Loader, load
from penstock.sql.expressions import (
    COMPARISONS,
    TRUE,
    Call,
    Cast,
    Expression,
    Literal,
    sides,
)

NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


@dataclass(frozen=True)
class Key:
    """A column that a kernel reads. ``kind``: compare, code, native or truth."""

    side: int
    kind: str
    expression: Expression


@dataclass(frozen=True)
class KeyOperand:
    """The key of that number on that side."""

    side: int
    index: int


@dataclass(frozen=True)
class Constant:
    """The constant of that number."""

    index: int


@dataclass(frozen=True)
class ComputedNumber:
    """A number computed from numbers of both sides: add, sub, mul, neg, abs, widen."""

    op: str
    args: tuple[Operand, ...]
    type: pa.DataType


Operand = KeyOperand | Constant | ComputedNumber


@dataclass(frozen=True)
class Comparison:
    """True if both operands are known and compare so. ``floating``: NaN needs care."""

    op: str
    left: Operand
    right: Operand
    floating: bool = False


@dataclass(frozen=True)
class Truth:
    """True if the boolean key is known to be ``value``."""

    operand: KeyOperand
    value: bool


@dataclass(frozen=True)
class Both:
    """All of them."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True)
class Either:
    """At least one of them; with no terms, never true."""

    terms: tuple[Condition, ...]


Condition = Comparison | Truth | Both | Either


@dataclass
class Predicate:
    """The keys of each side, the constants, and the condition over them."""

    keys: tuple[list[Key], list[Key]] = field(default_factory=lambda: ([], []))
    constants: list[Literal] = field(default_factory=list)
    condition: Condition = Both(())
    load: Loader = load
    """How the source of its kernels becomes functions."""
    _kernels: dict[Hashable, Callable[..., Any]] = field(default_factory=dict)
    """The loaded kernels, by purpose."""
    _places: dict[Key, int] = field(default_factory=dict)
    """The index of each key among those of its side."""

    @classmethod
    def of(cls, expression: Expression, load: Loader = load) -> Predicate:
        """The predicate of a boolean expression for which ``compiles`` is true."""
        predicate = cls(load=load)
        if expression != TRUE:
            predicate.condition = predicate._condition(expression, positive=True)
        return predicate

    def kernel(self, purpose: Hashable, source: Callable[[], str]) -> Callable[..., Any]:
        """The kernel for a purpose, loaded when it is first asked for."""
        known = self._kernels.get(purpose)
        if known is None:
            known = self._kernels[purpose] = self.load(source())
        return known

    def _condition(self, expression: Expression, positive: bool) -> Condition:
        if len(sides(expression)) < 2:
            side = max(sides(expression), default=0)
            return Truth(self._key(side, "truth", expression), positive)
        if not isinstance(expression, Call):
            raise TypeError(f"not a compiled condition: {expression}")
        if expression.op == "not":
            return self._condition(expression.args[0], not positive)
        if expression.op in ("and", "or"):
            parts = [self._condition(arg, positive) for arg in expression.args]
            kind = Both if (expression.op == "and") == positive else Either
            return kind(tuple(t for p in parts for t in (p.terms if type(p) is kind else (p,))))
        if expression.op == "in":
            subject, *items = expression.args
            terms = tuple(
                self._condition(Call("eq", (subject, item), pa.bool_()), positive) for item in items
            )
            return Either(terms) if positive else Both(terms)
        if expression.op in COMPARISONS:
            return self._comparison(expression, positive)
        raise TypeError(f"not a compiled condition: {expression}")

    def _comparison(self, call: Call, positive: bool) -> Condition:
        op = call.op if positive else NEGATED[call.op]
        left, right = call.args
        if any(len(sides(arg)) == 2 for arg in call.args):
            if any(isinstance(a, Literal) and a.value is None for a in call.args):
                return Either(())
            floating = pa.types.is_floating(left.type)
            return Comparison(op, self._operand(left), self._operand(right), floating)
        text = pa.types.is_string(left.type) or pa.types.is_binary(left.type)
        kind = "code" if text else "compare"
        operands = [self._key(max(sides(arg)), kind, arg) for arg in (left, right)]
        return Comparison(op, operands[0], operands[1])

    def _operand(self, expression: Expression) -> Operand:
        used = sides(expression)
        if len(used) == 1:
            return self._key(max(used), "native", expression)
        if isinstance(expression, Literal) and expression.value is not None:
            self.constants.append(expression)
            return Constant(len(self.constants) - 1)
        if not used:
            # A computed constant, or NULL, is treated as a column of the left side.
            return self._key(0, "native", expression)
        if isinstance(expression, Cast):
            return ComputedNumber("widen", (self._operand(expression.arg),), expression.type)
        if not isinstance(expression, Call):
            raise TypeError(f"not a compiled operand: {expression}")
        op = "sub" if expression.op == "sub_times" else expression.op
        return ComputedNumber(op, tuple(map(self._operand, expression.args)), expression.type)

    def _key(self, side: int, kind: str, expression: Expression) -> KeyOperand:
        key, keys = Key(side, kind, expression), self.keys[side]
        place = self._places.setdefault(key, len(keys))
        if place == len(keys):
            keys.append(key)
        return KeyOperand(side, place)


def has_arithmetic(condition: Condition) -> bool:
    """Whether the loop computes anything besides comparisons."""
    if isinstance(condition, Comparison):
        return isinstance(condition.left, ComputedNumber) or isinstance(
            condition.right, ComputedNumber
        )
    if isinstance(condition, Both | Either):
        return any(map(has_arithmetic, condition.terms))
    return False
