"""The driver for work: one thread per unit, FIFOs between them, no lock while there is work.

A thread takes messages as long as it has any and the outputs they need have room. With nothing to
do it parks, and whoever then writes to one of its inputs, or makes room behind one of its outputs,
wakes it. The kernels run without the interpreter's lock, so threads of several cores do work at
the same time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from penstock.errors import PenstockError
from penstock.flows.bell import Bell
from penstock.flows.fifo import Fifo
from penstock.flows.network import Network, Port, Unit
from penstock.flows.passage import Passage

CAPACITY = 8
"""Messages that may wait before a unit. A message is a whole chunk of tuples."""


class CoreFailed(PenstockError):
    """A unit of a flow has raised an error."""


class Threads:
    """Runs a network. ``capacity`` bounds every FIFO."""

    def __init__(self, network: Network, capacity: int = CAPACITY) -> None:
        self._started = time.perf_counter()
        self._bell = Bell()
        self._workers = {unit.name: _Worker(unit, self._bell) for unit in network.units}
        self._entries: dict[str, tuple[Fifo, _Worker]] = {}
        self._exits: list[tuple[str, Fifo, _Worker]] = []
        for (source, output), (target, port) in network.wires.items():
            fifo = Fifo(capacity)
            self._workers[source].outputs[output] = fifo
            self._workers[source].readers[output] = self._workers[target]
            self._workers[target].read(port, fifo, self._workers[source])
        for name, (target, port) in network.entries.items():
            fifo = Fifo(capacity)
            self._workers[target].read(port, fifo, None)
            self._entries[name] = (fifo, self._workers[target])
        for (source, output), name in network.exits.items():
            fifo = Fifo(capacity)
            self._workers[source].outputs[output] = fifo
            self._exits.append((name, fifo, self._workers[source]))
        self._own = [
            self._workers[unit.name] for unit in network.units if unit.name in network.at_ends
        ]
        self._all = list(self._workers.values())
        self._ways = network.entries
        threads = [worker for worker in self._all if worker not in self._own]
        self._passage = Passage(self._all, threads, network.wires)
        for worker in self._all:
            worker.fellows = self._all
        for worker in self._all:
            if worker not in self._own:
                worker.start()

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False if there is no room, and nothing is done."""
        self._check()
        if getattr(message, "is_light", False) and self._passage.take(*self._ways[entry], message):
            self._check()
            return True
        fifo, worker = self._entries[entry]
        if not fifo.has_room:
            return False
        fifo.put(message)
        worker.wake()
        self._do_own()
        return True

    def received(self) -> list[tuple[str, Any]]:
        """Take what has come out, with the exit it came by."""
        self._do_own()
        came = []
        for name, fifo, worker in self._exits:
            was_full = not fifo.has_room
            while fifo.messages:
                came.append((name, fifo.get()))
            if was_full:
                worker.wake()
        if not came:
            self._check()
        return came

    def wait(self) -> None:
        """Return once something has come out, somebody has made room, or nothing moves."""
        self._bell.is_awaited = True
        # Whoever has failed before rings no more, and what waits before him moves no more.
        failed = any(worker.failure is not None for worker in self._all)
        if not failed and not (self._do_own() or self._has_come_out() or self.settled()):
            self._bell.wait()
        self._bell.is_awaited = False
        self._check()

    def settled(self) -> bool:
        """Whether no message is on its way and no unit has anything to do."""
        self._do_own()
        workers = self._all
        if any(worker.is_at_work for worker in workers):
            return False
        # A worker that is seen idle may be given something by one that is looked at later; that
        # one has then taken a message meanwhile.
        before = sum(worker.taken for worker in workers)
        return all(w.is_idle for w in workers) and before == sum(w.taken for w in workers)

    def depths(self) -> dict[str, int]:
        """How many messages wait before each unit."""
        return {
            name: sum(len(fifo) for fifo, _ in worker.inputs.values())
            for name, worker in self._workers.items()
        }

    def loads(self) -> dict[str, float]:
        """For which part of the time since the start each unit has been at work."""
        elapsed = time.perf_counter() - self._started
        return {name: worker.busy / elapsed for name, worker in self._workers.items()}

    def close(self) -> None:
        """Stop every thread; a step under way is finished first."""
        threads = [worker for worker in self._workers.values() if worker not in self._own]
        for worker in threads:
            worker.stop()
        for worker in threads:
            worker.join()

    def _do_own(self) -> bool:
        """Do the work of the units at the ends; False if there was none."""
        worked = False
        while any([worker.has_input and worker.work() for worker in self._own]):
            worked = True
        return worked

    def _has_come_out(self) -> bool:
        return any(len(fifo) for _, fifo, _ in self._exits)

    def _check(self) -> None:
        for worker in self._all:
            if worker.failure is not None:
                error, where = worker.failure, f"{worker.unit.name} failed at {worker.taking}"
                raise CoreFailed(
                    f"{where}: {type(error).__name__}: {error}",
                    "The query is stopped, since rows would be missing; install it again.",
                ) from error


class _Worker:
    """A thread and its unit."""

    def __init__(self, unit: Unit, driver: Bell) -> None:
        self.unit = unit
        self.inputs: dict[Port, tuple[Fifo, _Worker | None]] = {}
        self._waiting: list[deque[Any]] = []
        self.outputs: dict[Port, Fifo] = {}
        self.readers: dict[Port, _Worker] = {}
        self.fellows: list[_Worker] = []
        self.failure: BaseException | None = None
        self.taking: Any = None
        self.busy = 0.0
        self.taken = 0
        self._driver = driver
        self._bell = Bell()
        self._claim: deque[None] = deque([None])
        self._waits = True
        self._stopped = False
        self._thread: threading.Thread | None = None

    def read(self, port: Port, fifo: Fifo, source: _Worker | None) -> None:
        """Take messages from a FIFO that somebody writes, or the driver."""
        self.inputs[port] = (fifo, source)
        self._waiting.append(fifo.messages)

    def start(self) -> None:
        """Let a thread of its own do the work of the unit."""
        self._waits = False
        name = f"penstock {self.unit.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopped = True
        self._bell.ring()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Something may have changed for this unit."""
        if self._thread is None:
            self._driver.ring()
        else:
            self._bell.ring()

    @property
    def has_input(self) -> bool:
        """Whether a message waits for it."""
        return any(self._waiting)

    @property
    def is_at_work(self) -> bool:
        """Whether it does not wait."""
        return not self._waits

    @property
    def is_idle(self) -> bool:
        """Whether it waits, and for nothing that is there already."""
        return self._waits and not self._bell.has_rung and not any(self._waiting)

    def _run(self) -> None:
        try:
            while not self._stopped:
                if not self.work():
                    self._park()
        except BaseException as error:
            self.failure = error
            self._driver.ring()

    def _park(self) -> None:
        self._bell.is_awaited = True
        # Looked at again: whoever wrote before that saw no need to ring.
        if not self.work() and not self._stopped:
            self._waits = True
            if self._driver.is_awaited and all(worker.is_idle for worker in self.fellows):
                self._driver.ring()
            self._bell.wait()
            self._waits = False
        self._bell.is_awaited = False

    def _await_room(self, fifo: Fifo) -> None:
        while not fifo.has_room and not self._stopped:
            self._bell.is_awaited = True
            if not fifo.has_room and not self._stopped:
                self._bell.wait()
            self._bell.is_awaited = False

    def _room_for(self, port: Port) -> bool:
        needed = self.unit.needs(port)
        return needed is not None and all(self.outputs[output].has_room for output in needed)

    def _has_room(self, output: Port) -> bool:
        return self.outputs[output].has_room

    def work(self) -> bool:
        """Take a message from every input that has one; False if there was nothing to do.

        Nor if somebody else is doing it: a unit takes one step at a time.
        """
        if not self.claim():
            return False
        try:
            worked = False
            for port in self.inputs:
                worked = self._take(port) or worked
            for sent in self.unit.forward(self._has_room):
                self._put(*sent, ())
                worked = True
            return worked
        finally:
            self.release()

    def claim(self) -> bool:
        """Take the right to work; False if somebody else has it."""
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True

    def release(self) -> None:
        """Give the right back."""
        self._claim.append(None)

    def _take(self, port: Port) -> bool:
        """Take a message from an input; False if there is none, or no room for what comes of it."""
        fifo, source = self.inputs[port]
        if not fifo.messages or not self._room_for(port):
            return False
        started = time.perf_counter()
        was_full = not fifo.has_room
        message = fifo.get()
        self.taking = message
        self.taken += 1
        if was_full and source is not None:
            source.wake()
        elif was_full:
            self._driver.ring()
        needed = self.unit.needs(port) or ()
        for sent in self.unit.step(port, message):
            self._put(*sent, needed)
        self.busy += time.perf_counter() - started
        return True

    def _put(self, output: Port, message: Any, bounded: Sequence[Port]) -> None:
        """Write a message; a step that makes many waits wherever a reader is behind."""
        if output in bounded and self._thread is not None:
            self._await_room(self.outputs[output])
        self.outputs[output].put(message)
        reader = self.readers.get(output)
        if reader is None:
            self._driver.ring()
        else:
            reader.wake()
