"""Partial results in cells, and what is folded into them.

A *part* of an aggregate (a count, a sum, an extreme) keeps one partial result per cell. Which cell
is whose is not its business: a cell stands for a group in a pane, in a window-aggregation module or
in the whole input. All that a part has to know is how a value becomes a partial result (``lift``),
how two become one (``combine``) and, if there is a way, how one is taken out of another
(``invert``); always for many cells at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.kernels.vector import Mask, Vector, is_text
from penstock.sql.plan import Call

Indices: TypeAlias = npt.NDArray[np.int64]
Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = dict[str, Array]
"""What a part keeps, as arrays of numbers with one entry or more per cell."""


@dataclass(frozen=True)
class Lifting:
    """Tuples on their way into cells, in the order of their arrival.

    Parameters
    ----------
    cells
        The cell of each.
    vector
        The argument of each; None for ``COUNT(*)``.
    times
        Keys that order the tuples by their time, None if they have none.
    numbers
        Numbers that order the tuples by their arrival.
    """

    cells: Indices
    vector: Vector | None
    times: Indices | None
    numbers: Indices

    def only(self, rows: Mask | Indices) -> Lifting:
        """Those of these rows."""
        vector = self.vector
        if vector is not None:
            vector = rows_of(vector, rows)
        times = None if self.times is None else self.times[rows]
        return Lifting(self.cells[rows], vector, times, self.numbers[rows])

    def not_null(self) -> Lifting:
        """Those whose argument is not NULL."""
        vector = self.vector
        if vector is None or vector.valid is None or vector.valid.all():
            return self
        kept = self.only(vector.valid)
        assert kept.vector is not None
        return replace(kept, vector=replace(kept.vector, valid=None))


def rows_of(vector: Vector, rows: Mask | Indices) -> Vector:
    """Some rows of a vector, in their order."""
    indices: Any = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    valid = None if vector.valid is None else vector.valid[indices]
    if is_text(vector.type):
        return Vector(vector.values.take(indices), valid, vector.type)
    return Vector(np.asarray(vector.values)[indices], valid, vector.type)


class Cells(Protocol):
    """The partial results of one part, in cells ``0 .. len - 1``.

    Cells begin with nothing in them: combining with such a cell changes nothing.
    """

    def __len__(self) -> int: ...

    def like(self, count: int) -> Any:
        """As many cells of the same kind, with nothing in them."""

    def lift(self, tuples: Lifting) -> None:
        """Fold tuples into their cells."""

    def combine(self, other: Any) -> None:
        """Make every cell that of its tuples and of those of the same cell of ``other``."""

    def take(self, cells: Indices) -> Any:
        """Copies of these cells, in this order."""

    def put(self, cells: Indices, other: Any) -> None:
        """Let these cells, all different, be those of ``other``."""

    def save(self) -> Columns:
        """The cells as arrays of numbers, for :meth:`load` of as many cells."""

    def load(self, columns: Columns) -> None:
        """Be the cells that were saved."""

    @property
    def nbytes(self) -> int: ...


class Invertible(Cells, Protocol):
    """Cells from which what was combined can be taken again."""

    def invert(self, other: Any) -> None:
        """Take the tuples of every cell of ``other``, which are among its own, out of a cell."""


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


class Table:
    """Arrays with one entry per cell; ``fills`` says of what type, and what stands for nothing."""

    def __init__(self, count: int, fills: Mapping[str, tuple[Any, Any]]) -> None:
        self._fills = fills
        self.arrays: Columns = {
            name: np.full(count, fill, dtype) for name, (dtype, fill) in fills.items()
        }

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __setitem__(self, name: str, array: Array) -> None:
        self.arrays[name] = array

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def like(self, count: int) -> Table:
        """As many entries with nothing in them."""
        return Table(count, self._fills)

    def take(self, cells: Indices) -> Table:
        """Copies of these entries."""
        taken = Table(0, self._fills)
        taken.arrays = {name: array[cells] for name, array in self.arrays.items()}
        return taken

    def put(self, cells: Indices, other: Table) -> None:
        """Let these entries be the others."""
        for name, array in self.arrays.items():
            array[cells] = other.arrays[name]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())
