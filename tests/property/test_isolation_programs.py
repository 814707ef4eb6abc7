"""Random programs with protocols: PL4 equals the oracle, PL3 equals it in the order of its history."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pauses import pausing
from strategies_support import strategy_case

from mainstem.testing import Case, Outcome, assert_same, check_history, generate_program, load_program, streamed
from mainstem.testing.serially import run_in_order, serial_order

PROTOCOLS = ("lock", "timestamp")
LEVELS = ("PL1", "PL2", "PL3", "PL4")


def check_levels(case: Case, expected: Outcome, found: Counter[str], turn: int, **options: Any) -> None:
    """Runs a case at all levels; `found` counts what happened."""
    app, events = case.module.app, case.stream.tables(1)
    for number, (level, protocol) in enumerate((level, protocol) for level in LEVELS for protocol in PROTOCOLS):
        how = {"threads": (1, 2, 4, 8)[(turn + number) % 4], "batch": (1_000, 1_000, 13)[turn % 3], **options}
        with case.described({"isolation": level, "protocol": protocol, **how}):
            result = app.run(events, isolation=level, protocol=protocol, history=True, **how)
            outcome = Outcome(result.outputs, dict(app.state))
            report = check_history(result.history, level, aborted=level >= "PL3")
            report.raise_if_broken()
            found.update({f"{level} {kind}": count for kind, count in report.counts.items()})
            found[f"{level} retries"] += result.stats.retries
            if level == "PL4":
                assert_same(expected, outcome)
            elif level == "PL3":
                assert_same(run_in_order(app, events, serial_order(result.history)), outcome)


def check_uncompiled(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    with pausing():
        for seed in seeds:
            case = strategy_case(seed)
            check_levels(case, case.run(engine="oracle"), found, seed, jit=False)
    return found


def test_uncompiled() -> None:
    found = check_uncompiled(range(12))
    # Threads did meet: levels differ, and executions were repeated.
    assert found["PL2 G2"] and found["PL3 ORDER"] and found["PL4 retries"], found


@pytest.mark.long
def test_more_uncompiled() -> None:
    found = check_uncompiled(range(12, 600))
    assert found["PL1 G1a"] and found["PL1 G1b"] and found["PL3 retries"], found


LONG = pytest.mark.long


@pytest.mark.parametrize(("number", "refs"), [(0, 3), pytest.param(1, 6, marks=LONG), pytest.param(2, 4, marks=LONG)])
def test_compiled(number: int, refs: int) -> None:
    name = f"isolation {number}"
    source = generate_program(
        name, functions=(1, 1), statements=(1, 3), tables=(1, 2), helpers=(0, 1), nesting=2, depth=2, extremes=0.0,
        work=1_500, refs=(refs, refs), all_refs=True, events=(1, 2), key_loops=0.5, refusals=0.3 * number,
    )  # fmt: skip
    module, found = load_program(source), Counter[str]()
    for stream in range(40):
        case = streamed(name, stream, source, module, n=120, extremes=0.0, nulls=0.1, keys=6)
        check_levels(case, case.run(engine="oracle"), found, stream, jit=True)
        if stream >= 2 and found["PL4 retries"]:
            return
    pytest.fail(f"threads never met: {found}")
