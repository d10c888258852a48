"""Generated kernels as the Python they are: thousands of them can be tried without compiling."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.kernels import entry_index, nested_loop, one_probe, single


@functools.cache
def load_plain(source: str) -> Callable[..., Any]:
    """As :func:`penstock.kernels.compiled.load`, without the decorator that compiles."""
    lines = [line for line in source.splitlines() if not line.startswith("@nb.njit")]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    kernel: Callable[..., Any] = namespace["kernel"]
    return kernel


@contextmanager
def plain_kernels() -> Iterator[pytest.MonkeyPatch]:
    """Inside, kernels are not compiled; more can be patched for as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested_loop, "load", load_plain)
        patch.setattr(entry_index, "load", load_plain)
        patch.setattr(single, "load", load_plain)
        patch.setattr(one_probe, "load", load_plain)
        yield patch
