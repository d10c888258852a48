"""README and docs are true: code runs, scripts replay, links resolve."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Topology, topology
from penstock.cli.commands import main
from penstock.testing import replay_text, run_on_oracle

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def code_blocks(page: Path, language: str) -> list[tuple[str, str | None]]:
    """Every block in that language, with the ``text`` block right after it, if there is one."""
    fences = FENCE.findall(page.read_text(encoding="utf-8"))
    followed = zip(fences, [*fences, ("", "")][1:], strict=True)
    return [
        (code, output if after == "text" else None)
        for (kind, code), (after, output) in followed
        if kind == language
    ]


def blocks(language: str) -> list[object]:
    """The blocks of all pages in that language."""
    return [
        pytest.param(code, output, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (code, output) in enumerate(code_blocks(page, language))
    ]


def commands() -> list[object]:
    """The command lines of all pages that are followed by what they print."""
    return [
        pytest.param(code, output, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (code, output) in enumerate(code_blocks(page, "sh"))
        if output is not None
    ]


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can lead to."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


# What is on the page about Spark runs among the tests that have a session.
WITHOUT_SPARK = [page for page in PAGES if page.name != "spark.md"]


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=lambda page: page.name)
def test_python_prints_what_the_page_says(page: Path) -> None:
    """The blocks of a page are one program; a reader goes on where the last one stopped."""
    names: dict[str, object] = {"__name__": "__main__"}
    for code, output in code_blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == (output or "")


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("command", "output"), commands())
def test_a_command_prints_what_the_page_says(
    command: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    if Path(program).name == "python":  # -m examples.…, which takes over the signals
        ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        status, printed = ended.returncode, ended.stdout
    else:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        status, printed = caught.value.code or 0, capsys.readouterr().out
    assert (status, [line.rstrip() for line in printed.splitlines()]) == (0, output.splitlines())


@pytest.mark.parametrize(("script", "output"), blocks("flow"))
def test_script_prints_what_the_page_says(script: str, output: str | None) -> None:
    result = replay_text(script, engine="local", batch=1)
    assert result.failures == []
    assert result.lines == run_on_oracle(script).lines
    if output is not None:
        assert result.lines == output.splitlines()


def test_topologies_of_a_page_are_the_files_that_it_names() -> None:
    page = ROOT / "docs" / "topologies.md"
    files = [
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.toml"))
    ]
    texts = [text for text, _ in code_blocks(page, "toml")]
    assert texts
    for text in texts:
        assert text in files
        assert Topology.from_toml(text).name


def test_pictures_of_topologies_are_drawn_as_the_page_says() -> None:
    text = (ROOT / "docs" / "topologies.md").read_text(encoding="utf-8")
    drawn = re.findall(r"`penstock topology show (\S+) --svg (\S+)`", text)
    assert drawn
    for name, picture in drawn:
        assert (ROOT / picture).read_text(encoding="utf-8") == topology(name).to_svg()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_there_is_something_to_try() -> None:
    """The tests above find blocks to test."""
    readme = ROOT / "README.md"
    assert len(code_blocks(readme, "python")) >= 1
    assert len(code_blocks(readme, "flow")) >= 1
    assert len(commands()) >= 1
    assert len(code_blocks(ROOT / "docs" / "python.md", "python")) >= 10


def test_every_conformance_script_is_in_the_semantics() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    scripts = sorted(path.name for path in (ROOT / "tests" / "conformance").glob("*.flow"))
    assert [name for name in scripts if f"conformance/{name})" not in text] == []


def test_every_dependency_has_its_line() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'^ +"([a-z-]+)>=', project, re.MULTILINE)) | {"duckdb"}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"| {name} " not in text] == []


def test_contributing_names_files_and_tables_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "penstock"
    for path in re.findall(r"`((?:[a-z_]+/)+(?:\w+\.py)?)`", text):
        assert (package / path).exists() or (ROOT / path).exists(), path
    tables = re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", text)
    assert len(tables) > 10
    for name, path in tables:
        source = (package / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def )?{name}\b", source, re.MULTILINE), (name, path)
