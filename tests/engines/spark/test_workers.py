"""What stays in a Python worker is not looked at after every task, and garbage is found."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.engines.spark.core.workers import errors_without_traceback
from penstock.errors import QueryFailed, StateError

CODE = """
import gc, weakref
from penstock.engines.spark.core import workers

class Node: pass

def garbage():
    node = Node()
    node.itself = node
    return weakref.ref(node)

assert gc.get_freeze_count() == 0
workers.begin_task()
frozen = gc.get_freeze_count()
assert frozen > 1000, frozen
fresh = garbage()
gc.collect()
assert fresh() is None
workers.begin_task()
assert gc.get_freeze_count() <= frozen

gc.disable()
loop = Node()
loop.itself = loop
kept = weakref.ref(loop)
workers.begin_task()
del loop
gc.collect()
assert kept() is not None, "it was there when the worker settled"
for _ in range(workers._LOOK_AGAIN):
    workers.begin_task()
assert kept() is None
print("done")
"""


def test_what_a_worker_has_loaded_is_looked_at_now_and_then() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_errors_of_ours_leave_a_worker_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    defect = QueryFailed("it has failed", "Drop it.")
    defect.__cause__ = ZeroDivisionError()
    for error in (defect, ZeroDivisionError()):
        with pytest.raises(type(error)), errors_without_traceback():
            raise error
        assert os.environ["SPARK_HIDE_TRACEBACK"] == ""
    with pytest.raises(StateError), errors_without_traceback():
        raise StateError("a file is missing", "Put it back.")
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
