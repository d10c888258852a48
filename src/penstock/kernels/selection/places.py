"""The places of values among constants, and the rows at each place.

Constants in order divide values into *places*: below the first constant, equal to it, between it
and the second, and so on; the last place is that of NULL. Values at one place compare alike with
every constant, so a set of values whose ends are constants is some intervals of places.

A value finds its place by a table: values are divided into buckets by a function that never falls,
so that a value has to be compared with the constants of its own bucket only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.expressions.vector import Numbers, Vector, is_text, physical_dtype
from penstock.kernels.machine_code import njit
from penstock.kernels.merging import group_by_rank
from penstock.kernels.selection.value_sets import AFTER, HIGHEST, LOWEST, Key, value_of

Places = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
_BUCKETS = 4
"""Buckets for each constant, at least."""
_FEWEST_BUCKETS = 1 << 10


class Constants:
    """The constants that an expression is compared with, in order.

    Parameters
    ----------
    values
        Their physical values, each once, in order.
    kind
        Their type.
    separate
        Whether sets that they are in have single values, or all but single values: then it does not
        matter between which of them a value is.
    """

    def __init__(self, values: Numbers, kind: pa.DataType, separate: bool) -> None:
        self.values = values
        self.count = 2 * len(values) + 2
        """How many places there are."""
        self._among: _Texts | _Integers | _Floats | None = None
        if len(values):
            if is_text(kind):
                self._among = _Texts(values, kind, separate)
            else:
                self._among = (_Floats if values.dtype.kind == "f" else _Integers)(values)

    def places(self, vector: Vector) -> Places:
        """The place of each value of a vector."""
        if self._among is None:
            found = np.zeros(len(vector), np.int32)
        else:
            found = self._among.places(vector.values)
        if vector.valid is not None:
            found[~vector.valid] = self.count - 1
        return found

    def bounds(self, values: Numbers, kinds: npt.NDArray[np.int64]) -> Indices:
        """The first place that is behind each end of sets (:mod:`.value_sets`)."""
        found = 2 * np.searchsorted(self.values, values) + 1 + (kinds == AFTER)
        beyond = self.count - 1 + (kinds - HIGHEST) // 2
        return np.where(kinds <= AFTER, found, np.where(kinds == LOWEST, 0, beyond))


def physical_keys(keys: Sequence[Key | None], kind: pa.DataType) -> Numbers:
    """Constants as an array; anything stands for None."""
    if is_text(kind):
        empty: Any = b"" if kind.id in _BINARY else ""
        found = np.empty(len(keys), object)
        found[:] = [empty if key is None else key for key in keys]
        return found
    dtype = physical_dtype(kind)
    return np.array([0 if key is None else value_of(key) for key in keys], dtype)


_BINARY = {kind.id for kind in (pa.binary(), pa.large_binary(), pa.binary_view())}


def rows_by_place(places: Places, count: int) -> tuple[Indices, Indices]:
    """The rows by place, in their own order at one place, and where each place begins."""
    starts = np.empty(count + 1, np.int64)
    order = np.empty(len(places), np.int64)
    # Of numbers without a sign the loop need not ask whether they count from the end.
    group_by_rank(places.view(np.uint32), np.uint32(0), starts, order)
    # The loop leaves where each place ends.
    starts[1:] = starts[:-1]
    starts[0] = 0
    return order, starts


# -- texts ----------------------------------------------------------------------------------------


class _Texts:
    """Constants that are texts, whose order is that of their bytes."""

    def __init__(self, values: Numbers, kind: pa.DataType, separate: bool) -> None:
        self._values: Any = pa.array(list(values), kind)
        self._separate = separate

    def places(self, texts: Any) -> Places:
        compute: Any = pc
        if self._separate:
            found = compute.index_in(texts, value_set=self._values).fill_null(-1).to_numpy()
            single: Places = np.where(found < 0, 0, 2 * found + 1).astype(np.int32)
            return single
        coded = texts.dictionary_encode()
        both = pa.concat_arrays([self._values, coded.dictionary])
        ranks = compute.rank(both, sort_keys="ascending", tiebreaker="dense").to_numpy()
        constants, others = ranks[: len(self._values)], ranks[len(self._values) :]
        places = np.searchsorted(constants, others) + np.searchsorted(constants, others, "right")
        codes = coded.indices.fill_null(0).to_numpy()
        if not len(places):  # every value is NULL
            return np.zeros(len(codes), np.int32)
        among: Places = places.astype(np.int32).take(codes)
        return among


# -- numbers --------------------------------------------------------------------------------------


class _Integers:
    """Integers and what is kept as integers, in buckets of equal width."""

    def __init__(self, values: Numbers) -> None:
        self._values = values
        span = int(values[-1]) - int(values[0])
        wanted = max(_FEWEST_BUCKETS, _BUCKETS * len(values))
        self._shift = np.uint64(max(0, span.bit_length() - wanted.bit_length() + 1))
        first = np.full(1, values[0]).astype(np.uint64)
        buckets = (values.astype(np.uint64) - first) >> self._shift
        self._starts = np.searchsorted(buckets, np.arange(int(buckets[-1]) + 2, dtype=np.uint64))
        self._table: Places | None = None
        if self._shift == 0:  # one value to a bucket
            counts = np.diff(self._starts)
            self._table = (2 * self._starts[:-1] + (counts > 0)).astype(np.int32)

    def places(self, values: Numbers) -> Places:
        found = np.empty(len(values), np.int32)
        if self._table is not None:
            ends = self._values[0], self._values[-1], 2 * len(self._values)
            _places_by_table(values, *ends, self._table, found)
        else:
            _integer_places(values, self._values, self._shift, self._starts, found)
        return found


class _Floats:
    """Floats: finite constants in buckets of equal width; NaN is above all others."""

    def __init__(self, values: Numbers) -> None:
        self._nan = bool(np.isnan(values[-1]))
        self._values = values[:-1] if self._nan else values
        finite = self._values[np.isfinite(self._values)].astype(np.float64)
        self._low = float(finite[0]) if len(finite) else 0.0
        wanted = max(_FEWEST_BUCKETS, _BUCKETS * len(values))
        with np.errstate(over="ignore"):
            span = float(finite[-1] - finite[0]) if len(finite) else 0.0
        # Of a span that is no number, or too small to be divided, all are in one bucket.
        scale = wanted / span if span > 0 else 0.0
        self._scale = scale if np.isfinite(scale) else 0.0
        self._buckets = wanted + 1
        own = np.empty(len(self._values), np.int64)
        _float_buckets(self._values, self._low, self._scale, self._buckets, own)
        self._starts = np.searchsorted(own, np.arange(self._buckets + 1))

    def places(self, values: Numbers) -> Places:
        found = np.empty(len(values), np.int32)
        nan = 2 * len(self._values) + self._nan
        _float_places(
            values, self._values, self._low, self._scale, self._buckets, self._starts, nan, found
        )
        return found


@njit()
def _integer_places(
    values: Numbers, constants: Numbers, shift: Any, starts: Indices, out: Places
) -> None:
    first, last = constants[0], constants[-1]
    for i in range(values.shape[0]):
        value = values[i]
        if value < first:
            out[i] = 0
        elif value > last:
            out[i] = 2 * constants.shape[0]
        else:
            # The differences of signed numbers are right as those of their bits.
            bucket = (np.uint64(np.int64(value)) - np.uint64(np.int64(first))) >> shift
            low, high = starts[bucket], starts[bucket + np.uint64(1)]
            while low < high:
                middle = (low + high) >> 1
                if constants[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            out[i] = 2 * low + (constants[low] == value)


@njit()
def _places_by_table(
    values: Numbers, first: Any, last: Any, above: int, table: Places, out: Places
) -> None:
    for i in range(values.shape[0]):
        value = values[i]
        if value < first:
            out[i] = 0
        elif value > last:
            out[i] = above
        else:
            out[i] = table[np.uint64(np.int64(value)) - np.uint64(np.int64(first))]


@njit()
def _float_bucket(value: Any, low: Any, scale: Any, buckets: Any) -> Any:
    place = (value - low) * scale
    if not place > 0:  # infinity by zero is NaN
        return 0
    return buckets - 1 if place >= buckets else int(place)


@njit()
def _float_buckets(values: Numbers, low: Any, scale: Any, buckets: Any, out: Indices) -> None:
    for i in range(values.shape[0]):
        out[i] = _float_bucket(values[i], low, scale, buckets)


@njit()
def _float_places(
    values: Numbers,
    constants: Numbers,
    low: Any,
    scale: Any,
    buckets: Any,
    starts: Indices,
    nan: int,
    out: Places,
) -> None:
    for i in range(values.shape[0]):
        value = values[i]
        if value != value:
            out[i] = nan
            continue
        bucket = _float_bucket(value, low, scale, buckets)
        below, above = starts[bucket], starts[bucket + 1]
        while below < above:
            middle = (below + above) >> 1
            if constants[middle] < value:
                below = middle + 1
            else:
                above = middle
        out[i] = 2 * below + (below < constants.shape[0] and constants[below] == value)
