"""A writer that crashes at every named step, also while it recovers: reopened, compared with the serial run, finished.

In this process: the step raises, and no thread of the writer gets past another step. Half of the crashes are power
cuts, which leave only what was synced. Processes that are killed for real are in test_store_kill.py.
"""

from __future__ import annotations

import ast
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import crash_plan
import pytest
from crash_plan import EPOCHS, Plan, plan_of
from crash_plug import IN_RECOVERY, ONLY_AFTER, Plug, Reached, armed
from power import Disk

import mainstem
from mainstem.errors import StoreError
from mainstem.query import open_db
from mainstem.store import Store, crash

SEEDS = 20


def test_every_named_step_is_in_the_list() -> None:
    named = set()
    for module in Path(mainstem.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("crash.reach"):
                named |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert named
    assert named <= set(crash.STEPS)
    assert len(set(crash.STEPS)) == len(crash.STEPS) >= 36


@pytest.mark.parametrize("step", crash.STEPS)
def test_crashed_recovered_and_finished_equals_the_serial_run(
    step: str, reached: Reached, in_memory: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails also when the step is never reached."""
    hits = 0
    for number in range(SEEDS):
        chance = random.Random(f"{step} {number}")
        first = chance.choice(ONLY_AFTER.get(step, (step,)))
        seed, times = chance.choice(reached[first])
        folder = in_memory()
        case = Case(plan_of(seed), Disk(folder, monkeypatch), folder, folder.with_suffix(".after"), chance)
        case.crash(first, chance.randint(1, times))
        if first != step:
            hits += case.crash(step, 1)
        else:
            hits += step in case.hit
            if number % 2:
                case.crash(chance.choice(IN_RECOVERY), 1)
        case.check()
        if number % 4 == 0:
            case.finish()
        shutil.rmtree(folder)
    assert hits >= SEEDS // 2, f"{step} was reached by {hits} of {SEEDS} runs only"


@dataclass
class Case:
    """One writer and its crashes."""

    plan: Plan
    disk: Disk
    folder: Path
    spare: Path
    chance: random.Random
    durable: int = 0
    hit: list[str] = field(default_factory=list)

    def crash(self, step: str, count: int) -> bool:
        """Run until the step is reached that often; whether it was. Then the directory is as a crash leaves it."""
        with armed(Plug(step, count)) as plug:
            crash_plan.run(self.plan, self.folder, self._acknowledged)
        if plug.pulled:
            self.hit.append(step)
            if self.chance.random() < 0.5:
                self._cut_power()
        return plug.pulled

    def check(self) -> None:
        """State and outputs are those of the serial run, and nothing is left lying about."""
        where = f"seed {self.plan.seed}, crashed at {self.hit}"
        assert crash_plan.check(self.plan, self.folder, self.durable) >= self.durable, where
        assert not list((self.folder / "store").rglob("*.tmp"))

    def finish(self) -> None:
        """The directory takes all commits that are missing."""
        crash_plan.run(self.plan, self.folder)
        assert crash_plan.check(self.plan, self.folder, EPOCHS) == EPOCHS, f"seed {self.plan.seed}, {self.hit}"

    def _acknowledged(self, epoch: int) -> None:
        self.durable = epoch

    def _cut_power(self) -> None:
        """Put what was synced in the place of what was written; some names survive without being synced."""
        lucky = self.chance.random()
        self.disk.cut(self.spare, lambda folder: self.chance.random() < lucky)
        shutil.rmtree(self.folder)
        self.spare.rename(self.folder)
        self.disk.restart()


@pytest.mark.parametrize(("step", "least"), [("log.append.header", 1), ("log.append.half", 100)])
def test_half_written_means_half_written(step: str, least: int, tmp_path: Path) -> None:
    """The steps inside a write leave a torn record: the bytes are really in the file and really not all of them."""
    with armed(Plug(step, 1)):
        crash_plan.run(plan_of(0), tmp_path)
    path = tmp_path / "store"
    segment = path / "log" / f"{1:020d}.wal"
    assert segment.stat().st_size >= least
    with open_db(path) as db:
        assert db.epoch == 0
    assert segment.stat().st_size >= least, "a reader leaves it alone"
    with Store.open(path, crash_plan.SCHEMAS) as store:
        assert store.epoch == 0
    assert segment.stat().st_size == 0


@pytest.mark.parametrize(
    "step",
    ["log.append.written", "log.rotate.created", "log.rotate.sealing", "trim.segment", "trim.increment",
     "increment.renamed", "snapshot.renamed", "shard.dropping"],
)  # fmt: skip
def test_a_reader_of_a_crashed_directory_sees_what_the_writer_recovers(
    step: str, reached: Reached, tmp_path: Path
) -> None:
    """Before any writer cleans up."""
    for seed, times in reached[step]:
        folder = tmp_path / str(seed)
        with armed(Plug(step, times)) as plug:
            crash_plan.run(plan_of(seed), folder)
        if plug.pulled:  # the background may have been faster or slower than before
            break
    assert plug.pulled
    with open_db(folder / "store") as db:
        seen = db.epoch, {tuple(row.values()) for row in db.table("Account").to_pylist()}
    assert crash_plan.check(plan_of(seed), folder, 0) == seen[0]
    assert seen[1] == {(*key, *row) for key, row in plan_of(seed).states[seen[0]]["Account"].items()}


@pytest.mark.parametrize("value", ["nowhere:1", "commit.start:x"])
def test_a_misspelt_step_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(crash.VARIABLE, value)
    with pytest.raises(StoreError, match=rf"MAINSTEM_CRASH={value} names no step; use <step>:<count> with one of"):
        crash._armed()
