"""A failure inside a thread ends its batch: the error comes out, nobody hangs, the next run is right."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.apps import ledger_work
from mainstem.engine.entry import Bound, EntryPoint
from mainstem.engine.options import CHOICES

ROWS = 8
EVENTS = ledger_work.generate(60, accounts=ROWS, skew=0.8, abort=0.3, turns=0)
STRATEGIES: dict[str, dict[str, Any]] = {
    **{name: {"engine": name} for name in ("inflight", "lock", "pat", "mvlk", "components", "nolock")},
    **{f"chains {s}": {"engine": "chains", "sharing": s} for s in CHOICES["sharing"]},
    **{
        f"tpg {explore} {unit} {abort}": {"engine": "tpg", "explore": explore, "unit": unit, "abort": abort}
        for explore in CHOICES["explore"]
        for unit in CHOICES["unit"]
        for abort in CHOICES["abort"]
    },
    "nested": {"engine": "nested", "groups": {"hot keys": "tpg", "cold keys": "lock"}},
}


class Bug(Exception):
    """Something that no strategy expects."""


def fail_at(monkeypatch: pytest.MonkeyPatch, run: int, error: BaseException) -> None:
    """The transaction or vertex that is run as number `run` raises, in whatever thread that is."""
    bind, runs = EntryPoint.bind, itertools.count()

    def bind_failing(self: EntryPoint, arrays: dict[str, Any]) -> Bound:
        bound = bind(self, arrays)

        def failing(context: Any, item: int, worker: int) -> int:
            if next(runs) == run:
                raise error
            return bound.function(context, item, worker)

        return Bound(failing, bound.context, bound.kept)

    monkeypatch.setattr(EntryPoint, "bind", bind_failing)


def run(events: pa.Table = EVENTS, **options: Any) -> ms.Result:
    return ledger_work.app.run(events, initial=ledger_work.initial(ROWS), jit=False, **options)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_an_error_comes_out_and_the_next_run_is_right(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(engine="oracle").digest
    for at, error in ((0, Bug("first")), (17, KeyboardInterrupt("on the way")), (45, MemoryError("late"))):
        with monkeypatch.context() as patch:
            fail_at(patch, at, error)
            with pytest.raises(type(error), match=str(error)):
                run(threads=threads, **STRATEGIES[name])
        assert ledger_work.app.state.digest == expected, "a run that failed has changed app.state"
    if name != "nolock":
        assert run(threads=threads, **STRATEGIES[name]).digest == expected


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_failed_batch_is_not_committed_and_can_be_repeated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some strategies write to the tables while they run; what is on disk must not see it."""
    options: dict[str, Any] = {"state": tmp_path / "state", "batch": 5, "threads": 1 if name == "nolock" else 4}
    options |= STRATEGIES[name]
    with monkeypatch.context() as patch:
        fail_at(patch, 55, Bug("after some batches"))
        with pytest.raises(Bug):
            run(**options)
    with ms.open(options["state"]) as database:
        committed, stored = database.meta["seq"], {table: database.table(table) for table in database.tables}
    assert 0 < committed < len(EVENTS)
    run(EVENTS.slice(0, committed), engine="oracle")
    assert stored == dict(ledger_work.app.state)
    expected = run(engine="oracle").digest
    assert run(resume=True, **options).digest == expected
