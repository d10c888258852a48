"""A short run of the benchmark of topologies on Spark, each engine on a cluster in this process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from bench import fqp_spark
from tests.engines.spark.in_process import Cluster, connected


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(kind: str, **options: object) -> object:
        if kind == "spark":
            return connected(Cluster(eager=True), **options)
        return local(kind, **options)

    local = fqp_spark.ps.connect
    monkeypatch.setattr(fqp_spark.ps, "connect", connect)


@pytest.mark.long
def test_all_of_it_runs_and_its_rows_are_right() -> None:
    found = fqp_spark.run(quick=True)
    joins = found["band_join"].values()
    assert {entry["rows"] for entry in joins} == {12}
    assert all(entry["tuples_per_second"] > 0 for entry in joins)
    assert all(entry["triggers"] >= 1 for entry in found["changes"].values())
    assert {entry["queries"] for entry in found["fleet"].values()} == {6}


def test_texts_count_in_a_digest() -> None:
    def of(*names: str) -> object:
        table = pa.table({"z": list(names), "x": np.arange(len(names), dtype=np.int32)})
        return fqp_spark.table_digest([table])

    assert of("tuple-00000000000001", "tuple-00000000000002") == of(
        "tuple-00000000000001", "tuple-00000000000002"
    )
    assert of("tuple-00000000000001") != of("tuple-00000000000002")
