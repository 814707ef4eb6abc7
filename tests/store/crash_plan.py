"""A writer whose every choice follows from a seed, and what its state and outputs are after each commit.

It does a bit of everything: commits with rows, removed rows, shard files and outputs; group commit or not; snapshots on
demand and in the background, large enough that increments are made; tables that are taken in later.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import store_driver as driver
from store_driver import ACCOUNT, SCHEMAS, Rows, accounts, visits

from mainstem.state import digest
from mainstem.store import Output, ShardFile, Store, discard_staged, pending, write_shard_file

EPOCHS = 7


@dataclass
class Step:
    """One commit: what it changes."""

    changes: list[tuple[int, int, str, bool]]  # Account: key, balance, owner, removed
    shards: dict[int, tuple[list[tuple[str, int, int]], bool]]  # Visit rows per shard; whether they are a base
    snapshot: bool


@dataclass
class Plan:
    """What a seed means: the commits, the state and the output after each of them, and how the store is opened."""

    seed: int
    options: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    states: list[Rows] = field(default_factory=lambda: [driver.empty()])
    texts: list[str] = field(default_factory=lambda: [""])

    digests: dict[int, str] = field(default_factory=dict)

    def digest_after(self, epoch: int) -> str:
        if epoch not in self.digests:
            self.digests[epoch] = digest_of(self.states[epoch])
        return self.digests[epoch]


@cache
def plan_of(seed: int) -> Plan:
    chance = random.Random(seed)
    options = {"durability": ("sync", "batch")[seed % 2], "keep": chance.choice([1, 2, 2, 3])}
    options |= {"segment_commits": chance.choice([1, 2, 2, 3]), "segment_bytes": chance.choice([3_000, 10**6])}
    plan = Plan(seed, options)
    for epoch in range(1, EPOCHS + 1):
        state = {name: dict(rows) for name, rows in plan.states[-1].items()}
        step = Step(_account_changes(chance, state, epoch), {}, chance.random() < 0.15)
        for shard in range(2):
            if chance.random() < 0.5:
                step.shards[shard] = _shard_changes(chance, state, shard, epoch)
        plan.steps.append(step)
        plan.states.append(state)
        plan.texts.append(json.dumps([epoch, sorted((str(key), row) for key, row in state["Account"].items())]))
    return plan


def _account_changes(chance: random.Random, state: Rows, epoch: int) -> list[tuple[int, int, str, bool]]:
    """The first commit is large, so that later ones are increments; updates do not commute."""
    keys = range(60) if epoch == 1 else chance.sample(range(70), chance.randint(1, 6))
    changes = []
    for key in keys:
        balance = state["Account"].get((key,), (1, ""))[0] * 3 + epoch + key
        removed = epoch > 1 and chance.random() < 0.2
        changes.append((key, balance % 1_000_003, f"owner {key} of {epoch} " + "x" * 60, removed))
        if removed:
            state["Account"].pop((key,), None)
        else:
            state["Account"][key,] = changes[-1][1:3]
    return changes


def _shard_changes(
    chance: random.Random, state: Rows, shard: int, epoch: int
) -> tuple[list[tuple[str, int, int]], bool]:
    name, base = f"shard {shard}", chance.random() < 0.4
    mine = {key[1]: row[0] for key, row in state["Visit"].items() if key[0] == name}
    changed = {chance.randrange(4): sum(mine.values()) + epoch}
    if base:
        for key in [key for key in state["Visit"] if key[0] == name]:
            del state["Visit"][key]
        changed = dict(list({**mine, **changed}.items())[-3:])
    state["Visit"].update({(name, day): (count,) for day, count in changed.items()})
    return [(name, day, count) for day, count in changed.items()], base


def digest_of(state: Rows) -> str:
    return digest(
        {
            "Account": accounts((*key, *row) for key, row in sorted(state["Account"].items())),
            "Visit": visits((*key, *row) for key, row in sorted(state["Visit"].items())),
        }
    )


def run(plan: Plan, folder: Path, acknowledged: Callable[[int], None] = lambda epoch: None) -> None:
    """Open, finish what is pending, and write every commit that is missing. `acknowledged` hears what is durable."""
    path, outputs = folder / "store", folder / "outputs"
    if not (path / "FORMAT").exists():
        Store.open(path, [ACCOUNT]).close()  # the other table is taken in when the directory is opened next
    with Store.open(path, SCHEMAS, **plan.options) as store:
        acknowledged(store.epoch)
        store.publish_pending()
        if outputs.is_dir():
            discard_staged(outputs)
        for epoch in range(store.epoch + 1, EPOCHS + 1):
            _write(store, plan, epoch, outputs)
            acknowledged(store.durable)
            if plan.steps[epoch - 1].snapshot:
                store.snapshot()
            elif plan.seed % 4 != 3:  # the others let the background run beside them as it likes
                settle(store)
        store.flush()
        acknowledged(store.durable)
        settle(store)


def settle(store: Store) -> None:
    """Let the background come to rest, so that a seed means the same snapshots every time."""
    store.flush()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with store._upkeep.reading() as base:
            if (base.epoch if base else 0) >= store._writer.log.first - 1:
                return
        thread = store._upkeep._snapshotter._thread
        if thread is None or not thread.is_alive():
            return
        time.sleep(0.0005)
    raise AssertionError("the background did not come to rest")


def _write(store: Store, plan: Plan, epoch: int, outputs: Path) -> None:
    step = plan.steps[epoch - 1]
    files: list[ShardFile] = []
    for shard, (rows, base) in step.shards.items():
        files.append(write_shard_file(store.path, shard, f"epoch-{epoch}", {"Visit": visits(rows)}, base))
    changes = accounts([row[:3] for row in step.changes], [row[3] for row in step.changes])
    text = plan.texts[epoch]
    output = Output.named(outputs, f"part-{epoch:04d}.json", lambda target: driver.write_file(target, text), len(text))
    meta = {"batch": epoch, **pending(outputs, [output.staged])}
    store.commit({"Account": changes}, meta, files, [output])


def check(plan: Plan, folder: Path, least: int) -> int:
    """Recover, and compare state and outputs with those of the serial run; the epoch found, `least` or later."""
    path, outputs = folder / "store", folder / "outputs"
    with Store.open(path, SCHEMAS, **plan.options) as store:
        assert store.epoch >= least, f"committed up to {least}, found {store.epoch}"
        assert store.warnings == []
        assert store.meta.get("batch", 0) == store.epoch
        store.publish_pending()
        if outputs.is_dir():
            discard_staged(outputs)
        assert digest_of(driver.rebuild(store.replay())) == plan.digest_after(store.epoch)
        found = driver.read_outputs(outputs) if outputs.is_dir() else {}
        assert found == {f"part-{n:04d}.json": plan.texts[n] for n in range(1, store.epoch + 1)}
        return store.epoch


def no_syncs() -> None:
    """A killed process loses nothing that it has written; only a power cut does."""
    os.fsync = os.fdatasync = lambda fd: None  # type: ignore[assignment]
