"""Rows that wait, as a file: Arrow columns that are read in place, under a checksum that the commit keeps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.gate.batch import frozen
from mainstem.gate.live.held import Sheet
from mainstem.gate.piece import Chunk, Part
from mainstem.lang import Program
from mainstem.store.disk import store_error
from mainstem.store.frame import REMEDY

_ABOUT = b"mainstem"


def write(path: Path, content: pa.Buffer) -> None:
    path.write_bytes(content)


def mapped(path: Path) -> pa.Buffer:
    """The bytes of a file, in memory only while somebody reads them. They stay when the name goes."""
    try:
        with pa.memory_map(str(path)) as source:
            return source.read_buffer()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise store_error("read", path, error) from error


def verified(folder: Path, told: Mapping[str, Any]) -> pa.Buffer:
    """The bytes of a file as a commit tells of it: its name, its checksum, and its rows."""
    path = folder / told["name"]
    lost = f"lost: {sum(told['rows']) - sum(told['taken'])} events of live inputs that wait for others"
    try:
        content = mapped(path)
    except FileNotFoundError:
        raise CorruptError(f"{path} is missing\n  {lost}\n  {REMEDY}") from None
    if zlib.crc32(content) != told["crc"]:
        raise CorruptError(f"{path} is damaged: its checksum does not hold\n  {lost}\n  {REMEDY}")
    return content


def content_of(sheet: Sheet, program: Program) -> pa.Buffer:
    """An Arrow file of one row in which every column is a list: inputs and event types differ in their rows."""
    columns: dict[str, pa.Array] = {}
    for number, chunk in sheet.chunks.items():
        kind = pa.array([chunk.kind], pa.uint8()) if isinstance(chunk.kind, int) else pa.array(chunk.kind)
        columns |= {f"{number}.ts": pa.array(chunk.ts), f"{number}.kind": kind}
        for part in chunk.parts:
            event = program.inputs[part.kind].name
            columns |= {f"{number}.{event}.{name}": array for name, array in part.arrays.items()}
    cells = [pa.ListArray.from_arrays(pa.array([0, len(a)], pa.int32()), a) for a in columns.values()]
    about = {_ABOUT: json.dumps({"events": [event.name for event in program.inputs]})}
    batch = pa.RecordBatch.from_arrays(cells, names=list(columns)).replace_schema_metadata(about)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def sheet_of(content: pa.Buffer, program: Program, path: Path) -> Sheet:
    """The rows of a file, as the program numbers its event types now."""
    row = pa.ipc.open_file(content).get_batch(0)
    columns = {name: row.column(at).flatten() for at, name in enumerate(row.schema.names)}
    events = json.loads(row.schema.metadata[_ABOUT])["events"]
    numbers = [int(name.removesuffix(".ts")) for name in columns if name.count(".") == 1 and name.endswith(".ts")]
    return Sheet({number: _chunk(columns, number, events, program, path) for number in numbers})


def _chunk(columns: Mapping[str, pa.Array], number: int, events: list[str], program: Program, path: Path) -> Chunk:
    now = {event.name: kind for kind, event in enumerate(program.inputs)}
    ts, stored = frozen(columns[f"{number}.ts"].to_numpy()), columns[f"{number}.kind"].to_numpy()
    parts = []
    for old in np.unique(stored).tolist():
        event = events[old]
        if event not in now:
            raise _foreign(path, f"events {event}, which app {program.name} does not have")
        rows = None if len(stored) == 1 else frozen(np.flatnonzero(stored == old))
        parts.append(Part(now[event], rows, None, _fields(columns, number, event, program, path)))
    if len(parts) == 1:
        return Chunk(ts, parts[0].kind, 0, parts)
    kinds = np.array([now.get(event, 0) for event in events], np.uint8)
    return Chunk(ts, frozen(kinds[stored]), 0, parts)


def _fields(
    columns: Mapping[str, pa.Array], number: int, event: str, program: Program, path: Path
) -> dict[str, pa.Array]:
    found = {}
    for name in program.used_columns[event]:
        if f"{number}.{event}.{name}" not in columns:
            raise _foreign(path, f"events {event} without {name}, which app {program.name} reads now")
        found[name] = columns[f"{number}.{event}.{name}"]
    return found


def _foreign(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} holds {what}\n  run what waits with the app as it was: app.run([], state=…, complete=True)"
    )
