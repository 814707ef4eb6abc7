"""When events arrive, and when everything ends."""

from __future__ import annotations

import numpy as np

from mainstem.team import STOP_WORD

from .arrays import Feed
from .base import atomic_load, inlined, ticks


@inlined
def is_due(feed: Feed, row: int) -> bool:
    return len(feed.due) == 0 or ticks() - feed.start >= feed.due[row]


@inlined
def is_stopped(control: np.ndarray) -> bool:
    return atomic_load(control, STOP_WORD) != 0
