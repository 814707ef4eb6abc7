"""Readers in other processes, while transfers run: every sum is right, and no version comes before an older one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import bank_driver as bank
import pytest

import mainstem as ms

READS = 850  # by each of four processes for each durability: over 10,000 sums by SQL
TRANSFERS_MAX = 2_000_000  # far more than run while they read


@pytest.fixture(scope="module")
def readers() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, bank.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
        yield crowd
        assert crowd.stdin is not None
        crowd.stdin.close()
        assert crowd.wait(60) == 0


def ask(crowd: subprocess.Popen[str], **job: Any) -> list[dict[str, Any]]:
    to, back = crowd.stdin, crowd.stdout
    assert to is not None
    assert back is not None
    to.write(json.dumps(job) + "\n")
    to.flush()
    return json.loads(_line(back))


def _line(stream: IO[str]) -> str:
    line = stream.readline()
    return _line(stream) if line == "ready\n" else line


def check_sums(tmp_path: Path, crowd: subprocess.Popen[str], durability: str, reads: int) -> None:
    state, stop = tmp_path / "bank", tmp_path / "stop"
    events = bank.transfers(1, stop, TRANSFERS_MAX)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            bank.app.run(events, state=state, batch=bank.BATCH, durability=durability, progress=None, jit=False)
        except BaseException as error:
            failure.append(error)

    bank.app.run([], state=state, initial=bank.initial(), jit=False)
    writer = threading.Thread(target=run)
    writer.start()
    try:
        with ms.open(state) as db:
            assert next(db.watch(since=1, timeout=60), None) is not None, "it writes"
        answers = ask(crowd, path=str(state), reads=reads)
        assert writer.is_alive() or failure, "the writer must outlast the readers"
    finally:
        stop.touch()
        writer.join()
    assert not failure
    assert [answer["wrong"] for answer in answers] == [[]] * bank.READERS
    assert sum(answer["reads"] for answer in answers) == bank.READERS * reads
    assert min(answer["epochs"] for answer in answers) > reads // 100, "they saw the state change"
    with ms.open(state) as db:
        assert db.sql("select sum(balance)::bigint s from Account").to_pylist() == [{"s": bank.TOTAL}]


@pytest.mark.parametrize("durability", ["sync", "batch", "none"])
def test_sums_hold(tmp_path: Path, readers: subprocess.Popen[str], durability: str) -> None:
    check_sums(tmp_path, readers, durability, READS)


@pytest.mark.long
@pytest.mark.parametrize("durability", ["sync", "batch", "none"])
def test_sums_hold_for_long(tmp_path: Path, readers: subprocess.Popen[str], durability: str) -> None:
    check_sums(tmp_path, readers, durability, 50 * READS)
