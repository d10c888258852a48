"""What README and docs say is so: code runs, scripts replay, links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from penstock.testing import replay_text, run_on_oracle

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def blocks(language: str) -> list[object]:
    """Every block in that language, with the ``text`` block right after it, if there is one."""
    found: list[object] = []
    for page in PAGES:
        fences = FENCE.findall(page.read_text(encoding="utf-8"))
        for number, (kind, code) in enumerate(fences):
            following = fences[number + 1] if number + 1 < len(fences) else ("", "")
            output = following[1] if following[0] == "text" else None
            if kind == language:
                found.append(pytest.param(code, output, id=f"{page.name}-{number}"))
    return found


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can lead to."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(("code", "output"), blocks("python"))
def test_python_prints_what_the_page_says(code: str, output: str | None) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == (output or "")


@pytest.mark.parametrize(("script", "output"), blocks("flow"))
def test_script_prints_what_the_page_says(script: str, output: str | None) -> None:
    result = replay_text(script, engine="local", batch=1)
    assert result.failures == []
    assert result.lines == run_on_oracle(script).lines
    if output is not None:
        assert result.lines == output.splitlines()


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


def test_readme_has_a_program_and_a_script() -> None:
    """So that the two tests above cannot pass by finding nothing."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kinds = [kind for kind, _ in FENCE.findall(text)]
    assert kinds.count("python") >= 1
    assert kinds.count("flow") >= 1


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
