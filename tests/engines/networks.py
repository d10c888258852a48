"""Drivers for the networks of queries; and what queries are sent, to send it again by others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st

from penstock.blocks.contract import ALONE, LETTERS, Batch, Instructions
from penstock.blocks.run import Letters, Run
from penstock.engines.local.engine import Engine
from penstock.engines.shared.pipeline import OwnNetwork, Pipeline
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network, run
from penstock.flows.network.threads import Threads
from penstock.program.isa.block_instructions import Program
from penstock.streams.batches import plain
from penstock.testing.schedule import Schedule

Drive = Callable[[Network], Driver]
SLOW = (
    "intake",
    *(f"{kind} #{number}" for kind in ("select", "join", "project") for number in (1, 2, 3, 4)),
)
"""Names of blocks that may be slower than the others; a network has some of them."""


@st.composite
def schedules(draw: st.DrawFn) -> Drive:
    """Any order of steps, little room or much, and some block slower than the others."""
    seed, capacity = draw(st.integers(0, 10**6)), draw(st.integers(1, 3))
    slow = {name: 9 for name in draw(st.lists(st.sampled_from(SLOW), max_size=2))}
    return lambda network: Schedule(network, seed, capacity, slow)


THREADS = st.integers(1, 3).map(lambda room: lambda network: Threads(network, room))
DRIVES: dict[str, st.SearchStrategy[Drive]] = {"threads": THREADS, "steps by a seed": schedules()}
"""The drivers that an engine does not use by itself."""


def driven(drive: Drive, **options: Any) -> Engine:
    """An engine whose queries are run by a driver."""
    engine = Engine(**options)
    engine._drive = drive
    return engine


# -- what queries are sent ------------------------------------------------------------------


@dataclass
class Recorded:
    """What was sent to a query, and what came out of it."""

    program: Program
    sent: list[tuple[str, Any]] = field(default_factory=list)
    came: list[tuple[str, Any]] = field(default_factory=list)

    def network(self) -> Network:
        """The same network, of blocks that have not been programmed yet."""
        made: list[Network] = []

        def kept(network: Network) -> Driver:
            made.append(network)
            return _Deaf(network)

        Pipeline(self.program, ALONE, partial(OwnNetwork, drive=kept))
        return made[0]

    def again(self, drive: Drive) -> tuple[list[Hashable], list[Hashable]]:
        """What comes out if all of it is sent at once, by another driver."""
        driver = drive(self.network())
        try:
            return output(run(driver, self.sent))
        finally:
            driver.close()


class _Deaf(Inline):
    """Loses what it is sent."""

    def send(self, entry: str, message: Any) -> bool:
        return True


class Recorder(Engine):
    """An engine that records what each of its queries is sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.recorded: list[Recorded] = []

    def _new_query(self, name: str, program: Program, derived: bool, flow: Any) -> Any:
        recorded = Recorded(program)
        self.recorded.append(recorded)
        self._drive = lambda network: Recording(network, recorded)
        return super()._new_query(name, program, derived, flow)


class Recording(Inline):
    """The driver on the caller's thread, with a record of what it gets and gives."""

    def __init__(self, network: Network, recorded: Recorded) -> None:
        super().__init__(network)
        self._recorded = recorded

    def send(self, entry: str, message: Any) -> bool:
        taken = super().send(entry, message)
        if taken:
            self._recorded.sent.append((entry, message))
        return taken

    def received(self) -> Iterator[tuple[str, Any]]:
        for came in super().received():
            self._recorded.came.append(came)
            yield came


def output(came: Iterable[tuple[str, Any]]) -> tuple[list[Hashable], list[Hashable]]:
    """The messages of ``out`` in their order, and the letters, which come by several exits."""
    messages = list(came)
    rows = [seen(message) for port, message in messages if port != LETTERS]
    return rows, sorted((seen(m) for port, m in messages if port == LETTERS), key=repr)


def seen(message: Any) -> Hashable:
    """A message that has come out as a value: rows, positions, controls; letters."""
    if isinstance(message, Batch):
        return message.first, message.next, message.is_last, *map(_seen_run, message.runs)
    if isinstance(message, Instructions):
        return str(message), *message.bodies
    assert isinstance(message, Letters)
    rows = str(plain(message.batch).to_pydict())
    positions = tuple(message.positions.tolist())
    return LETTERS, message.kind, message.stream, rows, positions, tuple(message.reasons)


def _seen_run(run: Run | None) -> Hashable:
    if run is None:
        return None
    rows = tuple((batch.schema, str(plain(batch).to_pydict())) for batch in run.inputs)
    return rows, tuple(run.positions.tolist()), run.controls
