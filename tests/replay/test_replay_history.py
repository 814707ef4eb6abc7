"""Histories in a staged replay: rows with their rings live in the shards of their stage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from replay_support import replayed

import mainstem as ms
from mainstem.lang import dataflow
from mainstem.testing import Outcome, assert_same

app = ms.App("stages with histories")


@app.event
class Message:
    sender: int
    ip: int
    size: int


@app.event
class Report:
    sender: int


@app.history(key=int, keep=5)
class Sent:
    ip: int
    size: int


@app.history(key=int, keep=50)
class Traffic:
    sender: int


@app.table(key=int)
class Reports:
    n: int = 0


@app.on(Report)
def report(e):
    Reports[e.sender].n += 1


@app.on(Message)
def send(e):
    Sent[e.sender].append(ip=e.ip, size=e.size)
    return {"recent": Sent[e.sender].count(last=12), "ips": Sent[e.sender].distinct("ip"), "bad": Reports[e.sender].n}


@app.on(Message)
def watch(e):
    ms.require(e.size != 7, "odd size")
    Traffic[e.ip].append(sender=e.sender)
    return {"senders": Traffic[e.ip].distinct("sender", last=40), "first": Traffic[e.ip].top("sender", last=40)}


def log(seed: int, count: int = 240) -> list[object]:
    draw, ts, events = random.Random(f"history stages {seed}"), 0, []
    for _ in range(count):
        ts += draw.choice((0, 1, 2))
        if draw.random() < 0.2:
            events.append(Report(ts=ts, sender=draw.randrange(9)))
        else:
            sender = min(draw.randrange(9), draw.randrange(9))
            events.append(Message(ts=ts, sender=sender, ip=draw.randrange(6), size=draw.randrange(9)))
    return events


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_stages_equal_the_oracle(shards: int, tmp_path: Path) -> None:
    flow = dataflow(app.spec)
    events = log(shards)
    result = app.run(events, engine="oracle")
    expected = Outcome(result.outputs, dict(app.state))
    assert "history of Sent is full: keep more than 5 entries" in result.outputs["reason"].to_pylist()
    actual = replayed(flow, events, tmp_path, shards=shards, size=40, epoch=2, jit=False)
    assert_same(expected, actual)


def test_histories_are_stages_in_shards_by_key() -> None:
    flow = dataflow(app.spec)
    names = [table.name for table in app.program.tables]
    # Arrays are not handed from stage to stage, so `Sent` and the table that the same function reads are together.
    assert [[names[i] for i in stage.tables] for stage in flow.stages] == [["Sent", "Reports"], ["Traffic"]]
    assert all(stage.keyed for stage in flow.stages)
