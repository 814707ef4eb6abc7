"""Every error that Mainstem raises on purpose.

    MainstemError
    ├── ProgramError     a function, table or event that can't be accepted (names file and line)
    ├── InputError       events that can't be accepted (names input, row and column)
    ├── StoreError       durable state that can't be used
    │   ├── CorruptError     a checksum does not hold
    │   ├── QueryError       a query that can't be answered, e.g. of an unknown table or a version that is gone
    │   └── LockedError      another writer has the directory
    ├── HistoryError     a history of transactions that contradicts itself (names column and place)
    ├── SparkError       a Spark or Java set-up that can't work
    └── UserCodeError    a user's function raised while it ran interpreted

A message says what is wrong, where, and what to do next.
"""

from __future__ import annotations


class MainstemError(Exception):
    """Base of all errors raised on purpose."""


class ProgramError(MainstemError):
    """A program that can't be accepted: says file, line, what and the remedy."""

    def __init__(self, what: str, *, file: str = "", line: int = 0, remedy: str = "") -> None:
        self.what, self.file, self.line, self.remedy = what, file, line, remedy
        place = f"{file}:{line}: " if file else ""
        hint = f"\n  {remedy}" if remedy else ""
        super().__init__(f"{place}{what}{hint}")


class InputError(MainstemError):
    """Events that can't be accepted: says input, row, column and the remedy."""


class StoreError(MainstemError):
    """Durable state that can't be used."""


class CorruptError(StoreError):
    """A checksum does not hold: says the file, the byte and what is lost."""


class QueryError(StoreError):
    """A query that can't be answered: says what was asked for, what there is, and the remedy."""


class LockedError(StoreError):
    """Another process writes to the directory."""


class HistoryError(MainstemError):
    """A history of transactions that contradicts itself: says column, place and the remedy."""


class SparkError(MainstemError):
    """Spark or Java is missing or can't run what was asked."""


class UserCodeError(MainstemError):
    """A user's function raised while it ran interpreted: says function and event."""
