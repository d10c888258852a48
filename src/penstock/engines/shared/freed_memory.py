"""Freed memory stays with the process for the next batch.

A batch goes through dozens of arrays of about a megabyte, which live for a few milliseconds. By
default the C library returns such memory to the system as soon as it is free, and the system clears
every page before it hands it out again: that took as long as the processing itself. So the process
keeps up to a gigabyte of freed memory.
"""

from __future__ import annotations

import ctypes
import functools
import os

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
FREE_BYTES = 1 << 30
LARGEST = 32 << 20
"""Larger arrays are returned at once: the C library allows no higher threshold."""
STEP = 64 << 20
OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


@functools.cache
def keep_freed_memory() -> bool:
    """Keep freed memory, unless ``PENSTOCK_KEEP_MEMORY=0`` or malloc settings are in force.

    Returns whether the C library has accepted it; only GNU's has such a setting.
    """
    if os.environ.get("PENSTOCK_KEEP_MEMORY") == "0":
        return False
    if any(name in os.environ for name in (*OWN_SETTINGS, "GLIBC_TUNABLES")):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((MMAP_THRESHOLD, LARGEST), (TRIM_THRESHOLD, FREE_BYTES), (TOP_PAD, STEP))
    return all([bool(mallopt(name, value)) for name, value in settings])
