"""Files of events: which files a path means, and reading them one after the other."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate.formats import ENDINGS, is_known, reader_of
from mainstem.gate.prefetch import prefetched
from mainstem.gate.raw import Input, Place, Raw, Request

_KNOWN = ", ".join(ENDINGS)


class FileInput(Input):
    """The files of a path, glob or directory as one input, in the order of their names."""

    def __init__(self, path: str | os.PathLike[str], event: str | None) -> None:
        self.what, self.event = os.fspath(path), event
        self._files = files_of(self.what)

    def read(self, request: Request) -> Iterator[Raw]:
        return prefetched(self._read(request))

    def _read(self, request: Request) -> Iterator[Raw]:
        for file in self._files:
            row = 0
            name = str(file) if len(self._files) > 1 else ""
            try:
                for raw in reader_of(file)(file, request):
                    yield replace(raw, place=Place(name, row))
                    row += len(raw)
            except (pa.ArrowException, OSError) as error:
                raise InputError(
                    f"{file} can't be read, after {row} rows: {error}\n  repair or replace the file, or leave it out"
                ) from error


def files_of(path: str) -> list[Path]:
    """The files that a path, a glob pattern or a directory names, sorted."""
    if os.path.exists(path):
        found = [Path(path)]
    else:
        found = [Path(match) for match in sorted(glob.glob(path, recursive=True))]
    files = [file for entry in found for file in (_inside(entry) if entry.is_dir() else [entry])]
    if not files:
        where = "has no files of events" if found else "does not exist and matches no file"
        raise InputError(f"{path} {where}\n  give a file, a glob pattern or a directory with files of type {_KNOWN}")
    return [_known(file) for file in files]


def _known(file: Path) -> Path:
    if not is_known(file):
        raise InputError(f"{file} has an unknown ending\n  use one of {_KNOWN}")
    return file


def _inside(directory: Path) -> list[Path]:
    """Files of known types below a directory; names that start with `.` or `_` are bookkeeping of other tools."""
    return [
        file
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        and is_known(file)
        and not any(part.startswith((".", "_")) for part in file.relative_to(directory).parts)
    ]
