"""``penstock topology show`` and ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.commands import main
from penstock.processor.topology.presets import topology_of
from penstock.processor.topology.svg_drawing import draw_svg
from penstock.processor.topology.text_drawing import draw_text


class Cli:
    """Runs a command in this process: its exit code, output and errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["topology", *map(str, arguments)])
        printed = self.capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def test_show(cli: Cli, tmp_path: Path) -> None:
    chain = topology_of("fqp:chain:4:512")
    assert cli("show", "fqp:chain:4:512") == (0, draw_text(chain) + "\n", "")
    path = tmp_path / "chain.toml"
    path.write_text(chain.to_toml(), encoding="utf-8")
    assert cli("show", path) == (0, draw_text(chain) + "\n", "")


def test_show_as_svg(cli: Cli, tmp_path: Path) -> None:
    svg = tmp_path / "chain.svg"
    assert cli("show", "fqp:chain:4", "--svg", svg) == (0, "", "")
    assert svg.read_text(encoding="utf-8") == draw_svg(topology_of("fqp:chain:4"))
    assert cli("show", "fqp:chain:4", "--svg", tmp_path / "no" / "chain.svg") == (
        2,
        "",
        f"penstock: {tmp_path}/no/chain.svg cannot be written: No such file or directory\n"
        "Name a file that you may write to, where there is room.\n",
    )


def test_check(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    text = topology_of("fqp:chain:3:512").to_toml()
    path.write_text(text, encoding="utf-8")
    assert cli("check", path) == (
        0,
        f"{path}: ok: 3 blocks in 1 branch; windows of 512 tuples; 2 buffer-nodes in 2 levels; "
        "ports of 64 bits; 8 wires\n",
        "",
    )
    path.write_text(text.replace('    "block-1.r-out -> block-2.r",\n', ""), encoding="utf-8")
    assert cli("check", path) == (
        1,
        "",
        f"penstock: {path}: line 20: block-1.r-out leads nowhere\n"
        "Wire block-1.r-out to the next unit, or make it an end.\n"
        f"penstock: {path}: line 26: nothing leads to block-2.r\n"
        "Wire the output that gives it stream R to it, or make it an entry.\n",
    )


def test_check_shows_twenty_problems(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    text = topology_of("fqp:chain:30:512").to_toml().replace("window = 512", "window = -1")
    path.write_text(text, encoding="utf-8")
    code, printed, errors = cli("check", path)
    assert (code, printed) == (1, "")
    assert errors.count("the window of ") == 20
    assert errors.endswith(f"penstock: {path}: 10 more problems; correct these first\n")


def test_no_topology(cli: Cli) -> None:
    for command in ("show", "check"):
        assert cli(command, "fqp:chain:x") == (
            2,
            "",
            "penstock: fqp:chain:x: the number of blocks is 'x'\n"
            "Write fqp:chain:N, as fqp:chain:9, or with the window of each block "
            "fqp:chain:9:512.\n",
        )
