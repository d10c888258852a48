"""Python workers of Spark, which do one task after the other.

After every task Spark lets a worker look for garbage among all its objects. Those of the modules
that our blocks need are many, and to look at them took a tenth of a second each time, while the
next stage wanted the core. Nearly all of them stay as long as the process does, so it is enough to
look at those that are new.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.engines.shared.memory import keep_freed_memory

_SETTLED = 3
"""At this task a worker has loaded what it needs."""
_LOOK_AGAIN = 256
"""Every so many tasks all objects are looked at: some may have become garbage since."""

_tasks = itertools.count(1)


@dataclass(frozen=True)
class InWorker:
    """A function for ``mapInArrow``."""

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        return self.function(batches)


def begin_task() -> None:
    """To be called when a task begins."""
    number = next(_tasks)
    if number == 1:
        keep_freed_memory()
    if number in (1, _SETTLED) or number % _LOOK_AGAIN == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
