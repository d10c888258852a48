"""Starting Spark where there is no Java, and leaving nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engines.spark.session import quick_files

EXAMPLES = Path(__file__).parents[3] / "examples"
START = """
from penstock.engines.spark.session import open_session
first, second = open_session(1), open_session(1)
first.close()
print(second.spark.range(3).count(), second.spark.conf.get("spark.driver.host"))
second.close()
from pyspark import SparkContext
print(SparkContext._active_spark_context)
"""


@pytest.mark.xdist_group("spark")
def test_spark_starts_quietly_without_java_and_stops_with_its_last_user(tmp_path: Path) -> None:
    for name in os.listdir("/usr/bin"):
        if name != "java" and not (tmp_path / name).exists():
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environment["PATH"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, env=environment
    )
    assert (done.stdout, done.stderr) == ("3 127.0.0.1\nNone\n", "")


@pytest.mark.parametrize(
    ("master", "chosen", "set_by_us"),
    [("local[2]", None, True), ("local", "a.Class", False), ("spark://host:7077", None, False)],
)
def test_checkpoints_on_one_machine_are_written_without_running_programs(
    master: str, chosen: str | None, set_by_us: bool
) -> None:
    spark: Any = SimpleNamespace(
        conf={"spark.sql.streaming.checkpointFileManagerClass": chosen} if chosen else {},
        sparkContext=SimpleNamespace(master=master),
    )
    assert bool(quick_files(spark)) is set_by_us


def test_importing_penstock_does_not_import_spark() -> None:
    code = "import sys, penstock, penstock.cli.commands; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_explain_tells_how_spark_shares_a_query_without_importing_it() -> None:
    command = ["explain", f"{EXAMPLES}/trades.sql", "--order-by", "ts", "--cores", "2"]
    for name in ("trades", "quotes"):
        command += ["--stream", f"{name}={EXAMPLES}/{name}.csv"]
    code = (
        "import sys\nfrom penstock.cli.commands import main\n"
        "try:\n    main()\nfinally:\n    print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == [
        "distribution: broadcast to 2 cores, each tuple stored on one (SplitJoin)",
        "False",
    ], done.stderr
