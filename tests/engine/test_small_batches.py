"""Batches cut from one record batch: columns are read in place, and memory of keys is used again and grows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mainstem.apps import bidding, grep_sum


def one_after_the_other(*tables: pa.Table) -> pa.Table:
    """The events of all tables, in one record batch, with times that go on."""
    joined = pa.concat_tables(tables).combine_chunks()
    ts = pa.array(np.arange(joined.num_rows))
    return joined.set_column(joined.schema.get_field_index("ts"), "ts", ts)


EVENTS = {
    "grep_sum": one_after_the_other(*(grep_sum.generate(40, length=length, seed=length) for length in (1, 3, 10, 2))),
    "bidding": one_after_the_other(*(bidding.generate(40, length=length, seed=length) for length in (2, 20, 1))),
}
APPS = {"grep_sum": grep_sum, "bidding": bidding}


@pytest.fixture(scope="module")
def expected() -> dict[str, tuple[pa.Table, dict[str, pa.Table]]]:
    return {name: run(name, EVENTS[name], 1_000, "oracle") for name in APPS}


def run(name: str, events: pa.Table | pa.RecordBatch, batch: int, engine: str) -> tuple[pa.Table, dict[str, pa.Table]]:
    app = APPS[name].app
    outputs = app.run(events, initial=APPS[name].initial(), batch=batch, engine=engine).outputs
    return outputs.combine_chunks(), {table: app.state[table] for table in app.state}


@pytest.mark.parametrize("engine", ["serial", "tpg"])
@pytest.mark.parametrize("batch", [1, 16, 1_000])
@pytest.mark.parametrize("name", list(APPS))
def test_batches_of_any_size_give_the_same(expected, name: str, batch: int, engine: str) -> None:
    """More keys per event in later batches than there was room for in the first ones."""
    outputs, state = run(name, EVENTS[name], batch, engine)
    assert outputs.to_pylist() == expected[name][0].to_pylist()
    assert all(state[table].equals(rows) for table, rows in expected[name][1].items())


@pytest.mark.parametrize("name", list(APPS))
def test_columns_that_start_inside_their_memory(name: str) -> None:
    """Lists of a record batch without its first rows do not start at item 0."""
    rest = EVENTS[name].slice(53).to_batches()[0]
    copied = pa.Table.from_pylist(EVENTS[name].to_pylist()[53:], EVENTS[name].schema)
    outputs, state = run(name, rest, 10, "serial")
    oracle_outputs, oracle_state = run(name, copied, 1_000, "oracle")
    assert outputs.to_pylist() == oracle_outputs.to_pylist()
    assert all(state[table].equals(rows) for table, rows in oracle_state.items())
