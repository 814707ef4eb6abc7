"""The transfers on Redis: one call of a cached Lua script per transfer, over a Unix socket.

The client writes commands that were encoded beforehand to plain sockets: next to no time goes into it. Each of its
connections has one command under way, or, pipelined, a hundred or thousands. The server syncs once for all that it has
read from its connections at a time: a few kilobytes of each, so that most commands share a sync where many connections
have many under way.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mainstem.bench.bank_peers import LATER, SYNCED, Config, Peer, Turn
from mainstem.bench.bank_servers import Server, program
from mainstem.bench.bank_workload import Transfers, Workload
from mainstem.errors import MainstemError

INSTALL = "apt-get install redis-server"
PIPELINED = 100  # commands under way on a connection
PIPELINED_MOST = 10_000  # on one: as one batch of Mainstem's has
_SOCKET_SECONDS_MAX = 60.0
_RECEIVE_BYTES = 1 << 16
_LOAD_CHUNK = 10_000  # accounts per command

SCRIPT = b"""
local amount = tonumber(ARGV[1])
if tonumber(redis.call('GET', KEYS[1])) < amount then
  return 0
end
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('INCRBY', KEYS[2], ARGV[1])
return 1
"""
_ANSWER_BYTES = len(b":1\r\n")


class Redis(Server):
    """A server that logs every command (`appendonly`) and makes no snapshots beside it."""

    name = "Redis"

    def __init__(self, fsync: str) -> None:
        self._program = str(program("redis-server", INSTALL))
        super().__init__("redis")
        self.fsync = fsync
        self.socket = self.folder / "socket"

    @property
    def version(self) -> str:
        said = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True).stdout
        return next(word.removeprefix("v=") for word in said.split() if word.startswith("v="))

    def command(self) -> list[str]:
        listen = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--daemonize", "no"]
        # Rewriting the log in the background would cost the measured commands time at a moment of its own choosing.
        log = ["--appendonly", "yes", "--appendfsync", self.fsync, "--save", "", "--auto-aof-rewrite-percentage", "0"]
        return [self._program, *listen, *log]

    def answers(self) -> bool:
        try:
            with Connection(self.socket) as connection:
                return connection.ask("PING") == b"PONG"
        except OSError:
            return False


class Connection:
    """As much of Redis' protocol as the benchmark needs."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(_SOCKET_SECONDS_MAX)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self._reader = self.socket.makefile("rb")

    def ask(self, *words: str | bytes) -> bytes:
        """Sends one command; the text of a simple, an integer or a bulk answer."""
        self.socket.sendall(encoded(*words))
        return self._read_one()

    def ask_many(self, *words: str | bytes) -> list[bytes]:
        """Sends one command whose answer is an array."""
        self.socket.sendall(encoded(*words))
        line = self._line()
        return [self._read_one() for _ in range(int(line[1:]))]

    def _read_one(self) -> bytes:
        line = self._line()
        return self._reader.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line[1:]

    def _line(self) -> bytes:
        line = self._reader.readline().rstrip(b"\r\n")
        if line[:1] in (b"-", b""):
            raise MainstemError(f"Redis answered {line[1:].decode() or 'nothing'}")
        return line

    def answered(self, answers: int) -> None:
        """Waits for so many answers of the script, which are all of one length."""
        left = answers * _ANSWER_BYTES
        while left:
            received = self.socket.recv(min(left, _RECEIVE_BYTES))
            if received[:1] in (b"-", b""):
                raise MainstemError(f"Redis answered {received.decode(errors='replace') or 'nothing'}")
            left -= len(received)

    def close(self) -> None:
        self._reader.close()
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encoded(*words: str | bytes) -> bytes:
    """One command in Redis' protocol."""
    content = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(content) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in content)


@dataclass(frozen=True)
class RedisPeer:
    """One configuration: connections, and commands under way on each of them."""

    server: Redis
    workload: Workload
    connections: int
    pipelined: int

    @property
    def config(self) -> Config:
        clients = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        way = f"Lua script, {clients}" + (f", {self.pipelined} commands pipelined" if self.pipelined > 1 else "")
        durable = SYNCED if self.server.fsync == "always" else LATER
        return Config("Redis", way, f"appendfsync={self.server.fsync}", durable)

    @property
    def step(self) -> int:
        return self.connections * self.pipelined

    def reset(self) -> None:
        start = self.workload.start().tolist()
        with Connection(self.server.socket) as connection:
            connection.ask("FLUSHALL")
            for at in range(0, len(start), _LOAD_CHUNK):
                rows = enumerate(start[at : at + _LOAD_CHUNK], start=at)
                connection.ask("MSET", *(word for key, balance in rows for word in (str(key), str(balance))))

    def run(self, first: int, count: int) -> Turn:
        with ExitStack() as stack:
            connections = [stack.enter_context(Connection(self.server.socket)) for _ in range(self.connections)]
            commands = self._commands(connections[0], self.workload.transfers(count, first))
            started = time.perf_counter()
            for at in range(0, len(commands), self.connections):
                for connection, command in zip(connections, commands[at : at + self.connections], strict=True):
                    connection.socket.sendall(command)
                for connection in connections:
                    connection.answered(self.pipelined)
            seconds = time.perf_counter() - started
        return Turn(seconds, seconds / len(commands) * self.connections)

    def _commands(self, connection: Connection, transfers: Transfers) -> list[bytes]:
        """What is sent at once: one command, or as many as are pipelined."""
        sha = connection.ask("SCRIPT", "LOAD", SCRIPT)
        rows = zip(transfers.src.tolist(), transfers.dst.tolist(), transfers.amount.tolist(), strict=True)
        single = [encoded("EVALSHA", sha, b"2", b"%d" % src, b"%d" % dst, b"%d" % amount) for src, dst, amount in rows]
        return [b"".join(single[at : at + self.pipelined]) for at in range(0, len(single), self.pipelined)]

    def balances(self) -> np.ndarray:
        keys = [str(key) for key in range(self.workload.accounts)]
        with Connection(self.server.socket) as connection:
            found = [
                balance
                for at in range(0, len(keys), _LOAD_CHUNK)
                for balance in connection.ask_many("MGET", *keys[at : at + _LOAD_CHUNK])
            ]
        return np.array(found, np.int64)


@contextmanager
def redis_peers(workload: Workload, connections: Sequence[int]) -> Iterator[tuple[str, list[Peer]]]:
    """The version, and every configuration; on servers that run as long as the block."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Redis(fsync)) for fsync in ("always", "everysec")]
        peers: list[Peer] = []
        for server in servers:
            peers += [RedisPeer(server, workload, number, 1) for number in connections]
            peers += [RedisPeer(server, workload, number, PIPELINED) for number in sorted({1, max(connections)})]
            peers.append(RedisPeer(server, workload, 1, PIPELINED_MOST))
        yield servers[0].version, peers
