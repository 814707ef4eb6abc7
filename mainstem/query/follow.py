"""A view that follows the log: how queries see every commit that was acknowledged before they began."""

from __future__ import annotations

import os

from mainstem.errors import CorruptError
from mainstem.query.view import View
from mainstem.store.layout import Layout
from mainstem.store.log import LogCursor

Identity = tuple[int, ...]


class Follower:
    """A view, and the place in the log that it has reached."""

    def __init__(self, view: View, cursor: LogCursor, known: Identity) -> None:
        self.view = view
        self.broken = False  # a failure left the view behind the cursor
        self._cursor, self._identity = cursor, known

    def stale(self) -> bool:
        """Whether there may be something new: a longer log, or none any more."""
        return self._cursor.grown() or self.broken

    def advance(self) -> bool:
        """Take in new commits; False when the state must be loaded anew."""
        if self.broken or identity(self.view.layout) != self._identity:
            return False
        self.broken = True  # until all is applied, whatever may end this, an interrupt for one
        try:
            commits = list(self._cursor.read())
            if commits:
                self._cursor.sync()
            self.broken = not all(self.view.apply_commit(commit) for commit in commits)
        except (CorruptError, OSError):
            return False  # files that the writer dropped meanwhile, or damage: loading tells which
        return not self.broken

    def close(self) -> None:
        self._cursor.close()


def identity(layout: Layout) -> Identity:
    """Tells one format file from another under the same name: of a new store, or with more tables or fields."""
    try:
        status = os.stat(layout.format)
    except OSError:  # there is none, or none that can be reached: whoever reads it is told why
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns
