"""Memory that has been used once is kept for the next batch.

A batch goes through dozens of arrays of a megabyte or so, which live for a few milliseconds. The C
library by default gives such memory back to the system as soon as it is free, and the system clears
every page again that is asked for next: that took as long as the work itself. So the process is
told to keep what it has freed, up to a gigabyte.
"""

from __future__ import annotations

import ctypes
import functools
import os

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
KEPT = 1 << 30
LARGEST = 32 << 20
"""Larger arrays are given back at once, as ever: the C library allows no higher threshold."""
STEP = 64 << 20
OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


@functools.cache
def keep_freed_memory() -> bool:
    """Keep freed memory, unless ``PENSTOCK_KEEP_MEMORY=0`` or the user has settings of his own.

    Returns whether the C library has taken it; others than GNU's have no such setting.
    """
    if os.environ.get("PENSTOCK_KEEP_MEMORY") == "0":
        return False
    if any(name in os.environ for name in (*OWN_SETTINGS, "GLIBC_TUNABLES")):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((MMAP_THRESHOLD, LARGEST), (TRIM_THRESHOLD, KEPT), (TOP_PAD, STEP))
    return all([bool(mallopt(name, value)) for name, value in settings])
