"""Repeated measurements and their summary."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def repeat(work: Callable[[], Any], times: int) -> list[float]:
    """The seconds that each run of ``work`` took."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def rate(units: float, seconds: list[float]) -> dict[str, float]:
    """Units per second: the median of the runs, and the slowest and fastest."""
    return {
        "median": units / statistics.median(seconds),
        "slowest": units / max(seconds),
        "fastest": units / min(seconds),
        "runs": len(seconds),
    }


def machine() -> dict[str, Any]:
    """The machine that the figures were measured on."""
    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
        model = names[0] if names else model
    found = {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}
    cache = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    if cache.exists():
        found["second_level_cache"] = int(cache.read_text().strip().removesuffix("K")) * 1024
    return found
