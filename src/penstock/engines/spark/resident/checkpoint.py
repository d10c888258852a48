"""The checkpoint of an engine: its log, Spark's own checkpoint, undrained results.

All permanent files are written when the checkpoint is made, ``penstock.json`` last: a missing one
has been lost.
"""

from __future__ import annotations

import fcntl
import json
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from penstock.engines.shared.checksums import Verification, read_sealed, write_sealed
from penstock.engines.spark.resident.log import MEND, Log, decoded
from penstock.engines.spark.resident.result_files import ResultFiles
from penstock.engines.spark.resident.spark_files import SparkFiles
from penstock.engines.spark.state.chunks import FORMAT, VERSIONS
from penstock.errors import PenstockError, StateError
from penstock.leftovers import remove, temporary_folder
from penstock.processor.topology.topology import Topology
from penstock.version import VERSION

HEADER = "penstock.json"


@dataclass(frozen=True)
class Header:
    """The header of a checkpoint.

    ``command`` is that of its run, if any; ``topology`` that of its engine, if any, as TOML.
    """

    id: str
    cores: int
    command: dict[str, Any] | None = None
    topology: str | None = None


class Files:
    """The files of a checkpoint, by its folder and its id."""

    def __init__(self, folder: Path, id_: str) -> None:
        self.log = Log(folder / "log", id_)
        self.results = ResultFiles(folder / "results", id_)
        self.spark = SparkFiles(folder, id_)

    def create(self) -> None:
        """Write the files of an empty checkpoint."""
        self.log.create()
        self.results.create()
        self.spark.create()

    def checks(self, everything: bool) -> Iterator[Callable[[], object]]:
        """The checks of all files; each raises an error if its file is damaged or gone."""
        yield from self.spark.checks(everything)
        yield from self.log.checks()
        yield from self.results.checks(self.spark.batch)
        yield lambda: self.spark.check_planned(self.results.last())


class Checkpoint:
    """A folder that one engine at a time works in.

    Without a path it is a temporary one, removed when the engine is closed. What is there must be
    as it was written: the first file that is not is an error.
    """

    def __init__(self, path: Path | None, cores: int, topology: Topology | None = None) -> None:
        self.path = temporary_folder("penstock-") if path is None else path.absolute()
        # Also without a close; at exit only after Spark, which writes there, has ended.
        self._removal = weakref.finalize(self, remove, self.path) if path is None else None
        if self._removal is not None:
            self._removal.atexit = False
        self.spark = self.path / "spark"
        begin(self.path, cores, topology=topology)
        self._lock = locked(self.path)
        try:
            header = read_header(self.path)
            _check_cores(self.path, header, cores)
            _check_topology(self.path, header, topology)
            self.id = header.id
            files = Files(self.path, self.id)
            self.log, self.results, self.spark_files = files.log, files.results, files.spark
            for folder in (self.path, self.log.folder, self.results.folder):
                for left in folder.glob("*.tmp"):  # what a process that was killed had begun
                    left.unlink()
            for check in files.checks(everything=False):
                check()
            self.spark_files.begin()
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Release the folder; a temporary one is removed."""
        self._lock.close()
        if self._removal is not None:
            self._removal()

    @property
    def is_gone(self) -> bool:
        """Whether it was a temporary one, and is closed."""
        return self._removal is not None and not self._removal.alive

    def again(self) -> BinaryIO:
        """Lock the folder again for a while, after it was closed."""
        return locked(self.path)


def begin(
    path: Path,
    cores: int,
    command: dict[str, Any] | None = None,
    topology: Topology | None = None,
) -> None:
    """Make a checkpoint, unless there is one."""
    if (path / HEADER).exists():
        return
    _check_free(path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if (path / HEADER).exists():
            return
        id_ = uuid.uuid4().hex
        Files(path, id_).create()
        said = {"format": FORMAT, "version": VERSION, "id": id_, "cores": cores}
        on = None if topology is None else topology.to_toml()
        text = json.dumps({**said, "command": command, "topology": on})
        write_sealed(path / HEADER, text.encode(), HEADER)


def _check_free(path: Path) -> None:
    """Refuse a folder with content, except an unfinished checkpoint."""
    if not path.exists():
        return
    if not path.is_dir():
        raise StateError(f"{path} is a file", "Name a folder.")
    known = {"lock", "log", "results", "spark.json", "spark"}
    names = {one.name for one in path.iterdir() if one.suffix != ".tmp"}
    if not names <= known or (names and "log" not in names and names != {"lock"}):
        raise StateError(
            f"{path} is not empty and has no checkpoint of Penstock",
            "Pass an empty folder, or one that an engine of Penstock has used.",
        )
    _check_lost(path)


def _check_lost(path: Path) -> None:
    """Refuse a checkpoint that has lost its header."""
    if any(any(path.glob(name)) for name in ("log/*.kept", "log/*.data")):
        raise StateError(f"{path / HEADER} is missing", MEND)


def read_header(path: Path) -> Header:
    """The header of the checkpoint in a folder; one of another version is refused."""
    file = path / HEADER
    try:
        text = read_sealed(file, HEADER, MEND).to_pybytes()
    except StateError:
        _refuse_older(path)
        raise
    saved = decoded(file, text)
    if saved.get("format") != FORMAT:
        raise _other_format(path, saved.get("version", "another version"), saved.get("format"))
    try:
        topology = saved["topology"]
        if topology is not None:
            Topology.from_toml(topology, f"the topology in {file}")
        command = saved["command"]
        if command is not None and type(command) is not dict:
            raise ValueError(f"its command is {command!r}")
        return Header(str(saved["id"]), int(saved["cores"]), command, topology)
    except PenstockError as error:
        raise StateError(f"{file} is no header of a checkpoint ({error.what})", MEND) from error
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{file} is no header of a checkpoint ({error})", MEND) from error


def _refuse_older(path: Path) -> None:
    """Raise if an unsealed header is of an older format, which had no seal."""
    try:
        found = json.loads((path / HEADER).read_bytes())["format"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if found in VERSIONS:
        raise _other_format(path, VERSIONS[found], found)


def _other_format(path: Path, version: str, found: Any) -> StateError:
    version = VERSIONS.get(found, version)
    return StateError(
        f"the checkpoint {path} was written by Penstock {version} in the format {found}; this is "
        f"Penstock {VERSION}, which reads the format {FORMAT}",
        "Continue it with the version that wrote it, or start in an empty folder.",
    )


def _check_cores(path: Path, header: Header, cores: int) -> None:
    if header.cores != cores:
        raise StateError(
            f"the checkpoint {path} was written with cores={header.cores}, "
            f"and its windows are divided among so many; cores={cores} cannot read them",
            f"Connect with cores={header.cores} (--cores {header.cores}), or start in an empty "
            "folder.",
        )


def _check_topology(path: Path, header: Header, topology: Topology | None) -> None:
    if header.topology == (None if topology is None else topology.to_toml()):
        return
    if header.topology is None:
        raise StateError(
            f"the checkpoint {path} was written without a topology, and its queries have blocks of "
            "their own",
            "Connect without a topology, or start in an empty folder.",
        )
    name = Topology.from_toml(header.topology).name
    now = "without one" if topology is None else f"with the topology {topology.name!r}"
    raise StateError(
        f"the checkpoint {path} was written with the topology {name!r}, on whose blocks its "
        f"queries stand; this engine is {now}",
        f"Connect with that topology (topology={name!r}, --topology {name}), or start in an empty "
        "folder.",
    )


def locked(path: Path) -> BinaryIO:
    """Lock a folder until the result is closed, or the process ends in any way."""
    lock = (path / "lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StateError(
            f"the checkpoint {path} is in use by another engine",
            "Close that one, or wait until it ends; or start in another folder.",
        ) from None
    return lock


def verify(path: Path) -> Verification:
    """Check every file of a checkpoint that no engine uses; Spark is not started."""
    if not (path / HEADER).exists():
        _check_lost(path)
        raise StateError(
            f"{path} has no checkpoint of Penstock",
            "Name the folder of --checkpoint or checkpoint=; the checkpointLocation of a query "
            "over DataFrames is Spark's, which checks it when it reads it.",
        )
    found: dict[str, StateError] = {}
    with locked(path):
        for check in _all_checks(path):
            try:
                check()
            except StateError as error:
                found.setdefault(error.what, error)
        sizes = [one.stat().st_size for one in path.rglob("*") if one.is_file()]
    return Verification(len(sizes), sum(sizes), list(found.values()))


def _all_checks(path: Path) -> Iterator[Callable[[], object]]:
    _refuse_older(path)
    yield lambda: read_header(path)
    try:
        header = read_header(path)
    except StateError:
        return  # by its id the other files are known
    yield from Files(path, header.id).checks(everything=True)
