"""The trades of Oge et al. 2013 by the million, out of order, and their aggregates.

One *period* of trades is generated and repeated, each time shifted by its length. A trade is in
transit for up to ``disorder`` seconds, and those that arrive early in a period were made before it;
so the stream has no seams, and no trade is later than that. Tuples are Arrow columns of 32 bits, as
in the paper, and the symbol is a dictionary-encoded string.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DDL = "CREATE STREAM Trades (Symbol STRING, Price INT, Volume INT, Time INT)"
UBS = "UBSN"
PRICES = 10_000
VOLUMES = 1_000
OPENING = 36_000
"""The time of the first period; a multiple of every unit of time."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Shape:
    """``batches`` batches of ``rows`` tuples in ``seconds`` of the exchange, in equal parts.

    ``symbols`` and prices are equally likely. By default 10,000 tuples come in a second.
    """

    rows: int = 1 << 20
    batches: int = 16
    seconds: int = 1_680
    symbols: int = 16
    disorder: int = 60
    seed: int = 6

    @property
    def count(self) -> int:
        """The tuples of a period."""
        return self.rows * self.batches

    def names(self) -> list[str]:
        """The symbols, including that of the query."""
        names = [f"S{number:04}" for number in range(self.symbols)]
        names[self.symbols // 2] = UBS
        return names


class Trades:
    """A stream of trades: the batches of one period after another."""

    def __init__(self, shape: Shape = Shape()) -> None:  # noqa: B008  it is frozen
        self.shape = shape
        self.given = 0
        rng = np.random.default_rng(shape.seed)
        # Arrivals are in order, and a trade was made less than the disorder before its arrival.
        arrives = np.arange(shape.count) * (shape.seconds / shape.count)
        made = arrives - rng.random(shape.count) * shape.disorder
        self.times = np.floor(made).astype(np.int32)
        self.symbols = rng.integers(0, shape.symbols, shape.count, dtype=np.int32)
        self.prices = rng.integers(1, PRICES + 1, shape.count, dtype=np.int32)
        self.volumes = rng.integers(1, VOLUMES + 1, shape.count, dtype=np.int32)
        self._names = pa.array(shape.names())

    def part(self, number: int) -> slice:
        """The slice of a batch in its period."""
        start = number % self.shape.batches * self.shape.rows
        return slice(start, start + self.shape.rows)

    def shift(self, number: int) -> int:
        """The time of a batch's period."""
        return OPENING + number // self.shape.batches * self.shape.seconds

    def batch(self, number: int) -> pa.RecordBatch:
        """The tuples of a batch, counted from 0."""
        part = self.part(number)
        symbol = pa.DictionaryArray.from_arrays(pa.array(self.symbols[part]), self._names)
        time = self.times[part] + np.int32(self.shift(number))
        columns = [symbol, *map(pa.array, (self.prices[part], self.volumes[part], time))]
        return pa.RecordBatch.from_arrays(columns, ["Symbol", "Price", "Volume", "Time"])

    def take(self, count: int) -> list[tuple[int, pa.RecordBatch]]:
        """The next batches, with their numbers."""
        numbers = range(self.given, self.given + count)
        self.given += count
        return [(number, self.batch(number)) for number in numbers]


@dataclass(frozen=True)
class Part:
    """The aggregates of a batch, by unit of time from ``first`` on, and by key."""

    first: int
    count: Array
    total: Array
    least: Array
    greatest: Array


@dataclass
class Facts:
    """Count, sum, minimum and maximum of ``value`` per ``unit`` seconds, computed with NumPy.

    ``only``: of the trades of UBS. ``key``: by symbol or by price, else of all together. ``added``
    are the numbers of the batches that count.
    """

    trades: Trades
    unit: int
    value: str = "prices"
    only: bool = False
    key: str | None = None
    added: list[int] = field(default_factory=list)
    _parts: dict[int, Part] = field(default_factory=dict)

    @property
    def keys(self) -> int:
        """The number of possible keys."""
        if self.key is None:
            return 1
        return self.trades.shape.symbols if self.key == "symbols" else PRICES + 1

    def whole(self) -> Part:
        """The aggregates of everything added."""
        parts = [(self._shifted(number), self._part(number)) for number in self.added]
        first = min(at for at, _ in parts)
        units = max(at + len(part.count) for at, part in parts) - first
        found = empty(first, units, self.keys)
        for at, part in parts:
            place = slice(at - first, at - first + len(part.count))
            found.count[place] += part.count
            found.total[place] += part.total
            np.minimum(found.least[place], part.least, out=found.least[place])
            np.maximum(found.greatest[place], part.greatest, out=found.greatest[place])
        return found

    def _shifted(self, number: int) -> int:
        shift = self.trades.shift(number)
        assert shift % self.unit == 0, f"{shift} is no whole number of units of {self.unit} s"
        return self._part(number).first + shift // self.unit

    def _part(self, number: int) -> Part:
        """What a batch comes to in a period that begins at 0."""
        within = number % self.trades.shape.batches
        if within not in self._parts:
            self._parts[within] = self._computed(self.trades.part(number))
        return self._parts[within]

    def _computed(self, part: slice) -> Part:
        chosen: Any = part
        if self.only:
            wanted = self.trades.symbols[part] == self.trades.shape.symbols // 2
            chosen = part.start + np.flatnonzero(wanted)
        units = self.trades.times[chosen] // self.unit
        values = getattr(self.trades, self.value)[chosen].astype(np.int64)
        first = int(self.trades.times[part].min()) // self.unit
        cells = (units - first).astype(np.int64) * self.keys
        if self.key is not None:
            cells += getattr(self.trades, self.key)[chosen]
        last = int(self.trades.times[part].max()) // self.unit
        found = empty(first, last + 1 - first, self.keys)
        size = found.count.size
        found.count.flat[:] = np.bincount(cells, minlength=size)
        # As floats these sums are exact: they stay far below 2^53.
        found.total.flat[:] = np.bincount(cells, values, minlength=size)
        np.minimum.at(found.least.reshape(-1), cells, values)
        np.maximum.at(found.greatest.reshape(-1), cells, values)
        return found


def empty(first: int, units: int, keys: int) -> Part:
    """The aggregates of no tuples."""
    shape = (units, keys)
    limits = np.iinfo(np.int64)
    return Part(
        first,
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.full(shape, limits.max, np.int64),
        np.full(shape, limits.min, np.int64),
    )
