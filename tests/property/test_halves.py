"""Generated programs run in two halves: the state between them, in memory or on disk, carries everything over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.testing import Case, Outcome, Stream, assert_same, generate_case

PROGRAMS, CHUNK = 60, 10


def halves(case: Case) -> tuple[Case, list[pa.Table]]:
    """The case as one input in total order, and its table cut in two."""
    stream = Stream(case.stream.schemas, (tuple(case.stream.ordered()),))
    (table,) = stream.tables()
    middle = table.num_rows // 2
    return Case(case.seed, case.stream_seed, case.source, case.module, stream), [table[:middle], table[middle:]]


def without_seq(outcome: Outcome) -> Outcome:
    return Outcome(outcome.outputs.drop_columns(["seq"]), outcome.state)


def joined(outputs: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([t.unify_dictionaries() for t in outputs])


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_state_in_memory(start: int) -> None:
    for seed in range(start, start + CHUNK):
        case, tables = halves(generate_case(f"halves {seed}", n=40))
        expected = without_seq(case.run(engine="oracle"))
        app, outputs, state = case.module.app, [], None
        for table in tables:
            outputs.append(app.run(table, initial=state, engine="auto", jit=False).outputs)
            state = dict(app.state)
        actual = without_seq(Outcome(joined(outputs), dict(app.state)))
        assert_same(expected, actual, context=case.describe())


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_state_on_disk(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + CHUNK):
        case, tables = halves(generate_case(f"halves {seed}", n=40))
        expected = case.run(engine="oracle")
        options: dict[str, Any] = {"state": str(tmp_path / str(seed)), "batch": 7, "jit": False}
        outputs = [case.module.app.run(table, **options).outputs for table in tables]
        with ms.open(options["state"]) as database:
            state = {name: database.table(name) for name in expected.state}
        assert_same(expected, Outcome(joined(outputs), state), context=case.describe())
