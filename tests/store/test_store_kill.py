"""Writers killed with SIGKILL at every named step, three times each, most of them again while they recover."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import crash_plan
import kill_server
import pytest
from crash_plan import EPOCHS, plan_of
from crash_plug import IN_RECOVERY, ONLY_AFTER, Reached

from mainstem.store import crash

KILLS = 3


def jobs_of(step: str, reached: Reached, folder: Path) -> Iterator[kill_server.Job]:
    """The step for the first, second and third time, after what leads there; then a step of recovery."""
    for number in range(KILLS):
        chance = random.Random(f"{step} {number}")
        first = chance.choice(ONLY_AFTER.get(step, (step,)))
        seed, times = chance.choice(reached[first])
        directory = folder / f"{step}-{number}"
        directory.mkdir()
        second = [(chance.choice(IN_RECOVERY), 1)] if number else []
        yield str(directory), seed, [(first, min(number + 1, times)), *second]


def with_second(step: str, job: kill_server.Job) -> kill_server.Job:
    """Steps that only a second writer reaches are its crash."""
    directory, seed, crashes = job
    return (directory, seed, [crashes[0], (step, 1)]) if step in ONLY_AFTER else job


def kill(jobs: list[kill_server.Job]) -> list[list[int]]:
    """Run the writers of each job, to be killed at its steps; their wait status."""
    command = [sys.executable, str(Path(kill_server.__file__))]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def killed(reached: Reached, in_memory: Callable[[], Path]) -> dict[str, list[tuple[Path, int, bool]]]:
    """Per step: directories as killed writers left them, their seeds, and whether one was killed at that step."""
    folder = in_memory()
    steps = [step for step in crash.STEPS for _ in range(KILLS)]
    jobs = [with_second(step, job) for step in crash.STEPS for job in jobs_of(step, reached, folder)]
    found: dict[str, list[tuple[Path, int, bool]]] = {step: [] for step in crash.STEPS}
    for step, (directory, seed, crashes), statuses in zip(steps, jobs, kill(jobs), strict=True):
        signals = [os.WTERMSIG(status) for status in statuses]
        assert set(signals) <= {0, signal.SIGKILL}, (step, seed, crashes, statuses)
        hit = any(at == step and how == signal.SIGKILL for (at, _), how in zip(crashes, signals, strict=True))
        found[step].append((Path(directory), seed, hit))
    return found


@pytest.mark.parametrize("step", crash.STEPS)
def test_killed_and_finished_equals_the_serial_run(step: str, killed: dict[str, list[tuple[Path, int, bool]]]) -> None:
    """Fails also when no writer was killed there."""
    for folder, seed, _ in killed[step]:
        crash_plan.check(plan_of(seed), folder, kill_server.durable(folder))
        crash_plan.run(plan_of(seed), folder)
        assert crash_plan.check(plan_of(seed), folder, EPOCHS) == EPOCHS
    assert any(hit for *_, hit in killed[step]), f"no writer was killed at {step}"


def test_the_variable_kills_a_real_process(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(crash_plan.__file__).parent)!r})\nimport crash_plan as c\n"
    code += f"c.run(c.plan_of(0), c.Path({str(tmp_path)!r}))"
    environment = {**os.environ, crash.VARIABLE: "log.append.synced:2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert crash_plan.check(plan_of(0), tmp_path, 2) == 2
