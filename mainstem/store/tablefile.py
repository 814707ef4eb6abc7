"""Whole tables in one file: snapshots and shard files.

    SNAPSHOT or SHARD   what the file is
    PART …              some rows of one table each
    LAST                how many parts there are

Written in bounded parts, so that a large state is never serialised as one piece. Such a file is complete before its
name counts; so here a torn record is corruption like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.store import crash, frame, payload
from mainstem.store.disk import sync, write_all, write_in_halves
from mainstem.store.frame import Kind
from mainstem.store.payload import Payload

PART_BYTES = 16 << 20  # serialised at a time: small beside any state that matters, large beside the overhead per part


@dataclass(frozen=True)
class TableFile:
    """A complete file of tables of one store."""

    path: Path
    kind: Kind
    store: int
    epoch: int

    def write(self, head: dict[str, Any], tables: Mapping[str, pa.Table], step: str) -> int:
        """Write and sync a new file; the size. `step` is the crash step when half of it is written."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(fd, self._record(self.kind, payload.encode(head)))
            parts = list(_parts(tables))
            for number, part in enumerate(parts):
                if number == len(parts) // 2:
                    write_in_halves(fd, self._record(Kind.PART, payload.encode({}, [part])), step)
                else:
                    write_all(fd, self._record(Kind.PART, payload.encode({}, [part])))
            if not parts:
                crash.reach(step)
            write_all(fd, self._record(Kind.LAST, payload.encode({"parts": len(parts)})))
            sync(fd)
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def verify(self) -> dict[str, Any]:
        """Read every byte; the head."""
        records = self._read()
        head = next(records).head
        for _ in records:
            pass
        return head

    def read(self) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows), part by part. Damage shows only where it is: `verify` first to know before."""
        records = self._read()
        next(records)
        for part in records:
            yield from part.tables()

    def _record(self, kind: Kind, content: list[Any]) -> list[Any]:
        return frame.encode(kind, self.store, self.epoch, content)

    def _read(self) -> Iterator[Payload]:
        """The head and the parts; raises unless all of the file is as it was written."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            offset, parts, expected = 0, 0, self.kind
            while (record := frame.read(fd, self.path, offset, self.store)) is not None:
                content = payload.decode(record.payload, f"{self.path}, byte {offset}")
                if record.kind == Kind.LAST and expected == Kind.PART:
                    self._check_last(content, parts, record.end == os.fstat(fd).st_size, offset)
                    return
                if (record.kind, record.epoch) != (expected, self.epoch):
                    raise self._unexpected(offset)
                yield content
                parts += expected == Kind.PART
                offset, expected = record.end, Kind.PART
            raise CorruptError(f"{self.path}: the file ends before its last record\n  {frame.REMEDY}")
        finally:
            os.close(fd)

    def _check_last(self, content: Payload, parts: int, at_end: bool, offset: int) -> None:
        if content.head["parts"] != parts or not at_end:
            raise self._unexpected(offset)

    def _unexpected(self, offset: int) -> CorruptError:
        return CorruptError(f"{self.path}, byte {offset}: not the record that belongs here\n  {frame.REMEDY}")


def _parts(tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Slices of the tables of about `PART_BYTES` each; an empty table is one empty part."""
    for name, table in tables.items():
        rows = max(1, table.num_rows * PART_BYTES // max(table.nbytes, 1))
        for start in range(0, max(table.num_rows, 1), rows):
            yield name, table.slice(start, rows)
