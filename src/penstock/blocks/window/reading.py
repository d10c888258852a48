"""Expressions over the tuples of several windows, such as what a kernel leaves of a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.window.window import StoredWindow
from penstock.sql.expressions import TRUE, Column, Expression, rebuild, walk
from penstock.streams.batches import without_columns

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """Expressions over tuples of several inputs, and the columns that they read of each."""

    expressions: tuple[Expression, ...]
    columns: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, expressions: Iterable[Expression]) -> Reading:
        given = tuple(expressions)
        read: dict[int, set[int]] = {}
        for node in (node for expression in given for node in walk(expression)):
            if isinstance(node, Column):
                read.setdefault(node.side, set()).add(node.index)
        columns = {side: tuple(sorted(found)) for side, found in read.items()}

        def renumber(node: Expression) -> Expression:
            if isinstance(node, Column):
                return replace(node, index=columns[node.side].index(node.index))
            return rebuild(node, renumber)

        return cls(tuple(map(renumber, given)), columns)

    @property
    def is_true(self) -> bool:
        """Whether there is nothing to evaluate: the one expression is TRUE."""
        return self.expressions == (TRUE,)

    def inputs(
        self,
        sides: Sequence[StoredWindow],
        members: Sequence[Indices | None],
        count: int,
        padded: bool = False,
    ) -> list[pa.RecordBatch]:
        """The tuples that the expressions read, for each of ``count`` combinations.

        ``padded``: -1 stands for a tuple of NULLs.
        """
        nothing = without_columns(count)
        found = [nothing] * len(sides)
        for side, columns in self.columns.items():
            seqs = members[side]
            assert seqs is not None
            found[side] = sides[side].rows.take(seqs, columns, padded)
        return found
