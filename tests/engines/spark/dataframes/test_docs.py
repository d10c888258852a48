"""The examples of docs/spark.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.engines.spark.dataframes.files import Folder

from penstock.engines.spark.session import Session

PAGE = Path(__file__).parents[4] / "docs" / "spark.md"


def streams(session: Session, folder: Path) -> dict[str, Any]:
    chance = np.random.default_rng(1)
    made = {}
    for name, (one, other) in {"left_df": "xy", "right_df": "ab"}.items():
        number = np.arange(300)
        columns = {"ts": number // 2, "id": number}
        keys = {key: chance.integers(1, 100, 300) for key in (one, other)}
        made[name] = Folder(folder / name).add(pa.table({**columns, **keys})).stream(session.spark)
    return made


def test_the_examples_of_the_page_run(session: Session, tmp_path: Path) -> None:
    section = PAGE.read_text().split("\n## ")[1]
    examples = re.findall(r"```python\n(.*?)```", section, re.S)
    names: dict[str, Any] = {**streams(session, tmp_path), "folder": str(tmp_path)}
    for example in examples:
        exec(example, names)
    pairs = session.spark.read.parquet(f"{tmp_path}/pairs")
    assert pairs.columns == ["r_id", "s_id"]
    assert pairs.count() > 0
    written = session.spark.read.parquet(f"{tmp_path}/rows").count()
    assert written == names["counts"]["rows_out"] > 0
    assert names["counts"]["held"] == 4
