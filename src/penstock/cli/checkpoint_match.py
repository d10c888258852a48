"""A command may continue a checkpoint only if the same command began it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.engines.shared.text_difference import difference
from penstock.errors import StateError
from penstock.processor.topology.topology import Topology

PROGRAMS = "programs"
"""Under this name is the digest of every query of a run, by the query's name."""
_TEXTS = ("query", "script")


class CommandRecord:
    """A command's arguments, recorded in its checkpoint before the log has any event.

    A checkpoint with other arguments is refused by the constructor, before Spark starts.
    ``topology`` is what queries stand on.
    """

    def __init__(
        self,
        checkpoint: Path | None,
        cores: int,
        command: dict[str, Any],
        topology: Topology | None = None,
    ) -> None:
        self._checkpoint = None if checkpoint is None else checkpoint.absolute()
        self._cores = cores
        self._topology = topology
        if topology is not None:
            command = {**command, "topology": topology.name}
        self._command: dict[str, Any] = json.loads(json.dumps(command))
        if self._checkpoint is not None:
            self._compare(self._checkpoint)

    def _compare(self, checkpoint: Path) -> None:
        from penstock.engines.spark.resident.checkpoint import HEADER, read_header

        if not (checkpoint / HEADER).exists():
            return
        before = read_header(checkpoint).command
        if before is None:
            raise StateError(
                f"the checkpoint {checkpoint} is one of an engine, not of a run",
                "Name an empty folder, or one that the same command has used.",
            )
        other = _other(before, self._command)
        if other:
            differences = [
                _difference(name, before.get(name), self._command.get(name)) for name in other
            ]
            raise StateError(
                f"the checkpoint {checkpoint} was begun with other {' and '.join(other)}\n"
                + "\n".join(differences),
                "Run the same command over the same files again, or name another folder.",
            )

    def begin(self) -> None:
        """Create the checkpoint with the record, unless it exists."""
        if self._checkpoint is not None:
            from penstock.engines.spark.resident.checkpoint import begin

            begin(self._checkpoint, self._cores, self._command, self._topology)


def _other(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The names of what differs. Programs tell whether a query is the same, not its text."""
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    if PROGRAMS in before and before[PROGRAMS] == now.get(PROGRAMS):
        return [name for name in names if name != "query"]
    return [name for name in names if name != PROGRAMS] or names


def _difference(name: str, before: Any, now: Any) -> str:
    """An argument then and now, as lines of the error."""
    if name in _TEXTS and isinstance(before, str) and isinstance(now, str):
        return difference(before, now)
    if name == "files" and isinstance(before, dict) and isinstance(now, dict):
        streams = sorted(one for one in {*before, *now} if before.get(one) != now.get(one))
        return "\n".join(
            _files_difference(one, before.get(one, []), now.get(one, [])) for one in streams
        )
    return f"  {name} then: {before if before is not None else 'not given'}\n" + (
        f"  {name} now:  {now if now is not None else 'not given'}"
    )


def _files_difference(stream: str, before: list[list[Any]], now: list[list[Any]]) -> str:
    """The files of a stream then and now, with their sizes; or that the same files are newer."""
    lists = [", ".join(f"{path} ({size} bytes)" for path, size, _ in one) for one in (before, now)]
    if lists[0] == lists[1]:
        return f"  {stream}: {lists[0]}, written anew since"
    return "\n".join(
        f"  {stream} {word} {files or 'no file'}"
        for word, files in zip(("then:", "now: "), lists, strict=True)
    )
