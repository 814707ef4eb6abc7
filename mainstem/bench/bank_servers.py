"""Database servers that a benchmark starts for itself, in a folder of its own, and takes down again.

They listen on a Unix socket in that folder only. Some refuse to run as root: then they run as a user without rights.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mainstem.errors import MainstemError

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.05
_LOG_TAIL = 2_000  # characters of a server's log that an error shows


class NotInstalled(MainstemError):
    """A program of a contender is missing; the message says what to install."""


@contextmanager
def ended_in_order() -> Iterator[None]:
    """A SIGTERM ends the block as an error would, so that servers are taken down. For the main thread."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def program(name: str, install: str, folders: Sequence[Path] = ()) -> Path:
    """Where a program is: on the path, or in the first of `folders` that has it."""
    for found in (shutil.which(name), *(shutil.which(name, path=str(folder)) for folder in folders)):
        if found is not None:
            return Path(found)
    raise NotInstalled(f"{name} is not installed\n  {install}")


class Server(ABC):
    """A server process with a folder; a subclass says how it is started and when it answers."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self, account: str) -> None:
        """`account`: who runs it when this process belongs to root."""
        # Unix sockets have short names (108 bytes), so the folder is not below a long one.
        self.folder = Path(tempfile.mkdtemp(prefix="mainstem-bank-", dir="/tmp"))
        self._identity = _identity(account)
        self._process: subprocess.Popen[bytes] | None = None
        if self._identity:
            os.chown(self.folder, self._identity["user"], self._identity["group"])

    def prepare(self) -> None:  # noqa: B027  most need nothing
        """What comes before the first start."""

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it takes commands already."""

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._identity
            )
        self._wait(self.answers)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def as_server_user(self, command: Sequence[str]) -> None:
        """Runs a command to its end as the user of the server."""
        done = subprocess.run(list(command), cwd=self.folder, capture_output=True, text=True, **self._identity)
        if done.returncode:
            raise MainstemError(f"{command[0]} failed\n{done.stdout}{done.stderr}")

    def _wait(self, ready: Callable[[], bool]) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")[-_LOG_TAIL:]
                raise MainstemError(f"{self.name} did not start\n{log}")
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _identity(account: str) -> dict[str, Any]:
    """Arguments of `subprocess` that give up root's rights; none for everybody else."""
    if os.geteuid() != 0:
        return {}
    known = [entry for name in (account, "nobody") if (entry := _entry(name)) is not None]
    if not known:
        raise MainstemError(f"no user {account!r} or 'nobody' to run a server as\n  run the benchmark without root")
    return {"user": known[0].pw_uid, "group": known[0].pw_gid, "extra_groups": []}


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
