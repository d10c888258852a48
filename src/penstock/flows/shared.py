"""One shared window, and a batch's probes divided among threads.

Handshake join and SplitJoin give every join core its own part of the windows (Teubner & Mueller
2011 §4, Najafi 2019 §5.1). Where cores share memory there is no need to: the windows stay whole,
and the arrivals are divided. :mod:`penstock.blocks.join.parallel_probe` says how, and why that is
exact and in order; here are the threads.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from penstock.flows.network.owned_thread import OwnedThread
from penstock.flows.network.threads import CoreFailed

T = TypeVar("T")


@dataclass
class Counts:
    """What one core has done."""

    probed: list[int] = field(default_factory=list)
    matched: int = 0
    comparisons: int = 0
    busy: float = 0.0


class ThreadPool:
    """``cores`` threads, of which the caller's is core 0; the others wait to be woken.

    One caller at a time. They end with :meth:`close`, or when nothing refers to the object.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._started = time.perf_counter()
        self._counts = [Counts() for _ in range(cores)]
        self._workers = [_Worker(self, core, self._counts[core]) for core in range(1, cores)]
        for worker in self._workers:
            worker.thread.start()

    def share(
        self, tasks: Sequence[Callable[[int], T]], about: Callable[[int], str] | None = None
    ) -> list[T]:
        """Do every task once, several at a time; each gets its core's number. Results are in order.

        If a task fails, no further one is begun; the error names the core and the task.
        """
        job = _Job(tasks)
        for worker in self._workers[: len(tasks) - 1]:
            worker.wake(job)
        job.work(0, self._counts[0])
        job.wait()
        if job.failure is not None:
            core, number, error = job.failure
            where = "" if about is None else f" at {about(number)}"
            if not isinstance(error, Exception):
                raise error
            raise CoreFailed(
                f"core {core} failed{where}: {type(error).__name__}: {error}",
                "The query is stopped, since rows would be missing; install it again.",
            ) from error
        return job.results

    def count(self, core: int, probed: Sequence[int], matched: int, comparisons: int) -> None:
        """Add to the counts of a core."""
        counts = self._counts[core]
        counts.probed = list(map(sum, itertools.zip_longest(counts.probed, probed, fillvalue=0)))
        counts.matched += matched
        counts.comparisons += comparisons

    def measures(self) -> dict[str, Any]:
        """What each core has done, and for which part of the time it was at work.

        No core has a window of its own, so none has stored tuples.
        """
        elapsed = time.perf_counter() - self._started
        return {
            "cores": [
                {
                    "core": core,
                    "stored": None,
                    "probed": list(c.probed),
                    "matched": c.matched,
                    "comparisons": c.comparisons,
                    "window": None,
                    "depth": 0,
                    "busy": c.busy / elapsed,
                }
                for core, c in enumerate(self._counts)
            ]
        }

    def close(self) -> None:
        """End the threads; from then on the caller does all tasks."""
        for worker in self._workers:
            worker.thread.ask_to_end()
        for worker in self._workers:
            worker.thread.wait_for_end()
        self._workers = []


class _Job(Generic[T]):
    """Tasks that threads take one after another, without a lock.

    Taking the next number of a counter is atomic in the interpreter. The thread that finishes the
    last task opens ``_finished``.
    """

    def __init__(self, tasks: Sequence[Callable[[int], T]]) -> None:
        self.failure: tuple[int, int, BaseException] | None = None
        self.results: list[Any] = [None] * len(tasks)
        self._tasks = tasks
        self._taken = itertools.count()
        self._done = itertools.count(1)
        self._finished = threading.Lock()
        self._finished.acquire()

    def work(self, core: int, counts: Counts) -> None:
        """Take tasks until there are no more."""
        started = time.perf_counter()
        while (number := next(self._taken)) < len(self._tasks):
            try:
                if self.failure is None:
                    self.results[number] = self._tasks[number](core)
            except BaseException as error:
                self.failure = core, number, error
            counts.busy += -started + (started := time.perf_counter())
            if next(self._done) == len(self._tasks):
                self._finished.release()

    def wait(self) -> None:
        """Return once every task is done."""
        if self._tasks:
            self._finished.acquire()


class _Worker:
    """A thread that waits for jobs."""

    def __init__(self, pool: ThreadPool, core: int, counts: Counts) -> None:
        self._core = core
        self._counts = counts
        self._job: _Job[Any] | None = None
        self._rings: SimpleQueue[Any] = SimpleQueue()
        self.thread = OwnedThread(pool, f"core {core}", self._run, self._rings)

    def wake(self, job: _Job[Any]) -> None:
        """Let it take part in a job."""
        self._job = job
        if self._rings.empty():  # else it has not heard the last ring, and will find the newest job
            self._rings.put(None)

    def _run(self) -> None:
        while not self.thread.must_end:
            self._rings.get()
            job, self._job = self._job, None
            if job is not None:
                job.work(self._core, self._counts)
            del job
