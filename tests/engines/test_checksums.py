"""Files with a seal: read back as written, or refused by name."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.shared.checksums import (
    SEAL_SIZE,
    overwrite_sealed,
    read_sealed,
    seal,
    write_sealed,
)
from penstock.errors import StateError


def refusal(path: Path, place: str = "here") -> str:
    with pytest.raises(StateError) as caught:
        read_sealed(path, place, "Mend it.")
    return str(caught.value)


@given(st.binary(max_size=200), st.data())
def test_every_change_of_a_file_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "sealed"
    write_sealed(path, content, "here")
    whole = path.read_bytes()
    assert read_sealed(path, "here", "").to_pybytes() == content
    assert len(whole) == len(content) + SEAL_SIZE
    at = data.draw(st.integers(0, len(whole) - 1), label="at")
    mask = data.draw(st.integers(1, 255), label="mask")
    path.write_bytes(whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
    assert refusal(path).startswith(f"{path} is ")
    path.write_bytes(whole[:at])
    assert refusal(path).startswith(f"{path} ")
    path.write_bytes(whole + bytes([mask]))
    assert refusal(path).startswith(f"{path} is damaged: ")


def test_the_error_says_what_has_happened_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert refusal(path) == f"{path} is missing\nMend it."
    assert refusal(tmp_path) == f"{tmp_path} cannot be read: it is a folder\nMend it."
    for content in (b"", b"short", b"long" * 100):
        path.write_bytes(content)
        assert refusal(path) == (
            f"{path} is damaged: it does not end with its checksum, so it was cut, or its last "
            "bytes have changed\nMend it."
        )
    write_sealed(path, b"content", "here")
    whole = path.read_bytes()
    path.write_bytes(whole[1:])
    assert refusal(path) == f"{path} is damaged: it has 6 bytes, and 7 were written\nMend it."
    path.write_bytes(b"C" + whole[1:])
    assert refusal(path) == (
        f"{path} is damaged: its content has the checksum {zlib.crc32(b'Content'):08x}, and "
        f"{zlib.crc32(b'content'):08x} was written\nMend it."
    )
    path.write_bytes(whole)
    assert refusal(path, "there") == (
        f"{path} is another file: what it holds was written elsewhere, or under another name\n"
        "Mend it."
    )


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    overwrite_sealed(path, b"1", "here")
    before = path.read_bytes()
    assert before == b"1" + seal(1, 0x83DCEFB7, "here")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "pwrite"):
        monkeypatch.setattr(os, call, full)
    for write in (write_sealed, overwrite_sealed):
        with pytest.raises(StateError) as caught:
            write(path, b"2", "here")
        assert str(caught.value) == (
            f"{path} cannot be written: No space left on device\n"
            "Make room on its disk, or let it be written there, and try again."
        )
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]
