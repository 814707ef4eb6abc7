"""Changes as they are committed, over an open connection."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serve_support import ACCOUNT, SCHEMAS, TOKEN, Client, accounts, make_store, rows_of

from mainstem.query.watch import watch
from mainstem.serve import Limits, Running, serving
from mainstem.store import Store

LINES = "application/x-ndjson"


@contextmanager
def watching(running: Running, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """A stream that is being read."""
    connection = http.client.HTTPConnection("127.0.0.1", int(running.url.rsplit(":", 1)[1]), timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", **headers})
    answer = connection.getresponse()
    assert answer.status == 200
    yield answer
    connection.close()


def lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


def test_changes_since_an_epoch_as_json_lines(client: Client) -> None:
    answer = client.get("/v1/watch/account?since=1&count=2", accept=LINES)
    assert answer.headers["content-type"] == LINES
    first, second = lines(answer.body)
    changed = [{"key": 0, "balance": 90, "owner": "ann", "_deleted": False},
               {"key": 1, "balance": 110, "owner": "ann", "_deleted": False}]  # fmt: skip
    assert first == {"epoch": 2, "ts": 20, "truncated": False, "rows": changed}
    assert [row["balance"] for row in second["rows"]] == [80, 120]


def test_a_silent_watch_reads_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def counted(*given: Any) -> Iterator[Any]:
        begun.append(given)
        return watch(*given)

    monkeypatch.setattr("mainstem.serve.watching._SILENCE_SECONDS", 0.05)
    monkeypatch.setattr("mainstem.serve.reader.watch", counted)
    with serving(make_store(tmp_path / "s"), token=TOKEN) as started:
        told = Client(started.url).get("/v1/watch/Account?seconds=1").body
    assert told.count(b": nothing new\n\n") >= 2
    assert len(begun) == 1


def test_a_watch_has_no_head(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(watchers=1)) as started:
        client = Client(started.url)
        answer = client.ask("HEAD", "/v1/watch/Account", None)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        assert client.get("/v1/watch/Account?since=1&count=1").status == 200, "no watcher is in use"
        client.close()


def test_changes_as_server_sent_events(client: Client) -> None:
    answer = client.get("/v1/watch/Account?since=1&count=1")
    assert answer.headers["content-type"] == "text/event-stream"
    opening, event, rest = answer.body.split(b"\n\n")
    assert (opening, rest) == (b": watching", b"")
    number, data = event.split(b"\n")
    assert number == b"id: 2"
    assert json.loads(data.removeprefix(b"data: "))["epoch"] == 2


def test_a_client_goes_on_where_it_was(client: Client) -> None:
    answer = client.get("/v1/watch/Account?count=1", accept=LINES, last_event_id="2")
    assert [change["epoch"] for change in lines(answer.body)] == [3]


def test_commits_that_do_not_touch_the_table_are_left_out(client: Client) -> None:
    assert client.get("/v1/watch/Visit?since=1&seconds=0.01", accept=LINES).body == b""
    assert client.get("/v1/watch/Account?seconds=0.01", accept=LINES).body == b""


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("Nothing", 404, "no table 'Nothing'"),
        ("Account?since=4", 400, "the last commit is 3"),
        ("Account?since=-1", 400, "since"),
        ("Account?seconds=nan", 400, "seconds"),
        ("Account?seconds=x", 400, "seconds"),
        ("Account?count=0", 400, "count"),
        ("Account?batch=1", 400, "unknown parameter"),
    ],
)
def test_wrong_watches(client: Client, path: str, status: int, words: str) -> None:
    answer = client.get(f"/v1/watch/{path}")
    assert (answer.status, words in answer.detail) == (status, True), answer.detail


def test_commits_arrive_as_they_are_made(tmp_path: Path) -> None:
    folder = make_store(tmp_path / "s")
    with serving(folder, token=TOKEN) as started, watching(started, "/v1/watch/Account", Accept=LINES) as stream:
        with Store.open(folder, SCHEMAS, durability="none") as store:
            for epoch in range(4, 8):
                store.commit({"Account": accounts({5: epoch})}, {"ts": epoch, "seq": epoch})
                change = json.loads(stream.readline())
                assert (change["epoch"], change["rows"][0]["balance"]) == (epoch, epoch)
            gone = rows_of(ACCOUNT, (5, 0, "")).append_column("_deleted", [[True]])
            store.commit({"Account": gone}, {"ts": 8, "seq": 8})
            assert json.loads(stream.readline())["rows"][0]["_deleted"] is True
        client = Client(started.url)
        assert client.get("/v1/tables/Account/rows/5").status == 404
        client.close()


def test_a_large_commit_is_cut_off_and_says_so(client: Client) -> None:
    (change,) = lines(client.get("/v1/watch/Account?since=0&count=1", accept=LINES).body)
    assert (change["truncated"], len(change["rows"])) == (True, 15)


def test_so_many_watchers_and_their_places_come_free(tmp_path: Path) -> None:
    with serving(make_store(tmp_path / "s"), token=TOKEN, limits=Limits(watchers=2)) as started:
        client = Client(started.url)
        with watching(started, "/v1/watch/Account"), watching(started, "/v1/watch/Visit?seconds=0.2"):
            assert client.get("/v1/watch/Account").status == 429
            while client.get("/v1/watch/Account?seconds=0").status != 200:
                pass  # until the second one has ended
        client.close()


def test_changes_that_are_not_kept_any_more(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", SCHEMAS, durability="none", keep=1, segment_commits=2) as store:
        for number in range(40):
            store.commit({"Account": accounts({number: 1})}, {"ts": number, "seq": number})
    with serving(tmp_path / "s", token=TOKEN) as started:
        client = Client(started.url)
        answer = client.get("/v1/watch/Account?since=0")
        assert answer.status == 410
        assert "keeps changes since epoch" in answer.detail and str(tmp_path) not in answer.detail
        answer = client.get("/v1/tables/Account/rows/1?batch=1")
        assert answer.status == 404
        assert "keeps the versions after epoch" in answer.detail
        client.close()
