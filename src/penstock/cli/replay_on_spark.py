"""Replays a script on Spark: its events go to the log, outputs come from the streaming query.

A script that was killed is run again from its first line. The log knows how many of its positions
it holds, so events that are there are skipped, and their outputs are read from the batches that the
checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.cli.checkpoint_match import CommandRecord
from penstock.cli.run.on_spark import FedEngine, SparkOptions
from penstock.processor.topology.topology import Topology
from penstock.testing.expectations import Output
from penstock.testing.replay import Event, outputs_of


class SparkTarget:
    """Spark as a target of scripts. ``command`` has the arguments of the command."""

    def __init__(
        self, options: SparkOptions, command: dict[str, Any], topology: Topology | None = None
    ) -> None:
        CommandRecord(options.checkpoint, options.cores, command, topology).begin()
        self._fed = FedEngine(options.connect(topology=topology))
        self._ahead: list[tuple[int, Output]] = []

    @property
    def position(self) -> int:
        return self._fed.position

    def feed(self, events: Sequence[Event]) -> None:
        self._fed.feed(events)

    def outputs(self) -> list[Output]:
        self._fed.engine.wait()
        for batch in self._fed.batches():
            for number in {**batch.rows, **batch.letters}:
                rows, letters = batch.rows.get(number, []), batch.letters.get(number, [])
                # An earlier run may have come further than this one, to queries without a name.
                self._ahead += [(number, one) for one in outputs_of("", rows, letters)]
        now = [one for one in self._ahead if one[1].position < self.position]
        self._ahead = [one for one in self._ahead if one[1].position >= self.position]
        return [replace(output, query=self._fed.names[number]) for number, output in now]

    def __enter__(self) -> SparkTarget:
        return self

    def __exit__(self, *error: object) -> None:
        self._fed.engine.close()
