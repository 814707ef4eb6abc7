"""Peak memory of this process and of everything it started, read from /proc while the work runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

INTERVAL_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class PeakMemory:
    """`with PeakMemory() as peak: work()`; then `peak.bytes` has the highest sum of resident memory per role.

    Roles: `driver` (this process), `jvm` and `workers` (Python below the JVM). Pages that workers
    share with each other count once per worker. Empty where there is no /proc.
    """

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        if not _PROC.is_dir():
            return
        while True:
            for role, size in resident().items():
                self.bytes[role] = max(size, self.bytes.get(role, 0))
            if self._stop.wait(INTERVAL_S):
                return


def resident() -> dict[str, int]:
    """Resident bytes now, by role, of this process and its descendants."""
    processes = _processes()
    total: dict[str, int] = {}
    for pid, (_, name, pages) in processes.items():
        if _descends(pid, os.getpid(), processes):
            role = "driver" if pid == os.getpid() else "jvm" if name == "java" else "workers"
            total[role] = total.get(role, 0) + pages * _PAGE
    return total


def _processes() -> dict[int, tuple[int, str, int]]:
    """pid -> (parent, command, resident pages)."""
    found = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        # The command is in parentheses and may itself hold spaces and parentheses; 24th field: resident pages.
        name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        found[int(entry.name)] = (int(rest[1]), name, int(rest[21]))
    return found


def _descends(pid: int, ancestor: int, processes: dict[int, tuple[int, str, int]]) -> bool:
    while pid != ancestor:
        if pid not in processes:
            return False
        pid = processes[pid][0]
    return True
