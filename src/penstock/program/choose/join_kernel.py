"""The choice of a join kernel, as far as it follows from the predicate.

Finds the conditions that an index can use, and names them in EXPLAIN. Which of them is best is
decided at run time, from the values; that choice is in the query's metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import InputError
from penstock.program.isa.kernels import AGGREGATE_KERNELS, JOIN_KERNELS
from penstock.sql.expressions import (
    TRUE,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    sides,
    walk,
)
from penstock.sql.plan import Aggregate, Join, Plan

LOWER = frozenset({"gt", "ge"})
UPPER = frozenset({"lt", "le"})


@dataclass(frozen=True)
class _Usable:
    """The conditions that each kind of index can use."""

    equal: list[Expression]
    bands: list[Expression]
    one_sided: list[Expression]


def check_kernel(plan: Plan, forced: str | None) -> None:
    """Refuse an unknown kernel, and one for an operator that the query does not have.

    A query that joins and aggregates can have one of either kind; the planner chooses the other.
    """
    if forced is None:
        return
    if forced not in (*JOIN_KERNELS, *AGGREGATE_KERNELS):
        names = ", ".join((*JOIN_KERNELS, *AGGREGATE_KERNELS))
        raise InputError(f"unknown kernel {forced!r}", f"Write one of: {names}.")
    sources = [select.source for select in plan.selects]
    aggregates = [source for source in sources if isinstance(source, Aggregate)]
    joins = [one for one in (*sources, *(a.source for a in aggregates)) if isinstance(one, Join)]
    if forced in JOIN_KERNELS and not joins:
        others = f", or write one for aggregates: {', '.join(AGGREGATE_KERNELS)}"
        raise InputError(
            f"the kernel {forced!r} is for joins, and the query has none",
            f"Leave the kernel out{others if aggregates else ''}.",
        )
    if forced in AGGREGATE_KERNELS and not aggregates:
        raise InputError(
            f"the kernel {forced!r} is for aggregates, and the query has none",
            f"Leave the kernel out, or write one for joins: {', '.join(JOIN_KERNELS)}.",
        )


def choose_kernel(join: Join, forced: str | None = None) -> tuple[str, str]:
    """The kernel and the reason for it; an error if the forced one cannot serve the predicate."""
    usable = _usable(join)
    found = {"hash": usable.equal, "band": usable.bands, "sorted": usable.one_sided + usable.bands}
    if forced is not None:
        kernel = JOIN_KERNELS[forced]
        if not kernel.needs:
            return forced, "asked for"
        if not found[forced]:
            raise InputError(
                f"the kernel {forced!r} cannot serve the join predicate {_predicate(join)}",
                f"It needs {kernel.needs}; leave the kernel out, or write nested-loop.",
            )
        return forced, f"asked for; uses {_listed(found[forced])}"
    for name, kernel in JOIN_KERNELS.items():
        if kernel.needs and found[name]:
            also = usable.bands + usable.one_sided if name == "hash" else []
            or_else = f"; or a range of {_listed(also)}, if fewer tuples pass that" if also else ""
            if name == "hash" and not join.steps:  # all equalities hold of every row
                return name, f"{kernel.why} {_listed(_equal_classes(usable.equal))}{or_else}"
            return name, f"{kernel.why} {_listed(found[name])}{or_else}"
    return "nested-loop", _why_nested(join)


def _usable(join: Join) -> _Usable:
    equal: list[Expression] = []
    bands: list[Expression] = []
    one_sided: list[Expression] = []
    bounds: list[tuple[Call, frozenset[Column], frozenset[Column]]] = []
    for term in (*conjuncts(join.compiled), *_terms_of_steps(join)):
        if not isinstance(term, Call) or len(term.args) != 2:
            continue
        left, right = term.args
        one_each = len(sides(left)) == len(sides(right)) == 1
        if term.op == "eq" and one_each:
            equal.append(term)
        elif one_each and term.op in LOWER | UPPER and not _is_text(left.type):
            bounds.append((term, *_ends(term)))
        elif _is_band(term):
            bands.append(term)
        elif _is_difference(term):
            one_sided.append(term)
    for term, above, below in bounds:
        paired = any(above & b or below & a for t, a, b in bounds if t is not term)
        (bands if paired else one_sided).append(term)
    return _Usable(equal, bands, one_sided)


def _terms_of_steps(join: Join) -> tuple[Expression, ...]:
    """What kernels evaluate of the steps of a tree."""
    terms = (term for step in join.steps for term in conjuncts(step.on))
    return tuple(term for term in terms if len(sides(term)) > 1)


def _predicate(join: Join) -> Expression:
    """The conditions of all joins together, for a message."""
    return conjunction(join.conditions) if join.steps else join.on


def _ends(term: Call) -> tuple[frozenset[Column], frozenset[Column]]:
    """The columns of the larger and of the smaller operand."""
    left, right = (
        frozenset(node for node in walk(arg) if isinstance(node, Column)) for arg in term.args
    )
    return (left, right) if term.op in LOWER else (right, left)


def _is_band(term: Call) -> bool:
    """``ABS(a - b) <= constant``, through widening casts."""
    left, right = term.args
    if term.op in LOWER:
        left, right = right, left
    left = _bare(left)
    if term.op not in LOWER | UPPER or not isinstance(_bare(right), Literal):
        return False
    inner = _bare(left.args[0]) if isinstance(left, Call) and left.op == "abs" else None
    return isinstance(inner, Call) and inner.op in ("sub", "sub_times") and len(sides(inner)) == 2


def _is_difference(term: Call) -> bool:
    """``a - b < constant`` or the like."""
    left, right = map(_bare, term.args)
    swapped = not isinstance(right, Literal)
    if swapped:
        left, right = right, left
    if term.op not in LOWER | UPPER or not isinstance(right, Literal):
        return False
    if pa.types.is_floating(left.type) and (term.op in LOWER) != swapped:
        return False  # a difference that is NaN is above every constant, wherever its ends are
    return isinstance(left, Call) and left.op in ("sub", "sub_times") and len(sides(left)) == 2


def _bare(expression: Expression) -> Expression:
    return _bare(expression.arg) if isinstance(expression, Cast) else expression


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _equal_classes(terms: Sequence[Expression]) -> list[str]:
    """The equalities, those that share operands as one: ``(a.k = b.k = c.k)``."""
    classes: list[list[str]] = []
    for term in terms:
        assert isinstance(term, Call)
        operands = list(map(str, term.args))
        same = [one for one in classes if not set(one).isdisjoint(operands)] or [[]]
        united = list(dict.fromkeys([*(o for one in same for o in one), *operands]))
        at = classes.index(same[0]) if same[0] in classes else len(classes)
        classes[at : at + 1] = [united]
        classes = [one for one in classes if one not in same[1:]]
    return [f"({' = '.join(operands)})" for operands in classes]


def _listed(terms: Sequence[Expression | str]) -> str:
    return " and ".join(map(str, terms))


def _why_nested(join: Join) -> str:
    if join.compiled == TRUE and join.residual == TRUE and not _terms_of_steps(join):
        return "no predicate over both sides: every live pair is a result"
    if join.compiled == TRUE and not join.steps:
        return f"nothing to compile: {_blame(join.residual)} is evaluated on pairs"
    return "no conjunct bounds a column of one side by the other: every live pair is compared"


def _blame(residual: Expression) -> str:
    for node in walk(residual):
        if isinstance(node, Call) and any(pa.types.is_string(arg.type) for arg in node.args):
            return f"{node.op} on strings of both sides"
    return str(residual)
