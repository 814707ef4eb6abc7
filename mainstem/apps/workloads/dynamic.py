"""A workload that changes while it runs, for engines that adapt: MorphStream's four phases, on `ledger_work`.

    1  deposits only, scattered over all accounts; the rate rises, from a trickle to a flood
    2  deposits only; the skew rises, until most of them meet on a few accounts
    3  less skew again; the share of transfers rises, until there are no deposits left
    4  deposits and transfers, most of them on a few accounts; the share of aborts rises

    from mainstem.apps import ledger_work
    from mainstem.apps.workloads import dynamic

    for phase, step, events in dynamic.phases(20_000, 5, turns=20):
        knobs = dynamic.knobs(phase, step, 5)         # what the step was made with, e.g. to label a plot

All steps together are one stream: `ts` rises from step to step. It starts from `ledger_work.initial()`. Steps take the
same time, so one in which events come at a hundredth of the full rate has a hundredth of the events; where a batch
closes after a fixed time, its batches are that small, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import ledger_work
from mainstem.errors import InputError

PHASES = {1: "rising rate", 2: "rising skew", 3: "rising share of transfers", 4: "rising share of aborts"}
SKEW_MAX, TRANSFERS_MAX, ABORT_MAX = 1.6, 1.0, 0.9  # reached in the last step of their phase
RATE_MIN = 1 / 1_024  # of the full rate, in the first step of phase 1; later phases have the full one
SKEW_MIDDLE = 1.05  # in phase 3; phase 4 has the largest
TRANSFERS_BASE = 0.5  # in phase 4


def knobs(phase: int, step: int, steps: int) -> dict[str, float]:
    """`rate`, `skew`, `transfers` and `abort` in one step (from 0) of a phase (from 1)."""
    risen = (step + 1) / steps
    turned = {"rate": 1.0, "skew": 0.0, "transfers": 0.0, "abort": 0.0}
    if phase == 1:
        return turned | {"rate": RATE_MIN ** (1 - step / (steps - 1)) if steps > 1 else 1.0}
    if phase == 2:
        return turned | {"skew": SKEW_MAX * risen}
    if phase == 3:
        return turned | {"skew": SKEW_MIDDLE, "transfers": TRANSFERS_MAX * risen}
    return turned | {"skew": SKEW_MAX, "transfers": TRANSFERS_BASE, "abort": ABORT_MAX * risen}


def phases(
    events_per_phase: int,
    steps: int,
    *,
    accounts: int = ledger_work.ACCOUNTS,
    cost: float = 10.0,
    turns: int | None = None,
    seed: int = 0,
) -> Iterator[tuple[int, int, pa.Table]]:
    """(phase from 1, step from 0, events) in the order of the stream. At the full rate a phase has `events_per_phase`,
    in `steps` of about one size.

    `cost` is the work per written row in microseconds of this machine, `turns` (instead) in turns of `burn`.
    """
    if steps < 1:
        raise InputError(f"steps={steps}: give at least one step per phase")
    ts_last = 0
    for phase in PHASES:
        for step in range(steps):
            turned = knobs(phase, step, steps)
            rows = events_per_phase * (step + 1) // steps - events_per_phase * step // steps
            rows = max(min(1, rows), round(rows * turned["rate"]))
            table = ledger_work.generate(
                rows,
                accounts=accounts,
                skew=turned["skew"],
                transfers=turned["transfers"],
                abort=turned["abort"],
                cost=cost,
                turns=turns,
                seed=(seed * len(PHASES) + phase) * steps + step,  # other popular accounts in every step
            )
            table = table.set_column(0, "ts", pc.add(table["ts"], ts_last))
            ts_last = pc.max(table["ts"]).as_py() if rows else ts_last
            yield phase, step, table
