"""Large batches: every strategy, compiled, on the workloads of the apps, against the serial engine."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from strategies_support import EVERY, THREADS, options_of

from mainstem.apps import bidding, grep_sum, ledger_work, toll

EVENTS = 100_000
BATCHES = (50_000, 10_240)
# Rows at the start, and knobs: enough conflicts and aborts to matter, few enough that lazy aborts end soon.
WORKLOADS: dict[ModuleType, tuple[int, dict[str, Any]]] = {
    grep_sum: (10_000, {"records": 10_000, "length": 2, "reads": 1}),
    ledger_work: (10_000, {"accounts": 10_000}),
    bidding: (10_000, {"items": 10_000, "length": 8}),
    toll: (1_000, {"segments": 1_000, "vehicles": 1_000}),
}


# Compiling every strategy for an app takes longer than running it.
@pytest.mark.parametrize(
    "module", [toll, *(pytest.param(app, marks=pytest.mark.long) for app in (bidding, grep_sum, ledger_work))]
)
def test_every_strategy_agrees_with_the_serial_engine(module: ModuleType) -> None:
    rows, knobs = WORKLOADS[module]
    events, start = module.generate(EVENTS, skew=0.4, abort=0.05, turns=1, **knobs), module.initial(rows)
    expected = module.app.run(events, initial=start, engine="serial")
    assert module.conserved(start, events, expected.outputs, module.app.state)
    assert 0.04 < expected.stats.aborted / EVENTS < 0.06
    for i, name in enumerate(EVERY):
        options = options_of(name, module.app.program, "apps")
        result = module.app.run(
            events, initial=start, threads=THREADS[1 + i % 2], batch=BATCHES[i // 2 % len(BATCHES)], **options
        )
        assert result.digest == expected.digest, f"{name} leaves another state"
        assert result.outputs.equals(expected.outputs), f"{name} gives other outputs"
