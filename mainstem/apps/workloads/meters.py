"""The workload of `mainstem.apps.meters`: energy meters of a town, and what must hold at the end.

243 meters report what they have used to data concentrators, once per unit of `ts`; instead of a reading a meter may
report that its power failed. A meter reaches its own concentrator most of the time, else any other: so the readings of
one meter come by several inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import check, common
from mainstem.apps.workloads.inputs import split
from mainstem.apps.workloads.windowed import events_per_window, same_last_windows
from mainstem.errors import InputError

METERS = 243
OUTAGES = 0.005  # of the reports
DAY = 96  # units of `ts`: a reading every 15 minutes
WH_TYPICAL = 120  # of a household in that time


def initial() -> dict[str, pa.Table]:
    """No window has closed yet."""
    return {}


def generate(events: int = 1_000_000, *, meters: int = METERS, outages: float = OUTAGES, seed: int = 0) -> pa.Table:
    """`events` reports in one table: `ts`, `event`, `meter` and `wh` (null for outages).

    About a share of `outages` are such. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, meters, outages, seed))


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


def inputs(events: pa.Table, count: int, *, seed: int = 0) -> list[pa.Table]:
    """The log as `count` data concentrators see it, each sorted by `ts`."""
    return split(events, count, by="meter", seed=seed)


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether every outage and alarm was counted, and the last windows of all meters are those of `events`."""
    from mainstem.apps import meters  # the sizes, as they are now

    failed = check.kind_codes(events, ["Reading", "Outage"]) == 1
    ts, meter, wh = (check.numbers(events, name) for name in ("ts", "meter", "wh"))
    found = after["Meter"].filter(pc.greater(after["Meter"]["outages"], 0))
    keys, counts = np.unique(meter[failed], return_counts=True)
    same = np.array_equal(found["key"].to_numpy(), keys) and np.array_equal(found["outages"].to_numpy(), counts)
    outages = (ts[failed], meter[failed], meters.SIZE, meters.ADVANCE)
    window_key, in_window = events_per_window(*outages)
    alarming = window_key[in_window > meters.OUTAGES_MAX]
    alarms = np.searchsorted(alarming, keys, side="right") - np.searchsorted(alarming, keys, side="left")
    same = same and np.array_equal(found["alarms"].to_numpy(), alarms)
    same = same and same_last_windows(after["failing"], *outages, count="outages", first={})
    readings = (ts[~failed], meter[~failed], meters.SIZE, meters.ADVANCE)
    of_wh = wh[~failed]
    return same and same_last_windows(
        after["usage"], *readings, count="readings", first={"first_wh": of_wh}, mean={"mean_wh": of_wh}
    )


def _chunks(events: int, meters: int, outages: float, seed: int) -> Iterator[pa.Table]:
    common.share_of("outages", outages)
    if meters < 1:
        raise InputError(f"meters={meters} leaves nobody to report: give 1 or more")
    random = np.random.default_rng([seed, meters])
    usual = WH_TYPICAL * random.lognormal(0.0, 0.5, meters)
    phase = random.normal(0.0, DAY / 24, meters)
    turn = random.permutation(meters)

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        place = np.arange(first, first + rows)
        ts, meter = place // meters, turn[place % meters]
        # Least at 4 in the morning, most at 16; no two days alike.
        of_day = 1.0 + 0.6 * np.sin(2 * np.pi * ((ts + phase[meter]) / DAY - 10 / 24))
        used = usual[meter] * of_day * random.lognormal(0.0, 0.3, rows)
        failed = random.random(rows) < outages
        return {
            "ts": pa.array(ts),
            "event": common.kinds(["Reading", "Outage"], failed),
            "meter": pa.array(meter),
            "wh": common.only(used.astype(np.int64), ~failed),
        }

    return common.chunks(events, seed, common.STEP_MAX, make)
