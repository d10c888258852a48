"""Loaders of functions from generated source: compiled once per machine, or plain Python.

What :func:`load` compiles is written to a file named by its hash, for debuggers and profilers to
show, and its machine code is cached beside it (:mod:`penstock.kernels.machine_code`). So every
later process finds the files of the same predicate. What is executed is the generated source, never
the file.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from penstock.kernels.machine_code import (
    CodeFiles,
    keep,
    warn_of_damage,
    warn_of_disk,
    warn_of_folder,
    why_unsafe,
    write,
)
from penstock.signals import undivided

Loader = Callable[[str], Callable[..., Any]]
"""From source that defines ``kernel`` to that function."""


def loader(compile_predicates: bool) -> Loader:
    """The loader that the option of that name asks for."""
    return load if compile_predicates else load_plain


def cache_directory() -> Path:
    """The folder of generated source and machine code; ``PENSTOCK_CACHE`` overrides it."""
    chosen = os.environ.get("PENSTOCK_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock" / "kernels"


def _usable_directory() -> Path | None:
    """The cache directory; None, after a warning, if it cannot be used."""
    try:
        directory = cache_directory()
    except RuntimeError:  # there is no home
        return None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        warn_of_disk(directory, error)
        return None
    why = why_unsafe(directory)
    if why is not None:
        warn_of_folder(directory, why)
        return None
    return directory


@functools.cache
def load(source: str) -> Callable[..., Any]:
    """The function ``kernel`` that ``source`` defines."""
    digest = hashlib.sha256(source.encode()).hexdigest()
    directory = _usable_directory()
    name = f"kernel_{digest[:32]}"
    path = Path("<penstock>", f"{name}.py") if directory is None else directory / f"{name}.py"
    if directory is not None:
        _write_source(path, source)
    module = ModuleType(f"penstock_{name}")
    module.__file__ = str(path)
    # Numba looks the module up by name, when it compiles and when it loads cached code.
    sys.modules[module.__name__] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    function: Callable[..., Any] = module.__dict__["kernel"]
    if directory is not None:
        keep(function, CodeFiles(directory, name, digest))
    return function


@functools.cache
def load_plain(source: str) -> Callable[..., Any]:
    """The same function as Python runs it: nothing is compiled, and nothing is kept in a file."""
    namespace: dict[str, Any] = {"__name__": "penstock_plain_kernel"}
    exec(source, namespace)
    function: Callable[..., Any] = namespace["kernel"].py_func
    # NumPy's scalars warn where machine code gives infinity or NaN, or wraps around.
    return np.errstate(all="ignore")(function)


def load_storing(load: Loader, source: str) -> Callable[..., Any]:
    """The function of a source that stores a tuple, which no signal divides.

    None comes into the middle of machine code; plain Python could leave columns of unequal length.
    """
    function = load(source)
    if load is not load_plain:
        return function
    return lambda *given: undivided(functools.partial(function, *given))


def _write_source(path: Path, source: str) -> None:
    """Write the source to its file, unless it is there or the file cannot be written."""
    try:
        known = path.read_bytes() if path.exists() else None
        if known is not None and known != source.encode():
            warn_of_damage(path)
        if known != source.encode():
            write(path, source.encode())
    except OSError as error:
        warn_of_disk(path.parent, error)
