"""Durable state: write-ahead log, snapshots, recovery, shard files and output files."""

from mainstem.store.durable import QUERIES, DurableRun
from mainstem.store.outputs import REJECTS_KEY, Output, discard_staged, pending, publish, publish_pending, stage
from mainstem.store.recovery import StoreWarning
from mainstem.store.shards import ShardFile, read_shard_files, write_shard_file
from mainstem.store.store import Store
from mainstem.store.writer import Durability, check_durability

__all__ = [
    "QUERIES",
    "REJECTS_KEY",
    "Durability",
    "DurableRun",
    "Output",
    "ShardFile",
    "Store",
    "StoreWarning",
    "check_durability",
    "discard_staged",
    "pending",
    "publish",
    "publish_pending",
    "read_shard_files",
    "stage",
    "write_shard_file",
]
