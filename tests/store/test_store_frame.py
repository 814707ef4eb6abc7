"""One record: written, read, torn at every byte, damaged at every bit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mainstem.errors import CorruptError, StoreError
from mainstem.store import frame, payload
from mainstem.store.frame import Kind, TornError

STORE = 0x1234_5678_9ABC_DEF0


class File:
    """A file of records that is easy to spoil."""

    def __init__(self, path: Path, records: list[bytes]) -> None:
        self.path, self.records = path, records
        self.data = b"".join(records)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        self.restore()

    def restore(self) -> None:
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, self.data, 0)

    def read_all(self) -> list[int]:
        """The epochs of all records."""
        epochs, offset = [], 0
        while (record := frame.read(self.fd, self.path, offset, STORE)) is not None:
            epochs.append(record.epoch)
            offset = record.end
        return epochs


def record(epoch: int, zeros: int = 0) -> bytes:
    """A commit whose table is mostly zeros, so that its bytes look like a hole in a file."""
    content = payload.encode({"meta": {}}, [("T", pa.table({"key": pa.array([0] * zeros, pa.int64())}))])
    return b"".join(bytes(part) for part in frame.encode(Kind.COMMIT, STORE, epoch, content))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    made = File(tmp_path / "records", [record(1), record(2, zeros=9), record(3, zeros=3)])
    yield made
    os.close(made.fd)


def test_records_are_aligned_and_end_without_zeros(file: File) -> None:
    assert all(len(data) % 8 == 0 for data in file.records)
    assert all(byte.bit_count() > 1 for byte in frame.END), "one flipped bit must not look like unwritten bytes"


def test_round_trip(file: File) -> None:
    assert file.read_all() == [1, 2, 3]
    last = frame.read(file.fd, file.path, len(file.records[0]), STORE)
    assert last is not None
    content = payload.decode(last.payload, "here")
    assert [(name, table.num_rows) for name, table in content.tables()] == [("T", 9)]


def test_tables_are_read_in_place(file: File) -> None:
    found = frame.read(file.fd, file.path, len(file.records[0]), STORE)
    assert found is not None
    before = pa.total_allocated_bytes()
    tables = dict(payload.decode(found.payload, "here").tables())
    assert tables["T"].num_rows == 9
    assert pa.total_allocated_bytes() == before


def test_a_cut_at_every_byte_of_the_last_record_is_torn(file: File) -> None:
    start = len(file.data) - len(file.records[-1])
    for size in range(start + 1, len(file.data)):
        os.ftruncate(file.fd, size)
        with pytest.raises(TornError):
            file.read_all()
        file.restore()
    os.ftruncate(file.fd, start)
    assert file.read_all() == [1, 2]


def test_zeros_from_every_byte_of_the_last_record_on_are_torn(file: File) -> None:
    start = len(file.data) - len(file.records[-1])
    for first in range(start, len(file.data)):
        for beyond in (0, 100):
            os.pwrite(file.fd, bytes(len(file.data) - first + beyond), first)
            with pytest.raises(TornError):
                file.read_all()
            file.restore()


def test_every_flipped_bit_is_corrupt_and_never_torn(file: File) -> None:
    for position, byte in enumerate(file.data):
        for bit in range(8):
            os.pwrite(file.fd, bytes([byte ^ 1 << bit]), position)
            with pytest.raises(CorruptError) as caught:
                file.read_all()
            assert not isinstance(caught.value, TornError), (position, bit)
        os.pwrite(file.fd, bytes([byte]), position)
    assert file.read_all() == [1, 2, 3]


def test_zeros_in_the_middle_are_corrupt(file: File) -> None:
    """The record after them was acknowledged, so they were written once."""
    first, second = len(file.records[0]), len(file.records[0]) + len(file.records[1])
    for start in (first, first + 8, first + frame.HEADER_BYTES, second - 8):
        os.pwrite(file.fd, bytes(second - start), start)
        with pytest.raises(CorruptError) as caught:
            file.read_all()
        assert not isinstance(caught.value, TornError)
        file.restore()


def test_foreign_bytes_at_the_end_are_corrupt(file: File) -> None:
    os.pwrite(file.fd, b"notes", len(file.data))
    with pytest.raises(CorruptError, match=rf"byte {len(file.data)}: the header of a record is damaged") as caught:
        file.read_all()
    assert not isinstance(caught.value, TornError)


def test_a_record_of_another_store_is_refused(file: File) -> None:
    with pytest.raises(CorruptError, match="of store 123456789abcdef0, this directory is 0000000000000001"):
        frame.read(file.fd, file.path, 0, store=1)


def test_a_newer_format_is_refused(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(frame, "FORMAT_VERSION", 3)
        newer = record(1)
    os.pwrite(file.fd, newer, 0)
    with pytest.raises(StoreError, match=r"in format 3, this Mainstem reads up to 2\n  install a newer mainstem"):
        file.read_all()


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    odd = b"".join(bytes(part) for part in frame.encode(99, STORE, 1, payload.encode({})))  # type: ignore[arg-type]
    made = File(tmp_path / "odd", [odd])
    with pytest.raises(CorruptError, match="unknown kind 99"):
        made.read_all()
    os.close(made.fd)


def test_sections_must_add_up() -> None:
    good = b"".join(bytes(part) for part in payload.encode({"a": 1}, [("T", pa.table({"x": [1]}))]))
    assert payload.decode(memoryview(good), "here").head == {"a": 1, "tables": ["T"]}
    head_only = 8 + int.from_bytes(good[:8], "little") + -int.from_bytes(good[:8], "little") % 8
    with pytest.raises(CorruptError, match="here: the sections of a record do not add up"):
        payload.decode(memoryview(good)[:head_only], "here")


def test_meta_that_json_cannot_hold() -> None:
    with pytest.raises(StoreError, match=r"meta can't be kept as JSON: .*bytes.*\n  use dicts"):
        payload.encode({"meta": {"key": b"bytes"}})
