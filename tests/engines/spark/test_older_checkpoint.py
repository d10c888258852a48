"""A checkpoint in an older format is refused, with its version named, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.older_formats import CORES, checkpoint, unpacked
from tests.engines.spark.in_process import Cluster, connected

import penstock as ps
from penstock.engines.spark.resident.checkpoint import verify
from penstock.engines.spark.state.chunks import FORMAT
from penstock.version import VERSION


def test_a_checkpoint_of_format_3_is_refused(tmp_path: Path) -> None:
    folder = unpacked(checkpoint(3), tmp_path / "checkpoint")
    with (
        pytest.raises(ps.StateError) as error,
        connected(Cluster(), checkpoint=folder, cores=CORES),
    ):
        pass
    assert str(error.value) == (
        f"the checkpoint {folder} was written by Penstock 0.2.0 before its release in the format "
        f"3; this is Penstock {VERSION}, which reads the format {FORMAT}\n"
        "Continue it with the version that wrote it, or start in an empty folder."
    )
    assert [str(damage) for damage in verify(folder).damages] == [str(error.value)]
