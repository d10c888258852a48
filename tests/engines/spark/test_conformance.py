"""Every script means the same on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.spark.engine import Engine
from penstock.testing import replay_text, run_on_oracle

FOLDER = Path(__file__).parents[2] / "conformance"
SCRIPTS = sorted(FOLDER.glob("*.flow"))


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_spark_meets_the_expectations(path: Path, shared_engine: Engine) -> None:
    script = path.read_text(encoding="utf-8")
    result = replay_text(script, engine=shared_engine, batch=1000)
    assert result.failures == []
    assert result.lines == run_on_oracle(script).lines
