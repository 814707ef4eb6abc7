"""The workload of `mainstem.apps.grep_sum`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.work import MODULUS, compiled_burn, turns_for
from mainstem.apps.workloads import check, common
from mainstem.errors import InputError
from mainstem.jit import kernel

RECORDS = 10_000
CHANCES = 1_000_000  # the unit of `risk`
CHUNK_ROWS = 1 << 12  # an event may have more than a hundred keys
START_STEP = 214_741  # start values of 10,000 records fill the range; below the prime MODULUS, so they differ

FIELDS = [("Record", "value")]
SUM = 1  # position in the list of event types


def initial(records: int = RECORDS) -> dict[str, pa.Table]:
    """The table at the start; no two records have the same value."""
    keys = np.arange(records)
    return {"Record": pa.table({"key": keys, "value": (1 + START_STEP * keys) % MODULUS})}


def generate(
    events: int = 1_000_000,
    *,
    records: int = RECORDS,
    skew: float = 0.2,
    abort: float = 0.01,
    length: int = 1,
    reads: int = 2,
    writes: float = 0.5,
    cost: float = 0.0,
    turns: int | None = None,
    distinct: bool = True,
    seed: int = 0,
) -> pa.Table:
    """`events` writes and sums in one table: `ts`, `event` and the fields of both (null where not used).

    `writes` is their share of the events. Every event has `length` keys; a write has `reads` sources for each of them.
    With `distinct`, all records of one event differ. A share of `abort` of the events aborts; which ones is up to the
    state that they meet. `cost` is the work per written record in microseconds of this machine, `turns` (instead) in
    turns of `burn`. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, records, skew, abort, length, reads, writes, cost, turns, distinct, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    files: int = common.FILES,
    row_group: int = common.ROW_GROUP,
    progress: Callable[[int], None] | None = None,
    **knobs: Any,
) -> list[Path]:
    """Write what `generate(events, **knobs)` returns into a folder of Parquet files, in the memory of a few chunks."""
    tables = _chunks(events, **common.with_defaults(generate, knobs))
    return common.write_log(path, tables, events, files=files, row_group=row_group, progress=progress)


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether `outputs` and `after` are what `events`, one by one in this order, make of `before`.

    Does all the work of the events once more: it takes about as long as a serial run.
    """
    rows = check.rows(before, FIELDS)
    log = [
        check.kind_codes(events, ["Write", "Sum"]),
        *(check.numbers(events, name) for name in ("guard", "risk", "amount", "work")),
        *check.list_parts(events, "keys"),
        *check.list_parts(events, "sources"),
    ]
    committed, total = np.zeros((2, events.num_rows), dtype=np.int64)
    arrays = [*log, *rows, committed, total]
    _replay(*arrays)
    return check.same_rows(after, FIELDS, rows) and check.same_outputs(outputs, committed, total=total)


@kernel
def _replay(
    kind: np.ndarray,
    guard: np.ndarray,
    risk: np.ndarray,
    amount: np.ndarray,
    work: np.ndarray,
    keys_at: np.ndarray,
    keys: np.ndarray,
    sources_at: np.ndarray,
    sources: np.ndarray,
    value: np.ndarray,
    committed: np.ndarray,
    total: np.ndarray,
) -> None:
    """Runs the events on `value`; fills `committed` and, for sums, `total`."""
    for i in range(len(kind)):
        if (value[guard[i]] + amount[i]) % CHANCES < risk[i]:
            continue
        committed[i] = 1
        first, end = keys_at[i], keys_at[i + 1]
        if kind[i] == SUM:
            for k in range(first, end):
                total[i] += value[keys[k]]
            continue
        source = sources_at[i]
        reads = (sources_at[i + 1] - source) // (end - first)
        for k in range(first, end):
            new = value[keys[k]] * 3 + amount[i]
            for _ in range(reads):
                new += value[sources[source]]
                source += 1
            value[keys[k]] = compiled_burn(new, work[i])


def _chunks(
    events: int,
    records: int,
    skew: float,
    abort: float,
    length: int,
    reads: int,
    writes: float,
    cost: float,
    turns: int | None,
    distinct: bool,
    seed: int,
) -> Iterator[pa.Table]:
    common.share_of("writes", writes)
    risk = round(common.share_of("abort", abort) * CHANCES)
    if length < 1 or reads < 0:
        raise InputError(f"length={length}, reads={reads}: give at least one key, and no negative number of sources")
    keys = common.ZipfKeys(records, skew, seed)
    work = turns_for(cost, turns)

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        is_write = random.random(rows) < writes
        rows_write = int(is_write.sum())
        # Per event: the guard, the keys, the sources.
        written = keys.draw_sets(random, rows_write, 1 + length * (1 + reads), distinct=distinct)
        summed = keys.draw_sets(random, rows - rows_write, 1 + length, distinct=distinct)
        both = np.empty((rows, 1 + length), dtype=np.int64)
        both[is_write], both[~is_write] = written[:, : 1 + length], summed
        return {
            "event": common.kinds(["Write", "Sum"], ~is_write),
            "guard": pa.array(both[:, 0]),
            "risk": pa.array(np.full(rows, risk)),
            "keys": common.lists(both[:, 1:].ravel(), np.full(rows, length)),
            "sources": common.lists(written[:, 1 + length :].ravel(), np.full(rows, length * reads), is_write),
            # Uniform over the unit of `risk`: so the sum with any value is, too.
            "amount": pa.array(random.integers(0, CHANCES, rows)),
            "work": common.only(np.full(rows, work), is_write),
        }

    return common.chunks(events, seed, common.STEP_MAX, make, CHUNK_ROWS)
