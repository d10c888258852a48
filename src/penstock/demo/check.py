"""Checks the demo's rows against DuckDB, which shares nothing with Penstock but the data."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.demo.data import BAND, WIDER, Data

MISSING = "DuckDB is not installed, so nothing was checked: pip install 'penstock[check]'."

# A pair is joined if the earlier tuple was among the last ``window`` of its stream when the later
# one arrived; the band is the one in force at that arrival. The cells, 20 by 20, only spare DuckDB
# the pairs that are too far apart.
CHECK = """\
WITH near AS (
  SELECT *, a // 20 + i AS row, CAST(floor(b / 20) AS INTEGER) + j AS col
  FROM S, (VALUES (-1), (0), (1)) AS t (i), (VALUES (-1), (0), (1)) AS u (j)),
pairs AS (
  SELECT r.x, r.y, r.z, s.a, s.b, s.c, s.d, least(r.pos, s.pos) AS earlier,
    CASE WHEN greatest(r.pos, s.pos) < $change THEN $band ELSE $wider END AS band
  FROM R AS r JOIN near AS s ON r.x // 20 = s.row AND CAST(floor(r.y / 20) AS INTEGER) = s.col
  WHERE CASE WHEN r.pos < s.pos THEN r.seq >= s.others - $window
             ELSE s.seq >= r.others - $window END)
SELECT x, y, z, a, b, c, d, earlier < $change AND band = $wider AS across FROM pairs
WHERE x BETWEEN a - band AND a + band
  AND y BETWEEN CAST(b - CAST(band AS FLOAT) AS FLOAT) AND CAST(b + CAST(band AS FLOAT) AS FLOAT)
ORDER BY z, c"""


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison; ``across`` counts pairs from both sides of the change."""

    same: bool
    rows: int
    across: int
    seconds: float
    version: str

    def __str__(self) -> str:
        return "the same" if self.same else f"NOT the same: DuckDB has {self.rows:,}"


def check(data: Data, found: pa.Table, window: int, change: int | None = None) -> Verdict | None:
    """Compare ``found`` with DuckDB's rows; None if DuckDB is not installed.

    ``change`` is the position where the band became wider, if it did.
    """
    try:
        import duckdb
    except ImportError:
        return None
    started = time.perf_counter()
    arrivals = len(data.which)
    parameters = {
        "window": window,
        "change": arrivals if change is None else change,
        "band": BAND,
        "wider": WIDER,
    }
    with duckdb.connect() as connection:
        for name, table in _with_positions(data).items():
            connection.register(name, table)
        answer = connection.sql(CHECK, params=parameters).to_arrow_table()
    expected = answer.drop_columns(["across"])
    ours = found.sort_by([("z", "ascending"), ("c", "ascending")])
    return Verdict(
        same=bool(ours.cast(expected.schema).equals(expected)),
        rows=answer.num_rows,
        across=int(np.count_nonzero(answer["across"].to_numpy())),
        seconds=time.perf_counter() - started,
        version=duckdb.__version__,
    )


def _with_positions(data: Data) -> dict[str, pa.Table]:
    """The streams as tables, with the columns that decide which tuples were in a window together.

    ``pos`` is a tuple's position among all arrivals, ``seq`` its number in its stream, ``others``
    the number of earlier tuples of the other stream.
    """
    tables = {}
    for name, table in data.tables().items():
        numbers = np.arange(table.num_rows)
        table = table.append_column("seq", pa.array(numbers))
        tables[name] = table.append_column("others", pa.array(table["pos"].to_numpy() - numbers))
    return tables
