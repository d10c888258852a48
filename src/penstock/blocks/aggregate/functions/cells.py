"""Partial results in cells, and what is folded into them.

A *part* of an aggregate (a count, a sum, an extreme) keeps one partial result per cell. Which cell
is whose is not its business: a cell stands for a group in a pane, in a window-aggregation module or
in the whole input. All that a part has to know is how a value becomes a partial result (``lift``),
how two become one (``combine``) and, if there is a way, how one is taken out of another
(``invert``); always for many cells at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.expressions.vector import Mask, Vector, both, is_text
from penstock.sql.plan import Call

Indices: TypeAlias = npt.NDArray[Any]
"""Numbers of cells, of rows or of groups: 32 or 64 bits."""
Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = dict[str, Array]
"""What a part keeps, as arrays of numbers with one entry or more per cell."""


@dataclass(frozen=True)
class Lifting:
    """Tuples on their way into cells, in the order of their arrival.

    Parameters
    ----------
    cells
        The cell of each, or one for all.
    length
        How many there are.
    vector
        The argument of each; None for ``COUNT(*)``.
    mask
        Which of them FILTER lets through; None: all.
    times
        Keys that order the tuples by their time, None if they have none.
    start
        The number of the first, by which tuples of one time are ordered; the others follow it.
    """

    cells: Indices | int
    length: int
    vector: Vector | None
    mask: Mask | None
    times: Indices | None
    start: int

    @property
    def valid(self) -> Mask | None:
        """The tuples that count and have an argument that is not NULL; None: all."""
        return both(self.mask, None if self.vector is None else self.vector.valid)

    def every_cell(self) -> Indices:
        """The cell of each."""
        cells = self.cells
        return np.full(self.length, cells, np.int32) if isinstance(cells, int) else cells


def rows_of(vector: Vector, rows: Indices) -> Vector:
    """Some rows of a vector, in their order."""
    valid = None if vector.valid is None else vector.valid[rows]
    if is_text(vector.type):
        return Vector(vector.values.take(pa.array(rows)), valid, vector.type)
    return Vector(np.asarray(vector.values)[rows], valid, vector.type)


def part_of(vector: Vector, start: int, stop: int) -> Vector:
    """Neighbouring rows of a vector."""
    valid = None if vector.valid is None else vector.valid[start:stop]
    values: Any = vector.values
    part = values.slice(start, stop - start) if is_text(vector.type) else values[start:stop]
    return Vector(part, valid, vector.type)


class Cells(Protocol):
    """The partial results of one part, in cells ``0 .. len - 1``.

    Cells begin with nothing in them: combining with such a cell changes nothing.
    """

    def __len__(self) -> int: ...

    def like(self, count: int) -> Any:
        """As many empty cells of the same kind."""

    def lift(self, tuples: Lifting) -> None:
        """Fold tuples into their cells."""

    def combine(self, other: Any) -> None:
        """Make every cell that of its tuples and of those of the same cell of ``other``."""

    def take(self, cells: Indices) -> Any:
        """Copies of these cells, in this order."""

    def put(self, cells: Indices, other: Any) -> None:
        """Let these cells, all different, be those of ``other``."""

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Any:
        """A cell for each of ``count`` rows: all cells in whose intervals the row is, as one.

        The interval of a cell is the rows from its ``begins``, which rise, to before its ``ends``.
        The cells of the rows are there to be moved and to have results; nothing can be combined
        with them.
        """

    def save(self) -> Columns:
        """The cells as arrays of numbers, for :meth:`load` of as many cells."""

    def load(self, columns: Columns) -> None:
        """Restore the cells from saved state."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class Part:
    """A part that an aggregate needs: of which kind, over the arguments of which call.

    Calls with the same argument and condition share their parts of a kind.
    """

    kind: str
    call: Call
    make: Callable[[int], Cells] = field(compare=False)


class DoesNotFit(Exception):
    """A result that its type cannot hold. ``cell`` is the first such cell, ``value`` its result."""

    def __init__(self, cell: int, value: str) -> None:
        super().__init__(value)
        self.cell = cell
        self.value = value


class Aggregate(Protocol):
    """An aggregate function of one call."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it is made of."""

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The Arrow array of its results, one per cell of its parts; or :class:`DoesNotFit`."""
