"""Routing: every item once, in its shard, in order; addresses lead to the consumer's item of the same event."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import by_hand
import numpy as np
import pyarrow as pa
import pytest
from replay_support import batches_of

from mainstem.errors import InputError, ProgramError
from mainstem.lang.dataflow import Dataflow
from mainstem.replay import Routing, route_range, router, shards_of, used_columns
from mainstem.replay.exchange import ExchangeFile
from mainstem.replay.routing import ROWS, number_column, order_block, route_block, shard_column
from mainstem.state import stable_hash


@pytest.fixture(scope="module")
def flow() -> Dataflow:
    return by_hand.flow()


def rows_of(file: ExchangeFile, name: str, shard: int) -> list[dict[str, Any]]:
    return [row for part in file.rows(name, shard) for row in part.to_pylist()]


@pytest.mark.parametrize(("shards", "size"), [(1, 50), (2, 50), (5, 7), (8, 1000), (300, 100)])
def test_items_are_where_they_belong(flow: Dataflow, tmp_path: Path, shards: int, size: int) -> None:
    events = by_hand.events(shards, 400)
    routing = Routing(flow, shards)
    report = route_range(batches_of(flow, events, size), routing, tmp_path / "range")
    file = ExchangeFile(report.path)
    rows = events.to_pylist()
    assert report.events == 400 and report.last_ts == rows[-1]["ts"] and report.bytes == report.path.stat().st_size
    assert [row["ts"] for row in rows_of(file, ROWS, 0)] == [row["ts"] for row in rows]
    assert [row["kind"] for row in rows_of(file, ROWS, 0)] == [int(row["event"] == "Mail") for row in rows]
    for number, route in enumerate(routing.routes):
        own = [row for row in rows if row["event"] == ("Link", "Mail")[route.kind]]
        expected = by_shard(own, route.key, shards)
        for shard in range(shards):
            found = rows_of(file, route_block(number), shard)
            assert len(found) == file.count(route_block(number), shard) == len(expected[shard])
            for item, event in zip(found, expected[shard], strict=True):
                assert {name: item[name] for name in routing.fields[number]} == {
                    name: event[name] for name in routing.fields[number]
                }
    check_addresses(file, routing, rows)


def by_shard(own: list[dict[str, Any]], key: tuple[str, ...], shards: int) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    hashes = stable_hash([pa.array([row[name] for row in own]) for name in key]) if key else np.zeros(len(own), int)
    for row, hashed in zip(own, hashes.tolist(), strict=True):
        found[hashed % shards].append(row)
    return found


def check_addresses(file: ExchangeFile, routing: Routing, rows: list[dict[str, Any]]) -> None:
    checked = 0
    for number, route in enumerate(routing.routes):
        own = [row for row in rows if row["event"] == ("Link", "Mail")[route.kind]]
        for target in routing.targets[number]:
            there = by_shard(own, routing.routes[target].key, routing.shards)
            here = by_shard(own, route.key, routing.shards)
            for shard, events in here.items():
                items = rows_of(file, route_block(number), shard)
                for item, event in zip(items, events, strict=True):
                    place = item.get(shard_column(target), 0)
                    assert there[place][item[number_column(target)]] is event
                    checked += 1
    assert checked > 0 or routing.shards == 1


@pytest.mark.parametrize("shards", [1, 3])
def test_order_of_pieces(flow: Dataflow, tmp_path: Path, shards: int) -> None:
    """Stage 1 has two pieces for every mail, under one key; stage 0 one for each event type."""
    events = by_hand.events(7, 300)
    report = route_range(batches_of(flow, events, 64), Routing(flow, shards), tmp_path / "range")
    file = ExchangeFile(report.path)
    mails = sum(report.items[1]) // 2
    for shard in range(shards):
        assert [row["kind"] for row in rows_of(file, order_block(1), shard)] == [0, 1] * (report.items[1][shard] // 2)
    rows = events.to_pylist()
    keyed = [(row["a"], row["b"], 0) if row["event"] == "Link" else (row["who"], row["peer"], 1) for row in rows]
    owner = shards_of([pa.array([key[0] for key in keyed]), pa.array([key[1] for key in keyed])], shards)
    for shard in range(shards):
        expected = [key[2] for key, place in zip(keyed, owner, strict=True) if place == shard]
        assert [row["kind"] for row in rows_of(file, order_block(0), shard)] == expected
    assert sum(report.items[0]) == 300 and mails == events["event"].to_pylist().count("Mail")
    assert not file.rows(order_block(2), 0)  # a stage with one piece needs no order


def test_the_cut_into_batches_does_not_matter(flow: Dataflow, tmp_path: Path) -> None:
    events, routing = by_hand.events(8, 200), Routing(flow, 4)
    files = []
    for size in (1, 13, 200):
        route_range(batches_of(flow, events, size), routing, tmp_path / str(size))
        files.append((tmp_path / str(size)).read_bytes())
    assert files[0] == files[1] == files[2]


def test_pieces_with_one_route_share_a_block(flow: Dataflow) -> None:
    routing = Routing(flow, 2)
    assert routing.route_of[2] == routing.route_of[3]
    assert len(routing.routes) == 6  # links by (a, b) and at home; mails by (who, peer), who, host and at home
    assert all(route.key == () for route in Routing(flow, 1).routes)


def test_used_columns_are_those_of_pieces(flow: Dataflow) -> None:
    assert used_columns(flow)["Link"] == ["a", "b"]
    assert sorted(used_columns(flow)["Mail"]) == ["host", "marks", "peer", "size", "urgent", "who"]


@pytest.mark.parametrize("shards", [0, -1, 65_537])
def test_shards_out_of_bounds_are_refused(flow: Dataflow, shards: int) -> None:
    with pytest.raises(ProgramError, match=f"shards={shards}"):
        Routing(flow, shards)


def test_a_range_that_fails_leaves_no_file(flow: Dataflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "INT32_MAX", 100)
    with pytest.raises(InputError, match="cut the log into shorter ranges"):
        route_range(batches_of(flow, by_hand.events(9, 101), 50), Routing(flow, 2), tmp_path / "range")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 64, 1000])
def test_shards_of_keys(shards: int) -> None:
    keys = [pa.array(["a", "b", "", "süd"] * 50), pa.array(range(200))]
    expected = (stable_hash(keys) % np.uint64(shards)).astype(np.int64)
    assert shards_of(keys, shards).tolist() == expected.tolist()
