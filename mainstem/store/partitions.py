"""Where rows live: in the directory's own log, or in the shard files of a keyed plan; and moving between the two.

A run that wants its rows elsewhere than the one before it moves all of them in one commit: files are written first and
mean nothing, then the commit names them and takes the rows away from where they were. Killed before it, everything is
as it was; after it, everything has moved. What the last commit said about itself is carried on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.state import DELETED, State
from mainstem.store.shards import ShardFile
from mainstem.store.store import Store

log = logging.getLogger("mainstem.store")

SHARDS = "shards"
"""Key of a commit's meta: how many shards a keyed plan keeps its rows in."""


def shard_count(store: Store) -> int:
    """In how many shards the rows are; 0 when they are in one piece."""
    found = len(store.shard_files)
    if found and store.meta.get(SHARDS) != found:
        raise StoreError(
            f"{store.path} keeps its state in {found} shards, and another kind of run has added to it\n"
            "  start from a copy of its tables: initial={name: ms.open(…).table(name)} and a new directory"
        )
    return found


def load_state(store: Store, state: State) -> State:
    """Fill an empty `state` with the rows after the last commit."""
    for name, rows in store.replay():
        state.apply(name, rows)
    return state


def gather(store: Store, state: State) -> None:
    """Have all rows in one piece. `state` is what the store holds."""
    shards = shard_count(store)
    if shards:
        meta = {key: value for key, value in store.meta.items() if key != SHARDS}
        store.commit(state.export(), meta, [ShardFile.dropped(shard) for shard in store.shard_files])
        log.info("%s: rows of %d shards are in one piece now", store.path, shards)


def scatter(store: Store, tables: Mapping[str, pa.Table], bases: list[ShardFile]) -> None:
    """Have all rows in these files, one base per shard. `tables` is what the store holds."""
    before = shard_count(store)
    gone = {name: _deleted(rows) for name, rows in tables.items()} if not before else {}
    dropped = [ShardFile.dropped(shard) for shard in store.shard_files if shard >= len(bases)]
    store.commit(gone, {**store.meta, SHARDS: len(bases)}, [*bases, *dropped])
    log.info("%s: rows of %s are in %d shards now", store.path, _text(before), len(bases))


def _deleted(rows: pa.Table) -> pa.Table:
    return rows.append_column(pa.field(DELETED, pa.bool_(), nullable=False), pa.repeat(pa.scalar(True), rows.num_rows))


def _text(shards: int) -> str:
    return f"{shards} shards" if shards else "one piece"
