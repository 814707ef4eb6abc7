"""Output files that appear exactly when their commit is durable.

1. `stage_all`: the files are written and synced under hidden names.
2. The commit's meta names them (`pending`). From here on they belong to the result.
3. `publish_all`: they get their final names. After a crash between 2 and 3, `publish_pending` does it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem.errors import InputError, StoreError
from mainstem.store import crash
from mainstem.store.disk import disk, make_directory, remove, sync_directory
from mainstem.store.lock import FolderLock

META_KEY, REJECTS_KEY, EMITTED_KEY = "outputs", "rejects", "emitted"
_STAGED = re.compile(r"\.(.+)\.[0-9a-f]{16}\.staged")


@dataclass(frozen=True)
class Output:
    """A file that appears with its commit. `write` fills it under the hidden name, maybe in another thread."""

    directory: Path
    staged: str
    write: Callable[[Path], None]
    size: int  # bytes in memory, about

    @staticmethod
    def named(directory: str | Path, name: str, write: Callable[[Path], None], size: int = 0) -> Output:
        """A file that will be called `name`, a plain file name."""
        if name in ("", ".", "..") or Path(name).name != name:
            raise StoreError(f"{name!r} can't be the name of an output file\n  use a plain file name without folders")
        return Output(Path(directory), f".{name}.{secrets.token_hex(8)}.staged", write, size)


def stage_all(outputs: Sequence[Output], *, durable: bool = True) -> None:
    """Fill the files under their hidden names; on disk when this returns, unless that is not asked for."""
    for output in outputs:
        with disk("write", output.directory / _final_name(output.staged)):
            make_directory(output.directory)
            crash.reach("output.stage.start")
            _fill(output)
            crash.reach("output.stage.written")
            if durable:
                _sync(output.directory / output.staged)
            crash.reach("output.stage.synced")
    if durable:
        _sync_directories(output.directory for output in outputs)


def stage(directory: str | Path, name: str, write: Callable[[Path], None]) -> str:
    """Have `write` fill a hidden file beside its final place and sync it; the hidden name."""
    output = Output.named(directory, name, write)
    stage_all([output])
    return output.staged


def pending(directory: str | Path, staged: Iterable[str], key: str = META_KEY) -> dict[str, Any]:
    """The part of a commit's meta that names staged files: `meta={"batch": 7, **pending(directory, [staged])}`."""
    return {key: {"directory": str(Path(directory).absolute()), "staged": list(staged)}}


def publish_all(files: Iterable[tuple[Path, str]], *, durable: bool = True) -> list[Path]:
    """Give staged files (directory, hidden name) their final names; the names. Done before: nothing happens."""
    finals, changed = [], []
    for folder, staged in files:
        final = folder / _final_name(staged)
        finals.append(final)
        with disk("publish", final):
            crash.reach("output.publish.start")
            try:
                (folder / staged).rename(final)
            except FileNotFoundError:
                # It was synced before its commit, so only a publish can have taken it away; who reads outputs may have
                # moved the final file since.
                continue
            crash.reach("output.publish.renamed")
        changed.append(folder)
    if durable:
        _sync_directories(changed)
    return finals


def publish(directory: str | Path, staged: str) -> Path:
    """Give one staged file its final name."""
    return publish_all([(Path(directory), staged)])[0]


def publish_pending(meta: Mapping[str, Any]) -> list[Path]:
    """Publish what a commit names and a crash may have left hidden; the final names of outputs."""
    publish_all(_named(meta, REJECTS_KEY))
    return publish_all(_named(meta, META_KEY))


def hold_folder(directory: Path, store: Path | None = None, meta: Mapping[str, Any] | None = None) -> FolderLock:
    """Make a folder for the outputs of one run, and keep other runs away until the lock is released.

    Refuses one with outputs, unless they are of the state that goes on: the last commit of the `store`, its `meta`,
    names the folder, or it lies within. Of two runs in one folder one would overwrite the files of the other.
    """
    with disk("write", directory):
        make_directory(directory)
        lock = FolderLock(directory)
    folder, named = directory.absolute(), (meta or {}).get(META_KEY, {}).get("directory")
    ours = named == str(folder) or (store is not None and folder.is_relative_to(store.absolute()))
    if not ours and any(directory.glob("part-*.parquet")):
        lock.release()
        last = "" if store is None else f": the last commit of {store} put its outputs into {named or 'no folder'}"
        raise InputError(
            f"out={str(directory)!r} holds outputs of another run{last}\n  choose an empty folder, or remove its files"
        )
    return lock


def discard_staged(directory: str | Path, keep: Collection[str] = ()) -> None:
    """Remove hidden files of batches that never committed. Publish what is pending first.

    `keep`: those that a run which has not ended yet will still commit.
    """
    for entry in Path(directory).glob(".*.staged"):
        if _STAGED.fullmatch(entry.name) and entry.name not in keep:
            remove(entry)


def named_files(meta: Mapping[str, Any]) -> list[Path]:
    """Files of outputs and rejects that a commit names and that are there, under the final or the hidden name."""
    named = [*_named(meta, REJECTS_KEY), *_named(meta, META_KEY)]
    places = [(folder / _final_name(staged), folder / staged) for folder, staged in named]
    return [path for pair in places if (path := next((p for p in pair if p.is_file()), None)) is not None]


def _fill(output: Output) -> None:
    target = output.directory / output.staged
    try:
        output.write(target)
    except Exception:  # not a crash: that leaves the file for the next start to remove
        remove(target)
        raise


def _named(meta: Mapping[str, Any], key: str) -> list[tuple[Path, str]]:
    named = meta.get(key, {"directory": "", "staged": []})
    return [(Path(named["directory"]), staged) for staged in named["staged"]]


def _final_name(staged: str) -> str:
    match = _STAGED.fullmatch(staged)
    if match is None:
        raise StoreError(f"{staged!r} is not the name of a staged file\n  give what `stage` returned")
    return match[1]


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directories(folders: Iterable[Path]) -> None:
    for folder in dict.fromkeys(folders):
        with disk("sync", folder):
            sync_directory(folder)
