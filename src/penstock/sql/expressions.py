"""Typed expressions: the output of the binder, read by the compiler and the oracle.

Every implicit conversion is explicit: both sides of a comparison have one type, the arguments of an
arithmetic operator have the type it computes in. ``docs/expressions.md`` defines each operator,
with NULLs, NaNs and failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """Column ``index`` of an input: side ``i`` is input ``i`` of a join, side 0 the only input.

    ``alias`` is the name of the input in the query, for display. Types are compared, but not
    hashed: Arrow makes a text of a type for that.
    """

    side: int
    index: int
    name: str
    type: pa.DataType = field(hash=False)
    alias: str = field(default="", compare=False)

    def __str__(self) -> str:
        if not self.name:  # words have none
            return f"column {self.side}.{self.index}"
        return f"{self.alias}.{self.name}" if self.alias else self.name


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant, as a physical value.

    None, bool, int, float, ``decimal.Decimal``, str or bytes; a date is the days since 1970-01-01,
    a timestamp its units since then, a duration its microseconds. Two are equal if they can stand
    for each other: 0.0 and -0.0 cannot.
    """

    value: object
    type: pa.DataType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return repr(self.value) == repr(other.value) and self.type == other.type

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class Call:
    """A call of an operator or a function, by its name in ``docs/expressions.md``."""

    op: str
    args: tuple[Expression, ...]
    type: pa.DataType = field(hash=False)

    def __str__(self) -> str:
        infix = INFIX.get(self.op)
        if self.op in ("and", "or"):
            return f"({f' {infix} '.join(map(str, _operands(self, self.op)))})"
        if infix and len(self.args) == 2:
            return f"({self.args[0]} {infix} {self.args[1]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Cast:
    """A conversion to ``type``, explicit or implicit. A value that does not fit becomes NULL."""

    arg: Expression
    type: pa.DataType = field(hash=False)

    def __str__(self) -> str:
        return f"cast({self.arg} as {self.type})"


Expression = Column | Literal | Call | Cast

INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
}
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
TRUE = Literal(True, pa.bool_())


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct arguments."""
    if isinstance(expression, Call):
        return expression.args
    return (expression.arg,) if isinstance(expression, Cast) else ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its descendants, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def rebuild(expression: Expression, replace: Callable[[Expression], Expression]) -> Expression:
    """The expression with ``replace`` applied to each direct argument."""
    if isinstance(expression, Call):
        return Call(expression.op, tuple(map(replace, expression.args)), expression.type)
    if isinstance(expression, Cast):
        return Cast(replace(expression.arg), expression.type)
    return expression


def sides(expression: Expression) -> frozenset[int]:
    """The inputs that the expression reads."""
    return frozenset(node.side for node in walk(expression) if isinstance(node, Column))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The terms of a conjunction; none for TRUE."""
    if isinstance(expression, Call) and expression.op == "and":
        return tuple(term for arg in expression.args for term in conjuncts(arg))
    return () if expression == TRUE else (expression,)


def _operands(expression: Expression, op: str) -> tuple[Expression, ...]:
    """The operands of nested calls of one associative operator, from left to right."""
    if isinstance(expression, Call) and expression.op == op:
        return tuple(operand for arg in expression.args for operand in _operands(arg, op))
    return (expression,)


def conjunction(terms: tuple[Expression, ...]) -> Expression:
    """The terms joined by AND; TRUE for none."""
    return chain("and", terms) if terms else TRUE


SHALLOW = 16


def chain(op: str, terms: tuple[Expression, ...]) -> Expression:
    """The terms joined by AND or OR: from the left, or as a balanced tree if that is too deep."""
    if len(terms) > SHALLOW:
        middle = len(terms) // 2
        return Call(op, (chain(op, terms[:middle]), chain(op, terms[middle:])), pa.bool_())
    result = terms[0]
    for term in terms[1:]:
        result = Call(op, (result, term), pa.bool_())
    return result
