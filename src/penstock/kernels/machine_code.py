"""The cache of machine code: later processes load what Numba has compiled once.

Numba has a cache of its own, but it accepts damaged files or fails on them, and two processes that
write at the same time can get each other's code. Here every file holds one function for one
signature, is named after both, and starts with a checksum and a stamp of what was compiled. It is
written to a temporary file, synced and renamed. So a file is either whole and the right one, or
ignored: then the function is compiled again and the file replaced. A cache that cannot be read or
written costs time, but never stops a query.

Cached code is executed. So a folder is used only if no other user can write to it, except the
folder of Penstock's own source, which is executed as well.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba as nb
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from penstock.errors import warn

Function = TypeVar("Function", bound=Callable[..., Any])

_MAGIC = b"penstock code 1\n"
_CHECK = 32
SUFFIX = ".code"


def njit(**options: Any) -> Callable[[Function], Function]:
    """Compile a function of this package with Numba, and cache it.

    It runs without the interpreter lock, unless ``nogil=False``.
    """

    def decorate(function: Function) -> Function:
        compiled = nb.njit(**{"nogil": True, **options})(function)
        try:
            place = caching.CompileResultCacheImpl(function)  # type: ignore[no-untyped-call]
        except RuntimeError:
            return compiled  # type: ignore[no-any-return]  # there is no folder to write to
        locator = place.locator
        folder = Path(locator.get_cache_path())
        in_tree = isinstance(locator, caching.InTreeCacheLocator)
        stamp = repr(locator.get_source_stamp())
        keep(compiled, CodeFiles(folder, place.filename_base, stamp, in_tree))
        return compiled  # type: ignore[no-any-return]

    return decorate


def keep(compiled: Any, files: CodeFiles) -> None:
    """Cache the code of a function that Numba compiles in these files."""
    if hasattr(compiled, "_cache"):  # without NUMBA_DISABLE_JIT
        compiled._cache = files


class CodeFiles(caching.NullCache):
    """The cache of one function's machine code, with the interface that Numba calls.

    Parameters
    ----------
    folder, name
        The folder of the files, and what their names begin with.
    stamp
        Identifies what was compiled: files with another stamp are ignored.
    trusted
        Whether files are used even if other users can write to the folder.
    """

    def __init__(self, folder: Path, name: str, stamp: str, trusted: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._stamp = stamp
        self._trusted = trusted

    @property
    def cache_path(self) -> str:
        """Where the files are."""
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for a signature; None if there is no valid file."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        path = self._path(key)
        try:
            content = path.read_bytes() if self._is_safe() else None
        except OSError:
            return None
        if content is None:
            return None
        code = checked(content)
        if code is None:
            warn_of_damage(path)
            return None
        rebuild: Any = CompileResult._rebuild
        try:
            known, payload = pickle.loads(code)
            return rebuild(target_context, *payload) if known == key else None
        except Exception:  # whole, but it refers to something that this process does not have
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code to its file, if it can be cached."""
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_safe():
                content: bytes = dumps((key, data._reduce()))  # type: ignore[no-untyped-call]
                write(self._path(key), with_check(content))
        except OSError as error:
            warn_of_disk(self._folder, error)

    def _is_safe(self) -> bool:
        return self._trusted or why_unsafe(self._folder) is None

    def _key(self, sig: Any, codegen: Any) -> tuple[str, ...]:
        """Everything that the code depends on."""
        return (nb.__version__, self._stamp, repr(sig), repr(codegen.magic_tuple()))

    def _path(self, key: tuple[str, ...]) -> Path:
        signature = hashlib.sha256(repr(key[2:]).encode()).hexdigest()[:16]
        return self._folder / f"{self._name}.{signature}{SUFFIX}"


def with_check(content: bytes) -> bytes:
    """The content of a file, after the header that :func:`checked` verifies."""
    return _MAGIC + hashlib.sha256(content).digest() + content


def checked(file: bytes) -> bytes | None:
    """The content of a file; None if the file is damaged.

    >>> checked(with_check(b"code")), checked(with_check(b"code")[:-1])
    (b'code', None)
    """
    start = len(_MAGIC) + _CHECK
    content = file[start:]
    return content if file[:start] + content == with_check(content) else None


def write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def why_unsafe(folder: Path) -> str | None:
    """Why code in a folder must not be executed; None if it is the user's alone, or missing."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    return "other users can write to it" if found.st_mode & 0o022 else None


@functools.cache
def warn_of_damage(path: Path) -> None:
    """Warn, once, that a file is damaged."""
    warn(
        f"{path} is damaged. Its kernel is compiled again and the file replaced; if this comes "
        "again, look at the disk.",
        RuntimeWarning,
    )


@functools.cache
def _warn_of_folder(folder: Path, why: str) -> None:
    warn(
        f"compiled kernels cannot be kept in {folder}: {why}. Queries run, and every process "
        "compiles anew. Set PENSTOCK_CACHE to a folder that is yours alone (chmod 700).",
        RuntimeWarning,
    )


def warn_of_disk(folder: Path, error: OSError) -> None:
    """Warn, once for a folder and a reason, that nothing can be written."""
    _warn_of_folder(folder, error.strerror or str(error))


def warn_of_folder(folder: Path, why: str) -> None:
    """Warn, once for a folder and a reason, that it is not used."""
    _warn_of_folder(folder, why)
