"""Sealed files: the last line of each is a seal with its length and checksum.

A seal has the length of the content before it, the CRC-32 of the content, and the CRC-32 of the
place that the file was written for: its owner and its name. So a reader notices a changed byte, a
truncated file, and a file in the place of another one. CRC-32 finds every change of up to 32
neighbouring bits and misses one in four billion of the others; it is in the standard library and
takes a second per gigabyte. It is no signature: the reader must still check the content of a file
that was edited and sealed again.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.errors import StateError

Bytes = bytes | memoryview | pa.Buffer

_SEAL = re.compile(rb"\n#penstock ([0-9]{20}) ([0-9a-f]{8}) ([0-9a-f]{8})\n")
SEAL_SIZE = 50
_PART = 1 << 20


@dataclass(frozen=True)
class Verification:
    """The result of verifying files: their number, their bytes, and the damages found."""

    files: int
    size: int
    damages: list[StateError]


def seal(length: int, checksum: int, place: str) -> bytes:
    """The last line of a file with that length and CRC-32, written for that place."""
    return b"\n#penstock %020d %08x %08x\n" % (length, checksum, zlib.crc32(place.encode()))


def write_sealed(path: Path, data: Bytes, place: str) -> None:
    """Write a file with its seal, atomically and durably."""
    view = memoryview(data)
    try:
        with replacing(path) as file:
            file.write(view)
            file.write(seal(view.nbytes, zlib.crc32(view), place))
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces ``path`` atomically and durably when it is complete."""
    # The name is unique to the thread; a file left by a killed attempt is overwritten.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "w+b", opener=_for_the_user_alone) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    with suppress(OSError):  # not every system lets a folder be opened
        sync_folder(path.parent)


def _for_the_user_alone(path: str, flags: int) -> int:
    """Open a new file that other users cannot read: it holds pushed data."""
    return os.open(path, flags, 0o600)


def add_seal(file: BinaryIO, place: str) -> None:
    """Write the seal over the last bytes of a file, which are reserved for it."""
    length, checksum = _checksum(file)
    file.write(seal(length, checksum, place))


def unwritable(path: Path, error: OSError) -> StateError:
    """The error for a file that cannot be written: no room, no permission."""
    return StateError(
        f"{path} cannot be written: {error.strerror or error}",
        "Make room on its disk, or let it be written there, and try again.",
    )


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_sealed(path: Path, place: str, remedy: str) -> pa.Buffer:
    """The content of a sealed file; a :class:`StateError` that names the file if it is damaged.

    The file is mapped, so that its pages are read once, by the checksum.
    """
    try:
        with pa.memory_map(str(path)) as file:
            whole = file.read_buffer()
    except FileNotFoundError:
        raise StateError(f"{path} is missing", remedy) from None
    except OSError as error:
        why = "it is a folder" if path.is_dir() else os.strerror(error.errno or 0)
        raise StateError(f"{path} cannot be read: {why}", remedy) from None
    length = max(0, whole.size - SEAL_SIZE)
    _compare(path, whole.slice(length), length, zlib.crc32(whole.slice(0, length)), place, remedy)
    return whole.slice(0, length)


def check_sealed(file: BinaryIO, path: Path, place: str, remedy: str) -> None:
    """Check an open file against its seal."""
    length, checksum = _checksum(file)
    _compare(path, file.read(SEAL_SIZE), length, checksum, place, remedy)


def has_seal(file: BinaryIO) -> bool:
    """Whether an open file ends with a seal."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_SIZE))
    return _SEAL.fullmatch(file.read(SEAL_SIZE)) is not None


def _checksum(file: BinaryIO) -> tuple[int, int]:
    """Length and CRC-32 of the content before the seal; leaves the file at the seal."""
    length, checksum = max(0, file.seek(0, os.SEEK_END) - SEAL_SIZE), 0
    file.seek(0)
    left = length
    while left and (part := file.read(min(_PART, left))):
        checksum = zlib.crc32(part, checksum)
        left -= len(part)
    return length, checksum


def _compare(path: Path, end: Bytes, length: int, checksum: int, place: str, remedy: str) -> None:
    found = _SEAL.fullmatch(memoryview(end).tobytes())
    if found is None:
        raise StateError(
            f"{path} is damaged: it does not end with its checksum, so it was cut, or its last "
            "bytes have changed",
            remedy,
        )
    written, expected, belongs = int(found[1]), int(found[2], 16), int(found[3], 16)
    if written != length:
        raise StateError(
            f"{path} is damaged: it has {length} bytes, and {written} were written", remedy
        )
    if expected != checksum:
        raise StateError(
            f"{path} is damaged: its content has the checksum {checksum:08x}, and {expected:08x} "
            "was written",
            remedy,
        )
    if belongs != zlib.crc32(place.encode()):
        raise StateError(
            f"{path} is another file: what it holds was written elsewhere, or under another name",
            remedy,
        )


def overwrite_sealed(path: Path, data: bytes, place: str, durable: bool = False) -> None:
    """Overwrite a small record of fixed length in place, where a new file would cost too much.

    It fits in one sector, so a killed process has written all of it or nothing. ``durable``: it
    survives a power cut.
    """
    assert len(data) + SEAL_SIZE <= 512, "a record fits in a sector"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, data + seal(len(data), zlib.crc32(data), place), 0)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise unwritable(path, error) from error
