"""The server: a socket, its connections, a clock, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import secrets
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import uvloop

from mainstem.errors import InputError
from mainstem.serve.connection import Connection
from mainstem.serve.limits import Limits
from mainstem.serve.service import Service

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642
_TOKEN_LENGTH_MIN = 16  # where others than this machine's users can try
_GRACE_SECONDS = 3.0  # for answers in progress when the server is asked to end
_TICK_SECONDS = 1.0
# Threads that run queries share Python's lock with the event loop, which asks for it after so long. Python's own 5 ms
# would be the latency of single rows beside a large answer.
_SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class Running:
    """A server that runs: where it is, and what opens it."""

    url: str
    token: str


def serve(
    path: str | Path,
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    token: str | None = None,
    limits: Limits | None = None,
    log: Callable[[str], None] | None = None,
    ready: Callable[[Running], None] | None = None,
) -> None:
    """Answer queries on a store's directory until SIGINT or SIGTERM; `ready` is told where, once it listens.

    Without a token one is made up. Port 0 is any free one. `log` gets a line per request.
    """
    server = Server(Path(path), host=host, port=port, token=token, limits=limits, log=log)
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(server.run(ready or (lambda running: None), signals=True))
    finally:
        sys.setswitchinterval(before)


@contextmanager
def serving(
    path: str | Path, *, port: int = 0, token: str | None = None, limits: Limits | None = None
) -> Iterator[Running]:
    """The same on a thread of this process, on this machine only, for the length of a `with` block."""
    server = Server(Path(path), host=DEFAULT_HOST, port=port, token=token, limits=limits)
    started = threading.Event()
    found: list[Running | BaseException] = []

    def note(outcome: Running | BaseException) -> None:
        found.append(outcome)
        started.set()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(server.run(note, signals=False))
        except BaseException as error:
            note(error)

    thread = threading.Thread(target=run, name="mainstem-serve")
    thread.start()
    started.wait()
    try:
        if isinstance(found[0], BaseException):
            raise found[0]
        yield found[0]
    finally:
        server.stop()
        thread.join()


class Server:
    """What all connections share (`Office` of connection.py)."""

    def __init__(
        self,
        path: Path,
        *,
        host: str,
        port: int,
        token: str | None,
        limits: Limits | None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.log, self.host, self.port = log, host, port
        self.token = _checked_token(host, token)
        self.date = b""
        self._path = path
        self._connections: set[Connection] = set()
        self._stopped: asyncio.Event | None = None
        self._ticking: asyncio.TimerHandle | None = None

    async def run(self, ready: Callable[[Running], None], *, signals: bool) -> None:
        """Listen until `stop`; errors of the directory or the port are raised before `ready` is called."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self.service = Service(self._path, self.token, self.limits, self.failed)
        try:
            listener = await self._listen()
            url = _url(self.host, listener.sockets[0].getsockname()[1])
            self.service.listens_at(url)
            self._tick()
            with _signals(self._loop, self.stop) if signals else _no_signals():
                ready(Running(url, self.token))
                await self._stopped.wait()
            listener.close()
            await self._finish()
        finally:
            if self._ticking is not None:
                self._ticking.cancel()
            self.service.close()

    def stop(self) -> None:
        """Ask the server to end; from any thread."""
        if self._stopped is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopped.set)

    def entered(self, connection: Connection) -> bool:
        self._connections.add(connection)
        return len(self._connections) <= self.limits.connections

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def failed(self, error: Exception) -> None:
        traceback.print_exception(error, file=sys.stderr)

    async def _listen(self) -> asyncio.Server:
        try:
            return await self._loop.create_server(
                lambda: Connection(self, self._loop), self.host, self.port, backlog=self.limits.connections
            )
        except OSError as error:
            raise InputError(_cannot_listen(self.host, self.port, error)) from error

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(_TICK_SECONDS, self._tick)  # first: whatever fails below, it goes on
        self.date = formatdate(usegmt=True).encode()
        self.service.look()
        now = self._loop.time()
        for connection in tuple(self._connections):
            connection.look_at_the_clock(now)

    async def _finish(self) -> None:
        """Let answers in progress end, for a short time."""
        self.service.stop()
        for connection in tuple(self._connections):
            connection.shut_down()
        deadline = self._loop.time() + _GRACE_SECONDS
        while self._connections and self._loop.time() < deadline:
            await asyncio.sleep(0.02)
        for connection in tuple(self._connections):
            connection.abort()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked_token(host: str, token: str | None) -> str:
    _check_known(host)
    if token is None:
        if not is_loopback(host):
            raise InputError(
                f"{host} can be reached from other machines: choose a token yourself\n"
                "  set MAINSTEM_TOKEN (or --token), e.g. to the output of: openssl rand -hex 24"
            )
        return secrets.token_urlsafe(24)
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise InputError("a token is one or more visible ASCII characters without spaces")
    if len(token) < _TOKEN_LENGTH_MIN and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines: a token has at least {_TOKEN_LENGTH_MIN} characters there"
        )
    return token


def _check_known(host: str) -> None:
    """Before anything is said about who can reach it: a name that was misspelt nobody can."""
    try:
        socket.getaddrinfo(host or None, 0)
    except OSError as error:
        raise InputError(
            f"{host} is not known here: {error.strerror or error}\n  give an address of this machine with --host"
        ) from error


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use\n  choose another with --port, or 0 for any free one"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} is not allowed for this user\n  choose one above 1023 with --port"
    why = error.strerror or error
    return f"can't listen on {host}, port {port}: {why}\n  give an address of this machine with --host"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def _no_signals() -> Iterator[None]:
    yield
