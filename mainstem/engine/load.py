"""Generated source to callable kernels.

Compiled code is kept on disk by content, for the next process and for Spark's workers.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mainstem.engine import library, native
from mainstem.jit import cache_folder, cache_here, compile_kernel

# Generated code allocates nothing and keeps no array, so it needs no reference counts: with them, every transaction
# would count a dozen arrays up and down, which costs several times the transaction itself.
_OPTIONS = {"_nrt": False}


@functools.lru_cache(maxsize=256)
def load(source: str, jit: bool) -> dict[str, Any]:
    """The functions of a program's generated source, by name."""
    return _compiled(source) if jit else _interpreted(source)


def _interpreted(source: str) -> dict[str, Any]:
    space = {"kernel": _as_it_is, "inlined": _as_it_is, "entry": _as_it_is, **library.names(jit=False)}
    exec(compile(source, "<generated kernels>", "exec"), space)
    return space


def _as_it_is(function: Any) -> Any:
    return function


def _compiled(source: str) -> dict[str, Any]:
    """A module file per content: Numba's disk cache belongs to a file."""
    path = _folder() / f"kernels_{_name(source)}.py"
    if not path.exists():
        _write(path, source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # cached code finds its module by name
    vars(module).update(kernel=_kernel, inlined=_inlined, entry=_entry, **library.names(jit=True))
    spec.loader.exec_module(module)
    return vars(module)


def _kernel(function: Any) -> Any:
    return compile_kernel(function, **_OPTIONS)


def _inlined(function: Any) -> Any:
    return compile_kernel(function, **_OPTIONS, forceinline=True)


def _entry(function: Any) -> Any:
    with cache_here():
        return native.entry(function)


def _name(source: str) -> str:
    return hashlib.blake2b(f"{_OPTIONS}\n{source}".encode(), digest_size=10).hexdigest()


def _folder() -> Path:
    folder = cache_folder() / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(path: Path, source: str) -> None:
    """All at once: another process may import the file at any moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(source)
    os.replace(temporary, path)


@contextlib.contextmanager
def compiling(source: str) -> Iterator[None]:
    """One process compiles a program at a time: two that fill one Numba cache at once can break it."""
    with open(_folder() / f"{_name(source)}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
