"""Ten thousand malformed requests: no 5xx, no write, no file told, and the server lives."""

from __future__ import annotations

import os
import random
import re
import secrets
import socket
from collections import Counter
from pathlib import Path

import pytest
from serve_fuzz import COMPLETE, KINDS, PATHS, Fuzz, request
from serve_support import TOKEN, Client, fingerprint, make_store, process

REQUESTS = 10_400
SEED = 20_260_131
OPEN = re.compile(rb" (/|/openapi\.json|/v1/health)(\?\S*)? ")
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def exchange(port: int, data: bytes, *, complete: bool = False) -> bytes:
    """Everything that the server says to `data`. The client says that no more comes, unless that is plain."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        try:
            raw.sendall(data)
            if not complete:
                raw.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server had enough; what it said is read below
        found = bytearray()
        try:
            while part := raw.recv(1 << 16):
                found += part
        except ConnectionResetError:
            pass
        return bytes(found)


def attack(port: int, fuzz: Fuzz, count: int, secrets_: list[bytes]) -> Counter[int]:
    """Sends `count` requests of every kind in turn; how often each status was answered."""
    seen: Counter[int] = Counter()
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        data = kind(fuzz)
        answer = exchange(port, data, complete=kind in COMPLETE)
        found = [int(status) for status in STATUS.findall(answer)]
        where = f"request {number} ({kind.__name__}): {data[:2000]!r}\n{answer[:2000]!r}"
        assert found or not (answer or kind in COMPLETE), where
        assert all(status < 500 for status in found), where
        assert not any(secret in answer for secret in secrets_), where
        seen.update(found)
    return seen


def campaign(tmp_path: Path, count: int, seed: int) -> Counter[int]:
    """A server as a process of its own, a folder that must stay as it is, and a secret beside it."""
    folder, beside = make_store(tmp_path / "store"), tmp_path / "beside"
    beside.mkdir()
    content, name = secrets.token_hex(20), secrets.token_hex(20)
    (beside / "canary.csv").write_text(f"secret\n{content}\n")
    (beside / name).touch()  # whose name only a listing of the folder tells
    before = fingerprint(folder), fingerprint(beside)
    told = [content.encode(), name.encode(), b"root:x:0:0", TOKEN.encode(), str(folder).encode()]
    with process(folder) as (server, url):
        fuzz = Fuzz(random.Random(seed), beside / "canary.csv")
        client = Client(url)
        seen = attack(client.port, fuzz, count, told)
        assert server.poll() is None
        assert client.get("/v1/tables/Account/rows/0").json == {"key": 0, "balance": 80, "owner": "ann"}
        client.close()
        server.terminate()
        _, err = server.communicate(timeout=30)
        assert (server.returncode, err) == (0, ""), err
    assert (fingerprint(folder), fingerprint(beside)) == before
    return seen


def test_malformed_requests(tmp_path: Path) -> None:
    seen = campaign(tmp_path, REQUESTS, int(os.environ.get("MAINSTEM_FUZZ_SEED", SEED)))
    # Every way to say no was needed, and some of what was sent was a right request after all.
    assert {200, 400, 401, 404, 405, 413, 422, 431} <= set(seen), seen


@pytest.mark.long
def test_many_malformed_requests(tmp_path: Path) -> None:
    for seed in range(20):
        campaign(tmp_path / str(seed), 50_000, seed)


def test_without_the_token_all_is_401(tmp_path: Path) -> None:
    """Whatever is sent: where the request can be read at all, and asks for more than the description."""
    generator = random.Random(SEED)
    with process(make_store(tmp_path / "store")) as (_, url):
        port = int(url.rsplit(":", 1)[1])
        fuzz = Fuzz(generator, tmp_path / "canary")
        for number in range(800):
            data = KINDS[number % len(KINDS)](fuzz).replace(TOKEN.encode(), b"a-guess")
            answer = exchange(port, data, complete=KINDS[number % len(KINDS)] in COMPLETE)
            statuses = {int(status) for status in STATUS.findall(answer)}
            assert statuses <= {400, 401, 413, 431} | ({200, 405} if OPEN.search(data) else set()), data
            assert b"\r\nmainstem-epoch: " not in answer, data
        for path in PATHS[2:]:
            for line in ("", "Authorization: Bearer\r\n", "Authorization: Bearer x\r\n", "X-Token: x\r\n"):
                data = request(path).replace(f"Authorization: Bearer {TOKEN}\r\n".encode(), line.encode())
                assert STATUS.findall(exchange(port, data)) == [b"401"]
