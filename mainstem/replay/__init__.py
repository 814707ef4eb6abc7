"""Replay in stages (MVPS): tasks that route events, run stages table by table and bring outputs home. No Spark here."""

from __future__ import annotations

from mainstem.replay.home import run_home
from mainstem.replay.jobs import HomeJob, RangeBlocks, Rare, RareAbort, WaveJob, WaveReport, WaveTask
from mainstem.replay.keys import staged
from mainstem.replay.local import LocalReplay, replay_local
from mainstem.replay.router import route_range
from mainstem.replay.routing import Routing, used_columns, wave_tasks
from mainstem.replay.sharding import shards_of
from mainstem.replay.states import own_rows, read_state, write_state
from mainstem.replay.warm import compile_tasks
from mainstem.replay.wave import run_wave

__all__ = [
    "HomeJob",
    "LocalReplay",
    "RangeBlocks",
    "Rare",
    "RareAbort",
    "Routing",
    "WaveJob",
    "WaveReport",
    "WaveTask",
    "compile_tasks",
    "own_rows",
    "read_state",
    "replay_local",
    "route_range",
    "run_home",
    "run_wave",
    "shards_of",
    "staged",
    "used_columns",
    "wave_tasks",
    "write_state",
]
