"""Generated source becomes a function, compiled once per machine.

Numba caches what it compiles beside the file the function came from, so generated source must have
a file. It is named by the hash of the source: the same predicate finds the same file, and with it
the machine code, in every later process.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def cache_directory() -> Path:
    """Where generated source and machine code are kept; ``PENSTOCK_CACHE`` overrides it."""
    chosen = os.environ.get("PENSTOCK_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock" / "kernels"


def _writable_directory() -> Path:
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if os.access(directory, os.W_OK):
            return directory
    except OSError:
        pass
    # A read-only home must not stop a query; it only has to compile again in the next process.
    return Path(tempfile.mkdtemp(prefix="penstock-kernels-"))


@functools.cache
def load(source: str) -> Callable[..., Any]:
    """The function ``kernel`` that ``source`` defines."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    path = _writable_directory() / f"kernel_{digest}.py"
    if not path.exists():
        # Written aside and renamed, so that another process never imports half a file. An existing
        # file is left alone: Numba's cache is valid only for the file's time of change.
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(f"penstock_kernel_{digest}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the generated kernel {path}")
    module = importlib.util.module_from_spec(spec)
    # Numba looks the module up by name, when it compiles and when it loads what it has cached.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.kernel
    return function
