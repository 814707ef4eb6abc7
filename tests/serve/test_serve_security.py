"""Who may ask, and that nobody gets more than the tables: no file, no setting, no write."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from serve_support import ENDLESS, TOKEN, Client, fingerprint, make_store

from mainstem.errors import InputError
from mainstem.serve import Limits, Running, serving
from mainstem.serve.server import Server, is_loopback

PROTECTED = [
    ("GET", "/v1/status"),
    ("GET", "/v1/tables"),
    ("GET", "/v1/tables/Account/rows/1"),
    ("GET", "/v1/tables/Account/scan"),
    ("POST", "/v1/tables/Account/scan"),
    ("POST", "/v1/sql"),
    ("GET", "/v1/watch/Account"),
    ("GET", "/v1/nothing"),
    ("GET", "/v1/health/"),
    ("GET", "//"),
    ("DELETE", "/v1/status"),
]
WRONG_TOKENS = ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
                f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN}, Bearer {TOKEN}", f"Bearer {TOKEN} {TOKEN}"]  # fmt: skip
SECRET = "the-content-of-a-file-that-is-none-of-your-business"


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_nothing_is_told_without_the_token(running: Running, method: str, path: str) -> None:
    stranger = Client(running.url, token=None)
    answer = stranger.ask(method, path, b"{}" if method == "POST" else None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="mainstem"'
    assert "mainstem-epoch" not in answer.headers
    stranger.close()


@pytest.mark.parametrize("given", WRONG_TOKENS)
def test_wrong_tokens(running: Running, given: str) -> None:
    stranger = Client(running.url, token=None)
    assert stranger.get("/v1/status", authorization=given).status == 401
    stranger.close()


def test_the_scheme_ignores_case_and_the_description_is_open(running: Running) -> None:
    stranger = Client(running.url, token=None)
    assert stranger.get("/v1/status", authorization=f"bEARER {TOKEN}").status == 200
    for path in ("/", "/openapi.json", "/v1/health"):
        assert stranger.get(path).status == 200
    stranger.close()


def test_two_tokens_are_none(running: Running) -> None:
    port = int(running.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        line = f"Authorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"GET /v1/status HTTP/1.1\r\nHost: x\r\n{line}{line}\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


def test_addresses_that_others_reach_need_a_chosen_token(tmp_path: Path) -> None:
    def server(host: str, token: str | None) -> Server:
        return Server(tmp_path, host=host, port=0, token=token, limits=None)

    for host in ("0.0.0.0", "::", "192.168.1.5", ""):
        assert not is_loopback(host)
        with pytest.raises(InputError, match="choose a token yourself"):
            server(host, None)
        with pytest.raises(InputError, match="at least 16 characters"):
            server(host, "short")
        server(host, TOKEN)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        assert server(host, None).token != server(host, None).token
        assert len(server(host, None).token) >= 32
    with pytest.raises(InputError, match=r"no-such-host\.invalid is not known here"):
        server("no-such-host.invalid", None)
    for bad in ("", "with space", "zürich", "line\nbreak"):
        with pytest.raises(InputError, match="visible ASCII"):
            server("127.0.0.1", bad)


ATTACKS = [
    "select * from read_csv('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_parquet('{folder}/*.parquet')",
    "select * from '{file}'",
    "from '{file}'",
    "select * from glob('{folder}/*')",
    "select * from parquet_metadata('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from query('select * from read_text(''{file}'')')",
    "select * from query_table('{file}')",
    "copy Account to '{folder}/stolen.csv'",
    "copy (select 1) to '{folder}/stolen.parquet'",
    "copy Account from '{file}'",
    "export database '{folder}/stolen'",
    "import database '{folder}'",
    "attach '{folder}/stolen.db' as other",
    "attach '{file}'",
    "install httpfs",
    "load '{file}'",
    "install spatial; load spatial",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
    "create secret (type s3)",
    "pragma database_list",
    "pragma enable_external_access=true",
    "set enable_external_access=true",
    "set lock_configuration=false",
    "reset enable_external_access",
    "set file_search_path='{folder}'",
    "create table mine as select 1",
    "create view mine as select 1",
    "create macro mine() as 1",
    "create temp table mine(a int)",
    "insert into Account values (1, 2, 'x')",
    "update Account set balance = 0",
    "delete from Account",
    "truncate Account",
    "drop table Account",
    "drop view Account",
    "alter table Account add column x int",
    "select 1; copy (select 1) to '{folder}/stolen.csv'",
    "with x as (insert into Account values (1, 2, 'x') returning *) select * from x",
    "begin transaction",
    "checkpoint",
    "vacuum",
    "call pragma_version()",
    "explain analyze copy (select 1) to '{folder}/stolen.csv'",
    "prepare p as select 1",
    "execute p",
    "use memory",
    "detach memory",
    "select * from read_csv('https://127.0.0.1:1/x')",
    "select * from read_text('/proc/self/environ')",
    "select * from read_text('/etc/passwd')",
    "select * from __import__",
    "select * from self",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_sql_can_only_read_the_tables(client: Client, folder: Path, tmp_path: Path, attack: str) -> None:
    (tmp_path / "secret.csv").write_text(SECRET)
    before, beside = fingerprint(folder), fingerprint(tmp_path)
    query = attack.format(file=tmp_path / "secret.csv", folder=tmp_path)
    answers = [client.sql(text) for text in (query, f"select * from ({query})", f"select 1 where exists ({query})")]
    answers.append(client.post("/v1/tables/Account/scan", {"where": f"exists ({query})"}))
    for answer in answers:
        assert answer.status == 422, answer.body
        assert SECRET not in answer.body.decode()
        assert str(folder) not in answer.detail
    assert (fingerprint(folder), fingerprint(tmp_path)) == (before, beside)
    assert client.sql("select count(*) n from Account").json["rows"] == [{"n": 20}]


@pytest.mark.parametrize(
    "query",
    [
        "select current_setting('temp_directory') s",
        "select * from duckdb_settings()",
        "select * from duckdb_databases()",
        "select * from pragma_database_list()",
        "select * from duckdb_extensions()",
        "select * from duckdb_temporary_files()",
        "select * from information_schema.tables",
        "show all tables",
    ],
)
def test_what_duckdb_says_about_itself_names_no_place_of_the_store(client: Client, folder: Path, query: str) -> None:
    answer = client.sql(query)
    assert answer.status in (200, 422)
    assert str(folder.parent) not in answer.body.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/../../etc/passwd",
        "/v1/tables/../FORMAT/rows/1",
        "/v1/tables/..%2f..%2fFORMAT/rows/1",
        "/v1/tables/%2fetc%2fpasswd/scan",
        "/v1/tables/Account/rows/..%2f..%2fFORMAT",
        "/v1/watch/..%2fLOCK",
        "/FORMAT",
        "/log/00000000000000000001.wal",
        "/openapi.json/../FORMAT",
    ],
)
def test_no_path_leads_to_a_file(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status in (400, 404)
    assert "root:" not in answer.body.decode()


def test_a_query_may_take_so_long(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(query_seconds=0.3, queries=1)) as started:
        client = Client(started.url)
        answer = client.sql(ENDLESS)
        assert answer.status == 422
        assert "longer than 0.3 s" in answer.detail or "took longer than" in answer.detail
        assert client.sql("select 1 as one").json["rows"] == [{"one": 1}]
        client.close()


def test_so_many_queries_may_wait(tmp_path: Path) -> None:
    limits = Limits(query_seconds=20, queries=1, queries_waiting=1)
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=limits) as started:
        slow = json.dumps({"query": ENDLESS}).encode()
        waiting = [_send(started, slow) for _ in range(2)]
        client = Client(started.url)
        while (answer := client.sql("select 1")).status == 200:
            pass  # the two have not arrived yet
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert client.get("/v1/tables/Account/rows/1").status == 200
        for raw in waiting:
            raw.close()
        client.close()


def test_the_query_of_a_client_that_is_gone_is_stopped(tmp_path: Path) -> None:
    limits = Limits(query_seconds=3600, queries=1, queries_waiting=0)
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=limits) as started:
        client = Client(started.url)
        gone = _send(started, json.dumps({"query": ENDLESS}).encode())
        while client.sql("select 1").status == 200:
            pass  # it has not arrived yet
        gone.close()
        while client.sql("select 1").status == 429:
            pass  # the only thread is still taken
        assert client.sql("select 1").status == 200
        client.close()


def test_a_query_may_need_so_much_memory(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(memory_mb=50)) as started:
        client = Client(started.url)
        answer = client.sql("select list(range) from range(100000000)")
        assert answer.status == 422
        assert "memory" in answer.detail.lower()
        assert client.sql("select count(*) n from Account").json["rows"] == [{"n": 20}]
        client.close()


def _send(started: Running, body: bytes) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", int(started.url.rsplit(":", 1)[1])))
    head = f"POST /v1/sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    raw.sendall(head.encode() + body)
    return raw
