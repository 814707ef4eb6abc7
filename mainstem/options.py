"""Checks of what an app's ways to run on Spark are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mainstem.errors import ProgramError


class _Named(Protocol):
    name: str


def names_of(variants: Sequence[_Named]) -> list[str]:
    """The names of apps that are replayed side by side."""
    names = [app.name for app in variants]
    if not names or len(set(names)) < len(names):
        raise ProgramError(
            f"variants are known by the names of their apps, but these are {', '.join(names) or 'none'}",
            remedy="give one or more apps with names that differ: ms.variants(app, LIMIT=[1, 2]) makes such",
        )
    return names


def refuse_changes(what: str, options: Mapping[str, Any]) -> None:
    if "changes" in options:
        raise ProgramError(
            f"app.{what} has no changes=: on Spark a transaction may run in pieces, and no piece knows all of its rows",
            remedy="use app.run(…, changes=True); ms.open(state).watch(table) follows what is committed",
        )
