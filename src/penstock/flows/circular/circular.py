"""Circular-MJ (Najafi 2019 §6.1, §6.4.8): a stage per stream, on a circular bus.

A stage has the window of one stream. New tuples go from stage to stage by the distribution chain:
each stage stores those of its own stream, and the first stage on an origin's path begins with those
of that origin. Intermediate results go along that path; they have a field for each stream, and the
stage fills its own. What the last stage finds leaves the pipeline. All stages work at the same
time, on different chunks.

Why it is exact. A combination must see, in every window, what was live when its origin arrived.
New tuples come to every stage in their order. A stage processes a set only after its chunk has come
by the chain, so all older tuples of its stream are stored; the order control unit leaves out the
younger ones, and finds in EBuf those that they have pushed out. What is found is therefore what
``mjoin`` finds, and each set ends once, when the set before it on the path has ended.

As published, a stage prefers an intermediate result to a new tuple without asking whether older
tuples are still in the chain. With windows of one tuple and the arrivals S2, S3, S1, the result of
S1 and S2 may come to the third stage before the tuple of S3 has, and the row is lost.

Why it never stalls. As published, a stage drops results when its buffer is almost full, since N
stages that wait for each other would wait for ever. Here each stage has a FIFO for each origin, and
serves another one while the results of one have no room. An origin's path does not change while
anything is under way, and has no stage twice. So the FIFO of an origin before a stage waits only
for that of the same origin before the next stage, the last one for the output, and none for itself.
A set may also wait for its chunk to come by, which needs room in OBuf. The oldest chunk that is
not finished everywhere finds room: in OBuf there is nothing older. So its sets go on, each along
its path; it is finished, and the next one is the oldest.

The path goes round the ring, from the stage after the origin's; a stage that no condition links
with what is bound is passed over, and comes when one does (§7.3.1). If none does, the next stage
makes a cross product.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from penstock.blocks.multiway.combination_search import SearchProgram
from penstock.flows.circular.order_control_unit import OrderControlUnit
from penstock.flows.circular.stage import JoinCore, PipelineStage, Way, port_of
from penstock.flows.multi_flow import CHAIN, IN, RESULTS, MakeUnits, MultiFlow, Units
from penstock.flows.network.network import Driver, Network
from penstock.program.choose.probe_order import NOTHING, JoinTerms, ProbeOrder, staged
from penstock.streams.windows import Rows

MakeStage = Callable[..., PipelineStage]
MakeCore = Callable[..., JoinCore]
MakeControl = Callable[..., OrderControlUnit]


def circular(driver: Callable[[Network], Driver]) -> MultiFlow:
    """Circular-MJ on a driver."""
    return MultiFlow(circular_units(), driver)


def circular_units(
    obuf_size: int | None = None,
    make_stage: MakeStage = PipelineStage,
    make_core: MakeCore = JoinCore,
    make_control: MakeControl = OrderControlUnit,
) -> MakeUnits:
    """What makes the stages and the bus.

    ``obuf_size`` is how many chunks OBuf has room for; None: as many as there are streams. Tests
    give the parts of a stage as they were published.
    """

    def make(program: SearchProgram) -> Units:
        streams = len(program.sides)
        paths = [ring_order(program.terms, origin, streams) for origin in range(streams)]
        stages = []
        for side in program.sides:
            number = side.index
            here = {
                path.origin: program.stage(plan)
                for path in paths
                for plan in path.stages
                if plan.input == number
            }
            ways = [
                Way(path.origin, path if path.stages[0].input == number else None)
                for path in paths
                if path.origin != number
            ]
            rows = side.window.size if isinstance(side.window, Rows) else None
            size = streams if obuf_size is None else obuf_size
            control = make_control(number, size, rows, side.rows.next, side.rows.first)
            core = make_core(program, number, here)
            stages.append(make_stage(number, streams, ways, core, control))
        return Units(_wired(stages, paths), stages)

    return make


def _wired(stages: list[PipelineStage], paths: list[ProbeOrder]) -> Network:
    """The distribution chain, and the bus with a FIFO for each origin."""
    network = Network(list(stages))
    network.enter(IN, stages[0], CHAIN)
    for here, following in pairwise(stages):
        network.wire(here, CHAIN, following, CHAIN)
    network.leave(stages[-1], CHAIN, CHAIN)
    for path in paths:
        port = port_of(path.origin)
        inputs = [stages[plan.input] for plan in path.stages]
        for here, following in pairwise(inputs):
            network.wire(here, port, following, port)
            here.following_buffers[path.origin] = following.stage_buffer
        network.leave(inputs[-1], port, RESULTS)
    return network


def ring_order(terms: JoinTerms, origin: int, streams: int) -> ProbeOrder:
    """The path of an origin: always the next stage on the ring that a condition links."""
    rest = [(origin + distance) % streams for distance in range(1, streams)]
    order: list[int] = []
    while rest:
        bound = (origin, *order)
        linked = [i for i in rest if terms.link(i, bound) != NOTHING]
        following = (linked or rest)[0]
        place = rest.index(following)
        order.append(following)
        # Those that were passed over come round again.
        rest = rest[place + 1 :] + rest[:place]
    return staged(terms, origin, tuple(order))
