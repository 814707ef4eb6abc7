"""Directories that this process has open for something that ends by itself, such as a live query.

Whoever ends does so in a thread of its own, a moment after everybody has been told. So who opens a directory next asks
for it, and gets it when it is not in use any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_lent: dict[str, Callable[[], None]] = {}
_lock = threading.Lock()


def lend(path: str | Path, give_back: Callable[[], None]) -> None:
    """`give_back` closes the store of a directory if it is no longer in use; called again, it does nothing."""
    with _lock:
        _lent[_key(path)] = give_back


def ask_back(path: str | Path) -> None:
    """Have a directory closed that was lent and is not in use any more."""
    with _lock:
        give_back = _lent.get(_key(path))
    if give_back is not None:
        give_back()


def returned(path: str | Path, give_back: Callable[[], None]) -> None:
    """It was closed."""
    with _lock:
        if _lent.get(_key(path)) is give_back:
            del _lent[_key(path)]


def _key(path: str | Path) -> str:
    return str(Path(path).resolve())
