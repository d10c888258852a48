"""Random scripts on topologies inside Spark's cores, on the doubles without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.in_process import Cluster, connected
from tests.engines.spark.test_in_process import on_cluster
from tests.processor.test_topology_scripts import BATCHES, SIZES, TOPOLOGIES
from tests.random_topology import topology_scripts
from tests.steps import Step
from tests.test_random_scripts import check, on_oracle

from penstock.errors import StateError


@pytest.mark.parametrize("topology", TOPOLOGIES)
@examples(40)
@given(topology_scripts(), SIZES, BATCHES, st.integers(0, 1 << 30), st.integers(1, 3))
def test_rows_are_the_oracles_after_any_failure(
    topology: str, steps: list[Step], sizes: list[int], batch_rows: int, seed: int, cores: int
) -> None:
    found = on_cluster(
        steps,
        sizes,
        "int64",
        seed,
        batch_rows=batch_rows,
        compile_predicates=False,
        cores=cores,
        topology=topology,
    )
    check(steps, on_oracle(steps), found)


def test_a_checkpoint_goes_on_with_its_topology_only(tmp_path: Path) -> None:
    cluster = Cluster()
    with connected(cluster, checkpoint=tmp_path, topology="fqp:chain:2:8"):
        pass
    with (
        pytest.raises(StateError) as raised,
        connected(cluster, checkpoint=tmp_path, topology="fqp:chain:3:8"),
    ):
        pass
    assert str(raised.value) == (
        f"the checkpoint {tmp_path} was written with the topology 'fqp:chain:2:8', on whose blocks "
        "its queries stand; this engine is with the topology 'fqp:chain:3:8'\n"
        "Connect with that topology (topology='fqp:chain:2:8', --topology fqp:chain:2:8), or start "
        "in an empty folder."
    )
    with pytest.raises(StateError) as raised, connected(cluster, checkpoint=tmp_path):
        pass
    assert "this engine is without one" in str(raised.value)


def test_a_checkpoint_without_a_topology_is_refused_with_one(tmp_path: Path) -> None:
    cluster = Cluster()
    with connected(cluster, checkpoint=tmp_path):
        pass
    with (
        pytest.raises(StateError) as raised,
        connected(cluster, checkpoint=tmp_path, topology="fqp:chain:3:8"),
    ):
        pass
    assert str(raised.value) == (
        f"the checkpoint {tmp_path} was written without a topology, and its queries have blocks of "
        "their own\nConnect without a topology, or start in an empty folder."
    )
