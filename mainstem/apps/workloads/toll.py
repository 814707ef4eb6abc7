"""The workload of `mainstem.apps.toll`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.work import compiled_burn, turns_for
from mainstem.apps.workloads import check, common
from mainstem.jit import kernel

SEGMENTS, VEHICLES = 100, 10_000
SCALE = 1_000  # averages are kept in thousandths of km/h
TOLERANCE = 30  # km/h: a report that is farther from the average is refused
SPREAD = 15  # km/h around a segment's usual speed: everyday reports, plausible whatever the average has become
SPEED_ABSURD = 1_000  # km/h
WEIGHT = 8  # a report moves the average by an eighth of its difference
FREE_FLOW = 64 * SCALE  # Linear Road's 40 miles per hour: faster roads are free
FREE_VEHICLES = 50  # emptier roads are free

FIELDS = [("Speed", "average"), ("Speed", "seal"), ("Vehicles", "count"), ("Vehicles", "seal")]


def usual_speed(segment: np.ndarray) -> np.ndarray:
    """The speed, in km/h, around which the reports of a segment lie: 60 to 100, so that some roads cost toll."""
    return 60 + 7 * segment % 41


def initial(segments: int = SEGMENTS) -> dict[str, pa.Table]:
    """Speeds at the start, no two alike; no vehicle has been seen."""
    keys = np.arange(segments)
    return {
        "Speed": pa.table({"key": keys, "average": SCALE * usual_speed(keys) + keys, "seal": 1 + 11 * keys}),
        "Vehicles": pa.table({"key": keys, "count": 0 * keys, "seal": 5 + 13 * keys}),
    }


def generate(
    events: int = 1_000_000,
    *,
    segments: int = SEGMENTS,
    vehicles: int = VEHICLES,
    skew: float = 0.2,
    abort: float = 0.01,
    cost: float = 0.0,
    turns: int | None = None,
    seed: int = 0,
) -> pa.Table:
    """`events` reports in one table: `ts`, `event` and the fields of a report.

    About a share of `abort` aborts: reports of an absurd speed, and every second of those whose speed is plausible or
    not by the average at that moment. `cost` is the work per update of a speed and of a count in microseconds of this
    machine, `turns` (instead) in turns of `burn`. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, segments, vehicles, skew, abort, cost, turns, seed))


def two_regions(
    events: int = 1_000_000,
    *,
    segments: int = SEGMENTS,
    skew: tuple[float, float] = (1.0, 0.0),
    abort: tuple[float, float] = (0.5, 0.01),
    seed: int = 0,
    **knobs: Any,
) -> pa.Table:
    """Reports of two regions of `segments` segments each, half of the events each, in one stream.

    Segments from 0 and from `segments` on; `skew` and `abort` give one number per region, `knobs` go to `generate`
    for both. Starts from `initial(2 * segments)`.
    """
    regions: list[pa.Table] = []
    for i, size in enumerate((events // 2, events - events // 2)):
        own = {"segments": segments, "skew": skew[i], "abort": abort[i], "seed": 2 * seed + i}
        regions += _chunks(size, **common.with_defaults(generate, {**knobs, **own}), first_segment=i * segments)
    return pa.concat_tables(regions).sort_by("ts")


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
    """Whether `outputs` and `after` are what `events`, one by one in this order, make of `before` (no vehicle seen).

    Does all the work of the events once more: it takes about as long as a serial run.
    """
    rows = check.rows(before, FIELDS)
    log = [check.numbers(events, name) for name in ("segment", "vehicle", "speed", "work")]
    seen = np.zeros((rows[0].size, 1 + int(log[1].max(initial=0))), dtype=np.int64)
    committed, toll, vehicles = np.zeros((3, events.num_rows), dtype=np.int64)
    arrays = [*log, *rows, seen, committed, toll, vehicles]
    _replay(*arrays)
    marks = [check.numbers(after["Seen"], name) for name in ("key_0", "key_1", "reports")]
    same_marks = np.array_equal(np.stack(marks), np.stack([*np.nonzero(seen), seen[np.nonzero(seen)]]))
    same_rows = check.same_rows(after, FIELDS, rows)
    return same_rows and same_marks and check.same_outputs(outputs, committed, toll=toll, vehicles=vehicles)


@kernel
def _replay(
    segment: np.ndarray,
    vehicle: np.ndarray,
    speed: np.ndarray,
    work: np.ndarray,
    average: np.ndarray,
    speed_seal: np.ndarray,
    count: np.ndarray,
    count_seal: np.ndarray,
    seen: np.ndarray,
    committed: np.ndarray,
    toll: np.ndarray,
    vehicles: np.ndarray,
) -> None:
    """Runs the reports on the state (`average` to `seen`); fills `committed`, `toll` and `vehicles`."""
    for i in range(len(segment)):
        s = segment[i]
        away = SCALE * speed[i] - average[s]
        if away > SCALE * TOLERANCE or away < -SCALE * TOLERANCE:
            continue
        committed[i] = 1
        average[s] += away // WEIGHT
        speed_seal[s] = compiled_burn(speed_seal[s] * 3 + speed[i], work[i])
        if seen[s, vehicle[i]] == 0:
            count[s] += 1
        count_seal[s] = compiled_burn(count_seal[s] * 3 + vehicle[i], work[i])
        seen[s, vehicle[i]] += 1
        vehicles[i] = count[s]
        if average[s] < FREE_FLOW and count[s] > FREE_VEHICLES:
            toll[i] = 2 * (count[s] - FREE_VEHICLES) ** 2


def _chunks(
    events: int,
    segments: int,
    vehicles: int,
    skew: float,
    abort: float,
    cost: float,
    turns: int | None,
    seed: int,
    first_segment: int = 0,
) -> Iterator[pa.Table]:
    common.share_of("abort", abort)
    keys = common.ZipfKeys(segments, skew, seed)
    work = turns_for(cost, turns)

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        segment = first_segment + keys.draw(random, rows)
        must_abort, coin = common.temptations(random, rows, abort)
        # Up to twice the tolerance away: plausible every second time, wherever the average is by then.
        spread = np.where(coin, 2 * TOLERANCE, SPREAD)
        speed = usual_speed(segment) + random.integers(-spread, spread, endpoint=True)
        speed[must_abort] = SPEED_ABSURD
        return {
            "event": common.kinds(["Report"], np.zeros(rows)),
            "segment": pa.array(segment),
            "vehicle": pa.array(random.integers(0, vehicles, rows)),
            "speed": pa.array(speed),
            "work": pa.array(np.full(rows, work)),
        }

    return common.chunks(events, seed, common.STEP_MAX, make)
