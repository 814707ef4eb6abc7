"""Compiles ahead what tasks of a replay run: processes that fill one cache at the same time can break it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.gate.batch import frozen
from mainstem.replay import kernels
from mainstem.replay.routing import Routing
from mainstem.replay.sharding import shards_of
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow


_WORDS_AND_FLAGS: tuple[Any, ...] = (np.int64, np.uint8)
_CODES_AND_RETURNS: tuple[Any, ...] = (np.int16, np.uint16)


def compile_tasks(flow: Dataflow, shards: int, jit: bool | None = None) -> None:
    """Compiles, or loads from disk, all kernels of a replay: those of its programs and those that move its columns."""
    for stage in flow.stages:
        if stage.pieces:
            tables = {table.name: table for table in stage.program.tables}
            make_executor(stage.program, State(tables), "serial" if stage.keyed else "auto", jit=jit)
    for home in flow.homes:
        make_executor(home.program, State({table.name: table for table in home.program.tables}), "serial", jit=jit)
    routing = Routing(flow, shards)
    compile_moves(routing.shard_dtype)
    for route in routing.routes:
        if route.key:
            fields = [flow.program.events[route.kind].field(name) for name in route.key]
            keys = [pa.array([], pa.int64() if field is None else field.type.arrow) for field in fields]
            shards_of(keys, shards, routing.shard_dtype)


def compile_moves(shard: Any) -> None:
    """Every kernel with every type that a task may call it with, on no items at all."""

    def given(dtype: Any) -> np.ndarray:
        return frozen(np.zeros(0, dtype))

    def own(dtype: Any, dimensions: int = 1) -> np.ndarray:
        return np.zeros((0,) * dimensions, dtype)

    kernels.rank(given(shard), own(np.int64), own(np.int32))
    kernels.places(given(shard), given(np.int32), own(np.int64), own(np.int32))
    kernels.put_places(given(np.int32), 0, own(np.int32))
    kernels.interleave(
        given(np.uint8), own(np.int64), own(np.uint8, 2), own(shard), own(np.int64, 2), own(np.int64), own(np.uint8)
    )
    for dtype in _WORDS_AND_FLAGS:
        kernels.gather(given(dtype), given(np.int64), own(dtype))
    for dtype in (*_WORDS_AND_FLAGS, *_CODES_AND_RETURNS):
        kernels.scatter(given(dtype), given(np.int64), given(np.int32), own(dtype))
    widened = ((dtype, np.int64) for dtype in (np.uint8, *_CODES_AND_RETURNS))
    same = ((dtype, dtype) for dtype in (*_WORDS_AND_FLAGS, np.int32, shard))
    for source, target in dict.fromkeys([*widened, *same]):
        kernels.put(given(np.int32), given(source), own(target))
