"""Compile policy: the one place that says how a kernel becomes native code.

A kernel is a plain function with loops over arrays. `MAINSTEM_JIT=0` leaves it uncompiled: slow, but steppable in a
debugger and equal in result.

Compiled code is kept on disk for the next process. Numba checks a cached kernel against its own source file only, not
against the kernels it calls in other files, nor the constants it reads from them; a changed hash function inside a
cached caller would silently lose keys. So the cache folder is named after the content of every module of the package
that takes part in compiled code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

JIT_ENABLED = os.environ.get("MAINSTEM_JIT", "1") != "0"

# A kernel allocates nothing, so it needs no reference counts: without Numba's runtime an allocation is a compile error,
# and arrays pass to inlined helpers for free (hashing short strings takes half the time).
_OPTIONS = {"nogil": True, "cache": True, "_nrt": False}

_PACKAGE = Path(__file__).resolve().parent
# A module that mentions one of these holds code that is compiled, alone or inside a caller.
_COMPILED_MARKS = (b"numba", b"@kernel", b"@inlined")
_IMPORT = re.compile(r"^\s*from (?P<dots>\.*)(?P<module>[\w.]*) import (?P<names>\([^)]*\)|[^\n]*)", re.MULTILINE)
_VERSIONS_KEPT = 8  # several installations may share a home
_cache_dir_lock = threading.RLock()


def kernel(function: F) -> F:
    """Compile `function` to GIL-free native code, cached on disk; with `MAINSTEM_JIT=0` return it as it is."""
    return compile_kernel(function) if JIT_ENABLED else function


def inlined(function: F) -> F:
    """A kernel that is always inlined into its callers.

    For small helpers of hot loops: a call that passes arrays costs about 10 ns, as much as a look-up.
    """
    return compile_kernel(function, forceinline=True) if JIT_ENABLED else function


def compile_kernel(function: F, **options: Any) -> F:
    """Compile `function` whatever `MAINSTEM_JIT` says; `options` go to Numba."""
    import numba

    with cache_here():
        compiled: Any = numba.njit(**{**_OPTIONS, **options})(function)
    return compiled


@contextlib.contextmanager
def cache_here() -> Iterator[None]:
    """What is decorated meanwhile keeps its compiled code in our folder.

    Numba picks the folder while it decorates, so the setting is ours for this moment only and the user's own Numba
    functions keep theirs.
    """
    import numba

    settings: Any = numba.config
    with _cache_dir_lock:
        users_own = settings.CACHE_DIR
        settings.CACHE_DIR = str(cache_folder() / "numba")
        try:
            yield
        finally:
            settings.CACHE_DIR = users_own


def plain(function: F) -> F:
    """The uncompiled form of a kernel."""
    return getattr(function, "py_func", function)


@functools.cache
def cache_folder() -> Path:
    """A writable folder for generated source and compiled code of exactly this version of the package.

    `MAINSTEM_CACHE`, else `mainstem` in the user's cache folder, else (no writable home: containers) in the
    system's temporary folder.
    """
    root = _root()
    folder = root / _fingerprint()
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    if new:
        _drop_oldest(root)
    return folder


def _drop_oldest(root: Path) -> None:
    """Versions of the package come and go; their compiled code need not stay."""
    versions = [f for f in root.iterdir() if re.fullmatch("[0-9a-f]{16}", f.name)]
    for folder in sorted(versions, key=lambda f: f.stat().st_mtime, reverse=True)[_VERSIONS_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _root() -> Path:
    chosen = os.environ.get("MAINSTEM_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "mainstem"
    if _writable(home):
        return home
    return Path(tempfile.gettempdir()) / f"mainstem-{os.getuid()}"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _fingerprint() -> str:
    content = hashlib.blake2b(digest_size=8)
    for path, source in sorted(frozen_in(_PACKAGE).items()):
        content.update(f"{path.relative_to(_PACKAGE).as_posix()}:{len(source)}:".encode())
        content.update(source)
    return content.hexdigest()


def frozen_in(package: Path) -> dict[Path, bytes]:
    """The modules that take part in compiled code, with their text: those with kernels, those whose constants they
    import (a constant is frozen into the code that reads it), and those whose constants these are made of."""
    sources = {path: path.read_bytes() for path in package.rglob("*.py")}
    todo = [path for path, source in sources.items() if any(mark in source for mark in _COMPILED_MARKS)]
    found: dict[Path, bytes] = {}
    while todo:
        path = todo.pop()
        if path not in found:
            found[path] = sources[path]
            todo += [module for module in _constants_from(path, sources[path], package) if module in sources]
    return found


def _constants_from(path: Path, source: bytes, package: Path) -> Iterator[Path]:
    """Where the modules may be that a module imports constants from, or imports as a whole."""
    for match in _IMPORT.finditer(source.decode()):
        dots, name = len(match["dots"]), match["module"]
        if not dots and name.split(".")[0] != package.name:
            continue
        base = path.parents[dots - 1] if dots else package.parent
        module = base.joinpath(*name.split(".")) if name else base
        names = re.findall(r"\w+", match["names"])
        yield from (module / f"{each}.py" for each in names)
        if any(each.isupper() for each in names):
            yield from (module.with_suffix(".py"), module / "__init__.py")
