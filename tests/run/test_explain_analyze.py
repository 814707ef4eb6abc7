"""`explain` shows the parts of functions, `explain(analyze=True)` what ran and why; statistics as a table."""

from __future__ import annotations

import re
from typing import Any

import programs
import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.engine import BatchStats, Breakdown
from mainstem.result import Stats

BREAKDOWN = ("useful", "sync", "lock", "construct", "explore", "abort")


def run(**options: Any) -> ms.Result:
    settings: dict[str, Any] = {"jit": False, "batch": 50, **options}
    return programs.app.run(programs.events(200), initial=programs.initial(), **settings)


def batch(engine: str, why: str = "", breakdown: Breakdown | None = None, threads: int = 1) -> BatchStats:
    return BatchStats(100, 100, 90, 10, engine, 0.1, 0.6, 0.3, why, threads, breakdown)


def test_explain_shows_the_parts_of_each_function() -> None:
    parts = programs.app.program.functions[0].parts
    assert len(parts) == 2
    lines = programs.app.explain().splitlines()
    at = lines.index(f"    {parts[0].text}")
    assert lines[at + 1] == f"    {parts[1].text}"
    assert "transfer(Transfer)" in "".join(lines[:at])


def test_analyze_adds_what_ran_last() -> None:
    plan = programs.app.explain()
    run(engine="serial")
    text = programs.app.explain(analyze=True)
    assert text.startswith(plan)
    assert "\nwhat ran last\n  200 events in " in text
    assert re.search(r"\n  serial: 4 batches, 200 events, [\d,]+/s, 1 thread\n    steps: keys \d+%, run \d+%", text)
    assert "threads: useful" not in text
    run(engine="tpg", explore="dfs", abort="lazy", threads=2)
    text = programs.app.explain(analyze=True)
    assert re.search(r"\n  tpg\(dfs, op, lazy\): 4 batches, 200 events, [\d,]+/s, 2 threads\n", text)
    assert re.search("threads: " + r" \d+%, ".join(BREAKDOWN) + r" \d+% of [\d.]+ s\n", text)
    assert "serial: " not in text[len(plan) :]


def test_auto_says_why() -> None:
    result = run(engine="auto")
    assert all(b.why for b in result.stats.batches)
    assert "    because " in programs.app.explain(analyze=True)[len(programs.app.explain()) :]


def test_strategies_reasons_and_times_are_summed_up() -> None:
    half = Breakdown(useful=1.0, sync=0.5, construct=0.5)
    stats = Stats(
        4.0,
        [
            batch("serial", "12 ns per transaction: too little"),
            batch("mvlk", "1.8 × serial expected", half, threads=2),
            batch("serial", "9.5 ns per transaction: too little"),
            batch("serial", "one thread"),
        ],
    )
    assert stats.analysis.splitlines() == [
        "400 events in 4.00 s (100/s), 360 committed, 40 aborted, 0 rejected, engine serial, mvlk",
        "serial: 3 batches, 300 events, 100/s, 1 thread",
        "  because 9.5 ns per transaction: too little (2 batches, these are the last one's figures)",
        "  because one thread (1 batch)",
        "  steps: keys 10%, run 60%, outputs 30% of 3.000 s",
        "mvlk: 1 batch, 100 events, 100/s, 2 threads",
        "  because 1.8 × serial expected (1 batch)",
        "  steps: keys 10%, run 60%, outputs 30% of 1.000 s",
        "  threads: useful 50%, sync 25%, lock 0%, construct 25%, explore 0%, abort 0% of 2.000 s",
    ]


def test_analyze_needs_a_run_and_writes_text() -> None:
    app = ms.App("fresh")

    @app.event
    class Tick:
        n: int

    @app.table(key=int)
    class Count:
        n: int = 0

    @app.on(Tick)
    def tick(e):
        Count[e.n].n += 1

    with pytest.raises(ms.ProgramError, match=r"app fresh has not run in this process\n  call app.run\(events\) first"):
        app.explain(analyze=True)
    app.run([], jit=False)
    assert "0 events in" in app.explain(analyze=True)
    with pytest.raises(ms.ProgramError, match=r"explain\(analyze=True\) can't write 'mermaid'"):
        app.explain("mermaid", analyze=True)


def test_statistics_as_a_table_have_a_column_per_kind_of_time() -> None:
    table = Stats(1.0, [batch("serial"), batch("mvlk", "why not", Breakdown(useful=2.0), threads=2)]).table
    assert table["seconds_useful"].to_pylist() == [None, 2.0]
    assert table["seconds_lock"].to_pylist() == [None, 0.0]
    assert table.select(["engine", "why", "threads", "aborted"]).to_pylist()[1] == {
        "engine": "mvlk", "why": "why not", "threads": 2, "aborted": 10,
    }  # fmt: skip
    assert "breakdown" not in table.column_names
    assert Stats().table.schema == table.schema
    assert table.schema.field("why").type == pa.string()
