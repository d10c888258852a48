"""What a user gives for a topology: a preset, or a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InputError, PenstockError
from penstock.processor.topology.load import load_topology
from penstock.processor.topology.presets import topology_of

FORMS = (
    "fqp:chain:N, fqp:parallel:N or fqp:partial:AxB, or with the window of each block "
    "fqp:chain:9:512."
)


def test_a_preset_or_a_file(tmp_path: Path) -> None:
    chain = topology_of("fqp:chain:3")
    (tmp_path / "mine.toml").write_text(chain.to_toml(), encoding="utf-8")
    assert load_topology("fqp:chain:3") == chain
    assert load_topology(tmp_path / "mine.toml") == chain
    assert load_topology(str(tmp_path / "mine.toml")) == chain


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n', encoding="utf-8")
    with pytest.raises(PenstockError) as caught:
        load_topology(path)
    assert str(caught.value) == (
        f'{path}: there is no wiring\nWrite [wiring] and below it exit = "block-1.final".'
    )


def test_a_file_without_the_name_of_the_topology_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[unit]]\nname = "block-1"\nkind = "op-block"\nnumber = 1\nwindow = 2\n')
    with pytest.raises(PenstockError) as caught:
        load_topology(path)
    assert str(caught.value) == (
        f'{path}: there is no name\nWrite name = "two-branches" at the top of the file.'
    )


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for name, message in {
        tmp_path / "none": f"there is no file '{tmp_path}/none', and no topology of this name\n"
        f"Check the path, or write {FORMS}",
        "fpq:chain:3": f"there is no file 'fpq:chain:3', and no topology of this name\n"
        f"Check the path, or write {FORMS}",
        tmp_path: f"{tmp_path} cannot be read: Is a directory\nCheck the path.",
        tmp_path / "latin.toml": f"{tmp_path}/latin.toml is not UTF-8 text\nSave it as UTF-8.",
        "a\0b": "'a\\x00b' is no path\nCheck the path.",
    }.items():
        with pytest.raises(PenstockError) as caught:
            load_topology(name)
        assert str(caught.value) == message


def test_other_types() -> None:
    with pytest.raises(InputError) as caught:
        load_topology(3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "a topology is given as int\n"
        "Give the name of a preset, fqp:chain:4, the path of a TOML file, or a Topology."
    )
