"""Output files that appear exactly when their commit is durable.

1. `stage`: the file is written and synced under a hidden name.
2. The commit's meta names it (`pending`). From here on it belongs to the result.
3. `publish`: it gets its final name. After a crash between 2 and 3, `publish_pending` does it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mainstem.errors import StoreError
from mainstem.store import crash
from mainstem.store.disk import disk, make_directory, remove, sync_directory

META_KEY, REJECTS_KEY = "outputs", "rejects"
_STAGED = re.compile(r"\.(.+)\.[0-9a-f]{16}\.staged")


def stage(directory: str | Path, name: str, write: Callable[[Path], None]) -> str:
    """Have `write` fill a hidden file beside its final place and sync it; the hidden name."""
    folder = Path(directory)
    if name in ("", ".", "..") or Path(name).name != name:
        raise StoreError(f"{name!r} can't be the name of an output file\n  use a plain file name without folders")
    staged = f".{name}.{secrets.token_hex(8)}.staged"
    with disk("write", folder / name):
        make_directory(folder)
        crash.reach("output.stage.start")
        try:
            write(folder / staged)
        except BaseException:
            remove(folder / staged)
            raise
        crash.reach("output.stage.written")
        fd = os.open(folder / staged, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(folder)
    crash.reach("output.stage.synced")
    return staged


def pending(directory: str | Path, staged: Iterable[str], key: str = META_KEY) -> dict[str, Any]:
    """The part of a commit's meta that names staged files: `meta={"batch": 7, **pending(directory, [staged])}`."""
    return {key: {"directory": str(Path(directory).absolute()), "staged": list(staged)}}


def publish(directory: str | Path, staged: str) -> Path:
    """Give a staged file its final name. Done before: nothing happens."""
    folder = Path(directory)
    match = _STAGED.fullmatch(staged)
    if match is None:
        raise StoreError(f"{staged!r} is not the name of a staged file\n  give what `stage` returned")
    final = folder / match[1]
    with disk("publish", final):
        crash.reach("output.publish.start")
        try:
            (folder / staged).rename(final)
        except FileNotFoundError:
            # It was synced before its commit, so only a publish can have taken it away; who reads outputs may have
            # moved the final file since.
            return final
        crash.reach("output.publish.renamed")
        sync_directory(folder)
    return final


def publish_pending(meta: Mapping[str, Any]) -> list[Path]:
    """Publish what the last commit names and a crash may have left hidden; the final names of outputs."""
    published = {}
    for key in (REJECTS_KEY, META_KEY):
        named = meta.get(key, {"directory": "", "staged": []})
        published[key] = [publish(named["directory"], staged) for staged in named["staged"]]
    return published[META_KEY]


def discard_staged(directory: str | Path, keep: Collection[str] = ()) -> None:
    """Remove hidden files of batches that never committed. Call `publish_pending` first.

    `keep`: those that a run which has not ended yet will still commit.
    """
    for entry in Path(directory).glob(".*.staged"):
        if _STAGED.fullmatch(entry.name) and entry.name not in keep:
            remove(entry)
