"""A deterministic writer for the store's tests: every epoch's changes depend on the whole state before it.

Run as a program it is a crash server: it reads jobs (`[directory, step, count]`) as JSON from stdin, runs the writer
in a forked child per job with that crash armed, and prints how each child ended.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.schema import Field, TableSchema, Type
from mainstem.store import (
    ShardFile,
    Store,
    crash,
    discard_staged,
    pending,
    publish,
    publish_pending,
    stage,
    write_shard_file,
)

ACCOUNT = TableSchema("Account", (Type("int"),), True, (Field("balance", Type("int")), Field("owner", Type("str"))))
VISIT = TableSchema("Visit", (Type("str"), Type("int")), False, (Field("count", Type("int")),))
SCHEMAS = (ACCOUNT, VISIT)
EPOCHS = 12

Rows = dict[str, dict[Any, tuple[Any, ...]]]


def accounts(rows: Iterable[tuple[int, int, str]], deleted: Iterable[bool] | None = None) -> pa.Table:
    """Rows of the table Account: (key, balance, owner)."""
    keys, balances, owners = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    table = pa.table([pa.array(keys, pa.int64()), pa.array(balances, pa.int64()), pa.array(owners, pa.string())],
                     schema=ACCOUNT.arrow)  # fmt: skip
    return table if deleted is None else table.append_column("_deleted", pa.array(list(deleted), pa.bool_()))


def visits(rows: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Rows of the table Visit: (key_0, key_1, count)."""
    names, days, counts = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    arrays = [pa.array(names, pa.string()), pa.array(days, pa.int64()), pa.array(counts, pa.int64())]
    return pa.table(arrays, schema=VISIT.arrow)


def apply(state: Rows, name: str, table: pa.Table) -> None:
    """What `State.apply` does, on dicts."""
    keys = next(s for s in SCHEMAS if s.name == name).key_columns
    for row in table.to_pylist():
        key = tuple(row.pop(column) for column in keys)
        if row.pop("_deleted", False):
            state[name].pop(key, None)
        else:
            state[name][key] = tuple(row.values())


def empty() -> Rows:
    return {schema.name: {} for schema in SCHEMAS}


def rebuild(parts: Iterable[tuple[str, pa.Table]]) -> Rows:
    state = empty()
    for name, table in parts:
        apply(state, name, table)
    return state


def contents(path: Path) -> tuple[int, dict[str, Any], Rows]:
    """Epoch, meta and rows of a store."""
    with Store.open(path, SCHEMAS, create=False) as store:
        return store.epoch, store.meta, rebuild(store.replay())


def account_changes(state: Rows, epoch: int) -> pa.Table:
    """Non-commuting updates, and a deletion every third epoch."""
    rows, deleted = [], []
    for key in {epoch % 5, (epoch * 7) % 5, epoch % 3}:
        balance = state["Account"].get((key,), (1, ""))[0]
        rows.append((key, (balance * 3 + epoch) % 1_000_003, f"owner {key} of {epoch}"))
        deleted.append(epoch % 3 == 0 and key == epoch % 5)
    return accounts(rows, deleted)


def shard_changes(state: Rows, epoch: int, shard: int) -> tuple[pa.Table, bool]:
    """Changed rows of one shard of Visit; every third epoch all of its rows but the oldest (a base)."""
    name = f"shard {shard}"
    rows = {key[1]: value[0] for key, value in state["Visit"].items() if key[0] == name}
    changed = {epoch % 4: sum(rows.values()) + epoch}
    if epoch % 3 != shard % 3:
        return visits((name, day, count) for day, count in changed.items()), False
    rows.update(changed)
    rows.pop(min(rows) if len(rows) > 1 else -1, None)
    return visits((name, day, count) for day, count in rows.items()), True


def run(path: Path, outputs: Path, epochs: int = EPOCHS) -> None:
    """Open, finish what is pending, and write every epoch that is missing."""
    with Store.open(path, SCHEMAS, segment_bytes=2000) as store:
        publish_pending(store.meta)
        if outputs.is_dir():
            discard_staged(outputs)
        state = rebuild(store.replay())
        for epoch in range(store.epoch + 1, epochs + 1):
            write_epoch(store, state, outputs, epoch)


def write_epoch(store: Store, state: Rows, outputs: Path, epoch: int) -> None:
    changes = account_changes(state, epoch)
    files: list[ShardFile] = []
    for shard in (0, 1):
        rows, base = shard_changes(state, epoch, shard)
        files.append(write_shard_file(store.path, shard, f"epoch-{epoch}", {"Visit": rows}, base))
        if base:
            for key in [key for key in state["Visit"] if key[0] == f"shard {shard}"]:
                del state["Visit"][key]
        apply(state, "Visit", rows)
    apply(state, "Account", changes)
    text = output_text(state)
    staged = stage(outputs, f"part-{epoch:04d}.json", lambda target: write_file(target, text))
    store.commit({"Account": changes}, {"batch": epoch, **pending(outputs, [staged])}, files)
    publish(outputs, staged)
    if epoch % 3 == 0:
        store.snapshot({"Account": accounts((*key, *value) for key, value in sorted(state["Account"].items()))})


def output_text(state: Rows) -> str:
    return json.dumps(sorted((str(key), value) for key, value in state["Account"].items()))


def write_file(target: Path, text: str) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o666)
    os.write(fd, text.encode())
    os.close(fd)


def state_after(folder: Path, epochs: int) -> Rows:
    """The rows after some epochs of an undisturbed run."""
    run(folder / "store", folder / "outputs", epochs)
    return contents(folder / "store")[2]


def read_outputs(outputs: Path) -> dict[str, str]:
    """All files of a directory, hidden ones too."""
    return {entry.name: entry.read_text() for entry in sorted(outputs.iterdir())}


def steps_of(path: Path, outputs: Path) -> dict[str, int]:
    """How often an undisturbed run reaches each step."""
    seen: dict[str, int] = {}
    real = crash.reach

    def count(step: str) -> None:
        seen[step] = seen.get(step, 0) + 1
        real(step)

    crash.reach = count
    try:
        run(path, outputs)
    finally:
        crash.reach = real
    return seen


def _serve(jobs: Iterable[tuple[str, str, int]]) -> Iterator[int]:
    """The wait status of one forked writer per job."""
    for directory, step, count in jobs:
        pid = os.fork()
        if pid == 0:
            os.environ[crash.VARIABLE] = f"{step}:{count}"
            importlib.reload(crash)  # reads the variable, as a new process would
            os.fsync = os.fdatasync = lambda fd: None  # a killed process loses nothing that it has written
            run(Path(directory) / "store", Path(directory) / "outputs")
            os._exit(0)
        yield os.waitpid(pid, 0)[1]


if __name__ == "__main__":
    print(json.dumps(list(_serve(json.load(sys.stdin)))))
