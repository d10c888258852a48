"""Random scripts on topologies inside Spark's cores, on the doubles without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.in_process import Cluster, connected
from tests.engines.spark.test_in_process import on_cluster
from tests.processor.test_topology_scripts import BATCHES, SIZES, TOPOLOGIES, scripts_for
from tests.random_topology import blocks_to_span
from tests.test_random_scripts import check, in_any_order, on_oracle

from penstock import Topology
from penstock.errors import StateError


@pytest.mark.product(3)
@pytest.mark.parametrize("topology", (*TOPOLOGIES, blocks_to_span(1), blocks_to_span(2)), ids=str)
@examples(25)
@given(st.data(), SIZES, BATCHES, st.integers(0, 1 << 30), st.integers(1, 3))
def test_rows_are_the_oracles_after_any_failure(
    topology: str | Topology,
    data: st.DataObject,
    sizes: list[int],
    batch_rows: int,
    seed: int,
    cores: int,
) -> None:
    steps = data.draw(scripts_for(topology))
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
    expected = on_oracle(steps)
    if isinstance(topology, Topology):
        expected, found = in_any_order(expected), in_any_order(found)
    check(steps, expected, found)


def test_cores_that_have_no_branch_are_warned_of() -> None:
    with (
        pytest.warns() as warned,
        connected(Cluster(), cores=4, topology="fqp:partial:2x6:8") as engine,
    ):
        engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
        engine.sql("CREATE STREAM D AS SELECT x FROM R WHERE x > 1")
        in_both = engine.queries["D"].explain().splitlines()[-2]
        query = engine.install("SELECT r.x FROM R [ROWS 24] r JOIN S [ROWS 9] s ON r.x = s.a")
        other = engine.install("SELECT r.x FROM R [ROWS 40] r JOIN S [ROWS 9] s ON r.x = s.a")
        assert query.program.flow.blocks == (2, 3, 4)
        assert other.program.flow.blocks == (8, 9, 10, 11, 12)
        lines = [one.explain().splitlines()[-2] for one in (query, other)]
    assert [str(one.message) for one in warned] == [
        "cores=4, and the topology fqp:partial:2x6:8 has 2 branches, each in one core; connect "
        "with cores=2, or take a topology of more branches, such as fqp:partial:4x3"
    ]
    assert [in_both, *lines] == [
        f"distribution: {where} of 4, numbered from 0; each branch of the topology is in one"
        for where in ("cores 0 and 1", "core 0", "core 1")
    ]


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
