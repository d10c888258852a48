"""Queries over DataFrames whose processes are all killed, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from tests.engines.spark.dataframes.files import Folder
from tests.kill.campaign import HOOKS, ROOT
from tests.kill.hooks.sitecustomize import CASE

pytestmark = pytest.mark.xdist_group("processes")

PROGRAM = """
import sys
import uuid
from pathlib import Path
import penstock.spark as pss
from penstock.engines.spark.session import _start
from tests.engines.spark.dataframes.files import rows, start

folder = Path(sys.argv[1])
SUMS = (
    "SELECT x, COUNT(*) AS n, SUM(ts) AS total, window_end "
    "FROM r [RANGE 20 SLIDE 5 WATTR ts SLACK 0] GROUP BY x"
)
SQL = "SELECT r.ts, s.ts FROM r [ROWS 10] JOIN s [ROWS 10] ON r.x <= s.x"
spark = _start("local[2,4]")
tables = [spark.read.parquet(str(folder / name)) for name in "rs"]
streams = [
    spark.readStream.schema(t.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
    for name, t in zip("rs", tables)
]
joined = pss.sql(SQL, r=streams[0], s=streams[1], order_by="ts", cores=2)
summed = pss.sql(SUMS, r=streams[0], cores=2)
both = [start(joined, folder), start(summed, folder / "sums")]  # at the same time
for query in both:
    query.awaitTermination()
every = pss.sql(SQL, r=tables[0], s=tables[1], order_by="ts", cores=1)
last = tables[0].count() - 1  # the tuples at the end of the streams are still held
wanted = every.where(f"greatest(r_ts, s_ts) < {last}").collect()
print(len(wanted) > 250, rows(spark, folder) == sorted(map(tuple, wanted), key=str))
wanted = pss.sql(SUMS, r=tables[0], cores=1).where(f"window_end <= {last}").collect()
print(len(wanted) > 120, rows(spark, folder / "sums") == sorted(map(tuple, wanted), key=str))
spark.stop()
"""


def start(folder: Path, death: str = "") -> tuple[int, str]:
    """Run the program, which may be made to die; its exit status and its output."""
    environment = {
        **os.environ,
        "PENSTOCK_KILL": death,
        CASE: uuid.uuid4().hex,
        "PYTHONPATH": os.pathsep.join((str(HOOKS), str(ROOT), os.environ.get("PYTHONPATH", ""))),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=ROOT, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_rows_in_the_sink_are_all_rows_and_each_once(tmp_path: Path) -> None:
    size = 150
    for name, factor in (("r", 3), ("s", 5)):
        values = [i * factor % 7 for i in range(size)]
        table = pa.table({"ts": range(size), "x": values})
        Folder(tmp_path / name).add(*(table.slice(i, 50) for i in range(0, size, 50)))
    everybody, worker = tmp_path / "everybody", tmp_path / "worker"
    assert start(tmp_path, f"running:3:all:{everybody}") == (-signal.SIGKILL, "")
    # Spark tries a task again whose worker has died.
    assert start(tmp_path, f"running:2:worker:{worker}") == (0, "True True\nTrue True\n")
    assert everybody.exists()
    assert worker.exists()
