"""`app.run` killed with SIGKILL at every named step of log, snapshot, commit and output; resumed; compared."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import programs
import pytest

import mainstem as ms
from mainstem.query import open_db
from mainstem.store import Durability, Store, crash

EVENTS = programs.events(240)
BATCH = 10
# What is not here needs shard files, new tables, a large state or an interrupted start: tests/store has all that.
STEPS = [
    step for step in crash.STEPS
    if not step.startswith(("shard.", "evolve.", "increment.", "trim.increment", "snapshot.rotated"))
    and step not in ("recover.cut", "recover.sealed", "recover.published")
]  # fmt: skip
Outcome = tuple[list[dict[str, object]], list[dict[str, object]], str]


def run(folder: Path, resume: bool, durability: Durability) -> ms.Result:
    return programs.app.run(
        EVENTS, state=folder / "state", out=folder / "out", initial=programs.initial(), batch=BATCH, resume=resume,
        durability=durability,
    )  # fmt: skip


def outcome(folder: Path, durability: Durability) -> Outcome:
    result = run(folder, True, durability)
    with open_db(folder / "state") as db:
        return result.outputs.to_pylist(), db.table("Account").to_pylist(), result.digest


def killed_at(step: str, count: int, folder: Path, durability: Durability) -> bool:
    """Whether a forked run was killed the count-th time it reached the step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child only runs this and ends
        child = os.fork()
    if child == 0:
        crash._target, crash._reached = (step, count), 0
        run(folder, False, durability)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power cut loses what was not synced; tests/store has those."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """New log segments every few batches, and snapshots of them before the run ends, so that every step is reached."""
    original, commit = Store.open.__func__, Store.commit  # type: ignore[attr-defined]
    small = classmethod(lambda cls, *a, **k: original(cls, *a, **{"segment_commits": 3, "segment_bytes": 5_000, **k}))

    def commit_and_wait(store: Store, *arguments: Any, **options: Any) -> int:
        epoch = commit(store, *arguments, **options)
        if epoch % 4 == 0:
            store.flush()
            time.sleep(0.002)  # for the background to begin
            with store._upkeep.reading():
                pass
        return epoch

    monkeypatch.setattr(Store, "open", small)
    monkeypatch.setattr(Store, "commit", commit_and_wait)


@pytest.fixture(scope="module")
def undisturbed() -> Outcome:
    result = programs.app.run(EVENTS, initial=programs.initial(), engine="oracle")
    return result.outputs.to_pylist(), programs.app.state["Account"].to_pylist(), result.digest


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_resumes_to_the_undisturbed_result(step: str, tmp_path: Path, undisturbed: Outcome) -> None:
    reached = 0
    cases: list[tuple[Durability, int]] = [("sync", 1), ("batch", 2)]
    if step.startswith("commit."):
        cases.append(("none", 3))
    for durability, count in cases:
        folder = tmp_path / f"{durability}-{count}"
        reached += killed_at(step, count, folder, durability)
        assert outcome(folder, durability) == undisturbed, f"{durability}, killed at {step}, time {count}"
    assert reached, f"no run ever reached {step}"
