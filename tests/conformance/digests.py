"""Digests of all that the conformance scripts give: rows and letters, by engine and flow.

They are kept in ``digests.json`` beside this file, so that an answer that changes with the
structure is seen. ``python -m tests.conformance.digests`` writes the file anew; do that only if an
answer was meant to change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.engines.spark.in_process import Cluster, connected
from tests.flows.ways import WAYS, Way

from penstock.engines.local.engine import Engine
from penstock.errors import ScriptError
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.testing.expectations import Output
from penstock.testing.replay import EngineTarget, Event, Replay
from penstock.testing.script import InstallStep, parse_script

SCRIPTS = sorted(Path(__file__).parent.glob("*.flow"))
KEPT = Path(__file__).with_name("digests.json")
EMBEDDED, SPARK = "embedded", "spark"
JOIN = re.compile(r"\bJOIN\b|AS \w+, \w+ \[")
Digests = dict[str, list[str]]
"""By digest, the engines and flows that gave it: where all is well they agree, so the list is long.
Flows that offer no order have one of their own, that of the rows sorted."""


class _Noting:
    """A target that notes all that comes out of another."""

    def __init__(self, target: EngineTarget) -> None:
        self._target = target
        self.noted: list[Output] = []

    @property
    def position(self) -> int:
        return self._target.position

    def feed(self, events: Sequence[Event]) -> None:
        self._target.feed(events)

    def outputs(self) -> list[Output]:
        came = self._target.outputs()
        self.noted += came
        return came


def joins(script: str) -> bool:
    """Whether a query of the script has a join, which a flow can share."""
    steps = parse_script(script)
    return any(isinstance(step, InstallStep) and JOIN.search(step.sql) for step in steps)


def on_embedded(script: str, way: Way | None = None) -> str:
    """What the embedded engine gives, with the flow of a way or none asked for."""
    engine = Engine(compile_predicates=False)
    if way is None:
        return _digest(engine, script)
    return _digest(engine, script, way.orders[-1], way.choice())


def on_spark(script: str) -> str:
    """What the resident engine on Spark gives, without the JVM."""
    options = {"cores": 2, "compile_predicates": False}
    return _digest(connected(Cluster(eager=True), **options), script)


def _digest(
    opening: AbstractContextManager[Any],
    script: str,
    order: str | None = None,
    flow: FlowChoice = ANY_FLOW,
) -> str:
    steps = parse_script(script)
    with opening as engine:
        target = _Noting(EngineTarget(engine))
        replay = Replay(target, 1000, order, None, _ignore, _ignore, flow)
        try:
            replay.run(steps)
        except ScriptError as refused:
            return hashlib.sha256(f"refused: {refused}".encode()).hexdigest()
    lines = [json.dumps(list(vars(one).values())) for one in _ordered(target.noted)]
    text = "\n".join(sorted(lines) if order == "none" else lines)
    return hashlib.sha256(text.encode()).hexdigest()


def _ignore(line: str) -> None:
    """What is printed is not what is digested: it has no positions."""


def _ordered(outputs: list[Output]) -> list[Output]:
    """By query and kind; rows as they came, letters by position, for they come in no order."""
    rows = [one for one in outputs if one.kind == "rows"]
    letters = [one for one in outputs if one.kind != "rows"]
    rows.sort(key=lambda one: one.query)
    letters.sort(key=lambda one: (one.query, one.kind, one.position, one.values))
    return rows + letters


def digests_of(script: str) -> Digests:
    """Of one script, everywhere it can run."""
    found: Digests = {}
    for where, digest in _everywhere(script):
        found.setdefault(digest, []).append(where)
    return found


def _everywhere(script: str) -> Iterator[tuple[str, str]]:
    yield EMBEDDED, on_embedded(script)
    for way in WAYS if joins(script) else ():
        yield str(way), on_embedded(script, way)
    yield SPARK, on_spark(script)


def kept() -> dict[str, Digests]:
    """What the file has, by the name of the script."""
    found: dict[str, Digests] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Write the file anew."""
    found = {path.stem: digests_of(path.read_text(encoding="utf-8")) for path in SCRIPTS}
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
