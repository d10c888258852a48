"""Many scripts on one engine, one after another in its log, waited for once.

A script that is waited for by itself takes a micro-batch at least. Here the engine is reset between
scripts, which are cut into segments as they come, so that micro-batches begin and end anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.engines.spark.engine import Engine
from penstock.streams.literals import format_rows
from penstock.testing import OracleTarget
from penstock.testing.expectations import Output
from penstock.testing.replay import Event, Replay
from penstock.testing.script import parse_script


@dataclass
class Fed:
    """A script in the log: where it begins, and its handles in the order they were installed."""

    first: int
    handles: list[Any]


def feed_all(engine: Engine, scripts: Iterable[Sequence[Any]], sizes: list[int]) -> list[Fed]:
    """Feed every script in segments of that size, and wait. A last None ends all streams."""
    fed: list[Fed] = []
    handles = engine._recorder.handles
    for script in scripts:
        first, known = engine.position, set(handles)
        lengths = itertools.cycle(sizes)
        waiting = [event for event in script if event is not None]
        while waiting:
            size = next(lengths)
            engine.feed(waiting[:size])
            waiting = waiting[size:]
        if script[-1] is None:
            engine.end()
        fed.append(Fed(first, [handles[number] for number in handles if number not in known]))
        engine.reset()
    engine.wait()
    return fed


class _Recording:
    """The oracle, and all that it was fed."""

    def __init__(self) -> None:
        self._oracle = OracleTarget()
        self.events: list[Event] = []

    @property
    def position(self) -> int:
        return self._oracle.position

    def feed(self, events: Sequence[Event]) -> None:
        self.events += events
        self._oracle.feed(events)

    def outputs(self) -> list[Output]:
        return self._oracle.outputs()


def recorded(script: str) -> tuple[list[Event], list[str]]:
    """The events of a script one by one, and the lines that the oracle prints for it."""
    target, lines, failures = _Recording(), list[str](), list[str]()
    Replay(target, 1, None, None, lines.append, failures.append).run(parse_script(script))
    assert failures == []
    return target.events, lines


def lines_of(fed: Fed) -> list[str]:
    """The lines that replay would print for what came to the handles."""
    found: list[tuple[int, int, int, str]] = []
    for index, handle in enumerate(fed.handles):
        for result in handle.drain():
            rows = zip(result.positions.tolist(), format_rows(result.batch), strict=True)
            found += [
                (position, index, 0, Output(position, handle.name, "rows", text).line)
                for position, text in rows
            ]
        for letter in handle.drain_letters():
            rank = ("late", "dead").index(letter.kind) + 1
            text = (letter.text, letter.stream, letter.reason)
            line = Output(letter.position, handle.name, letter.kind, *text).line
            found.append((letter.position, index, rank, line))
    return [line for *_, line in sorted(found, key=lambda one: one[:3])]
