"""Kernels are compiled once per machine: the second process finds them in the cache."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.campaigns import kernel_cache

import penstock as ps
from penstock.kernels import compiled, machine_code

# Counts what Numba compiles, not what it loads; prints that and the rows.
SCRIPT = """
import json, sys
from numba.core import event
from tests.campaigns import kernel_cache

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
    """What a separate process compiles and finds."""
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


@pytest.mark.long
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
    forget()
    return tmp_path / "cache"


def forget() -> None:
    """Forget everything that a new process would not know."""
    compiled.load.cache_clear()
    machine_code.warn_of_damage.cache_clear()
    machine_code._warn_of_folder.cache_clear()


SOURCE = '"""A kernel."""\n\n\ndef kernel():\n    return {}\n'


def test_generated_source_is_a_file_named_by_its_hash(cache: Path) -> None:
    source = SOURCE.format(42)
    kernel = compiled.load(source)
    assert kernel() == 42
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    (path,) = cache.iterdir()
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


NUMBERS = """
import numba as nb


@nb.njit(nogil=True)
def kernel(x):
    return x + {}
"""


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def damages(path: Path) -> Iterator[str]:
    """Damage a file in every way, one after another."""
    content = path.read_bytes()
    for place in (0, 20, len(content) // 2, len(content) - 1):
        flipped = bytearray(content)
        flipped[place] ^= 0x10
        path.write_bytes(flipped)
        yield f"{path.name} flipped at {place}"
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        yield f"{path.name} cut to {length}"
    path.write_bytes(content + b"\n")
    yield f"{path.name} with more after it"


def test_a_damaged_file_is_compiled_again_and_told_once(cache: Path) -> None:
    source = NUMBERS.format(40)
    assert compiled.load(source)(2) == 42
    paths = sorted(cache.iterdir())
    assert [path.suffix for path in paths] == [".code", ".py"]
    wanted = {path: path.read_bytes() for path in paths}
    for path in paths:
        for damage in damages(path):
            forget()
            with pytest.warns(RuntimeWarning) as caught:
                assert compiled.load(source)(2) == 42, damage
            assert {warning.filename for warning in caught} == {__file__}
            assert [str(warning.message) for warning in caught] == [
                f"{path} is damaged. Its kernel is compiled again and the file replaced; if this "
                "comes again, look at the disk."
            ], damage
            assert path.suffix != ".py" or path.read_bytes() == wanted[path]
            forget()
            assert compiled.load(source)(2) == 42
        path.unlink()
        forget()
        assert compiled.load(source)(2) == 42
        assert sorted(cache.iterdir()) == paths


def test_code_of_another_kernel_is_not_taken_for_this_one(cache: Path) -> None:
    """A copy is whole, but its stamp is that of another kernel."""
    for number in (40, 50):
        assert compiled.load(NUMBERS.format(number))(2) == number + 2
    one, other = sorted(cache.glob("*.code"))
    other.write_bytes(one.read_bytes())
    forget()
    for number in (40, 50):
        assert compiled.load(NUMBERS.format(number))(2) == number + 2


@pytest.mark.parametrize("obstacle", ["a file", "under a file", "read-only", "full"])
def test_a_cache_that_cannot_be_written_does_not_stop_a_query(
    cache: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    folder, why = cache, "File exists"
    if obstacle == "read-only":
        # As root every folder is writable, so the check is patched.
        why = "Permission denied"
        denied = OSError(errno.EACCES, why)
        monkeypatch.setattr(tempfile, "mkstemp", Mock(side_effect=denied))
    elif obstacle == "full":
        monkeypatch.setattr(os, "fsync", no_space)
        why = "No space left on device"
    else:
        cache.write_text("in the way")
        if obstacle == "under a file":
            folder, why = cache / "below", "Not a directory"
            monkeypatch.setenv("PENSTOCK_CACHE", str(folder))
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=AssertionError("a folder")))
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (x INT)")
    with pytest.warns(RuntimeWarning) as caught:
        for sign in ("<", "<="):
            on = f"R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.x {sign} s.x"
            q = engine.install(f"SELECT r.x FROM {on}")
            engine.push("R", [{"x": 1}, {"x": 9}])
            engine.push("S", [{"x": 5}])
            assert q.rows().to_pylist() == [{"x": 1}]
            q.drop()
    assert [str(warning.message) for warning in caught] == [
        f"compiled kernels cannot be kept in {folder}: {why}. Queries run, and every process "
        "compiles anew. Set PENSTOCK_CACHE to a folder that is yours alone (chmod 700)."
    ]
    assert not cache.is_dir() or list(cache.iterdir()) == []


def test_a_cache_that_is_made_is_the_users_alone(cache: Path) -> None:
    assert compiled.load(NUMBERS.format(1))(2) == 3
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_code_that_others_could_have_written_is_not_executed(cache: Path, mode: int) -> None:
    source = NUMBERS.format(40)
    assert compiled.load(source)(2) == 42
    forget()
    before = {path: path.read_bytes() for path in cache.iterdir()}
    cache.chmod(mode)
    with pytest.warns(RuntimeWarning, match="other users can write to it"):
        kernel = compiled.load(source)
        assert kernel(2) == 42
    assert kernel.stats.cache_hits == {}
    assert {path: path.read_bytes() for path in cache.iterdir()} == before


def test_code_of_another_user_is_not_executed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = NUMBERS.format(40)
    assert compiled.load(source)(2) == 42
    forget()
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning) as caught:
        kernel = compiled.load(source)
        assert kernel(2) == 42
    assert kernel.stats.cache_hits == {}
    assert [str(warning.message) for warning in caught] == [
        f"compiled kernels cannot be kept in {cache}: it belongs to another user. Queries run, and "
        "every process compiles anew. Set PENSTOCK_CACHE to a folder that is yours alone (chmod "
        "700)."
    ]


def test_there_need_be_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    for name in ("PENSTOCK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    assert compiled.load(NUMBERS.format(1))(2) == 3


def test_processes_that_compile_at_the_same_time_find_their_own_code(tmp_path: Path) -> None:
    """Each has its own signatures; the files left in the cache are whole and serve all."""
    cache, source = tmp_path / "cache", NUMBERS.format(1)
    script = (
        "import sys; from penstock.kernels import compiled; import numpy as np\n"
        f"kernel = compiled.load({source!r})\n"
        "print([kernel(getattr(np, name)(7)) for name in sys.argv[1:]])"
    )
    environment = {**os.environ, "PENSTOCK_CACHE": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    kinds = (["int64", "float64"], ["float64", "int64"])
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *names],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for names in kinds
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == [
        "[8, 8.0]\n",
        "[8.0, 8]\n",
    ]
    assert sorted(path.suffix for path in cache.iterdir()) == [".code", ".code", ".py"]
    for path in cache.glob("*.code"):
        assert machine_code.checked(path.read_bytes()) is not None


def test_functions_of_the_package_are_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code is beside the source; what cannot be cached is compiled again."""
    forget()
    (tmp_path / "own.py").write_text(
        "from penstock.kernels.machine_code import njit\n\n\n"
        "@njit()\ndef add(x):\n    return x + 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def fresh() -> Any:
        sys.modules.pop("own", None)
        return importlib.import_module("own").add

    assert fresh()(1) == 2
    (path,) = (tmp_path / "__pycache__").glob("*.code")
    again = fresh()
    assert again(1) == 2 and sum(again.stats.cache_hits.values()) == 1
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert fresh()(1) == 2
    path.unlink()
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert fresh()(1) == 2
    assert not list((tmp_path / "__pycache__").glob("own*.code*"))


def test_the_cache_is_in_the_home_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert compiled.cache_directory() == Path("/somewhere/penstock/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert compiled.cache_directory() == Path("/home/ada/.cache/penstock/kernels")
    monkeypatch.setenv("PENSTOCK_CACHE", "/elsewhere")
    assert compiled.cache_directory() == Path("/elsewhere")


@pytest.mark.long
def test_a_few_cases_of_the_campaign() -> None:
    assert kernel_cache.run(seed=7, count=4) == 0
