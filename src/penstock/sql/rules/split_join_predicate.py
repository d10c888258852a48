"""Split a join predicate into one-sided filters, a compiled part, and a residual.

A conjunct over one side is a filter: a tuple that fails it finds no partner, for every kind of
join. The tuple stays in its window all the same, so that count windows are right, unmatched tuples
are still padded, and a later change of the predicate finds it there.

A conjunct over both sides is compiled if it consists of AND, OR, NOT and comparisons whose operands
either depend on one side (then they are evaluated once per tuple, whatever they contain) or are
sums, differences, products and absolute values of numbers of both. Everything else is residual.

Of a join of more than two inputs, the order in which the inputs are probed decides what a kernel
can evaluate; the multiway block splits its predicate stage by stage (:func:`compiles`), and those
of the steps of a tree likewise.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.sql.expressions import (
    COMPARISONS,
    Call,
    Cast,
    Expression,
    conjunction,
    conjuncts,
    sides,
)
from penstock.sql.plan import Aggregate, Join, Plan, Select

LOGIC = frozenset({"and", "or", "not"})
ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "abs", "sub_times"})


def split_join_predicate(plan: Plan) -> Plan:
    """Set ``filters``, ``compiled`` and ``residual`` of every join."""
    return plan.map_selects(_split)


def _split(select: Select) -> Select:
    source = select.source
    if isinstance(source, Aggregate) and isinstance(source.source, Join):
        return replace(select, source=replace(source, source=_split_join(source.source)))
    return replace(select, source=_split_join(source)) if isinstance(source, Join) else select


def _split_join(join: Join) -> Join:
    one_sided: list[list[Expression]] = [[] for _ in join.inputs]
    compiled: list[Expression] = []
    residual: list[Expression] = []
    for term in conjuncts(join.on):
        used = sides(term)
        if len(used) < 2:
            # A constant condition becomes a filter of the left side.
            one_sided[max(used, default=0)].append(term)
        elif len(join.inputs) > 2 or compiles(term):
            compiled.append(term)
        else:
            residual.append(term)
    return replace(
        join,
        filters=tuple(conjunction(tuple(terms)) for terms in one_sided),
        compiled=conjunction(tuple(compiled)),
        residual=conjunction(tuple(residual)),
    )


def compiles(condition: Expression) -> bool:
    """Whether a kernel can evaluate a boolean expression inside its loop."""
    if len(sides(condition)) < 2:
        return True
    if not isinstance(condition, Call):
        return False
    if condition.op in LOGIC:
        return all(map(compiles, condition.args))
    if condition.op == "in":
        return all(_comparable("eq", arg) for arg in condition.args)
    if condition.op not in COMPARISONS:
        return False
    two_sided = any(len(sides(arg)) == 2 for arg in condition.args)
    if two_sided:
        return all(_computable(arg) for arg in condition.args)
    return all(_comparable(condition.op, arg) for arg in condition.args)


def _comparable(op: str, operand: Expression) -> bool:
    """Whether the operand has an integer key with the same order."""
    if len(sides(operand)) == 2:
        return False
    kind = operand.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return op in ("eq", "ne")
    return not (pa.types.is_decimal(kind) and kind.precision > 18) and not pa.types.is_null(kind)


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the target type holds every number of the source type, also in a kernel."""
    if pa.types.is_signed_integer(source) and pa.types.is_signed_integer(target):
        return bool(source.bit_width <= target.bit_width)
    return bool(pa.types.is_float32(source) and pa.types.is_float64(target))


def _computable(operand: Expression) -> bool:
    """Whether the operand is a number that a kernel can compute from numbers of both sides."""
    kind = operand.type
    if len(sides(operand)) < 2:
        return (
            pa.types.is_signed_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_duration(kind)
            or pa.types.is_timestamp(kind)
            or pa.types.is_date(kind)
        )
    if pa.types.is_decimal(kind) or pa.types.is_unsigned_integer(kind):
        return False
    if isinstance(operand, Cast):
        return _widens(operand.arg.type, kind) and _computable(operand.arg)
    if not isinstance(operand, Call) or operand.op not in ARITHMETIC:
        return False
    if operand.op == "sub_times" and operand.args[0].type != pa.timestamp("us"):
        return False  # an interval is in microseconds; other units would need scaling
    return all(_computable(arg) for arg in operand.args)
