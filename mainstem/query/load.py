"""From the files to a view, however often the writer drops some of them meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mainstem.errors import CorruptError, StoreError
from mainstem.progress import recovery_bar
from mainstem.query.follow import Follower, identity
from mainstem.query.view import View
from mainstem.store.disk import store_error
from mainstem.store.format import read_format
from mainstem.store.layout import Layout
from mainstem.store.recovery import recover, replay

# The writer may drop files while they are being read; real damage gives the same answer again and again.
_LOAD_SECONDS = 30
_SAME_ANSWERS = 3
_RETRY_SECONDS = 0.01

Loaded = TypeVar("Loaded")


def load(layout: Layout) -> tuple[Follower, list[str]]:
    """The last committed state, ready to go on, and warnings of damage that cost nothing."""
    return beside_a_writer(layout, lambda: _load_once(layout))


def beside_a_writer(layout: Layout, read: Callable[[], Loaded]) -> Loaded:
    """What `read` gives; it is called again when files vanish under it, until the same thing fails repeatedly."""
    answers: list[object] = []
    deadline = time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < deadline:
        try:
            return read()
        except (CorruptError, FileNotFoundError) as error:
            answers.append((str(error), layout.listing()))
            if answers[-_SAME_ANSWERS:] == answers[-1:] * _SAME_ANSWERS:
                if isinstance(error, CorruptError):
                    raise
                raise store_error("read", layout.path, error) from error
        except OSError as error:
            raise store_error("read", layout.path, error) from error
        time.sleep(_RETRY_SECONDS)
    raise StoreError(f"{layout.path} changes faster than it can be read\n  try again, or take fewer snapshots")


def _load_once(layout: Layout) -> tuple[Follower, list[str]]:
    known = identity(layout)  # before the file is read: should it be replaced meanwhile, then the next query notices
    stored = read_format(layout)
    with recovery_bar() as told:
        found = recover(layout, stored.store, spares=False, told=told)
    try:
        found.cursor.sync()
        view = View(layout, stored)
        for name, table in replay(layout, stored, found.base, found.shards, found.epoch, found.tail):
            view.apply(name, table)
        view.epoch, view.meta, view.shards = found.epoch, found.meta, found.shards
        return Follower(view, found.cursor, known), found.warnings
    except BaseException:
        found.cursor.close()
        raise
