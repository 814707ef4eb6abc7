"""A server beside a writer in another process: every answer is one whole commit, and never an old one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from serve_support import SCHEMAS, TOKEN, TOTAL, Client, Reply, accounts, make_store, process

from mainstem.serve import serving
from mainstem.store import Store

WRITER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from serve_support import SCHEMAS, VISIT, accounts, rows_of
from mainstem.store import Store
balances = dict.fromkeys(range(20), 100) | {0: 80, 1: 120}
with Store.open(sys.argv[2], SCHEMAS, durability="none", segment_commits=50) as store:
    print("ready", flush=True)
    for epoch in range(4, 1_000_000):
        if Path(sys.argv[3]).exists():
            break
        source, target, amount = epoch % 20, epoch * 7 % 20, epoch % 13
        balances[source] -= amount
        balances[target] += amount
        changed = {key: balances[key] for key in (source, target)}
        turn = rows_of(VISIT, ("turn", 0, epoch))
        store.commit({"Account": accounts(changed), "Visit": turn}, {"ts": epoch, "seq": epoch})
        time.sleep(0.002)  # the server needs a core, too
print(epoch - 1, flush=True)
"""
READS = 60


def check(number: int, answer: Reply, epoch_before: int) -> int:
    """One answer: of the commit that its header names, whole, and not older than the one before."""
    assert answer.status == 200, answer.body
    if number % 3 == 0:
        assert answer.json["count"] == answer.epoch
    else:
        ((row,), epoch) = answer.json["rows"], answer.json["epoch"]
        assert (row["total"], row["turn"], epoch) == (TOTAL, answer.epoch, answer.epoch)
    assert answer.epoch >= epoch_before
    return answer.epoch


def read(url: str, seen: list[int], problems: list[BaseException]) -> None:
    client = Client(url)
    query = "select (select sum(balance) from Account) total, (select count from Visit where key_0 = 'turn') turn"
    try:
        for number in range(READS):
            answer = client.get("/v1/tables/Visit/rows/turn/0") if number % 3 == 0 else client.sql(query)
            seen.append(check(number, answer, seen[-1] if seen else 0))
    except BaseException as problem:
        problems.append(problem)
    client.close()


def test_every_answer_is_one_commit_of_a_running_writer(tmp_path: Path) -> None:
    folder, stop = make_store(tmp_path / "s"), tmp_path / "stop"
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(folder), str(stop)]
    with process(folder) as (_, url), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            client = Client(url)
            while client.get("/v1/status").json["epoch"] < 5:
                pass
            seen: list[list[int]] = [[], [], []]
            problems: list[BaseException] = []
            readers = [threading.Thread(target=read, args=(url, one, problems)) for one in seen]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            assert not problems, problems
            assert all(len(one) == READS and one[-1] > one[0] for one in seen)
            stop.touch()
            last = int(writer.stdout.readline())
            assert writer.wait(60) == 0
            assert client.get("/v1/status").json["epoch"] == last
            assert client.sql("select 1").epoch == last
            client.close()
        finally:
            writer.kill()


def test_a_new_store_in_the_same_place_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make_store(tmp_path / "s")
    with serving(folder, token=TOKEN) as started:
        client = Client(started.url)
        assert client.get("/v1/tables/Account/rows/0?batch=2").json["balance"] == 90
        folder.rename(tmp_path / "old")
        while (answer := client.get("/v1/tables/Account/rows/0")).status == 200:
            pass  # it looks for a folder that is another one about once a second
        assert answer.status == client.sql("select 1 from Account").status == 503
        assert "the server's log says why" in answer.detail and str(tmp_path) not in answer.detail
        with Store.open(folder, SCHEMAS, durability="none") as store:
            store.commit({"Account": accounts({0: 7})}, {"ts": 1, "seq": 1})
        assert client.get("/v1/tables/Account/rows/0").json["balance"] == 7
        assert client.sql("select sum(balance) s from Account").json["rows"] == [{"s": 7}]
        assert client.get("/v1/tables/Account/rows/0?batch=2").status == 404
        client.close()
    assert "not a Mainstem directory" in capfd.readouterr().err
