"""A writer killed at every named step: reopened, finished, compared with an undisturbed run."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import store_driver as driver

import mainstem
from mainstem.errors import StoreError
from mainstem.store import Store, crash, open_db

DRIVER = Path(driver.__file__)


@dataclass
class Crashed:
    """One writer per step and count, already dead."""

    folder: Path
    counts: dict[str, list[int]]
    seen: dict[str, int]
    status: dict[tuple[str, int], int]

    def directory(self, step: str, count: int) -> Path:
        return self.folder / f"{step}-{count}"

    def copy(self, step: str, count: int) -> Path:
        """As the killed writer left it, for one test; `directory` is shared and may be finished already."""
        return self.folder / f"copy-{step}-{count}"


def kill(jobs: list[tuple[str, str, int]]) -> list[int]:
    """Run one writer per (directory, step, count), to be killed there; their wait status."""
    command = [sys.executable, str(DRIVER)]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, driver.steps_of(folder / "store", folder / "outputs")


@pytest.fixture(scope="module")
def crashed(undisturbed: tuple[Path, dict[str, int]], tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    """Kill at the first, a middle and the last time that each step is reached."""
    folder, seen = tmp_path_factory.mktemp("crashed"), undisturbed[1]
    counts = {step: sorted({1, (times + 1) // 2, times}) for step, times in seen.items()}
    made = Crashed(folder, counts, seen, {})
    jobs = [(str(made.directory(step, n)), step, n) for step, numbers in counts.items() for n in numbers]
    for directory, _, _ in jobs:
        os.mkdir(directory)
    made.status = {(step, n): status for (_, step, n), status in zip(jobs, kill(jobs), strict=True)}
    for _, step, n in jobs:
        shutil.copytree(made.directory(step, n), made.copy(step, n))
    return made


def test_every_step_is_reached(undisturbed: tuple[Path, dict[str, int]]) -> None:
    assert set(undisturbed[1]) == set(crash.STEPS)


def test_every_named_step_is_in_the_list() -> None:
    named = set()
    for module in Path(mainstem.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reach"):
                named |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert named
    assert named <= set(crash.STEPS)


@pytest.mark.parametrize("step", crash.STEPS)
def test_killed_and_finished_equals_undisturbed(
    step: str, crashed: Crashed, undisturbed: tuple[Path, dict[str, int]]
) -> None:
    expected = driver.contents(undisturbed[0] / "store")
    for count in crashed.counts[step]:
        assert os.WTERMSIG(crashed.status[step, count]) == signal.SIGKILL
        folder = crashed.directory(step, count)
        driver.run(folder / "store", folder / "outputs")
        epoch, meta, state = driver.contents(folder / "store")
        assert (epoch, meta["batch"], state) == (expected[0], expected[1]["batch"], expected[2])
        assert driver.read_outputs(folder / "outputs") == driver.read_outputs(undisturbed[0] / "outputs")


def test_no_leftovers_after_recovery(crashed: Crashed, undisturbed: tuple[Path, dict[str, int]]) -> None:
    """Temporary and unreferenced files are gone, whatever was interrupted."""
    for step in crash.STEPS:
        folder = crashed.directory(step, 1)
        driver.run(folder / "store", folder / "outputs")
        with Store.open(folder / "store", driver.SCHEMAS):
            names = [entry.name for entry in (folder / "store").rglob("*") if entry.is_file()]
        assert not [name for name in names if name.endswith(".tmp")]
        kept = [name for name in names if name.endswith(".shard")]
        expected = [entry.name for entry in (undisturbed[0] / "store").rglob("*.shard")]
        assert sorted(n.split(".")[0] for n in kept) == sorted(n.split(".")[0] for n in expected), step


@pytest.mark.parametrize(("step", "least"), [("log.append.header", 1), ("log.append.half", 100)])
def test_half_written_means_half_written(step: str, least: int, crashed: Crashed) -> None:
    """The steps inside a write leave a torn record: the bytes are really in the file and really not all of them."""
    path = crashed.copy(step, 1) / "store"
    segment = path / "log" / f"{1:020d}.wal"
    assert segment.stat().st_size >= least
    with open_db(path) as db:
        assert db.epoch == 0
    assert segment.stat().st_size >= least, "a reader leaves it alone"
    with Store.open(path, driver.SCHEMAS) as store:
        assert store.epoch == 0
    assert segment.stat().st_size == 0


@pytest.mark.parametrize(
    "step", ["log.append.written", "log.rotate.created", "log.rotate.sealing", "snapshot.dropping", "shard.dropping"]
)
def test_a_reader_of_a_crashed_directory_sees_what_the_writer_recovers(step: str, crashed: Crashed) -> None:
    """Before any writer cleans up."""
    path = crashed.copy(step, crashed.seen[step]) / "store"
    with open_db(path) as db:
        seen = db.epoch, db.meta, {tuple(row.values()) for row in db.table("Account").to_pylist()}
    epoch, meta, state = driver.contents(path)
    assert seen == (epoch, meta, {(*key, *value) for key, value in state["Account"].items()})


def test_the_variable_kills_a_real_process(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(DRIVER.parent)!r})\nimport store_driver as d\n"
    code += f"d.run(d.Path({str(tmp_path / 's')!r}), d.Path({str(tmp_path / 'o')!r}))"
    environment = {**os.environ, crash.VARIABLE: "log.append.synced:2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert driver.contents(tmp_path / "s")[0] == 2


@pytest.mark.parametrize("value", ["nowhere:1", "commit.start:x"])
def test_a_misspelt_step_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(crash.VARIABLE, value)
    with pytest.raises(StoreError, match=rf"MAINSTEM_CRASH={value} names no step; use <step>:<count> with one of"):
        crash._armed()
