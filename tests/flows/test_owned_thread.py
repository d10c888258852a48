"""The threads of a flow end with their driver, though interrupts come, and before Python exits."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.flows.chain_as_published.plain_chains import blocks_of

from penstock.flows.handshake.chain import chain_network
from penstock.flows.network.owned_thread import OwnedThread
from penstock.flows.network.threads import Threads
from penstock.flows.shared import ThreadPool


def owned() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if isinstance(thread, OwnedThread)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "drive",
    [lambda: ThreadPool(3), lambda: Threads(chain_network(blocks_of(2, (1, 1))))],
    ids=["pool", "network"],
)
def test_threads_end_though_an_interrupt_comes_where_their_driver_is_collected(
    drive: Callable[[], Any],
) -> None:
    """In the first function of Python that runs there, if one does."""

    def interrupt(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = owned()
    drivers = [drive()]
    started = owned() - before
    assert len(started) == 2
    gc.collect()
    sys.setprofile(interrupt)
    try:
        drivers.clear()
        gc.collect()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, handler)
    for thread in started:
        thread.join(10)
    assert not owned() & started


EXIT = """
import atexit, threading
atexit.register(lambda: print([t.name for t in threading.enumerate() if t.daemon]))
from penstock.engines.local.engine import Engine
engines = []
for flow in ("shared", "handshake"):
    engines.append(Engine(compile_predicates=False))
    engines[-1].sql("CREATE STREAM R (id INT); CREATE STREAM S (id INT)")
    text = "SELECT r.id FROM R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON r.id = s.id"
    engines[-1].install(text, flow=flow, cores=2)
print(len([t for t in threading.enumerate() if t.name.startswith("penstock")]) > 1)
"""


def test_no_thread_of_an_engine_that_is_not_closed_runs_on_while_python_exits() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["True", "[]"]
