"""Saved engines and checkpoints of older formats, kept as files: later versions refuse them.

``python -m tests.engines.older_formats`` writes a file of each, in the present formats. It was run
before a format changed; existing files must not be written again.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from penstock.engines.local import state as local_state
from penstock.engines.local.engine import Engine as LocalEngine
from penstock.engines.spark.engine import Engine as SparkEngine
from penstock.engines.spark.state import chunks as spark_state

DATA = Path(__file__).parents[1] / "data"
CORES = 2
STREAMS = (
    "CREATE STREAM R (t BIGINT, x INT, w VARCHAR) TIMESTAMP BY t; "
    "CREATE STREAM S (t BIGINT, x INT, w VARCHAR) TIMESTAMP BY t"
)
QUERIES = {
    "pairs": "SELECT r.t AS r, s.t AS s, r.w FROM R [RANGE 100 WATTR t SLACK 5] AS r "
    "JOIN S [ROWS 4] AS s ON r.x BETWEEN s.x - 1 AND s.x + 1",
    "lonely": "SELECT r.t, r.w FROM R [ROWS 3] AS r ANTI JOIN S [ROWS 3] AS s ON r.w = s.w",
    "sums": "SELECT x, COUNT(*) AS n, SUM(t) AS sum, window_end "
    "FROM R [RANGE 20 SLIDE 10 WATTR t SLACK 5] GROUP BY x",
}


def saved_engine(format: int) -> Path:
    """The file of an engine that was saved in that format."""
    return DATA / f"saved-engine-format-{format}.penstock"


def checkpoint(format: int) -> Path:
    """The archive of a checkpoint of that format."""
    return DATA / f"checkpoint-format-{format}.zip"


def begin(engine: Any) -> None:
    """Windows, groups and rows for the engine to hold: a join, an anti join and an aggregate."""
    engine.sql(STREAMS)
    for name, text in QUERIES.items():
        engine.install(text, name=name)
    for number in range(3):
        _push(engine, number)
    engine.wait()


def _push(engine: Any, number: int) -> None:
    for stream, count in (("R", 8), ("S", 6)):
        tuples = [{"t": 10 * number + k, "x": k % 3, "w": f"w{k % 5}"} for k in range(count)]
        engine.push(stream, tuples[number % 4 :] if stream == "S" else tuples)


def write() -> None:
    """Write both files."""
    DATA.mkdir(exist_ok=True)
    with LocalEngine(compile_predicates=False) as engine:
        begin(engine)
        engine.save(saved_engine(local_state.FORMAT))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "checkpoint"
        with SparkEngine(checkpoint=folder, cores=CORES, compile_predicates=False) as engine:
            begin(engine)
        path = checkpoint(spark_state.FORMAT)
        shutil.make_archive(str(path.with_suffix("")), "zip", folder)


def unpacked(archive: Path, folder: Path) -> Path:
    """The checkpoint of an archive, in a folder."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


if __name__ == "__main__":
    write()
