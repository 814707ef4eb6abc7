"""What durability costs (section 5.5.7), and how long it takes to come back after a crash (figure 14)."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mainstem as ms
from mainstem.bench import bank_paper as paper
from mainstem.bench.bank_figures import Chart, Measured, Results
from mainstem.bench.bank_own import Kept, OwnPeer
from mainstem.bench.bank_peers import PeerFigure, take_turn
from mainstem.bench.bank_programs import transfers
from mainstem.bench.bank_scenario import Meter, Scenario
from mainstem.bench.bank_workload import Workload, digest_of
from mainstem.bench.engines import batches_of
from mainstem.bench.measure import stopwatch
from mainstem.bench.report import Target
from mainstem.engine import make_executor
from mainstem.state import State
from mainstem.store import DurableRun, Store

Progress = Callable[[str], None]

RECOVERY_SECONDS, RECOVERY_LOGGED = 2.0, 600_000
DURABILITIES: tuple[Kept | None, ...] = (None, "none", "batch", "sync")
WRITER, READER, FOLDED = "program goes on", "ms.open answers", "program goes on, snapshots were made"
_NEVER = 1 << 62  # commits or bytes until a segment of the log is full


def durability(results: Results, meter: Meter, progress: Progress) -> None:
    options = results.options
    chart = Chart("durability", "Durability, event order", "transfers per commit", paper.DURABILITY)
    results.charts.append(chart)
    workload = Workload(options.accounts, seed=options.seed)
    with scratch() as folder:
        for batch in options.batches:
            for kept in DURABILITIES:
                peer = OwnPeer(folder / "state", workload, kept, batch)
                try:
                    chart.add(peer.config.setting, batch, _measured(peer, workload, meter, alone=batch == 1))
                finally:
                    peer.close()
            progress(f"durability: {batch:,} transfers per commit done")


def _measured(peer: OwnPeer, workload: Workload, meter: Meter, *, alone: bool) -> Measured:
    figure = PeerFigure(peer.config)
    for _ in range(meter.options.repeats):
        take_turn(peer, figure, workload, meter.options.seconds)
    meter.wrong += figure.wrong
    if not alone:
        return Measured(figure.rate)
    peer.reset()
    return Measured(figure.rate, peer.run_alone(0, meter.options.alone).latency)


def recovery(results: Results, meter: Meter, progress: Progress) -> None:
    options = results.options
    title = f"Seconds to recover, {options.per_commit} transfers per commit, all in the log"
    chart = Chart("recovery", title, "logged transactions", paper.RECOVERY, unit="s")
    results.charts.append(chart)
    workload = Workload(options.accounts, seed=options.seed)
    with scratch() as folder:
        _recovered(folder / "warm-up", workload, options.per_commit, meter)
        for logged in options.logged:
            for line, seconds in _recovered(folder / str(logged), workload, logged, meter).items():
                chart.add(line, logged, Measured(seconds))
            progress(f"recovery: {logged:,} done")
    longest = max(options.logged)
    slowest = max(chart.lines[line][longest].rate for line in (WRITER, READER))
    if longest >= RECOVERY_LOGGED:
        what = f"logged transactions recovered in {RECOVERY_SECONDS:g} s, at this rate"
        results.targets.append(Target(what, longest / slowest * RECOVERY_SECONDS, RECOVERY_LOGGED))


def _recovered(path: Path, workload: Workload, count: int, meter: Meter) -> dict[str, float]:
    """Seconds until a query is answered or a program could run the next batch, after a crash with so long a log."""
    per_commit = meter.options.per_commit
    logged, folded = path / "logged", path / "folded"
    write_log(logged, workload, count, per_commit, segments={"segment_bytes": _NEVER, "segment_commits": _NEVER})
    write_log(folded, workload, count, per_commit, segments={})
    recover = {READER: partial(_read, logged), WRITER: partial(_go_on, logged), FOLDED: partial(_go_on, folded)}
    expected, best = digest_of(workload.balances_after(count)), dict.fromkeys(recover, math.inf)
    for _ in range(meter.options.repeats):
        for line, recovered in recover.items():
            seconds, balances = recovered()
            best[line] = min(best[line], seconds)
            if digest_of(balances) != expected:
                meter.wrong.append(f"recovery of {count:,} transfers, {line}: not the balances before the crash")
    return best


def write_log(path: Path, workload: Workload, count: int, per_commit: int, segments: Mapping[str, Any]) -> None:
    """A directory as a crash leaves it: the start, and `count` transfers. `segments`: options of `Store.open`."""
    program, scenario = transfers.program, Scenario(workload)
    schemas = {table.name: table for table in program.tables}
    state = State(schemas)
    state.load(scenario.initial())
    executor = make_executor(program, state, "serial", track=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Store.open(path, schemas, durability="none", **segments) as store:
        store.commit(scenario.initial(), {"seq": 0, "ts": None})
        seq = 0
        for batch in batches_of(program, scenario.events(count), per_commit):
            result = executor.run(batch, seq)
            seq += len(batch)
            store.commit(result.deltas(), {"seq": seq, "ts": int(batch.ts[-1])})


def _read(path: Path) -> tuple[float, np.ndarray]:
    with stopwatch() as watch:
        db = ms.open(path)
        db.get("Account", 0)
    with db:
        return watch.seconds, db.table("Account")["balance"].to_numpy()


def _go_on(path: Path) -> tuple[float, np.ndarray]:
    with stopwatch() as watch:
        run = DurableRun(transfers.program, path)
    with run:
        return watch.seconds, run.state.export()["Account"]["balance"].to_numpy()


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mainstem-bank-") as folder:
        yield Path(folder)
