"""Queries on committed state, from any process, beside the writer and without its lock."""

from mainstem.query.database import Database, open_db
from mainstem.query.watch import Change

__all__ = ["Change", "Database", "open_db"]
