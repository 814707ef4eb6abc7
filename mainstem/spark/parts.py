"""Parquet written by tasks, under names that no reader sees until the driver publishes them.

A task can run twice (a retry, a speculative copy, a lost executor), so nothing it writes has a final name: every file
is staged (`mainstem.store.outputs`) under a hidden name of its own, and the driver publishes the files of the attempt
that Spark accepted.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.store import crash
from mainstem.store.parquet import parquet_writer

ROW_GROUP_ROWS = 1 << 18
"""Rows per row group: large enough that column chunks are long, small enough that few are in memory."""

FILE_ROWS_MAX = 1 << 24
"""Rows per file: a reader gets several files to read side by side, and footers stay small."""


class PartWriter:
    """Writes batches of one schema into files `<stem>-<n>.parquet` of a folder; `close` gives their hidden names."""

    def __init__(self, folder: str | Path, stem: str, schema: pa.Schema) -> None:
        self._folder, self._stem, self._schema = Path(folder), stem, schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._file_rows = 0
        self._staged: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush()

    def close(self) -> list[str]:
        """Have all files complete and on disk."""
        if self._waiting_rows:
            self._flush()
        self._end_file()
        if self._staged:
            _sync(self._folder)
        return self._staged

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = self._new_file()
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._file_rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        if self._file_rows >= FILE_ROWS_MAX:
            self._end_file()

    def _new_file(self) -> pq.ParquetWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{self._stem}-{len(self._staged):03d}.parquet"
        self._staged.append(f".{name}.{secrets.token_hex(8)}.staged")  # as `mainstem.store.publish` expects it
        return parquet_writer(self._folder / self._staged[-1], self._schema)

    def _end_file(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        crash.reach("output.stage.written")
        _sync(self._folder / self._staged[-1])
        crash.reach("output.stage.synced")
        self._writer, self._file_rows = None, 0


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
