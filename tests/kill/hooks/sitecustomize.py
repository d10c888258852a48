"""Loaded by every Python process of a run that is to be killed: it dies where it was told to.

``PENSTOCK_KILL`` has one or more of ``phase:call:who:mark``: at that call of the phase's function
in a process, ``all`` processes of the session die, or the ``worker`` alone. The file ``mark`` is
made first, and a mark that is there already means that this death has been died.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

FUNCTIONS = {
    "packing": "penstock.engines.spark.log.append",
    "reading": "penstock.engines.spark.source.LogReader.read",
    "running": "penstock.engines.spark.host.HostedQuery._take_run",
    "writing": "penstock.engines.spark.store.SparkStore.put",
    "heading": "penstock.engines.spark.store.SparkStore.set_head",
    "delivering": "penstock.engines.spark.results.Results.keep",
    "committed": "penstock.engines.spark.source.LogReader.commit",
    "sinking": "penstock.streams.sinks.FileSink.write",
}


def processes(session: int) -> list[int]:
    """The processes of a session, this one last."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session:
                    found.append(int(name))
            except OSError:
                continue
    return sorted(found, key=lambda pid: pid == os.getpid())


def die(who: str, mark: str) -> None:
    try:
        Path(mark).open("x").close()
    except FileExistsError:
        return
    if who == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    for pid in processes(os.getsid(0)):
        os.kill(pid, signal.SIGKILL)


def doomed(function: Callable[..., Any], call: int, who: str, mark: str) -> Callable[..., Any]:
    """Dies before call number ``call`` if that is odd, and after it if it is even."""
    calls = 0

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and call % 2:
            die(who, mark)
        value = function(*arguments, **named)
        if calls == call:
            die(who, mark)
        return value

    return called


def install(death: str) -> None:
    phase, call, who, mark = death.split(":")
    path, _, name = FUNCTIONS[phase].rpartition(".")
    module, _, owner = path.rpartition(".")
    try:
        place: Any = importlib.import_module(path)
    except ImportError:
        place = getattr(importlib.import_module(module), owner)
    setattr(place, name, doomed(getattr(place, name), int(call), who, mark))


for one in filter(None, os.environ.get("PENSTOCK_KILL", "").split(",")):
    install(one)
