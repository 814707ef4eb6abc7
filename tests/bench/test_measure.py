"""The parts of the benchmark that decide whether a figure may be believed."""

from __future__ import annotations

import io
import json
import time

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from mainstem.bench import fingerprint, memory
from mainstem.bench.measure import Ending, Figure, Stopwatch, disagreements, stopwatch, take_turns
from mainstem.bench.report import Peak, Report, Target

A, B = Ending("aaaa", "1111"), Ending("bbbb", "1111")
T = Stopwatch(1.0, 1.0)


def test_contenders_take_turns():
    order = []

    def contender(name, seconds):
        def run():
            order.append(name)
            return Stopwatch(seconds, seconds), A

        return run

    figures = take_turns({"x": contender("x", 2.0), "y": contender("y", 0.5)}, events=10, repeats=3)
    assert order == ["x", "y"] * 3
    assert [(f.name, f.best, len(f.times)) for f in figures] == [("x", 5.0, 3), ("y", 20.0, 3)]


def test_waiting_is_no_cpu_time():
    with stopwatch() as watch:
        time.sleep(0.05)
    assert watch.cpu_seconds < watch.seconds


def test_best_and_median():
    figure = Figure("x", 12, [Stopwatch(2.0, 1.0), Stopwatch(4.0, 0.5), Stopwatch(3.0, 3.0)])
    assert (figure.best, figure.median, figure.best_cpu) == (6.0, 4.0, 24.0)


class TestDisagreements:
    def test_equal_endings_agree(self):
        assert disagreements([Figure("x", 10, [T], [A]), Figure("y", 10, [T], [A])]) == []

    def test_other_events_may_end_otherwise(self):
        assert disagreements([Figure("x", 10, [T], [A]), Figure("y", 20, [T], [B])]) == []

    def test_a_difference_is_named(self):
        (line,) = disagreements([Figure("x", 10, [T], [A]), Figure("y", 10, [T], [B])])
        assert line == "y over 10 events ended in bbbb/1111, but x in aaaa/1111"

    def test_two_runs_of_one_contender_must_agree(self):
        assert disagreements([Figure("x", 10, [T, T], [A, B])])


def outputs(**changes) -> pa.Table:
    columns = {
        "seq": [0, 1, 2],
        "status": ["committed", "aborted", "committed"],
        "reason": [None, "insufficient funds", None],
        "left": [None, None, 7],
    }
    types = {"seq": pa.int64(), "status": pa.string(), "reason": pa.string(), "left": pa.int64()}
    return pa.table({**columns, **changes}, schema=pa.schema(types))


class TestFingerprint:
    def test_cuts_and_order_of_rows_do_not_matter(self):
        table = outputs()
        assert fingerprint.of_tables([table]) == fingerprint.of_tables([table.slice(2), table.slice(0, 2)])

    def test_dictionary_columns_are_like_strings(self):
        table = outputs()
        encoded = table.set_column(1, "status", table["status"].dictionary_encode())
        assert fingerprint.of_tables([table]) == fingerprint.of_tables([encoded])

    def test_arrays_and_tables_give_the_same(self):
        total = fingerprint.of_columns(np.arange(3), np.array([0, 2, 0]), np.array([0, 0, 7]), np.array([0, 0, 1]))
        assert fingerprint.of_tables([outputs()]) == fingerprint.text(total)

    @pytest.mark.parametrize(
        "changes",
        [
            {"seq": [0, 2, 1]},
            {"left": [None, None, 8]},
            {"left": [None, None, None]},
            {"left": [0, None, 7]},
            {"reason": [None, "insufficient units", None]},
            {"status": ["committed", "committed", "committed"]},
            {"status": ["aborted", "aborted", "committed"]},
        ],
    )
    def test_any_change_shows(self, changes):
        assert fingerprint.of_tables([outputs(**changes)]) != fingerprint.of_tables([outputs()])

    def test_lost_and_doubled_rows_show(self):
        table = outputs()
        digests = {fingerprint.of_tables(t) for t in ([table], [table.slice(1)], [table, table.slice(2)])}
        assert len(digests) == 3


def test_memory_sees_what_this_process_takes():
    with memory.PeakMemory() as peak:
        before = memory.resident()["driver"]
        block = np.ones(30_000_000)
        assert memory.resident()["driver"] - before > 100_000_000
        del block
    assert peak.bytes["driver"] >= before


def test_a_report_is_printed_and_written(tmp_path):
    report = Report(
        "title",
        [Figure("x", 10, [T], [A]), Figure("y", 10, [T], [B])],
        [Target("x / y", 2.0, 5.0)],
        [Peak(10, {"driver": 1_000_000})],
        ["a note"],
    )
    console = Console(record=True, width=140, file=io.StringIO())
    report.print(console)
    text = console.export_text()
    for part in ("title", "x / y", "missed", "a note", "digests differ", "aaaa", "bbbb"):
        assert part in text
    report.write(tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["figures"][0]["state_digest"] == "aaaa"
    assert written["targets"][0]["met"] is False
    assert len(written["disagreements"]) == 1
