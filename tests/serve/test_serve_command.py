"""`mainstem serve` as a command: how it starts, what it prints, how it ends, and what it says when it can't."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from serve_support import ENDLESS, TOKEN, Client, process
from typer.testing import CliRunner

from mainstem.cli.commands import cli


def run(*words: str, token: str | None = None) -> tuple[int, str]:
    """Exit code and errors of a command that can't serve."""
    done = CliRunner().invoke(cli, ["serve", *words], env={"MAINSTEM_TOKEN": token, "COLUMNS": "300"})
    assert done.stdout == ""
    return done.exit_code, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to(folder: Path, number: int) -> None:
    """With an idle client, a watcher and an endless query connected; the log has what was asked, and no token."""
    with process(folder, "--log") as (started, url):
        client = Client(url)
        assert client.get("/v1/tables/Account/rows/1?batch=2").status == 200
        port = int(url.rsplit(":", 1)[1])
        address = ("127.0.0.1", port)
        with socket.create_connection(address) as watcher, socket.create_connection(address) as busy:
            head = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            watcher.sendall(f"GET /v1/watch/Account {head}\r\n".encode())
            while b": watching" not in watcher.recv(1000):
                pass
            body = json.dumps({"query": ENDLESS})
            busy.sendall(f"POST /v1/sql {head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            started.send_signal(number)
            out, err = started.communicate(timeout=60)
        client.close()
    assert started.returncode == 0
    assert out.endswith("ended\n")
    assert re.search(r"\d\d:\d\d:\d\d 200 GET /v1/tables/Account/rows/1\?batch=2 \d+ bytes [\d.]+ ms\n", err)
    assert TOKEN not in out + err and "Traceback" not in err


def test_a_token_is_made_up_and_limits_are_options(folder: Path) -> None:
    with process(folder, "--rows", "2", "--timeout", "0.2", "--host", "::1", token=None) as (started, url):
        assert url.startswith("http://[::1]:")
        assert started.stdout is not None
        token = started.stdout.readline().removeprefix("token: ").strip()
        assert len(token) >= 32
        assert f'-H "Authorization: Bearer {token}" {url}/v1/status' in started.stdout.readline()
        known, stranger = Client(url, token, host="::1"), Client(url, "x", host="::1")
        assert (known.get("/v1/status").status, stranger.get("/v1/status").status) == (200, 401)
        assert len(known.get("/v1/tables/Account/scan").json["rows"]) == 2
        endless = known.sql(ENDLESS)
        assert (endless.status, "took longer" in endless.detail) == (422, True)
        known.close()
        stranger.close()


def test_a_port_in_use(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = run(str(folder), "--port", str(port))
    assert code == 1
    assert errors == f"error: port {port} of 127.0.0.1 is in use\n  choose another with --port, or 0 for any free one\n"


def test_folders_that_are_no_store(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none", "does not exist"), (tmp_path, "has no file FORMAT")):
        code, errors = run(str(path))
        assert (code, f"{path} is not a Mainstem directory: it {what}" in errors) == (1, True)


def test_other_machines_need_a_chosen_token(folder: Path) -> None:
    for host, token, words in (
        ("0.0.0.0", None, "choose a token yourself"),
        ("0.0.0.0", "short", "at least 16 characters"),
        ("203.0.113.7", TOKEN, "give an address of this machine"),
        ("no.such.host.invalid", TOKEN, "give an address of this machine"),
    ):
        code, errors = run(str(folder), "--host", host, token=token)
        assert (code, words in errors) == (1, True), errors


def test_what_is_missing_is_named_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    assert run(str(folder)) == (1, "error: mainstem serve needs httptools: pip install 'mainstem[serve]'\n")
