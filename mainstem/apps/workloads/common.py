"""Building blocks of the apps' workload generators: skewed keys, aborts, rising timestamps, logs larger than memory.

A generator makes its events chunk by chunk, each from its own random stream. So `generate(10)` and the first
file of a log of a billion events come from the same code, and a log of any size needs the memory of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError
from mainstem.jit import kernel

CHUNK_ROWS = 1 << 16
"""Rows made at a time: large enough for NumPy, small enough to stay in the caches and a few megabytes."""

FILES, ROW_GROUP = 4, 1 << 17
"""How a log is cut when the caller does not say: files, and rows per Parquet row group."""

STEP_MAX = 2
"""`ts` rises by 0, 1 or 2: a third of the events share their timestamp with the one before."""

MakeChunk = Callable[[np.random.Generator, int, int], dict[str, pa.Array]]
"""(random stream, position of the chunk's first event, rows) -> columns without `ts`."""


class ZipfKeys:
    """Keys 0 to n-1 where the r-th most popular is drawn with a weight of r ** -skew (0: all alike)."""

    def __init__(self, n: int, skew: float, seed: int) -> None:
        weights = np.arange(1, n + 1, dtype=np.float64) ** -skew
        weights /= weights.sum()
        # Popular keys are scattered, so that a program can't profit from their lying side by side.
        self._by_rank = np.random.default_rng([seed, n]).permutation(n)
        self._cumulative = np.cumsum(weights)
        self._cumulative[-1] = 1.0
        self.share = np.empty(n)
        self.share[self._by_rank] = weights

    def draw(self, random: np.random.Generator, rows: int) -> np.ndarray:
        return self._by_rank[np.searchsorted(self._cumulative, random.random(rows), side="right")]

    def draw_sets(self, random: np.random.Generator, rows: int, size: int, *, distinct: bool = True) -> np.ndarray:
        """`rows` lines of `size` keys, int64[rows, size]; with `distinct`, those of one line all differ."""
        if not distinct:
            return self.draw(random, rows * size).reshape(rows, size)
        if size > self.share.size:
            raise InputError(
                f"one event can't have {size} different keys out of {self.share.size}: shorten it or add keys"
            )
        sets = np.empty(rows * size, dtype=np.int64)
        line_of = np.full(self.share.size, -1, dtype=np.int64)
        filled = 0
        while filled < sets.size:
            candidates = self.draw(random, max(sets.size - filled, size))
            filled = take_distinct(candidates, size, sets, filled, line_of)
        return sets.reshape(rows, size)


@kernel
def take_distinct(candidates: np.ndarray, size: int, sets: np.ndarray, filled: int, line_of: np.ndarray) -> int:
    """Fills `sets` from `filled` on, leaving out keys that the line of `size` already has; gives the new `filled`.

    `line_of[key]` is the last line that got the key.
    """
    for key in candidates:
        if filled == len(sets):
            break
        line = filled // size
        if line_of[key] != line:
            line_of[key] = line
            sets[filled] = key
            filled += 1
    return filled


def share_of(name: str, value: float) -> float:
    """`value` when it is a share; an error that names the argument otherwise."""
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{name}={value} is not a share: give a number from 0 to 1")
    return value


def with_defaults(generate: Callable[..., pa.Table], knobs: Mapping[str, Any]) -> dict[str, Any]:
    """All knobs of a generator: those given, and its defaults for the others."""
    defaults: dict[str, Any] = generate.__kwdefaults__ or {}
    for name in knobs:
        if name not in defaults:
            raise InputError(f"there is no knob {name!r}: choose from {', '.join(defaults)}")
    return {**defaults, **knobs}


def temptations(
    random: np.random.Generator, rows: int, abort: float, coins_max: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Which events must abort, and which are to abort every second time: together a share of `abort` of all.

    A generator can't know the state that an event will meet, so the second kind shows whether events meet the right
    one. Of these, at most as many commit as of everyday events (which keep the state where the generator expects it).
    Their share is at most `coins_max`.
    """
    coins = min(abort, 1.0 - abort, coins_max)
    chance = random.random(rows)
    coin = chance < coins
    return ~coin & (chance < coins + (abort - coins / 2)), coin


def chunks(events: int, seed: int, step_max: int, make: MakeChunk, chunk_rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """The workload as tables of up to `chunk_rows` events, at least one; `ts` rises by 0 to `step_max`: it has ties."""
    ts_last = 0
    for number, first in enumerate(range(0, max(events, 1), chunk_rows)):
        rows = min(chunk_rows, events - first)
        # Every chunk draws all its rows, so that a shorter log is a prefix of a longer one.
        random = np.random.default_rng([seed, number])
        ts = ts_last + np.cumsum(random.integers(0, step_max, chunk_rows, endpoint=True))
        ts_last = int(ts[-1])
        yield pa.table({"ts": ts, **make(random, first, chunk_rows)}).slice(0, rows)


def kinds(names: list[str], codes: np.ndarray) -> pa.Array:
    """The `event` column: one of `names` per row."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(names))


def only(values: np.ndarray, present: np.ndarray) -> pa.Array:
    """A column that is null where the row's event type does not have it."""
    return pa.array(values, mask=~present)


def lists(values: np.ndarray, sizes: np.ndarray, present: np.ndarray | None = None) -> pa.Array:
    """A column of lists: the next `sizes[i]` of `values` for row i, where `present`; null elsewhere."""
    lengths = sizes if present is None else np.where(present, sizes, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if present is None else pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)


def write_log(
    path: str | Path,
    tables: Iterator[pa.Table],
    events: int,
    *,
    files: int = FILES,
    row_group: int = ROW_GROUP,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write `events` events into `files` Parquet files of a folder, in event order; tells `progress` the rows done."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    source = _Source(tables)
    written = []
    for i in range(files):
        first, end = events * i // files, events * (i + 1) // files
        written.append(folder / f"part-{i:05d}.parquet")
        with pq.ParquetWriter(written[-1], source.schema) as writer:
            for start in range(first, end, row_group):
                rows = min(row_group, end - start)
                writer.write_table(source.take(rows), row_group_size=rows)
                if progress is not None:
                    progress(start + rows)
    return written


class _Source:
    """Hands out a stream of tables in pieces of the size asked for."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._rest = next(tables)

    @property
    def schema(self) -> pa.Schema:
        return self._rest.schema

    def take(self, rows: int) -> pa.Table:
        parts = [self._rest]
        while sum(part.num_rows for part in parts) < rows:
            parts.append(next(self._tables))
        table = pa.concat_tables(parts)
        self._rest = table.slice(rows)
        return table.slice(0, rows)
