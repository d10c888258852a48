"""One light message all the way through a network, in the thread of whoever sent it.

To wake a thread takes longer than a core takes to compare a tuple with its part of a window. So a
tuple that comes alone, while everybody waits, is not left in FIFOs for threads to find: the same
units take the same messages, handed from one to the next. They take turns, as if they worked at the
same time, so that what each finds it finds early.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from penstock.flows.fifo import Fifo
from penstock.flows.network import Port, Sent, Unit


class Worker(Protocol):
    """Whoever works for a unit, and can be kept from it: :mod:`penstock.flows.threads`."""

    unit: Unit
    inputs: dict[Port, tuple[Fifo, Any]]
    outputs: dict[Port, Fifo]
    failure: BaseException | None
    taking: Any
    busy: float
    taken: int

    def claim(self) -> bool:
        """Take the right to work; False if somebody else has it."""

    def release(self) -> None:
        """Give the right back."""

    def wake(self) -> None:
        """Something may have changed for this unit."""

    @property
    def has_input(self) -> bool:
        """Whether a message waits for it."""


class Passage:
    """Through the units of all these workers; ``wires`` are those of their network.

    ``threads`` are those of the workers that others than the caller work for.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        threads: Sequence[Worker],
        wires: Mapping[tuple[str, Port], tuple[str, Port]],
    ) -> None:
        self._threads = threads
        self._waiting = [fifo.messages for worker in workers for fifo, _ in worker.inputs.values()]
        stops = {worker.unit.name: _Stop(worker, worker in threads) for worker in workers}
        for (source, output), (target, port) in wires.items():
            stops[source].ways[output] = stops[target], port
        self._stops = stops

    def take(self, unit: str, port: Port, message: Any) -> bool:
        """Hand a message to a unit, and on; False if somebody is at work: then nothing is done.

        If a unit fails, its worker has the failure.
        """
        claimed = []
        try:
            for worker in self._threads:
                if not worker.claim():
                    return False
                claimed.append(worker)
            if any(self._waiting):
                return False
            self._pass(self._stops[unit], port, message)
            return True
        finally:
            for worker in claimed:
                worker.release()
                if worker.has_input:
                    worker.wake()  # its thread may have looked meanwhile, and found it claimed

    def _pass(self, stop: _Stop, port: Port, message: Any) -> None:
        turns: deque[_Stop] = deque()
        stop.hand(port, message, turns)
        while turns:
            stop = turns.popleft()
            try:
                if not stop.is_timed:
                    stop.turn(turns)
                    continue
                started = time.perf_counter()
                stop.turn(turns)
                stop.worker.busy += time.perf_counter() - started
            except BaseException as error:
                stop.worker.failure = error
                return
        for stop in self._stops.values():
            for port, message in stop.inbox:  # it waits for something that comes later
                stop.worker.inputs[port][0].put(message)
            stop.inbox.clear()


class _Stop:
    """A unit on the way: what it is giving, and what it takes next."""

    __slots__ = ("_sent", "_waits", "inbox", "is_timed", "ways", "worker")

    def __init__(self, worker: Worker, is_timed: bool) -> None:
        self.worker = worker
        self.is_timed = is_timed
        self.ways: dict[Port, tuple[_Stop, Port]] = {}
        self.inbox: deque[tuple[Port, Any]] = deque()
        self._sent: Iterator[Sent] | None = None
        self._waits = True

    def hand(self, port: Port, message: Any, turns: deque[_Stop]) -> None:
        """Give it a message, and a turn."""
        self.inbox.append((port, message))
        if self._waits:
            self._waits = False
            turns.append(self)

    def turn(self, turns: deque[_Stop]) -> None:
        """Go on until a message is made; there is another turn if there may be something to do."""
        if self._sent is None and not self._begins(turns):
            self._waits = True
            return
        if self._sent is not None:
            made = next(self._sent, None)
            if made is None:
                self._sent = None
            else:
                self._send(made, turns)
        turns.append(self)

    def _begins(self, turns: deque[_Stop]) -> bool:
        """Take the next message that the unit takes now; False if there is none."""
        worker, unit = self.worker, self.worker.unit
        for number, (port, message) in enumerate(self.inbox):
            if unit.needs(port) is not None:
                del self.inbox[number]
                worker.taking = message
                worker.taken += 1
                sent = unit.step(port, message)
                if isinstance(sent, list):  # all has been made
                    for made in sent:
                        self._send(made, turns)
                else:
                    self._sent = iter(sent)
                return True
        return False

    def _send(self, made: Sent, turns: deque[_Stop]) -> None:
        output, message = made
        way = self.ways.get(output)
        if way is None:
            self.worker.outputs[output].put(message)
        else:
            way[0].hand(way[1], message, turns)
