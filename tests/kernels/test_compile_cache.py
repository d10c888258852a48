"""Kernels are compiled once per machine: the second process finds them in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.kernels import compiled

# Counts what Numba compiles, not what it loads; prints that and the rows.
SCRIPT = """
import json, sys
from numba.core import event
import penstock as ps

with event.install_recorder("numba:compile") as recorder:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (x INT, n STRING); CREATE STREAM S (x INT, n STRING)")
    rows = []
    for on in sys.argv[1:]:
        join = f"R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON {on}"
        q = engine.install(f"SELECT r.x, s.x AS y FROM {join}")
        engine.push("R", [{"x": 1, "n": "a"}, {"x": None, "n": "b"}])
        engine.push("S", [{"x": 3, "n": "a"}, {"x": 1, "n": None}])
        engine.push("R", [{"x": 4, "n": "a"}])
        rows.append(q.rows().to_pylist())
        q.drop()
starts = [e for _, e in recorder.buffer if e.is_start]
print(json.dumps({"compilations": len(starts), "rows": rows}))
"""


def run(cache: Path, *predicates: str) -> dict[str, Any]:
    """What a process of its own compiles and finds."""
    environment = {**os.environ, "PENSTOCK_CACHE": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *predicates],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    predicates = ("r.x <= s.x + 1 AND r.n = s.n", "r.x + s.x > 4")
    first = run(tmp_path / "cache", *predicates)
    assert first["compilations"] > 0
    second = run(tmp_path / "cache", *predicates)
    assert second["compilations"] == 0
    assert (
        first["rows"]
        == second["rows"]
        == [
            [{"x": 1, "y": 3}, {"x": 4, "y": 3}],
            [{"x": 4, "y": 3}, {"x": 4, "y": 1}],
        ]
    )
    # The constant is an argument of the kernel, not a part of its source.
    other = run(tmp_path / "cache", "r.x <= s.x + 5 AND r.n = s.n", "r.x + s.x > 5")
    assert other["compilations"] == 0
    for source in (tmp_path / "cache").glob("*.py"):
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:32]
        assert source.name == f"kernel_{digest}.py"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    compiled.load.cache_clear()
    return tmp_path / "cache"


SOURCE = '"""A kernel."""\n\n\ndef kernel():\n    return {}\n'


def test_generated_source_is_a_file_named_by_its_hash(cache: Path) -> None:
    source = SOURCE.format(42)
    kernel = compiled.load(source)
    assert kernel() == 42
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    (path,) = cache.iterdir() if not (cache / "__pycache__").exists() else cache.glob("*.py")
    assert path.name == f"kernel_{digest}.py"
    assert path.read_text() == source
    assert compiled.load(source) is kernel
    assert compiled.load(SOURCE.format(43))() == 43


def test_a_file_that_is_there_is_left_alone(cache: Path) -> None:
    source = SOURCE.format(42)
    compiled.load(source)
    (path,) = cache.glob("*.py")
    os.utime(path, (1, 1))
    compiled.load.cache_clear()
    compiled.load(source)
    assert path.stat().st_mtime == 1


@pytest.mark.parametrize("obstacle", ["a file", "under a file", "read-only"])
def test_a_cache_that_cannot_be_written_does_not_stop_a_query(
    cache: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    if obstacle == "read-only":
        cache.mkdir()
        # As root every directory is writable, so the system is made to say otherwise.
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    else:
        cache.write_text("in the way")
        if obstacle == "under a file":
            monkeypatch.setenv("PENSTOCK_CACHE", str(cache / "below"))
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (x INT)")
    q = engine.install("SELECT r.x FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x < s.x")
    engine.push("R", [{"x": 1}, {"x": 9}])
    engine.push("S", [{"x": 5}])
    assert q.rows().to_pylist() == [{"x": 1}]
    assert not cache.is_dir() or list(cache.iterdir()) == []


def test_the_cache_is_in_the_home_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert compiled.cache_directory() == Path("/somewhere/penstock/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert compiled.cache_directory() == Path("/home/ada/.cache/penstock/kernels")
    monkeypatch.setenv("PENSTOCK_CACHE", "/elsewhere")
    assert compiled.cache_directory() == Path("/elsewhere")
