"""Run scripts in tests: on an engine, or on the oracle that defines every engine's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import InputError, PenstockError
from penstock.oracle.oracle import Oracle
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.program.isa.instructions import Change, CreateStream, Derive, Drop, Install, Reset
from penstock.streams.display import counted, html_line, html_text
from penstock.streams.literals import format_value
from penstock.testing.expectations import Output
from penstock.testing.replay import Event, Replay, Target
from penstock.testing.script import parse_script

__all__ = ["OracleTarget", "ReplayResult", "replay_text", "run_on_oracle"]


def __dir__() -> list[str]:
    return list(__all__)


@dataclass(frozen=True)
class ReplayResult:
    """The lines that a script prints, and a text for each expectation that fails."""

    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        failed = counted(len(self.failures), "expectation")
        title = html_line(f"{counted(len(self.lines), 'line')}, {failed} not met")
        return "".join((title, html_text("\n".join(self.lines)), *map(html_text, self.failures)))


def replay_text(
    script: str,
    engine: Any = "local",
    batch: int = 1,
    order: str | None = None,
    kernel: str | None = None,
    flow: FlowChoice = ANY_FLOW,
) -> ReplayResult:
    """Run a script on an engine, ``batch`` events at a time.

    ``engine`` is the name of an engine, or an open engine without streams, which is reset
    afterwards. Every query gets this order, kernel and flow. If any query has a join, options for
    joins go only to the queries that have one.

    >>> replay_text('''
    ... stream R (x int32)
    ... install doubled: SELECT 2 * x AS y FROM R
    ... R: 21
    ... expect doubled: 42
    ... ''').lines
    ['doubled: 42']
    """
    from penstock.testing.replay import EngineTarget

    with EngineTarget(engine) as target:
        return _run(target, script, batch, order, kernel, flow)


def run_on_oracle(script: str) -> ReplayResult:
    """Run a script on the oracle."""
    return _run(OracleTarget(), script, 1, None)


def _run(
    target: Target,
    script: str,
    batch: int,
    order: str | None,
    kernel: str | None = None,
    flow: FlowChoice = ANY_FLOW,
) -> ReplayResult:
    result = ReplayResult()
    steps = parse_script(script)
    sinks = (result.lines.append, result.failures.append)
    Replay(target, batch, order, kernel, *sinks, flow).run(steps)
    return result


class OracleTarget:
    """The oracle as a target of scripts."""

    def __init__(self) -> None:
        self._oracle = Oracle()
        self._streams: dict[str, pa.Schema] = {}
        self._seen: dict[tuple[str, str], int] = {}

    @property
    def position(self) -> int:
        return self._oracle.position

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, CreateStream):
                self._oracle.create_stream(event.stream)
                self._streams[event.stream.name.lower()] = event.stream.schema
            elif isinstance(event, Derive):
                self._oracle.derive(event.name, event.text)
                self._streams[event.name.lower()] = self._oracle.schemas[event.name][-1][1]
            elif isinstance(event, Install):
                self._oracle.install(event.query, event.text, event.order)
            elif isinstance(event, Change):
                self._oracle.change(event.query, event.text)
            elif isinstance(event, Drop):
                self._oracle.drop(event.query)
            elif isinstance(event, Reset):
                raise InputError("the oracle cannot be reset", "Start another one.")
            else:
                self._oracle.feed([event])

    def outputs(self) -> list[Output]:
        oracle, found = self._oracle, list[Output]()
        for query, rows in oracle.rows.items():
            for position, row in rows[self._new(query, "rows", len(rows)) :]:
                text = _literals(row, self._schema_at(query, position))
                found.append(Output(position, query, "rows", text))
        for query, late in oracle.late.items():
            start = self._new(query, "late", len(late))
            reasons = oracle.reasons[query][start:]
            for (position, stream, row), why in zip(late[start:], reasons, strict=True):
                text = _literals(row, self._streams[stream.lower()])
                found.append(Output(position, query, "late", text, stream, why))
        for query, dead in oracle.dead.items():
            for position, stream, what, reason in dead[self._new(query, "dead", len(dead)) :]:
                schema = self._streams[stream.lower()]
                text = what if isinstance(what, str) else _literals(what, schema)
                found.append(Output(position, query, "dead", text, stream, reason))
        return found

    def _new(self, query: str, kind: str, count: int) -> int:
        """The index of the first output that ``outputs`` has not returned yet."""
        start = self._seen.get((query, kind), 0)
        self._seen[query, kind] = count
        return start

    def _schema_at(self, query: str, position: int) -> pa.Schema:
        for since, schema in reversed(self._oracle.schemas[query]):
            if since <= position:
                return schema
        raise PenstockError(f"query {query} has no columns at {position}", "This is a bug.")


def _literals(row: Sequence[object], schema: pa.Schema) -> str:
    return ", ".join(format_value(v, f.type) for v, f in zip(row, schema, strict=True))
