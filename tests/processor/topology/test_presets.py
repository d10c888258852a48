"""Topologies by name."""

from __future__ import annotations

import time

import pytest

from penstock.errors import TopologyError
from penstock.processor.topology.parts import Unit, UnitPort
from penstock.processor.topology.presets import WINDOW, topology_of
from penstock.processor.topology.topology import Topology


def numbers(topology: Topology) -> list[list[int]]:
    """The numbers of the blocks of each branch, from left to right."""
    return [[block.number for block in branch] for branch in topology.branches]


def depth(topology: Topology, number: int) -> int:
    """How many buffer nodes the results of a block go through."""
    at, passed = UnitPort(topology.blocks[number].name, "final"), 0
    while at != topology.exit:
        at = UnitPort(topology.wired[at].unit, "out")
        passed += 1
    return passed


def test_a_chain() -> None:
    chain = topology_of("fqp:chain:9:512")
    assert numbers(chain) == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert {block.window for block in chain.blocks.values()} == {512}
    assert chain.entries == (UnitPort("block-1", "r"), UnitPort("block-9", "s"))
    assert chain.ends == (UnitPort("block-9", "r-out"), UnitPort("block-1", "s-out"))
    # R leads right, S left.
    assert chain.wired[UnitPort("block-4", "r-out")] == UnitPort("block-5", "r")
    assert chain.wired[UnitPort("block-5", "s-out")] == UnitPort("block-4", "s")


def test_parallel_blocks() -> None:
    parallel = topology_of("fqp:parallel:3:16")
    assert numbers(parallel) == [[1], [2], [3]]
    assert [str(at) for at in parallel.entries] == [
        "block-1.r", "block-1.s", "block-2.r", "block-2.s", "block-3.r", "block-3.s",
    ]  # fmt: skip


def test_parallel_chains() -> None:
    assert numbers(topology_of("fqp:partial:2x3")) == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 16, 100])
def test_results_go_through_a_balanced_tree(count: int) -> None:
    topology = topology_of(f"fqp:chain:{count}")
    nodes = [unit for unit in topology.units if unit.kind == "buffer-node"]
    assert len(nodes) == count - 1
    depths = {depth(topology, number) for number in topology.blocks}
    assert max(depths) == (count - 1).bit_length()


def test_names_say_everything() -> None:
    assert topology_of("fqp:chain:9").name == f"fqp:chain:9:{WINDOW}"
    assert topology_of("fqp:partial:02x003:0512").name == "fqp:partial:2x3:512"
    assert topology_of("fqp:parallel:3").blocks[2] == Unit("block-2", "op-block", 2, WINDOW)


@pytest.mark.parametrize(("count", "bits"), [(1, 4), (16, 4), (17, 5), (4096, 12)])
def test_the_numbers_of_blocks_fit(count: int, bits: int) -> None:
    assert topology_of(f"fqp:parallel:{count}").widths.b_id == bits


FORMS = (
    "Write fqp:chain:N, fqp:parallel:N or fqp:partial:AxB, or with the window of each block "
    "fqp:chain:9:512, or the path of a TOML file."
)
CHAIN = "Write fqp:chain:N, as fqp:chain:9, or with the window of each block fqp:chain:9:512."
PARTIAL = (
    "Write fqp:partial:AxB, as fqp:partial:2x3, or with the window of each block "
    "fqp:partial:2x3:512."
)
WINDOWS = "Write how many tuples of each stream a block has room for: 1 to 1,073,741,824."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", f"there is no topology ''\n{FORMS}"),
        ("fqp:ring:3", f"there is no topology 'fqp:ring'\n{FORMS}"),
        ("FQP:chain:3", f"there is no topology 'FQP:chain'\n{FORMS}"),
        ("fqp:chain", f"fqp:chain: the number of blocks is ''\n{CHAIN}"),
        ("fqp:chain:x", f"fqp:chain:x: the number of blocks is 'x'\n{CHAIN}"),
        ("fqp:chain:-3", f"fqp:chain:-3: the number of blocks is '-3'\n{CHAIN}"),
        ("fqp:chain:٣", f"fqp:chain:٣: the number of blocks is '٣'\n{CHAIN}"),
        ("fqp:chain:2x3", f"fqp:chain:2x3: the number of blocks is '2x3'\n{CHAIN}"),
        ("fqp:chain:9:512:7", f"fqp:chain:9:512:7: '7' is left over\n{CHAIN}"),
        (
            "fqp:partial:6",
            f"fqp:partial:6: the numbers of branches and of blocks in each are '6'\n{PARTIAL}",
        ),
        ("fqp:chain:0", "fqp:chain:0: 0 blocks\nTake 1 to 4,096 blocks."),
        ("fqp:partial:2x0", "fqp:partial:2x0: 0 blocks\nTake 1 to 4,096 blocks."),
        ("fqp:chain:4097", "fqp:chain:4097: 4,097 blocks\nTake 1 to 4,096 blocks."),
        (
            "fqp:chain:1000000000",
            "fqp:chain:1000000000: 1,000,000,000 blocks\nTake 1 to 4,096 blocks.",
        ),
        (
            "fqp:partial:100x100",
            "fqp:partial:100x100: 10,000 blocks\nTake 1 to 4,096 blocks.",
        ),
        ("fqp:chain:9:", f"fqp:chain:9:: the window of each block is ''\n{WINDOWS}"),
        ("fqp:chain:9:0", f"fqp:chain:9:0: the window of each block is '0'\n{WINDOWS}"),
        ("fqp:chain:9:1e3", f"fqp:chain:9:1e3: the window of each block is '1e3'\n{WINDOWS}"),
        (
            "fqp:chain:9:9999999999",
            f"fqp:chain:9:9999999999: the window of each block is '9999999999'\n{WINDOWS}",
        ),
    ],
)
def test_errors_name_the_part(name: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        topology_of(name)
    assert str(caught.value) == message


@pytest.mark.parametrize("digits", ["10000000000", "9" * 5000])
def test_absurd_sizes_are_refused_at_once(digits: str) -> None:
    started = time.process_time()
    for name in (f"fqp:chain:{digits}", f"fqp:partial:{digits}x{digits}", f"fqp:chain:2:{digits}"):
        with pytest.raises(TopologyError):
            topology_of(name)
    assert time.process_time() - started < 0.5
