"""Meters and comments: generators of the promised shape, windows that a second look confirms, queries as data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mainstem.apps import comments, load, meters
from mainstem.apps.workloads.multiway import QUERIES
from mainstem.errors import InputError
from mainstem.testing.compare import Outcome, assert_same

TOWN = {"meters": 9, "outages": 0.1}
CHARTS = {"songs": 20, "users": 50, "rate": 12, "emails": 0.2, "ips": 0.1}


class TestGenerators:
    @pytest.mark.parametrize("module", [meters, comments])
    def test_a_smaller_log_is_a_prefix(self, module):
        long = module.generate(70_000)
        assert module.generate(1_000).equals(long.slice(0, 1_000))
        assert not module.generate(1_000, seed=1).equals(long.slice(0, 1_000))

    @pytest.mark.parametrize("module", [meters, comments])
    def test_time_rises_and_has_ties(self, module):
        steps = np.diff(module.generate(140_000)["ts"].to_numpy())
        assert steps.min() == 0 and steps.max() >= 1 and (steps == 0).mean() > 0.9

    @pytest.mark.parametrize(("module", "key"), [(meters, "meter"), (comments, "song")])
    def test_inputs_hold_every_event_once_and_in_order(self, module, key):
        events = module.generate(20_000)
        inputs = module.inputs(events, 7)
        assert len(inputs) == 7 and all(np.diff(part["ts"].to_numpy()).min() >= 0 for part in inputs)
        order = [("ts", "ascending"), (key, "ascending")]
        numbers = ["ts", key]
        assert pa.concat_tables(inputs).select(numbers).sort_by(order).equals(events.select(numbers).sort_by(order))
        spread = [len(np.unique(part[key].to_numpy() % 7)) for part in inputs]
        assert min(spread) == 7, "keys come by several inputs"

    def test_meters_report_once_per_unit(self):
        events = meters.generate(243 * 40)
        assert (np.bincount(events["ts"].to_numpy()) == 243).all()
        assert pc.count_distinct(events["meter"]).as_py() == 243
        assert events["wh"].null_count == pc.sum(pc.equal(events["event"].cast("string"), "Outage")).as_py() > 0
        assert pc.min(events["wh"]).as_py() >= 0

    def test_comments_come_at_their_rate(self):
        events = comments.generate(65_536)
        assert events["ts"][-1].as_py() == 65
        assert pc.count_distinct(events["song"]).as_py() > 10_000

    def test_a_scan_finds_what_the_generator_put_in(self):
        events = comments.generate(20_000)
        text = events["text"].combine_chunks()
        assert comments.has_email(text).equals(events["has_email"].combine_chunks())
        assert comments.has_ip(text).equals(events["has_ip"].combine_chunks())
        assert 0.03 < pc.mean(events["has_email"]).as_py() < 0.07 and 0.01 < pc.mean(events["has_ip"]).as_py() < 0.03

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("10.0.0.1", True), ("at 255.255.255.255!", True), ("1.2.3", False), ("1.2.3.256", False),
            ("1.2.3.4.5", False), ("v1.2.3.4", True), ("301.2.3.4", False), ("1.2.3.4.", False), ("", False),
        ],
    )  # fmt: skip
    def test_ip_addresses(self, text: str, wanted: bool):
        assert comments.has_ip(pa.array(["no", text])).to_pylist() == [False, wanted]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: meters.generate(10, meters=0), "meters=0"),
            (lambda: meters.generate(10, outages=2), "outages=2"),
            (lambda: comments.generate(10, rate=0), "rate=0"),
            (lambda: comments.generate(10, emails=0.7, ips=0.7), r"emails \+ ips=1.4"),
            (lambda: meters.inputs(meters.generate(10), 0), "inputs=0"),
        ],
    )
    def test_wrong_knobs_are_named(self, make, message: str):
        with pytest.raises(InputError, match=message):
            make()


@pytest.mark.parametrize(("module", "knobs"), [(meters, TOWN), (comments, CHARTS)], ids=["meters", "comments"])
class TestRuns:
    def test_a_second_look_agrees(self, module, knobs):
        events = module.generate(3_000, **knobs)
        result = module.app.run(events)
        state = dict(module.app.state)
        assert module.conserved(module.initial(), events, result.outputs, state)
        assert not module.conserved(module.initial(), events.slice(0, 2_900), result.outputs, state)
        for name, table in state.items():
            for column in set(table.column_names) - {"key"}:
                values = table[column].to_numpy().copy()
                values[len(values) // 2] += 1
                forged = table.set_column(table.column_names.index(column), column, pa.array(values))
                assert not module.conserved(module.initial(), events, result.outputs, {**state, name: forged}), column

    def test_the_oracle_agrees(self, module, knobs):
        events = module.generate(400, **knobs)
        found = Outcome(module.app.run(events, batch=64).outputs, dict(module.app.state))
        wanted = Outcome(module.app.run(events, engine="oracle").outputs, dict(module.app.state))
        assert_same(found, wanted)

    def test_several_inputs_give_the_windows_of_one(self, module, knobs):
        events = module.generate(1_000, **knobs)
        module.app.run(events)
        counts = {name: module.app.state[name].num_rows for name in module.app.state}
        result = module.app.run(module.inputs(events, 4))
        assert counts == {name: module.app.state[name].num_rows for name in module.app.state}
        ordered = pa.concat_tables(module.inputs(events, 4)).take(
            pc.sort_indices(pa.concat_tables(module.inputs(events, 4))["ts"])
        )
        assert module.conserved(module.initial(), ordered, result.outputs, dict(module.app.state))


def test_alarms_come_from_windows_with_many_outages():
    report = meters.Outage
    events = [report(ts=ts, meter=5) for ts in (1, 2, 3)] + [report(ts=50, meter=6)]
    meters.app.run(events)
    rows = {row["key"]: row for row in meters.app.state["Meter"].to_pylist()}
    # Nine windows hold all three: those that start from -24 to 0.
    assert (rows[5]["outages"], rows[5]["alarms"]) == (3, 9)
    assert (rows[6]["outages"], rows[6]["alarms"]) == (1, 0)


def test_the_twelve_queries_fit_their_data_sets():
    assert len(QUERIES) == 12
    assert sum(query.order_sensitive for query in QUERIES.values()) == 6
    for query in QUERIES.values():
        columns = load(query.dataset).generate(10).column_names
        assert {query.by, query.of or query.by} <= set(columns)
        assert query.size // query.advance == (20 if query.name[0] == "W" else 10)
        assert (query.aggregate == "first") == query.order_sensitive
