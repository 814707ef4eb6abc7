"""Recovery tells how far it is, and reads the log once when that is short."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest
from store_driver import SCHEMAS, accounts, contents, rebuild

from mainstem import progress as bars
from mainstem.progress import Progress, recovery_bar
from mainstem.query import open_db
from mainstem.store import Store, recovery


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with Store.open(tmp_path, SCHEMAS, segment_bytes=3000) as store:
        for number in range(1, 21):
            deleted = [number % 4 == 0] if number % 2 == 0 else None
            store.commit({"Account": accounts([(number % 6, number, "a")], deleted)}, {"batch": number})
    return tmp_path


def test_bytes_are_told_as_they_are_read(written: Path) -> None:
    told: list[tuple[int, int]] = []
    Store.open(written, SCHEMAS, told=lambda done, total: told.append((done, total))).close()
    assert told
    assert told == sorted(told)
    assert all(0 < done <= total for done, total in told)


@pytest.mark.parametrize("bytes_max", [0, 2000, 1 << 30])
@pytest.mark.parametrize("rows", [1, 3, 1 << 16])
def test_a_log_that_is_kept_and_one_that_is_read_twice_give_the_same(
    bytes_max: int, rows: int, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(written)
    monkeypatch.setattr(recovery, "TAIL_BYTES_MAX", bytes_max)
    monkeypatch.setattr(recovery, "_APPLY_ROWS", rows)
    assert contents(written) == expected
    with Store.open(written, SCHEMAS) as store:
        assert [rebuild(store.replay()) for _ in range(2)] == [expected[2]] * 2
        store.commit({"Account": accounts([(99, 1, "z")])}, {})
        assert rebuild(store.replay())["Account"][99,] == (1, "z")
    with open_db(written) as db:
        assert db.get("Account", 99) == {"balance": 1, "owner": "z"}


def test_the_line_of_a_bar() -> None:
    bar = Progress(total=10)
    bar.recovering(12_340_000, 50_000_000)
    assert bar.line(1.0) == "recovering: 12.3 of 50.0 MB"
    bar(5)
    assert bar.line(1.0).startswith("5 of 10 events")


def test_a_bar_only_where_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with recovery_bar() as told:
        assert told is None
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bars, "SECONDS_SILENT", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with recovery_bar() as told:
        assert told is not None
        told(1_000_000, 2_000_000)
        until = time.monotonic() + 30
        while "recovering: 1.0 of 2.0 MB" not in stream.getvalue():
            assert time.monotonic() < until
            time.sleep(0.01)
