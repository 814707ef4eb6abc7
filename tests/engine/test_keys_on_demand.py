"""The serial kernel looks up keys that vary in loops by itself; it stops where one is new, or where room ends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.engine import auto, make_executor
from mainstem.engine.operations import Operations
from mainstem.gate import open_events
from mainstem.state import State

app = ms.App("tags")


@app.event
class Post:
    author: int
    tags: list[int]


@app.event
class Plain:
    author: int


@app.table(key=int)
class Author:
    posts: int = 0


@app.table(key=int)
class Tag:
    last: int = -1
    seen: int = 0


@app.on(Post)
def count(e):
    author = Author[e.author]
    author.posts += 1
    return {"posts": author.posts}


@app.on(Post)
def tag(e):
    for key in e.tags:
        row = Tag[key]
        row.last = e.author
        row.seen += 1
        ms.require(row.seen < 4, "seen too often")
    return {"tags": len(e.tags)}


@app.on(Post)
def count_again(e):
    Author[e.author].posts += 10


@app.on(Plain)
def plain(e):
    Author[e.author].posts += 100


def posts(tags: list[list[int]]) -> pa.Table:
    """An event per list; one of another type after every second."""
    rows = []
    for n, own in enumerate(tags):
        rows.append({"ts": len(rows), "event": "Post", "author": n % 3, "tags": own})
        if n % 2:
            rows.append({"ts": len(rows), "event": "Plain", "author": n % 2, "tags": None})
    schema = pa.schema(
        [("ts", pa.int64()), ("event", pa.string()), ("author", pa.int64()), ("tags", pa.list_(pa.int64()))]
    )
    return pa.Table.from_pylist(rows, schema)


STREAMS = {
    "one new key late": [[1, 2], [2], [1], [2, 9]],
    "all keys new": [[n, n + 1] for n in range(0, 20, 2)],
    "keys never seen again": [[1], [1], [1], [1, 50], [51]],
    "more keys than ever": [[1], [2], list(range(3, 40)), list(range(40, 200)), [1]],
    "no keys": [[], [], []],
}
BATCHES = (1, 4, 100)


def run(events: pa.Table, engine: str, batch: int) -> tuple[list[dict], dict[str, pa.Table]]:
    outputs = app.run(events, engine=engine, batch=batch).outputs
    return outputs.to_pylist(), {name: app.state[name] for name in app.state}


@pytest.mark.parametrize("engine", ["serial", "auto", "lock"])
@pytest.mark.parametrize("name", list(STREAMS))
def test_equals_the_oracle(name: str, engine: str) -> None:
    events = posts(STREAMS[name])
    expected = run(events, "oracle", 100)
    for batch in BATCHES:
        assert run(events, engine, batch) == expected


def executor_and_batches(tags: list[list[int]], batch: int, jit: bool = True):
    program = app.program
    state = State({table.name: table for table in program.tables})
    executor = make_executor(program, state, "serial", track=True, jit=jit)
    stream, _ = open_events(
        posts(tags), program.events, batch_size=batch, derives=program.derives, columns=program.used_columns
    )
    return executor, stream


@pytest.mark.parametrize("jit", [True, False])
def test_changed_rows_before_and_after_a_stop_are_noted(jit: bool) -> None:
    executor, batches = executor_and_batches([[1], [2], [1, 7], [8]], 100, jit)
    deltas = executor.run(next(batches), 0).deltas()
    assert sorted(deltas["Tag"].column("key").to_pylist()) == [1, 2, 7, 8]
    assert sorted(deltas["Author"].column("key").to_pylist()) == [0, 1, 2]


def test_keys_are_listed_only_where_one_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    whole = Operations.list_keys
    monkeypatch.setattr(Operations, "list_keys", lambda self, *given: listed.append(1) or whole(self, *given))
    executor, batches = executor_and_batches([[1, 2], [2, 3], [3, 1], [1], [9], [2]], 3)
    seen = []
    for number, batch in enumerate(batches):
        before = len(listed)
        executor.run(batch, 3 * number)
        seen.append(len(listed) - before)
    assert seen == [1, 0, 1]


def test_rows_are_found_in_a_table_that_grew_meanwhile() -> None:
    """Listing keys of a batch replaces the arrays of the table, in the middle of the batch."""
    many = np.arange(5_000).reshape(-1, 10).tolist()
    tags = [[0], *many, [4_999]]
    assert run(posts(tags), "serial", 100_000) == run(posts(tags), "oracle", 100_000)


def test_key_slices_are_compiled_before_the_first_batch() -> None:
    """Under the lock that keeps processes from filling one cache at a time."""
    executor, _ = executor_and_batches([[1]], 1)
    slices = [kernel for name, kernel in executor.functions.items() if name.startswith("keys_")]
    assert slices and all(kernel.signatures for kernel in slices)


def test_listing_keys_is_not_what_a_transaction_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a batch may have all keys of the batch listed."""
    program = app.program
    executor = make_executor(program, State({table.name: table for table in program.tables}), "auto", threads=2)

    def run_serially(arrays: dict, first: int, end: int) -> None:
        executor.operations.listing += 5.0

    monkeypatch.setattr(executor, "_run_serially", run_serially)
    monkeypatch.setattr(auto, "time", SimpleNamespace(perf_counter=iter([0.0, 5.0 + 1e-3]).__next__))
    found = executor._timed_serially({"kind": np.zeros(100)}, 100, 0, 100)
    assert found == pytest.approx((1e-3 - auto.START_SECONDS) / 100)
