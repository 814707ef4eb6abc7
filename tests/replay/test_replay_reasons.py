"""Which of several aborts comes first, in functions that stages have taken apart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from replay_support import replayed

import mainstem as ms
from mainstem.replay import RareAbort, staged
from mainstem.testing import Outcome, assert_same

app = ms.App("reasons")


@app.event
class Step:
    a: int
    b: int


@app.table(key=int)
class Left:
    n: int = 0


@app.table(key=int)
class Right:
    n: int = 0


@app.on(Step)
def divides(e):  # type: ignore[no-untyped-def]
    Left[e.a].n = Right[e.b].n  # type: ignore[index]
    share = 100 // (e.a - 3)  # noqa: F841  (nothing needs it, but it may fail before the other abort)
    ms.require(e.b > 2, "too small")


@app.on(Step)
def back(e):  # type: ignore[no-untyped-def]
    Right[e.a].n = Left[e.b].n + 1  # type: ignore[index]


def test_a_computation_that_fails_before_an_abort(tmp_path: Path) -> None:
    """Nobody knows of a rare failure when stages are made, so the replay starts again and gives its reason."""
    log = pa.table({"ts": [1, 2, 3], "a": [1, 3, 2], "b": [5, 1, 1]})
    outputs = app.run(log, engine="oracle").outputs
    assert outputs["reason"].to_pylist() == [None, None, "division by zero", None, "too small", None]
    expected = Outcome(outputs, dict(app.state))
    with pytest.raises(RareAbort, match="function 0 aborted with the rare code"):
        replayed(staged(app.spec, "rare", jit=False), [log], tmp_path / "rare", jit=False, shards=2, size=2, epoch=1)
    flow = staged(app.spec, "tied", jit=False)
    assert_same(expected, replayed(flow, [log], tmp_path / "tied", jit=False, shards=2, size=2, epoch=1))


checked = ms.App("checked")


@checked.event
class Move:
    a: int
    b: int


@checked.table(key=int)
class Stock:
    n: int = 0

    @ms.check
    def never_negative(row):  # type: ignore[no-untyped-def]
        return row.n >= 0


@checked.table(key=int)
class Total:
    n: int = 0


@checked.on(Move)
def computes_a_key(e):  # type: ignore[no-untyped-def]
    Total[e.b * e.b].n += 1  # type: ignore[index]  # the key fails before the check does
    Stock[e.a].n -= 1  # type: ignore[index]


late = ms.App("late")


@late.event
class Sale:
    a: int
    b: int


@late.table(key=int)
class First:
    n: int = 0


@late.table(key=int)
class Second:
    n: int = 4


@late.on(Sale)
def fills_second(e):  # type: ignore[no-untyped-def]
    Second[e.b].n += First[e.a].n  # type: ignore[index]


@late.on(Sale)
def looks_ahead(e):  # type: ignore[no-untyped-def]
    First[e.a].n += 1  # type: ignore[index]
    product = Second[e.b].n * e.b  # type: ignore[index]  # noqa: F841  of a later stage than what decides about aborts
    ms.require(First[e.a].n < 2, "once only")  # type: ignore[index]


@pytest.mark.parametrize(
    ("program", "reasons"),
    [
        (checked, [None, "integer overflow", "check Stock.never_negative failed"]),
        (late, [None, None, None, "integer overflow", None, None]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_abort_of_an_earlier_stage_hides_nothing(program: ms.App, reasons: list[str | None], tmp_path: Path) -> None:
    log = pa.table({"ts": [1, 2, 3], "a": [1, 1, 2], "b": [3, 2**62, 3]})
    initial = {"Stock": pa.table({"key": [1], "n": [1]})} if program is checked else {}
    outputs = program.run(log, engine="oracle", initial=initial).outputs
    assert outputs["reason"].to_pylist() == reasons
    flow = staged(program.spec, "rare", jit=False)
    batches = {"jit": False, "shards": 2, "size": 2, "epoch": 1}
    with pytest.raises(RareAbort):
        replayed(flow, [log], tmp_path / "rare", initial=initial, **batches)
