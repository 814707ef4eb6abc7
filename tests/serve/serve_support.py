"""A store with every type of key and field, clients, and a server as a process of its own."""

from __future__ import annotations

import datetime
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.schema import Field, TableSchema, Type
from mainstem.store import Store

ENDLESS = "select sum(hash(range)) from range(100000000000000)"  # takes no memory
TOKEN = "test-token-of-32-visible-letters"
ACCOUNT = TableSchema("Account", (Type("int"),), True, (Field("balance", Type("int")), Field("owner", Type("str"))))
VISIT = TableSchema("Visit", (Type("str"), Type("int")), False, (Field("count", Type("int")),))
BLOB = TableSchema("Blob", (Type("bytes"),), True, (Field("data", Type("bytes")), Field("weight", Type("float"))))
MOMENT = TableSchema(
    "Moment",
    (Type("datetime"),),
    True,
    (Field("open", Type("bool")), Field("until", Type("datetime")), Field("pair", Type("float", length=2))),
)
SCHEMAS = (ACCOUNT, VISIT, BLOB, MOMENT)
NOON = datetime.datetime(2026, 1, 31, 12)
ACCOUNTS = 20
TOTAL = 100 * ACCOUNTS


def accounts(rows: dict[int, int], owner: str = "ann") -> pa.Table:
    arrays = [pa.array(rows.keys(), pa.int64()), pa.array(rows.values(), pa.int64()), pa.array([owner] * len(rows))]
    return pa.table(arrays, schema=ACCOUNT.arrow)


def rows_of(schema: TableSchema, *rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.arrow.names, row, strict=True)) for row in rows], schema=schema.arrow)


def make_store(path: Path) -> Path:
    """Three commits: all tables; a transfer; another one. Every version has the same sum of balances."""
    with Store.open(path, SCHEMAS, durability="none") as store:
        store.commit(
            {
                "Account": accounts(dict.fromkeys(range(ACCOUNTS), 100)),
                "Visit": rows_of(VISIT, ("north", 7, 1), ("a/b c%", -1, 2), ("", 0, 3), ("Zürich", 1, 4)),
                "Blob": rows_of(BLOB, (b"\x00\xff/", b"\x01\x02", float("nan")), (b"x", b"", float("-inf"))),
                "Moment": rows_of(MOMENT, (NOON, True, NOON, [0.5, -0.5])),
            },
            {"ts": 10, "seq": 5},
        )
        store.commit({"Account": accounts({0: 90, 1: 110})}, {"ts": 20, "seq": 6})
        store.commit({"Account": accounts({0: 80, 1: 120})}, {"ts": 30, "seq": 7})
    return path


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """What a problem says."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["detail"])

    @property
    def epoch(self) -> int:
        return int(self.headers["mainstem-epoch"])

    @property
    def arrow(self) -> pa.Table:
        assert self.headers["content-type"] == "application/vnd.apache.arrow.stream"
        return pa.ipc.open_stream(self.body).read_all()


class Client:
    """One connection that is kept alive."""

    def __init__(self, url: str, token: str | None = TOKEN, host: str = "127.0.0.1") -> None:
        self.port = int(url.rsplit(":", 1)[1])
        self._connection = http.client.HTTPConnection(host, self.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"} if token is not None else {}

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, content: Any, **headers: str) -> Reply:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.ask("POST", path, body, **headers)

    def sql(self, query: str, params: Any = None, **headers: str) -> Reply:
        return self.post("/v1/sql", {"query": query, "params": params}, **headers)

    def ask(self, method: str, path: str, body: bytes | None, **headers: str) -> Reply:
        """`headers`: `accept`, `last_event_id` and so on."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body, {**self._headers, **more})
        answer = self._connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def process(folder: Path, *options: str, token: str | None = TOKEN) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mainstem serve` as users start it: the process and its URL."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("MAINSTEM_TOKEN", None)
    if token is not None:
        environment["MAINSTEM_TOKEN"] = token
    command = [sys.executable, "-m", "mainstem", "serve", str(folder), "--port", "0", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as started:
        try:
            assert started.stdout is not None
            first = started.stdout.readline()
            found = re.search(r"http://\S+", first)
            assert found, first + (started.stderr.read() if started.stderr else "")
            yield started, found[0]
        finally:
            started.kill()


def fingerprint(folder: Path) -> str:
    """Changes with every name, size, content and time of change of what is in a folder."""
    found = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.stat()
        found.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_size} {status.st_mtime_ns}\n".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()
