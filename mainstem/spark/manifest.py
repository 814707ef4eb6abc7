"""What an interrupted replay knows: a small file that is replaced as a whole after every epoch.

The manifest names the files that count. Whatever else is in the exchange folder belongs to tasks that never ended, or
to epochs that are over.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError, InputError
from mainstem.gate.files import files_of
from mainstem.lang import Program
from mainstem.lang.dataflow import Dataflow
from mainstem.spark.sources import Source
from mainstem.state import digest
from mainstem.store.disk import disk, make_directory, sync_directory

NAME = "manifest.json"
VERSION = 1


@dataclass
class Totals:
    """Counts of the epochs that are committed."""

    events: int = 0
    transactions: int = 0
    aborted: int = 0
    rejected: int = 0
    last_ts: int | None = None
    staged: list[str] = field(default_factory=list)
    rejects_staged: list[str] = field(default_factory=list)


@dataclass
class Manifest:
    """`same` is what must not have changed for a replay to go on: program, log, start, and how it is cut."""

    same: dict[str, Any]
    shards: int
    range_rows: int
    epoch_rows: int
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    overflow: str = "rare"
    done: int = 0  # epochs
    states: dict[str, str] = field(default_factory=dict)  # task -> file name
    spooled: dict[str, str] = field(default_factory=dict)  # input -> file name
    spool_totals: Totals = field(default_factory=Totals)
    totals: Totals = field(default_factory=Totals)

    @property
    def kept(self) -> list[str]:
        """Staged files that belong to the result."""
        return [name for t in (self.spool_totals, self.totals) for name in (*t.staged, *t.rejects_staged)]

    def save(self, folder: Path) -> None:
        """Durable when it returns, and never half written."""
        content = json.dumps(asdict(self), indent=1)
        text = json.dumps({"version": VERSION, "sha256": _sha(content), "content": content})
        path = folder / NAME
        with disk("write", path):
            make_directory(folder)
            hidden = path.with_name(f".{NAME}.{secrets.token_hex(4)}")
            with open(hidden, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(path)
            sync_directory(folder)

    @staticmethod
    def load(folder: Path) -> Manifest | None:
        """None when there is none."""
        path = folder / NAME
        try:
            whole = json.loads(path.read_text())
            content = whole["content"]
            if whole["version"] != VERSION or whole["sha256"] != _sha(content):
                raise ValueError("its checksum does not hold")
            found = json.loads(content)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                f"{path} can't be read: {error}\n  start the replay over with resume=False, which removes it"
            ) from error
        for name in ("spool_totals", "totals"):
            found[name] = Totals(**found[name])
        return Manifest(**found)


def check_same(manifest: Manifest, same: Mapping[str, Any], folder: Path) -> None:
    """An error that names what differs between the interrupted replay and this one."""
    changed = [name for name in same if json.loads(json.dumps(same[name])) != manifest.same.get(name)]
    if changed:
        raise InputError(
            f"{folder} holds an interrupted replay, but {_list(changed)} changed since\n"
            "  pass resume=False to start over, which removes what it has done, or choose other folders"
        )


def _list(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'}"


def identity_of_program(flow: Dataflow) -> str:
    """A hash of everything that decides about the result, and of the stages that the state files belong to."""
    parts: list[Any] = []
    programs = [flow.program, *(stage.program for stage in flow.stages), *(home.program for home in flow.homes)]
    for program in programs:
        parts += [program.source, program.events, program.tables, program.strings, program.outputs, program.reasons]
    parts += [(stage.wave, stage.tables, stage.keyed) for stage in flow.stages]
    parts += [(derive.event, derive.fields, _code_of(derive.function)) for derive in flow.program.derives]
    return _sha("\n".join(map(repr, parts)))


def _code_of(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return type(function).__qualname__ if code is None else code.co_code.hex()


def identity_of_log(sources: Sequence[Source]) -> list[Any]:
    """Files with their sizes and times of change. A DataFrame is known by its columns only."""
    found: list[Any] = []
    for source in sources:
        if source.df is not None:
            found.append([source.event, source.df.schema.simpleString()])
        else:
            stats = [(str(file), file.stat()) for file in files_of(str(source.path))]
            found.append([source.event, [[file, stat.st_size, stat.st_mtime_ns] for file, stat in stats]])
    return found


def identity_of_start(program: Program, tables: Mapping[str, pa.Table] | None, epoch: int | None) -> Any:
    """The store's epoch, or a digest of the tables to start from."""
    if epoch is not None:
        return epoch
    return digest({table.name: tables[table.name] for table in program.tables if tables and table.name in tables})


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
