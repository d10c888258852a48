"""Freed memory is kept, unless the user says otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = "from penstock.engines.shared.freed_memory import keep_freed_memory as keep; print(keep())"
FAULTS = """
import resource
import numpy as np
from penstock.engines.shared.freed_memory import keep_freed_memory

keep_freed_memory()
for _ in range(20):
    arrays = [np.ones(1 << 18) for _ in range(8)]
    del arrays
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    arrays = [np.ones(1 << 18) for _ in range(8)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def said(script: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries have no such setting")
def test_freed_memory_is_used_again() -> None:
    assert said(SCRIPT) == "True"
    # An array of two megabytes is five hundred pages; asked for anew, each would be a fault.
    anew = said(FAULTS, PENSTOCK_KEEP_MEMORY="0", MALLOC_MMAP_THRESHOLD_="65536")
    assert int(said(FAULTS)) < 20 * 8 * 512 / 10 < int(anew)


@pytest.mark.parametrize(
    "name", ["PENSTOCK_KEEP_MEMORY", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"]
)
def test_the_users_own_settings_win(name: str) -> None:
    value = {"PENSTOCK_KEEP_MEMORY": "0", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    assert said(SCRIPT, **{name: value.get(name, "glibc.malloc.top_pad=4096")}) == "False"
