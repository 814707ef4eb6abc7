"""Reading ahead on threads: bounded, in order, and gone when reading ends in any way."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from gate_support import PING, pings, read

from mainstem.errors import InputError
from mainstem.gate import open_events
from mainstem.gate.prefetch import DEPTH, prefetched


def reading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mainstem-read-ahead"]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    pq.write_table(pings(list(range(10_000))), tmp_path / "large.parquet")
    return tmp_path / "large.parquet"


def test_early_stop_leaves_no_thread(large: Path) -> None:
    batches: Any = open_events([large, large, large], [PING], batch_size=10)[0]
    assert reading() == []
    next(batches)
    assert len(reading()) == 3
    batches.close()
    assert reading() == []


def test_dropping_the_iterator_leaves_no_thread(large: Path) -> None:
    batches = open_events(large, [PING], batch_size=10)[0]
    next(batches)
    del batches
    assert reading() == []


def test_error_or_end_leaves_no_thread(large: Path) -> None:
    assert len(read([large, large], [PING])) == 20_000
    assert reading() == []
    unsorted = pings([2, 1])
    with pytest.raises(InputError, match="goes back"):
        read([large, unsorted], [PING], batch_size=10)
    assert reading() == []


def test_unclosed_iterator_does_not_keep_the_interpreter(large: Path) -> None:
    script = (
        "import sys; from mainstem.gate import open_events; from mainstem.schema import *\n"
        "ping = EventSchema('Ping', (Field('src', Type('int')),))\n"
        "sys.keep = open_events(sys.argv[1], [ping], batch_size=10)[0]; print(len(next(sys.keep)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(large)], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_reading_ahead_is_bounded_and_ordered() -> None:
    produced = 0
    moved = threading.Event()

    def numbers() -> Iterator[int]:
        nonlocal produced
        for number in range(100):
            produced += 1
            if produced == DEPTH + 2:
                moved.set()
            yield number

    items = prefetched(numbers())
    assert next(items) == 0
    assert moved.wait(10)  # one taken, DEPTH waiting, one at the door
    assert produced <= DEPTH + 2
    assert list(items) == list(range(1, 100))
    assert reading() == []


def test_errors_of_the_reader_reach_the_consumer_after_its_items() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("reader")

    items = prefetched(failing())
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError, match="reader"):
        next(items)
    assert reading() == []


def test_stopping_closes_the_reader_on_its_thread() -> None:
    closed_on: list[str] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed_on.append(threading.current_thread().name)

    items: Any = prefetched(endless())
    next(items)
    items.close()
    assert closed_on == ["mainstem-read-ahead"]
