"""The benchmark of the live gate, small: structures agree, nobody waits for ever, figures have their names."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mainstem.bench import gate as gate_bench
from mainstem.bench.gate_threads import RING, Contender
from mainstem.gate.live.kernels import queues, skiplist, tgate

SMALL = gate_bench.Options(inputs=(2, 3), events=3_000, repeats=1, block_events=70_000)


@pytest.mark.parametrize("structure", [tgate, skiplist, queues], ids=lambda s: s.__name__.split(".")[-1])
def test_a_full_input_lets_its_thread_serve_the_others(structure: object) -> None:
    """One thread for two inputs; the first is full long before the second brings what makes its events ready."""
    each = 3 * RING
    ts = np.concatenate([np.arange(each), np.arange(each) // 1_000])
    outcome = Contender("it", structure).run(ts, 2, 1, 0.0)  # type: ignore[arg-type]
    number = np.repeat([0, 1], each)
    assert np.array_equal(outcome.rows, np.lexsort((number, ts)))


def test_structures_agree_and_figures_have_names(tmp_path: Path) -> None:
    results = gate_bench.benchmark(SMALL)
    assert results.disagreements == []
    assert [(p.inputs, p.name) for p in results.points[:3]] == [(2, name) for name in gate_bench.STRUCTURES]
    assert all(point.rate > 0 and point.latency_ms["p99"] > 0 for point in results.points)
    printed = io.StringIO()
    gate_bench.print_results(results, Console(file=printed, width=160))
    for text in ("order alone", "insert to ready", "T-Gate / locked queues, 3 inputs", "All digests agree"):
        assert text in printed.getvalue()
    results.write(tmp_path / "gate.json")
    written = json.loads((tmp_path / "gate.json").read_text())
    assert [rates["inputs"] for rates in written["blocks"]] == list(gate_bench.BLOCK_INPUTS)
    assert len(written["targets"]) == 2 + len(gate_bench.BLOCK_INPUTS)
