"""How far will a replay scale? A prediction from a sample of the log, measured on this machine.

The sample runs through the very tasks of a staged replay, one after the other, which tells what an event costs in each.
Its keys tell how evenly shards are loaded, its critical path what can't run side by side. With more hosts the first of
these limits that is reached decides:

    work            all core seconds, evenly spread
    hottest shard   the keys of one shard are run in order by one task
    one task        so are all keys of a stage that is not keyed
    critical path   accesses that need each other (see `critical.py`), at the speed of the kernels alone
    network         bytes that tasks hand to tasks on other hosts
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError, ProgramError
from mainstem.gate import EventBatch, open_events
from mainstem.lang.dataflow import Dataflow, Piece, Stage
from mainstem.lang.tables import Failures
from mainstem.replay.critical import paths_by_size
from mainstem.replay.home import run_home
from mainstem.replay.jobs import HomeJob, RareAbort, WaveJob, WaveReport, WaveTask
from mainstem.replay.model import Growth
from mainstem.replay.predict_text import lines
from mainstem.replay.router import route_range
from mainstem.replay.routing import Routing
from mainstem.replay.sharding import shards_of
from mainstem.replay.states import own_rows, write_state
from mainstem.replay.wave import run_wave
from mainstem.state import stable_hash

SAMPLE = 200_000
"""Events of the log that are looked at."""

EPOCH_EVENTS = 4_000_000
"""Events of a batch: as many as a staged replay takes between two checkpoints, unless it is told otherwise."""

NETWORK_MB = 1_000
"""Megabytes per second and host: what is left of a link with 10 Gbit/s."""

_SHARDS_MEASURED = 4  # costs of routing are in it; more would leave few events per task
_REPEATS = 3  # other processes disturb a measurement only upwards
_PIECES = 4  # batches of the sample
_PER_ITEM = ("read", "put", "run", "write")  # what a stage task spends on items, of its report
_SIZES = (256, 64, 16, 4, 1)  # parts of the sample whose critical paths are measured
_KEYS_SHOWN = 3


@dataclass(frozen=True)
class WhatIf:
    """The machines to think of."""

    hosts: int
    cores: int  # of one host, each as fast as one here
    batch: int = EPOCH_EVENTS
    network_mb: int = NETWORK_MB

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> WhatIf:
        known = [field.name for field in fields(cls)]
        for name, value in asked.items():
            if name not in known:
                raise InputError(f"what_if= has no {name!r}\n  it may have: {', '.join(known)}")
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"what_if: {name}={value!r}\n  give a whole number, 1 or more")
        if "hosts" not in asked:
            raise InputError("what_if= does not say how many hosts\n  pass {'hosts': 32}")
        return cls(**{"cores": _cores(), **asked})

    @property
    def steps(self) -> list[int]:
        """1, 2, 4 … hosts, up to those asked for."""
        doubled = [1 << n for n in range(self.hosts.bit_length())]
        return doubled if doubled[-1] == self.hosts else [*doubled, self.hosts]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class HotKey:
    """A key that one task runs in order, whatever the number of hosts."""

    key: tuple[Any, ...]
    share: float  # of the items of its stage


@dataclass(frozen=True)
class StageCost:
    """A stage, measured."""

    name: str  # of its tables
    wave: int
    keyed: bool
    items_per_event: float
    seconds_per_event: float
    hottest: tuple[HotKey, ...]
    unsplit: str = ""  # why its keys can't be split by time; empty when they can


@dataclass(frozen=True)
class Forecast:
    """For a number of hosts: events per second, and what limits them."""

    hosts: int
    rate: float
    limit: str
    limits: dict[str, float]  # events per second that each limit alone would allow
    ratio: float  # c / b: critical path of a batch over a host's share of its events


@dataclass(frozen=True)
class Prediction:
    what_if: WhatIf
    events: int  # of the sample
    route_seconds: float  # core seconds per event: read, check, derive, route
    stages: tuple[StageCost, ...]
    home_seconds: float
    bytes_per_event: float
    growth: Growth
    forecasts: tuple[Forecast, ...]

    @property
    def text(self) -> str:
        """For people."""
        return "\n".join(lines(self)) + "\n"


def predict(
    flows: Callable[[Failures], Dataflow], log: Any, what_if: Mapping[str, Any], *, sample: int = SAMPLE,
    initial: Mapping[str, pa.Table] | None = None,
) -> Prediction:  # fmt: skip
    """Measures with the first `sample` events of `log` (anything that `app.run` takes and that can be read again)."""
    asked = WhatIf.of(what_if)
    if sample < _PIECES:
        raise InputError(f"sample={sample}\n  give {_PIECES} events or more; some hundred thousand tell more")
    try:
        return _predict(flows("rare"), log, asked, sample, initial or {})
    except RareAbort:
        return _predict(flows("tied"), log, asked, sample, initial or {})


def _predict(flow: Dataflow, log: Any, asked: WhatIf, sample: int, initial: Mapping[str, pa.Table]) -> Prediction:
    if not flow.stages:
        raise ProgramError(f"app {flow.program.name} touches no table", remedy="it scales like any stateless job")
    batch = next(_read(flow, log, sample, sample), None)
    if batch is None or len(batch) < _PIECES:
        raise InputError(f"what-if needs {_PIECES} or more events of the log to measure with, and found fewer")
    cost = _measured(flow, log, len(batch), initial)
    keys = {stage.number: _keys(stage, batch) for stage in flow.stages if stage.keyed}
    stages = tuple(_stage_cost(flow, stage, cost, keys.get(stage.number, [])) for stage in flow.stages)
    sizes = [len(batch) // part for part in _SIZES if len(batch) // part]
    growth = Growth.of(paths_by_size(flow, batch, sizes))
    limits = _Limits(flow, asked, cost, keys, growth, len(batch))
    forecasts = tuple(limits.forecast(hosts) for hosts in asked.steps)
    return Prediction(asked, len(batch), cost.route, stages, cost.home, cost.bytes, growth, forecasts)


def _read(flow: Dataflow, log: Any, size: int, events: int) -> Iterator[EventBatch]:
    """Batches of `size` until there are so many events; rows that can't be read are no matter here."""
    program = flow.program
    stream, _ = open_events(
        log, program.events, batch_size=size, on_bad="reject", derives=program.derives, columns=program.used_columns
    )
    for batch in stream:
        yield batch
        events -= len(batch)
        if events <= 0:
            return


# -- what events cost -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Costs:
    """Core seconds and other amounts; of one run, or per event."""

    events: float
    route: float
    home: float
    stages: np.ndarray  # seconds of each stage
    kernels: np.ndarray  # its seconds in kernels
    items: np.ndarray
    bytes: float


def _measured(flow: Dataflow, log: Any, sample: int, initial: Mapping[str, pa.Table]) -> _Costs:
    """Per event, the smallest of some measurements, part by part. The first run compiles, and does not count."""
    size = max(sample // _PIECES, 1)
    _run_once(flow, _read(flow, log, size, size), initial)
    runs = [_run_once(flow, _read(flow, log, size, sample), initial) for _ in range(_REPEATS)]
    events = runs[0].events
    if events < sample:
        raise InputError("the log was shorter when it was read again\n  pass something that can be read many times")
    stages, kernels = (np.min([getattr(run, name) for run in runs], axis=0) for name in ("stages", "kernels"))
    route, home = (min(getattr(run, name) for run in runs) for name in ("route", "home"))
    items, size_in_bytes = runs[0].items, runs[0].bytes
    return _Costs(
        1.0, route / events, home / events, stages / events, kernels / events, items / events, size_in_bytes / events
    )


def _run_once(flow: Dataflow, batches: Iterator[EventBatch], initial: Mapping[str, pa.Table]) -> _Costs:
    """One range through all its tasks. Stages of a wave share tasks in a replay; here each has its own.

    Reading and answering is measured as time of all threads on a core: files are read ahead. Stages tell themselves
    what they spent on items; loading and storing their tables does not grow with the log, and is not counted.
    """
    with tempfile.TemporaryDirectory(prefix="mainstem-what-if-") as scratch:
        folder = Path(scratch)
        start = process_time()
        blocks = route_range(batches, Routing(flow, _SHARDS_MEASURED), folder / "range")
        route = process_time() - start
        count = len(flow.stages)
        seconds, kernels, items, size = np.zeros(count), np.zeros(count), np.zeros(count), float(blocks.bytes)
        carries: list[Path] = []
        for task in _tasks(flow):
            job = _job(flow, task, folder, blocks.path, tuple(carries), initial)
            start = process_time()
            report = run_wave(job)
            if report.rare is not None:
                raise RareAbort(report.rare)
            (stage,) = task.stages
            seconds[stage] += _seconds_on_items(report, process_time() - start)
            kernels[stage] += report.seconds.get("run", 0.0)
            items[stage] += report.items
            size += report.carry_bytes
            carries.append(job.carry_to)
        start = process_time()
        for home in range(len(flow.homes)):
            for _ in run_home(HomeJob(flow, home, _SHARDS_MEASURED, blocks.path, 0, tuple(carries), 0)):
                pass
        return _Costs(float(blocks.events), route, process_time() - start, seconds, kernels, items, size)


def _seconds_on_items(report: WaveReport, on_core: float) -> float:
    """What a task spent on its items. The clock on the wall also counts when other processes have the core."""
    spent = sum(report.seconds.get(part, 0.0) for part in _PER_ITEM)
    return min(spent, on_core * spent / max(sum(report.seconds.values()), 1e-9))


def _tasks(flow: Dataflow) -> Iterator[WaveTask]:
    for stages in flow.waves:
        for stage in stages:
            for shard in range(_SHARDS_MEASURED if stage.keyed else 1):
                yield WaveTask(stage.wave, (stage.number,), shard, stage.keyed)


def _job(
    flow: Dataflow, task: WaveTask, folder: Path, range_file: Path, carries: tuple[Path, ...],
    initial: Mapping[str, pa.Table],
) -> WaveJob:  # fmt: skip
    name = f"{task.stages[0]}-{task.shard}"
    before: Path | None = None
    rows = own_rows(flow, task, _SHARDS_MEASURED, initial)
    if rows:
        before = folder / f"before-{name}"
        write_state(before, rows)
    # Carries of the task's own wave are there, too: no piece looks for one.
    after = folder / f"after-{name}"
    return WaveJob(flow, task, _SHARDS_MEASURED, (range_file,), carries, before, folder / f"carry-{name}", after)


# -- where the keys are ---------------------------------------------------------------------------------------

Keys = list[list[pa.Array]]
"""Per piece of a stage: the parts of the keys of its items."""


def _keys(stage: Stage, batch: EventBatch) -> Keys:
    return [_keys_of(piece, batch) for piece in stage.pieces if batch.columns[piece.kind] is not None]


def _keys_of(piece: Piece, batch: EventBatch) -> list[pa.Array]:
    columns = batch.columns[piece.kind]
    assert columns is not None
    own = pa.array(columns.pos)
    return [
        pa.array(batch.ts[batch.kind == piece.kind]) if name == "ts" else columns.arrays[name].take(own)
        for name in piece.key or ()
    ]


def _stage_cost(flow: Dataflow, stage: Stage, cost: _Costs, keys: Keys) -> StageCost:
    return StageCost(
        _name(flow, stage), stage.wave, stage.keyed, float(cost.items[stage.number]),
        float(cost.stages[stage.number]), _hottest(keys), stage.folding.why,
    )  # fmt: skip


def _name(flow: Dataflow, stage: Stage) -> str:
    return " and ".join(flow.program.tables[table].name for table in stage.tables)


def _hottest(keys: Keys) -> tuple[HotKey, ...]:
    if not keys:
        return ()
    parts = [pa.concat_arrays([of_piece[n] for of_piece in keys]) for n in range(len(keys[0]))]
    _, first, counts = np.unique(stable_hash(parts), return_index=True, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:_KEYS_SHOWN]
    total = counts.sum()
    return tuple(HotKey(tuple(part[int(first[at])].as_py() for part in parts), float(counts[at] / total)) for at in top)


# -- what limits ----------------------------------------------------------------------------------------------


class _Limits:
    def __init__(
        self, flow: Dataflow, asked: WhatIf, cost: _Costs, keys: Mapping[int, Keys], growth: Growth, events: int
    ) -> None:
        self.flow, self.asked, self.cost, self.keys, self.growth, self.events = flow, asked, cost, keys, growth, events

    def forecast(self, hosts: int) -> Forecast:
        tasks = hosts * self.asked.cores
        path = self.growth.at(self.asked.batch)
        limits = {
            "work": tasks / (self.cost.route + self.cost.home + float(self.cost.stages.sum())),
            "critical path": self.asked.batch / (path * self._kernel_seconds_per_item()),
            **self._shard_limits(tasks),
        }
        if hosts > 1:
            elsewhere = self.cost.bytes * (hosts - 1) / hosts
            limits["network"] = hosts * self.asked.network_mb * 1e6 / elsewhere
        limit = min(limits, key=lambda name: limits[name])
        return Forecast(hosts, limits[limit], limit, limits, path / (self.asked.batch / hosts))

    def _kernel_seconds_per_item(self) -> float:
        return float(self.cost.kernels.sum() / max(self.cost.items.sum(), 1e-9))

    def _shard_limits(self, shards: int) -> dict[str, float]:
        """Per wave: its slowest task. The shards of all keyed stages of a wave with one number are one task."""
        limits = {}
        for stages in self.flow.waves:
            keyed = [stage for stage in stages if stage.keyed]
            if keyed:
                loads = np.array([self._loads(stage, shards) for stage in keyed])
                shard = int(np.argmax(loads.sum(axis=0)))
                heaviest = keyed[int(np.argmax(loads[:, shard]))]
                limits[f"hottest shard of {_name(self.flow, heaviest)}"] = 1 / float(loads[:, shard].sum())
            for stage in stages:
                if not stage.keyed:
                    limits[f"one task for {_name(self.flow, stage)}"] = 1 / float(self.cost.stages[stage.number])
        return limits

    def _loads(self, stage: Stage, shards: int) -> np.ndarray:
        """Core seconds of each shard of a stage, per event of the log."""
        counts = np.zeros(shards)
        for keys in self.keys[stage.number]:
            counts += np.bincount(shards_of(keys, shards), minlength=shards)
        return counts * (float(self.cost.stages[stage.number]) / max(float(counts.sum()), 1.0))
