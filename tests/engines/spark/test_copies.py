"""Copies of chunks on the machine: the right ones or none."""

from __future__ import annotations

from pathlib import Path

from penstock.engines.spark.state.store import Copies, digest


def test_a_copy_is_found_by_what_it_holds(tmp_path: Path) -> None:
    copies = Copies(lambda: tmp_path / "copies")
    assert copies.find(digest(b"a")) is None
    copies.keep(digest(b"a"), b"a")
    assert copies.find(digest(b"a")) == b"a"
    copies.forget(digest(b"a"))
    copies.forget(digest(b"a"))
    assert copies.find(digest(b"a")) is None
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_copy_that_is_damaged_is_none(tmp_path: Path) -> None:
    copies = Copies(lambda: tmp_path)
    copies.keep(digest(b"whole"), b"whole")
    (tmp_path / digest(b"whole")).write_bytes(b"who")
    assert copies.find(digest(b"whole")) is None


def test_copies_that_cannot_be_written_are_not_needed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    copies = Copies(lambda: tmp_path / "file" / "folder")
    copies.keep(digest(b"a"), b"a")
    assert copies.find(digest(b"a")) is None
    copies.forget(digest(b"a"))
