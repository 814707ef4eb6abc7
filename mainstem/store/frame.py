"""One record framing for the format file, log segments, snapshots, increments and shard files.

    header   40 bytes   magic, version, kind, store, epoch, payload length, payload crc, header crc
    payload  n bytes    n is a multiple of 8, so that every record starts aligned
    end       8 bytes   b"MSTM-END": the last bytes that a record writes, none of them zero

A record is *torn* when the file ends before it does, or when its end was never written (zeros). It is *corrupt* when
its bytes are there but do not agree. A flipped bit can't make a record look torn: the length is under the header's
checksum, and no single bit turns the end into zeros. See docs/format.md.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from mainstem.errors import CorruptError, StoreError
from mainstem.store.disk import Bytes, only_zeros, read_at

FORMAT_VERSION = 2
MAGIC = b"MSTM"
END = b"MSTM-END"
_FIELDS = struct.Struct("<4sHHQQQI")  # all of the header but its own checksum
_CRC = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CRC.size

REMEDY = "restore the file from a copy, or start a new directory and replay the input from its beginning"


class TornError(CorruptError):
    """A record that was never finished. Only the end of the log may hold one; anywhere else it is corruption."""


class Kind(IntEnum):
    FORMAT = 1  # the whole format file
    COMMIT = 2  # one commit in the log
    SEAL = 3  # the log goes on in another segment
    SNAPSHOT = 4  # first record of a snapshot
    SHARD = 5  # first record of a shard file
    PART = 6  # some rows of one table, in a snapshot, increment or shard file
    LAST = 7  # last record of such a file
    INCREMENT = 8  # first record of an increment


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    kind: int
    store: int
    epoch: int
    length: int
    payload_crc: int


@dataclass(frozen=True, slots=True)
class Record:
    kind: Kind
    store: int
    epoch: int
    payload: memoryview
    end: int  # offset of the byte after the record


def encode(kind: Kind, store: int, epoch: int, payload: Sequence[Bytes]) -> list[Bytes]:
    """The buffers of one record, in order. The payload is not copied."""
    crc, length = 0, 0
    for part in payload:
        crc = zlib.crc32(part, crc)
        length += memoryview(part).nbytes
    fields = _FIELDS.pack(MAGIC, FORMAT_VERSION, kind, store, epoch, length, crc)
    return [fields + _CRC.pack(zlib.crc32(fields)), *payload, END]


def decode_header(data: Bytes) -> Header | None:
    """The header in the first bytes of `data`; None when they are not one."""
    fields = bytes(data[: _FIELDS.size])
    if len(data) < HEADER_BYTES or not fields.startswith(MAGIC):
        return None
    if _CRC.unpack(data[_FIELDS.size : HEADER_BYTES])[0] != zlib.crc32(fields):
        return None
    return Header(*_FIELDS.unpack(fields)[1:])


def read(fd: int, path: Path, offset: int, store: int | None = None) -> Record | None:
    """The record at an offset; None at the end of the file. `store` is the id that it must carry.

    Raises `TornError` for a record that was never finished and `CorruptError` for one that can't be trusted.
    """
    size = os.fstat(fd).st_size
    if offset >= size:
        return None
    head = read_at(fd, offset, HEADER_BYTES)
    header = decode_header(head)
    if header is None:
        raise _unreadable_header(fd, path, offset, size, head)
    _check_origin(header, path, offset, store)
    start, end = offset + HEADER_BYTES, offset + HEADER_BYTES + header.length + len(END)
    if end > size:
        raise TornError(f"{path}, byte {offset}: the file ends before the record does")
    data = memoryview(read_at(fd, start, header.length + len(END)))
    if len(data) < end - start:  # a writer that ran out of space took its unfinished record back meanwhile
        raise TornError(f"{path}, byte {offset}: the file ends before the record does")
    payload, last = data[: header.length], bytes(data[header.length :])
    if last != END:
        if last.endswith(b"\0") and only_zeros(fd, end, size):
            raise TornError(f"{path}, byte {offset}: the end of the record was never written")
        raise CorruptError(f"{path}, byte {start + header.length}: the record's end mark is damaged\n  {REMEDY}")
    if zlib.crc32(payload) != header.payload_crc:
        raise CorruptError(f"{path}, byte {start}: the checksum of a record does not hold\n  {REMEDY}")
    return Record(Kind(header.kind), header.store, header.epoch, payload, end)


def find_last_epoch(fd: int, offset: int) -> int:
    """The highest epoch of any commit whose header can still be read after a damaged place; 0 for none."""
    data = read_at(fd, offset, os.fstat(fd).st_size - offset)
    highest, at = 0, data.find(MAGIC)
    while at >= 0:
        header = decode_header(data[at : at + HEADER_BYTES])
        if header is not None and header.kind == Kind.COMMIT:
            highest = max(highest, header.epoch)
        at = data.find(MAGIC, at + 1)
    return highest


def _unreadable_header(fd: int, path: Path, offset: int, size: int, head: bytes) -> CorruptError:
    """Torn if nothing was written after the header's place, corrupt otherwise."""
    place = f"{path}, byte {offset}"
    if len(head) < HEADER_BYTES:
        written = head.rstrip(b"\0")[: len(MAGIC)]
        if MAGIC.startswith(written):
            return TornError(f"{place}: the file ends inside a record's header")
    elif only_zeros(fd, offset + HEADER_BYTES, size):
        return TornError(f"{place}: a record's header was never finished")
    return CorruptError(f"{place}: the header of a record is damaged\n  {REMEDY}")


def _check_origin(header: Header, path: Path, offset: int, store: int | None) -> None:
    """Refuse what a newer Mainstem or another directory has written; both pass their checksums."""
    if header.version > FORMAT_VERSION:
        raise StoreError(
            f"{path}, byte {offset}: written in format {header.version}, this Mainstem reads up to {FORMAT_VERSION}\n"
            "  install a newer mainstem"
        )
    if header.kind not in Kind._value2member_map_:
        raise CorruptError(f"{path}, byte {offset}: a record of unknown kind {header.kind}\n  {REMEDY}")
    if store is not None and header.store != store:
        raise CorruptError(
            f"{path}, byte {offset}: the record is of store {header.store:016x}, this directory is {store:016x}\n"
            "  the file was copied from another directory: restore the right one"
        )
