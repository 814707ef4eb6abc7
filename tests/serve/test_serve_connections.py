"""HTTP itself: keep-alive, order, bounds on size and time, and odd but legal requests."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serve_fuzz import request
from serve_support import ENDLESS, TOKEN, Client, make_store

from mainstem.query import Database
from mainstem.serve import Limits, Running, serving
from mainstem.serve.ask import Version
from mainstem.serve.reader import Reader
from mainstem.serve.server import Server
from mainstem.serve.service import Service

SLOW = json.dumps({"query": "select count(*) c from range(30000000) a where hash(range) > 5"}).encode()


@contextmanager
def raw(running: Running, *, receive_bytes: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as opened:
        if receive_bytes:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        opened.settimeout(30)
        opened.connect(("127.0.0.1", int(running.url.rsplit(":", 1)[1])))
        yield opened


def read_all(opened: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    while part := opened.recv(1 << 16):
        found += part
    return found


def statuses(data: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]


def test_answers_come_in_the_order_of_requests(running: Running) -> None:
    slow = request("/v1/sql", "POST", SLOW)
    fast = [request(f"/v1/tables/Account/rows/{key}") for key in range(5)]
    end = request("/v1/nothing", more="Connection: close\r\n")
    with raw(running) as opened:
        opened.sendall(fast[0] + slow + b"".join(fast[1:]) + end)
        found = read_all(opened)
    assert statuses(found) == [200] * 6 + [404]
    assert re.findall(rb'"(key|c)":', found) == [b"key", b"c"] + [b"key"] * 4


def test_many_pipelined_requests_are_all_answered(running: Running) -> None:
    with raw(running) as opened:
        opened.sendall(b"".join(request(f"/v1/tables/Account/rows/{number % 20}") for number in range(500)))
        opened.sendall(request(more="Connection: close\r\n"))
        found = read_all(opened)
    assert re.findall(rb'"key":(\d+)', found) == [b"%d" % (number % 20) for number in range(500)]
    assert statuses(found) == [200] * 501


def test_a_request_may_arrive_byte_by_byte(running: Running) -> None:
    with raw(running) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("/v1/sql", "POST", b'{"query": "select 7 as n"}', more="Connection: close\r\n"):
            opened.sendall(bytes([byte]))
        assert b'"rows":[{"n":7}]' in read_all(opened)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (request(version="HTTP/1.0"), [200]),
        (request("http://any.host/v1/status"), [200]),
        (request("HTTP://any.host"), [200]),
        (request() + b"\r\n" + request(), [200, 200]),
        (request(more="Upgrade: h2c\r\nConnection: Upgrade\r\n") + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [200]),
        (request(more="Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\nX-Trailer: x\r\n\r\n", [200]),
        (request("/v1/status", "POST", b"ignored"), [405]),
        (b"GET /v1/status HTTP/1.1\r\n\r\n", [400]),
        (request(more="Host: y\r\n"), [400]),
        (request("*", "OPTIONS"), [404]),
        (request("host:1", "CONNECT"), [400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]),
        (request(more="Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), [400]),
        (request(more="Content-Length: 5\r\nContent-Length: 6\r\n"), [400]),
        (request()[:-2], [400]),
        (request("/v1/sql", "POST", b"{}")[:-1], [400]),
        (request() + b"nonsense\r\n\r\n", [200, 400]),
        (b"", []),
        (b"\r\n\r\n", []),
    ],
)
def test_odd_requests(running: Running, data: bytes, expected: list[int]) -> None:
    with raw(running) as opened:
        opened.sendall(data)
        opened.shutdown(socket.SHUT_WR)
        found = read_all(opened)
    assert statuses(found) == expected, found


def test_http_1_0_gets_streams_without_chunks(running: Running) -> None:
    with raw(running) as opened:
        path, accept = "/v1/watch/Account?since=1&count=1", "Accept: application/x-ndjson\r\n"
        opened.sendall(request(path, version="HTTP/1.0", more=accept))
        head, _, body = read_all(opened).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert json.loads(body)["epoch"] == 2


def test_the_client_is_told_to_go_on_with_its_body(running: Running) -> None:
    with raw(running) as opened:
        body = b'{"query": "select 7 as n"}'
        whole = request("/v1/sql", "POST", body, more="Expect: 100-continue\r\nConnection: close\r\n")
        opened.sendall(whole.removesuffix(body))
        assert opened.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        opened.sendall(body)
        assert b'{"n":7}' in read_all(opened)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/v1/sql", "POST", b"x" * 10_001), 413),
        (request("/v1/sql", "POST", more="Content-Length: 99999999\r\n"), 413),
        (request("/v1/sql", "POST", more="Transfer-Encoding: chunked\r\n") + b"8\r\n12345678\r\n" * 2000, 413),
        (request("/" + "x" * 20_000), 431),
        (request(more="X: " + "x" * 20_000 + "\r\n"), 431),
        (request(more="X: y\r\n" * 5000), 431),
        (b"GET /" + b"x" * 500_000, 431),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 500_000, 431),
        (request(more="Transfer-Encoding: chunked\r\n") + b"0\r\n" + b"X: y\r\n" * 5000, 431),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_there(running: Running, data: bytes, status: int) -> None:
    """The client learns why, even though it is still sending."""
    with raw(running) as opened:
        opened.sendall(data)
        assert statuses(read_all(opened)) == [status]


def test_slow_and_idle_clients_are_not_waited_for(tmp_path: Path) -> None:
    limits = Limits(arrival_seconds=0.1, idle_seconds=0.3)
    with (
        serving(make_store(tmp_path / "s"), token=TOKEN, limits=limits) as started,
        raw(started) as slow,
        raw(started) as idle,
        raw(started) as silent,
    ):
        slow.sendall(request("/v1/sql", "POST", b"{}")[:-1])
        idle.sendall(request())
        assert statuses(read_all(slow)) == [408]
        assert statuses(read_all(idle)) == [200]
        assert read_all(silent) == b""


def test_a_client_that_does_not_read_loses_its_place(tmp_path: Path) -> None:
    limits = Limits(connections=1, stalled_seconds=0.2)
    large = b'{"query": "select repeat(\'x\', 30000000) as x"}'
    with (
        serving(make_store(tmp_path / "s"), token=TOKEN, limits=limits) as started,
        raw(started, receive_bytes=4096) as lazy,
    ):
        lazy.sendall(request("/v1/sql", "POST", large))
        assert lazy.recv(12) == b"HTTP/1.1 200"
        answers = set()
        while 200 not in answers:  # the only place is taken for as long as the answer is not given up
            with raw(started) as other:
                other.sendall(request(more="Connection: close\r\n"))
                answers.update(statuses(read_all(other)))
        assert answers == {200, 429}


def test_so_many_connections(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(connections=3)) as started:
        clients = [Client(started.url) for _ in range(3)]
        assert [client.get("/v1/status").status for client in clients] == [200] * 3
        with raw(started) as fourth:
            assert statuses(read_all(fourth)) == [429]
        clients.pop().close()
        late = Client(started.url)
        while late.get("/v1/status").status != 200:
            late.close()  # the server has not seen the other one go yet
        for client in (*clients, late):
            client.close()


def test_loading_an_older_version_takes_no_thread_from_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, go_on = Reader.load, threading.Event()

    def slow(reader: Reader, version: Version) -> Database:
        go_on.wait(30)
        return load(reader, version)

    monkeypatch.setattr(Reader, "load", slow)
    with (
        serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(queries=2)) as started,
        raw(started) as one,
        raw(started) as two,
        raw(started) as three,
    ):
        for opened in (one, two, three):
            opened.sendall(request("/v1/tables/Account/scan?batch=2", "GET"))
        client = Client(started.url)
        assert client.sql("select count(*) n from Account").json["rows"] == [{"n": 20}]
        client.close()
        go_on.set()
        for opened in (one, two, three):
            assert statuses(opened.recv(1 << 16)) == [200]


def test_the_clock_goes_on_after_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(make_store(tmp_path / "s"), host="127.0.0.1", port=0, token=TOKEN, limits=None)

    async def tick() -> None:
        server._loop = asyncio.get_running_loop()
        server.service = Service(tmp_path / "s", TOKEN, server.limits, server.failed)
        server.service._reader.refresh = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
        server._tick()
        assert server._ticking is not None and not server._ticking.cancelled()
        server._ticking.cancel()
        server.service.close()

    asyncio.run(tick())
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_single_rows_are_answered_while_all_threads_are_busy(tmp_path: Path) -> None:
    endless = json.dumps({"query": ENDLESS}).encode()
    with (
        serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(queries=2)) as started,
        raw(started) as one,
        raw(started) as two,
        raw(started) as three,
    ):
        for opened in (one, two, three):
            opened.sendall(request("/v1/sql", "POST", endless))
            opened.setblocking(False)
        client = Client(started.url)
        for _ in range(200):
            assert client.get("/v1/tables/Account/rows/1").json["balance"] == 120
        client.close()
        for opened in (one, two, three):
            with pytest.raises(BlockingIOError):
                opened.recv(1)
