"""Durable runs with parallel strategies: what they commit, batch by batch, is the whole state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.store import Store
from mainstem.testing import Case, Outcome, Stream, assert_same, generate_case

PROGRAMS = 6  # each with another strategy in each half
STRATEGIES: list[dict[str, Any]] = [
    {"engine": "serial"},
    *({"engine": engine} for engine in ("inflight", "lock", "pat", "mvlk", "components")),
    {"engine": "chains", "sharing": "nothing"},
    {"engine": "chains", "sharing": "everything"},
    {"engine": "tpg", "explore": "ns", "unit": "op", "abort": "eager"},
    {"engine": "tpg", "explore": "bfs", "unit": "group", "abort": "lazy"},
    {"engine": "tpg", "explore": "dfs", "unit": "op", "abort": "lazy"},
    {"engine": "nested", "groups": {"hot keys": "tpg", "cold keys": "components"}},
    {"engine": "nested", "groups": {"hot keys": "serial", "cold keys": "mvlk"}},
]


def one_log(seed: object) -> tuple[Case, pa.Table]:
    """A case as one input in total order, so that it can be cut anywhere; rows are deleted and transactions abort."""
    case = generate_case(f"durable {seed}", n=60, refusals=0.2, key_loops=0.5)
    stream = Stream(case.stream.schemas, (tuple(case.stream.ordered()),))
    (table,) = stream.tables()
    return Case(case.seed, case.stream_seed, case.source, case.module, stream), table


def stored(path: Path, like: Outcome) -> dict[str, pa.Table]:
    with ms.open(path) as database:
        return {name: database.table(name) for name in like.state}


@pytest.mark.parametrize("first", range(len(STRATEGIES)), ids=lambda i: STRATEGIES[i]["engine"])
def test_halves_with_different_strategies_and_a_resumed_run(first: int, tmp_path: Path) -> None:
    for number in range(PROGRAMS):
        case, log = one_log(number)
        expected = case.run(engine="oracle")
        path = tmp_path / str(number)
        options: dict[str, Any] = {"state": path, "threads": 1 + number % 4, "batch": 9, "jit": False}
        other = STRATEGIES[(first + number) % len(STRATEGIES)]
        app, middle = case.module.app, log.num_rows // 2
        outputs = [
            app.run(log[:middle], **options, **STRATEGIES[first]).outputs,
            app.run(log, resume=True, **options, **other).outputs,
        ]
        joined = pa.concat_tables([t.unify_dictionaries() for t in outputs])
        actual = Outcome(joined, stored(path, expected))
        assert_same(expected, actual, context=case.describe(f"{STRATEGIES[first]}, {other}"))


@pytest.mark.parametrize("jit", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("options", STRATEGIES, ids=lambda o: o["engine"])
def test_deltas_name_rows_that_were_written_and_not_all_that_were_touched(
    options: dict[str, Any], jit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ms.App("reads")

    @app.event
    class Look:
        key: int
        step: int

    @app.table(key=int)
    class Row:
        seen: int = 0

    @app.on(Look)
    def look(e: Any) -> Any:
        ms.require(e.step < 3, "too far")
        if e.step > 0:
            Row[e.key].seen += e.step
        return {"before": Row[e.key + 1].seen}

    commit, committed = Store.commit, []

    def noted(self: Store, deltas: dict[str, pa.Table], *rest: Any, **named: Any) -> int:
        committed.append(deltas)
        return commit(self, deltas, *rest, **named)

    monkeypatch.setattr(Store, "commit", noted)
    events = pa.table({"ts": list(range(20)), "key": list(range(20)), "step": [i % 4 for i in range(20)]})
    app.run(events, state=tmp_path / "state", jit=jit, threads=2, **options)
    (deltas,) = committed
    assert sorted(deltas["Row"]["key"].to_pylist()) == [k for k in range(20) if k % 4 in (1, 2)]
