"""Exchange files: blocks of columns that tasks of a replay hand to each other, read in place from a memory map.

    head    64 bytes    magic, zeros
    blocks              Arrow IPC streams of one record batch each, uncompressed; each starts at a multiple of 64
    index               JSON: per block its name, offset, length, and where the rows of each shard start
    tail    24 bytes    offset and checksum of the index, magic

The rows of a block are sorted by the shard that reads them, so that a writer writes few large pieces and a reader
touches the pages of its own rows only. A file is written once; one without its tail was never finished. It is not
synced: after a loss of power its task runs again.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.store.disk import disk

_ALIGN = 64
_HEAD = b"MSXCHG-1".ljust(_ALIGN, b"\0")
_END = b"MSXC-END"
_TAIL = struct.Struct("<QII8s")  # offset, length and crc of the index, magic
_REMEDY = "run the task that wrote it again: what it wrote follows from its inputs"


class ExchangeWriter:
    """Writes one file; it counts once `close` has returned."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk("write", path):
            self._file = pa.OSFile(str(path), "wb")
            self._file.write(_HEAD)
        self._index: list[list[Any]] = []

    def add(self, name: str, batch: pa.RecordBatch, starts: list[int]) -> None:
        """One block; the rows of shard s are those from `starts[s]` to `starts[s + 1]`. A name may come repeatedly."""
        offset = self._file.tell()
        with disk("write", self.path):
            with pa.ipc.new_stream(self._file, batch.schema) as stream:
                stream.write_batch(batch)
            length = self._file.tell() - offset
            self._file.write(bytes(-length % _ALIGN))
        self._index.append([name, offset, length, starts])

    def close(self) -> int:
        """Finishes the file; its size."""
        index, offset = json.dumps(self._index).encode(), self._file.tell()
        with disk("write", self.path):
            self._file.write(index)
            self._file.write(_TAIL.pack(offset, len(index), zlib.crc32(index), _END))
            self._file.close()
        return offset + len(index) + _TAIL.size

    def discard(self) -> None:
        """Gives up: nothing is left behind."""
        self._file.close()
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Block:
    offset: int
    length: int
    starts: list[int]

    def span(self, shard: int) -> tuple[int, int]:
        """Of a shard's rows. A block that is not spread has those of shard 0 only."""
        return (self.starts[shard], self.starts[shard + 1]) if shard + 1 < len(self.starts) else (0, 0)


class ExchangeFile:
    """A finished file. Record batches point into its memory map, and keep it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = _mapped(path)
        self._blocks: dict[str, list[_Block]] = {}
        for name, offset, length, starts in self._read_index():
            self._blocks.setdefault(name, []).append(_Block(offset, length, starts))

    def count(self, name: str, shard: int) -> int:
        """How many rows a shard has in the blocks of that name."""
        spans = (block.span(shard) for block in self._blocks.get(name, ()))
        return sum(end - first for first, end in spans)

    def rows(self, name: str, shard: int) -> list[pa.RecordBatch]:
        """The rows of a shard in the blocks of that name, in the order they were written; without empty ones."""
        found = []
        for block in self._blocks.get(name, ()):
            first, end = block.span(shard)
            if first < end:
                found.append(self._read(block).slice(first, end - first))
        return found

    def _read(self, block: _Block) -> pa.RecordBatch:
        return pa.ipc.open_stream(self._bytes.slice(block.offset, block.length)).read_next_batch()

    def _read_index(self) -> list[list[Any]]:
        size = self._bytes.size
        if size < len(_HEAD) + _TAIL.size:
            raise self._torn("it is too short")
        offset, length, crc, end = _TAIL.unpack(self._bytes.slice(size - _TAIL.size).to_pybytes())
        if end != _END:
            raise self._torn("its end is missing")
        if self._bytes.slice(0, len(_HEAD)).to_pybytes() != _HEAD or offset + length + _TAIL.size != size:
            raise self._torn("its parts do not add up")
        index = self._bytes.slice(offset, length).to_pybytes()
        if zlib.crc32(index) != crc:
            raise self._torn("the checksum of its index does not hold")
        return json.loads(index)

    def _torn(self, why: str) -> CorruptError:
        return CorruptError(f"{self.path} is not a finished exchange file: {why}\n  {_REMEDY}")


def _mapped(path: Path) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer(file.size())
    except FileNotFoundError:
        raise CorruptError(f"{path} is missing\n  {_REMEDY}") from None
    except OSError as error:
        raise CorruptError(f"{path} can't be read: {error}\n  {_REMEDY}") from error
