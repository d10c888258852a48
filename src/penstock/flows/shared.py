"""One shared window, and a batch's probes divided among threads.

Handshake join and SplitJoin give every join core its own part of the windows (Teubner & Mueller
2011 §4, Najafi 2019 §5.1). Where cores share their memory there is no need to: the windows stay
whole, and the work on them is divided by who arrives. What is divided, and why that is exact and in
order, is told in :mod:`penstock.blocks.crew`; here are the threads.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from penstock.flows.threads import CoreFailed

T = TypeVar("T")


@dataclass
class Counts:
    """What one core has done."""

    probed: list[int] = field(default_factory=lambda: [0, 0])
    matched: int = 0
    comparisons: int = 0
    busy: float = 0.0


class Crew:
    """``cores`` threads, of which the caller's is core 0; the others wait to be woken.

    One caller at a time. They end with :meth:`close`, or when nobody has the crew any more.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._started = time.perf_counter()
        self._counts = [Counts() for _ in range(cores)]
        self._workers = [_Worker(core, self._counts[core]) for core in range(1, cores)]
        self._stop = weakref.finalize(self, _stop, self._workers)

    def share(
        self, tasks: Sequence[Callable[[int], T]], about: Callable[[int], str] | None = None
    ) -> list[T]:
        """Do every task once, several at a time; each is told its core. Results are in order.

        If a task fails, no further one is begun; the error names the core and what it was about.
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
        """Take note of what a core has done."""
        counts = self._counts[core]
        counts.probed = [before + more for before, more in zip(counts.probed, probed, strict=True)]
        counts.matched += matched
        counts.comparisons += comparisons

    def measures(self) -> dict[str, Any]:
        """What each core has done, and for which part of the time it was at work.

        Nobody has a window of his own, so nobody has stored anything in one.
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
        """End the threads; from here on the caller does everything alone."""
        self._stop()
        self._workers = []


class _Job(Generic[T]):
    """Tasks that threads take one after another, without a lock.

    To take the next number of a counter is one step for the interpreter, which no other thread
    comes between. Whoever finishes the last task opens ``_finished``.
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

    def __init__(self, core: int, counts: Counts) -> None:
        self._core = core
        self._counts = counts
        self._job: _Job[Any] | None = None
        self._stopped = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self._thread = threading.Thread(target=self._run, name=f"penstock core {core}", daemon=True)
        self._thread.start()

    def wake(self, job: _Job[Any]) -> None:
        """Let it take part in a job."""
        self._job = job
        self._ring()

    def stop(self) -> None:
        """Let it end."""
        self._stopped = True
        self._ring()

    def join(self) -> None:
        """Return once it has ended."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _ring(self) -> None:
        # A bell that has been rung and not been heard yet is open; it will find what is newest.
        if self._bell.locked():
            self._bell.release()

    def _run(self) -> None:
        while True:
            self._bell.acquire()
            if self._stopped:
                return
            job, self._job = self._job, None
            if job is not None:
                job.work(self._core, self._counts)
            del job


def _stop(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join()
