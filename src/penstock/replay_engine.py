"""An engine as something a script runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock
from penstock.expectations import Output
from penstock.replay import Event
from penstock.streams.literals import format_rows


class EngineTarget:
    """An engine, open while the context is: by name, or one that is open anyway."""

    def __init__(self, engine: Any) -> None:
        self._is_open_anyway = not isinstance(engine, str)
        self._engine: Any = engine if self._is_open_anyway else penstock.connect(engine)
        self._queries: dict[str, Any] = {}

    @property
    def position(self) -> int:
        return int(self._engine.position)

    def feed(self, events: Sequence[Event]) -> None:
        try:
            self._engine.feed(events)
        finally:
            self._queries = dict(self._engine.queries)

    def outputs(self) -> list[Output]:
        self._engine.wait()
        found: list[Output] = []
        for name, query in self._queries.items():
            for result in query.drain():
                found += [
                    Output(int(position), name, "rows", text)
                    for position, text in zip(
                        result.positions, format_rows(result.batch), strict=True
                    )
                ]
            found += [
                Output(
                    letter.position, name, letter.kind, letter.text, letter.stream, letter.reason
                )
                for letter in query.drain_letters()
            ]
        return found

    def __enter__(self) -> EngineTarget:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_open_anyway:
            self._engine.reset()
        else:
            self._engine.close()
