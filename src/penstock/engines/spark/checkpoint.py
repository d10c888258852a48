"""The folder of an engine: its log, Spark's own checkpoint, results that nobody has drained yet."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any, BinaryIO

from penstock.engines.spark.log import write_safely
from penstock.engines.spark.source import REGISTRY
from penstock.engines.spark.state import FORMAT
from penstock.errors import StateError


class Checkpoint:
    """A folder that one engine at a time works in.

    Without a path it is a temporary one, removed when the engine is closed.
    """

    def __init__(self, path: Path | None, cores: int) -> None:
        self._temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix="penstock-")) if path is None else path.absolute()
        self.log = self.path / "log"
        self.spark = self.path / "spark"
        self.results = self.path / "results"
        header = self.path / "penstock.json"
        if header.exists():
            self.id = self._check(header, cores)
        elif self.path.exists() and any(path.suffix != ".tmp" for path in self.path.iterdir()):
            raise StateError(
                f"{self.path} is not empty and has no checkpoint of Penstock",
                "Pass an empty folder, or one that an engine of Penstock has used.",
            )
        else:
            self.path.mkdir(parents=True, exist_ok=True)
            self.id = uuid.uuid4().hex
            text = json.dumps({"format": FORMAT, "id": self.id, "cores": cores})
            write_safely(header, text.encode())
        self._lock = self._locked()
        for folder in (self.log, self.results):
            folder.mkdir(exist_ok=True)
        for folder in (self.path, self.log, self.results):
            for path in folder.glob("*.tmp"):  # what a process that was killed had begun to write
                path.unlink()

    def _locked(self) -> BinaryIO:
        """Hold the folder until it is closed, or the process is gone, however it goes."""
        lock = (self.path / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StateError(
                f"the checkpoint {self.path} is in use by another engine",
                "Close that one, or wait until it ends; or start in another folder.",
            ) from None
        return lock

    def _check(self, header: Path, cores: int) -> str:
        try:
            saved = json.loads(header.read_text())
            found, id_ = (saved["format"], saved["cores"]), str(saved["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{header} is damaged ({error})", "Start anew in another folder."
            ) from error
        if found[0] != FORMAT:
            raise StateError(
                f"the checkpoint {self.path} has the format {found[0]}, this is format {FORMAT}",
                "Continue it with the version of Penstock that wrote it, or start in an empty "
                "folder.",
            )
        if found[1] != cores:
            raise StateError(
                f"the checkpoint {self.path} was written with cores={found[1]}, "
                f"and its windows are divided among so many; cores={cores} cannot read them",
                f"Connect with cores={found[1]} (--cores {found[1]}), or start in an empty folder.",
            )
        return id_

    def write_registry(self, saved: dict[str, Any]) -> None:
        """Keep what the driver knows, so that segments with instructions may go."""
        write_safely(self.log / REGISTRY, json.dumps(saved).encode())

    def read_registry(self) -> dict[str, Any] | None:
        """What was kept last; None if nothing was."""
        path = self.log / REGISTRY
        if not path.exists():
            return None
        saved: dict[str, Any] = json.loads(path.read_text())
        return saved

    def close(self) -> None:
        """Let the folder go; a temporary one is removed."""
        self._lock.close()
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)
