"""Loaded by every Python process of a run that is to be killed: it dies where it was told to.

``PENSTOCK_KILL`` has one or more of ``phase:call:who:mark``: at that call of the phase's function
in a process, ``all`` processes of the case die, or the ``worker`` alone. The file ``mark`` is
made first, and a mark that is there already means that this death has been died.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FUNCTIONS = {
    "packing": "penstock.engines.spark.resident.log.Log.append",
    "reading": "penstock.engines.spark.resident.log_source.LogReader.read",
    "running": "penstock.engines.spark.core.host.HostedQuery._take_run",
    "writing": "penstock.engines.spark.state.store.SparkStore.put",
    "heading": "penstock.engines.spark.state.store.SparkStore.set_head",
    "delivering": "penstock.engines.spark.resident.result_files.Results.keep",
    "committed": "penstock.engines.spark.resident.log_source.LogReader.commit",
    "sinking": "penstock.connectors.sinks.FileSink.write",
}


CASE = "PENSTOCK_CASE"
"""The variable that a case marks its processes with: the JVM has a session of its own."""


def processes(case: str) -> list[int]:
    """The processes that a case has started, this one last."""
    mark = f"{CASE}={case}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
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
    for pid in processes(os.environ[CASE]):
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


def install(death: str, module: Any) -> None:
    phase, call, who, mark = death.split(":")
    *owners, name = FUNCTIONS[phase].removeprefix(f"{module.__name__}.").split(".")
    place: Any = functools.reduce(getattr, owners, module)
    setattr(place, name, doomed(getattr(place, name), int(call), who, mark))


def module_of(death: str) -> str:
    """The module of a death's function; a class is not a module."""
    path = FUNCTIONS[death.partition(":")[0]].split(".")
    return ".".join(part for part in path[:-1] if part.islower())


class Doom(importlib.abc.MetaPathFinder):
    """Lets functions be doomed when their module is imported.

    Not before: Spark gives a process that plans a source ten seconds to say that it is there.
    """

    def __init__(self, deaths: list[str]) -> None:
        self._deaths = deaths

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        mine = [death for death in self._deaths if module_of(death) == name]
        if not mine:
            return None
        self._deaths = [death for death in self._deaths if death not in mine]
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            for death in mine:
                install(death, module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


told = list(filter(None, os.environ.get("PENSTOCK_KILL", "").split(",")))
if told:
    sys.meta_path.insert(0, Doom(told))
