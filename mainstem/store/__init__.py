"""Durable state: write-ahead log, snapshots, recovery, shard files, output files, and queries beside the writer."""

from mainstem.store.durable import QUERIES, DurableRun
from mainstem.store.outputs import REJECTS_KEY, discard_staged, pending, publish, publish_pending, stage
from mainstem.store.reader import Database, open_db
from mainstem.store.recovery import StoreWarning
from mainstem.store.shards import ShardFile, read_shard_files, write_shard_file
from mainstem.store.store import Store

__all__ = [
    "QUERIES",
    "REJECTS_KEY",
    "Database",
    "DurableRun",
    "ShardFile",
    "Store",
    "StoreWarning",
    "discard_staged",
    "open_db",
    "pending",
    "publish",
    "publish_pending",
    "read_shard_files",
    "stage",
    "write_shard_file",
]
