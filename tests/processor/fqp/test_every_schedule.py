"""Programming in every schedule: instructions, their tokens and tuples on small topologies."""

from __future__ import annotations

import copy
import itertools
import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.networks import DRIVES, Recorded, Recording, seen
from tests.random_topology import blocks_to_span, fleet_scripts, topology_scripts
from tests.steps import Step
from tests.test_random_scripts import check, in_any_order, on_oracle, run_on

from penstock import Topology, topology
from penstock.blocks.contract import Batch, Port, Sent, Site
from penstock.engines.local.engine import Engine
from penstock.processor.fqp import processor as fqp
from penstock.processor.fqp.left_end import LeftEnd
from penstock.processor.fqp.processor import Processor, lay
from penstock.processor.op_block.messages import (
    OnTheWay,
    Programming,
    Results,
    SharedRows,
    Slice,
    Token,
)
from penstock.processor.op_block.op_block import MOST_AHEAD, OPBlock
from penstock.processor.op_block.query_buffer import MakeBlock, QueryBuffer
from penstock.program.isa.op_instructions import Bypass, OPInstruction, ResetBlock
from penstock.program.isa.words.encoding import encode
from penstock.program.isa.words.layout import WordLayout
from penstock.testing.explore import Exploration, Units, explore
from penstock.testing.schedule import Step as Taken

# -- units as values ------------------------------------------------------------------------


class RememberingBuffer(QueryBuffer):
    """A Query Buffer whose state is what it has taken: it decides what the queries are."""

    def __init__(self, make: MakeBlock) -> None:
        super().__init__(make)
        self.history: tuple[Hashable, ...] = ()

    def take(self, instructions: Sequence[OPInstruction], position: int, site: Site) -> None:
        self.history += ((position, repr(instructions)),)
        super().take(instructions, position, site)

    def fork(self) -> RememberingBuffer:
        return copy.deepcopy(self)

    def key(self) -> Hashable:
        return self.history


class RememberingBlock(OPBlock):
    """An OP-Block whose state is what its Query Buffer has taken, and what waits."""

    queries: RememberingBuffer

    def __init__(self, name: str, number: int, layout: WordLayout, make: MakeBlock) -> None:
        super().__init__(name, number, layout, make)
        self.queries = RememberingBuffer(make)

    def _process(self, of_r: Slice) -> Iterator[Sent]:
        with_s = bool(self._of_s) and self._of_s[0].first == of_r.first
        self.queries.history += ((of_r.first, of_r.only, tuple(of_r.runs), with_s),)
        yield from super()._process(of_r)


@pytest.fixture(autouse=True)
def remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fqp, "OPBlock", RememberingBlock)


# -- what is sent, and what comes of it -----------------------------------------------------


@dataclass
class Sending:
    """What a topology is sent for a script, and what comes out of it for each query."""

    topology: Topology
    messages: list[tuple[str, Any]]
    expected: dict[int, list[Hashable]]

    def explore(self, *, fails: bool = False) -> Exploration:
        """Every schedule, all of which lead to the same; ``fails``: some do not."""
        wrong: list[str] = []

        def compare(came: list[Any], steps: list[Taken]) -> None:
            if by_query(came) != self.expected:
                wrong.append("\n".join(map(str, steps)))

        units = Units(lay(self.topology).network, observed)
        explored = explore(units, [self.messages], compare)
        assert bool(wrong) == fails, wrong[0] if wrong else "every schedule is right"
        return explored


def observed(message: Any) -> list[tuple[int, Hashable]]:
    """What a message that leaves says of each query; of streams that blocks have made, nothing."""
    if not isinstance(message, Results):
        return []
    found: list[tuple[int, Hashable]] = []
    for one in message.outputs:
        if isinstance(one, SharedRows):
            found += [(query, seen(Batch(0, 0, (run,)))) for query, run in one.each()]
        else:
            failed = isinstance(one.message, Exception)
            found.append((one.query, str(one.message) if failed else seen(one.message)))
    return found


def by_query(came: Iterable[tuple[int, Hashable]]) -> dict[int, list[Hashable]]:
    """What each query is given, in order; between queries there is none."""
    found: dict[int, list[Hashable]] = defaultdict(list)
    for query, one in came:
        found[query].append(one)
    return dict(found)


def sent_for(on: Topology, steps: list[Step], size: int) -> Sending:
    """What a topology is sent for a script whose rows on it are the oracle's."""
    engine = Engine(topology=on, compile_predicates=False)
    record = Recorded(None)  # type: ignore[arg-type]  # there is no network of its own
    processor = engine._processor
    assert processor is not None
    processor._driver = Recording(processor._network, record)
    rows, *_ = on_oracle(steps)
    found, *_ = run_on(engine, steps, [size])
    assert found == rows | {step.subject: [] for step in steps if step.verb == "derive"}
    expected = by_query(one for _, message in record.came for one in observed(message))
    return Sending(on, record.sent, expected)


def of(stream: str, time: int, number: int) -> Step:
    return Step("tuple", stream, (time, number, 1.5, "a", None))


def report(name: str, explored: Iterable[Exploration]) -> Exploration:
    total = Exploration()
    for one in explored:
        total.states += one.states
        total.steps += one.steps
        total.ends += one.ends
        total.orders += one.orders
    print(f"{name}: {total}")
    return total


# -- every schedule -------------------------------------------------------------------------

JOIN = "SELECT r.x AS r, s.a AS a FROM R [ROWS {}] AS r JOIN S [ROWS {}] AS s ON r.x {} s.a"
BEFORE, AFTER = JOIN.format(2, 2, "="), JOIN.format(1, 2, "<=")


def with_a_change(tuples: str) -> Iterator[list[Step]]:
    """Scripts with these tuples, and a change between any two of them, before and after them."""
    arrivals = [of(stream, time, time % 2) for time, stream in enumerate(tuples)]
    for place in range(len(arrivals) + 1):
        yield [
            Step("install", "j", BEFORE),
            *arrivals[:place],
            Step("change", "j", AFTER),
            *arrivals[place:],
        ]


ORDERS = [
    "".join(order)
    for each in (2, 3)
    for order in sorted(set(itertools.permutations("R" * each + "S" * each)))
]


@pytest.mark.product(3, "name")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ("fqp:chain:1:4", "fqp:chain:2:4"))
def test_a_join_changes_between_any_two_tuples(name: str, order: str) -> None:
    found = (sent_for(topology(name), steps, 1).explore() for steps in with_a_change(order))
    assert report(f"{name}, {order}", found).orders > 10**6


SEVERAL = [
    Step("derive", "D", "SELECT r.* FROM R AS r WHERE r.x >= 1"),
    Step("install", "few", "SELECT d.x FROM D AS d WHERE d.t > 0"),
    Step("install", "j", JOIN.format(2, 2, "=").replace("FROM R", "FROM D")),
    of("R", 1, 1),
    of("S", 2, 1),
    Step("change", "D", "SELECT r.* FROM R AS r WHERE r.x >= 2"),
    of("R", 3, 1),
    Step("drop", "few"),
    of("R", 3, 2),
    Step("install", "all", "SELECT r.x, r.t FROM R AS r"),
    Step("change", "j", JOIN.format(2, 1, "<>").replace("FROM R", "FROM D")),
    of("R", 4, 2),
]
"""Queries that read one another come, change and go; one gets the number of one that has gone."""


@pytest.mark.long
@pytest.mark.product(1)
@pytest.mark.parametrize("size", (1, 3))
def test_several_queries_come_change_and_go(size: int) -> None:
    sending = sent_for(topology("fqp:chain:2:8"), SEVERAL, size)
    assert sorted(sending.expected) == [1, 2]
    total = report(f"several queries, runs of {size}", [sending.explore()])
    assert total.orders > 10**15


def test_branches_do_not_wait_for_each_other() -> None:
    steps = [
        Step("install", "few", "SELECT r.x FROM R AS r WHERE r.x >= 1"),
        Step("install", "j", BEFORE),
        of("R", 1, 1),
        Step("change", "few", "SELECT r.t FROM R AS r WHERE r.x >= 1"),
        of("S", 2, 1),
    ]
    total = report("two branches", [sent_for(topology("fqp:parallel:2:4"), steps, 3).explore()])
    assert total.orders > 10**9


# -- what the rules are for -----------------------------------------------------------------


class Impatient(LeftEnd):
    """Lets R in before the instructions have come through."""

    def step(self, port: Port, message: OnTheWay) -> Iterable[Sent]:
        if port == "s" and isinstance(message, Programming):
            return ()
        return (("r-out", message),) if port == "r" else super().step(port, message)


class Hasty(RememberingBlock):
    """Takes instructions when they come, and not when their token does."""

    def _instructed(self, message: Programming) -> Iterator[Sent]:
        yield from super()._instructed(message)
        for _ in self._token(Token(message.serial)):
            pass


CHANGED = next(itertools.islice(with_a_change("RSRS"), 2, None))


def test_if_r_did_not_wait_at_its_end_tuples_would_overtake_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sending = sent_for(topology("fqp:chain:2:4"), CHANGED, 1)
    monkeypatch.setattr(fqp, "LeftEnd", Impatient)
    report("R does not wait", [sending.explore(fails=True)])


def test_instructions_taken_without_their_token_would_be_in_force_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sending = sent_for(topology("fqp:chain:2:4"), CHANGED, 1)
    monkeypatch.setattr(fqp, "OPBlock", Hasty)
    report("without tokens", [sending.explore(fails=True)])


# -- instructions that find no block --------------------------------------------------------


def test_instructions_for_blocks_that_are_not_there_leave_at_the_end_in_every_schedule() -> None:
    on = topology("fqp:chain:2:4")
    told = [OPInstruction(2, 0, ResetBlock("final")), OPInstruction(3, 7, Bypass())]
    words = encode(told, on.widths)
    messages = [("s 0", Programming(1, 0, words, Site())), ("r 0", Token(1))]
    left: list[Any] = []

    def compare(came: list[Any], steps: list[Taken]) -> None:
        left.append(came)

    units = Units(lay(on).network, lambda m: [m.words] if isinstance(m, Programming) else [])
    explored = explore(units, [messages], compare)
    assert explored.orders > 1
    assert left == [[encode(told[1:], on.widths)]]


@pytest.mark.parametrize("name", ("fqp:chain:2:4", "fqp:parallel:2:4"))
def test_instructions_that_find_no_block_are_told(name: str) -> None:
    processor = Processor(topology(name))
    told = [
        OPInstruction(1, 3, ResetBlock("final")),
        OPInstruction(4, 3, ResetBlock("final")),
        OPInstruction(4, 5, Bypass()),
        OPInstruction(9, 5, Bypass()),
    ]
    with pytest.warns() as warned:
        assert list(processor.program(told, 0, Site())) == []
    assert [str(one.message) for one in warned] == [
        f"2 instructions of query 3 and 5 for block 4 left the topology {name} without finding it; "
        "its blocks are numbered 1 to 2",
        f"1 instruction of query 5 for block 9 left the topology {name} without finding it; its "
        "blocks are numbered 1 to 2",
    ]
    assert processor.strays == told[1:]
    assert list(processor.blocks[1].queries.parts) == [3]


# -- a block that queries have left ----------------------------------------------------------


def test_a_block_without_queries_takes_s_however_far_it_is_ahead() -> None:
    on = topology("fqp:chain:1:8")
    engine = Engine(topology=on, compile_predicates=False)
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
    engine.install(
        "SELECT r.x, s.a FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.a", name="j"
    )
    assert engine._processor is not None
    block = engine._processor.blocks[1]
    gone = encode([OPInstruction(1, 0, Bypass())], on.widths)
    list(block.step("s", Programming(9, 5, gone, Site())))
    for first in range(MOST_AHEAD):
        list(block.step("s", Slice(first, first + 1, {})))
    assert block.needs("s") is None
    assert list(block.step("r", Token(9))) == [("r-out", Token(9))]
    assert block.needs("s") == ("s-out",)


# -- other drivers --------------------------------------------------------------------------


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t.name for t in threading.enumerate() if t not in before]
    assert [name for name in left if name.startswith("penstock ")] == []


@pytest.mark.usefixtures("no_thread_is_left")
@pytest.mark.parametrize("driver", DRIVES)
@pytest.mark.parametrize("name", ("fqp:chain:6:40", "fqp:partial:2x5:40", "spanning"))
@examples(25)
@given(st.data(), st.lists(st.sampled_from((1, 1, 2, 3, 50)), min_size=1, max_size=3))
def test_rows_are_the_oracles_by_every_driver(
    driver: str, name: str, data: st.DataObject, sizes: list[int]
) -> None:
    spans = name == "spanning"
    on = blocks_to_span(1) if spans else topology(name)
    scripts = topology_scripts(True) if spans else topology_scripts() | fleet_scripts()
    steps, drive = data.draw(scripts), data.draw(DRIVES[driver])
    engine = Engine(topology=on, compile_predicates=False)
    processor = engine._processor
    assert processor is not None
    processor._drive = drive
    processor.restart()
    try:
        expected, found = on_oracle(steps), run_on(engine, steps, sizes)
        if spans:
            expected, found = in_any_order(expected), in_any_order(found)
        check(steps, expected, found)
    finally:
        engine.close()
        processor.close()
