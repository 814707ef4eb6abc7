"""Predictions: what they are made of, and what a user is told. No number of seconds is checked, only what follows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import by_hand
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.errors import InputError, ProgramError
from mainstem.lang.dataflow import Dataflow
from mainstem.replay.keys import staged
from mainstem.replay.predict import EPOCH_EVENTS, Prediction, WhatIf, predict

EVENTS = 400


def predicted(what_if: dict[str, Any], **options: Any) -> Prediction:
    return predict(lambda overflow: by_hand.flow(), by_hand.events(1, EVENTS), what_if, **options)


@pytest.fixture(scope="module")
def found() -> Prediction:
    return predicted({"hosts": 6, "cores": 2})


def test_hosts_are_doubled_up_to_those_asked_for(found: Prediction) -> None:
    assert [row.hosts for row in found.forecasts] == [1, 2, 4, 6]
    assert WhatIf.of({"hosts": 8}).steps == [1, 2, 4, 8]
    assert WhatIf.of({"hosts": 1}).steps == [1]


def test_the_smallest_limit_decides(found: Prediction) -> None:
    for row in found.forecasts:
        assert row.rate == min(row.limits.values()) == row.limits[row.limit] > 0
        assert set(row.limits) >= {"work", "critical path"}
        assert ("network" in row.limits) == (row.hosts > 1)
        assert row.limits["work"] == pytest.approx(row.hosts * found.forecasts[0].limits["work"])
        assert row.ratio == pytest.approx(found.growth.at(EPOCH_EVENTS) / (EPOCH_EVENTS / row.hosts))


def test_every_stage_is_measured(found: Prediction) -> None:
    mails = by_hand.events(1, EVENTS)["event"].to_pylist().count("Mail")
    assert found.events == EVENTS
    assert [(stage.name, stage.wave, stage.keyed) for stage in found.stages] == [
        ("Friends", 1, True), ("Sender", 2, True), ("Host", 3, True)
    ]  # fmt: skip
    assert [stage.items_per_event for stage in found.stages] == [1.0, 2 * mails / EVENTS, mails / EVENTS]
    seconds = [found.route_seconds, found.home_seconds, *(stage.seconds_per_event for stage in found.stages)]
    assert min(seconds) > 0
    assert found.forecasts[0].limits["work"] == pytest.approx(2 / sum(seconds))
    assert found.bytes_per_event > 0


def test_hot_keys_are_counted(found: Prediction) -> None:
    mails = [row for row in by_hand.events(1, EVENTS).to_pylist() if row["event"] == "Mail"]
    hosts = [mail["host"] for mail in mails]
    hottest = found.stages[2].hottest
    assert [hot.share for hot in hottest] == sorted((hot.share for hot in hottest), reverse=True)
    assert hottest[0].share == max(map(hosts.count, hosts)) / len(hosts)
    assert hosts.count(hottest[0].key[0]) == max(map(hosts.count, hosts))


def test_a_hot_key_bounds_its_stage() -> None:
    """All mails of one host: however many shards there are, one of them runs all of these."""
    events = by_hand.events(1, EVENTS)
    at = events.schema.get_field_index("host")
    events = events.set_column(at, "host", pa.array(["only"] * EVENTS))
    found = predict(lambda overflow: by_hand.flow(), events, {"hosts": 16, "cores": 4})
    assert found.stages[2].hottest[0].share == 1.0
    limits = [row.limits["hottest shard of Host"] for row in found.forecasts]
    assert limits == pytest.approx([1 / found.stages[2].seconds_per_event] * len(limits))


def test_a_stage_that_is_not_keyed_is_one_task() -> None:
    flow = by_hand.flow((True, False, True))
    found = predict(lambda overflow: flow, by_hand.events(1, EVENTS), {"hosts": 4})
    limit = 1 / found.stages[1].seconds_per_event
    assert [row.limits["one task for Sender"] for row in found.forecasts] == [limit] * 3
    assert "Sender: all keys, because the stage runs in one task" in found.text


def test_starts_from_given_tables() -> None:
    by_hand.app.run(by_hand.events(2, 100))
    found = predicted({"hosts": 2}, initial=dict(by_hand.app.state))
    assert found.events == EVENTS


def test_only_the_sample_is_read() -> None:
    assert predicted({"hosts": 2}, sample=100).events == 100


def test_the_text_says_where_it_comes_from(found: Prediction) -> None:
    text = found.text
    assert "a prediction, nothing has run on 6 hosts" in text
    assert f"the first {EVENTS} events of the log" in text
    for row in found.forecasts:
        assert f"{row.rate:,.0f}" in text and row.limit in text
    assert "(from the growth above)" in text
    assert f"Host[{found.stages[2].hottest[0].key[0]!r}]: {found.stages[2].hottest[0].share:.2%}" in text


@pytest.mark.parametrize(
    ("what_if", "told"),
    [
        ({}, "how many hosts"),
        ({"cores": 2}, "how many hosts"),
        ({"hosts": 0}, "hosts=0"),
        ({"hosts": 1.5}, "hosts=1.5"),
        ({"hosts": 2, "moons": 1}, "'moons'"),
    ],
)
def test_questions_that_make_no_sense(what_if: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        predicted(what_if)


def test_logs_that_tell_nothing() -> None:
    with pytest.raises(InputError, match="4 or more events"):
        predict(lambda overflow: by_hand.flow(), by_hand.events(1, 2), {"hosts": 2})
    reader = by_hand.events(1, EVENTS).to_reader()
    with pytest.raises(InputError, match="read many times"):
        predict(lambda overflow: by_hand.flow(), reader, {"hosts": 2})
    with pytest.raises(InputError, match="sample=3"):
        predicted({"hosts": 2}, sample=3)


# -- through the app ------------------------------------------------------------------------------------------

totals = ms.App("totals")


@totals.event
class Add:
    key: int
    amount: int


@totals.table(key=int)
class First:
    sum: int = 0


@totals.table(key=int)
class Second:
    sum: int = 0


@totals.on(Add)
def add(e):
    First[e.key].sum += e.amount
    Second[e.key].sum += First[e.key].sum


def amounts(large: int) -> pa.Table:
    return pa.table({"ts": range(40), "key": [n % 4 for n in range(40)], "amount": [1] * 39 + [large]})


def test_explain_asks_with_a_log(tmp_path: Path) -> None:
    pq.write_table(amounts(1), tmp_path / "log.parquet")
    plain = totals.explain()
    text = totals.explain(what_if={"hosts": 2}, log=str(tmp_path))
    assert text.startswith(plain) and "a prediction" in text[len(plain) :]
    with pytest.raises(ProgramError, match="log="):
        totals.explain(what_if={"hosts": 2})
    with pytest.raises(ProgramError, match="mermaid"):
        totals.explain("mermaid", what_if={"hosts": 2}, log=str(tmp_path))


def test_a_rare_abort_is_measured_with_the_other_dataflow() -> None:
    asked: list[str] = []

    def flows(overflow: Any) -> Dataflow:
        asked.append(overflow)
        return partial(staged, totals.spec)(overflow)

    initial = {"First": pa.table({"key": [3], "sum": [2**62]})}
    predict(flows, amounts(2**62), {"hosts": 2}, initial=initial)
    assert asked == ["rare", "tied"]
