"""Exact sums, many at a time.

A sum of integers, decimals or floats is one large integer, in units of a power of 2 that all sums
of an object share. So the order of additions does not matter, sums can be merged and subtracted,
and a float is rounded once, when it is read. The unit becomes smaller, and the integers longer,
when a value needs it.

Infinities and NaN are counted separately, so that they can be subtracted too.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate import limbs as loops
from penstock.kernels.aggregate.limbs import MOST, quotient, to_floats, to_integers
from penstock.kernels.probe.buckets import gathered
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Cells = npt.NDArray[np.int32]

_ALL = np.empty(0, np.bool_)
_NO_COUNTS = np.empty(0, np.int64)
_LARGEST_TOP = 1 << 31
"""If the top limb is larger than this after carries are propagated, another is added above it."""


def as_slice(cells: Array) -> Any:
    """Consecutive cells as a slice, which is faster; others unchanged.

    >>> as_slice(np.array([3, 4, 5])), as_slice(np.array([5, 3, 4])).tolist()
    (slice(3, 6, None), [5, 3, 4])
    """
    count = len(cells)
    if count < 2 or int(cells[-1]) - int(cells[0]) != count - 1:
        return cells
    if (cells[1:] - cells[:-1] != 1).any():
        return cells
    return slice(int(cells[0]), int(cells[-1]) + 1)


class ExactSums:
    """An array of exact sums, called cells, which start at 0.

    ``cells`` are arrays of cell numbers, int32. A mask ``valid`` selects values; where it is false
    a value may be anything, but a cell must still exist.

    >>> sums = ExactSums(2)
    >>> sums.add(np.array([0, 1, 0, 0]), np.array([1e300, 0.5, 1.0, -1e300]))
    >>> sums.as_floats(np.array([0, 1])).tolist()
    [1.0, 0.5]
    """

    def __init__(self, cells: int = 0, base: int = 0, width: int = 0) -> None:
        self._cells = cells
        self._base = base
        self._width = width
        self._limbs = np.zeros(cells * width, np.int64)
        self._special: Array | None = None
        """Counts of NaN, inf and -inf per cell; None if there never was one."""
        self._load = 0
        """Upper bound of the additions to a limb since carries were propagated."""

    def __len__(self) -> int:
        return self._cells

    @property
    def nbytes(self) -> int:
        return self._limbs.nbytes + (0 if self._special is None else self._special.nbytes)

    @property
    def exponent(self) -> int:
        """Sums are kept in units of ``2**exponent``: 0 if all that was added is integers."""
        return self._base

    @property
    def parts(self) -> tuple[Array, int, int]:
        """The limbs, their number per cell, and the exponent, for compiled loops."""
        return self._limbs, self._width, self._base

    def like(self, cells: int) -> ExactSums:
        """``cells`` sums that are 0, in the same units, so that merging them is fastest."""
        return ExactSums(cells, self._base, self._width)

    def add(self, cells: Cells, values: Array, valid: Array | None = None) -> None:
        """Add each value to its cell: integers, floats, or Python integers in an object array."""
        cells = np.ascontiguousarray(cells, np.int32)
        if valid is not None and 2 * np.count_nonzero(valid) < len(values):
            chosen = np.flatnonzero(valid)
            cells, values, valid = gathered(cells, chosen), values[chosen], None
        mask = _ALL if valid is None else alias(valid)
        if values.dtype == object:
            self._add_objects(cells, values, valid)
        elif values.dtype.kind == "f":
            self._add_floats(cells, values, mask)
        else:
            self._add_integers(cells, values, mask)

    def add_at(self, cell: int, values: Array, valid: Array | None = None) -> None:
        """Add all values to one cell; several times faster than :meth:`add`."""
        mask = _ALL if valid is None else alias(valid)
        if values.dtype == object:
            self._add_objects(np.full(len(values), cell, np.int32), values, valid)
        elif values.dtype.kind == "f":
            bits, mask = self._finite(None, cell, values, mask)
            self._account_for(len(values))
            limbs = self._limbs[cell * self._width : (cell + 1) * self._width]
            loops.add_run(bits, bits.view(np.float64), mask, limbs, self._base)
        else:
            numbers, top = _as_words(values)
            self._reach(0, 64)
            self._account_for(len(values))
            at = cell * self._width + self._limb()
            low, high = loops.sum_halves(numbers, mask, top)
            self._limbs[at] += low
            self._limbs[at + 1] += high

    def add_squares(self, cells: Cells, values: Array, valid: Array | None = None) -> None:
        """Add the square of each value to its cell; the values as in :meth:`add`."""
        cells = np.ascontiguousarray(cells, np.int32)
        mask = _ALL if valid is None else alias(valid)
        if values.dtype == object:
            self._add_objects(cells, values * values, valid)
        elif values.dtype.kind == "f":
            bits, mask = self._finite(cells, 0, values, mask, 2)
            self._account_for(4 * len(values))
            where = self._limbs, self._width, self._base
            loops.add_float_squares(bits, mask, cells, *where)
        else:
            numbers, top = _as_words(values)
            self._reach(0, 160)
            self._account_for(4 * len(values))
            where = self._limbs, self._width, self._limb()
            loops.add_integer_squares(numbers, mask, cells, *where, top == -1)

    def _limb(self) -> int:
        """The limb that counts ones."""
        return -self._base >> 5

    def _account_for(self, additions: int) -> None:
        """Account for additions; propagate carries first if limbs could overflow."""
        if self._load + additions > TUNING.additions_per_carry:
            self._normalise()
        self._load += additions

    def _normalise(self) -> None:
        self._load = 0
        if self._width and loops.normalise(self._limbs, self._width) > _LARGEST_TOP:
            self._reach(self._base, self._base + 32 * self._width + 32)
            loops.normalise(self._limbs, self._width)

    def _reach(self, low: int, high: int) -> None:
        """Ensure limbs for the bits from ``low``, a multiple of 32, to before ``high``."""
        top = self._base + 32 * self._width
        if self._width == 0:
            self._base = top = low
        if self._base <= low and high <= top:
            return
        base = min(low, self._base)
        width = (max(high, top) - base + 31) >> 5
        wider = np.zeros((self._cells, width), np.int64)
        above = (self._base - base) >> 5
        wider[:, above : above + self._width] = self._limbs.reshape(self._cells, self._width)
        self._limbs, self._base, self._width = wider.reshape(-1), base, width

    def _add_integers(self, cells: Cells, values: Array, mask: Array) -> None:
        numbers, top = _as_words(values)
        self._reach(0, 64)
        self._account_for(len(values))
        where = self._limbs, self._width, self._limb()
        if values.dtype.itemsize <= 4 or (top == -1 and _is_narrow(numbers, mask)):
            loops.add_narrow(numbers, mask, cells, *where)
        else:
            loops.add_wide(numbers, mask, cells, *where, top)

    def _add_floats(self, cells: Cells, values: Array, mask: Array) -> None:
        bits, mask = self._finite(cells, 0, values, mask)
        self._account_for(len(values))
        floats = bits.view(np.float64)
        loops.add_floats(bits, floats, mask, cells, self._limbs, self._width, self._base)

    def _add_objects(self, cells: Cells, values: Array, valid: Array | None) -> None:
        if valid is not None:
            cells, values = cells[valid], values[valid]
        count = max((int(v).bit_length() for v in values), default=0) // 32 + 1
        self._reach(0, 32 * count)
        self._account_for(len(values))
        for j in range(count):
            digits = values >> (32 * j)
            if j < count - 1:
                digits = digits & loops.DIGIT
            where = self._limbs, self._width, self._limb() + j
            loops.add_narrow(digits.astype(np.int64), _ALL, cells, *where)

    def _finite(
        self, cells: Cells | None, cell: int, values: Array, mask: Array, power: int = 1
    ) -> tuple[Array, Array]:
        """The bits of floats and the mask of finite ones; the others are counted here.

        Afterwards there are limbs for their ``power``. Without ``cells`` all are of one ``cell``.
        """
        floats = alias(np.ascontiguousarray(values, np.float64))
        bits = floats.view(np.int64)
        smallest, largest, odd = loops.float_extent(bits, mask)
        if odd:
            finite = np.isfinite(floats)
            strange = ~finite if mask is _ALL else mask & ~finite
            mask = finite if mask is _ALL else mask & finite
            self._count_special(cell if cells is None else cells[strange], floats[strange], power)
        if largest > 0:
            lowest = power * _unit(smallest) & -32
            # A number is put into 3 limbs and a square into 5. A run starts 2 bits further up, and
            # at the earliest 52 bits above the base.
            highest = (power * _unit(largest) + 2 & -32) + (96 if power == 1 else 160)
            self._reach(lowest, max(highest, lowest + 128))
        return bits, mask

    def _count_special(self, cells: Any, values: Array, power: int) -> None:
        if self._special is None:
            self._special = np.zeros((self._cells, 3), np.int64)
        if power == 2:
            values = np.abs(values)
        kinds = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        np.add.at(self._special, (cells, kinds), 1)

    def merge(self, into: Cells, other: ExactSums, from_: Cells, sign: int = 1) -> None:
        """Add cells of other sums to cells of these; with a sign of -1, subtract them."""
        into = np.ascontiguousarray(into, np.int32)
        from_ = np.ascontiguousarray(from_, np.int32)
        above = self._cover(other)
        theirs = other._limbs, other._width, from_
        if other._width:
            self._check(loops.merge_cells(self._limbs, self._width, into, theirs, above, sign))
        if other._special is not None:
            np.add.at(cast(Array, self._special), into, sign * other._special[from_])

    def merge_row(self, into: int, other: ExactSums, from_: int, count: int, sign: int = 1) -> None:
        """As :meth:`merge`, for ``count`` consecutive cells of both."""
        above = self._cover(other)
        ours = self._limbs[into * self._width : (into + count) * self._width]
        theirs = other._limbs[from_ * other._width : (from_ + count) * other._width]
        if other._width:
            self._check(loops.merge_row(ours, self._width, theirs, other._width, above, sign))
        if other._special is not None:
            cast(Array, self._special)[into : into + count] += (
                sign * other._special[from_ : from_ + count]
            )

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Replace each of ``rows`` rows of cells by its prefix sum, or by its suffix sum."""
        self._normalise()
        self._load = rows
        step = -1 if backwards else 1
        tables = (
            [self._limbs] if self._special is None else [self._limbs, self._special.reshape(-1)]
        )
        for table in tables:
            ordered = table.reshape(rows, -1)[::step]
            np.cumsum(ordered, axis=0, out=ordered)

    def of_intervals(self, begins: Array, ends: Array, count: int) -> ExactSums:
        """For each of ``count`` rows the sum of the cells in whose intervals it is.

        The interval of a cell is the rows from its ``begins`` to before its ``ends``.
        """
        self._normalise()  # a row may be the sum of all cells
        every = np.arange(len(self), dtype=np.int32)
        found = self.like(count + 1)
        found.merge(begins, self, every)
        found.merge(ends, self, every, -1)
        found.accumulate(count + 1, backwards=False)
        found.resize(count)
        return found

    def _cover(self, other: ExactSums) -> int:
        """Ensure limbs for all of the other's; returns which of ours is its first."""
        if other is self:
            return 0
        if other._width:
            self._reach(other._base, other._base + 32 * other._width)
        if other._special is not None and self._special is None:
            self._special = np.zeros((self._cells, 3), np.int64)
        return (other._base - self._base) >> 5

    def _check(self, last: int) -> None:
        if last > _LARGEST_TOP:
            self._normalise()

    def taken(self, cells: Array) -> ExactSums:
        """Copies of these cells."""
        made = ExactSums(0, self._base, self._width)
        which = as_slice(cells)
        made._cells, made._load = len(cells), self._load
        rows = self._limbs.reshape(self._cells, self._width)[which]
        made._limbs = np.array(rows).reshape(-1)
        made._special = None if self._special is None else np.array(self._special[which])
        return made

    def put(self, cells: Array, other: ExactSums) -> None:
        """Overwrite these cells, all different, with the others."""
        self._cover(other)
        which = as_slice(cells)
        mine = self._limbs.reshape(self._cells, self._width)
        first = (other._base - self._base) >> 5 if other._width else 0
        if other._width < self._width:
            mine[which] = 0
        rows = other._limbs.reshape(other._cells, other._width)
        mine[which, first : first + other._width] = rows
        self._load = max(self._load, other._load)
        if self._special is not None:
            self._special[which] = 0 if other._special is None else other._special

    def clear(self, cells: Cells) -> None:
        """Set these cells to 0."""
        self._limbs.reshape(self._cells, self._width)[as_slice(cells)] = 0
        if self._special is not None:
            self._special[as_slice(cells)] = 0

    def rearrange(self, cells: int, new: Any, old: Any) -> None:
        """Resize to ``cells`` cells and move cell ``old[i]`` to ``new[i]``; the rest is 0.

        ``new`` and ``old`` are arrays of numbers or slices, and no cell is named twice.
        """
        limbs = np.zeros((cells, self._width), np.int64)
        limbs[new] = self._limbs.reshape(self._cells, self._width)[old]
        if self._special is not None:
            odd = np.zeros((cells, 3), np.int64)
            odd[new] = self._special[old]
            self._special = odd
        self._limbs, self._cells = limbs.reshape(-1), cells

    def resize(self, cells: int) -> None:
        """Change the number of cells."""
        kept = slice(0, min(cells, self._cells))
        self.rearrange(cells, kept, kept)

    def as_int64(self, cells: Cells) -> tuple[Array, Array]:
        """The sums of integers, and which of them fit int64."""
        assert self._base == 0
        cells = np.ascontiguousarray(cells, np.int32)
        values, fits = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
        to_integers(self._limbs, self._width, self._limb(), cells, values, fits)
        return values, fits

    def as_integers(self, cells: Cells) -> list[int]:
        """The sums in units of ``2**exponent``, as Python integers of any size."""
        cells = np.ascontiguousarray(cells, np.int32)
        values, fits = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
        to_integers(self._limbs, self._width, 0, cells, values, fits)
        found: list[int] = values.tolist()
        wide = np.flatnonzero(~fits).tolist()
        limbs = self._limbs.reshape(self._cells, self._width)[cells[wide]].tolist()
        for i, digits in zip(wide, limbs, strict=True):
            found[i] = sum(digit << 32 * j for j, digit in enumerate(digits))
        return found

    def as_floats(self, cells: Cells, counts: Array | None = None) -> Array:
        """The sums, or the means if counts are given, as the nearest floats.

        NaN if a NaN or infinities of both signs were added; else the infinity, if there is one.
        The result for a count of 0 is undefined.
        """
        cells = np.ascontiguousarray(cells, np.int32)
        by = _NO_COUNTS if counts is None else np.ascontiguousarray(counts, np.int64)
        out = np.empty(len(cells))
        if len(by) and int(by.max()) >= MOST:
            whole = self.as_integers(cells)
            out[:] = [quotient(s, n, self._base) for s, n in zip(whole, by.tolist(), strict=True)]
        else:
            to_floats(self._limbs, self._width, self._base, cells, by, out)
        return self._with_special(cells, out)

    def _with_special(self, cells: Cells, values: Array) -> Array:
        if self._special is None:
            return values
        nans, ups, downs = (self._special[cells] > 0).T
        values[ups] = np.inf
        values[downs] = -np.inf
        values[nans | (ups & downs)] = np.nan
        return values

    def is_finite(self, cells: Cells) -> Array:
        """Which cells have neither NaN nor infinities."""
        if self._special is None:
            return np.ones(len(cells), np.bool_)
        return np.asarray((self._special[cells] == 0).all(axis=1))

    def state(self) -> dict[str, Array]:
        """The state that :meth:`load` restores, as arrays; they are not copies."""
        odd = np.empty(0, np.int64) if self._special is None else self._special.reshape(-1)
        grid = np.array([self._cells, self._base, self._width, self._load], np.int64)
        return {"grid": grid, "limbs": self._limbs, "odd": odd}

    def load(self, state: dict[str, Array]) -> None:
        """Restore from :meth:`state`."""
        self._cells, self._base, self._width, self._load = state["grid"].tolist()
        self._limbs = np.array(state["limbs"], np.int64)
        odd = state["odd"]
        self._special = np.array(odd, np.int64).reshape(-1, 3) if len(odd) else None


def _unit(magnitude: int) -> int:
    """The exponent of the last bit of a float, given by its bits."""
    return max(int(magnitude) >> 52, 1) - 1075


def _is_narrow(numbers: Array, mask: Array) -> bool:
    low, high = loops.integer_extent(numbers, mask)
    return bool(low >= -(1 << 32) and high <= 1 << 32)


def _as_words(values: Array) -> tuple[Array, int]:
    """Integers as int64, and the mask of their upper halves: -1 if they have a sign."""
    if values.dtype == np.uint64:
        return alias(np.ascontiguousarray(values)).view(np.int64), loops.DIGIT
    return alias(np.ascontiguousarray(values, np.int64)), -1
