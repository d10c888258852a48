"""Spark's files in a checkpoint: their lengths and checksums, to find lost or damaged files.

Spark checks the bytes of a file that it reads, not that a file is there: without the newest file of
its offsets it takes the batch before for the last one and leaves rows out. So whenever a batch has
been taken, the length and the CRC-32 of each of Spark's files are recorded in ``spark.json``.

Why the record is still valid after a kill. Spark gives a file its name when it is whole, except
files of RocksDB, which are whole once a snapshot (a ZIP file) names them; those are recorded
together with it. It then rewrites none, except state of a repeated batch, whose records
:meth:`begin` therefore drops, and it deletes files that are more than :data:`RETAINED` batches old.
Files newer than the record have Hadoop's checksums beside them, which are compared instead.
"""

from __future__ import annotations

import functools
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.engines.shared.checksums import read_sealed, write_sealed
from penstock.engines.spark.resident.log import MEND, decoded
from penstock.errors import StateError

RETAINED = 100
"""The number of batches whose files Spark retains; a setting of engines' sessions."""
NOTE = "spark.json"
_NUMBER = re.compile(r"\.?(\d+)(?:[._].*)?")
_PART = 1 << 20


@dataclass(frozen=True)
class _FileRecord:
    """The recorded length and CRC-32 of a file."""

    size: int
    checksum: int


def _number(path: str) -> int | None:
    """The batch or version of a file, from its name."""
    found = _NUMBER.fullmatch(path.rpartition("/")[2])
    return int(found[1]) if found else None


def _checksum(path: Path) -> _FileRecord:
    size = checksum = 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            size, checksum = size + len(part), zlib.crc32(part, checksum)
    return _FileRecord(size, checksum)


class SparkFiles:
    """Spark's files in a checkpoint, and the record of them."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder / "spark"
        self._note = folder / NOTE
        self._place = f"{owner}/{NOTE}"
        self._seen: dict[str, tuple[tuple[int, int, int], _FileRecord]] = {}

    def create(self) -> None:
        """Write an empty record."""
        self._write(-1, {})

    def _write(self, batch: int, files: dict[str, _FileRecord]) -> None:
        said = {path: [one.size, one.checksum] for path, one in files.items()}
        text = json.dumps({"batch": batch, "files": said})
        write_sealed(self._note, text.encode(), self._place)

    def _read(self) -> tuple[int, dict[str, _FileRecord]]:
        saved = decoded(self._note, read_sealed(self._note, self._place, MEND).to_pybytes())
        try:
            files = {path: _FileRecord(*map(int, said)) for path, said in saved["files"].items()}
            return int(saved["batch"]), files
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"{self._note} does not list files ({error})", MEND) from error

    def batch(self) -> int:
        """The last recorded batch; -1 if there is none."""
        return self._read()[0]

    def note(self, batch: int) -> None:
        """Record Spark's files after a batch was taken."""
        found: dict[str, tuple[tuple[int, int, int], _FileRecord]] = {}
        for path in self._whole():
            try:
                said = (self._folder / path).stat()
                stamp = (said.st_mtime_ns, said.st_size, said.st_ino)
                known = self._seen.get(path)
                if known is None or known[0] != stamp:
                    known = stamp, _checksum(self._folder / path)
                found[path] = known
            except FileNotFoundError:
                continue  # Spark has deleted it meanwhile, as it does when it is old enough
        self._seen = found
        self._write(batch, {path: noted for path, (_, noted) in found.items()})

    def _whole(self) -> list[str]:
        """The finished files of Spark, without those that no snapshot names yet."""
        names = self._named()
        paths = self._paths()
        return [path for path in paths if "/SSTs/" not in path or _data_of(path) in names]

    def _paths(self) -> list[str]:
        found = []
        for folder, _, names in os.walk(self._folder):
            inner = Path(folder).relative_to(self._folder).as_posix()
            prefix = "" if inner == "." else f"{inner}/"
            found += [prefix + name for name in names if ".tmp" not in name]
        return sorted(found)

    def _named(self) -> set[str]:
        """The files of RocksDB that existing snapshots name."""
        found: set[str] = set()
        for path in self._folder.glob("state/*/*/*.zip"):
            inner = path.parent.relative_to(self._folder).as_posix()
            found |= {f"{inner}/SSTs/{name}" for name in _parts_of(path)}
        return found

    def begin(self) -> None:
        """Drop the records of files that Spark may rewrite on a restart: uncommitted state."""
        batch, files = self._read()
        committed = self._committed()
        kept = {
            path: noted
            for path, noted in files.items()
            if not path.startswith("state/") or (_number(path) or 0) <= committed + 1
        }
        if kept != files:
            self._write(batch, kept)

    def _committed(self) -> int:
        """The last batch that Spark has committed; -1 if there is none."""
        paths = (self._folder / "commits").glob("*")
        return max((int(path.name) for path in paths if path.name.isdecimal()), default=-1)

    # -- checks -----------------------------------------------------------------------------

    def check_planned(self, batch: int) -> None:
        """Check that the plan of the last batch with results exists.

        Without it Spark plans the batch again, perhaps with other input, and what comes of it is
        taken for what has come before.
        """
        plan = self._folder / "offsets" / str(batch)
        if batch >= 0 and self._folder.exists() and not plan.exists():
            raise StateError(f"{plan} is missing", MEND)

    def checks(self, everything: bool) -> Iterator[Callable[[], object]]:
        """The checks of all files; each raises an error if its file is damaged or gone.

        Unless ``everything`` is asked for, state that Spark will not read again is left out.
        """
        yield self._read
        try:
            batch, files = self._read()
        except StateError:
            return
        snapshots = self._snapshots(files)
        for path, noted in files.items():
            # When it goes on, Spark reads of the state what the last snapshot lacks.
            least = 0 if everything else snapshots.get(path.rpartition("/")[0], 0)
            number = _number(path)
            if number is None or number >= least:
                yield functools.partial(self._check, path, noted, files, batch)
        for path in sorted(self._named()):
            yield functools.partial(self._check_there, path)
        for path in self._paths():
            if path not in files and not path.rpartition("/")[2].startswith("."):
                yield functools.partial(_check_by_hadoop, self._folder / path)

    def _snapshots(self, files: dict[str, _FileRecord]) -> dict[str, int]:
        """The newest snapshot of committed state, by folder."""
        most, found = self._committed() + 1, dict[str, int]()
        for path in files:
            number, folder = _number(path), path.rpartition("/")[0]
            if number is not None and path.endswith(".zip") and number <= most:
                found[folder] = max(number, found.get(folder, 0))
        return found

    def _check(
        self, path: str, noted: _FileRecord, files: dict[str, _FileRecord], batch: int
    ) -> None:
        whole = self._folder / path
        try:
            found = _checksum(whole)
        except FileNotFoundError:
            if not self._may_be_gone(path, files, batch):
                raise StateError(f"{whole} is missing", MEND) from None
            return
        except OSError as error:
            raise StateError(f"{whole} cannot be read: {error.strerror}", MEND) from None
        if found.size != noted.size:
            raise StateError(
                f"{whole} is damaged: it has {found.size} bytes, and {noted.size} were written",
                MEND,
            )
        if found != noted:
            raise StateError(
                f"{whole} is damaged: its content has the checksum {found.checksum:08x}, and "
                f"{noted.checksum:08x} was written",
                MEND,
            )

    def _may_be_gone(self, path: str, files: dict[str, _FileRecord], batch: int) -> bool:
        """Whether Spark may have deleted a file because it is old."""
        if "/SSTs/" in path:
            return _data_of(path) not in self._named()
        number, folder = _number(path), path.rpartition("/")[0]
        if number is None or number > batch + 1 - RETAINED:
            return False
        neighbours = (other for other in files if other.rpartition("/")[0] == folder)
        return any((_number(other) or 0) > number for other in neighbours)

    def _check_there(self, path: str) -> None:
        if not (self._folder / path).exists():
            raise StateError(f"{self._folder / path} is missing", MEND)


def _data_of(path: str) -> str:
    """The file itself, or the file whose checksums it has."""
    folder, _, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        return f"{folder}/{name[1:-4]}"
    return path


def _parts_of(snapshot: Path) -> list[str]:
    """The files that a snapshot of RocksDB names."""
    try:
        with zipfile.ZipFile(snapshot) as file:
            text = file.read("metadata").decode().split("\n", 1)[1]
        return [one["dfsSstFileName"] for one in json.loads(text).get("sstFiles", [])]
    except Exception:  # of many kinds, as the reader of a damaged archive raises them
        return []  # its checksum tells that it is damaged


def _check_by_hadoop(path: Path) -> None:
    """Compare a file with the checksums that Hadoop has written beside it, if there are any."""
    beside = path.with_name(f".{path.name}.crc")
    try:
        sums, data = beside.read_bytes(), path.read_bytes()
    except FileNotFoundError:
        return
    if sums[:4] != b"crc\0" or len(sums) < 8:
        raise StateError(f"{beside} is damaged: it has no checksums", MEND)
    size = int.from_bytes(sums[4:8], "big")
    view = memoryview(data)
    found = b"".join(
        zlib.crc32(view[start : start + size]).to_bytes(4, "big")
        for start in range(0, len(data), max(1, size))
    )
    if found != sums[8:]:
        raise StateError(
            f"{path} or {beside} is damaged: the one does not have the checksums in the other", MEND
        )
