"""Crashes in this process: a step raises, and from then on no thread gets past any step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mainstem.errors import StoreError
from mainstem.store import crash

KNOWN_SEEDS = 24
"""Not every seed reaches every step; for each step there are some that do."""

ONLY_AFTER = {
    "recover.cut": ("log.append.header", "log.append.half"),
    "recover.sealed": ("log.rotate.created", "log.rotate.sealing"),
    "recover.published": ("log.append.synced", "commit.logged", "output.publish.start", "output.publish.renamed"),
}
"""Steps that only a recovery after one of these crashes reaches."""

IN_RECOVERY = tuple(
    step for step in crash.STEPS if step.startswith(("recover.", "evolve.", "trim.", "output.publish.", "log.rotate."))
)


Reached = dict[str, list[tuple[int, int]]]
"""Per step: seeds that reach it in an undisturbed run, and how often."""


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Plug:
    """Pulled the count-th time that a step is reached; from then on nobody gets past any step."""

    step: str = ""
    count: int = 1
    seen: dict[str, int] = field(default_factory=dict)
    pulled: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, step: str) -> None:
        with self._guard:
            self.seen[step] = self.seen.get(step, 0) + 1
            if step == self.step and self.seen[step] == self.count:
                self.pulled = True
            if self.pulled:
                raise Crash(step)


@contextmanager
def armed(plug: Plug) -> Iterator[Plug]:
    """Run a writer that may crash; what it says after that nobody hears any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crash, "reach", plug.reach)
        patch.setattr(threading, "excepthook", _silent_about_crashes(threading.excepthook))
        try:
            yield plug
        except (Crash, StoreError):
            if not plug.pulled:
                raise


def _silent_about_crashes(hook: Callable[[threading.ExceptHookArgs], object]) -> Callable[..., None]:
    def handle(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_type is not Crash:
            hook(arguments)

    return handle
