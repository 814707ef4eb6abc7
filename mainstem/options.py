"""Checks of what an app's ways to run are given: they come before anything is read or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mainstem.engine.options import check_threads, strategy_of
from mainstem.errors import InputError, ProgramError
from mainstem.gate.validate import check_on_bad, check_unsorted
from mainstem.groups import check_engine
from mainstem.lang.program import Bound
from mainstem.store import check_durability


def check_run(
    functions: Sequence[Bound], how: Mapping[str, Any], strategy: Mapping[str, Any], reading: Mapping[str, Any],
    kept: Mapping[str, Any], *, state: Any, out: Any, resume: bool,
) -> None:  # fmt: skip
    """Options of `app.run` that need no look at a program or a folder: each is right, and they go together."""
    engine = how["engine"]
    check_engine(functions, engine, how["isolation"], how["protocol"], how["history"])
    strategy_of(engine, **strategy)
    check_threads(how["threads"])
    check_durability(kept["durability"], kept["keep"])
    check_batch(reading["batch"])
    check_on_bad(reading["on_bad"])
    check_unsorted(reading["unsorted"])
    if engine == "oracle" and (state is not None or out is not None or resume):
        raise ProgramError(
            "the oracle keeps nothing on disk", remedy="drop state=, out= and resume=, or choose another engine"
        )
    if resume and state is None:
        raise ProgramError("resume=True needs the state of the earlier run", remedy="pass state=directory")
    if state is None and kept["durability"] != "sync":
        raise ProgramError(f"durability={kept['durability']!r} without a state", remedy="pass state=directory")


def check_batch(batch: Any) -> None:
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch={batch!r}: a batch has at least one event\n  pass a positive number, e.g. 65536")


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
