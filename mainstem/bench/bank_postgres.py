"""The transfers on PostgreSQL: one call of a prepared function per transfer, from pgbench, over a Unix socket.

pgbench is PostgreSQL's own client in C and makes the transfers itself, so no time goes into a driver. All settings are
the defaults; only `synchronous_commit` is changed where a row says so.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mainstem.bench.bank_peers import LATER, SYNCED, Config, Peer, Turn
from mainstem.bench.bank_servers import Server, program
from mainstem.bench.bank_workload import (
    ABORT_STEPS,
    AMOUNT_MAX,
    HOPELESS_AMOUNT,
    START_BALANCE,
    START_SPREAD,
    Workload,
)
from mainstem.errors import MainstemError

INSTALL = "apt-get install postgresql"

# Whoever has the smaller number is locked first, so that two transfers never wait for each other in a circle.
SCHEMA = """
CREATE TABLE account (key bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE transfers (number bigint PRIMARY KEY, src bigint, dst bigint, amount bigint);
CREATE FUNCTION transfer(src bigint, dst bigint, amount bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF dst < src THEN
    PERFORM 1 FROM account WHERE key = dst FOR UPDATE;
  END IF;
  UPDATE account SET balance = balance - amount WHERE key = src AND balance >= amount;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE account SET balance = balance + amount WHERE key = dst;
  RETURN true;
END $$;
"""

# Variables live as long as the connection: `n` counts the transfers of all connections together.
SCRIPT = f"""
\\set n :n + :connections
\\set i :n + :client_id
\\set src abs(hash_murmur2(:i, :seed_src)) % :accounts
\\set dst (:src + 1 + abs(hash_murmur2(:i, :seed_dst)) % (:accounts - 1)) % :accounts
\\set small 1 + abs(hash_murmur2(:i, :seed_amount)) % {AMOUNT_MAX}
\\set fate abs(hash_murmur2(:i, :seed_fate)) % {ABORT_STEPS}
\\set amount case when :fate < :abort then {HOPELESS_AMOUNT} else :small end
SELECT transfer(:src, :dst, :amount);
"""


class Postgres(Server):
    """A fresh cluster. It has one user, `bank`, who needs no password: only its owner can reach the socket."""

    name = "PostgreSQL"
    stop_signal = signal.SIGINT  # "fast": ends sessions, writes a checkpoint

    def __init__(self) -> None:
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
        names = ("postgres", "initdb", "psql", "pgbench", "pg_isready")
        self._programs = {name: str(program(name, INSTALL, folders)) for name in names}
        super().__init__("postgres")
        self.script = self.folder / "transfer.sql"

    @property
    def version(self) -> str:
        return self.psql("SHOW server_version").split()[0]

    def prepare(self) -> None:
        initdb = [self._programs["initdb"], "-D", "data", "-U", "bank", "-A", "trust", "--locale=C", "-E", "UTF8"]
        self.as_server_user(initdb)
        self.script.write_text(SCRIPT)

    def command(self) -> list[str]:
        return [self._programs["postgres"], "-D", "data", "-k", str(self.folder), "-c", "listen_addresses="]

    def answers(self) -> bool:
        return subprocess.run([*self._client("pg_isready"), "-q"], capture_output=True).returncode == 0

    def psql(self, sql: str, given: bytes = b"") -> str:
        """Runs statements, each on its own; `given` is read by `\\copy … from pstdin`."""
        command = [*self._client("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        lines = [part for line in sql.strip().split("\n") for part in ("-c", line)] if given else ["-c", sql]
        return _output(subprocess.run([*command, *lines], input=given, capture_output=True))

    def pgbench(self, connections: int, each: int, variables: dict[str, int], synchronous: bool) -> str:
        defined = [part for name, value in variables.items() for part in ("-D", f"{name}={value}")]
        threads = min(connections, os.cpu_count() or 1)
        counts = ["-c", str(connections), "-j", str(threads), "-t", str(each)]
        options = f"-c synchronous_commit={'on' if synchronous else 'off'}"
        command = [*self._client("pgbench"), "-n", "-M", "prepared", *counts, *defined, "-f", str(self.script)]
        return _output(subprocess.run(command, capture_output=True, env={**os.environ, "PGOPTIONS": options}))

    def _client(self, name: str) -> list[str]:
        return [self._programs[name], "-h", str(self.folder), "-U", "bank", "-d", "postgres"]


class PostgresPeer:
    """One configuration: connections and durability."""

    def __init__(self, server: Postgres, workload: Workload, connections: int, synchronous: bool) -> None:
        clients = "1 connection" if connections == 1 else f"{connections} connections"
        setting = f"synchronous_commit={'on' if synchronous else 'off'}"
        durable = SYNCED if synchronous else LATER
        self.config = Config("PostgreSQL", f"prepared function, {clients}", setting, durable)
        self.step = connections
        self._server, self._workload, self._synchronous = server, workload, synchronous

    def reset(self) -> None:
        _reset(self._server, self._workload.accounts)

    def run(self, first: int, count: int) -> Turn:
        workload, connections = self._workload, self.step
        seeds = {f"seed_{name}": workload.hash_seed(i) for i, name in enumerate(("src", "dst", "amount", "fate"))}
        variables = {"connections": connections, "n": first - connections, "accounts": workload.accounts}
        variables |= {"abort": workload.abort_steps, **seeds}
        said = self._server.pgbench(connections, count // connections, variables, self._synchronous)
        done, failed = _number(r"actually processed: (\d+)", said), _number(r"failed transactions: (\d+)", said)
        if done != count or failed:
            raise MainstemError(f"pgbench ran {done:,.0f} of {count:,} transfers, and {failed:,.0f} failed\n{said}")
        rate = _number(r"tps = ([\d.]+) \(without", said)
        return Turn(count / rate, _number(r"latency average = ([\d.]+) ms", said) / 1e3)

    def balances(self) -> np.ndarray:
        return _balances(self._server)


class PostgresAtOnce:
    """All transfers in one transaction, inside the server: what the function costs without clients and commits."""

    config = Config("PostgreSQL", "all in one transaction, in the server", "upper bound", SYNCED, upper_bound=True)
    step = 1

    def __init__(self, server: Postgres, workload: Workload) -> None:
        self._server, self._workload = server, workload

    def reset(self) -> None:
        _reset(self._server, self._workload.accounts)

    def run(self, first: int, count: int) -> Turn:
        transfers = self._workload.transfers(count, first)
        numbers = range(first, first + count)
        rows = zip(numbers, transfers.src.tolist(), transfers.dst.tolist(), transfers.amount.tolist(), strict=True)
        given = "".join(f"{n}\t{src}\t{dst}\t{amount}\n" for n, src, dst, amount in rows).encode()
        said = self._server.psql(
            "TRUNCATE transfers\n\\copy transfers from pstdin\nANALYZE transfers\n\\timing on\n"
            "SELECT count(*) FROM (SELECT transfer(src, dst, amount) FROM transfers ORDER BY number) AS made",
            given,
        )
        return Turn(_number(r"Time: ([\d.]+) ms", said) / 1e3, None)

    def balances(self) -> np.ndarray:
        return _balances(self._server)


@contextmanager
def postgres_peers(workload: Workload, connections: Sequence[int]) -> Iterator[tuple[str, list[Peer]]]:
    """The version, and every configuration; on one server, which runs as long as the block."""
    with Postgres() as server:
        server.psql(SCHEMA)
        peers: list[Peer] = [
            PostgresPeer(server, workload, number, synchronous)
            for synchronous in (True, False)
            for number in connections
        ]
        yield server.version, [*peers, PostgresAtOnce(server, workload)]


def _reset(server: Postgres, accounts: int) -> None:
    """The start balances, in a table without dead rows."""
    balance = f"{START_BALANCE} + 7 * key % {START_SPREAD}"
    server.psql(
        f"TRUNCATE account; INSERT INTO account SELECT key, {balance} FROM generate_series(0, {accounts - 1}) AS key"
    )
    server.psql("VACUUM ANALYZE account")
    server.psql("CHECKPOINT")


def _balances(server: Postgres) -> np.ndarray:
    return np.array(server.psql("SELECT balance FROM account ORDER BY key").split(), np.int64)


def _output(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode:
        raise MainstemError(f"{Path(done.args[0]).name} failed\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise MainstemError(f"PostgreSQL's answer has no {pattern!r}\n{text}")
    return float(found.group(1))
