"""Events of several live inputs that wait for each other: part of every commit, in files of their own.

A commit's meta says how far each input is, and which files hold the rows that wait and how many of them were taken
meanwhile. A micro-batch writes what it leaves waiting to one new file, before its commit, so the rows that wait already
are not written again. Files that a commit no longer names go after it. When the newest files hold no more than the new
one they are joined to it: so there are few files however long an input is silent, and a row is rewritten only as often
as the number of rows doubles.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.gate import EventBatch
from mainstem.gate.live.held import Reached, Sheet, frontier, joined, take, take_all
from mainstem.lang import Program
from mainstem.store.layout import Layout
from mainstem.store.outputs import discard_staged, stage
from mainstem.store.sheets import content_of, mapped, sheet_of, verified, write

CARRIED = "carried"
"""Key of a commit's meta: how far live inputs are, and the files with what waits."""

JOIN_BYTES_MAX = 64 << 20
"""Files above this size are not joined to others: a text column must stay below 2 GiB, and nothing is gained."""


@dataclass
class _File:
    name: str
    check: int  # CRC-32 of its bytes
    size: int
    sheet: Sheet


class Carried:
    """What waits in a store."""

    def __init__(self, path: str | Path, program: Program, reached: Sequence[Reached]) -> None:
        """Of a new run; `load` goes on with what a commit has kept."""
        self.folder, self.program, self.reached = Layout(Path(path)).carried, program, list(reached)
        self._files: list[_File] = []

    @staticmethod
    def load(path: str | Path, program: Program, meta: Mapping[str, Any]) -> Carried:
        """As the commit with this meta has left it. Every file is verified."""
        kept = meta[CARRIED]
        carried = Carried(path, program, [Reached(*told) for told in kept["inputs"]])
        for told in carried_files(meta):
            content = verified(carried.folder, told)
            sheet = sheet_of(content, program, carried.folder / told["name"])
            sheet.taken = {number: told["taken"][number] for number in sheet.chunks}
            carried._files.append(_File(told["name"], told["crc"], told["bytes"], sheet))
        return carried

    @property
    def waiting(self) -> int:
        return sum(file.sheet.left for file in self._files)

    @property
    def meta(self) -> dict[str, Any]:
        """For the next commit."""
        inputs = range(len(self.reached))
        files = [
            {
                "name": file.name, "crc": file.check, "bytes": file.size,
                "rows": [len(file.sheet.chunks.get(number, ())) for number in inputs],
                "taken": [file.sheet.taken.get(number, 0) for number in inputs],
            }
            for file in self._files
        ]  # fmt: skip
        return {CARRIED: {"inputs": [[r.clock, r.by, r.rows] for r in self.reached], "files": files}}

    def step(self, new: Sheet, epoch: int) -> EventBatch | None:
        """Take in new rows for the commit `epoch`; the events that are ready now. The rest is on disk when this
        returns, and counts with the commit."""
        sheets = [*(file.sheet for file in self._files), new]
        first = frontier(self.reached)
        batch = None if first is None else take(sheets, first, len(self.reached), self._kinds)
        self._files = [file for file in self._files if file.sheet.left]
        if new.left:
            self._put_away(new, epoch)
        return batch

    def take_all(self) -> EventBatch | None:
        """All events that wait, in order: nothing more will come."""
        return take_all([file.sheet for file in self._files], len(self.reached), self._kinds)

    @property
    def _kinds(self) -> int:
        return len(self.program.inputs)

    def _put_away(self, new: Sheet, epoch: int) -> None:
        sheets, rows, size = [new], new.left, 0
        while self._files and self._files[-1].sheet.left <= rows and size + self._files[-1].size <= JOIN_BYTES_MAX:
            last = self._files.pop()
            sheets.insert(0, last.sheet)
            rows, size = rows + last.sheet.left, size + last.size
        content = content_of(joined(sheets, len(self.reached), self._kinds), self.program)
        name = stage(self.folder, f"epoch-{epoch:020d}.arrow", lambda path: write(path, content))
        path = self.folder / name
        self._files.append(_File(name, zlib.crc32(content), content.size, sheet_of(mapped(path), self.program, path)))


def waiting(meta: Mapping[str, Any]) -> int:
    """How many events wait, as a commit tells."""
    return sum(sum(told["rows"]) - sum(told["taken"]) for told in carried_files(meta))


def refuse_waiting(path: Path, meta: Mapping[str, Any], what: str) -> None:
    """For runs that don't know what to do with events that wait."""
    count = waiting(meta)
    if count:
        raise StoreError(
            f"{path} holds {count} events of live inputs that wait for other inputs, and {what} would lose them\n"
            "  go on with app.stream and the same inputs, or run them as they are: app.run([], state=…, complete=True)"
        )


def carried_files(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a commit tells about its files: `name`, `crc`, `bytes`, and by input the `rows` in it and those `taken`."""
    return meta[CARRIED]["files"] if CARRIED in meta else []


def carried_contents(folder: Path, meta: Mapping[str, Any]) -> dict[str, pa.Buffer]:
    """The files that a commit names, by name, as they are in `folder`. Those of an earlier commit may be gone: then a
    copy of that version can be asked, and a run on it says what it lacks."""
    named = [told for told in carried_files(meta) if (folder / told["name"]).exists()]
    return {told["name"]: verified(folder, told) for told in named}


def discard_carried(path: str | Path, meta: Mapping[str, Any]) -> None:
    """Remove files that the last commit does not name; when it is durable."""
    discard_staged(Layout(Path(path)).carried, {told["name"] for told in carried_files(meta)})
