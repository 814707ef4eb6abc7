"""Requests that no honest client sends, made from a seed.

Each kind is a function from a random generator to the bytes of a connection. What they must never get is a 5xx, the
content of a file, or a write.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from serve_support import TOKEN

PATHS = [
    "/",
    "/openapi.json",
    "/v1/status",
    "/v1/tables",
    "/v1/tables/Account/rows/1",
    "/v1/tables/Visit/rows/north/7",
    "/v1/tables/Blob/rows/%00%ff%2f",
    "/v1/tables/Moment/rows/2026-01-31T12:00:00",
    "/v1/tables/Account/scan?where=balance%3E90&limit=3",
    "/v1/watch/Account?seconds=0",
]


def words(text: str) -> list[str]:
    return text.split()


METHODS = [*words("GET POST PUT DELETE HEAD OPTIONS TRACE CONNECT PATCH PRI get PROPFIND SOURCE M-SEARCH"),
           "G ET", "", "GET\t", "\x00GET", "X" * 300]  # fmt: skip
VERSIONS = [*words("HTTP/1.1 HTTP/1.0 HTTP/0.9 HTTP/2.0 HTTP/1.2 HTTP/11.1 http/1.1 HTTP/1. ICE/1.0"), ""]
SQL = [
    *words("select from Account Visit * ( ) , ; -- /* ' \" where balance = 1 $1 ? null ::int limit set begin é {{ }}"),
    *words("[ ] - % lambda -> e'\\x' describe range(3) read_text('{canary}') read_csv('{canary}') glob('{folder}/*')"),
    *words("'{canary}' getenv('MAINSTEM_TOKEN')"),
    "\x00",
    "union all",
    "order by",
    "with x as",
    "copy Account to '{folder}/stolen'",
    "attach '{folder}/stolen.db'",
    "pragma version",
    "install x",
    "create table t as",
    "insert into Account",
    "values (1)",
    "show tables",
]
FILES = [
    "select * from read_text('{canary}')",
    "select * from read_csv('{canary}')",
    "select * from glob('{folder}/*')",
    "from '{canary}'",
    "select a.* from Account, read_csv('{canary}') a",
    "with x as ( from read_text('{canary}') ) select * from x",
    "exists ( select * from read_text('{canary}') )",
    "( select content from read_text('{canary}') ) = 'x'",
    "copy ( select 1 ) to '{folder}/stolen.csv'",
    "copy Account to '{folder}/stolen.parquet'",
    "attach '{folder}/stolen.db' as other",
    "export database '{folder}/stolen'",
]
VALUES: list[object] = [
    *(None, True, 0, -1, 2**63, 2**200, 1.5),
    *("", "x", "\x00", "\ud800", "é", "9" * 40),
    *([], {}, [1], {"a": 1}, [[]]),
]


CLOSE = "Connection: close\r\n"


@dataclass(frozen=True)
class Fuzz:
    """What a generated request may know: its random numbers, and the files that are none of its business."""

    random: random.Random
    canary: Path

    def pick(self, choices: list[str]) -> str:
        return self.random.choice(choices)

    def noise(self, size: int) -> bytes:
        return self.random.randbytes(size)


def request(
    path: str = "/v1/status", method: str = "GET", body: bytes | None = None, version: str = "HTTP/1.1", more: str = ""
) -> bytes:
    """A well-formed request with a token."""
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    head = f"{method} {path} {version}\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{length}{more}\r\n"
    return head.encode("utf-8", "surrogatepass") + (body or b"")


def sql(fuzz: Fuzz) -> str:
    """Words in any order; or a statement that reads or writes a file, maybe with a word too many."""
    parts = [fuzz.pick(SQL) for _ in range(fuzz.random.randrange(1, 12))]
    if fuzz.random.random() < 0.4:
        parts = fuzz.pick(FILES).split()
        if fuzz.random.random() < 0.5:
            parts.insert(fuzz.random.randrange(len(parts) + 1), fuzz.pick(SQL))
    return " ".join(parts).replace("{canary}", str(fuzz.canary)).replace("{folder}", str(fuzz.canary.parent))


def any_bytes(fuzz: Fuzz) -> bytes:
    return fuzz.noise(fuzz.random.randrange(1, 400)) + fuzz.random.choice([b"", b"\r\n\r\n"])


def request_lines(fuzz: Fuzz) -> bytes:
    odd = ["", "*", "x", "http://h/v1/status", "//", "?", "#", "/v1/status x", "\\"]
    path = fuzz.pick(PATHS if fuzz.random.random() < 0.3 else odd)
    return request(path, fuzz.pick(METHODS), version=fuzz.pick(VERSIONS))


def mutations(fuzz: Fuzz) -> bytes:
    """A good request with a few bytes changed, added or taken away."""
    data = bytearray(request(fuzz.pick(PATHS), body=fuzz.random.choice([None, b"{}"])))
    for _ in range(fuzz.random.randrange(1, 5)):
        place = fuzz.random.randrange(len(data))
        what = fuzz.random.randrange(3)
        if what == 0:
            data[place] = fuzz.random.randrange(256)
        elif what == 1:
            data[place:place] = fuzz.noise(fuzz.random.randrange(1, 6))
        else:
            del data[place : place + fuzz.random.randrange(1, 6)]
        data = data or bytearray(b"x")
    return bytes(data)


def truncations(fuzz: Fuzz) -> bytes:
    whole = request("/v1/sql", "POST", b'{"query": "select 1"}')
    return whole[: fuzz.random.randrange(len(whole))]


def headers(fuzz: Fuzz) -> bytes:
    name = "".join(fuzz.random.choices(string.printable, k=fuzz.random.randrange(1, 20)))
    long = "x" * fuzz.random.randrange(30_000)
    value = fuzz.pick([long, "\x00", "a\r\n b", "\t", "é", "\r", "\n", "a,b;q=x"])
    known = words("Host Authorization Content-Length Transfer-Encoding Accept Expect Connection Upgrade Last-Event-ID")
    odd = fuzz.pick([*known, name])
    lines = f"{odd}: {value}\r\n" * fuzz.random.choice([1, 1, 2, 40])
    return request(fuzz.pick(PATHS), more=lines)


def many_headers(fuzz: Fuzz) -> bytes:
    return request(more="".join(f"X-{number}: {number}\r\n" for number in range(fuzz.random.randrange(3000))))


def chunks(fuzz: Fuzz) -> bytes:
    sizes = ["5", "0", "-1", "ffffffffffffffffff", "g", "5;x=y", " 5", "5 ", "", "0x5", "100000000"]
    ends = [b"\r\n", b"\n", b""]
    parts = b"".join(
        f"{fuzz.pick(sizes)}\r\n".encode() + fuzz.noise(fuzz.random.randrange(12)) + fuzz.random.choice(ends)
        for _ in range(fuzz.random.randrange(1, 5))
    )
    both = "chunked\r\nContent-Length: 3"
    coding = fuzz.pick(["chunked", "gzip, chunked", "chunked, gzip", "identity", "CHUNKED", both])
    trailer = fuzz.random.choice([b"", b"0\r\n\r\n", b"0\r\nAuthorization: x\r\n\r\n"])
    return request("/v1/sql", "POST", more=f"Transfer-Encoding: {coding}\r\n") + parts + trailer


def lengths(fuzz: Fuzz) -> bytes:
    twice = "1\r\nContent-Length: 2"
    length = fuzz.pick(["-1", "0", "1", "5000", "99999999999", "9" * 40, "x", "", "1, 1", "+3", "0x3", "3 3", twice])
    return request("/v1/sql", "POST", more=f"Content-Length: {length}\r\n") + b'{"query": "select 1"}'


def escapes(fuzz: Fuzz) -> bytes:
    marks = words("% %2 %zz %00 %ff %c3%28 %ed%a0%80 %2e%2e %2f .. / \\ + & = a é %25 ?")
    starts = words("/ /v1/tables/ /v1/tables/Visit/rows/ /v1/tables/Account/scan?where= /v1/watch/ /v1/status?")
    start = fuzz.pick(starts)
    return request(start + "".join(fuzz.pick(marks) for _ in range(fuzz.random.randrange(1, 8))))


def traversals(fuzz: Fuzz) -> bytes:
    up = fuzz.pick(["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "....//", "/", "%00/", "..;/"])
    start = fuzz.pick(["/", "/v1/", "/v1/tables/", "/v1/tables/Account/rows/", "/openapi.json/", "/v1/watch/"])
    canary = str(fuzz.canary).lstrip("/")
    target = fuzz.pick(["etc/passwd", "FORMAT", "log", canary, fuzz.canary.name, "proc/self/environ"])
    return request(start + up * fuzz.random.randrange(1, 9) + target)


def bodies(fuzz: Fuzz) -> bytes:
    """JSON of the wrong shape, and what is no JSON."""
    names = ["query", "params", "limit", "where", "columns", "x", ""]
    given = {fuzz.pick(names): fuzz.random.choice(VALUES) for _ in range(fuzz.random.randrange(4))}
    good = json.dumps(given)
    text = fuzz.pick([good, good, good[:-2], "[" * 3000, "nul", '{"query":', "\ufeff{}", "NaN", "1e999", "{'a': 1}"])
    path = fuzz.pick(["/v1/sql", "/v1/tables/Account/scan", "/v1/tables/Visit/scan?batch=1", "/v1/sql?ts=x"])
    body = text.encode("utf-8", "surrogatepass") + fuzz.random.choice([b"", b"", b"\xff"])
    return request(path, "POST", body, more=CLOSE)


def statements(fuzz: Fuzz) -> bytes:
    params = fuzz.random.choice([None, [], [1], {"1": 2}, fuzz.random.choices(VALUES, k=2)])
    return request("/v1/sql", "POST", json.dumps({"query": sql(fuzz), "params": params}).encode(), more=CLOSE)


def conditions(fuzz: Fuzz) -> bytes:
    return request(f"/v1/tables/Account/scan?where={quote(sql(fuzz))}&columns={quote(fuzz.pick(SQL))}", more=CLOSE)


def parameters(fuzz: Fuzz) -> bytes:
    names = ["batch", "ts", "limit", "columns", "where", "since", "seconds", "count", "x", ""]
    values = ["", "9" * 30, *words("0 1 -1 1.5 nan inf %00 x ٣ 1e3 true balance balance,,key")]
    count = fuzz.random.randrange(1, 4)
    pairs = "&".join(f"{fuzz.pick(names)}={quote(fuzz.pick(values), safe='%')}" for _ in range(count))
    path = fuzz.pick(PATHS).partition("?")[0]
    return request(f"{path}?{pairs}{'&seconds=0' if 'watch' in path else ''}", more=CLOSE)


def pipelines(fuzz: Fuzz) -> bytes:
    kinds = [lambda f: request(f.pick(PATHS)), escapes, mutations, nulls, lengths]
    return b"".join(fuzz.random.choice(kinds)(fuzz) for _ in range(fuzz.random.randrange(2, 8)))


def nulls(fuzz: Fuzz) -> bytes:
    data = bytearray(request(fuzz.pick(PATHS)))
    for _ in range(fuzz.random.randrange(1, 4)):
        data.insert(fuzz.random.randrange(len(data)), 0)
    return bytes(data)


KINDS: list[Callable[[Fuzz], bytes]] = [
    any_bytes, request_lines, mutations, truncations, headers, many_headers, chunks, lengths, escapes,
    traversals, bodies, statements, conditions, parameters, pipelines, nulls,
]  # fmt: skip
COMPLETE = {bodies, statements, conditions, parameters}
"""Those that need no end of the connection to be understood; queries are stopped at that end."""
