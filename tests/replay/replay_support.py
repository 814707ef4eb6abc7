"""Replays in one process, cut in many ways, against the serial run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.gate import EventBatch, open_events
from mainstem.lang.dataflow import Dataflow
from mainstem.replay import replay_local, used_columns
from mainstem.testing import Outcome


def batches_of(flow: Dataflow, events: Any, size: int) -> list[EventBatch]:
    program = flow.program
    stream, _ = open_events(
        events, program.events, batch_size=size, derives=program.derives, columns=used_columns(flow)
    )
    return list(stream)


def ranges_of(flow: Dataflow, events: Any, size: int, batches_per_range: int = 1) -> Iterator[list[EventBatch]]:
    """Every third range is followed by one without events."""
    batches = batches_of(flow, events, size)
    for number, first in enumerate(range(0, len(batches), batches_per_range)):
        yield batches[first : first + batches_per_range]
        if number % 3 == 0:
            yield []


def replayed(
    flow: Dataflow, events: Any, folder: Path, *, shards: int, size: int, epoch: int, batches_per_range: int = 1,
    initial: dict[str, pa.Table] | None = None, jit: bool | None = None, keep: bool = True,
) -> Outcome:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    ranges = ranges_of(flow, events, size, batches_per_range)
    outputs, tables = replay_local(
        flow, ranges, shards=shards, epoch=epoch, initial=initial, folder=folder, jit=jit, keep=keep
    )
    return Outcome(outputs[0], tables)
