"""Python workers of Spark: collect only the young generation after each task.

After every task Spark runs a full garbage collection in the worker. The modules that blocks need
have many objects, and a full collection took a tenth of a second each time, while the next stage
waited for the core. Nearly all of these objects live as long as the process, so it is enough to
collect the young generation.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from penstock.engines.shared.freed_memory import keep_freed_memory
from penstock.errors import PenstockError

_SETTLED = 3
"""The task after which a worker has loaded its modules."""
_LOOK_AGAIN = 256
"""The number of tasks between two full collections."""

_tasks = itertools.count(1)


@dataclass(frozen=True)
class InWorker:
    """A function for ``mapInArrow``."""

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        return self.function(batches)


def begin_task() -> None:
    """Set up the worker; to be called when a task begins."""
    number = next(_tasks)
    if number == 1:
        keep_freed_memory()
    if number in (1, _SETTLED) or number % _LOOK_AGAIN == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


@contextmanager
def errors_without_traceback() -> Iterator[None]:
    """Let errors of Penstock leave a worker without a traceback: their message suffices.

    Those that have another cause, a defect, keep theirs. Spark asks for this by a variable of the
    environment; it ends the worker after an error, so no other code loses a traceback.
    """
    try:
        yield
    except PenstockError as error:
        if error.__cause__ is None or isinstance(error.__cause__, PenstockError):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
