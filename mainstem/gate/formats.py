"""Readers of file formats. Each streams: memory stays at a few batches, however large the file is."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from mainstem.gate.raw import Malformed, Raw, RawBatch, RawRows, Request
from mainstem.schema import Type

_TEXT_BLOCK_BYTES = 1 << 20
_COMPRESSED = (".gz", ".bz2", ".zst")


def _parquet(path: Path, request: Request) -> Iterator[Raw]:
    metadata = pa.parquet.read_metadata(path)
    there = metadata.schema.to_arrow_schema().names
    names = [name for name in request.names if name in there]
    # Names of event types repeat: as a dictionary they cost a look-up each, not a string comparison.
    encoded = ["event"] if request.by_column and "event" in there else None
    with pa.parquet.ParquetFile(path, metadata=metadata, read_dictionary=encoded) as file:
        for batch in file.iter_batches(request.batch_size, columns=names):
            yield RawBatch(batch, all_names=there)


def _arrow(path: Path, request: Request) -> Iterator[Raw]:
    """Both Arrow IPC formats, file (Feather) and stream; mapped, so only touched columns are read."""
    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        open_ipc: Callable[..., Any] = pa.ipc.open_file if is_file else pa.ipc.open_stream
        source.seek(0)
        there = open_ipc(source).schema.names
        wanted = [number for number, name in enumerate(there) if name in request.names]
        source.seek(0)
        reader = open_ipc(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for batch in batches:
            yield RawBatch(batch, all_names=there)


def _csv(path: Path, request: Request) -> Iterator[Raw]:
    """All columns are read as text, so that a value that does not fit can be named with its row."""
    there = _csv_header(path)
    names = [name for name in request.names if name in there]
    malformed: deque[tuple[int, Malformed]] = deque()

    def note(row: pa.csv.InvalidRow) -> str:
        reason = f"the line has {row.actual_columns} values, but the header has {row.expected_columns}"
        malformed.append((row.number - 2, Malformed(reason, row.text)))  # line 1 is the header
        return "skip"

    reader = pa.csv.open_csv(
        pa.input_stream(str(path), compression="detect"),
        # Rows have numbers only when one thread parses; reading already has a thread of its own.
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=_TEXT_BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(invalid_row_handler=note, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    row = 0
    with reader:
        for batch in reader:
            for raw in _interleaved(RawBatch(batch, "csv", there), malformed, row):
                row += len(raw)
                yield raw
    if malformed:
        yield RawRows([line for _, line in malformed], "csv")


def _csv_header(path: Path) -> list[str]:
    options = pa.csv.ParseOptions(invalid_row_handler=lambda row: "skip", newlines_in_values=True)
    with pa.csv.open_csv(pa.input_stream(str(path), compression="detect"), parse_options=options) as reader:
        return list(reader.schema.names)


def _interleaved(raw: RawBatch, malformed: deque[tuple[int, Malformed]], row: int) -> Iterator[Raw]:
    """The rows of a batch, whose first is row `row` of the file, with malformed lines in their places."""
    start = 0
    while malformed and malformed[0][0] <= row + len(raw) - start:
        at, line = malformed.popleft()
        if at > row:
            yield raw.slice(start, at - row)
        yield RawRows([line], "csv")
        start, row = start + at - row, at + 1
    if start < len(raw):
        yield raw.slice(start, len(raw) - start)


def _json_lines(path: Path, request: Request) -> Iterator[Raw]:
    schema: pa.Schema | None = None
    with pa.input_stream(str(path), compression="detect") as stream:
        for number, block in enumerate(_line_blocks(stream)):
            if number == 0:
                schema = _json_schema(block, request)
            yield from _json_block(block, schema)


def _line_blocks(stream: pa.NativeFile) -> Iterator[bytes]:
    """The file in blocks of whole lines; blank ones are left out."""
    rest = b""
    while block := stream.read(_TEXT_BLOCK_BYTES):
        lines, newline, tail = block.rpartition(b"\n")
        if not newline:
            rest += block
            continue
        if (whole := rest + lines).strip():
            yield whole
        rest = tail
    if rest.strip():
        yield rest


def _json_block(block: bytes, schema: pa.Schema | None) -> Iterator[Raw]:
    """Arrow's parser takes a block in which every value has its type; any other block is read line by line, which
    tells which value does not fit."""
    if schema is not None:
        try:
            table = pa.json.read_json(
                pa.BufferReader(block),
                read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            yield from (RawBatch(batch, "json") for batch in table.to_batches())
            return
        except pa.ArrowInvalid:
            pass
    yield RawRows([_json_row(line) for line in block.split(b"\n") if line.strip()], "json")


def _json_row(line: bytes) -> dict[str, Any] | Malformed:
    try:
        row = json.loads(line)
    except ValueError as error:
        return Malformed(f"the line is not JSON: {error}", line.decode("utf-8", "replace"))
    if isinstance(row, dict):
        return row
    return Malformed("the line is no JSON object", line.decode("utf-8", "replace"))


def _json_schema(block: bytes, request: Request) -> pa.Schema | None:
    """The types that Arrow's parser shall read; None when event types disagree about a column's type."""
    first = _json_row(block.split(b"\n", 1)[0])
    text_ts = isinstance(first, dict) and isinstance(first.get("ts"), str)
    types: dict[str, pa.DataType] = {"ts": pa.string() if text_ts else pa.int64()}
    if request.by_column:
        types["event"] = pa.string()
    for kind in request.kinds:
        for field in request.fields[kind]:
            if types.setdefault(field.name, _json_type(field.type)) != _json_type(field.type):
                return None
    return pa.schema(list(types.items()))


def _json_type(type: Type) -> pa.DataType:
    """JSON has no bytes and no times: they are strings there."""
    scalar = pa.string() if type.base in ("bytes", "datetime") else Type(type.base).arrow
    return pa.list_(scalar) if type.is_list else scalar


Reader = Callable[[Path, Request], Iterator[Raw]]

_TEXT: dict[str, Reader] = {".csv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json_lines}
_BINARY: dict[str, Reader] = {".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow}
_READERS = {**_BINARY, **_TEXT, **{ending + end: reader for ending, reader in _TEXT.items() for end in _COMPRESSED}}

ENDINGS = (*_BINARY, *_TEXT)


def is_known(path: Path) -> bool:
    return _ending(path) in _READERS


def reader_of(path: Path) -> Reader:
    return _READERS[_ending(path)]


def _ending(path: Path) -> str:
    """The ending that names the format, with that of a compression where there is one."""
    kept = 2 if path.suffix.lower() in _COMPRESSED else 1
    return "".join(path.suffixes[-kept:]).lower()
