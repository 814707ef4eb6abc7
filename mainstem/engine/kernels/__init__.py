"""Kernels of strategies, compiled or plain."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

_PLAIN = f"{__name__}_plain"
_lock = threading.Lock()


@functools.cache
def load(name: str, jit: bool) -> ModuleType:
    """The kernels of one module of this folder; with `jit` false, uncompiled."""
    if jit:
        return importlib.import_module(f"{__name__}.{name}")
    with _lock:
        _plain_package()
        return importlib.import_module(f"{_PLAIN}.{name}")


def _plain_package() -> None:
    """A second package over the same files, whose `base` is `base_plain`."""
    if _PLAIN in sys.modules:
        return
    package = ModuleType(_PLAIN)
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_PLAIN] = package
    sys.modules[f"{_PLAIN}.base"] = importlib.import_module(f"{__name__}.base_plain")
