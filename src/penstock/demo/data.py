"""The streams of the demo and the query over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams.events import Merged

KEYS = 10_000
BAND, WIDER = 10, 20
STREAMS = """\
CREATE STREAM R (x int32, y float, z string);
CREATE STREAM S (a int32, b float, c double, d boolean);"""
SELECT = "SELECT r.x, r.y, r.z, s.a, s.b, s.c, s.d"
CONDITION = (
    "ON r.x BETWEEN s.a - {band} AND s.a + {band} AND r.y BETWEEN s.b - {band} AND s.b + {band}"
)


def near(window: int, band: int) -> str:
    """The query: pairs within ``band`` in both dimensions, of the last ``window`` tuples each."""
    windows = f"FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s"
    return f"{SELECT}\n{windows}\n{CONDITION.format(band=band)}"


@dataclass(frozen=True)
class Size:
    """The size of a demo: ``arrivals`` of both streams together, ``chunk`` at a time."""

    window: int
    arrivals: int
    chunk: int

    @property
    def change(self) -> int:
        """The position of the change: after half of the chunks."""
        return -(-self.arrivals // self.chunk) // 2 * self.chunk


@dataclass(frozen=True)
class Data:
    """Both streams, and the stream (0 for R, 1 for S) of each arrival."""

    r: pa.RecordBatch
    s: pa.RecordBatch
    which: npt.NDArray[np.int8]

    def chunks(self, size: int) -> Iterator[Merged]:
        """The arrivals in order, ``size`` at a time."""
        seen = np.zeros(2, dtype=np.int64)
        for start in range(0, len(self.which), size):
            which = self.which[start : start + size]
            counts = np.bincount(which, minlength=2)
            batches = tuple(
                batch.slice(int(begin), int(count))
                for batch, begin, count in zip((self.r, self.s), seen, counts, strict=True)
            )
            seen += counts
            yield Merged(("R", "S"), batches, which)

    def first(self, arrivals: int) -> Data:
        """The first ``arrivals`` arrivals."""
        which = self.which[:arrivals]
        of_s = int(np.count_nonzero(which))
        return Data(self.r.slice(0, len(which) - of_s), self.s.slice(0, of_s), which)

    def tables(self) -> dict[str, pa.Table]:
        """The streams by name, as tables with each tuple's position among all arrivals."""
        tables = {}
        for index, (name, batch) in enumerate((("R", self.r), ("S", self.s))):
            positions = pa.array(np.flatnonzero(self.which == index))
            tables[name] = pa.Table.from_batches([batch]).append_column("pos", positions)
        return tables


def generate(arrivals: int) -> Data:
    """Random streams: keys uniform in 1 to 10,000; z and c number the tuples of their streams."""
    random = np.random.default_rng(2011)
    which = random.integers(0, 2, arrivals).astype(np.int8)
    of_s = int(np.count_nonzero(which))
    of_r = arrivals - of_s
    r = {"x": _whole(random, of_r), "y": _real(random, of_r), "z": _names(of_r)}
    s = {
        "a": _whole(random, of_s),
        "b": _real(random, of_s),
        "c": pa.array(np.arange(of_s, dtype=np.float64)),
        "d": pa.array(random.random(of_s) < 0.5),
    }
    return Data(pa.RecordBatch.from_pydict(r), pa.RecordBatch.from_pydict(s), which)


def _whole(random: np.random.Generator, count: int) -> pa.Array[Any]:
    return pa.array(random.integers(1, KEYS + 1, count).astype(np.int32))


def _real(random: np.random.Generator, count: int) -> pa.Array[Any]:
    return pa.array(random.uniform(1, KEYS, count).astype(np.float32))


def _names(count: int) -> pa.Array[Any]:
    digits = pc.utf8_lpad(pc.cast(pa.array(np.arange(count)), pa.string()), 14, "0")
    return pc.replace_substring_regex(digits, "^", "tuple-", max_replacements=1)
