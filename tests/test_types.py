"""The public names as a type checker, ``help()`` and ``dir()`` show them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import penstock as ps
import penstock.spark
import penstock.testing
from penstock.engines.local.engine import Engine, LocalOptions
from penstock.engines.spark.engine import Engine as SparkEngine
from penstock.engines.spark.engine import SparkOptions
from penstock.program.isa import flow, kernels
from penstock.streams.display import html_table

ROOT = Path(__file__).parents[1]

SCRIPT = """
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
import penstock.spark as pss

table = pa.table({"x": [1]})


def right(session: SparkSession, frame: pl.DataFrame) -> None:
    engine = ps.connect("local", batch_rows=5, push_timeout=0.5, window_memory=None)
    spark = ps.connect("spark", cores=2, checkpoint=Path("here"), master="local[2]")
    ps.connect(session, keep_results=True)
    ps.connect().run_id.upper()
    engine.push("R", table)
    engine.push("R", frame)
    engine.push("R", pd.DataFrame({"x": [1]}))
    engine.push("R", [{"x": 1}, {"x": None, "name": "b"}])
    spark.push("R", table.to_batches()[0])
    query = engine.install("SELECT x FROM R", "q", "outer", "hash", flow="splitjoin", cores=2)
    query.rows().to_pylist()
    query.state.upper()
    engine.explain("SELECT x FROM R", "wid", admission="shed").upper()
    ps.restore("state", buffer_rows=10).push("R", [])
    query.drain_letters("late")
    ps.sql("SELECT x FROM R", R=table, S="s.csv", T=[{"x": 1}], order="inner").num_rows


def right_on_frames(df: DataFrame) -> DataFrame:
    pss.split(df).rows.show()
    return pss.sql("SELECT x FROM r", {"s": df}, merge="arrival", order_by="ts", cores=2, r=df)


def wrong(session: SparkSession, df: DataFrame) -> None:
    pss.sql("SELECT x FROM r", merge="arrive", r=df)  # wrong
    pss.sql("SELECT x FROM r", core=2, r=df)  # wrong
    pss.sql("SELECT x FROM r", output="complete", r=df)  # wrong
    pss.sql("SELECT x FROM r", r="r.csv")  # wrong
    ps.connect("local", batch_row=5)  # wrong
    ps.connect("local", cores=2)  # wrong
    ps.connect("local", push_timeout="30")  # wrong
    ps.connect("spark", window_memory=5)  # wrong
    ps.connect(session, core=2)  # wrong
    ps.connect("locl")  # wrong
    engine = ps.connect("local")
    engine.run_id  # wrong
    engine.push("R", "x.csv")  # wrong
    engine.push("R", {"x": 1})  # wrong
    engine.push("R", [1, 2])  # wrong
    engine.push(7, table)  # wrong
    engine.install("SELECT x FROM R", kernel="hsh")  # wrong
    engine.install("SELECT x FROM R", order="inwards")  # wrong
    engine.install("SELECT x FROM R", flow="split")  # wrong
    engine.install("SELECT x FROM R", admission="drop")  # wrong
    engine.install("SELECT x FROM R", core=2)  # wrong
    ps.restore("state", cores=2)  # wrong
    ps.sql("SELECT x FROM R", R=7)  # wrong
    ps.sql("SELECT x FROM R", R=table, flow="split")  # wrong
"""


def test_a_type_checker_tells_right_calls_from_wrong_ones(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    # In the project, whose cache of what it knows of the sources makes this quick.
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = {int(line) for line in re.findall(r"user\.py:(\d+): error", ran.stdout)}
    lines = SCRIPT.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    missed = [lines[number - 1] for number in sorted(wrong - told)]
    assert (missed, ran.stderr) == ([], "")
    assert told == wrong, ran.stdout


@pytest.mark.parametrize(
    ("engine", "options"), [(Engine, LocalOptions), (SparkEngine, SparkOptions)]
)
def test_the_options_of_connect_are_those_of_the_engine(engine: Any, options: Any) -> None:
    parameters = {
        name: parameter.annotation
        for name, parameter in inspect.signature(engine).parameters.items()
        if name != "session"
    }
    assert options.__annotations__.keys() == parameters.keys()
    written = {
        name: annotation.__forward_arg__ for name, annotation in options.__annotations__.items()
    }
    assert written == parameters


@pytest.mark.parametrize("engine", [Engine, SparkEngine])
def test_help_of_connect_lists_every_option_with_its_default(engine: Any) -> None:
    told = inspect.getdoc(ps.connect) or ""
    for name, parameter in inspect.signature(engine).parameters.items():
        if name != "session":
            assert f"{name} : {parameter.annotation} = {parameter.default!r}\n    " in told


@pytest.mark.parametrize("engine", [Engine, SparkEngine])
@pytest.mark.parametrize("method", ["install", "push"])
def test_help_of_a_method_lists_every_parameter(engine: Any, method: str) -> None:
    function = getattr(engine, method)
    told = inspect.getdoc(function) or ""
    listed = re.findall(r"^(\w+(?:, \w+)*)\n    \S", told, re.MULTILINE)
    names = {name for line in listed for name in line.split(", ")}
    assert inspect.signature(function).parameters.keys() - {"self"} - names == set()


def test_the_literals_are_what_there_is() -> None:
    assert get_args(flow.FlowName) == tuple(flow.FLOWS)
    assert get_args(flow.DesignName) == flow.DESIGN_NAMES
    assert get_args(kernels.Kernel) == (*kernels.JOIN_KERNELS, *kernels.AGGREGATE_KERNELS)
    assert get_args(flow.Admission) == flow.ADMISSIONS
    assert get_args(flow.Order) == ("none", "outer", "inner")
    assert get_type_hints(Engine.install)["order"] == flow.Order | None


@pytest.mark.parametrize("module", [ps, penstock.testing, penstock.spark])
def test_dir_has_the_public_names_alone(module: types.ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
    public = [name for name in module.__all__ if not name.startswith("__")]
    assert not any(isinstance(getattr(module, name), types.ModuleType) for name in public)


def test_what_dir_hides_can_be_imported() -> None:
    names: dict[str, Any] = {}
    exec("from penstock import *\nimport penstock.errors\nfrom penstock import engines", names)
    assert names["connect"] is ps.connect
    assert names["sql"] is ps.sql
    assert names["penstock"].errors.SqlError is names["SqlError"]
    assert set(ps.__all__) <= names.keys()
    assert "Any" not in names


def test_a_table_without_rows_is_one() -> None:
    assert html_table(["x"], []) == (
        "<table><thead><tr><th>x</th></tr></thead><tbody></tbody></table>"
    )
