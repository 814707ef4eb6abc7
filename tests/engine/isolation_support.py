"""What the tests of isolation levels share: a program in which transactions get in each other's way, and its events."""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import numpy as np
import pyarrow as pa

import mainstem as ms
from mainstem.apps.work import burn

LEVELS = ("PL1", "PL2", "PL3", "PL4")
PROTOCOLS = ("lock", "timestamp")
WAYS = tuple((level, protocol) for level in LEVELS for protocol in PROTOCOLS)
UNDONE = -1
"""A value that transactions write and replace: whoever sees it has looked over somebody's shoulder."""

app = ms.App("slots")


@app.event
class Post:
    slot: int
    peer: int
    value: int  # unlike that of every other event
    work: int
    good: bool


@app.table(key=int)
class Slot:
    value: int = 0
    posts: int = 0
    burnt: int = 0


@app.table(key=int)
class Sink:
    burnt: int = 0


@app.on(Post)
def post(e):
    """Leaves something unfinished for a while, then finished but not committed, and looks at a peer all the time."""
    mine = Slot[e.slot]
    mine.value = UNDONE
    early = Slot[e.peer].value
    mine.posts += 1
    mine.burnt = burn(early + mine.posts, e.work)
    mine.value = e.value
    Sink[e.slot].burnt = burn(mine.burnt, e.work)
    late = Slot[e.peer].value
    ms.require(e.good, "refused")
    return {"early": early, "late": late, "posts": mine.posts}


def posts(count: int, *, slots: int = 6, work: int = 200, bad: float = 0.2, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    slot = draw.integers(0, slots, count)
    return pa.table({
        "ts": np.arange(count),
        "slot": slot,
        "peer": (slot + draw.integers(1, slots, count)) % slots,
        "value": np.arange(1, count + 1),
        "work": np.full(count, work),
        "good": draw.random(count) >= bad,
    })  # fmt: skip
