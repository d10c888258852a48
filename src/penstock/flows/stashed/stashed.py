"""Stashed-MJ (Najafi 2019 §6.2–6.3.3): two stages for three streams, and a stash for one pair.

The first stage has the windows of S1 and S2 and the stash of their pairs, the second the window of
S3. An arrival of S1 or S2 is compared with the other window of the pair in the first stage; the
pairs go to the second, and into the stash. An arrival of S3 is compared with the stash in the first
stage, and that is all. If the stash does not have all live pairs, it is compared with W_S1 in the
first stage and with W_S2 in the second; with recomputation, with a part of them. The two stages
work at the same time, on different chunks.

Why it is exact. Chunks come to both stages in their order, and each stage stores the tuples of a
chunk before it processes what belongs to it. So every tuple that was live for an arrival is in its
window; what came later, or had expired, is left out by number, rank and time, as in ``mjoin``. That
holds for W_S2 too, which the first stage may have filled with younger chunks by the time that the
second reads it. The rows of an S3 arrival are its matches among the pairs that are live for it.
Those that were formed before its chunk are in the stash or must be recomputed, never both
(:mod:`penstock.flows.stashed.stash`, :mod:`penstock.flows.stashed.recomputing_stash`); those of
the chunk are in the result storage unit, which grants them to the stash after the chunk. Whether a
pair satisfies its condition was decided when it was formed, and so was the time condition between
its two tuples. What a new tuple of S3 adds are the conditions of windows and times between it and
either of them, and they are decided when it comes. So the stash decides what is compared, never
what is found.

Why it never stalls. Messages go one way. The access lock of a window is held during a comparison or
a storage, and neither waits for anything else.

Why one pair only (§6.4.4). A second stash, say for S1 and S3, would spare the arrivals of S2 their
comparisons with W_S1 and W_S3. But they have to be compared with W_S1 all the same, to find the
pairs of the first stash. Only a stream that is in no stash is spared anything.

Which pair has the stash, and how large it is, is revised between two batches
(:mod:`penstock.flows.stashed.stash_revision`), as a change does it.

A change keeps the stash if the S1–S2 condition and windows stay the same. Else the new one begins
empty, and is invalid until the tuples that were live then have expired.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.blocks.multiway.combination_search import SearchProgram
from penstock.blocks.multiway.stage import Stage
from penstock.flows.circular.stage import JoinCore
from penstock.flows.multi_flow import (
    CHAIN,
    IN,
    RESULTS,
    Ending,
    MakeUnits,
    MultiFlow,
    NewTuples,
    Units,
    sets_and_chain,
)
from penstock.flows.network.network import Driver, Network
from penstock.flows.stashed.first_stage import GRANTED, OUT, FirstStage
from penstock.flows.stashed.recomputing_stash import Direction, RecomputingStash
from penstock.flows.stashed.second_stage import SecondStage
from penstock.flows.stashed.stash import AnyStash, Stash
from penstock.flows.stashed.stash_revision import StashRevision
from penstock.flows.stashed.storage import (
    ReadPort,
    Roles,
    StorageAndExpirationUnit,
    WindowAccessLock,
)
from penstock.program.choose.probe_order import NOTHING, ProbeOrder, staged
from penstock.program.choose.stash import StashPlan, assumed_plan, check_stash
from penstock.streams.windows import Rows

MakeStash = Callable[[SearchProgram, Roles, int], AnyStash]
MakeCore = Callable[..., JoinCore]


def stashed(
    driver: Callable[[Network], Driver], plan: StashPlan | None = None, size: int | None = None
) -> MultiFlow:
    """Stashed-MJ with recomputation on a driver.

    Without a plan, the pair is the one that the program suggests, and then the one that samples of
    arrivals do; ``size``: another number of pairs in the stash than planned.
    """
    return MultiFlow(stashed_units(plan, size), driver)


def recomputing_stash(program: SearchProgram, roles: Roles, size: int) -> AnyStash:
    """The stash of §6.3.3."""

    def direction(younger: int) -> Direction:
        probed = 1 - younger
        link = program.terms.link(roles.pair[probed], (roles.third,))
        indexed = probed if link != NOTHING else younger
        window = program.sides[roles.pair[indexed]].window
        return Direction(younger, indexed, window.size if isinstance(window, Rows) else None)

    clock = program.sides[roles.first].clock
    return RecomputingStash(size, clock, (direction(0), direction(1)))


def published_stash(program: SearchProgram, roles: Roles, size: int) -> AnyStash:
    """The stash of §6.2.2, which is of no use while it is invalid."""
    return Stash(size, program.sides[roles.first].clock)


def stashed_units(
    plan: StashPlan | None = None,
    size: int | None = None,
    make_stash: MakeStash = recomputing_stash,
    make_core: MakeCore = JoinCore,
) -> MakeUnits:
    """What makes the two stages.

    Parameters
    ----------
    plan
        The pair, and the size of its stash; None: as the program suggests, revised while it runs.
    size
        Another size of the stash than that of the plan.
    make_stash
        Makes the stash, of either kind.
    make_core
        Makes what reads a window; tests give one that takes notes.
    """

    def make(program: SearchProgram) -> Units:
        check_stash(len(program.sides), size)
        windows = [side.window for side in program.sides]
        return planned(program, plan or assumed_plan(program.terms, windows))

    def planned(program: SearchProgram, chosen: StashPlan) -> Units:
        check_stash(len(program.sides), chosen.size)
        roles = Roles(*chosen.roles)
        room = size or chosen.size
        stash = None if room is None else make_stash(program, roles, room)
        first, second = _stages(program, roles, stash, make_core)

        def succeed(before: Units) -> None:
            predecessor = before.probing[0]
            assert isinstance(predecessor, FirstStage)
            first.take_over(predecessor)

        return Units(
            _wired(first, second),
            [first, second],
            _awaited,
            succeed=succeed,
            revision=None if plan else StashRevision(program, chosen, size, planned),
        )

    return make


def _stages(
    program: SearchProgram, roles: Roles, stash: AnyStash | None, make_core: MakeCore
) -> tuple[FirstStage, SecondStage]:
    """The two stages, with the tuples that the windows have."""
    one, two, three = roles.first, roles.second, roles.third
    paths = {one: (two, three), two: (one, three), three: (one, two)}
    orders = [staged(program.terms, origin, paths[origin]) for origin in range(3)]
    around = staged(program.terms, three, (two, one))

    def stages(number: int, *of: ProbeOrder) -> dict[int, Stage]:
        return {order.origin: program.stage(order.stages[number]) for order in of}

    # A tuple of S3 begins in W_S1, and with recomputation in an interval of either window.
    from_both = stash is not None and 1 in stash.indexed
    windows = (
        make_core(program, one, stages(0, orders[two], orders[three])),
        make_core(program, two, stages(0, orders[one], *[around] * from_both)),
    )
    read = {two: stages(1, orders[three])} | ({one: stages(1, around)} if from_both else {})
    ports = {
        input: ReadPort(input, make_core(program, input, here), WindowAccessLock())
        for input, here in read.items()
    }
    storage = StorageAndExpirationUnit(program, roles, windows, list(ports.values()))
    if stash is not None:
        stash.begin_without(storage.live)
    newcomers = program.stage(orders[one].stages[1])
    first = FirstStage(program, roles, orders, newcomers, windows, storage, stash)
    window = make_core(program, three, stages(1, orders[one], orders[two]))
    return first, SecondStage(program, three, window, ports)


def _awaited(tuples: NewTuples) -> set[Ending]:
    """A chunk is done when either stage is done with it, whichever is the last."""
    return {(GRANTED, None), *sets_and_chain(tuples)}


def _wired(first: FirstStage, second: SecondStage) -> Network:
    """The pipeline; what the stash answers leaves it after the first stage."""
    network = Network([first, second])
    network.enter(IN, first, IN)
    network.wire(first, OUT, second, IN)
    network.leave(first, RESULTS, RESULTS)
    network.leave(first, GRANTED, GRANTED)
    network.leave(second, RESULTS, RESULTS)
    network.leave(second, CHAIN, CHAIN)
    return network
