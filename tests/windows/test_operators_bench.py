"""The benchmark of window operators: small, whole, and with operators that must agree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from mainstem.apps.workloads.multiway import QUERIES
from mainstem.bench import windows, windows_report

SMALL = windows.Options(
    queries=("w-OI", "f-OS"), inputs=(3,), events=4_000, latency_events=2_000, repeats=1, ratios=(1, 3)
)


def test_operators_agree_and_are_reported(tmp_path: Path):
    results = windows.benchmark(SMALL, lambda line: None)
    assert results.disagreements == []
    assert [figure.operator for figure in results.figures] == [
        "mq", "mq_lf", "tuml_sc", "tuml_mc", "wiml", "panes", "mq", "mq_lf", "tuml_sc", "tuml_mc", "panes",
    ]  # fmt: skip
    assert all(figure.windows > 0 and figure.latency_ms_p99 >= figure.latency_ms > 0 for figure in results.figures)
    console = Console(record=True, width=140, quiet=True)
    windows_report.print_results(results, console)
    windows_report.write(results, tmp_path / "figures.json")
    written = json.loads((tmp_path / "figures.json").read_text())
    assert len(written["figures"]) == 11 and written["disagreements"] == []
    assert [target["what"] for target in written["targets"]] == [
        "w-OI: panes over wiml (times)", "f-OS: panes over tuml_sc (times)",
        "panes: cheapest over dearest size / advance",
    ]  # fmt: skip


def test_a_wrong_window_is_a_disagreement():
    results = windows.Results(SMALL)
    figure = windows.Figure("w-OI", 3, "mq", 10, 1.0, 1.0, 1.0, 1.0, 5, "aa")
    results.figures = [figure, replace(figure, operator="panes", digest="bb")]
    assert results.disagreements == ["w-OI over 3 inputs: panes gave bb, but mq aa"]


def test_every_query_is_a_window():
    for query in QUERIES.values():
        window = windows.window_for(query)
        assert window.size == query.size and [f.name for f in window.by] == [query.by]
