"""Latencies: replayed from statistics, and measured by the `latency` benchmark."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from mainstem.bench.__main__ import cli
from mainstem.engine import BatchStats
from mainstem.errors import MainstemError
from mainstem.result import Stats, percentiles


def stats(*batches: tuple[int, float]) -> Stats:
    made = [BatchStats(events, events, events, 0, "serial", 0.0, seconds, 0.0) for events, seconds in batches]
    return Stats(batches=made)


class TestReplay:
    def test_an_event_waits_for_its_batch_to_fill(self):
        # Events arrive at 0, 1, 2, 3; batches end at 1.5 and 3.5.
        found = stats((2, 0.5), (2, 0.5)).latency(1.0)
        assert found == pytest.approx({"p50": 1.0, "p99": 1.5, "p999": 1.5, "max": 1.5})

    def test_a_batch_waits_for_the_one_before(self):
        # Batches end at 11 and 21.
        assert stats((2, 10.0), (2, 10.0)).latency(1.0)["max"] == pytest.approx(19.0)

    def test_like_a_loop_over_events(self):
        random = np.random.default_rng(5)
        batches = [(int(n), float(s)) for n, s in zip(random.integers(0, 9, 40), random.random(40), strict=True)]
        done, number, expected = 0.0, 0, []
        for events, seconds in batches:
            if events:
                arrivals = [(number + i) / 10.0 for i in range(events)]
                done = max(done, arrivals[-1]) + seconds
                expected += [done - arrival for arrival in arrivals]
                number += events
        assert stats(*batches).latency(10.0) == pytest.approx(percentiles(np.array(expected)))

    def test_more_events_per_second_make_a_longer_queue(self):
        run = stats(*[(100, 0.01)] * 50)
        assert run.latency(20_000)["p99"] > run.latency(5_000)["p99"]

    def test_no_events_have_no_latency(self):
        assert all(math.isnan(value) for value in stats().latency(1.0).values())

    @pytest.mark.parametrize("rate", [0, -1.0, float("nan")])
    def test_a_rate_is_positive(self, rate):
        with pytest.raises(MainstemError, match="events that arrive per second"):
            stats((1, 1.0)).latency(rate)


@pytest.mark.usefixtures("uncompiled")
def test_the_command_measures_each_app(tmp_path):
    sizes = ["--app", "TP", "--app", "GS", "--batch", "20", "--batches", "3"]
    done = CliRunner().invoke(cli, ["latency", *sizes, "--json", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "0.23 to 0.63" in done.output
    assert "All digests agree" in done.output
    report = json.loads((tmp_path / "out").read_text())
    assert [figure["app"] for figure in report["figures"]] == ["TP", "GS"]
    for figure in report["figures"]:
        assert figure["rate"] == pytest.approx(figure["rate_max"] / 2)
        assert figure["fill"] == pytest.approx(20 / figure["rate"])
        latency = figure["latency"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
        # The first event of a batch waits for the last one, and then for the batch to run.
        assert latency["max"] > figure["fill"] * 19 / 20


def test_one_strategy_at_a_time():
    done = CliRunner().invoke(cli, ["latency", "--strategy", "tpg"])
    assert done.exit_code == 2
    assert "tpg(ns, op, eager)" in done.output
