"""Queries over DataFrames in processes of their own: what is compiled there, and Connect."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("processes")

HEAD = """
import os
import sys
from pathlib import Path
import pyarrow as pa
import penstock.spark as pss
from penstock.engines.spark.jvm import find_java, java_home
from tests.engines.spark.dataframes.files import Folder, rows, run

folder = Path(sys.argv[1])
size = 120
tables = [pa.table({"ts": range(size), "x": [i * k % 7 for i in range(size)]}) for k in (3, 5)]
folders = [
    Folder(folder / name).add(table.slice(0, 50), table.slice(50))
    for name, table in zip("rs", tables, strict=True)
]
SQL = "SELECT r.ts, s.ts FROM r [ROWS 10] JOIN s [ROWS 10] ON r.x = s.x"

def wanted(spark):
    left, right = (one.table(spark) for one in folders)
    every = pss.sql(SQL, r=left, s=right, order_by="ts", cores=1)
    # The tuples at the end of the streams are still held.
    return sorted(map(tuple, every.where(f"greatest(r_ts, s_ts) < {size - 1}").collect()), key=str)
"""

# Loaded by every Python process of the program below: notes what Numba compiles of the predicates.
NOTE_COMPILATIONS = """
import os
from numba.core import event

class Note(event.Listener):
    def on_start(self, one):
        source = one.data["dispatcher"].py_func.__code__.co_filename
        if source.startswith(os.environ["PENSTOCK_CACHE"]):
            with open(os.environ["COMPILED"], "a") as file:
                file.write(f"{os.getpid()}\\n")

    def on_end(self, one):
        pass

event.register("numba:compile", Note())
"""

COMPILE = """
from penstock.engines.spark.session import _start

spark = _start("local[2]")
later = [Folder(folder / f"{name} later").add(*(table.slice(i * 40, 40) for i in range(3)))
         for name, table in zip("rs", tables, strict=True)]
left, right = (one.stream(spark) for one in later)
notes = Path(os.environ["COMPILED"])
counts = []

def count(batch, number):
    counts.append((batch.count() > 0, len(notes.read_text().split()) if notes.exists() else 0))

pairs = pss.sql(SQL, r=left, s=right, order_by="ts", cores=2)
query = pairs.writeStream.foreachBatch(count).trigger(availableNow=True).start()
query.awaitTermination()
print(counts)
spark.stop()
"""

CONNECT = """
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["JAVA_HOME"] = str(java_home(find_java()))
spark = SparkSession.builder.remote("local[2]").getOrCreate()
left, right = (one.stream(spark) for one in folders)
try:
    pss.sql(SQL, r=left, s=right, order_by="ts")
except Exception as error:
    print(error)
run(pss.sql(SQL, r=left, s=right, order_by="ts", cores=2), folder)
print(len(rows(spark, folder)) > 100, rows(spark, folder) == wanted(spark))
spark.stop()
"""


def output(code: str, folder: Path, hooks: str = "", **environment: str) -> list[str]:
    """What a program prints, without the warnings of Spark; ``hooks`` has a sitecustomize."""
    root = str(Path(__file__).parents[4])
    path = os.pathsep.join(filter(None, (hooks, root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code, str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_predicate_is_compiled_once_on_a_machine(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(NOTE_COMPILATIONS)
    places = {"PENSTOCK_CACHE": str(tmp_path / "cache"), "COMPILED": str(tmp_path / "compiled")}
    first = ast.literal_eval(output(COMPILE, tmp_path / "1", str(hooks), **places)[0])
    compiled = first[0][1]
    assert compiled > 0
    # Later batches compile nothing, whoever of the workers has them.
    assert first == [(True, compiled)] * 3


def test_spark_connect_gives_the_same_rows(tmp_path: Path) -> None:
    assert output(CONNECT, tmp_path) == [
        "Spark Connect does not tell how many cores there are",
        "Pass a number: pss.sql(..., cores=4).",
        "True True",
    ]
