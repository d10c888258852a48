"""Close the equalities of an inner join of several inputs: ``a = b AND b = c`` adds ``a = c``.

All conjuncts of a row are true, and equality is transitive wherever it is true: no operand is NULL
then, ``NaN = NaN`` is true, and ``-0.0 = 0.0`` holds for all three or for none. So the added terms
remove no row. With them, any two inputs that share a key can be probed by it, in whatever order.

Only operands over one input take part. A conversion that cannot fail keeps equal operands equal:
``a = b AND CAST(b AS T) = c`` adds ``CAST(a AS T) = c``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

import pyarrow as pa

from penstock.sql.expressions import Call, Cast, Expression, conjunction, conjuncts, sides
from penstock.sql.plan import Aggregate, Join, Plan, Select

Operand = tuple[Expression, str]
"""An expression with its text, which tells 0.0 from -0.0."""


def close_equalities(plan: Plan) -> Plan:
    """Add the equalities that follow from those of ON, in joins of more than two inputs."""
    return plan.map_selects(_close)


def _close(select: Select) -> Select:
    source = select.source
    if isinstance(source, Aggregate) and isinstance(source.source, Join):
        return replace(select, source=replace(source, source=_close_join(source.source)))
    return replace(select, source=_close_join(source)) if isinstance(source, Join) else select


def _close_join(join: Join) -> Join:
    if join.core <= 2:
        return join
    terms = conjuncts(join.on)
    known = {frozenset(pair) for pair in _equalities(terms)}
    added = [
        Call("eq", (one[0], other[0]), pa.bool_())
        for group in _classes(_equalities(terms))
        for one, other in combinations(group, 2)
        if frozenset((one, other)) not in known
    ]
    return replace(join, on=conjunction((*terms, *added))) if added else join


def _equalities(terms: Iterable[Expression]) -> Iterator[tuple[Operand, Operand]]:
    """The operands of the equalities between expressions over one input each."""
    for term in terms:
        if isinstance(term, Call) and term.op == "eq":
            left, right = term.args
            if len(sides(left)) == len(sides(right)) == 1:
                yield _operand(left), _operand(right)


def _operand(expression: Expression) -> Operand:
    return expression, str(expression)


def _classes(pairs: Iterable[tuple[Operand, Operand]]) -> list[list[Operand]]:
    """The operands that are equal to each other, each class in the order of ON."""
    classes: list[list[Operand]] = []
    for left, right in pairs:
        _merge(classes, (left, right))
    for cast, _ in [operand for group in classes for operand in group]:
        if isinstance(cast, Cast) and _never_fails(cast.arg.type, cast.type):
            same = next((group for group in classes if _operand(cast.arg) in group), [])
            _merge(classes, [_operand(Cast(one, cast.type)) for one, _ in same])
    return classes


def _merge(classes: list[list[Operand]], equal: Iterable[Operand]) -> None:
    """Make one class of these operands, and of all classes that have one of them."""
    equal = list(equal)
    touched = [group for group in classes if any(one in group for one in equal)]
    united = list(dict.fromkeys([*(one for group in touched for one in group), *equal]))
    classes[:] = [group for group in classes if group not in touched]
    if united:
        classes.append(united)


def _never_fails(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every number of the source type converts to the target type."""
    if pa.types.is_signed_integer(source) and pa.types.is_signed_integer(target):
        return bool(source.bit_width <= target.bit_width)
    return bool(
        (pa.types.is_integer(source) or pa.types.is_floating(source))
        and pa.types.is_float64(target)
    )
