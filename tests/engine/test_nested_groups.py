"""Groups of one batch that run at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import mainstem as ms
from mainstem.engine.requests import Asking

pair = ms.App("pair")


@pair.event
class Left:
    key: int


@pair.event
class Right:
    key: int


@pair.table(key=int)
class Here:
    count: int = 0


@pair.table(key=int)
class There:
    count: int = 0


@pair.on(Left)
def left(e):
    Here[e.key].count += 1


@pair.on(Right)
def right(e):
    There[e.key].count += 1


@pytest.mark.parametrize("inner", ["inflight", "lock", "pat"])
def test_groups_of_one_batch_share_what_it_asks_for(inner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed by the thread that all groups start from: theirs would write into the same memory at once."""
    listed: list[int] = []
    honest = Asking.list

    def listing(self: Asking, *arguments: Any) -> Any:
        listed.append(threading.get_ident())
        return honest(self, *arguments)

    monkeypatch.setattr(Asking, "list", listing)
    events = [(Left if ts % 3 else Right)(ts=ts, key=ts % 5) for ts in range(300)]
    expected = pair.run(events, engine="oracle").digest
    groups = {"left": inner, "right": "lock"}
    assert pair.run(events, engine="nested", groups=groups, threads=2, batch=100).digest == expected
    assert listed == [threading.get_ident()] * 3
