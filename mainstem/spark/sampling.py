"""What derive functions cost, measured on the first events of a log: it decides whether they need several cores."""

from __future__ import annotations

import time
from typing import Any

from mainstem.errors import MainstemError
from mainstem.gate import open_events
from mainstem.gate.derive import with_derived
from mainstem.lang import Program

SAMPLE = 16_384
"""Events: some milliseconds of reading, and enough that what a call costs once does not count."""


def derive_ns(program: Program, inputs: Any) -> float:
    """Nanoseconds of processor time per event, of whatever type.

    A log that can't be read, or events that break a derive function, are for the replay itself to complain about.
    """
    try:
        stream, _ = open_events(inputs, program.inputs, batch_size=SAMPLE, on_bad="reject")
        batch = next(iter(stream), None)
        if batch is None or not len(batch):
            return 0.0
        seconds = []
        for _ in range(2):  # the first time also loads and compiles what the functions use
            start = time.process_time()
            with_derived(batch, program.inputs, program.derives)
            seconds.append(time.process_time() - start)
    except MainstemError:
        return 0.0
    return min(seconds) * 1e9 / len(batch)
