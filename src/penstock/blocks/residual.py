"""What a kernel leaves of a join's predicate, to be evaluated on the pairs that it found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.sql.expressions import Column, Expression, rebuild, walk


@dataclass(frozen=True)
class Residual:
    """A condition on gathered pairs, and the columns of each side that it reads."""

    condition: Expression
    columns: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, condition: Expression) -> Residual:
        read: tuple[set[int], set[int]] = (set(), set())
        for node in walk(condition):
            if isinstance(node, Column):
                read[node.side].add(node.index)
        columns = (tuple(sorted(read[0])), tuple(sorted(read[1])))

        def renumber(node: Expression) -> Expression:
            if isinstance(node, Column):
                return replace(node, index=columns[node.side].index(node.index))
            return rebuild(node, renumber)

        return cls(renumber(condition), columns)
