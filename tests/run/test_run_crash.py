"""`app.run` killed with SIGKILL at every named step of log, snapshot, commit and output; resumed; compared."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

import programs
import pytest

import mainstem as ms
from mainstem.store import crash, open_db, store

EVENTS = programs.events(240)
BATCH = 10
# Steps of shard files belong to Spark's keyed plan, which has its own tests.
STEPS = [step for step in crash.STEPS if not step.startswith("shard.")]


def run(folder: Path, resume: bool) -> ms.Result:
    return programs.app.run(
        EVENTS, state=folder / "state", out=folder / "out", initial=programs.initial(), batch=BATCH, resume=resume
    )


def outcome(folder: Path) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    result = run(folder, resume=True)
    with open_db(folder / "state") as db:
        return result.outputs.to_pylist(), db.table("Account").to_pylist()


def killed_at(step: str, count: int, folder: Path) -> bool:
    """Whether a forked run was killed the count-th time it reached the step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child only runs this and ends
        child = os.fork()
    if child == 0:
        crash._target, crash._reached = (step, count), 0
        run(folder, resume=False)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and new log segments every few batches, so that every step is reached."""
    original = store.Store.open.__func__  # type: ignore[attr-defined]
    small = classmethod(lambda cls, *a, **k: original(cls, *a, **{"snapshot_every": 4, "segment_bytes": 2_000, **k}))
    monkeypatch.setattr(store.Store, "open", small)


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    result = programs.app.run(EVENTS, initial=programs.initial(), engine="oracle")
    return result.outputs.to_pylist(), programs.app.state["Account"].to_pylist()


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_resumes_to_the_undisturbed_result(step: str, tmp_path: Path, undisturbed: object) -> None:
    reached = 0
    for count in (1, 2, 9):
        folder = tmp_path / str(count)
        reached += killed_at(step, count, folder)
        assert outcome(folder) == undisturbed, f"killed at {step}, time {count}"
    assert reached, f"no run ever reached {step}"
