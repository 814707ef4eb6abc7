"""A log cut into several inputs, as if it had come by several ways."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError

BY_OTHER_WAYS = 0.1  # of the events do not come by the usual way of their key


def split(events: pa.Table, inputs: int, *, by: str, seed: int = 0) -> list[pa.Table]:
    """`inputs` tables that hold every event once, each sorted by `ts` if `events` is.

    Most events of one key (the integers of column `by`) come by one input, the others by any.
    """
    if inputs < 1:
        raise InputError(f"inputs={inputs} has no room for the events: give 1 or more")
    random = np.random.default_rng([seed, inputs])
    way = events[by].to_numpy() % inputs
    other = random.random(events.num_rows) < BY_OTHER_WAYS
    way[other] = random.integers(0, inputs, int(other.sum()))
    return [events.take(np.flatnonzero(way == i)) for i in range(inputs)]
