"""Queries beside a writer (figure 11): in process, and over HTTP from one client that keeps its connection."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import mainstem as ms
from mainstem.bench import bank_paper as paper
from mainstem.bench.bank_durable import scratch
from mainstem.bench.bank_figures import Chart, Measured, Results
from mainstem.bench.bank_scenario import Meter
from mainstem.bench.bank_workload import Workload, digest_of
from mainstem.bench.report import Target
from mainstem.errors import MainstemError
from mainstem.query import Database

Progress = Callable[[str], None]

UPDATES_RATE, UPDATES_PER_COMMIT = 1_000, 10
HTTP_TARGET = 5_000
IN_PROCESS, OVER_HTTP = "in process", "over HTTP, one connection"
_PREPARED = 4_096  # queries made beforehand, asked over and over
_RECEIVE_BYTES = 1 << 16
_CLOCK_EVERY = 16  # queries between two looks at the clock


def queries(results: Results, meter: Meter, progress: Progress) -> None:
    options = results.options
    title = f"Queries beside {UPDATES_RATE:,} transfers/s, each synced before it is visible"
    chart = Chart("queries", title, "keys per query", paper.QUERIES, unit="queries/s")
    results.charts.append(chart)
    workload = Workload(options.accounts, seed=options.seed)
    seconds = options.seconds * options.repeats
    with scratch() as folder, _writer(folder / "bank", workload, results, meter) as path:
        with ms.open(path) as db:
            for selected in options.selected:
                chart.add(IN_PROCESS, selected, _in_process(db, workload, selected, seconds, meter))
            progress("queries: in process done")
        with _server(path) as (url, token):
            chart.add(OVER_HTTP, 1, _over_http(url, token, workload, seconds))
            progress("queries: over HTTP done")
    for line, bound in ((IN_PROCESS, paper.QUERY_ONE_KEY), (OVER_HTTP, HTTP_TARGET)):
        results.targets.append(Target(f"queries/s of one key, {line}", chart.lines[line][1].rate, bound))


def _in_process(db: Database, workload: Workload, selected: int, seconds: float, meter: Meter) -> Measured:
    random = np.random.default_rng(workload.seed)
    asked = random.integers(0, workload.accounts, (_PREPARED, selected)).tolist()
    if selected == 1:
        measured = _asked([partial(db.get, "Account", key) for (key,) in asked], seconds)
    else:
        measured = _asked([partial(db.get_many, "Account", keys) for keys in asked], seconds)
    total, expected = int(db.sql("select sum(balance) from Account")[0][0].as_py()), int(workload.start().sum())
    if total != expected:
        meter.wrong.append(f"a query beside transfers found {total:,} in all accounts, not {expected:,}")
    return measured


def _asked(questions: list[Callable[[], object]], seconds: float) -> Measured:
    """Questions per second of one thread, and the median seconds of one, by the clock around a few of them."""
    done, taken = 0, []
    started = last = time.perf_counter()
    while last - started < seconds:
        for question in questions[done % _PREPARED : done % _PREPARED + _CLOCK_EVERY]:
            if not question():
                raise MainstemError("a query found no row")
        done += _CLOCK_EVERY
        now = time.perf_counter()
        taken.append((now - last) / _CLOCK_EVERY)
        last = now
    return Measured(done / (last - started), float(np.median(taken)))


def _over_http(url: str, token: str, workload: Workload, seconds: float) -> Measured:
    """A client that writes requests which were encoded beforehand: next to no time goes into it."""
    address = urlsplit(url)
    keys = np.random.default_rng(workload.seed).integers(0, workload.accounts, _PREPARED).tolist()
    head = f"HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\r\n"
    requests = [f"GET /v1/tables/Account/rows/{key} {head}".encode() for key in keys]
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _asked([partial(_row, connection, request) for request in requests], seconds)


def _row(connection: socket.socket, request: bytes) -> bytes:
    """The body of an answer that must be a row."""
    connection.sendall(request)
    received = _more(connection)
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, body = received.split(b"\r\n\r\n", 1)
    lines = head.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < length:
        body += _more(connection)
    if b" 200 " not in lines[0] or b'"balance"' not in body:
        raise MainstemError(f"the server answered {received.decode(errors='replace')}")
    return body


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(_RECEIVE_BYTES)
    if not received:
        raise MainstemError("the server closed the connection")
    return received


@contextmanager
def _writer(path: Path, workload: Workload, results: Results, meter: Meter) -> Iterator[Path]:
    """A directory that another process writes to meanwhile; how steadily it did is noted at the end."""
    arguments = [str(path), str(workload.accounts), str(workload.seed), str(UPDATES_RATE), str(UPDATES_PER_COMMIT)]
    with _process([sys.executable, "-m", "mainstem.bench.bank_writer", *arguments]) as process:
        _line(process)
        yield path
        assert process.stdin is not None
        process.stdin.close()
        ended = json.loads(_line(process))
    rate = (ended["transfers"] - UPDATES_PER_COMMIT) / ended["seconds"]
    results.notes.append(f"Beside the queries the writer ran {rate:,.0f} transfers/s.")
    with ms.open(path) as db:
        found = digest_of(db.table("Account")["balance"].to_numpy())
    if found != digest_of(workload.balances_after(ended["transfers"])):
        meter.wrong.append(f"the writer beside queries ended in {found}")


@contextmanager
def _server(path: Path) -> Iterator[tuple[str, str]]:
    """`mainstem serve`: its address and its token."""
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "mainstem", "serve", str(path), "--port", "0"]
    with _process(command, MAINSTEM_TOKEN=token) as process:
        line = _line(process)
        yield next(word for word in line.split() if word.startswith("http://")), token


@contextmanager
def _process(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    pipe, given = subprocess.PIPE, {**os.environ, **environment}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=given) as process:
        try:
            yield process
        finally:
            process.terminate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise MainstemError(f"{process.args!r} ended before it answered")
    return line
