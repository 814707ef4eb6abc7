"""What stands in a record: one JSON object, then Arrow tables, as length-prefixed sections.

    section  := u64 length, the bytes, zeros up to a multiple of 8
    payload  := section with the JSON head, then one section with an Arrow IPC stream per name in head["tables"]

All of it, padding too, is under the record's checksum. Tables are read in place: their columns point into the
record's bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.store.disk import Bytes

_LENGTH = struct.Struct("<Q")
_ALIGN = 8


@dataclass(frozen=True, slots=True)
class Payload:
    head: dict[str, Any]
    sections: tuple[memoryview, ...]

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows) in the order they were written."""
        for name, section in zip(self.head["tables"], self.sections, strict=True):
            with pa.ipc.open_stream(pa.py_buffer(section)) as stream:
                yield name, stream.read_all()


def encode(head: dict[str, Any], tables: Iterable[tuple[str, pa.Table]] = ()) -> list[Bytes]:
    """The buffers of a payload. `head` must survive JSON; its key `tables` is set here."""
    names, streams = [], []
    for name, table in tables:
        names.append(name)
        streams.append(_stream(table))
    buffers: list[Bytes] = []
    for content in (encode_json({**head, "tables": names}), *streams):
        length = memoryview(content).nbytes
        buffers += [_LENGTH.pack(length), content, bytes(-length % _ALIGN)]
    return buffers


def decode(payload: memoryview, where: str) -> Payload:
    """Take a payload apart; `where` names the record in errors. Its checksum has been verified."""
    sections = []
    offset = 0
    while offset < len(payload):
        (length,) = _LENGTH.unpack_from(payload, offset)
        offset += _LENGTH.size
        sections.append(payload[offset : offset + length])
        offset += length + -length % _ALIGN
    head = json.loads(bytes(sections[0])) if sections else {}
    if offset != len(payload) or len(head.get("tables", ())) != len(sections) - 1:
        raise CorruptError(f"{where}: the sections of a record do not add up")
    return Payload(head, tuple(sections[1:]))


def encode_json(value: dict[str, Any]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise StoreError(f"meta can't be kept as JSON: {error}\n  use dicts, lists, strings and numbers") from error


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
