"""Whether a command may go on with a checkpoint: only the command that began it may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.errors import StateError

NAME = "command.json"


class Continued:
    """What a command asks for, noted in its checkpoint before anything is in the log.

    A checkpoint that notes something else is refused when this is made, before Spark starts.
    """

    def __init__(self, checkpoint: Path | None, asked: dict[str, Any]) -> None:
        self._checkpoint = checkpoint
        self._asked: dict[str, Any] = json.loads(json.dumps(asked))
        self._noted = None if checkpoint is None else checkpoint / NAME
        if self._noted is not None and self._noted.exists():
            self._compare(json.loads(self._noted.read_text(encoding="utf-8")))

    def _compare(self, before: dict[str, Any]) -> None:
        names = list(dict.fromkeys((*before, *self._asked)))
        other = [name for name in names if before.get(name) != self._asked.get(name)]
        if other:
            raise StateError(
                f"the checkpoint {self._checkpoint} was begun with other {' and '.join(other)}",
                "Run the same command over the same files again, or name another folder.",
            )

    def begin(self, position: int) -> None:
        """Note what is asked for, unless it is noted; the log then stands at ``position``."""
        if self._noted is None or self._noted.exists():
            return
        if position:
            raise StateError(
                f"the checkpoint {self._checkpoint} is one of an engine, not of a run",
                "Name an empty folder, or one that the same command has used.",
            )
        from penstock.engines.spark.log import write_safely

        write_safely(self._noted, json.dumps(self._asked).encode())
