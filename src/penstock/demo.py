"""The two-dimensional band join of Teubner & Mueller 2011 (§6) on generated streams.

It is changed while the streams flow, and its answer is checked by DuckDB, which shares nothing
with Penstock but the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock
from penstock.streams.events import Merged
from penstock.streams.tables import aligned

Say = Callable[[str], None]
KEYS = 10_000
BAND, WIDER = 10, 20
STREAMS = """\
CREATE STREAM R (x int32, y float, z string);
CREATE STREAM S (a int32, b float, c double, d boolean);"""
QUERY = """\
SELECT r.x, r.y, r.z, s.a, s.b, s.c, s.d
FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s
ON r.x BETWEEN s.a - {band} AND s.a + {band} AND r.y BETWEEN s.b - {band} AND s.b + {band}"""

# A pair is joined if, when the later of the two arrived, the earlier one was among the last
# ``window`` of its stream; the band is the one in force at that arrival. The buckets, 20 wide, only
# spare DuckDB the pairs that are too far apart.
CHECK = """\
WITH spread AS (SELECT *, a // 20 + step AS bucket FROM S, (VALUES (-1), (0), (1)) AS t (step)),
pairs AS (
  SELECT r.z, s.c, r.x, s.a, r.y, s.b,
    CASE WHEN greatest(r.pos, s.pos) < $change THEN $band ELSE $wider END AS band
  FROM R AS r JOIN spread AS s ON r.x // 20 = s.bucket
  WHERE CASE WHEN r.pos < s.pos THEN r.seq >= s.others - $window
             ELSE s.seq >= r.others - $window END)
SELECT z, c FROM pairs
WHERE x BETWEEN a - band AND a + band
  AND y BETWEEN CAST(b - CAST(band AS FLOAT) AS FLOAT) AND CAST(b + CAST(band AS FLOAT) AS FLOAT)
ORDER BY z, c"""


@dataclass(frozen=True)
class Size:
    """How much the demo does: ``arrivals`` of both streams together, ``chunk`` at a time."""

    window: int = 1 << 15
    arrivals: int = 1 << 18
    chunk: int = 1 << 13


@dataclass(frozen=True)
class Data:
    """Both streams, and of which of them (0 for R, 1 for S) each arrival is."""

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


def generate(arrivals: int) -> Data:
    """Keys uniform in 1 to 10,000; z and c number the tuples of their streams."""
    random = np.random.default_rng(2011)
    which = random.integers(0, 2, arrivals).astype(np.int8)
    of_s = int(np.count_nonzero(which))
    of_r = arrivals - of_s
    names = [f"tuple-{index:014d}" for index in range(of_r)]
    r = {"x": _whole(random, of_r), "y": _real(random, of_r), "z": pa.array(names)}
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


def run_demo(say: Say, size: Size = Size()) -> bool:  # noqa: B008  (frozen)
    """Tell what happens through ``say``. False if DuckDB's answer is another one."""
    data = generate(size.arrivals)
    query = QUERY.format(window=size.window, band=BAND)
    say("Two streams, and a join that needs no equality: all pairs whose keys are near each other")
    say(f"in two dimensions, among the last {size.window:,} tuples of each stream.")
    say("")
    for line in f"{STREAMS}\n{query};".splitlines():
        say(f"  {line}")
    say("")
    with penstock.connect("local") as engine:
        engine.sql(STREAMS)
        say("First as the papers do it, comparing every pair (kernel nested-loop):")
        installed = engine.install(query, name="near", kernel="nested-loop")
        found = _flow(engine, installed, data, size, say)
    same = _with_index(query, data, size, found, say)
    return _check(data, size, found, say) and same


def _with_index(query: str, data: Data, size: Size, expected: pa.Table, say: Say) -> bool:
    """The same streams and the same change with the kernel that the planner chooses."""
    chunks = list(data.chunks(size.chunk))
    half = len(chunks) // 2
    with penstock.connect("local") as engine:
        engine.sql(STREAMS)
        installed = engine.install(query, name="near")
        engine.feed(chunks[:1])
        tables = [installed.rows()]
        started = time.perf_counter()
        for number, chunk in enumerate(chunks[1:], 1):
            if number == half:
                installed.change(QUERY.format(window=size.window, band=WIDER))
            engine.feed([chunk])
            tables.append(installed.rows())
        seconds = time.perf_counter() - started
        kernel = installed.program.joins[0].kernel
    found = pa.concat_tables(tables)
    tuples = size.arrivals - len(chunks[0])
    same = bool(found.equals(expected))
    say(
        f"The same once more with the kernel that EXPLAIN names, {kernel}: "
        f"{tuples / seconds:,.0f} tuples/s, {'the same rows' if same else 'OTHER ROWS'}."
    )
    return same


def _flow(engine: Any, query: Any, data: Data, size: Size, say: Say) -> pa.Table:
    """Both halves of the streams, with the change between them; all rows."""
    chunks = list(data.chunks(size.chunk))
    half = len(chunks) // 2
    started = time.perf_counter()
    engine.feed(chunks[:1])
    say(f"Compiled and started in {time.perf_counter() - started:.1f} s.")
    first = query.rows()
    before = _part(engine, query, chunks[1:half], say)
    say("A few of the rows:")
    for line in aligned(pa.concat_tables([first, before.rows]).slice(0, 4)):
        say(f"  {line}")
    say("")
    query.change(QUERY.format(window=size.window, band=WIDER))
    say(f"Now the band becomes ±{WIDER} instead of ±{BAND}, by q.change(...): the query goes on,")
    say("and its windows keep their tuples.")
    say("")
    after = _part(engine, query, chunks[half:], say)
    if before.rate:
        say(
            f"Twice as wide in two dimensions: {after.rate / before.rate:.1f} times as many rows "
            "for as many comparisons."
        )
    return pa.concat_tables([first, before.rows, after.rows])


@dataclass(frozen=True)
class _Part:
    """The rows of some arrivals, and how many there were for each comparison."""

    rows: pa.Table
    rate: float


def _part(engine: Any, query: Any, chunks: list[Merged], say: Say) -> _Part:
    """Feed some arrivals and tell how fast they went."""
    compared = query.metrics()["comparisons"]
    tables: list[pa.Table] = [query.schema.empty_table()]
    started = time.perf_counter()
    for chunk in chunks:
        engine.feed([chunk])
        tables.append(query.rows())
    seconds = time.perf_counter() - started
    tuples = sum(map(len, chunks))
    compared = query.metrics()["comparisons"] - compared
    rows = pa.concat_tables(tables)
    say(
        f"{tuples:,} tuples in {seconds:.1f} s: {tuples / seconds:,.0f} tuples/s, "
        f"{compared / seconds / 1e9:.2f} G comparisons/s on one core, {rows.num_rows:,} rows."
    )
    return _Part(rows, rows.num_rows / compared if compared else 0.0)


def _check(data: Data, size: Size, found: pa.Table, say: Say) -> bool:
    try:
        import duckdb
    except ImportError:
        say("DuckDB is not installed, so nothing was checked: pip install 'penstock[check]'.")
        return True
    chunks = -(-len(data.which) // size.chunk)
    started = time.perf_counter()
    tables = _with_positions(data)
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        parameters = {
            "change": chunks // 2 * size.chunk,
            "band": BAND,
            "wider": WIDER,
            "window": size.window,
        }
        expected = connection.execute(CHECK, parameters).fetchall()
    seconds = time.perf_counter() - started
    ours = found.select(["z", "c"]).sort_by([("z", "ascending"), ("c", "ascending")])
    same = list(zip(ours["z"].to_pylist(), ours["c"].to_pylist(), strict=True)) == expected
    verdict = "the same" if same else f"NOT the same: DuckDB has {len(expected):,}"
    say(
        f"Checked with DuckDB {duckdb.__version__} on the same data ({seconds:.1f} s): "
        f"{found.num_rows:,} rows, {verdict}."
    )
    return same


def _with_positions(data: Data) -> dict[str, pa.Table]:
    """The streams as tables, with what tells which tuples were in a window together.

    ``pos`` is a tuple's position among all arrivals, ``seq`` its number in its stream, ``others``
    how many tuples of the other stream came before it.
    """
    tables: dict[str, pa.Table] = {}
    for index, (name, batch) in enumerate((("R", data.r), ("S", data.s))):
        positions = np.flatnonzero(data.which == index)
        numbers = np.arange(len(positions))
        table = pa.Table.from_batches([batch])
        table = table.append_column("pos", pa.array(positions))
        table = table.append_column("seq", pa.array(numbers))
        tables[name] = table.append_column("others", pa.array(positions - numbers))
    return tables
