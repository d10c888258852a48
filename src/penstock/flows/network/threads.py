"""The driver for work: one thread per unit, FIFOs between them, no lock while there is work.

A thread takes messages as long as it has any and the outputs they need have room. With nothing to
do it parks, and the neighbour that writes to one of its inputs, or makes room behind one of its
outputs, wakes it. The kernels release the interpreter's lock, so threads of several cores run in
parallel.

To wake a thread takes longer than to compare one tuple with a core's part of a window. So a
single-tuple push into an idle network does not go through FIFOs: :class:`DirectPass` hands it from
unit to unit in the caller's thread. The units take turns, as if they worked in parallel, so that
each finds its pairs early.

If a unit fails, the threads end, and the caller's thread finishes what the other units have been
sent. So all that the unit made before comes out, whichever thread was ahead; then the error is
raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from penstock.errors import PenstockError
from penstock.flows.network.network import Fifo, Network, Paced, Port, Sent
from penstock.flows.network.owned_thread import OwnedThread
from penstock.tuning import TUNING

CAPACITY = 8
"""Messages that may wait before a unit. A message is a whole chunk of tuples."""


class CoreFailed(PenstockError):
    """A unit of a flow has raised an error."""


class Threads:
    """Runs a network. ``capacity`` bounds every FIFO.

    The threads end with :meth:`close`, or when nothing refers to the driver any more: a caller that
    is interrupted while it makes a query leaves none behind.
    """

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
        self._pass = DirectPass(self._all, threads, network.wires)
        for worker in self._all:
            worker.fellows = self._all
        for worker in threads:
            worker.start(self)

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False if there is no room, and nothing is done."""
        if self._finish_failed():
            return False
        if getattr(message, "is_light", False) and self._pass.take(*self._ways[entry], message):
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
            self._finish_failed()
        return came

    def wait(self) -> None:
        """Return once something has come out, there is room, nothing moves, or time has passed."""
        self._bell.is_awaited = True
        # A failed thread rings no more, and the messages in front of it move no more.
        if not (self._failed() or self._do_own() or self._has_come_out() or self.settled()):
            self._bell.wait(TUNING.longest_step)
        self._bell.is_awaited = False
        self._finish_failed()

    def settled(self) -> bool:
        """Whether no message is on its way or has come out, and no unit has anything to do."""
        self._do_own()
        workers = self._all
        if any(worker.is_at_work for worker in workers):
            return False
        # A worker seen idle may get a message from one that is checked later; that one has then
        # taken a message meanwhile.
        before = sum(worker.taken for worker in workers)
        idle = all(w.is_idle for w in workers) and before == sum(w.taken for w in workers)
        return idle and not self._has_come_out()

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

    def _failed(self) -> list[_Worker]:
        return [worker for worker in self._all if worker.failure is not None]

    def _finish_failed(self) -> bool:
        """After a failure, finish what is not lost by it; raise it once that has been taken.

        False if no unit has failed.
        """
        if not self._failed():
            return False
        self.close()
        while any([worker.finish() for worker in self._all if worker.failure is None]):
            pass
        if not self._has_come_out():
            self._check()
        return True

    def _check(self) -> None:
        """Raise the failure of a unit: of several the last, which had come less far."""
        for worker in reversed(self._failed()):
            error, where = worker.failure, f"{worker.unit.name} failed at {worker.taking}"
            if isinstance(error, PenstockError):
                raise error
            raise CoreFailed(
                f"{where}: {type(error).__name__}: {error}",
                "The query is stopped, since rows would be missing; install it again.",
            ) from error


class _Worker:
    """A thread and its unit."""

    def __init__(self, unit: Paced, driver: Bell) -> None:
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
        self._thread: OwnedThread | None = None

    def read(self, port: Port, fifo: Fifo, source: _Worker | None) -> None:
        """Take messages from a FIFO; ``source`` writes it, or the driver where that is None."""
        self.inputs[port] = (fifo, source)
        self._waiting.append(fifo.messages)

    def start(self, owner: Threads) -> None:
        """Let a thread of its own do the work of the unit."""
        self._waits = False
        self._thread = OwnedThread(owner, self.unit.name, self._run, self._bell.rings)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        if self._thread is not None:
            self._thread.ask_to_end()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.wait_for_end()

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

    @property
    def _must_end(self) -> bool:
        return self._thread is not None and self._thread.must_end

    def _run(self) -> None:
        try:
            while not self._must_end:
                if not self.work():
                    self._park()
        except BaseException as error:
            self.failure = error
            self._driver.ring()

    def _park(self) -> None:
        self._bell.is_awaited = True
        # Checked again: a neighbour that wrote before ``is_awaited`` was set did not ring.
        if not self.work() and not self._must_end:
            self._waits = True
            if self._driver.is_awaited and all(worker.is_idle for worker in self.fellows):
                self._driver.ring()
            self._bell.wait()
            self._waits = False
        self._bell.is_awaited = False

    def _await_room(self, fifo: Fifo) -> None:
        while not fifo.has_room and not self._must_end:
            self._bell.is_awaited = True
            if not fifo.has_room and not self._must_end:
                self._bell.wait()
            self._bell.is_awaited = False

    def _room_for(self, port: Port) -> bool:
        needed = self.unit.needs(port)
        return needed is not None and all(self.outputs[output].has_room for output in needed)

    def _has_room(self, output: Port) -> bool:
        return self.outputs[output].has_room

    def work(self) -> bool:
        """Take a message from every input that has one; False if there was nothing to do.

        Also False if another thread is doing it: a unit takes one step at a time.
        """
        if not self.claim():
            return False
        try:
            worked = False
            for port in self.inputs:
                worked = self._take(port) or worked
            started = time.perf_counter()
            sent = False
            for made in self.unit.forward(self._has_room):
                self._put(*made, ())
                sent = True
            if sent:
                self.busy += time.perf_counter() - started
            return worked or sent
        finally:
            self.release()

    def finish(self) -> bool:
        """Work in the caller's thread, once the own one has ended; False if there was nothing."""
        try:
            return self.work()
        except Exception as error:
            self.failure = error
            return False

    def claim(self) -> bool:
        """Take the right to work; False if another thread has it."""
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


class Bell:
    """Rung by any thread, awaited by one.

    The waiting thread sets ``is_awaited``, checks once more that there is nothing to do, and then
    waits. Ringing costs a working thread one look at a flag. A superfluous ring costs the waiting
    thread one more check.
    """

    __slots__ = ("is_awaited", "rings")

    def __init__(self) -> None:
        self.rings: SimpleQueue[Any] = SimpleQueue()
        self.is_awaited = False

    def ring(self) -> None:
        """Wake the thread that waits or is about to."""
        if self.is_awaited:
            self.is_awaited = False
            self.rings.put(None)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is rung, or for some seconds; :attr:`is_awaited` was set before."""
        with suppress(Empty):
            self.rings.get(timeout=timeout)
        self.is_awaited = False

    @property
    def has_rung(self) -> bool:
        """Whether a ring has not been heard yet."""
        return not self.rings.empty()


class DirectPass:
    """Hands one message through the units of all workers, in the caller's thread.

    ``wires`` are those of their network; ``threads`` are the workers with a thread of their own.
    """

    def __init__(
        self,
        workers: Sequence[_Worker],
        threads: Sequence[_Worker],
        wires: Mapping[tuple[str, Port], tuple[str, Port]],
    ) -> None:
        self._threads = threads
        self._waiting = [fifo.messages for worker in workers for fifo, _ in worker.inputs.values()]
        stops = {worker.unit.name: _PassedUnit(worker, worker in threads) for worker in workers}
        for (source, output), (target, port) in wires.items():
            stops[source].ways[output] = stops[target], port
        self._stops = stops

    def take(self, unit: str, port: Port, message: Any) -> bool:
        """Hand a message to a unit, and on; False, and nothing done, if a thread is at work.

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
                    worker.wake()  # its thread may have found it claimed meanwhile

    def _pass(self, stop: _PassedUnit, port: Port, message: Any) -> None:
        turns: deque[_PassedUnit] = deque()
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
            for port, message in stop.inbox:  # the unit takes it later
                stop.worker.inputs[port][0].put(message)
            stop.inbox.clear()


class _PassedUnit:
    """A unit on the way: the messages it is making, and those it takes next."""

    __slots__ = ("_sent", "_waits", "inbox", "is_timed", "ways", "worker")

    def __init__(self, worker: _Worker, is_timed: bool) -> None:
        self.worker = worker
        self.is_timed = is_timed
        self.ways: dict[Port, tuple[_PassedUnit, Port]] = {}
        self.inbox: deque[tuple[Port, Any]] = deque()
        self._sent: Iterator[Sent] | None = None
        self._waits = True

    def hand(self, port: Port, message: Any, turns: deque[_PassedUnit]) -> None:
        """Give it a message, and a turn."""
        self.inbox.append((port, message))
        if self._waits:
            self._waits = False
            turns.append(self)

    def turn(self, turns: deque[_PassedUnit]) -> None:
        """Go on until a message is made; take another turn if there may be more to do."""
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

    def _begins(self, turns: deque[_PassedUnit]) -> bool:
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

    def _send(self, made: Sent, turns: deque[_PassedUnit]) -> None:
        output, message = made
        way = self.ways.get(output)
        if way is None:
            self.worker.outputs[output].put(message)
        else:
            way[0].hand(way[1], message, turns)
